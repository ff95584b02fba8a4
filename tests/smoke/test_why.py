"""`tfdist wait` and `tfdist why`, as a user and a script run them."""

import json
import re
import signal
import unittest

from tests.smoke.test_manners import documented_keys, keys_of
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for


class WaitAndWhy(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("why")
        self.addCleanup(self.user.close)

    def start(self, script, slots=2, extra=clusters.NO_RESTARTS):
        """`script` is what the tasks run: sh, with $TFDIST_TASK."""
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", script], slots=slots, extra=extra))
        up = self.user.run("up", "-d", file)
        self.assertEqual(up.code, 0, up)
        self.addCleanup(self.user.run, "down", "--force", "job")

    def test_wait_has_the_exit_code_of_the_job(self):
        self.start("sleep 1")
        waited = self.user.run("wait", "job")
        self.assertEqual((waited.code, waited.out), (0, ""), waited)
        self.assertRegex(waited.err, r"tfdist: job job-\S+ succeeded after ")
        again = self.user.run("wait", "job")
        self.assertEqual(again.code, 0, again)

    def test_wait_says_how_a_job_failed(self):
        self.start('sleep 1; test "$TFDIST_TASK" != worker:0 || { echo no data; exit 7; }; sleep 1000')
        waited = self.user.run("wait")
        self.assertEqual(waited.code, 1, waited)
        self.assertIn("first to fail: worker:0 on 127.0.0.1: exit code 7", waited.err)
        self.assertIn("    no data\n", waited.err)
        self.user.run("wait").expect(1)

    def test_wait_gives_up_in_time_and_leaves_the_job_alone(self):
        self.start("sleep 1000")
        waited = self.user.run("wait", "--timeout", "3s", "job")
        self.assertEqual(waited.code, 124, waited)
        self.assertRegex(waited.err, r"tfdist: waiting for job job-\S+ to end\n"
                                     r"tfdist: job job-\S+ has not ended in 3s\n")
        self.assertIn("has not ended in 1s\n", self.user.run("wait", "--timeout", "1", "job").expect(124).err)
        self.assertEqual(self.user.status("job")["state"], "running")
        wrong = self.user.run("wait", "--timeout", "soon", "job")
        self.assertEqual(wrong.code, 2, wrong)
        self.user.run("wait", "nosuch").expect(4)

    def test_ctrl_c_ends_the_waiting_and_not_the_job(self):
        self.start("sleep 1000")
        waiting = self.user.start("wait", "job")
        wait_for(lambda: b"waiting for job" in waiting.err.read_bytes(), "it waits")
        waiting.send_signal(signal.SIGINT)
        self.assertEqual(waiting.wait(30), 130)
        self.assertEqual(self.user.status("job")["state"], "running")

    def test_why_names_the_first_to_fail_and_who_only_ended_because_of_it(self):
        # master:0 sees that worker:0 is gone, and fails as well.
        self.start('case $TFDIST_TASK in worker:0) sleep 0.5; echo no data; kill -9 $$;; '
                   'master:0) trap "exit 9" TERM; while :; do sleep 0.1; done;; *) sleep 1000;; esac')
        self.user.wait_until_ended("job")
        why = self.user.run("why", "job")
        self.assertEqual(why.code, 0, why)
        lines = why.out.splitlines()
        self.assertRegex(lines[0], r"^job job-\S+: failed after \d+s: worker:0 on 127.0.0.1: signal 9 \(SIGKILL\)$")
        self.assertRegex(lines[1], r"^failed the job in attempt 1, at \S+Z: worker:0 on 127.0.0.1: signal 9 \(SIGKILL\)$")
        self.assertEqual(lines[2:5], ["  first to fail: worker:0 on 127.0.0.1: signal 9 (SIGKILL)",
                                      "  its last lines:", "    no data"])
        # What tfdist itself has ended is nobody's failure.
        self.assertEqual(len(lines), 5, why)

    def fail_one_after_the_other(self, first, second):
        """master:0 runs `first`, then worker:0 `second`, before it is told to stop: its agent stands still meanwhile. What `up` says."""
        folder = self.user.folder
        script = (f'wait_for() {{ until [ -e {folder}/$1 ]; do sleep 0.05; done; }}; case $TFDIST_TASK in '
                  f'master:0) wait_for go; {first};; worker:0) wait_for gone; {second};; *) exec sleep 1000;; esac')
        up = self.user.start("up", self.user.write("cluster.toml", clusters.local(
            "job", ["sh", "-c", script], extra=clusters.NO_RESTARTS)))
        [_, worker] = [self.user.task_pid(task) for task in ("master:0", "worker:0")]
        slot = str(self.user.slot_folder(1))
        [agent] = [pid for pid, cmd in processes.matching(slot).items() if cmd.startswith("tfdist-agent agent ")]
        processes.kill(agent, signal.SIGSTOP)
        self.addCleanup(processes.kill, agent, signal.SIGCONT)
        (folder / "go").touch()
        self.user.wait_for_status(lambda status: status["state"] == "stopping", "the job stops")
        (folder / "gone").touch()
        wait_for(lambda: not processes.alive(worker), "worker:0 has ended")
        processes.kill(agent, signal.SIGCONT)
        self.assertEqual(up.wait(60), 1, up.err.read_text())
        return up.err.read_text()

    def test_up_and_status_name_who_failed_after_the_first_and_because_of_it(self):
        said = self.fail_one_after_the_other("kill -9 $$", "exit 9")
        self.assertIn("tfdist: first to fail: master:0 on 127.0.0.1: signal 9 (SIGKILL)\n", said)
        self.assertRegex(said, r"\n  after it, not its cause: worker:0: exit code 9, \d+\.\d s later\n")
        self.assertNotIn("cause: ps", said, "what tfdist itself has ended is nobody's failure")
        self.assertIn("after it, not its cause: worker:0\n", self.user.run("status", "job").out)

    def test_what_several_tasks_have_ended_with_is_shown_once(self):
        bad = "exec python3 -c 'import no_such_module'"
        said = self.fail_one_after_the_other(bad, bad)
        told = "    ModuleNotFoundError: No module named 'no_such_module'\n  the same from worker:0\n"
        self.assertIn(told, said)
        self.assertNotIn("after it, not its cause", said)
        why = self.user.run("why", "job").out
        self.assertIn(told, why)
        self.assertNotIn("after it, not its cause", why)

    def start_failing(self, backoff):
        self.start('test "$TFDIST_TASK" != worker:0 || { echo bad; exit 3; }; sleep 1000',
                   extra=f'[restart]\nworker = {{ policy = "task", limit = 2, backoff = "{backoff}" }}\n')

    def test_why_says_what_is_waited_for(self):
        self.start_failing(backoff="1h")
        why = wait_for(lambda: self.waits(), "a pause before a restart")
        self.assertRegex(why.out, r"waits for the pause before worker:0 starts again: \d{4}\.\d s more\n")
        self.assertRegex(why.out, r"restarted the task in attempt 1, at \S+Z: worker:0 on 127.0.0.1: exit code 3")

    def test_why_counts_the_restarts(self):
        self.start_failing(backoff="100ms")
        self.user.wait_until_ended("job")
        why = self.user.run("why", "job")
        self.assertIn("failed the job in attempt 1", why.out)
        self.assertIn("before that:\n", why.out)
        self.assertEqual(len(re.findall("restarted the task: worker:0", why.out)), 2, why)

    def test_why_names_a_peer_that_had_ended_before(self):
        """worker:1 fails as its connection to worker:0 is gone, or waits for it."""
        gate = self.user.folder / "gate"
        self.start('case $TFDIST_TASK in worker:0) exit 0;; ps:*) exec sleep 1000;; esac; '
                   f'while ! test -e {gate}; do sleep 0.1; done; echo peer is gone; exit 1')
        wait_for(lambda: [task["task"] for task in self.user.status("job")["tasks"] if "exit" in task] == ["worker:0"], "one has ended")
        ended = r"worker:0 on 127\.0\.0\.1 ended with exit code 0"
        self.assertRegex(self.user.run("why").expect(0).out, rf"(?m)^{ended}, \S+ ago: a task that needs it waits for ever, or fails$")
        gate.touch()
        self.user.wait_until_ended("job")
        why = self.user.run("why").expect(0)
        self.assertRegex(why.out, rf"(?m)^    peer is gone\n  before it: {ended}, \d+\.\d s earlier: a task that needs it fails once it is gone$")
        self.assertNotIn("waits for ever", why.out)
        incident = json.loads(self.user.run("why", "--json").out)["incidents"][-1]
        self.assertEqual([(end["task"], end["exit"]["code"]) for end in incident["ended_before"]], [("worker:0", 0)])

    def waits(self):
        why = self.user.run("why", "job")
        return why if "waits for the pause" in why.out else None

    def test_why_of_a_job_that_runs_says_that_nothing_is_wrong(self):
        self.start("sleep 1000")
        self.user.wait_until_tasks_run("job")
        why = self.user.run("why")
        self.assertEqual(why.code, 0, why)
        self.assertRegex(why.out, r"^job job-\S+: running, attempt 1\nno task has failed\n$")

    def test_the_documented_json_of_why(self):
        self.start("exit 3", slots=1)
        self.user.wait_until_ended("job")
        why = self.user.run("why", "--json", "job")
        self.assertEqual(why.code, 0, why)
        value = json.loads(why.out)
        value["incidents"][0]["collateral"] = value["incidents"][0]["ended_before"] = []
        documented = documented_keys("why")
        self.assertEqual(keys_of(value, documented), documented)
        [incident] = value["incidents"]
        self.assertEqual((value["state"], incident["consequence"]), ("failed", "failed the job"))
        self.assertEqual((incident["first"]["exit"]["code"], incident["first"]["how"]), (3, "exit code 3"))


if __name__ == "__main__":
    unittest.main()
