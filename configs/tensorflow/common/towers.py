"""In-graph training on the digits: one client, whose graph has a tower on each of several plain servers."""

import digits
import tensorflow as tf

tf1 = tf.compat.v1
BATCH = 32
LEARNING_RATE = 0.2


class Layers:
    def __init__(self):
        self._kernel = tf1.get_variable("kernel", [digits.PIXELS, digits.CLASSES], initializer=tf1.initializers.zeros())
        self._bias = tf1.get_variable("bias", [digits.CLASSES], initializer=tf1.initializers.zeros())

    def logits(self, pixels):
        return tf.matmul(pixels, self._kernel) + self._bias


def tower_loss(layers, number):
    pixels, labels = digits.training()
    chosen = tf.random.uniform([BATCH], 0, len(labels), tf.int32, seed=number + 1)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.gather(tf.constant(labels), chosen), logits=layers.logits(tf.gather(tf.constant(pixels), chosen))))


def train(target, variable_device, tower_devices, steps):
    """The test accuracy after `steps` steps, each with the mean of all towers' gradients."""
    with tf1.device(variable_device):
        layers = Layers()
    losses = []
    for number, device in enumerate(tower_devices):
        with tf1.device(device):
            losses.append(tower_loss(layers, number))
    step = tf1.train.GradientDescentOptimizer(LEARNING_RATE).minimize(tf.add_n(losses) / len(losses))
    pixels, labels = digits.test()
    right = tf.equal(tf.argmax(layers.logits(tf.constant(pixels)), 1), labels)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    with tf1.Session(target) as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(steps):
            session.run(step)
        return float(session.run(accuracy))


def done_queue(device):
    """By which a client tells a server that it may end: a server's join() never returns."""
    with tf1.device(device):
        return tf1.FIFOQueue(1, tf.int32, shared_name="done")
