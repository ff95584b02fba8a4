"""What `up` leaves when a signal ends it while it brings hosts up."""

import json
import os
import shutil
import signal
import time
import unittest

from tests.hosts.hosts import check_possible
from tests.smoke.test_local import shell
from tests.smoke.test_ssh import OverSsh
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

ROUNDS = int(os.environ.get("TFDIST_PAIRS", 6))
KILLED = "its `up` was killed while it brought hosts up"


def another_machine(test):
    """That knows the job, as one with this home folder: the `up` here is not its to stop."""
    other = Tfdist("other")
    test.addCleanup(other.close)
    shutil.copytree(test.user.folder / ".local", other.folder / ".local", ignore=shutil.ignore_patterns("*.lock", "*.up"))
    return other


def setUpModule():
    check_possible()


class LeftByUp(OverSsh):
    def begin(self):
        """`up` of two hosts: the first one has its agent, the second one does not answer."""
        self.hosts = self.start_hosts(2)
        self.hosts[1].freeze()
        self.addCleanup(self.hosts[1].thaw)
        up = self.user.start("up", self.write(self.hosts, shell("exec sleep infinity")))
        wait_for(lambda: [process for process in self.hosts[0].processes() if "agent" in process.argv[1:]],
                 lambda: f"an agent; {up.err.read_text()}")
        return up

    def run_well(self, *args):
        result = self.user.run(*args)
        self.assertEqual(result.code, 0, result)
        return result.out

    def test_a_closed_terminal_rolls_back(self):
        up = self.begin()
        up.send_signal(signal.SIGHUP)
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        self.assertIn("rolling back", up.err.read_text())
        self.hosts[1].thaw()
        self.assert_nothing_left(self.hosts)
        self.assertEqual(json.loads(self.run_well("list", "--json")), [])

    def test_a_killed_up_is_named_and_nobody_means_its_job(self):
        self.run_well("up", self.user.write("real.toml", clusters.local("real", shell("echo real output"), slots=1)))
        real = self.user.job_id()
        up = self.begin()
        left = self.user.job_id()
        up.kill()
        up.wait()
        self.hosts[1].thaw()
        status = self.user.run("status", left)
        self.assertEqual((status.code, status.out),
                         (0, f"job {left}: {KILLED}; tfdist down {left} ends what it left\n"), status)
        shown = json.loads(self.run_well("status", "--json", left))
        self.assertEqual((shown["state"], shown["result"], shown["why"]), ("starting", "", KILLED))
        self.assertIn(f"job {real}: succeeded", self.run_well("why"))
        self.assertIn("real output", self.run_well("logs"))
        why = self.user.run("why", left)
        self.assertEqual(why.code, 4, why)
        self.assertIn(f"the event log of job {left} is not there: {KILLED}\n  try: tfdist down {left} ends what", why.err)
        self.assert_told(left, "h1: connection lost")
        self.assert_told(left, KILLED)
        self.run_well("down")
        self.assert_nothing_left(self.hosts)
        self.assertIn("forgot 2 of 2 jobs; ", self.run_well("prune"))
        self.assertEqual(list((self.user.folder / ".local/state/tfdist/jobs").iterdir()), [])

    def test_nobody_waits_for_the_hosts_of_a_killed_up(self):
        """It has asked none of them to begin its job, so that none needs to be asked whether it has."""
        up = self.begin()
        left = self.user.job_id()
        up.kill()
        up.wait()
        self.hosts[0].freeze()
        self.addCleanup(self.hosts[0].thaw)
        self.run_well("up", self.user.write("real.toml", clusters.local("real", shell("echo real output"), slots=1)))
        begin = time.monotonic()
        self.assertIn("real output", self.run_well("logs"))
        states = {row["job"]: (row["state"], row["why"]) for row in json.loads(self.run_well("list", "--json"))}
        self.assertEqual(states[left], ("not started", KILLED))
        self.assertIn("forgot 2 of 2 jobs; ", self.run_well("prune"))
        self.assertLess(time.monotonic() - begin, 10, "a host that hangs was asked")
        self.hosts[0].thaw()
        self.hosts[1].thaw()
        wait_for(lambda: not any(process.argv[1:2] == ["agent"] for host in self.hosts for process in host.processes()),
                 "the agents end by themselves", 90)

    def test_prune_looks_for_results_of_a_job_that_seems_not_to_have_started(self):
        """`up` got no answer to its commit, and the job ran; its first host has lost its folder since."""
        self.hosts = self.start_hosts(2)
        self.run_well("up", "-d", self.write(self.hosts, shell("echo weights >model.ckpt; exec sleep infinity")))
        job = self.user.job_id()
        self.user.wait_until_tasks_run(job)
        wait_for(lambda: all(list(host.home.rglob("work/model.ckpt")) for host in self.hosts), "results on both hosts")
        path = self.user.folder / f".local/state/tfdist/jobs/{job}.json"
        record = json.loads(path.read_text())
        record["last_seen"] = {**record["last_seen"], "stage": "starting", "began_ns": 0, "why": f"{self.hosts[0].address}: connection lost"}
        path.write_text(json.dumps(record))
        processes.kill_together(lambda: [process.pid for process in self.hosts[0].processes()])
        shutil.rmtree(self.job_folder(self.hosts[0]))
        self.run_well("down", job)
        [row] = json.loads(self.run_well("list", "--json"))
        self.assertEqual(row["state"], "not started")
        self.assertIn(f"kept {job}: files of its tasks are on {self.hosts[1].address}\n", self.run_well("prune"))
        self.assertIn(f"left: {job}: files of its tasks are on", self.user.run("prune", "job").expect(2).out)
        self.assertIn("forgot 1 job; ", self.run_well("prune", job))

    def assert_told(self, job, why):
        """What `up` has noted of its job itself comes before what others make of it."""
        path = self.user.folder / f".local/state/tfdist/jobs/{job}.json"
        record = json.loads(path.read_text())
        record["last_seen"]["why"] = why
        path.write_text(json.dumps(record))
        self.assertEqual(self.run_well("status", job), f"job {job}: {why}; tfdist down {job} ends what it left\n")
        self.assertIn(f"the event log of job {job} is not there: {why}\n", self.user.run("why", job).err)

    def test_down_without_a_name_ends_no_other_job_than_the_killed_one(self):
        self.run_well("up", "-d", self.user.write("long.toml", clusters.local("long", shell("exec sleep infinity"), slots=1)))
        long = self.user.job_id()
        self.user.wait_until_tasks_run(long)
        up = self.begin()
        left = self.user.job_id()
        up.kill()
        up.wait()
        down = self.user.run("down")
        self.assertEqual(down.code, 2, down)
        self.assertRegex(down.err, f"2 jobs run, or have left something: {left} .*{KILLED}.*, {long} ")
        self.assertEqual(self.user.status(long)["state"], "running")
        self.hosts[1].thaw()
        self.run_well("down", left)
        self.run_well("down", long)


class DownWhileUpDeploys(OverSsh):
    """The coordinator begins the job after it has refused to stop it, and before a host is ended."""

    HOLD = """
echo >>/tmp/logins
if [ -e /tmp/hold ] && [ "$(wc -l </tmp/logins)" -gt "$(cat /tmp/hold)" ]; then
  : >/tmp/held
  while [ -e /tmp/hold ]; do sleep 0.05; done
fi
"""

    def hold_logins(self, host, most):
        """From now on all that come after so many."""
        folder = host.folder / "tmp"
        (folder / "logins").write_text("")
        (folder / "logins").chmod(0o666)
        (folder / "hold").write_text(str(most))

    def is_held(self, host):
        return (host.folder / "tmp/held").exists()

    def let_in(self, host):
        (host.folder / "tmp/hold").unlink()

    def agents(self, host):
        return [process for process in host.processes() if "agent" in process.argv[1:]]

    def tasks(self, host):
        return [process for process in host.processes() if process.argv[0] == "sleep" and process.argv[1] == "infinity"]

    def test_its_ends_are_no_failures(self):
        hosts = self.start_hosts(3, bashrc=self.HOLD)
        hosts[2].freeze()
        self.addCleanup(hosts[2].thaw)
        up = self.user.start("up", self.write(hosts, shell("exec sleep infinity"), layout="mirrored"))
        wait_for(lambda: self.agents(hosts[0]) and self.agents(hosts[1]), lambda: f"two agents; {up.err.read_text()}")
        other = another_machine(self)
        self.hold_logins(hosts[0], 1)  # the question to the coordinator
        self.hold_logins(hosts[1], 0)
        down = other.start("down", "job")
        wait_for(lambda: self.is_held(hosts[0]), lambda: f"the first host is to be ended; {down.err.read_text()}")
        hosts[2].thaw()
        wait_for(lambda: all(self.tasks(host) for host in hosts), lambda: f"the job begins; {up.err.read_text()}", 60)
        self.let_in(hosts[1])
        wait_for(lambda: not self.is_held(hosts[1]) or not self.tasks(hosts[1]), "the second host waits for the first one, or is ended")
        self.let_in(hosts[0])
        self.assertEqual(down.wait(90), 0, down.err.read_text())
        self.assert_nothing_left(hosts)
        up.wait(90)
        self.assertNotRegex(up.err.read_text(), "start.* again")
        events = self.user.run("events", "--json", "job")
        self.assertNotIn('"restarting"', events.out, events)


class DownOfAnotherMachine(OverSsh):
    """The agents tell the `up` that waits for them."""

    def assert_up_was_told(self, up):
        self.assertEqual(up.wait(30), 130, up.err.read_text())
        said = up.err.read_text()
        self.assertRegex(said, "tfdist: ended by tfdist down(: rolling back)?\ntfdist: nothing was started\n")
        self.assertNotIn("error", said)
        self.assertEqual(json.loads(self.user.run("list", "--json").expect(0).out), [])

    def set_up(self, hosts):
        """Until the set-up of each host runs: the cluster file, and `up`."""
        file = self.write(hosts, shell("exec sleep infinity"))
        with open(file, "a") as text:
            text.write('[setup]\ncommand = ["sleep", "1234"]\n')
        up = self.user.start("up", file)
        wait_for(lambda: all(any(process.argv == ["sleep", "1234"] for process in host.processes()) for host in hosts),
                 lambda: f"two set-ups; {up.err.read_text()}")
        return file, up

    def test_while_hosts_are_set_up(self):
        hosts = self.start_hosts(2)
        _, up = self.set_up(hosts)
        another_machine(self).run("down", "job", seconds=60).expect(0)
        self.assert_up_was_told(up)
        self.assert_nothing_left(hosts)

    def test_who_finds_the_job_by_its_file_is_told_that_it_has_not_started(self):
        hosts = self.start_hosts(2)
        file, up = self.set_up(hosts)
        colleague = Tfdist("colleague")
        self.addCleanup(colleague.close)
        self.assertRegex(colleague.run("list", file).expect(0).out, r"no task runs .*127\.")
        self.assertRegex(colleague.run("status", file).expect(0).out,
                         "the `up` of .*@.* has not started it yet, and whether that still runs is not known here; tfdist down job-.* ends it\n")
        # Not confirmed where the agent, rolled back by its `up`, has just gone.
        down = colleague.run("down", file, seconds=60)
        self.assert_up_was_told(up)
        self.assert_nothing_left(hosts, said=down.err)

    def test_while_one_host_does_not_answer(self):
        hosts = self.start_hosts(2)
        hosts[1].freeze()
        self.addCleanup(hosts[1].thaw)
        up = self.user.start("up", self.write(hosts, shell("exec sleep infinity")))
        wait_for(lambda: any("agent" in process.argv[1:] for process in hosts[0].processes()), lambda: f"an agent; {up.err.read_text()}")
        down = another_machine(self).start("down", "job")
        self.assert_up_was_told(up)
        hosts[1].thaw()
        self.assertEqual(down.wait(90), 0, down.err.read_text())
        self.assert_nothing_left(hosts)


class ClosedTerminal(unittest.TestCase):
    """Once a job runs, SIGHUP ends its `up` alone."""

    def test_a_job_that_runs_goes_on(self):
        self.hang_up_once(lambda: self.user.wait_until_tasks_run())

    def test_a_job_that_has_just_been_committed_goes_on(self):
        for _ in range(8):
            self.hang_up_once(self.wait_until_committed)

    def hang_up_once(self, wait):
        with Tfdist("hangup") as self.user:
            up = self.user.start("up", self.user.write("job.toml", clusters.local("job", shell("exec sleep infinity"), slots=1)))
            wait()
            up.send_signal(signal.SIGHUP)
            self.assertEqual(up.wait(60), -signal.SIGHUP, up.err.read_text())
            self.user.wait_until_tasks_run()
            self.assertEqual(self.user.status()["state"], "running")
            self.user.run("down").expect(0)

    def wait_until_committed(self):
        """Looks without a pause: its `up` has not yet done all that it does then."""
        records = self.user.folder / ".local/state/tfdist/jobs"
        end = time.monotonic() + 60
        while not any('"stage": "running"' in path.read_text() for path in records.glob("*.json")):
            self.assertLess(time.monotonic(), end, "the record says that the job runs")


class JoiningUp(OverSsh):
    def test_up_of_a_running_plan_makes_no_record(self):
        """Nor does it bring a host up: that of slot 0 is asked, the other ones may even be gone."""
        hosts = self.start_hosts(2)
        file = self.write(hosts, shell("exec sleep infinity"))
        self.run_up(file)
        self.user.wait_until_tasks_run()
        records = self.user.folder / ".local/state/tfdist/jobs"
        before = set(records.iterdir())
        hosts[1].freeze()
        self.addCleanup(hosts[1].thaw)
        again = self.run_up(file)
        self.assertIn("runs already, from this plan\n", again.err)  # -d: nobody joins it
        self.assertEqual(set(records.iterdir()), before)
        hosts[1].thaw()
        self.user.run("down").expect(0)

    def test_a_job_that_nobody_speaks_for_is_not_said_to_run(self):
        """Its record says "running"; its first host hangs."""
        hosts = self.start_hosts(2)
        file = self.write(hosts, shell("exec sleep infinity"))
        self.run_up(file)
        self.user.wait_until_tasks_run()
        hosts[0].freeze()
        self.addCleanup(hosts[0].thaw)
        again = self.user.run("up", "-d", file, seconds=300)
        self.assertEqual(again.code, 3, again)
        self.assertIn(f"tfdist: {hosts[0].address}: connect: ", again.err)
        self.assertNotIn("runs already", again.err)
        hosts[0].thaw()
        self.assertEqual(self.user.status()["state"], "running")
        self.user.run("down").expect(0)

    def test_of_several_at_once_one_starts_and_the_others_join_it(self):
        """Each may have its slot on a host that another one needs, and has begun at nearly the same moment."""
        hosts = self.start_hosts(3)
        file = self.write(hosts, shell("exec sleep infinity"))
        for how_many in [2] * ROUNDS + [3, 4]:
            ups = [self.user.start("up", "-d", file) for _ in range(how_many)]
            codes = [up.wait(120) for up in ups]
            said = "\n".join(up.out.read_text() + up.err.read_text() for up in ups)
            self.assertEqual(codes, [0] * how_many, said)
            job = self.user.job_id()
            self.assertEqual(self.user.status(job)["state"], "running", said)
            self.assertEqual(said.count(f"job {job}: 6 tasks on 3 hosts started\n"), 1, said)
            self.assertEqual(said.count(f"job {job} runs already, from this plan\n"), how_many - 1, said)
            self.assertEqual([row["job"] for row in json.loads(self.user.run("list", "--json").out)], [job], said)
            self.user.run("down", job).expect(0)
            self.user.run("prune", job).expect(0)

    def run_up(self, file):
        up = self.user.run("up", "-d", file)
        self.assertEqual(up.code, 0, up)
        return up


if __name__ == "__main__":
    unittest.main()
