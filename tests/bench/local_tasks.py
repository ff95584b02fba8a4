"""One process for each task of a job on this machine: what they say, as they say it, and their end."""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import tempfile
import time

from tests.bench.starts import Interrupted, cluster_spec

LAST_LINES = 10  # of a task that failed
LONGEST_SILENCE = 300  # of all tasks together, in seconds: TensorFlow trains that long, on a slow machine


class Failed(Exception):
    """A task ended too early, or none says anything any more; the message has its last lines."""


class Task:
    """A process with pipes; its error output goes to a file, and where that ends is what is told of it."""

    def __init__(self, name, command, environment, errors):
        self.name, self._errors, self._unfinished = name, errors, b""
        # Ends with this process however that ends.
        command = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)]
        with open(errors, "wb") as file:
            self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=file, start_new_session=True)

    def fileno(self):
        """Readable when it has said something, and after its end."""
        return self._process.stdout.fileno()

    def read_lines(self):
        """Those finished since the last call; None after its end."""
        text = os.read(self.fileno(), 1 << 16)
        if not text:
            return None
        *lines, self._unfinished = (self._unfinished + text).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def tell(self, line):
        with contextlib.suppress(BrokenPipeError):  # reading says how it has ended
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def cpu_seconds(self):
        """Of all its threads so far."""
        with open(f"/proc/{self._process.pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # proc(5): utime, stime

    def close(self):
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def end(self):
        """How it has ended, and its last words."""
        code = self._process.wait()
        words = self._errors.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join([f"{self.name} ended with {code}", *(f"  | {line}" for line in words)])


class LocalJob:
    """`servers` and `trainers` that run `command`, each with a TF_CONFIG of its own; all are ended on leaving."""

    def __init__(self, stop, shape, command, environment):
        self._stop, self._command, self._environment = stop, command, environment
        self._cluster = cluster_spec(*shape)
        self._folder = tempfile.TemporaryDirectory(prefix="tfdist-training-")
        self.tasks = []

    def __enter__(self):
        try:
            for kind, addresses in self._cluster.items():
                for index in range(len(addresses)):
                    self._start(kind, index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for task in self.tasks:
            task.close()
        self._folder.cleanup()

    def _start(self, kind, index):
        name = f"{kind}:{index}"
        config = {"cluster": self._cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
        self.tasks.append(Task(name, self._command, dict(self._environment, TF_CONFIG=json.dumps(config)),
                               pathlib.Path(self._folder.name) / name))

    def trainers(self):
        return [task for task in self.tasks if not task.name.startswith("ps:")]

    def cpu_seconds(self):
        """Of servers and trainers so far."""
        return sum(task.cpu_seconds() for task in self.tasks)

    def lines(self):
        """(time.monotonic(), task, line) as they are said; does not end. Raises Interrupted, Failed."""
        while True:
            ready = select.select([self._stop, *self.tasks], [], [], LONGEST_SILENCE)[0]
            now = time.monotonic()
            if self._stop in ready:
                raise Interrupted
            if not ready:
                raise Failed(f"no task has said anything for {LONGEST_SILENCE} s")
            for task in ready:
                lines = task.read_lines()
                if lines is None:
                    raise Failed(task.end())
                for line in lines:
                    yield now, task, line
