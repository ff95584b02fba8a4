"""A task for tests: a family that tries to escape, and numbered lines until a file appears.

    tree.py MARK GATE    leaves `sleep MARK` processes behind in every way it knows
"""

import os
import sys
import time


def escape(clear_environment, new_session):
    """A grandchild that has no parent of ours, nor, perhaps, session or environment."""
    if os.fork() > 0:
        return
    if new_session:
        os.setsid()
    if os.fork() == 0:
        environment = {} if clear_environment else dict(os.environ)
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], environment)
    os._exit(0)


def main():
    gate = sys.argv[2]
    for clear_environment in (False, True):
        for new_session in (False, True):
            escape(clear_environment, new_session)
    number = 0
    while not os.path.exists(gate):
        print(f"line {number}", flush=True)
        number += 1
        time.sleep(0.002)
    print(f"end after {number}", flush=True)


main()
