"""`tf.keras` as multi-worker strategies need it: Keras 3 refuses them, so from TensorFlow 2.16 on the package tf_keras serves.

To be imported before tensorflow.
"""

import importlib.util
import os

if importlib.util.find_spec("tf_keras"):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
