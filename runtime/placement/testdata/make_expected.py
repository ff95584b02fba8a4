#!/usr/bin/env python3
"""Writes expected.txt: placement as TensorFlow itself does it, for placement_tensorflow_test.cc.

  pip install tensorflow-cpu==2.15.1 && python3 make_expected.py > expected.txt

One case a line, fields separated by blanks:

  split  PARTITIONER ELEMENT_BYTES SHAPE = rows of part 0, part 1 ...
  lookup RULE ROWS PARTS = part:row of id 0, id 1 ... (or of ID>part:row, where only some are asked for)
  place  STRATEGY SERVERS VARIABLE ... = the servers of each variable's parts: 0 1,2 0

SHAPE is 10x3, or scalar. VARIABLE is ELEMENT_BYTES/SHAPE/PARTITIONER/SERVER, SERVER - when the program
names none. PARTITIONER is written as on a command line.
"""

import logging
import os
import random
import socket
import sys
from contextlib import nullcontext

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf  # noqa: E402

logging.disable(logging.WARNING)

v1 = tf.compat.v1
v2 = tf.distribute.experimental.partitioners

DTYPES = {1: tf.bool, 2: tf.float16, 4: tf.float32, 8: tf.int64}


def shape_text(shape):
    return "x".join(map(str, shape)) or "scalar"


def v1_partitioner(text):
    name, *numbers = text.split(":")
    numbers = list(map(int, numbers))
    if name == "fixed":
        return v1.fixed_size_partitioner(numbers[0])
    if name == "min_size":
        return v1.min_max_variable_partitioner(min_slice_size=numbers[0], max_partitions=numbers[1])
    if name == "max_size":
        return v1.variable_axis_size_partitioner(numbers[0], max_shards=(numbers + [None])[1])
    return None


def v2_partitioner(text):
    name, *numbers = text.split(":")
    numbers = list(map(int, numbers))
    if name == "fixed":
        return v2.FixedShardsPartitioner(numbers[0])
    if name == "min_size":
        return v2.MinSizePartitioner(*numbers)
    if name == "max_size":
        return v2.MaxSizePartitioner(*numbers)
    return lambda shape, dtype: [1] * len(shape)


def v1_variable(name, element_bytes, shape, partitioner):
    """The parts of one variable, in the graph alone: no values, so that it can be large."""
    variable = v1.get_variable(name, shape, DTYPES[element_bytes], v1.zeros_initializer(),
                               partitioner=v1_partitioner(partitioner))
    return list(variable) if hasattr(variable, "_variable_list") else [variable]


def split_case(partitioner, element_bytes, shape):
    with tf.Graph().as_default():
        parts = v1_variable("v", element_bytes, shape, partitioner)
    rows = [part.shape[0] for part in parts]
    print("split", partitioner, element_bytes, shape_text(shape), "=", *rows)


def random_partitioner(random_numbers, total_bytes):
    def size():
        return max(1, int(total_bytes / random_numbers.uniform(0.5, 12)))
    kind = random_numbers.choice(["fixed", "min_size", "max_size", "max_size_capped"])
    parts = random_numbers.randint(1, 9)
    return {"fixed": f"fixed:{parts}", "min_size": f"min_size:{size()}:{parts}",
            "max_size": f"max_size:{size()}", "max_size_capped": f"max_size:{size()}:{parts}"}[kind]


def random_variable(random_numbers):
    element_bytes = random_numbers.choice(list(DTYPES))
    shape = [random_numbers.randint(1, 40) for _ in range(random_numbers.randint(1, 3))]
    total_bytes = element_bytes
    for dimension in shape:
        total_bytes *= dimension
    return element_bytes, shape, random_partitioner(random_numbers, total_bytes)


def split_cases():
    print("# split: tf.compat.v1.get_variable(..., partitioner)")
    for case in [("fixed:2", 4, [10, 3]), ("fixed:5", 4, [3, 8]), ("fixed:4", 4, [10, 1]),
                 ("fixed:5", 4, [13]), ("min_size:4:2", 4, [6, 1]), ("min_size:4:10", 4, [6, 1]),
                 ("min_size:262144:1", 4, [1024, 1024]), ("min_size:262144:16", 4, [1024, 1024]),
                 ("min_size:262144:8", 4, [98304]), ("max_size:65536", 4, [1000, 64]),
                 ("max_size:100000", 4, [1000, 64]), ("max_size:7", 4, [5, 2]),
                 ("max_size:67108864", 4, [10000000, 16]), ("max_size:67108864:4", 4, [10000000, 16])]:
        split_case(*case)
    random_numbers = random.Random(1)
    for _ in range(60):
        element_bytes, shape, partitioner = random_variable(random_numbers)
        split_case(partitioner, element_bytes, shape)


def look_up(rule, rows, parts, ids):
    """Asks a table whose every row holds its own address: its part, and its row there."""
    tables = []
    for part in range(parts):
        count = rows // parts + (part < rows % parts)
        tables.append(tf.stack([tf.fill([count], part), tf.range(count)], axis=1))
    found = v1.nn.embedding_lookup(tables, tf.constant(ids, tf.int64), partition_strategy=rule)
    return [f"{part}:{row}" for part, row in found.numpy()]


def lookup_cases():
    print("# lookup: tf.compat.v1.nn.embedding_lookup, partition_strategy")
    sizes = [(13, 5), (10, 4), (12, 4), (7, 7), (1, 1), (9, 1), (100, 64), (41, 3)]
    for rule in "div", "mod":
        for rows, parts in sizes:
            print("lookup", rule, rows, parts, "=", *look_up(rule, rows, parts, list(range(rows))))
        random_numbers = random.Random(2)
        rows, parts = 1000003, 17
        ids = [random_numbers.randrange(rows) for _ in range(40)] + [0, rows - 1]
        found = look_up(rule, rows, parts, ids)
        print("lookup", rule, rows, parts, "=", *(f"{i}>{a}" for i, a in zip(ids, found)))


def variable_text(element_bytes, shape, partitioner="none", server=None):
    return f"{element_bytes}/{shape_text(shape)}/{partitioner}/{'-' if server is None else server}"


def place_line(strategy, servers, variables, placed):
    print("place", strategy, servers, *(variable_text(*each) for each in variables), "=",
          *(",".join(map(str, parts)) for parts in placed))


class Greedy:
    """tf.contrib.training.GreedyLoadBalancingStrategy with byte_size_load_fn, which TensorFlow 2 no
    longer has, as its documentation describes them: only this choice is not TensorFlow's own here."""

    def __init__(self, servers):
        self.loads = [0] * servers

    def __call__(self, op):
        server = self.loads.index(min(self.loads))
        shape = tf.TensorShape(op.get_attr("shape"))
        self.loads[server] += shape.num_elements() * op.get_attr("dtype").size
        return server


def task_of(device):
    return tf.DeviceSpec.from_string(device).task


def device_setter_case(strategy, servers, variables):
    setter = v1.train.replica_device_setter(
        ps_tasks=servers, ps_strategy=Greedy(servers) if strategy == "greedy" else None)
    placed = []
    with tf.Graph().as_default(), v1.device(setter):
        for i, (element_bytes, shape, partitioner, server) in enumerate(variables):
            named = nullcontext() if server is None else v1.device(f"/job:ps/task:{server}")
            with named:
                parts = v1_variable(f"v{i}", element_bytes, shape, partitioner)
            placed.append([task_of(part.device) for part in parts])
    place_line(strategy, servers, variables, placed)


def device_setter_cases():
    print("# place: tf.compat.v1.train.replica_device_setter")
    layer = [(4, [1000, 1000], "none", None), (4, [1000], "none", None)]
    for strategy in "round_robin", "greedy":
        for servers, variables in [
                (2, [(4, [1], "none", None)] * 3),
                (2, layer * 2),
                (2, [(4, [], "none", None), (4, [1], "none", None), (4, [10], "none", None)]),
                (2, [(4, [10], "none", None), (4, [1], "none", None), (4, [], "none", None)]),
                (3, [(4, [5], "none", None), (4, [5], "none", 2), (4, [5], "none", None)] * 2)]:
            device_setter_case(strategy, servers, variables)
        random_numbers = random.Random(3)
        for _ in range(12):
            servers = random_numbers.randint(1, 5)
            variables = []
            for _ in range(random_numbers.randint(1, 8)):
                server = random_numbers.randrange(servers) if random_numbers.random() < 0.1 else None
                variables.append((*random_variable(random_numbers), server))
            device_setter_case(strategy, servers, variables)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return [f"127.0.0.1:{port}" for port in ports]


def start_cluster(servers):
    addresses = free_ports(servers + 1)
    cluster = tf.train.ClusterSpec({"ps": addresses[:servers], "worker": addresses[servers:]})
    running = [tf.distribute.Server(cluster, job_name=job, task_index=i, protocol="grpc", start=True)
               for job in ("ps", "worker") for i in range(cluster.num_tasks(job))]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    return resolver, running


def strategy_v2_case(servers, variables):
    """All in one sequence: a strategy has one counter."""
    resolver, running = start_cluster(servers)
    current = {}
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=lambda shape, dtype: current["partitioner"](shape, dtype))
    placed = []
    with strategy.scope():
        for i, (element_bytes, shape, partitioner, _) in enumerate(variables):
            current["partitioner"] = v2_partitioner(partitioner)
            variable = tf.Variable(tf.zeros(shape, DTYPES[element_bytes]), name=f"v{i}")
            parts = getattr(variable, "variables", None) or [variable]
            placed.append([task_of(part.device) for part in parts])
    place_line("round_robin", servers, variables, placed)
    return running


def strategy_v2_cases():
    print("# place: tf.distribute.ParameterServerStrategy (V2)")
    random_numbers = random.Random(4)
    variables = [(4, [7], "none", None), (4, [10, 2], "fixed:2", None), (4, [], "fixed:2", None),
                 (4, [9, 4], "fixed:4", None)]
    variables += [(*random_variable(random_numbers), None) for _ in range(20)]
    return strategy_v2_case(3, variables)


def main():
    print("# Made by make_expected.py, which says how to read it. TensorFlow", tf.__version__)
    split_cases()
    lookup_cases()
    device_setter_cases()
    running = strategy_v2_cases()
    sys.stdout.flush()
    # The servers have no way to stop.
    os._exit(0 if running else 1)


if __name__ == "__main__":
    main()
