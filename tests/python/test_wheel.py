"""The wheels that scripts/package makes, in a virtual environment that has nothing else."""

import base64
import csv
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
import zipfile

from tests.python import test_pages
from tests.support.environments import PYTHON
from tests.support.python import FOLDER, checker, run_python
from tests.support.tfdist import BIN, ROOT, Tfdist

TIMEOUT_S = 300


def setUpModule():
    if os.environ.get("TFDIST_SANITIZE"):
        raise unittest.SkipTest("sanitizers cannot be linked statically")


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def make_wheels(folder, sources=FOLDER, **options):
    run(PYTHON, "-B", sources / "make_wheel.py", BIN, folder, **options)
    return sorted(folder.iterdir())


def make_environment(folder):
    """With the wheels, and no index to take anything else from."""
    wheels = make_wheels(folder / "wheels")
    run(PYTHON, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", *wheels)
    return folder / "venv"


class Wheels(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="tfdist-wheels-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_their_names_say_where_they_run(self):
        command, runtime = make_wheels(self.folder)
        self.assertRegex(command.name, r"^tfdist-[\d.]+-py3-none-manylinux_2_17_(\w+)\.manylinux2014_\1\.whl$")
        self.assertRegex(runtime.name, r"^tfdist_runtime-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        audited = [" ".join(run(checker("auditwheel"), "show", wheel).split()) for wheel in (command, runtime)]
        self.assertIn("requires no external shared libraries", audited[0])
        self.assertIn(f'platform tag: "{runtime.stem.split("-")[-1]}"', audited[1])

    def test_other_places_and_times_make_the_same_bytes(self):
        first = make_wheels(self.folder / "first")
        checkout = self.folder / "another/place"
        shutil.copytree(FOLDER, checkout / "python", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "CMakeLists.txt", checkout)
        for path in checkout.rglob("*"):
            os.utime(path, (time.time() + 1e6,) * 2)
            path.chmod(0o700)
        second = make_wheels(self.folder / "second", checkout / "python", env=dict(os.environ, TZ="Asia/Tokyo"), umask=0o077)
        for one, other in zip(first, second):
            self.assertEqual(one.name, other.name)
            self.assertEqual(hashlib.sha256(one.read_bytes()).hexdigest(), hashlib.sha256(other.read_bytes()).hexdigest(), one.name)

    def test_records_are_right(self):
        for path in make_wheels(self.folder):
            with zipfile.ZipFile(path) as wheel:
                [record] = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
                rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(wheel.read(record).decode()))}
                self.assertEqual(sorted(rows), sorted(wheel.namelist()))
                self.assertEqual(rows.pop(record), ("", ""))
                for name, (digest, size) in rows.items():
                    data = wheel.read(name)
                    value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, size), (f"sha256={value}", str(len(data))), name)

    def test_installed_and_removed(self):
        venv = make_environment(self.folder)
        with Tfdist("wheel") as user:
            user.env["PATH"] = f"{BIN}{os.pathsep}{user.env['PATH']}"  # another one, which is not taken
            run_python(user, """
import importlib.metadata, pathlib, sys, tfdist, tfdist.program
assert tfdist.program.program() == sys.prefix + "/bin/tfdist"
assert pathlib.Path(tfdist.__file__).with_name("py.typed").exists()
assert importlib.metadata.version("tfdist") == importlib.metadata.version("tfdist-runtime")
with tfdist.up(sys.argv[1], set={"cluster.ports": "auto"}) as job:  # with {runtime}
    assert job.wait()["state"] == "succeeded"
""", str(ROOT / "configs/digits.toml"), venv=venv).expect(0)
        run(venv / "bin/pip", "check")
        run(venv / "bin/pip", "uninstall", "--yes", "tfdist", "tfdist-runtime")
        self.assertEqual([str(path) for path in venv.rglob("*tfdist*")], [])


class InstalledPages(test_pages.Pages):
    """README and docs/python.md after `pip install`."""

    @classmethod
    def setUpClass(cls):
        test_pages.setUpModule()
        scratch = tempfile.TemporaryDirectory(prefix="tfdist-wheels-")
        cls.addClassCleanup(scratch.cleanup)
        cls.venv = make_environment(pathlib.Path(scratch.name))


if __name__ == "__main__":
    unittest.main()
