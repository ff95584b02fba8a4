"""Programs that import tfdist, as a user runs them: with a Python of its own, and the built command in PATH."""

import os
import pty
import subprocess
import sys
import unittest

from tests.support.environments import PYTHON_CHECKS, NoEnvironment
from tests.support.tfdist import BIN, ROOT, Result, Terminal
from tests.support.waiting import PATIENCE

FOLDER = ROOT / "python"


def checker(name):
    """mypy or auditwheel, from PyPI."""
    try:
        python, _ = PYTHON_CHECKS.provide()
    except NoEnvironment as error:
        raise unittest.SkipTest(str(error)) from error
    return python.with_name(name)


def environment(user):
    """`user`: a Tfdist, whose home is the program's."""
    return dict(user.env, PYTHONPATH=str(FOLDER), PYTHONDONTWRITEBYTECODE="1", PATH=f"{BIN}{os.pathsep}{user.env['PATH']}")


def run_python(user, script, *args, seconds=120, cwd=None, before=(), venv=None):
    """Warnings are errors: one is a file or process that was not closed. `before`: words of a command that runs Python. `venv`:
    a virtual environment in which tfdist is installed."""
    python, env = (venv / "bin/python", user.env) if venv else (sys.executable, environment(user))
    done = subprocess.run([*before, python, "-W", "error", "-c", script, *args], env=env, cwd=cwd or user.folder,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE * seconds)
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def start_python_on_terminal(user, script):
    """As Tfdist.start_on_terminal()."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(user.folder)
        os.execve(sys.executable, [sys.executable, "-c", script], environment(user))
    return Terminal(pid, terminal)
