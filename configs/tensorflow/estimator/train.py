"""tf.estimator.train_and_evaluate on the digits: chief (or master), workers, ps, and an evaluator if there is one.

    TF_CONFIG=... train.py --model-dir DIR [--steps N]

Every task runs this program; Estimator finds its place in TF_CONFIG. DIR is a folder that all of them see.
Up to TensorFlow 2.15: later ones have no Estimator.
"""

import argparse
import json
import os

import digits
import tensorflow as tf


def samples(kind, batch=None):
    """An input function. Training repeats for ever; a test is one pass."""
    pixels, labels = digits.training() if batch else digits.test()
    data = tf.data.Dataset.from_tensor_slices(({"pixels": pixels}, labels))
    return data.shuffle(len(labels)).repeat().batch(batch) if batch else data.batch(len(labels))


def classifier_in(model_dir):
    # All are kept: an evaluator on a busy host would look for one that is gone.
    config = tf.estimator.RunConfig(model_dir=model_dir, save_checkpoints_steps=200, keep_checkpoint_max=None,
                                    save_summary_steps=200, log_step_count_steps=200)
    return tf.estimator.DNNClassifier(
        [128], [tf.feature_column.numeric_column("pixels", shape=[digits.PIXELS])], n_classes=digits.CLASSES,
        optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(0.1), config=config)


def task_type():
    return json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("type")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    tf.estimator.train_and_evaluate(
        classifier_in(options.model_dir),
        tf.estimator.TrainSpec(lambda: samples("training", 32), max_steps=options.steps),
        tf.estimator.EvalSpec(lambda: samples("test"), steps=None, start_delay_secs=1, throttle_secs=5))
    if task_type() in ("master", "chief"):
        # How the model that the job leaves fares: read from DIR, outside of the cluster.
        del os.environ["TF_CONFIG"]
        result = classifier_in(options.model_dir).evaluate(lambda: samples("test"))
        print(f"test accuracy {result['accuracy']:.4f} at step {result['global_step']}", flush=True)


if __name__ == "__main__":
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    main()
