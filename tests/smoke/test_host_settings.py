"""A TF_CONFIG that a host sets by itself: each task has tfdist's own, unless its command is a login shell whose profile sets another one;
and `up` warns of it. And what else a host sets for every program."""

import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.tfdist import Tfdist

FOREIGN = "foreign"
EVERY_PROGRAM = "TF_CONFIG is set there for every program; each task gets tfdist's own instead\n"
SHOW = ("python3", "-c", "import os; print('config', os.environ['TF_CONFIG'])")


def setUpModule():
    check_possible()


class TfConfigOfTheHost(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("settings")
        self.addCleanup(self.user.close)

    def start_host(self, **options):
        hosts = Hosts(1, **options)
        hosts.start()
        self.addCleanup(hosts.stop)
        return hosts

    def up(self, hosts, command=SHOW):
        text = clusters.over_ssh("settings", list(command), hosts, layout="mirrored")
        result = self.user.run("up", self.user.write("cluster.toml", text))
        self.assertEqual(result.code, 0, result)
        return result

    def assert_task_has_its_own(self, hosts, warning):
        result = self.up(hosts)
        self.assertRegex(result.out, r'worker:0 \| config \{"cluster":\{"worker":')
        self.assertIn(f"tfdist: warning: {hosts[0].address}: {warning}", result.err)

    def assert_login_has_the_foreign_one(self):
        result = self.user.run("exec", str(self.user.folder / "cluster.toml"), "--", "printenv", "TF_CONFIG")
        self.assertIn(FOREIGN, result.out, result)

    def write_file(self, hosts, name, text):
        path = f"/home/trainer/{name}"
        hosts[0].run_as("trainer", ["sh", "-c", 'mkdir -p "${0%/*}"; echo "$1" > "$0"', path, text])

    def test_sshd_sets_it(self):
        hosts = self.start_host(sshd_lines=(f"SetEnv TF_CONFIG={FOREIGN}",))
        self.assert_task_has_its_own(hosts, EVERY_PROGRAM)
        self.assert_login_has_the_foreign_one()

    def test_a_file_that_sshd_reads_sets_it(self):
        hosts = self.start_host(sshd_lines=("PermitUserEnvironment yes",))
        self.write_file(hosts, ".ssh/environment", f"TF_CONFIG={FOREIGN}")
        self.assert_task_has_its_own(hosts, EVERY_PROGRAM)
        self.assert_login_has_the_foreign_one()

    def test_a_shell_that_reads_a_file_for_every_command_sets_it(self):
        hosts = self.start_host(bashrc=f"export TF_CONFIG={FOREIGN}\n")
        self.assert_task_has_its_own(hosts, EVERY_PROGRAM)
        self.assert_login_has_the_foreign_one()

    def test_what_disturbs_trainings_is_named_and_no_proxy_stands_between_the_hosts(self):
        hosts = self.start_host(sshd_lines=("SetEnv http_proxy=http://me:secret@127.0.0.1:9 NCCL_DEBUG=INFO",))
        warning = (f"tfdist: warning: {hosts[0].address}: NCCL_DEBUG, http_proxy: set there for every program, "
                   "so tasks inherit it\n")
        result = self.up(hosts, shell("echo not by $no_proxy"))
        self.assertIn(warning, result.err)
        checked = self.user.run("check", str(self.user.folder / "cluster.toml")).expect(0)
        self.assertIn(f"warning: {hosts[0].address}: settings: NCCL_DEBUG, http_proxy: set there for every program", checked.out)
        self.assertNotIn("secret", checked.out + checked.err)
        self.assertNotIn("secret", result.out + result.err)
        self.assertIn(f"worker:0 | not by {','.join(sorted([hosts[0].address, '127.0.0.1', 'localhost']))}\n", result.out)

    def test_a_login_profile_reaches_only_a_task_that_runs_a_login_shell(self):
        hosts = self.start_host()
        self.write_file(hosts, ".bash_profile", f"export TF_CONFIG={FOREIGN}")
        self.assert_task_has_its_own(hosts, "TF_CONFIG is set in /home/trainer/.bash_profile; each task gets tfdist's own, unless its "
                                            "command is a login shell")
        result = self.up(hosts, ("bash", "-lc", "echo config $TF_CONFIG"))
        self.assertIn(f"worker:0 | config {FOREIGN}\n", result.out)

    def test_nothing_is_said_where_no_host_sets_it(self):
        self.assertNotIn("TF_CONFIG", self.up(self.start_host()).err)
