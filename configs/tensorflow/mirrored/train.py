"""Keras with MultiWorkerMirroredStrategy on the digits. Every worker runs this; the first one, or `chief`, is chief.

    TF_CONFIG=... train.py --backup-dir DIR [--epochs N] [--steps-per-epoch N]

Where a member is lost, the others fail and all start again: training goes on from the backup in DIR, which all of them
see.
"""

import argparse

import keras2  # noqa: F401
import digits
import tensorflow as tf

GLOBAL_BATCH = 64


class SayProgress(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1} ended, loss {logs['loss']:.4f}", flush=True)


def dataset(samples, count):
    """Each worker takes its share of every batch."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices(samples)
    return (data.repeat() if count is None else data).batch(GLOBAL_BATCH, drop_remainder=True).with_options(options)


def make_model():
    model = tf.keras.Sequential([
        tf.keras.layers.Input([digits.PIXELS]), tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(digits.CLASSES)])
    model.compile(tf.keras.optimizers.SGD(0.2), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backup-dir", required=True)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps-per-epoch", type=int, default=22)
    options = parser.parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    print(f"{strategy.num_replicas_in_sync} replicas", flush=True)
    with strategy.scope():
        model = make_model()
    model.fit(dataset(digits.training(), None), epochs=options.epochs, steps_per_epoch=options.steps_per_epoch, verbose=0,
              callbacks=[tf.keras.callbacks.BackupAndRestore(options.backup_dir), SayProgress()])
    # All of them: an evaluation is a collective operation, too.
    _, accuracy = model.evaluate(dataset(digits.test(), 1), verbose=0)
    print(f"test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
