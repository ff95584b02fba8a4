"""Hosts whose wall clocks are far apart, and jump: what is said of a job rests on none of them."""

import json
import re
import signal
import time
import unittest
from datetime import datetime

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

AHEAD = (0, -300, 7200)  # seconds, of the three hosts
NEAR = 60                # seconds that a loaded machine may take, and far less than the clocks are apart
SECOND = 10 ** 9
SCRIPT = "echo begins; until [ -e /tmp/fail ]; do sleep 0.05; done; echo fails; exit 3"


def setUpModule():
    check_possible()


class ClocksApart(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("clocks")
        self.addCleanup(self.user.close)
        self.user.program = "tfdist-failpoints"
        self.hosts = Hosts(3, own_clock=True)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        for host, ahead in zip(self.hosts, AHEAD):
            host.move_clock(ahead)

    def start(self, extra=""):
        file = self.user.write("cluster.toml", clusters.over_ssh("job", ["sh", "-c", SCRIPT], self.hosts, layout="mirrored",
                                                                 extra=extra))
        up = self.user.run("up", "-d", file)
        self.assertEqual(up.code, 0, up)

    def fail_task_on(self, number):
        (self.hosts[number].folder / "tmp/fail").touch()

    def agents(self, number):
        return [p.pid for p in self.hosts[number].processes() if p.argv[:2] == ["tfdist-agent", "agent"]]

    def offsets(self):
        """As `status` has them, in seconds, once all are measured."""
        def measured(status):
            return all(host["clock_offset_ns"] is not None for host in status["hosts"])
        status = self.user.wait_for_status(measured, "the clocks are measured", "job")
        return [host["clock_offset_ns"] / SECOND for host in status["hosts"]]

    def events(self):
        said = self.user.run("events", "--json", "job")
        self.assertEqual(said.code, 0, said)
        return [json.loads(line) for line in said.out.splitlines()]

    def coordinators(self):
        """The events of those that came after the first."""
        return [event for event in self.events() if event["kind"] == "host" and event["fields"]["slot"] == 0
                and event["fields"]["state"] == "agent-restarted"]

    def test_the_cause_and_all_times_are_the_true_ones(self):
        began = time.time()
        self.start('[restart]\nworker = "never"\nhost_lost = "2m"\n')
        self.user.wait_until_tasks_run("job")
        for offset, ahead in zip(self.offsets(), AHEAD):
            self.assertAlmostEqual(offset, ahead, delta=1)
        # The host that is two hours ahead fails first, and is heard last: by the clocks it failed two hours after the other.
        stopped = self.agents(2)
        for pid in stopped:
            processes.kill(pid, signal.SIGSTOP)
        self.fail_task_on(2)
        holder = [p.pid for p in self.hosts[2].processes() if p.argv[:2] == ["tfdist-agent", "holder"]]
        wait_for(lambda: not any(p.pid in holder for p in self.hosts[2].processes()), "the holder has ended there")
        self.fail_task_on(1)
        wait_for(lambda: any(e["kind"] == "stopping" for e in self.events()), "the other failure is heard of")
        for pid in stopped:
            processes.kill(pid, signal.SIGCONT)
        status = self.user.wait_until_ended("job")
        self.assertEqual(status["first_task"], "worker:2", status)
        ended = time.time()
        self.times_of_events_grow(began, ended)
        self.times_of_logs_are_those_of_the_events(began, ended)

    def times_of_events_grow(self, began, ended):
        times = [event["time_ns"] / SECOND for event in self.events()]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], began - NEAR)
        self.assertLess(times[-1], ended + NEAR)

    def times_of_logs_are_those_of_the_events(self, began, ended):
        lines = re.findall(r"^(?:\S+ +\| )?(\S+Z) ?(?:\S+ +\| )?(begins|fails)$", self.user.run("logs", "-t", "job").out, re.M)
        self.assertEqual(sorted(text for _, text in lines), ["begins"] * 3 + ["fails"] * 2, lines)
        for moment, text in lines:
            at = datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
            self.assertTrue(began - 2 < at < ended + 2, f"{text} at {moment}, the job ran from {began} to {ended}")
        since = self.user.run("logs", "--since", f"{int(ended - began) + NEAR}s", "job").out
        self.assertEqual(since.count("begins"), 3, since)
        until = self.user.run("logs", "--until", f"{int(ended - began) + NEAR}s", "job").out
        self.assertNotIn("begins", until)

    def lasted(self):
        """In seconds, as `status`, `top` and `list` say it; 1h00m and more are an hour."""
        status = self.user.run("status", "job").expect(0).out
        said = [re.search(r"attempt 1, (\S+)", status)[1], *re.findall(r"^worker:\d+ .*?(\S+)  +running$", status, re.M),
                re.search(r"attempt 1, (\S+) ", self.user.run("top", "-n", "1", "job").expect(0).out)[1],
                re.search(r" running +\S+ +(\S+) ", self.user.run("list").expect(0).out)[1]]
        self.assertEqual(len(said), 6, status)
        return said

    def test_how_long_a_job_runs_goes_by_the_clock_of_its_first_host(self):
        """Which was wrong when the job began, and then is set right."""
        for ahead in (-5 * 3600, -400 * 86400, 7200):
            with self.subTest(ahead):
                self.hosts[0].move_clock(ahead)
                self.start()
                self.user.wait_until_tasks_run("job")
                for now in (ahead, 0):
                    self.hosts[0].move_clock(now)
                    for span in self.lasted():
                        self.assertRegex(span, r"^\d+s$")
                self.user.run("down", "--purge", "--yes", "job").expect(0)
        # Nobody has looked since `up` saw its end.
        self.hosts[0].move_clock(7200)
        file = self.user.write("short.toml", clusters.over_ssh("short", shell("true"), self.hosts))
        self.user.run("up", file).expect(0)
        [short] = json.loads(self.user.run("list", "--json").expect(0).out)
        self.assertLess(abs(short["ended_ns"] * 1e-9 - time.time()), 60, short)
        self.user.run("down", "--purge", "--yes", "short").expect(0)
        # Ahead of this machine's clock nothing may be for 0 s for ever.
        self.hosts[0].move_clock(7200)
        self.start()
        self.user.wait_until_tasks_run("job")
        wait_for(lambda: "0s" not in self.lasted(), "it has run for a second")

    def test_another_coordinator_goes_on_with_the_time_of_the_one_before(self):
        """Its clock has jumped by ten years, both ways: no deadline has passed, no time runs back or ahead."""
        began = time.time()
        self.start('deadline = "1h"\n')
        self.user.wait_until_tasks_run("job")
        for number, jump in enumerate((315_360_000, -315_360_000), 1):
            self.hosts[0].move_clock(jump)
            for pid in self.agents(0):
                processes.kill(pid)
            wait_for(lambda: len(self.coordinators()) >= number, "another coordinator")
            self.assertEqual(self.user.status("job")["state"], "running")
        self.times_of_events_grow(began, time.time())
        self.user.run("down", "--force", "job").expect(0)


if __name__ == "__main__":
    unittest.main()
