"""Cold starts of the parameter server, one after another: does each of them come to its end?

    starts.py [COUNT]

COUNT times (1000) for each shape, 1x1 and 2x2 (servers x trainers): tfdist-runtime once for each task on 127.0.0.1,
with new ports, a new secret and CURVE, in a random order within a few milliseconds; a few steps of training; SIGTERM
to the servers when the trainers have ended. All must exit with 0 within DEADLINE seconds. The time of a start is that
from the first process's start to the last one's end. Exit status: 1 if a start failed, 130 after Ctrl-C.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import secrets
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tests.support.clusters import free_ports
from tests.support.tfdist import BIN, ROOT

SHAPES = ((1, 1), (2, 2))
DEADLINE = 30
LONGEST_PAUSE = 0.003  # between the starts of two tasks
LAST_LINES = 10  # of each task's output, told of a start that failed
COMMAND = [BIN / "tfdist-runtime", "--data", ROOT / "configs/data/digits", "--model", "softmax", "--steps", "20"]


class Interrupted(Exception):
    pass


class StopRequest:
    """Ctrl-C and its like as something to wait for. As an exception it could come after a process has started and
    before anybody remembers it, and leave it behind."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __enter__(self):
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._handlers = {number: signal.signal(number, self._note) for number in self.SIGNALS}
        return self

    def __exit__(self, *_):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for end in self._pipe:
            os.close(end)

    def _note(self, *_):
        with contextlib.suppress(BlockingIOError):
            os.write(self._pipe[1], b"x")

    def fileno(self):
        """Readable from the request on."""
        return self._pipe[0]


class Task:
    """One process of a start, in a session of its own as under an agent."""

    def __init__(self, name, environment, output):
        self.name, self.is_server, self._output = name, name.startswith("ps:"), output
        self._told_to_end = False
        with open(output, "wb") as file:
            self._process = subprocess.Popen(COMMAND, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                                             stderr=subprocess.STDOUT, start_new_session=True)
        self._pidfd = os.pidfd_open(self._process.pid)

    def fileno(self):
        """Readable from the process's end on."""
        return self._pidfd

    def runs(self):
        return self._process.poll() is None

    def tell_to_end(self):
        self._told_to_end = True
        self._signal(signal.SIGTERM)

    def close(self):
        self._signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._pidfd)

    def _signal(self, number):
        if self.runs():
            os.killpg(self._process.pid, number)

    def complaint(self):
        """What is wrong with its end; empty while it runs, and if nothing is."""
        code = self._process.poll()
        if code is None:
            return ""
        told = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if self.is_server and not self._told_to_end:
            return f"{told}, before it was told to end"
        return told if code else ""

    def last_lines(self):
        return self._output.read_text(errors="replace").splitlines()[-LAST_LINES:]


class ColdStart:
    """A job's tasks, and a folder with its secret and their output."""

    def __init__(self, shape, stop):
        self._cluster, self._stop, self.tasks = cluster_spec(*shape), stop, []
        self._deadline = time.monotonic() + DEADLINE
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="tfdist-starts-"))
        self._secret = self._folder / "secret"
        self._secret.touch(mode=0o600)
        self._secret.write_text(secrets.token_hex(32) + "\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for task in self.tasks:
            task.close()
        shutil.rmtree(self._folder)

    def run(self):
        """Complaints by task; empty if all went well."""
        self._start_all()
        complaints = self._wait_for([task for task in self.tasks if not task.is_server])
        if complaints:
            return complaints
        servers = [task for task in self.tasks if task.is_server]
        for server in servers:
            server.tell_to_end()
        return self._wait_for(servers)

    def _start_all(self):
        names = [f"{kind}:{index}" for kind, addresses in self._cluster.items() for index in range(len(addresses))]
        random.shuffle(names)
        for name in names:
            self.tasks.append(Task(name, self._environment(name), self._folder / f"{name}.out"))
            time.sleep(random.uniform(0, LONGEST_PAUSE))

    def _environment(self, name):
        kind, index = name.split(":")
        tf_config = {"cluster": self._cluster, "task": {"type": kind, "index": int(index)}, "environment": "cloud"}
        return dict(os.environ, TF_CONFIG=json.dumps(tf_config), TFDIST_SECRET_FILE=str(self._secret),
                    TFDIST_ATTEMPT="1")

    def _wait_for(self, tasks):
        """Until these have ended, or there is a complaint about any task; returns the complaints."""
        while True:
            # Before it is asked who has ended: who ends after this is still waited for, and wakes select().
            running = [task for task in self.tasks if task.runs()]
            complaints = {task.name: task.complaint() for task in self.tasks if task.complaint()}
            if complaints or not any(task.runs() for task in tasks):
                return complaints
            ready = select.select([self._stop, *running], [], [], max(0, self._deadline - time.monotonic()))[0]
            if self._stop in ready:
                raise Interrupted
            if not ready:
                return {task.name: f"runs after {DEADLINE} s" for task in tasks if task.runs()}


def cluster_spec(servers, trainers):
    count = servers + trainers
    first = free_ports(count)
    addresses = [f"127.0.0.1:{port}" for port in range(first, first + count)]
    spec = {"ps": addresses[:servers], "master": addresses[servers:servers + 1]}
    return {**spec, "worker": addresses[servers + 1:]} if trainers > 1 else spec


def report(title, tasks, complaints):
    print(f"{title} failed; tasks in the order of their starts:")
    for task in tasks:
        print(f"  {task.name}: {complaints.get(task.name, 'no complaint')}")
        for line in task.last_lines():
            print(f"    | {line}")
    sys.stdout.flush()


class Tally:
    """The starts of one shape."""

    def __init__(self, shape):
        self.shape, self.name = shape, "x".join(map(str, shape))
        self.failures, self.seconds = 0, []

    def add_one(self, stop):
        with ColdStart(self.shape, stop) as start:
            before = time.monotonic()
            complaints = start.run()
            self.seconds.append(time.monotonic() - before)
            if complaints:
                self.failures += 1
                report(f"{self.name}: start {len(self.seconds)}", start.tasks, complaints)

    def __str__(self):
        text = f"{self.name}: {len(self.seconds)} starts, {self.failures} failures"
        if self.seconds:
            text += f", median {statistics.median(self.seconds):.2f} s, slowest {max(self.seconds):.2f} s"
        return text


def run_all(tallies, count, stop):
    """Whether it got to the end."""
    try:
        for tally in tallies:
            for _ in range(count):
                tally.add_one(stop)
    except Interrupted:
        return False
    return True


def wanted_count():
    parser = argparse.ArgumentParser(prog="scripts/bench starts", description="Cold starts of the parameter server.")
    parser.add_argument("count", metavar="COUNT", type=int, nargs="?", default=1000, help="of each shape; default 1000")
    count = parser.parse_args().count
    if count < 1:
        parser.error("COUNT is at least 1")
    return count


def main():
    count = wanted_count()
    tallies = [Tally(shape) for shape in SHAPES]
    with StopRequest() as stop:
        through = run_all(tallies, count, stop)
    print(*tallies, sep="\n")
    if not through:
        return 130
    return 1 if any(tally.failures for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
