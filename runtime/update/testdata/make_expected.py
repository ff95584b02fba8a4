#!/usr/bin/env python3
"""Writes expected.txt: what TensorFlow's v1 optimizers make of fixed gradients.

Needs tensorflow-cpu 2.15.1 (any 2.x should do). The gradients come from a fixed seed, so the file changes only
when TensorFlow's arithmetic does.

    python3 make_expected.py > expected.txt

Lines are a word and values; floats have nine significant digits, which name one float exactly:

    case NAME / optimizer TEXT / rows N / width N    a new variable (a dense one has one row)
    initial FLOATS                                   its values
    step                                             then, for each step:
    ids INTS                                         sparse cases only, ids may repeat
    gradient FLOATS
    values FLOATS / slot0 FLOATS / slot1 FLOATS      what TensorFlow has after the step
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_v2_behavior()

STEPS = 5
DENSE = 11  # one packet of 8 floats and a rest of 3: Eigen treats them differently
ROWS, PUSHED = 6, 4

OPTIMIZERS = [
    ("sgd:learning_rate=0.3", lambda: v1.train.GradientDescentOptimizer(0.3), []),
    ("momentum:learning_rate=0.1,momentum=0.9", lambda: v1.train.MomentumOptimizer(0.1, 0.9), ["momentum"]),
    ("momentum:learning_rate=0.1,momentum=0.85,use_nesterov=true",
     lambda: v1.train.MomentumOptimizer(0.1, 0.85, use_nesterov=True), ["momentum"]),
    ("adagrad:learning_rate=0.2,initial_accumulator_value=0.1", lambda: v1.train.AdagradOptimizer(0.2),
     ["accumulator"]),
    ("adam:learning_rate=0.001", lambda: v1.train.AdamOptimizer(0.001), ["m", "v"]),
    ("adam:learning_rate=0.02,beta1=0.8,beta2=0.95,epsilon=0.001",
     lambda: v1.train.AdamOptimizer(0.02, 0.8, 0.95, 0.001), ["m", "v"]),
]


class LazyAdam(v1.train.AdamOptimizer):
    """TF 1's contrib.opt.LazyAdamOptimizer, which TF 2 no longer has: only the pushed rows change."""

    def _apply_sparse(self, grad, var):
        beta1_power, beta2_power = self._get_beta_accumulators()
        rate = self._lr_t * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = self._beta1_t * tf.gather(m, grad.indices) + (1 - self._beta1_t) * grad.values
        v_rows = self._beta2_t * tf.gather(v, grad.indices) + (1 - self._beta2_t) * tf.square(grad.values)
        change = rate * m_rows / (tf.sqrt(v_rows) + self._epsilon_t)
        return tf.group(v1.scatter_update(m, grad.indices, m_rows), v1.scatter_update(v, grad.indices, v_rows),
                        v1.scatter_sub(var, grad.indices, change))


def line(word, values):
    print(word, *(f"{x:.9g}" if isinstance(x, np.floating) else x for x in np.ravel(values)))


def gradients(random, shape):
    size = random.standard_normal((STEPS, *shape)) * 10.0 ** random.uniform(-4, 1, (STEPS, *shape))
    size = size.astype(np.float32)
    # Becomes a subnormal number in the slots: TensorFlow's threads flush those to zero.
    size[0, ..., -1] = 1.2e-38
    size[1:, ..., -1] = 0
    return size


def session_config():
    # Grappler would turn Adam's (g * g) * c for rows into g * (g * c): the last bit of v then depends on what the
    # graph around it looks like. Off, TensorFlow computes what its sources say.
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def run(name, text, make, slots, initial, grads, ids=None):
    with tf.Graph().as_default(), v1.Session(config=session_config()) as session:
        variable = v1.get_variable("v", initializer=initial, use_resource=False)
        fed = v1.placeholder(tf.float32, grads.shape[1:])
        fed_ids = v1.placeholder(tf.int32, [None])
        gradient = fed if ids is None else tf.IndexedSlices(fed, fed_ids, initial.shape)
        optimizer = make()
        train = optimizer.apply_gradients([(gradient, variable)])
        session.run(v1.global_variables_initializer())
        print(f"\ncase {name}\noptimizer {text}")
        print(f"rows {1 if ids is None else initial.shape[0]}\nwidth {initial.shape[-1]}")
        line("initial", initial)
        for step in range(STEPS):
            print("step")
            feed = {fed: grads[step]}
            if ids is not None:
                feed[fed_ids] = ids[step]
                line("ids", ids[step])
            line("gradient", grads[step])
            session.run(train, feed)
            line("values", session.run(variable))
            for number, slot in enumerate(slots):
                line(f"slot{number}", session.run(optimizer.get_slot(variable, slot)))


def main():
    random = np.random.default_rng(20)
    print(f"# Written by make_expected.py with TensorFlow {tf.__version__}.")
    initial = random.standard_normal(DENSE).astype(np.float32)
    grads = gradients(random, (DENSE,))
    for text, make, slots in OPTIMIZERS:
        run("dense", text, make, slots, initial, grads)
    lazy = ("adam:learning_rate=0.02,lazy=true", lambda: LazyAdam(0.02), ["m", "v"])
    for width in (1, 3):
        initial = random.standard_normal((ROWS, width)).astype(np.float32)
        grads = gradients(random, (PUSHED, width))
        ids = random.integers(0, ROWS, (STEPS, PUSHED)).astype(np.int32)
        ids[0] = [4, 1, 4, 4]  # one id three times: the order of the sum shows
        ids[1] = [5, 3, 0, 2]  # and none twice
        for text, make, slots in [*OPTIMIZERS, lazy]:
            run("sparse", text, make, slots, initial, grads, ids)


if __name__ == "__main__":
    main()
