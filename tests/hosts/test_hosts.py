"""The test hosts themselves: what other tests rely on."""

import pathlib
import subprocess
import sys
import unittest

from tests.hosts.hosts import Hosts, check_possible, start_time
from tests.support.tfdist import ROOT
from tests.support.waiting import wait_for


def ssh(hosts, host, *argv, **options):
    return subprocess.run(["ssh", "-F", hosts.ssh_config, host.name, *argv], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, **options)


def sleeper(host):
    """The process `sleep` on the host, or None."""
    return next((process for process in host.processes() if process.argv[0] == "sleep"), None)


def setUpModule():
    check_possible()


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(2)
        cls.hosts.start()

    @classmethod
    def tearDownClass(cls):
        cls.hosts.stop()

    def test_each_host_has_its_own_name_account_home_and_processes(self):
        for host in self.hosts:
            self.assertEqual(ssh(self.hosts, host, "hostname; id -u; pwd").stdout.split(),
                             [host.name, str(host.uid), "/home/trainer"])
            ssh(self.hosts, host, f"echo {host.name} > mark; echo {host.name} > /tmp/mark")
            self.assertEqual((host.home / "mark").read_text().strip(), host.name)
        self.assertNotIn("sleep", ssh(self.hosts, self.hosts[1], "ps ax").stdout)

    def test_other_account_is_on_the_host_and_keeps_out_of_the_home(self):
        host = self.hosts[0]
        result = host.run_as("other", ["cat", "/home/trainer/.profile"], check=False)
        self.assertIn("Permission denied", result.stderr)
        self.assertEqual(host.run_as("other", ["id", "-u"]).stdout.strip(), str(host.other_uid))
        self.assertEqual(host.run_as("other", ["hostname"]).stdout.strip(), host.name)

    def test_accounts_of_test_programs_that_run_side_by_side_differ(self):
        """Limits of an account count what runs as it on all hosts of this machine."""
        code = "from tests.hosts.hosts import Hosts; print(*(uid for host in Hosts(3) for uid in (host.uid, host.other_uid)))"
        theirs = subprocess.run([sys.executable, "-B", "-c", code], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
        ours = [str(uid) for host in self.hosts for uid in (host.uid, host.other_uid)]
        self.assertEqual(len({*theirs.split(), *ours}), 10)

    def test_processes_shows_what_runs_there(self):
        host = self.hosts[0]
        wait_for(lambda: not host.processes(), "the end of what other tests began")
        ssh(self.hosts, host, "setsid sleep infinity >/dev/null 2>&1 </dev/null &")
        sleep = wait_for(lambda: sleeper(host), "sleep")
        self.assertEqual(sleep.uid, host.uid)
        self.assertIsNone(sleeper(self.hosts[1]))
        host.run_as("root", ["pkill", "-x", "sleep"])
        wait_for(lambda: not host.processes(), "end of sleep")

    def test_frozen_host_answers_nothing_until_thawed(self):
        host = self.hosts[1]
        host.freeze()
        self.addCleanup(host.thaw)
        self.assertTrue(all(p.state == "T" for p in host.processes(with_sshd=True)))
        waiting = subprocess.Popen(["ssh", "-F", self.hosts.ssh_config, host.name, "echo awake"],
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.assertIsNone(waiting.poll())
        host.thaw()
        self.assertEqual(waiting.communicate(timeout=60)[0], "awake\n")

    def test_replaced_host_key_and_refused_key(self):
        host = self.hosts[1]
        host.refuse_key()
        self.assertIn("Permission denied", ssh(self.hosts, host, "true").stderr)
        host.accept_key()
        self.assertEqual(ssh(self.hosts, host, "true").returncode, 0)
        host.replace_host_key()
        self.assertNotEqual(ssh(self.hosts, host, "true").returncode, 0)
        self.hosts.write_known_hosts()
        self.assertEqual(ssh(self.hosts, host, "true").returncode, 0)


class LifeTest(unittest.TestCase):
    def test_crash_ends_every_process_and_stop_removes_the_folder(self):
        with Hosts(1) as hosts:
            ssh(hosts, hosts[0], "setsid sleep infinity >/dev/null 2>&1 </dev/null &")
            sleep = wait_for(lambda: sleeper(hosts[0]), "sleep")
            start = start_time(sleep.pid)
            hosts[0].freeze()
            hosts[0].crash()
            wait_for(lambda: start_time(sleep.pid) != start, "end of sleep")
        self.assertFalse(hosts.folder.exists())

    def test_hosts_end_with_a_test_that_is_killed(self):
        program = ("from tests.hosts.hosts import Hosts\n"
                   "hosts = Hosts(1)\nhosts.start()\nprint(hosts.folder, hosts[0].pid, flush=True)\ninput()\n")
        child = subprocess.Popen([sys.executable, "-B", "-c", program], stdout=subprocess.PIPE,
                                 stdin=subprocess.PIPE, text=True)
        folder, pid = child.stdout.readline().split()
        start = start_time(pid)
        self.assertIsNotNone(start)
        child.kill()
        child.wait()
        wait_for(lambda: start_time(pid) != start, "end of the host")
        child.stdin.close()
        child.stdout.close()
        subprocess.run(["rm", "-rf", folder], check=True)

    def test_shared_home(self):
        with Hosts(2, shared_home=True) as hosts:
            ssh(hosts, hosts[0], "echo here > mark")
            self.assertEqual(ssh(hosts, hosts[1], "cat mark").stdout, "here\n")
            self.assertTrue(pathlib.Path(hosts[0].home).samefile(hosts[1].home))


if __name__ == "__main__":
    unittest.main()
