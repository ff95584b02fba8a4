"""Two checkouts of the same sources, at paths of different depth, build the same agent, libraries included."""

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
    done = subprocess.run(["scripts/build", "release", "tfdist-agent"], cwd=checkout, env=environment,
                          capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    if done.returncode != 0:
        raise AssertionError(f"{checkout} does not build:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    return (checkout / "build/bin/tfdist-agent").read_bytes()


class Reproducible(unittest.TestCase):
    def test_agent_is_the_same_from_two_checkouts(self):
        with tempfile.TemporaryDirectory(prefix="tfdist-reproducible-") as folder:
            first = build(pathlib.Path(folder) / "a")
            second = build(pathlib.Path(folder) / "somewhere" / "else" / "far-deeper" / "b")
        self.assertEqual(hashlib.sha256(first).hexdigest(), hashlib.sha256(second).hexdigest())


if __name__ == "__main__":
    unittest.main()
