"""Hosts by name: each host resolves names itself, and TF_CONFIG has them as the user wrote them."""

import json
import re
import shutil
import subprocess
import unittest

from tests.smoke.test_local import shell
from tests.smoke.test_ssh import DATA, OverSsh
from tests.support import clusters
from tests.support.tfdist import BIN, Result, Tfdist
from tests.support.waiting import wait_for

SHOW = shell('echo "config $TF_CONFIG"')


class NamedHosts(OverSsh):
    """The names stand in /etc/hosts of the hosts; the client knows them from its ssh_config alone."""

    def write(self, hosts, command, listed=None, **options):
        listed = listed or [host.name for host in hosts]
        return self.user.write("cluster.toml", clusters.over_ssh("job", command, hosts, listed=listed, **options))

    def up(self, hosts, command=SHOW, **options):
        return self.user.run("up", self.write(hosts, command, **options), seconds=300)

    def configs(self, result):
        """TF_CONFIG of each trainer, as it has printed it."""
        return {task: json.loads(text) for task, text in re.findall(r"^(\S+) +\| config (.*)$", result.out, re.M)}

    @staticmethod
    def edit(host, change):
        """In place: the file is mounted on the host."""
        file = host.folder / "etc/hosts"
        file.write_text("".join(change(line) for line in file.read_text().splitlines(keepends=True)))

    def without_getent(self, host):
        host.run_as("root", ["mount", "--bind", "/dev/null", "/usr/bin/getent"])

    def assert_no_record(self):
        self.assertEqual(list((self.user.folder / ".local/state/tfdist/jobs").glob("*")), [])


class KnownToTheHosts(NamedHosts):
    def test_a_job_on_three_named_hosts_trains(self):
        hosts = self.start_hosts(3)
        # The test hosts share one network stack, where a server under a name listens on every address.
        port = clusters.free_ports(3)
        file = self.user.write("cluster.toml", f"""
name = "job"
[cluster]
layout = "roles"
[task]
command = ["{{runtime}}", "--data", "digits", "--model", "mlp", "--steps", "500"]
gpus = 0
workdir = "{DATA}"
[roles]
ps = {{ hosts = ["h1"], ports = {port} }}
chief = {{ hosts = ["h2"], ports = {port + 1} }}
worker = {{ hosts = ["h3"], ports = {port + 2} }}
[ssh]
config = "{hosts.ssh_config}"
""")
        result = self.user.run("up", file, seconds=300)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"final: .*test accuracy 0\.")
        self.assertNotIn("warning", result.err)
        self.assert_nothing_left(hosts)

    def test_tf_config_has_the_names_as_they_were_written(self):
        hosts = self.start_hosts(3)
        result = self.up(hosts, listed=["h[1-3]"])
        self.assertEqual(result.code, 0, result)
        configs = self.configs(result)
        self.assertEqual(sorted(configs), ["master:0", "worker:0", "worker:1"])
        for config in configs.values():
            named = {role: [a.split(":")[0] for a in tasks] for role, tasks in config["cluster"].items()}
            self.assertEqual(named, {"master": ["h1"], "worker": ["h2", "h3"], "ps": ["h1", "h2", "h3"]})
        self.assert_nothing_left(hosts)

    def test_a_host_whose_own_name_is_loopback_can_be_slot_0(self):
        """Debian's installer writes such a line. Seen without the answer to it: the coordinator listens on 127.0.1.1."""
        hosts = self.start_hosts(2)
        for host in hosts:
            self.edit(host, lambda line, own=host.name: f"127.0.1.1 {own}\n" if line.endswith(f" {own}\n") else line)
        result = self.up(hosts)
        self.assertEqual(result.code, 0, result)
        self.assertIn("tfdist: warning: hosts resolve their own names to loopback: h1 is 127.0.1.1; h2 is 127.0.1.1",
                      result.err)
        self.assertIn("  try: give the name its real address", result.err)
        self.assert_nothing_left(hosts)

    def test_two_answers_and_unknown_names_are_said(self):
        hosts = self.start_hosts(3)
        self.edit(hosts[1], lambda line: line.replace(hosts[2].address, "127.0.0.77"))
        self.edit(hosts[2], lambda line: "" if line.endswith(" h2\n") else line)
        result = self.up(hosts, shell("true"))
        self.assertEqual(result.code, 0, result)
        self.assertIn(f"h3 is {hosts[2].address} on h1, and 127.0.0.77 on h2", result.err)
        self.assertIn("names cannot be resolved: h2 on h3\n", result.err)
        self.assert_nothing_left(hosts)

    def test_a_member_that_cannot_resolve_slot_0_is_named_with_a_remedy(self):
        hosts = self.start_hosts(2)
        self.edit(hosts[1], lambda line: "" if line.endswith(" h1\n") else line)
        result = self.up(hosts)
        self.assertEqual(result.code, 3, result)
        self.assertRegex(result.err, r"tfdist: h1: .*the other hosts cannot resolve h1 \(h2: the name is not known\), .*\n"
                                     r'  try: add the name to the DNS or to /etc/hosts .*ssh = "h1"')
        self.assertIn("nothing was started", result.err)
        self.assert_nothing_left(hosts)
        self.assert_no_record()


class WithoutGetent(NamedHosts):
    def test_the_hosts_file_serves(self):
        hosts = self.start_hosts(2)
        for host in hosts:
            self.without_getent(host)
        result = self.up(hosts)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(len(self.configs(result)), 2)
        self.assert_nothing_left(hosts)

    def test_a_name_that_is_not_there_either_is_an_error_with_a_remedy(self):
        hosts = self.start_hosts(2)
        self.without_getent(hosts[1])
        self.edit(hosts[1], lambda line: "" if line.endswith(" h1\n") else line)
        result = self.up(hosts)
        self.assertEqual(result.code, 3, result)
        self.assertRegex(result.err, r"tfdist: h1: .*the other hosts cannot resolve h1 \(h2: getent cannot be run on this host.*\n"
                                     r'  try: .*ssh = "h1"')
        self.assert_nothing_left(hosts)


class KnownToTheClient(NamedHosts):
    def test_names_need_no_entry_in_an_ssh_config(self):
        self.run_a_job_by_names()

    def test_nor_a_getent_where_the_hosts_file_has_them(self):
        programs = self.user.folder / "programs"
        programs.mkdir()
        for name in ("sh", "ssh", "env"):
            (programs / name).symlink_to(shutil.which(name))
        self.user.env["PATH"] = str(programs)
        self.run_a_job_by_names()

    def run_a_job_by_names(self):
        hosts = self.start_hosts(2)
        known = "".join(f"[{host.name}]:{host.port} {host.host_key()}\n" for host in hosts)
        config = self.user.write("client_config", "\n  ".join([
            "Host *", "User trainer", f"Port {hosts[0].port}", f"IdentityFile {hosts.key}", "IdentitiesOnly yes",
            "IdentityAgent none", f"UserKnownHostsFile {self.user.write('known', known)}",
            "GlobalKnownHostsFile /dev/null", "StrictHostKeyChecking yes", "BatchMode yes"]) + "\n")
        names = "".join(f"{host.address} {host.name}\n" for host in hosts)
        result = self.run_where_names_are_known(names, "up", self.write(hosts, SHOW, ssh_config=config))
        self.assertEqual(result.code, 0, result)
        self.assertEqual(len(self.configs(result)), 2)
        self.assert_nothing_left(hosts)

    def run_where_names_are_known(self, names, *args):
        """On this machine, with another /etc/hosts for this command alone."""
        file = self.user.write("hosts", "127.0.0.1 localhost\n" + names)
        script = 'path=$PATH; PATH=/usr/bin:/bin:/usr/sbin:/sbin; mount --bind "$0" /etc/hosts && export PATH="$path" && exec "$@"'
        done = subprocess.run([shutil.which("unshare"), "--mount", "/bin/sh", "-c", script, file, str(BIN / "tfdist"), *args], env=self.user.env, cwd=self.user.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        return Result(done.returncode, done.stdout, done.stderr)


class WithoutAFile(NamedHosts):
    """tfdist up -H HOST,... -- COMMAND"""

    def test_hosts_and_a_command_are_enough(self):
        hosts = self.start_hosts(2)
        self.user.write("train.sh", 'echo "rank $1 of $2 on $3"; cat note\n')
        self.user.write("note", "the folder was sent\n")
        (self.user.folder / "work").mkdir()
        for name in ("train.sh", "note"):
            (self.user.folder / name).rename(self.user.folder / "work" / name)
        result = self.user.run("up", "-H", "trainer@h1,h2", "-F", str(hosts.ssh_config), "--",
                               "sh", "train.sh", "{rank}", "{world_size}", "{host}", cwd=self.user.folder / "work")
        self.assertEqual(result.code, 0, result)
        self.assertIn("worker:0 | rank 0 of 2 on h1\n", result.out)
        self.assertIn("worker:1 | rank 1 of 2 on h2\n", result.out)
        self.assertEqual(result.out.count("the folder was sent"), 2)
        self.assertRegex(result.err, r"job train-\d{8}T")
        self.assert_nothing_left(hosts)
        self.assertIn("train", self.user.run("list").out)

    def test_render_shows_what_up_would_do(self):
        shown = self.user.run("render", "gpu1,gpu2:2", "--no-workdir", "--", "python3", "train.py", "--lr", "${LR}")
        self.assertEqual(shown.code, 0, shown)
        self.assertRegex(shown.out, r"worker:2 +gpu2 +gpu2:2223 +- +decided on the host +python3 train.py --lr '\$\{LR\}'")

    def test_a_user_that_does_not_exist_there_reaches_ssh(self):
        """`user@` counts, not only [ssh] user."""
        hosts = self.start_hosts(1)
        result = self.user.run("up", "-H", "nobody@h1", "-F", str(hosts.ssh_config), "--no-workdir", "--", "true")
        self.assertEqual(result.code, 3, result)
        self.assertIn("does not let nobody in", result.err)
        result = self.user.run("up", self.write(hosts, SHOW, listed=[f"h1:{hosts[0].port + 1}"]))
        self.assertEqual(result.code, 3, result)
        self.assertIn(f"port {hosts[0].port + 1}", result.err)

    def test_what_does_not_go_together_is_said(self):
        for arguments, said in ((["-H", "a"], "-H and --hostfile need a command"),
                                (["--", "true"], "nothing says on which hosts"),
                                (["-H", "a", "--set", "name=b", "--no-workdir", "--", "true"], "name: with -H it is --name that says it"),
                                (["."], "there is no cluster.toml in the folder ."),
                                ([], "a cluster file is needed"),
                                (["-H", "a:0", "--no-workdir", "--", "true"], "'0' is not a number of slots"),
                                (["-H", "a", "--", "true"], "your home")):
            with self.subTest(arguments):
                result = self.user.run("up", *arguments)
                self.assertEqual(result.code, 2, result)
                self.assertIn(said, result.err)

    def test_a_cluster_file_may_come_from_a_pipe(self):
        first = clusters.free_ports(4)
        text = f"""
name = "piped"
[cluster]
hosts = ["localhost"]
ports = {{ worker = {first}, ps = {first + 1} }}
[task]
command = {clusters.toml_list(shell("echo hello"))}
"""
        done = subprocess.run([str(BIN / "tfdist"), "up", "-"], input=text, env=self.user.env, cwd=self.user.folder,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("master:0 | hello\n", done.stdout)
        broken = subprocess.run([str(BIN / "tfdist"), "render", "-"], input="nmae = 1\n", env=self.user.env,
                                cwd=self.user.folder, capture_output=True, text=True, timeout=120)
        self.assertEqual(broken.returncode, 2, broken)
        self.assertIn("<stdin>:1:1: nmae: unknown key", broken.stderr)


class Localhost(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("localhost")
        self.addCleanup(self.user.close)

    def up(self, command):
        first = clusters.free_ports(4)
        return self.user.run("up", self.user.write("cluster.toml", f"""
name = "job"
[cluster]
hosts = ["localhost"]
ports = {{ worker = {first}, ps = {first + 1} }}
[task]
command = {clusters.toml_list(command)}
gpus = 0
"""))

    def test_a_job_on_localhost_runs_and_shows_the_name(self):
        result = self.up(SHOW)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r'"master":\["localhost:\d+"\]')
        wait_for(lambda: not self.user.left(), lambda: f"nothing left; there is {self.user.left()}", 30)

    def test_a_job_that_cannot_start_leaves_no_record(self):
        result = self.up(["no-such-command"])
        self.assertEqual(result.code, 3, result)
        self.assertIn("nothing was started", result.err)
        self.assertEqual(list((self.user.folder / ".local/state/tfdist/jobs").glob("*")), [])
