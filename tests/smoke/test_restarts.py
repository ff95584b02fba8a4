"""Tasks that are killed start again, and the job goes on: by itself, after `up -d`."""

import re
import unittest

from tests.support import clusters, processes
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

DATA = ROOT / "configs/data"


class Restarts(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("restarts")
        self.addCleanup(self.user.close)

    def assert_nothing_left(self):
        wait_for(lambda: not self.user.left(), lambda: f"nothing left; there is {self.user.left()}", 30)

    def train(self, steps):
        """The demo's job, in the background; returns the process of `up`, and the tasks, once training goes on. It begins when the
        tasks are known: it lasts seconds, and waits for nobody. `steps`: a number, also as a shell works it out."""
        go = self.user.folder / "go"
        command = ["sh", "-c", f'until [ -e {go} ]; do sleep 0.1; done; exec "$@" --steps {steps}', "sh",
                   "{runtime}", "--data", "digits", "--model", "mlp"]
        up = self.user.start("up", self.user.write("digits.toml", clusters.local(
            "digits", command, task_extra=f'workdir = "{DATA}"')))
        tasks = {row["task"]: row for row in self.user.wait_until_tasks_run()["tasks"]}
        go.touch()
        self.user.wait_for_output(up, b"| step ")
        return up, tasks

    def assert_trained(self, up):
        self.assertEqual(up.wait(300), 0, up.out.read_text() + up.err.read_text())
        accuracy = float(re.findall(r"final: .*test accuracy ([0-9.]+)", up.out.read_text())[-1])
        self.assertGreaterEqual(accuracy, 0.95)
        self.assert_nothing_left()

    def kill_in_training(self, task):
        up, tasks = self.train(steps=20000)
        processes.kill(tasks[task]["pid"])
        self.assert_trained(up)
        return up.err.read_text()

    def test_a_killed_worker_starts_again(self):
        said = self.kill_in_training("worker:0")
        self.assertRegex(said, r"tfdist: worker:0 on \S+: signal 9 \(SIGKILL\); starting worker:0 again in \S+ s "
                               r"\(2 restarts left\)")

    def test_a_killed_server_starts_all_tasks_again(self):
        said = self.kill_in_training("ps:1")
        self.assertRegex(said, r"tfdist: ps:1 on \S+: signal 9 \(SIGKILL\); starting all tasks again in ")

    def test_a_killed_chief_starts_all_tasks_again(self):
        said = self.kill_in_training("master:0")
        self.assertRegex(said, r"tfdist: master:0 on \S+: signal 9 \(SIGKILL\); starting all tasks again in ")

    def test_tasks_start_again_when_they_are_asked_to(self):
        up, before = self.train(steps="$((TFDIST_ATTEMPT == 1 ? 1000000000 : 12000))")  # the first attempt does not end by itself
        one = self.user.run("restart", "digits", "worker:0")
        self.assertEqual(one.code, 0, one)
        self.assertRegex(one.out, r"^worker:0 on \S+: attempt 1, run 2, pid \d+\n$")
        self.assertIn("worker:0 of job digits-", one.err)
        after = {row["task"]: row for row in self.user.status()["tasks"]}
        self.assertEqual({task for task in after if after[task]["pid"] != before[task]["pid"]}, {"worker:0"})
        self.assertEqual(after["worker:0"]["restarts"], 0)
        whole = self.user.run("restart")
        self.assertEqual(whole.code, 0, whole)
        self.assertEqual(len(re.findall(r"(?m)^\S+ on \S+: attempt 2, run 1, pid \d+$", whole.out)), len(after))
        self.assertRegex(self.user.run("why").out, r"(?s)restarted all tasks in attempt 1.*tfdist restart")
        self.assert_trained(up)
        self.assertIn("tfdist: tfdist restart; starting worker:0 again\n", up.err.read_text())

    def test_restart_says_that_the_workdir_has_changed(self):
        self.user.write("work/train.py", "import time; time.sleep(1000)\n")
        self.user.write("work/data/set", "1")
        file = self.user.write("job.toml", clusters.local("job", ["python3", "train.py", "{data:set}"], slots=1, task_extra='workdir = "work"')
                               + '[data]\nset = "work/data"\n')
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run()
        self.assertNotIn("changed", self.user.run("restart", "job").expect(0).err)
        self.user.write("work/train.py", "import time; time.sleep(2000)\n")
        self.user.write("work/data/set", "2")
        self.assertIn("tfdist: workdir changed: train.py; the tasks start again with the files that `up` sent\n"
                      f"  try: tfdist up --replace {file} sends the new ones, for a new job\n", self.user.run("restart", "job").expect(0).err)
        self.user.run("down", "--force", "job").expect(0)

    def test_restart_refuses_what_cannot_be(self):
        self.user.run("restart", "nobody").expect(4)
        file = self.user.write("job.toml", clusters.local("job", ["true"], slots=1))
        self.user.run("up", file).expect(0)
        unknown = self.user.run("restart", "job", "worker:7")
        self.assertEqual(unknown.code, 2, unknown)
        another = self.user.run("restart", "job", "--", "--lr", "0.1").expect(2)
        self.assertIn("  try: a restart runs the same command; tfdist up --replace ... -- --lr 0.1 ends the job and starts it with these words\n", another.err)
        self.assert_nothing_left()
        over = self.user.run("restart", "job")
        self.assertEqual(over.code, 4, over)
        self.assertRegex(over.err, rf"job job-\S+ has ended \(succeeded\): nothing of it runs\n  try: tfdist up {re.escape(str(file))} starts a new one\n")
        self.user.run("up", "-H", "localhost", "--no-workdir", "--", "true").expect(0)
        self.assertIn("  try: the same `tfdist up -H ...` starts a new one\n", self.user.run("restart", "true").expect(4).err)

    def test_restart_of_a_job_that_is_stopping_names_it(self):
        file = self.user.write("job.toml", clusters.local(
            "job", ["sh", "-c", "trap 'echo saving' TERM; while :; do sleep 0.1; done"], slots=1).replace("[task]", '[task]\ngrace = "30s"'))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run()
        down = self.user.start("down", "job")
        wait_for(lambda: "saving" in self.user.run("logs", "job").out, "a task that takes its time")
        refused = self.user.run("restart", "job").expect(4).err
        self.assertRegex(refused, r"job job-\S+: the job does not run: it is stopping\n  try: tfdist wait job-\S+; then the same `up` starts it anew\n")
        self.user.run("down", "--force", "job").expect(0)
        self.assertEqual(down.wait(60), 0, down.err.read_text())

    def test_a_task_that_fails_again_and_again_ends_the_job_with_its_cause(self):
        text = clusters.local("job", ["sh", "-c", "case $TFDIST_TASK in ps*) exec sleep infinity;; esac; echo hello; exit 3"], slots=1) + """
[restart]
master = { policy = "task", limit = 2, backoff = "100ms" }
"""
        up = self.user.run("up", self.user.write("job.toml", text))
        self.assertEqual(up.code, 1, up)
        self.assertEqual(up.out.count("master:0 | hello\n"), 3)
        self.assertIn("exit code 3 (after 2 restarts within 10m)", up.err)
        status = self.user.status()
        self.assertEqual([row["restarts"] for row in status["tasks"] if row["task"] == "master:0"], [2])
        self.assert_nothing_left()

    def fails_at_once(self, script, code, layout):
        ps = f", ps = {clusters.free_ports(2)}" if layout == "uai" else ""
        file = self.user.write("job.toml", f"""
name = "job"
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local", slots = 2 }}]
layout = "{layout}"
ports = {{ worker = {clusters.free_ports(2)}{ps} }}
[task]
command = ["sh", "-c", "{script}"]
gpus = 0
""")
        up = self.user.run("up", file)
        self.assertEqual(up.code, 1, up)
        self.assertRegex(up.err, rf"stopping all tasks: \S+ on \S+: exit code {code} \(not started again, as it has never run for 5s")
        self.assertNotIn("again in", up.err)
        self.assertEqual([row["restarts"] for row in self.user.status()["tasks"] if row["restarts"]], [])
        self.assert_nothing_left()
        return up

    def test_a_program_that_fails_at_its_first_line_fails_the_job_once(self):
        for layout in ("mirrored", "uai"):
            with self.subTest(layout):
                up = self.fails_at_once("echo ModuleNotFoundError; exit 1", 1, layout)
                for task in set(re.findall(r"(?m)^(\S+) +\| Module", up.out)):
                    self.assertEqual(len(re.findall(rf"(?m)^{task} +\| Module", up.out)), 1)

    def test_a_command_that_a_shell_does_not_find_fails_the_job_once(self):
        # By a variable: `up` would find a plain word itself, before anything starts.
        self.fails_at_once("program=no-such-program; exec $program", 127, "mirrored")
        self.fails_at_once("program=/dev/null; exec $program", 126, "mirrored")

    def test_a_restart_that_the_deadline_would_end_does_not_begin(self):
        script = "trap 'exit 9' TERM; case $TFDIST_TASK in worker*) exit 1;; esac; sleep 1000 & wait"
        text = clusters.local("job", ["sh", "-c", script], extra='deadline = "300s"')
        up = self.user.run("up", self.user.write("job.toml", text + '\n[restart]\nworker = { policy = "task", backoff = "300s" }\n'))
        self.assertEqual(up.code, 1, up)
        self.assertRegex(up.err, r"worker:0 on \S+: exit code 1 \(not started again, as its deadline of 5m is too near")
        self.assertNotIn("again in", up.err)

    def test_tasks_are_warned_before_the_deadline_and_may_still_end_well(self):
        """Each saves its work when it is told, and ends with 0: the job succeeds, in time."""
        script = "trap 'echo saved; exit 0' USR2; while true; do sleep 0.1; done"
        text = clusters.local("job", ["sh", "-c", script], slots=1,
                              extra='deadline = "60s"\ndeadline_warning = "54s"\ndeadline_signal = "SIGUSR2"')
        up = self.user.run("up", self.user.write("job.toml", text))
        self.assertEqual(up.code, 0, up)
        self.assertIn("master:0 | saved\n", up.out)
        self.assertIn("tfdist: the deadline is near: all tasks get SIGUSR2, 54s before it\n", up.err)
        self.assertIn("all tasks get SIGUSR2", self.user.run("events").out)
        self.assert_nothing_left()

    def test_a_hanging_worker_does_not_outlive_the_deadline(self):
        text = clusters.local("job", ["sleep", "infinity"], slots=1, extra='deadline = "3s"')
        up = self.user.run("up", self.user.write("job.toml", text))
        self.assertEqual(up.code, 1, up)
        self.assertIn("its deadline of 3s has passed", up.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
