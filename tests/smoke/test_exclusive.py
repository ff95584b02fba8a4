"""A host is cut off and its tasks go on: in an exclusive job the spare host waits until they have ended by themselves."""

import json
import pathlib
import shutil
import tempfile
import unittest

from tests.chaos.links import Link
from tests.hosts.hosts import Hosts, check_possible
from tests.support import clusters
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

# host_lost, orphan_timeout, grace, and the 10 s of LostTasksLimit.
WAIT = 10 + 1 + 10
RULES = '[restart]\nexclusive = true\nhost_lost = "5s"\norphan_timeout = "10s"\n'
SECOND = 10 ** 9


def setUpModule():
    check_possible()


class Exclusive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3, own_network=True)
        cls.hosts.start()
        cls.addClassCleanup(cls.hosts.stop)

    def setUp(self):
        self.user = Tfdist("exclusive")
        self.addCleanup(self.user.close)
        # Hosts have folders of their own under /tmp; this one is the machine's.
        self.diary = pathlib.Path(tempfile.mkdtemp(prefix="tfdist-exclusive-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.diary, ignore_errors=True)
        self.diary.chmod(0o777)
        self.link = Link(self.hosts[1])
        self.addCleanup(self.end)

    def end(self):
        self.link.heal()
        self.user.run("down", "--force", "job")

    def start(self):
        beat = f'while :; do date +%s.%N >> {self.diary}/$TFDIST_HOST; sleep 0.1; done'
        text = clusters.over_ssh("job", ["sh", "-c", beat], self.hosts[:2], layout="mirrored", extra=RULES, task_extra='grace = "1s"',
                                 ssh_config=self.hosts.ssh_config)
        spare = f'{{ address = "{self.hosts[2].address}", ssh = "{self.hosts[2].name}", spare = true }}'
        up = self.user.run("up", "-d", self.user.write("job.toml", text.replace("hosts = [", f"hosts = [{spare}, ", 1)))
        self.assertEqual(up.code, 0, up)
        self.user.wait_until_tasks_run("job")

    def beats(self, number):
        path = self.diary / self.hosts[number].address
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def events(self, kind):
        said = self.user.run("events", "--json", "job")
        return [event for event in map(json.loads, said.out.splitlines()) if event["kind"] == kind]

    def test_a_spare_host_waits_until_the_tasks_of_the_lost_one_have_ended(self):
        self.start()
        self.link.cut()
        restarting = wait_for(lambda: self.events("restarting"), "the host is lost")[0]
        at_loss = self.beats(1)
        self.assertIn(f"its tasks start elsewhere {WAIT}s after that, unless it is back", restarting["fields"]["why"])
        wait_for(lambda: len(self.beats(1)) > len(at_loss), "the lost host's task goes on")
        self.assertIn(f"its tasks start elsewhere {WAIT}s after that", self.user.run("status", "job").out)
        self.assertRegex(self.user.run("why", "job").out, "its tasks start elsewhere in \\d+s, when its agent must have ended them")
        wait_for(lambda: self.beats(2), "the spare host runs the task", 60)
        self.assertLess(self.beats(1)[-1], self.beats(2)[0], "the task ran on both hosts at once")
        again = self.events("attempt")[1]
        self.assertGreaterEqual(again["time_ns"] - restarting["time_ns"], (WAIT - 1) * SECOND)

    def test_a_host_that_is_back_ends_the_wait(self):
        self.start()
        self.link.cut()
        restarting = wait_for(lambda: self.events("restarting"), "the host is lost")[0]
        self.link.heal()
        again = wait_for(lambda: self.events("attempt")[1:], "the next attempt")[0]
        self.assertLess(again["time_ns"] - restarting["time_ns"], (WAIT - 3) * SECOND)
        self.assertEqual(again["fields"]["seats"], [0, 1, 2])
        self.assertFalse(self.beats(2))


if __name__ == "__main__":
    unittest.main()
