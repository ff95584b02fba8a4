#!/usr/bin/env python3
"""Writes row_means.txt: what TensorFlow's SparseConditionalAccumulator makes of the gradients of several pushes.

Needs tensorflow-cpu 2.15.1 (any 2.x should do). The gradients come from a fixed seed, so the file changes only
when TensorFlow's arithmetic does.

    python3 make_row_means.py > row_means.txt

Lines are a word and values; floats have nine significant digits, which name one float exactly. Each step is some
`push ROWS` with their `gradient FLOATS`, then `mean ROWS` with their `values FLOATS`.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_v2_behavior()

STEPS, PUSHES, ROWS, WIDTH = 6, 5, 12, 3


def line(word, values):
    print(word, *[v if isinstance(v, int) else format(v, ".9g") for v in np.ravel(values).tolist()])


def main():
    print(f"# Written by make_row_means.py with TensorFlow {tf.__version__}.\n")
    random = np.random.default_rng(7)
    accumulator = v1.SparseConditionalAccumulator(tf.float32, shape=[None, WIDTH])
    rows = v1.placeholder(tf.int64, [None])
    gradient = v1.placeholder(tf.float32, [None, WIDTH])
    apply = accumulator.apply_grad(rows, gradient, local_step=STEPS)
    take = accumulator.take_indexed_slices_grad(PUSHES)
    with v1.Session() as session:
        for _ in range(STEPS):
            for _ in range(PUSHES):
                # In order, as the accumulator expects them.
                pushed = np.sort(random.choice(ROWS, random.integers(1, ROWS), replace=False))
                values = (random.standard_normal((len(pushed), WIDTH)) ** 3).astype(np.float32)
                session.run(apply, {rows: pushed, gradient: values})
                line("push", pushed)
                line("gradient", values)
            mean = session.run(take)
            line("mean", mean.indices)
            line("values", mean.values)


main()
