"""A task of TensorFlow's own parameter servers, for training.py: the model of tfdist-runtime, as fast as it goes there.

    TF_CONFIG=... tensorflow_task.py --data DIR [--hidden 128] [--batch 32] [--learning-rate 0.1] [--sync] --steps N

Between-graph replication: tf.compat.v1.train.Server, replica_device_setter, GradientDescent, SyncReplicas with --sync.
For TensorFlow's sake the samples lie in the graph, a step fetches nothing and is called through make_callable, and
there are no hooks. Every task ends with its standard input. A trainer says {"ready": true} when its session is there,
and begins at the first line on standard input. {"warm": true} is said after a fifth of its steps, and after the last
when each since then had ended, by the machine's monotonic clock; the chief says the accuracy too. With --sync the steps
are updates: the chief alone counts, by the servers' step, and the others go on until they are ended.
--steps are those of all trainers together.
"""

import argparse
import gzip
import itertools
import json
import os
import pathlib
import struct
import sys
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
WARM_PART = 5  # the first fifth of the steps does not count
CHIEF = ("master", "chief")


def read_idx(path):
    data = gzip.decompress(path.read_bytes())
    dimensions = data[3]
    shape = struct.unpack(f">{dimensions}I", data[4:4 + 4 * dimensions])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_samples(folder, kind):
    """Pixels from 0 to 1, a row for each image; labels."""
    images = read_idx(folder / f"{kind}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{kind}-labels-idx1-ubyte.gz")
    pixels = images.reshape(len(images), -1).astype(np.float32)
    return pixels / pixels.max(), labels.astype(np.int64)


class Task:
    """This process's place in TF_CONFIG."""

    def __init__(self, tf_config):
        self.cluster = tf_config["cluster"]
        self.job, self.index = tf_config["task"]["type"], tf_config["task"]["index"]
        trainers = [(job, index) for job in (*CHIEF, "worker") for index in range(len(self.cluster.get(job, [])))]
        self.trainer_count = len(trainers)
        self.is_server = self.job == "ps"
        self.number = None if self.is_server else trainers.index((self.job, self.index))
        self.is_chief = self.number == 0
        self.device = f"/job:{self.job}/task:{self.index}"

    def session_config(self):
        # Without filters a session waits for every task of the cluster, also one that has ended.
        filters = None if self.is_server else ["/job:ps", self.device]
        return tf1.ConfigProto(device_filters=filters, intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)


class Graph:
    """Made anew by every trainer; the variables are those of the servers."""

    def __init__(self, task, options):
        setter = tf1.train.replica_device_setter(worker_device=task.device, cluster=task.cluster)
        with tf1.device(setter):
            self.step = tf1.train.get_or_create_global_step()
            pixels, labels = read_samples(options.data, "train")
            self._layers = make_layers([pixels.shape[1], *options.hidden, 10])
            chosen = tf.random.uniform([options.batch], 0, len(pixels), tf.int32, seed=task.number + 1)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.gather(tf.constant(labels), chosen),
                logits=self._logits(tf.gather(tf.constant(pixels), chosen))))
            optimizer = tf1.train.GradientDescentOptimizer(options.learning_rate)
            if options.sync:
                optimizer = tf1.train.SyncReplicasOptimizer(optimizer, task.trainer_count, task.trainer_count)
            self.train = optimizer.minimize(loss, self.step)
            self.sync = optimizer if options.sync else None
            pixels, labels = read_samples(options.data, "t10k")
            right = tf.equal(tf.argmax(self._logits(tf.constant(pixels)), 1), labels)
            self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        self.first_values = tf1.global_variables_initializer()
        self.not_ready = tf1.report_uninitialized_variables(tf1.global_variables())

    def _logits(self, values):
        for kernel, bias in self._layers[:-1]:
            values = tf.nn.relu(tf.matmul(values, kernel) + bias)
        kernel, bias = self._layers[-1]
        return tf.matmul(values, kernel) + bias


def make_layers(widths):
    return [(tf1.get_variable(f"kernel{number}", shape, initializer=tf1.initializers.glorot_uniform()),
             tf1.get_variable(f"bias{number}", shape[1:], initializer=tf1.initializers.zeros()))
            for number, shape in enumerate(zip(widths, widths[1:]))]


def initialize(session, task, graph):
    """What a MonitoredTrainingSession and SyncReplicas' hook do, without their pauses of 30 s."""
    if task.is_chief:
        session.run(graph.first_values)
        if graph.sync:
            session.run(graph.sync.chief_init_op)
            graph.sync.get_chief_queue_runner().create_threads(session, daemon=True, start=True)
            session.run(graph.sync.get_init_tokens_op())
        return
    while len(session.run(graph.not_ready)):
        time.sleep(0.05)
    if graph.sync:
        session.run(graph.sync.local_step_init_op)


def say(**values):
    print(json.dumps(values), flush=True)


def train_async(session, task, graph, total):
    train = session.make_callable(graph.train)
    own = total // task.trainer_count
    ends = []
    for count in range(own):
        if count == own // WARM_PART:
            say(warm=True)
            ends.append(time.monotonic())
        train()
        if ends:
            ends.append(time.monotonic())
    say(ends=ends)


def train_sync(session, task, graph, total):
    train, updates = session.make_callable(graph.train), session.make_callable(graph.step)
    begin = None
    for count in itertools.count():
        if task.is_chief and count == total // WARM_PART:
            begin = time.monotonic(), int(updates())
            say(warm=True)
        if task.is_chief and count == total:
            break
        train()
    say(updates=int(updates()) - begin[1], seconds=time.monotonic() - begin[0])


def run_trainer(task, options, server):
    graph = Graph(task, options)
    with tf1.Session(server.target, config=task.session_config()) as session:
        initialize(session, task, graph)
        say(ready=True)
        if not sys.stdin.readline():
            return
        (train_sync if options.sync else train_async)(session, task, graph, options.steps)
        if task.is_chief:
            say(accuracy=float(session.run(graph.accuracy)))
        sys.stdin.read()


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--hidden", type=lambda text: [int(width) for width in text.split(",")], default=[128])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--steps", type=int, required=True)
    return parser.parse_args()


def main():
    options, task = read_options(), Task(json.loads(os.environ["TF_CONFIG"]))
    tf1.disable_eager_execution()
    server = tf1.train.Server(tf1.train.ClusterSpec(task.cluster), task.job, task.index, config=task.session_config())
    if task.is_server:
        sys.stdin.read()
    else:
        run_trainer(task, options, server)
    # Not by way of the interpreter's end: sessions' threads would be waited for, some of them for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
