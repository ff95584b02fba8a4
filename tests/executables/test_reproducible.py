"""Two checkouts of the same sources, at paths of different depth, build the same programs, libraries included, and wheels."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_TIMEOUT_S = 3000


def sources():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, check=True, capture_output=True, timeout=60)
    names = [name for name in listed.stdout.decode().split("\0") if name]
    return [name for name in names if (ROOT / name).is_file()]


def build(checkout):
    for name in sources():
        target = checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    # A compiler cache would hand one checkout the other's files.
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")}
    for command in (["scripts/build", "release", "tfdist", "tfdist-runtime"], ["python/make_wheel.py", "build/bin", "wheels"]):
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
        if done.returncode != 0:
            raise AssertionError(f"{command} in {checkout} fails:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    made = [checkout / "build/bin/tfdist-agent", *sorted((checkout / "wheels").iterdir())]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}


class Reproducible(unittest.TestCase):
    def test_two_checkouts_make_the_same(self):
        with tempfile.TemporaryDirectory(prefix="tfdist-reproducible-") as folder:
            first = build(pathlib.Path(folder) / "a")
            second = build(pathlib.Path(folder) / "somewhere" / "else" / "far-deeper" / "b")
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
