"""Virtual environments with what configs/ trains with, made once below build/ from PyPI. Tests and benches that need one
ask for it; by hand: python3 -m tests.support.environments tensorflow ray"""

import fcntl
import os
import pathlib
import platform
import shutil
import subprocess
import sys

from tests.support.tfdist import ROOT

NEWEST_PYTHON_OF_2_15 = (3, 11)
# The distribution's: the accounts of test hosts can run it, wherever the user's own Python may lie.
PYTHON = "/usr/bin/python3"
PY_SPY = "py-spy==0.4.3"  # shows a silent task's Python stack in `tfdist why`


class NoEnvironment(Exception):
    """What failed; `remedy`: what to do about it."""

    def __init__(self, what, remedy):
        super().__init__(what)
        self.remedy = remedy


class Environment:
    def __init__(self, name, requirements, cost):
        """`requirements(python_version, machine)`: what pip is asked for; `python_version`: (3, 11)."""
        self.folder = ROOT / "build" / name
        self._requirements = requirements
        self._cost = cost

    def installed(self):
        """What it has, as pip was asked for it: "tensorflow-cpu==2.15.1"; None: it is not there."""
        mark = self.folder / "installed"
        return mark.read_text() if mark.exists() else None

    def provide(self, python=PYTHON):
        """(the environment's Python, the requirements it has), made with `python` unless it is there."""
        wanted = self._requirements(version_of(python), platform.machine())
        self.folder.parent.mkdir(exist_ok=True)
        with open(f"{self.folder}.lock", "wb") as lock:  # of tests that run side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._provide(python, wanted)

    def _provide(self, python, wanted):
        inner, text = self.folder / "bin/python", " ".join(wanted)
        if self.installed() == text:
            return inner, text
        print(f"making {self.folder.relative_to(ROOT)} with {text}: {self._cost}", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        log = pathlib.Path(f"{self.folder}.log")
        log.write_bytes(b"")
        run([python, "-m", "venv", self.folder], log, f"{python} makes no virtual environment",
            "apt-get install python3-venv, or --python with another Python")
        run([inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], log,
            f"pip cannot install {text}",
            "look whether pip reaches a package index from here; --python with a Python from 3.10 to 3.13")
        (self.folder / "installed").write_text(text)
        return inner, text


def tensorflow_2_15(python_version, machine):
    # 2.15 is the last with Estimator and Keras 2, which multi-worker strategies need.
    if python_version <= NEWEST_PYTHON_OF_2_15:
        return [f"{tensorflow_package(machine)}==2.15.1", PY_SPY]
    return newest_tensorflow(python_version, machine)


def newest_tensorflow(_, machine):
    # It brings no TensorBoard of its own.
    return [f"{tensorflow_package(machine)}==2.21.0", "tf_keras==2.21.0", "tensorboard==2.21.0", PY_SPY]


def tensorflow_package(machine):
    return "tensorflow-cpu" if machine == "x86_64" else "tensorflow"


TENSORFLOW = Environment("tensorflow", tensorflow_2_15, "some minutes, 1 to 2 GB")
NEWEST_TENSORFLOW = Environment("tensorflow-newest", newest_tensorflow, "some minutes, 2 GB")
# For x86-64 there is none on PyPI without CUDA.
PYTORCH = Environment("pytorch", lambda *_: ["torch==2.15.0", "numpy"], "some minutes, 6 GB")
RAY = Environment("ray", lambda *_: ["ray==2.60.0", "numpy"], "a minute, 300 MB")
FRAMEWORKS = Environment("frameworks", lambda *_: ["jax==0.10.2", "lightgbm==4.7.0", "dask[distributed]==2026.8.0", "mpich==5.0.2",
                                                   "mpi4py==4.1.2", "numpy"], "a minute, 722 MB")
ASYNCSSH = Environment("asyncssh", lambda *_: ["asyncssh==2.24.0"], "a minute, 30 MB")  # an sshd of another kind
# Its schemas of objects, of many versions.
KUBERNETES = Environment("kubernetes", lambda *_: ["kubernetes-validate==1.37.0"], "some seconds, 70 MB")
PYTHON_CHECKS = Environment("python-checks", lambda *_: ["mypy==2.4.1", "auditwheel==6.8.2"], "a minute, 100 MB")  # of python/
BY_NAME = {environment.folder.name: environment for environment in (TENSORFLOW, NEWEST_TENSORFLOW, PYTORCH, RAY, FRAMEWORKS, ASYNCSSH, KUBERNETES, PYTHON_CHECKS)}


def tensorflow():
    """The one that the tests of TensorFlow are to use: TFDIST_TENSORFLOW=newest chooses."""
    return NEWEST_TENSORFLOW if os.environ.get("TFDIST_TENSORFLOW") == "newest" else TENSORFLOW


def has_estimator():
    return "==2.15" in (tensorflow().installed() or "")


def version_of(python):
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoEnvironment(f"{python} does not run: {error}", "--python with another Python") from error
    return tuple(map(int, done.stdout.split()))


def run(command, log, what, remedy):
    with open(log, "ab") as file:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT).returncode
    if code:
        raise NoEnvironment(f"{what}; the end of {log}:\n{last_lines(log)}", remedy)


def last_lines(log):
    return "\n".join(f"  | {line}" for line in log.read_text(errors="replace").splitlines()[-5:])


def main(names):
    """`chosen-tensorflow`: the one that tensorflow() gives."""
    for name in names:
        try:
            (tensorflow() if name == "chosen-tensorflow" else BY_NAME[name]).provide()
        except NoEnvironment as error:
            print(f"{name}: {error}\n  try: {error.remedy}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
