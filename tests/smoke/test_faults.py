"""SIGKILL to one process of tfdist at a time, while tasks run that try to escape."""

import itertools
import os
import re
import subprocess
import unittest

from tests.support import clusters, processes, unkillable
from tests.support.gate import Gate
from tests.support.tfdist import BIN, ROOT, Tfdist
from tests.support.waiting import PATIENCE, wait_for

TREE = ROOT / "tests/support/tree.py"
_marks = itertools.count(70001)


class FaultsCase(unittest.TestCase):
    """A job whose tasks try to escape, and what each test of a fault asserts."""

    def setUp(self):
        self.user = Tfdist("faults")
        self.addCleanup(self.user.close)
        self.mark = f"{next(_marks)}.{os.getpid():07}"  # seconds that no other test program's processes sleep
        self.gate = self.user.folder / "gate"
        self.addCleanup(self.end_strays)

    def end_strays(self):
        for pid in self.strays():
            processes.kill(pid)

    def strays(self):
        return {pid for pid, cmd in processes.matching(f"sleep {self.mark}").items() if cmd.startswith("sleep")}

    def start(self):
        """Two hosts on this machine; returns the pids of the tasks."""
        up = self.user.run("up", "-d", self.write_cluster())
        self.assertEqual(up.code, 0, up)
        return self.task_pids()

    def write_cluster(self):
        command = ["python3", str(TREE), self.mark, str(self.gate)]
        return self.user.write("cluster.toml", clusters.local("job", command) + clusters.NO_RESTARTS)

    def task_pids(self):
        pids = {task: self.user.task_pid(task) for task in ("master:0", "worker:0", "ps:0", "ps:1")}
        wait_for(lambda: len(self.strays()) == 16, "four escaped processes of each of four tasks")
        return pids

    def kill(self, slot, role):
        """SIGKILL to tfdist's own process of that slot; `role` as in its command line."""
        folder = str(self.user.slot_folder(slot))
        wanted = {pid for pid, cmd in processes.matching(folder).items() if cmd.startswith(f"tfdist-agent {role} ")}
        self.assertTrue(wanted, f"no {role} of slot {slot} in {processes.matching(folder)}")
        processes.kill(min(wanted))
        return min(wanted)

    def kill_all_of_tfdist(self):
        folder = str(self.user.folder)
        processes.kill_together(
            lambda: [pid for pid, cmd in processes.matching(folder).items() if cmd.startswith("tfdist-agent")])

    def assert_nothing_left(self):
        wait_for(lambda: not self.user.left() and not self.strays(),
                 lambda: f"nothing left; there is {self.user.left()} and {self.strays()}", 30)

    def assert_failed_with(self, reason):
        status = self.user.wait_for_status(lambda s: s["state"] == "failed", "the job fails")
        self.assertRegex(status["why"], reason)
        self.assert_nothing_left()

    def assert_finishes_undisturbed(self, pids):
        self.assertEqual({task: self.user.task_pid(task) for task in pids}, pids)
        self.gate.touch()
        status = self.user.wait_until_ended()
        self.assertEqual(status["result"], "succeeded", status)
        for task in ("master:0", "worker:0"):
            lines = self.user.run("logs", "--raw", "job", task).out.splitlines()
            self.assertEqual(lines[:-1], [f"line {i}" for i in range(len(lines) - 1)])
            self.assertEqual(lines[-1], f"end after {len(lines) - 1}")
        self.assert_nothing_left()

    def kill_agent(self, slot):
        pids = self.start()
        self.kill(slot, "agent")
        self.user.wait_for_status(lambda s: s["hosts"][slot]["agent_restarts"] > 0, "the agent is back")
        self.assert_finishes_undisturbed(pids)


class LostCommit(unittest.TestCase):
    """The agent hangs up instead of confirming that the job exists, and whoever asks again gets no answer."""

    def setUp(self):
        self.user = Tfdist("lost-commit")
        self.addCleanup(self.user.close)
        self.asked = self.user.folder / "asked"
        self.gate = Gate(self)
        self.file = self.user.write("cluster.toml", clusters.local("job", ["sleep", "infinity"], slots=1))
        self.imitate_agent()

    def imitate_agent(self):
        """Puts a program in its place that hands on what is said before the commit."""
        base = self.user.folder / ".cache/tfdist"
        self.user.run("up", "-d", self.file).expect(0)
        self.user.run("down", "--purge", "job").expect(0)
        wait_for(lambda: not self.user.left(), "the agents have left")
        agent = next((base / "bin").iterdir())
        program = f"""#!/usr/bin/env python3
import os, pathlib, subprocess, sys
real = subprocess.Popen(["{base}/bin/real", sys.argv[1]], stdin=subprocess.PIPE)
while (said := os.read(0, 1 << 16)) and b"may_fail" not in said:  # a word that only the plan has
    real.stdin.write(said)
    real.stdin.flush()
for file in pathlib.Path("{base}/jobs").glob("*/h0/agent"):
    file.unlink()
    file.symlink_to("/bin/false")
pathlib.Path("{self.asked}").touch()
open("{self.gate.path}").close()
"""
        size = agent.stat().st_size
        agent.rename(base / "bin/real")
        agent.write_text(program.ljust(size, "#"))
        agent.chmod(0o500)
        # Asked for the hash of what is there, it names the wanted one.
        sha256sum = self.user.write("path/sha256sum", f"#!/bin/sh\necho {agent.name}\n")
        os.chmod(sha256sum, 0o700)
        self.user.env["PATH"] = f"{self.user.folder}/path:{os.environ['PATH']}"

    def assert_in_doubt(self, said):
        job = self.user.job_id()
        self.assertIn(f"it is not known whether the job began: tfdist status {job}, tfdist down {job}", said)
        self.assertNotIn("nothing was started", said)
        self.assertNotIn("removes itself", said)

    def test_up_does_not_say_that_nothing_was_started(self):
        self.gate.open()
        up = self.user.run("up", self.file)
        self.assertEqual(up.code, 3, up)
        self.assert_in_doubt(up.err)

    def test_an_interrupted_up_does_not_say_that_it_took_something_back(self):
        terminal = self.user.start_on_terminal("up", self.file)
        wait_for(self.asked.exists, "the commit")
        terminal.ctrl_c()
        terminal.wait_for_text("interrupted")
        self.gate.open()
        self.assertEqual(terminal.wait(), 130, terminal.text)
        self.assert_in_doubt(terminal.text)


class Faults(FaultsCase):
    def test_the_agent_of_slot_0_may_die(self):
        self.kill_agent(0)

    def test_another_agent_may_die(self):
        self.kill_agent(1)

    def test_down_names_a_damaged_slot_file_and_ends_the_job(self):
        self.start()
        (self.user.slot_folder(0) / "slot.json").write_text("{")
        self.kill(0, "agent")
        self.user.wait_for_status(lambda s: s["hosts"][0]["agent_restarts"] > 0, "the agent is back")
        down = self.user.run("down", "job")
        self.assertEqual(down.code, 0, down)
        self.assertRegex(down.out + down.err, r"  \S+: \S+/slot\.json is damaged: ")
        self.assert_nothing_left()

    def test_what_outlives_all_of_tfdist_is_told_and_goes_with_the_next_job(self):
        script = f'setsid sleep {self.mark} & exec sleep infinity'
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", script]))
        self.user.run("up", "-d", file).expect(0)
        wait_for(lambda: len(self.strays()) == 4, "the tasks' children")
        self.kill_all_of_tfdist()
        self.assertEqual(len(self.strays()), 4)
        self.assertIn("no agent of it runs on 127.0.0.1", self.user.run("status").out)
        self.user.run("logs", "-f").expect(3)
        self.assertIn("something of it runs\n  try: tfdist down ", self.user.run("clean", "--yes", file).expect(3).err)
        again = self.user.run("up", "-d", self.user.write("next.toml", clusters.local("job", ["sleep", "infinity"])))
        self.assertEqual(again.code, 0, again)
        wait_for(lambda: not self.strays(), "the orphans' end")
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    def test_an_attached_up_starts_the_agent_again_that_was_killed_with_all_of_its_job(self):
        script = "echo begin; exec sleep infinity"
        up = self.user.start("up", self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", script])))
        self.user.wait_for_output(up, b"begin")  # up knows by now that the job has begun
        self.user.wait_until_tasks_run()
        self.kill_all_of_tfdist()
        self.user.wait_for_status(lambda s: s["state"] == "running" and any(task["run"] + s["attempt"] > 2 for task in s["tasks"]),
                                  "tasks start again")
        self.assertRegex(up.err.read_text(), r"tfdist: 127\.0\.0\.1: all processes of tfdist there were killed .*; its agent runs again\n")
        self.user.run("down").expect(0)
        self.assertEqual(up.wait(60), 1, up.err.read_text())
        self.assert_nothing_left()

    def test_logs_say_that_nobody_watches_the_job_any_more(self):
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", "echo begin; exec sleep infinity"]))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run()
        logs = self.user.start("logs", "-f")
        self.user.wait_for_output(logs, b"begin")
        self.kill_all_of_tfdist()
        self.assertEqual(logs.wait(60), 3, logs.err.read_text())
        self.assertRegex(logs.err.read_text(), r"the job has not ended, and no agent of it runs any more: all processes of tfdist there were killed "
                                               r"at once, .*\n  try: tfdist restart job-\S+ @127\.0\.0\.1 starts it again; tfdist down job-")
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    def test_an_attached_up_outlives_the_agent_that_it_talks_to(self):
        up = self.user.start("up", self.write_cluster())
        pids = self.task_pids()
        self.user.wait_for_output(up, b"line")  # up knows by now that the job has begun
        self.kill(0, "agent")
        self.user.wait_for_status(lambda s: s["hosts"][0]["agent_restarts"] > 0, "the agent is back")
        self.assert_finishes_undisturbed(pids)
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        printed = up.out.read_text().splitlines()
        for task in ("master:0", "worker:0"):
            log = self.user.run("logs", "job", task).out.splitlines()
            self.assertEqual([line.split(" | ")[1] for line in printed if line.startswith(task)],
                             [line.split(" | ")[1] for line in log])

    def test_a_log_is_followed_on_its_own_host_when_the_coordinator_is_gone(self):
        script = "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.01; done"
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", script]))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run()
        folder = str(self.user.slot_folder(0))
        processes.kill_together(
            lambda: [pid for pid, cmd in processes.matching(folder).items() if cmd.startswith("tfdist-agent")])
        logs = self.user.start("logs", "-f", "job", "worker:0")
        self.user.wait_for_output(logs, b"line")
        seen = logs.out.read_bytes().count(b"\n")
        wait_for(lambda: logs.out.read_bytes().count(b"\n") > seen + 100, "more lines than there were")
        self.user.run("down").expect(0)
        self.assertEqual(logs.wait(60), 3, "nobody knows how the job would have ended")
        numbers = [int(line.split("line ")[1]) for line in logs.out.read_text().splitlines() if "line" in line]
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assert_nothing_left()

    @unittest.skipIf(os.geteuid() != 0, "needs root for a mount")
    def test_output_that_a_full_disk_did_not_take_is_told(self):
        gate = self.user.folder / "gate"
        os.mkfifo(gate)
        task = f'case "$TFDIST_TASK" in ps:*) exec sleep infinity;; esac; : <{gate}; head -c 3000000 /dev/zero'
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", task], slots=1))
        # The task's log gets a small disk of its own, on which its run's folder stays where it was.
        script = f'''
            {BIN}/tfdist up -q {file} >/dev/null &
            until cd $HOME/.cache/tfdist/jobs/*/h0/tasks/master-0 && test -s run-1-1/pid; do sleep 0.1; done 2>/dev/null
            mkdir $HOME/run; mount --bind run-1-1 $HOME/run
            mount -t tmpfs -o size=512k small "$PWD"; cd "$PWD"; mkdir run-1-1; mount --bind $HOME/run run-1-1
            : >{gate}; wait $!
            {BIN}/tfdist status job; {BIN}/tfdist events job'''
        done = subprocess.run(["unshare", "--mount", "sh", "-ec", script], env=self.user.env, capture_output=True,
                              text=True, timeout=PATIENCE * 60)
        self.assertEqual(done.returncode, 0, done)
        [lost] = re.findall(r"warning: master:0 on 127.0.0.1: (\d+) bytes of its output are lost", done.stderr)
        self.assertGreater(int(lost), 2_000_000)
        self.assertIn(f"exit code 0; {lost} bytes of its output lost, as they could not be written\n", done.stdout)
        self.assertIn(f"task master:0: exit code 0; {lost} bytes of its output lost\n", done.stdout)

    @unittest.skipIf(os.geteuid() != 0, "needs root: a process that cannot be killed is the first of a namespace")
    def test_a_process_that_cannot_be_killed_is_named_and_waited_for_no_longer(self):
        script = f'case "$TFDIST_TASK" in worker:0) exec unshare --pid --fork sleep {self.mark};; esac; exec sleep infinity'
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", script]))
        self.user.run("up", "-d", file).expect(0)
        pid = wait_for(lambda: next(iter(self.strays()), None), "the process")
        with unkillable.made_unkillable(pid):
            down = self.user.run("down", "--force", "job", seconds=90)
            self.assertEqual(down.code, 1, down)
            self.assertIn("unconfirmed: 127.0.0.1", down.err)
            self.assertIn(f"still there: pid {pid} (sleep): cannot be killed", down.err)
            again = self.user.run("down", "--force", "job", seconds=90)  # now by the folder's notes alone
            self.assertEqual(again.code, 1, again)
            self.assertIn(f"pid {pid} (sleep)", again.err)
            self.assertEqual(self.user.status("job")["state"], "stopped")
        again = self.user.run("down", "job")
        self.assertEqual(again.code, 0, again)
        self.assert_nothing_left()

    def test_a_holder_that_dies_fails_the_job(self):
        self.start()
        self.kill(1, "holder")
        self.assert_failed_with("holder")

    def test_the_keeper_of_slot_0_that_dies_fails_the_job(self):
        self.start()
        self.kill(0, "keeper")
        self.assert_failed_with("keeper")

    def test_another_keeper_that_dies_fails_the_job(self):
        self.start()
        self.kill(1, "keeper")
        self.assert_failed_with("keeper")

    def test_a_task_that_is_killed_fails_the_job(self):
        pids = self.start()
        processes.kill(pids["worker:0"])
        self.assert_failed_with("SIGKILL|signal 9")


if __name__ == "__main__":
    unittest.main()
