"""What the tests of the programs in configs/ have in common: hosts that have the framework and one
home folder, cluster files put on them, and what a job must have come to."""

import json
import os
import pathlib
import re
import time
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.support import clusters, environments
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

CONFIGS = ROOT / "configs"
EXAMPLES = CONFIGS / "tensorflow"
SEEN_AS = "framework"  # /run/framework is the virtual environment
ACCURACY = re.compile(r"test accuracy ([0-9.]+)")
MOST_PORTS = 24
SECONDS = 600  # of one job, on a machine that is busy


def setUpModule():
    need(environments.tensorflow())


def need(environment):
    check_possible()
    if not environment.installed():
        raise unittest.SkipTest(f"no {environment.folder.name} here; scripts/test --tensorflow installs it")


def replaced(text, old, new):
    assert old in text, f"no {old} in\n{text}"
    return text.replace(old, new)


def with_free_ports(text):
    """The bases 2222, 2223 and so on, moved to where nobody listens: all test hosts are one machine's addresses."""
    first = clusters.free_ports(MOST_PORTS)
    return re.sub(r"\b222(\d)\b", lambda match: str(first + int(match[1]) - 2), text)


class TensorFlowJobs(unittest.TestCase):
    """Of another framework: with its examples and its environment."""

    enough_accuracy = 0.93
    examples = EXAMPLES
    workdir = '"../.."'  # as its cluster files have it

    @staticmethod
    def environment():
        return environments.tensorflow()

    def setUp(self):
        self.user = Tfdist("tensorflow")
        self.addCleanup(self.user.close)

    def start_hosts(self, count, **options):
        """With one home folder, as on a cluster with NFS: that is where the tasks share their checkpoints."""
        hosts = Hosts(count, shared_home=True, seen={SEEN_AS: self.environment().folder},
                      sshd_lines=(f"SetEnv PATH=/run/{SEEN_AS}/bin:/usr/local/bin:/usr/bin:/bin",), **options)
        hosts.start()
        self.addCleanup(hosts.stop)
        return hosts

    def put_on(self, hosts, example, *changes):
        """The path of EXAMPLE with what its reader puts in: hosts, their keys, the shared folder.
        `changes`: pairs of old and new text."""
        text = with_free_ports((self.examples / example).read_text())
        text = replaced(text, "10.0.0.", hosts[0].address.rpartition(".")[0] + ".")
        text = text.replace('"/mnt/shared"', '"/home/trainer"')
        text = replaced(text, self.workdir, json.dumps(str(CONFIGS)))
        for old, new in changes:
            text = replaced(text, old, new)

        return self.user.write("cluster.toml", f'{text}\n[ssh]\nconfig = "{hosts.ssh_config}"\n')

    def put_here(self, example, *changes):
        """The same for one that runs on this machine, without SSH."""
        self.user.env["PATH"] = f"{self.environment().folder}/bin:{os.environ['PATH']}"
        text = with_free_ports((self.examples / example).read_text())
        for old, new in ((self.workdir, json.dumps(str(CONFIGS))), *changes):
            text = replaced(text, old, new)
        return self.user.write("cluster.toml", text)

    def train(self, hosts, example, *changes):
        """Runs the job; its output, when it has ended well and learned the digits."""
        out = self._train(self.put_on(hosts, example, *changes))
        self.assert_nothing_left(hosts)
        return out

    def train_here(self, example, *changes):
        out = self._train(self.put_here(example, *changes))
        wait_for(lambda: not self.user.left(), lambda: f"nothing left; there is {self.user.left()}")
        return out

    def _train(self, path):
        watch = Stopwatch()
        result = self.user.run("up", path, seconds=SECONDS)
        self.assertEqual(result.code, 0, result)
        accuracy = self.assert_learned(result.out)
        print(f"\n{self.id().rpartition('.')[2]}: {watch.seconds():.1f} s, accuracy {accuracy}", flush=True)
        return result.out

    def assert_learned(self, out):
        """The last accuracy that the program printed."""
        accuracies = [float(match) for match in ACCURACY.findall(out)]
        self.assertTrue(accuracies, out)
        self.assertGreaterEqual(accuracies[-1], self.enough_accuracy, out)
        return accuracies[-1]

    def assert_nothing_left(self, hosts):
        def left():
            return {host.name: [p.argv for p in host.processes()] for host in hosts if host.processes()}

        wait_for(lambda: not left(), lambda: f"nothing left on the hosts; there is {left()}")


class Stopwatch:
    def __init__(self):
        self._begin = time.monotonic()

    def seconds(self):
        return time.monotonic() - self._begin


def task_process(hosts, task):
    """(host, pid as seen from outside) of the program that `task` runs."""
    mark = f"TFDIST_TASK={task}".encode()
    for host in hosts:
        for process in host.processes():
            if not process.argv[0].endswith("python3"):
                continue
            try:
                environment = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if mark in environment:
                return host, process.pid
    raise AssertionError(f"{task} runs on no host")
