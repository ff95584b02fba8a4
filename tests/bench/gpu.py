"""Tests and measurements on a GPU: scripts/gpu-test runs it, and says what its exit codes mean.

    gpu.py [--seconds S]

Each row of the table is one model with a batch of 1,024. "alone" is a trainer's step without servers: all values and a batch
to the GPU, forward, backward, all gradients to the host. PyTorch does the same step. "with servers": two parameter
servers of 6 threads each on this host, by shared memory, and the trainer's own rate. "of cuBLAS" is the model's products per second over those of
cuBLAS alone with 8192 x 8192 matrices, both float32 without TF32.
"""

import argparse
import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist

BATCH = 1024
SIDE = 28
SAMPLES = 8 * BATCH
# One thread applies about 5 GB of gradients a second: too few for a GPU.
SERVERS = ["--server-threads", "6", "--partitioner", "fixed:12"]
MODELS = {
    "mlp": ["--model", "mlp", "--hidden", "3072,3072"],
    "cnn": ["--model", "cnn", "--filters", "32,64", "--hidden", "1024"],
}
GOAL_TORCH = 1.1  # times PyTorch's step, at most
GOAL_SERVERS = 1.25  # times the step without servers, at most
# Large shapes and whole jobs take too long under compute-sanitizer; the small ones go through every kernel.
UNSANITIZED = "-*TwoWorkers*:*TenSteps*:*Relu*:*RowsAre*:*WheneverItIs*:*InTheOrder*:*CrossEntropyIsThat*"
# racecheck takes hundreds of times as long: a model's steps, whose kernels are those of its layers, would take minutes.
UNRACED = UNSANITIZED + ":*GradientsAreThere*:*ValuesThatWereTaken*:*APreparedBatch*"
TEST_SECONDS = 900


class Failed(Exception):
    """A test or a run; the message says which, with its last lines."""


def run(command, seconds, what):
    try:
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{what} did not end within {seconds} s") from error
    if done.returncode != 0:
        raise Failed(f"{what} ended with {done.returncode}:\n" + "\n".join(done.stdout.splitlines()[-30:]))
    return done.stdout


def run_tests():
    """A line for each run of cuda_device_test."""
    test = BIN / "cuda_device_test"
    output = run([test], TEST_SECONDS, "cuda_device_test")
    if "SKIPPED" in output:
        raise Failed("cuda_device_test was skipped:\n" + "\n".join(output.splitlines()[-30:]))
    yield f"cuda_device_test: {output.splitlines()[-1].strip()}"
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        yield "compute-sanitizer: not installed, not run"
        return
    for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
        chosen = UNRACED if tool == "racecheck" else UNSANITIZED
        output = run([sanitizer, "--tool", tool, "--error-exitcode", "9", test, f"--gtest_filter={chosen}"],
                     TEST_SECONDS, f"compute-sanitizer --tool {tool}")
        yield f"compute-sanitizer {tool}: {output.splitlines()[-1].strip('= ')}"


def last_json(text):
    merged = {}
    for line in text.splitlines():
        if line.startswith("{"):
            merged.update(json.loads(line))
    return merged


def products(model):
    """Floating-point operations of the matrix products of a step; the first layer has no input gradient."""
    if model == "mlp":
        layers = [SIDE * SIDE * 3072, 3072 * 3072, 3072 * 10]
    else:
        layers = [SIDE**2 * 25 * 32, (SIDE // 2) ** 2 * 25 * 32 * 64, 49 * 64 * 1024, 1024 * 10]
    return 2 * BATCH * (3 * sum(layers) - layers[0])


def write_dataset(folder):
    """Random images in MNIST's format: speed does not ask what they show."""
    random.seed(1)
    for prefix, count in (("train", SAMPLES), ("t10k", 256)):
        with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
            file.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + random.randbytes(count * SIDE * SIDE))
        with gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))


def step_with_servers(model, data, steps):
    """Milliseconds, by the chief's own rate over a whole job of `steps`."""
    user = Tfdist("gpu")
    try:
        command = ["{runtime}", "--data", str(data), *MODELS[model], *SERVERS, "--batch", str(BATCH), "--steps", str(steps),
                   "--eval-every", "1000000000", "--learning-rate", "0.0001"]
        file = user.write("cluster.toml", f"""
name = "gpu"
[cluster]
hosts = [{{ address = "localhost", gpus = [0] }}]
ports = {{ worker = {clusters.free_ports(1)}, ps = {clusters.free_ports(2)} }}
[task]
command = {clusters.toml_list(command)}
[roles.ps]
per_host = 2
""")
        result = user.run("up", file, seconds=300)
        rate = re.search(r"final: step .*, ([0-9]+) steps/s", result.out)
        if result.code != 0 or rate is None or "computes on GPU" not in result.out:
            raise Failed(f"the job with servers: {result}")
        return 1e3 / int(rate[1])
    finally:
        user.close()


def torch_step(model, seconds):
    """None without PyTorch."""
    try:
        subprocess.run([sys.executable, "-c", "import torch"], check=True, capture_output=True, timeout=120)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    script = Path(__file__).with_name("torch_step.py")
    return last_json(run([sys.executable, script, model, BATCH, seconds], 120 + 4 * seconds, "torch_step.py"))


def row_of(model, data, seconds):
    own = last_json(run([BIN / "cuda_bench", *MODELS[model], "--batch", BATCH, "--seconds", seconds],
                        120 + 4 * seconds, "cuda_bench"))
    alone = own["step_ms"]
    torch = torch_step(model, seconds)
    served = step_with_servers(model, data, steps=max(50, int(1e3 * seconds / alone / 2)))
    share = products(model) / (alone / 1e3) / (own["cublas_teraflops"] * 1e12)
    against_torch = f"{alone / torch['step_ms']:.2f}" if torch else "-"
    return [model, f"{alone:.2f}", f"{torch['step_ms']:.2f}" if torch else "no PyTorch", against_torch,
            f"{torch['compute_ms']:.2f}" if torch else "-", f"{own['cublas_teraflops']:.1f}", f"{share:.2f}",
            f"{served:.2f}", f"{served / alone:.2f}"]


def print_table(rows):
    head = ["model", "alone ms", "PyTorch ms", f"ratio (<= {GOAL_TORCH})", "its compute ms", "cuBLAS TFLOP/s",
            "of cuBLAS", "with servers ms", f"ratio (<= {GOAL_SERVERS})"]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each timed part")
    seconds = parser.parse_args().seconds
    try:
        for line in run_tests():
            print(line, flush=True)
        with tempfile.TemporaryDirectory(prefix="tfdist-gpu-") as folder:
            os.chmod(folder, 0o755)
            write_dataset(Path(folder))
            print_table([row_of(model, Path(folder), seconds) for model in MODELS])
    except Failed as error:
        print(f"gpu-test: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
