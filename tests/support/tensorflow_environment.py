"""A virtual environment with TensorFlow, made once below build/ from PyPI. `scripts/test --tensorflow` and
`scripts/bench training` call it; by hand: python3 -m tests.support.tensorflow_environment"""

import pathlib
import platform
import shutil
import subprocess
import sys

from tests.support.tfdist import ROOT

FOLDER = ROOT / "build/tensorflow"
NEWEST_PYTHON_OF_2_15 = (3, 11)
# The distribution's: the accounts of test hosts can run it, wherever the user's own Python may lie.
PYTHON = "/usr/bin/python3"


class NoTensorFlow(Exception):
    """What failed; `remedy`: what to do about it."""

    def __init__(self, what, remedy):
        super().__init__(what)
        self.remedy = remedy


def requirements(python_version, machine):
    """What pip is asked for; `python_version`: (3, 11)."""
    package = "tensorflow-cpu" if machine == "x86_64" else "tensorflow"
    # 2.15 is the last with Estimator and Keras 2, which multi-worker strategies need.
    if python_version <= NEWEST_PYTHON_OF_2_15:
        return [f"{package}==2.15.1"]
    return [f"{package}==2.21.0", "tf_keras==2.21.0"]


def version_of(python):
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoTensorFlow(f"{python} does not run: {error}", "--python with another Python") from error
    return tuple(map(int, done.stdout.split()))


def run(command, log, what, remedy):
    with open(log, "ab") as file:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT).returncode
    if code:
        raise NoTensorFlow(f"{what}; the end of {log}:\n{last_lines(log)}", remedy)


def last_lines(log):
    return "\n".join(f"  | {line}" for line in log.read_text(errors="replace").splitlines()[-5:])


def installed():
    """What the environment has, as pip was asked for it: "tensorflow-cpu==2.15.1"; None: it is not there."""
    mark = FOLDER / "installed"
    return mark.read_text() if mark.exists() else None


def has_estimator():
    return "==2.15" in (installed() or "")


def provide(python=PYTHON):
    """(the environment's Python, the requirements it has), made with `python` unless it is there."""
    wanted = requirements(version_of(python), platform.machine())
    inner, text = FOLDER / "bin/python", " ".join(wanted)
    if installed() == text:
        return inner, text
    print(f"making {FOLDER.relative_to(ROOT)} with {text}: some minutes, 1 to 2 GB", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.parent.mkdir(exist_ok=True)
    log = pathlib.Path(f"{FOLDER}.log")
    log.write_bytes(b"")
    run([python, "-m", "venv", FOLDER], log, f"{python} makes no virtual environment",
        "apt-get install python3-venv, or --python with another Python")
    run([inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], log,
        f"pip cannot install {text}",
        "look whether pip reaches a package index from here; --python with a Python from 3.10 to 3.13")
    (FOLDER / "installed").write_text(text)
    return inner, text


def main():
    try:
        provide()
    except NoTensorFlow as error:
        print(f"tensorflow: {error}\n  try: {error.remedy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
