"""Reads a safetensors file by the rules of the format, and prints its tensors: name, shape, first and last value.

With the package `safetensors` installed it does so by that too, and compares. The rules (github.com/huggingface/safetensors,
README, "Format"): u64 length of the header, 100 MB at most; JSON that begins with "{"; "__metadata__" maps texts to texts; the
tensors' bytes follow one another from 0 to the end of the file without a hole.
"""

import json
import math
import struct
import sys


def parse(content):
    (length,) = struct.unpack_from("<Q", content)
    assert length <= 100_000_000 and 8 + length <= len(content), length
    text = content[8 : 8 + length]
    assert text.startswith(b"{")
    header = json.loads(text)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(item, str) for pair in metadata.items() for item in pair)
    data = content[8 + length :]
    end = 0
    tensors = {}
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = tensor["data_offsets"]
        assert begin == end and tensor["dtype"] == "F32", (name, tensor)
        assert stop - begin == 4 * math.prod(tensor["shape"]), (name, tensor)
        tensors[name] = (tensor["shape"], data[begin:stop])
        end = stop
    assert end == len(data), (end, len(data))
    return tensors


def by_package(content):
    try:
        from safetensors import deserialize
    except ImportError:
        return None
    return {name: (tensor["shape"], bytes(tensor["data"])) for name, tensor in deserialize(content)}


def main():
    with open(sys.argv[1], "rb") as file:
        content = file.read()
    tensors = parse(content)
    expected = by_package(content)
    assert expected in (None, tensors)
    for name, (shape, data) in sorted(tensors.items()):
        values = struct.unpack(f"<{len(data) // 4}f", data)
        print(name, shape, *(values[:1] + values[-1:]))
    print("as the package reads it" if expected is not None else "the package is not installed")


main()
