"""The digits of configs/data, which is where a task of these examples starts: pixels from 0 to 1, and labels."""

import gzip
import pathlib
import struct

import numpy as np

FOLDER = pathlib.Path("data/digits")
PIXELS = 64
CLASSES = 10


def _read_idx(name):
    data = gzip.decompress((FOLDER / name).read_bytes())
    shape = struct.unpack(f">{data[3]}I", data[4:4 + 4 * data[3]])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def _load(kind):
    images = _read_idx(f"{kind}-images-idx3-ubyte.gz").reshape(-1, PIXELS).astype(np.float32)
    return images / 255, _read_idx(f"{kind}-labels-idx1-ubyte.gz").astype(np.int64)


def training():
    return _load("train")


def test():
    return _load("t10k")
