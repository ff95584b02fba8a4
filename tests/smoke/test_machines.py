"""A job on hosts of two kinds, x86-64 and aarch64. The second one is a test host on which uname(1) says so and qemu runs the agent:
its shell, sshd and tasks are those of this machine."""

import json
import re
import subprocess
import unittest

from tests.hosts.hosts import check_possible
from tests.smoke.test_local import shell
from tests.smoke.test_ssh import OverSsh
from tests.support.machines import QEMU, Binfmt, machine_of, make_aarch64
from tests.support.tfdist import BIN
from tests.support.waiting import wait_for

X86_64, AARCH64 = 62, 183
AGENT = BIN.parent / "aarch64/bin/tfdist-agent"


def agents():
    version = subprocess.run([str(BIN / "tfdist"), "version", "--json"], check=True, capture_output=True, timeout=60)
    return json.loads(version.stdout)["agents"]


def setUpModule():
    if "aarch64" not in agents():
        raise unittest.SkipTest("tfdist was built without the agent for aarch64: scripts/setup --aarch64")
    check_possible()


class TheAgentAlone(unittest.TestCase):
    @unittest.skipUnless(QEMU.exists(), f"no {QEMU}: scripts/setup --aarch64 --test")
    def test_runs_and_lists_its_libraries(self):
        done = subprocess.run([str(QEMU), str(AGENT), "version", "--verbose"], check=True, capture_output=True, text=True, timeout=60)
        versions = dict(line.split(" ", 1) for line in done.stdout.splitlines()[1:])
        for library in ("libsodium", "zeromq3", "fmtlib", "zlib", "glibc"):
            self.assertRegex(versions.get(library, "missing"), r"^[0-9]", done.stdout)


class TwoKinds(OverSsh):
    def setUp(self):
        super().setUp()
        binfmt = Binfmt()
        binfmt.__enter__()
        self.addCleanup(binfmt.__exit__)

    def start_one_of_each(self):
        hosts = self.start_hosts(2)
        make_aarch64(hosts[1])
        return hosts

    def agents_on(self, host):
        return {path.name: machine_of(path) for path in (host.home / ".cache/tfdist/bin").iterdir()}

    def test_each_host_gets_its_own_agent_and_the_job_runs(self):
        hosts = self.start_one_of_each()
        for attempt in range(2):  # the second time the agents are there
            result = self.user.run("up", self.write(hosts, shell('echo "I am $TFDIST_TASK"'), layout="mirrored"), seconds=300)
            self.assertEqual(result.code, 0, result)
            for task in ("worker:0", "worker:1"):
                self.assertRegex(result.out, rf"(?m)^{task} +\| I am {task}$")
            self.assertEqual(self.agents_on(hosts[0]), {agents()["x86_64"]: X86_64})
            self.assertEqual(self.agents_on(hosts[1]), {agents()["aarch64"]: AARCH64})
        self.assert_nothing_left(hosts)

    def test_a_task_that_is_killed_starts_again_and_down_leaves_nothing(self):
        hosts = self.start_one_of_each()
        self.start_detached(hosts, shell("echo begin; exec sleep 600"))
        sleeps = [process.pid for process in hosts[1].processes() if process.argv[:1] == ["sleep"]]
        self.assertEqual(len(sleeps), 2, hosts[1].processes())
        subprocess.run(["kill", "-KILL", str(sleeps[0])], check=True)
        wait_for(lambda: len(re.findall(r"\| begin$", self.user.run("logs").out, re.M)) >= 5, "a task that began again")
        down = self.user.run("down")
        self.assertEqual(down.code, 0, down)
        self.assert_nothing_left(hosts, said=str(down))

    def test_the_builtin_program_is_refused_there_with_a_remedy(self):
        hosts = self.start_one_of_each()
        file = self.write(hosts, ["{runtime}", "--data", "digits"])
        check = self.user.run("check", file, seconds=300)
        self.assertNotEqual(check.code, 0, check)
        self.assertIn("its tasks use {runtime}, which is for x86_64; the host is aarch64", check.out)
        result = self.user.run("up", file, seconds=300)
        self.assertNotEqual(result.code, 0, result)
        self.assertIn(f"{hosts[1].address}: agent start: its tasks use {{runtime}}, which is for x86_64; the host is aarch64", result.err)
        self.assert_nothing_left(hosts)


if __name__ == "__main__":
    unittest.main()
