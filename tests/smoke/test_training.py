"""The built-in runtime: what scripts/demo shows, and parameter servers that stop for a while."""

import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from tests.support import clusters, processes
from tests.support.tfdist import BIN, ROOT, Tfdist
from tests.support.waiting import wait_for

DATA = ROOT / "configs/data"
DEMO = ROOT / "configs/digits.toml"


def cluster(steps, slots=2, further=()):
    command = ["{runtime}", "--data", "digits", "--model", "mlp", "--steps", str(steps), *further]
    return clusters.local("digits", command, slots=slots, task_extra=f'workdir = "{DATA}"')


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


class Training(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("training")
        self.addCleanup(self.user.close)

    def assert_nothing_left(self):
        wait_for(lambda: not self.user.left(), lambda: f"nothing left; there is {self.user.left()}", 30)

    def test_two_servers_and_two_trainers_learn_digits(self):
        result = self.user.run("up", str(DEMO), seconds=300)
        self.assertEqual(result.code, 0, result)
        accuracy = float(re.search(r"final: .*test accuracy ([0-9.]+)", result.out).group(1))
        self.assertGreaterEqual(accuracy, 0.95)
        for server in ("ps:0", "ps:1"):
            self.assertRegex(result.out, rf"{server}\s+\| .*pulls.*pushes.*bytes")
        self.assert_nothing_left()

    @unittest.skipUnless(has_ipv6(), "this machine has no IPv6")
    def test_all_of_it_over_ipv6(self):
        text = cluster(300).replace('"127.0.0.1"', '"::1"')
        result = self.user.run("up", self.user.write("digits.toml", text))
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"ps:0\s+\| ps:0 listens at tcp://\[::1\]:")
        self.assertIn("final: step", result.out)

    def step(self):
        """The newest global step that the chief has told."""
        steps = re.findall(r"\| step (\d+),", self.user.run("logs", "--tail", "50", "digits", "master:0").out)
        return int(steps[-1]) if steps else 0

    def server_pid(self, task):
        return self.user.task_pid(task)

    def test_a_stopped_server_stops_every_worker_until_it_goes_on(self):
        up = self.user.run("up", "-d", self.user.write("digits.toml", cluster(100_000_000)))
        self.assertEqual(up.code, 0, up)
        wait_for(lambda: self.step() > 0, "training goes on")
        pid = self.server_pid("ps:1")
        processes.kill(pid, signal.SIGSTOP)
        self.addCleanup(processes.kill, pid, signal.SIGCONT)
        wait_for(lambda: self.waits("master:0") and self.waits("worker:0"), "both trainers wait for ps:1")
        stalled = self.step()
        said = {trainer: self.lines(trainer) for trainer in ("master:0", "worker:0")}
        # Trainers speak every 10 s while they wait; they have nothing but that to say.
        wait_for(lambda: all(self.lines(trainer) > count for trainer, count in said.items()), "both say so again")
        self.assertTrue(self.waits("master:0") and self.waits("worker:0"))
        self.assertEqual(self.step(), stalled)
        self.assertEqual(self.user.status()["state"], "running")
        processes.kill(pid, signal.SIGCONT)
        wait_for(lambda: self.step() > stalled, "steps go on")
        self.user.run("down").expect(0)

    def waits(self, trainer):
        """Whether the last that a trainer said is that it waits for ps:1."""
        return "waiting for ps:1" in self.user.run("logs", "--tail", "1", "digits", trainer).out

    def lines(self, trainer):
        return len(self.user.run("logs", "digits", trainer).out.splitlines())

    def test_a_killed_cli_leaves_the_training_to_finish(self):
        cli = self.user.start("up", self.user.write("digits.toml", cluster(20_000)))
        self.user.wait_for_output(cli, b"step")
        cli.kill()
        cli.wait()
        self.assertEqual(self.user.wait_until_ended()["result"], "succeeded")
        log = self.user.run_bytes("logs", "--raw", "digits", "master:0")
        self.assertEqual(log, b"".join(path.read_bytes() for path in self.user.log_files("master:0")))
        # The chief speaks first once the global step is 500 or more: others take steps while it stands still.
        self.assertGreaterEqual(int(re.search(rb"step (\d+),", log).group(1)), 500)
        self.assertRegex(log, rb"final: step 200\d\d,")
        self.assert_nothing_left()

    def said(self, task, text):
        return self.user.run("logs", "digits", task).out.count(text)

    def kill(self, task, until, text):
        """Kills a task, and waits until another one has said that training goes on."""
        before = self.said(until, text)
        processes.kill(self.user.task_pid(task))
        wait_for(lambda: self.said(until, text) > before, f"{until}: {text!r} after the end of {task}", 60)

    def test_checkpoints_carry_a_training_through_the_ends_of_a_worker_a_server_and_the_chief(self):
        checkpoints = ["--checkpoint-dir", "run", "--checkpoint-steps", "500", "--eval-every", "5000"]
        up = self.user.run("up", "-d", self.user.write("digits.toml", cluster(100_000, further=checkpoints)))
        self.assertEqual(up.code, 0, up)
        wait_for(lambda: self.said("master:0", "checkpoint run/ckpt-") > 0, "there is a checkpoint")
        self.kill("worker:0", "worker:0", "worker:0 joins at step ")
        self.kill("ps:1", "master:0", "goes on at step ")
        self.kill("master:0", "master:0", "goes on at step ")
        self.assertEqual(self.user.wait_until_ended()["result"], "succeeded")
        log = self.user.run("logs", "digits", "master:0").out
        self.assertRegex(log, r"goes on at step \d+, from run/ckpt-\d+: (the job had reached step|no step is lost)")
        self.assertGreaterEqual(float(re.search(r"final: .*test accuracy ([0-9.]+)", log).group(1)), 0.95)
        self.assert_nothing_left()


class OnATerminal(unittest.TestCase):
    """The executable itself, without tfdist."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tfdist-status-"))
        self.addCleanup(shutil.rmtree, self.folder)
        secret = self.folder / "secret"
        secret.write_text("7" * 64)
        secret.chmod(0o600)
        port = clusters.free_ports(2)
        self.cluster = {"ps": [f"127.0.0.1:{port}"], "master": [f"127.0.0.1:{port + 1}"]}
        self.environment = dict(os.environ, TFDIST_SECRET_FILE=str(secret))

    def start(self, task, *arguments, **options):
        config = json.dumps({"cluster": self.cluster, "task": {"type": task, "index": 0}})
        process = subprocess.Popen([BIN / "tfdist-runtime", *arguments], stdin=subprocess.DEVNULL,
                                   env=dict(self.environment, TF_CONFIG=config), **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_the_chief_writes_one_status_line_over_the_other(self):
        self.start("ps", stdout=subprocess.DEVNULL)
        terminal, inner = pty.openpty()
        with open(terminal, "rb", buffering=0) as shown:
            chief = self.start("master", "--data", str(DATA / "digits"), "--steps", "60", "--eval-every", "20", stdout=inner)
            os.close(inner)
            text = b""
            with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
                while piece := shown.read(65536):
                    text += piece
        self.assertEqual(chief.wait(60), 0)
        lines = text.decode().split("\r\n")
        erase = "\r\x1b[K"
        # A line that stays, behind the status line that it has taken the place of.
        second = next(line for line in lines if "step 40, test" in line)
        self.assertRegex(second, rf"^step 20 of 60, loss [\d.]+, test accuracy [\d.]+, \d+ steps/s, [\d.]+ .B/s{re.escape(erase)}step 40,")
        self.assertTrue(text.endswith(erase.encode()), text)  # nothing is left of it


if __name__ == "__main__":
    unittest.main()
