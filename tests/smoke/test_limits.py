"""Hosts that hide processes from their own account, or let it have few of them."""

import json
import resource
import unittest

from tests.hosts.hosts import check_possible
from tests.smoke.test_local import shell
from tests.smoke.test_ssh import OverSsh
from tests.support import processes
from tests.support.waiting import wait_for

# Not dumpable, as ssh-agent: hidden from its own account. It leaves the task's session, says that it runs, and stays.
HIDDEN = ("import ctypes, os, time; os.setsid(); ctypes.CDLL(None).prctl(4, 0); "
          "print('hidden', flush=True); time.sleep(9999)")


def setUpModule():
    check_possible()


class HiddenProcesses(OverSsh):
    def setUp(self):
        super().setUp()
        self.hosts = self.start_hosts(1)
        self.hosts[0].run_as("root", ["mount", "-o", "remount,hidepid=2", "/proc"])

    def write(self, script):
        return super().write(self.hosts, shell(script), layout="mirrored")

    def start(self, rest):
        up = self.user.run("up", "-d", self.write(f'python3 -c "{HIDDEN}" & {rest}'))
        self.assertEqual(up.code, 0, up)
        wait_for(lambda: "hidden" in self.user.run("logs").out, "a process that hides")

    def test_down_ends_them_at_once(self):
        self.start("exec sleep infinity")
        down = self.user.run("down", seconds=15)  # it took 20 s, and left the process
        self.assertEqual(down.code, 0, down)
        self.assertIn("nothing is left", down.err + down.out)
        self.assert_nothing_left(self.hosts, seconds=1)

    def test_a_task_that_ends_takes_them_along(self):
        self.start("sleep 1; exit 0")
        self.assertEqual(self.user.run("wait", seconds=15).code, 0)
        self.assert_nothing_left(self.hosts, seconds=5)

    def test_down_does_not_claim_what_it_cannot_see(self):
        self.start("exec sleep infinity")
        processes.kill_together(lambda: [p.pid for p in self.hosts[0].processes() if p.argv[0].startswith("tfdist-")])
        down = self.user.run("down")
        self.assertEqual(down.code, 1, down)
        self.assertIn("/proc hides it (hidepid=", down.err + down.out)

    def test_check_says_so(self):
        check = self.user.run("check", "--json", self.write("sleep infinity"))
        self.assertEqual(check.code, 0, check)
        self.assertIn(("warning", "processes"), [(f["severity"], f["check"]) for f in json.loads(check.out)["findings"]])


class FewProcesses(OverSsh):
    """At each number a job either runs, or does not begin, says why and leaves nothing."""

    def test_too_few_are_said_before_anything_starts(self):
        refused = 0
        for most in (6, 7, 8, 9, 10):
            with self.subTest(most=most):
                hosts = self.start_hosts(1)
                resource.prlimit(hosts[0].pid, resource.RLIMIT_NPROC, (most, most))
                up = self.user.run("up", self.write(hosts, shell("true"), layout="mirrored"))
                if up.code != 0:
                    refused += 1
                    self.assertEqual(up.code, 3, up)
                    self.assertRegex(up.err, f"ulimit -u is {most}|refuses to run|annot fork", up)
                    self.assertIn("nothing was started", up.err)
                self.assert_nothing_left(hosts, seconds=5)
                hosts.stop()
        self.assertGreaterEqual(refused, 2)


if __name__ == "__main__":
    unittest.main()
