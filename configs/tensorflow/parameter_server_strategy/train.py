"""Keras with ParameterServerStrategy on the digits: chief (the coordinator), workers, ps, and an evaluator beside them.

    TF_CONFIG=... train.py --model-dir DIR [--epochs N] [--steps-per-epoch N]

The chief alone ends by itself. DIR, which the chief and the evaluator see, has a checkpoint for each epoch and the backup
from which a chief that starts again goes on.
"""

import argparse
import json
import os
import pathlib

import keras2  # noqa: F401
import digits
import tensorflow as tf

BATCH = 64


def make_model():
    model = tf.keras.Sequential([
        tf.keras.layers.Input([digits.PIXELS]), tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(digits.CLASSES)])
    model.compile(tf.keras.optimizers.SGD(0.2), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"], steps_per_execution=1)
    return model


def training_data(_):
    pixels, labels = digits.training()
    return tf.data.Dataset.from_tensor_slices((pixels, labels)).shuffle(len(labels)).repeat().batch(BATCH)


def test_data():
    pixels, labels = digits.test()
    return tf.data.Dataset.from_tensor_slices((pixels, labels)).batch(len(labels))


class SayProgress(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1} ended, loss {logs['loss']:.4f}", flush=True)


def coordinate(resolver, options):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        model = make_model()
    folder = pathlib.Path(options.model_dir)
    model.fit(tf.keras.utils.experimental.DatasetCreator(training_data), epochs=options.epochs,
              steps_per_epoch=options.steps_per_epoch, verbose=0, callbacks=[
                  tf.keras.callbacks.BackupAndRestore(str(folder / "backup")),
                  tf.keras.callbacks.ModelCheckpoint(str(folder / "epoch-{epoch}"), save_weights_only=True),
                  SayProgress()])
    newest = make_model()
    newest.load_weights(folder / f"epoch-{options.epochs}").expect_partial()
    _, accuracy = newest.evaluate(test_data(), verbose=0)
    print(f"test accuracy {accuracy:.4f}", flush=True)


def evaluate(options):
    """Until it is ended."""
    model = make_model()
    for checkpoint in tf.train.checkpoints_iterator(options.model_dir):
        model.load_weights(checkpoint).expect_partial()
        _, accuracy = model.evaluate(test_data(), verbose=0)
        print(f"{pathlib.Path(checkpoint).name}: test accuracy {accuracy:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--steps-per-epoch", type=int, default=50)
    options = parser.parse_args()
    task = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
    if task == "evaluator":
        return evaluate(options)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if task == "chief":
        return coordinate(resolver, options)
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    server = tf.distribute.Server(resolver.cluster_spec(), task, resolver.task_id, protocol="grpc", start=True)
    print("ready", flush=True)
    server.join()  # until it is ended


if __name__ == "__main__":
    main()
