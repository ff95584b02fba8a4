"""A virtual environment with TensorFlow, made once below build/."""

import pathlib
import platform
import shutil
import subprocess

from tests.support.tfdist import ROOT

FOLDER = ROOT / "build/bench-venv"
NEWEST_PYTHON_OF_2_15 = (3, 11)


class NoTensorFlow(Exception):
    """What failed; `remedy`: what to do about it."""

    def __init__(self, what, remedy):
        super().__init__(what)
        self.remedy = remedy


def requirement(python_version, machine):
    """What pip is asked for; `python_version`: (3, 11)."""
    # 2.15 is the last with Estimator and Keras 2, which clusters with parameter servers still run.
    version = "2.15.1" if python_version <= NEWEST_PYTHON_OF_2_15 else "2.21.0"
    return f"{'tensorflow-cpu' if machine == 'x86_64' else 'tensorflow'}=={version}"


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


def provide(python):
    """(the environment's Python, the requirement it has), made with `python` unless it is there."""
    wanted = requirement(version_of(python), platform.machine())
    mark, inner = FOLDER / "installed", FOLDER / "bin/python"
    if mark.exists() and mark.read_text() == wanted:
        return inner, wanted
    print(f"making {FOLDER.relative_to(ROOT)} with {wanted}: some minutes, 1 to 2 GB", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.parent.mkdir(exist_ok=True)
    log = pathlib.Path(f"{FOLDER}.log")
    log.write_bytes(b"")
    run([python, "-m", "venv", FOLDER], log, f"{python} makes no virtual environment",
        "apt-get install python3-venv, or --python with another Python")
    run([inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted], log,
        f"pip cannot install {wanted}",
        "look whether pip reaches a package index from here; --python with a Python from 3.10 to 3.13")
    mark.write_text(wanted)
    return inner, wanted
