"""Programs of configs/tensorflow one of whose tasks is killed in mid-training: the job goes on from its checkpoints, learns
the digits all the same, and ends with 0. What is measured stands in docs/tensorflow.md; each test prints it."""

import os
import re
import signal
import unittest

from tests.support import environments
from tests.support.waiting import wait_for
from tests.tensorflow import jobs
from tests.tensorflow.jobs import setUpModule  # noqa: F401


RESTART = re.compile(r"starting .* again in")


class Killed(jobs.TensorFlowJobs):
    def train_and_kill(self, hosts, example, victim, when, goes_on, *changes):
        """Kills `victim` when `when` (a pattern) has been printed; the output after the restart, in which `goes_on`
        must come, and all of it."""
        up = self.user.start("up", self.put_on(hosts, example, *changes))
        self.wait_for_line(up, when)
        before = len(up.out.read_bytes())
        watch = jobs.Stopwatch()
        _, pid = jobs.task_process(hosts, victim)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: RESTART.search(up.out.read_text() + up.err.read_text()),
                 lambda: f"the restart is said: {up.err.read_text()}", 120)
        self.wait_for_line(up, goes_on, before)
        goes_on_after = watch.seconds()
        code = up.wait(jobs.SECONDS)
        out = up.out.read_text(errors="replace")
        self.assertEqual(code, 0, out + up.err.read_text())
        accuracy = self.assert_learned(out)
        self.assert_nothing_left(hosts)
        print(f"\n{example}: {victim} killed: training goes on after {goes_on_after:.1f} s, the job ends after "
              f"{watch.seconds():.1f} s, accuracy {accuracy}", flush=True)
        return out[before:], out

    def assert_attempts(self, count):
        """How often all tasks were started."""
        self.assertEqual(self.user.status()["attempt"], count)

    def wait_for_line(self, up, pattern, begin=0):
        def said():
            assert up.poll() is None, f"ended with {up.returncode}: {up.out.read_text()}{up.err.read_text()}"
            return re.search(pattern, up.out.read_bytes()[begin:].decode(errors="replace"))

        return wait_for(said, lambda: f"{pattern}: {up.out.read_text()[-5000:]}{up.err.read_text()}", jobs.SECONDS)


class Estimator(Killed):
    def setUp(self):
        if not environments.has_estimator():
            raise unittest.SkipTest("this TensorFlow has no Estimator")
        super().setUp()

    def kill(self, victim, goes_on, steps=6000):
        return self.train_and_kill(self.start_hosts(3), "estimator/master.toml", victim,
                                   r"worker:1 \| .*loss = .*step = \d{3,}", goes_on,
                                   ('"{shared}/estimator"', f'"{{shared}}/estimator", "--steps={steps}"'), ("[1-4]", "[1-3]"))

    def test_a_worker_starts_again_alone(self):
        # On a calm machine the others make 6,000 steps before its TensorFlow has started again.
        self.kill("worker:1", r"worker:1 \| .*loss = .*step = \d{3,}", steps=15000)
        self.assert_attempts(1)

    def test_a_ps_starts_all_again_from_the_checkpoint(self):
        again = r"(?s)master:0 \| INFO:tensorflow:Using config.*?master:0 \| [^\n]*loss = [^\n]*step = (\d+)"
        after, _ = self.kill("ps:1", again)
        self.assert_attempts(2)
        self.assertGreater(int(re.search(again, after)[1]), 0)

    def test_the_master_starts_all_again_from_the_checkpoint(self):
        again = r"(?s)master:0 \| INFO:tensorflow:Using config.*?master:0 \| [^\n]*loss = [^\n]*step = (\d+)"
        after, _ = self.kill("master:0", again)
        self.assert_attempts(2)
        self.assertGreater(int(re.search(again, after)[1]), 0)


class Mirrored(Killed):
    def kill(self, victim):
        epochs = ('"{shared}/mirrored"', '"{shared}/mirrored", "--epochs=30"')
        after, out = self.train_and_kill(self.start_hosts(2), "mirrored/two_hosts.toml", victim,
                                         r"worker:0 \| epoch 10 ended", r"worker:0 \| epoch 1[1-9] ended", epochs)
        # Not from the beginning.
        self.assertEqual(len(re.findall(r"worker:0 \| epoch 1 ended", out)), 1)
        self.assert_attempts(2)

    def test_all_start_again_where_a_member_is_killed(self):
        self.kill("worker:1")

    def test_all_start_again_where_the_chief_is_killed(self):
        self.kill("worker:0")


class Tf1(Killed):
    STEPS = ('"--checkpoint_dir={shared}/tf1"', '"--checkpoint_dir={shared}/tf1", "--steps=8000"')

    def kill(self, victim, goes_on):
        return self.train_and_kill(self.start_hosts(2), "tf1/async.toml", victim, r"worker:1 \| step [1-9]\d{2,}",
                                   goes_on, self.STEPS)

    def test_a_worker_starts_again_alone(self):
        self.kill("worker:1", r"worker:1 \| step [1-9]\d{2,}")
        self.assert_attempts(1)

    def test_a_ps_starts_all_again_from_the_checkpoint(self):
        after, out = self.kill("ps:1", r"(?s)ps:1 +\| ready.*worker:0 +\| step \d")
        steps = [int(step) for step in re.findall(r"worker:0 +\| step (\d+)", after.split("| ready")[-1])]
        self.assertTrue(steps, out)
        self.assertGreater(steps[0], 90)
        self.assert_attempts(2)


class Tf1Sync(Killed):
    def kill(self, victim, goes_on):
        return self.train_and_kill(self.start_hosts(2), "tf1/sync.toml", victim, r"worker:1 \| step [1-9]\d{2,}",
                                   goes_on, ("--steps=1000", "--steps=4000"))

    def test_a_worker_starts_again_alone_and_the_other_one_waits_for_it(self):
        after, _ = self.kill("worker:1", r"worker:1 \| step [1-9]\d{2,}")
        self.assertRegex(after, r"worker:1 \| final: step (3999|4000),")
        self.assert_attempts(1)

    def test_a_ps_starts_all_again_from_the_checkpoint(self):
        after, out = self.kill("ps:1", r"(?s)ps:1 +\| ready.*worker:0 +\| step \d")
        steps = [int(step) for step in re.findall(r"worker:0 +\| step (\d+)", after.split("| ready")[-1])]
        self.assertTrue(steps, out)
        self.assertGreater(steps[0], 90)
        self.assert_attempts(2)


class ParameterServerStrategy(Killed):
    def kill(self, victim, goes_on, when=r"chief:0 +\| epoch 5 ended", epochs=30):
        return self.train_and_kill(self.start_hosts(3), "parameter_server_strategy/cluster.toml", victim, when, goes_on,
                                   ('"{shared}/parameter-server-strategy"',
                                    f'"{{shared}}/parameter-server-strategy", "--epochs={epochs}"'))

    def test_a_worker_starts_again_alone(self):
        self.kill("worker:1", r"worker:1 +\| ready")
        self.assert_attempts(1)

    def test_a_ps_starts_all_again_from_the_backup(self):
        _, out = self.kill("ps:1", r"(?s)ps:1 +\| ready.*chief:0 +\| epoch \d")
        self.assertEqual(len(re.findall(r"chief:0 +\| epoch 1 ended", out)), 1, out)
        self.assert_attempts(2)

    def test_the_chief_starts_all_again_from_the_backup(self):
        _, out = self.kill("chief:0", r"(?s)ps:1 +\| ready.*chief:0 +\| epoch \d")
        self.assertEqual(len(re.findall(r"chief:0 +\| epoch 1 ended", out)), 1, out)
        self.assert_attempts(2)

    def test_an_evaluator_starts_again_alone(self):
        evaluated = r"evaluator:0 +\| epoch-\d+: test accuracy"
        self.kill("evaluator:0", evaluated, when=evaluated, epochs=60)
        self.assert_attempts(1)
