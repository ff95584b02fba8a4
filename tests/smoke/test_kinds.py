"""Kinds of hosts: where `ssh HOST true` works without a question, so do `exec` and `up`; where they cannot, the error says why.
tests/hosts/kinds.py has the table, docs/ssh.md has it in words."""

import os
import pathlib
import shutil
import subprocess
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.hosts.kinds import KINDS, MORE_KINDS, Kind, asyncssh, behind_a_jump_host, dropbear, home_of_its_own
from tests.hosts.probe import client_config
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for


def setUpModule():
    check_possible()


class KindsTest(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("kinds")
        self.addCleanup(self.user.close)

    def check(self, kind, config, *hosts):
        hosts = hosts or ("h1",)
        for host in hosts:
            ssh = subprocess.run(["ssh", "-n", "-F", config, host, "true"], capture_output=True, text=True, timeout=60)
            self.assertEqual(ssh.returncode, 0, ssh)
        way = ["-F", str(config), "-H", ",".join(hosts)]
        for words, result in ((kind.exec, self.user.run("exec", *way, "--", "true")),
                              *([(kind.up, self.user.run("check", *way, "--no-workdir", "--", "true"))] if kind.check else []),
                              (kind.up, self.user.run("up", *way, "--no-workdir", "--", "true"))):
            self.assertEqual(result.code, 3 if words else 0, result)
            self.assertIn(words, result.out + result.err)

    def test_where_ssh_works_so_do_exec_check_and_up(self):
        for kind in (*KINDS, *MORE_KINDS):
            if kind.options.get("shell") and not pathlib.Path(kind.options["shell"]).exists():
                continue
            with self.subTest(kind.name), Hosts(1, **kind.options) as hosts:
                if kind.prepare:
                    kind.prepare(hosts[0])
                self.check(kind, hosts.ssh_config)
                if kind.up:
                    wait_for(lambda: not hosts[0].processes(), lambda: f"nothing left, there is {hosts[0].processes()}")

    def test_a_home_that_has_become_read_only(self):
        """The agent of an earlier job is there, and runs."""
        hosts = self.start_hosts()
        home_of_its_own("rw")(hosts[0])
        way = ["-F", str(hosts.ssh_config), "-H", "h1", "--no-workdir", "--", "true"]
        self.user.run("up", *way).expect(0)
        remount = ["mount", "-o", "remount,ro", "/home/trainer"]  # refused as long as somebody writes there
        wait_for(lambda: hosts[0].run_as("root", remount, check=False).returncode == 0, "nobody writes there any more")
        for command in ("check", "up"):
            result = self.user.run(command, *way).expect(3)
            self.assertIn("Read-only file system", result.out + result.err)
            self.assertIn("set remote_dir in [ssh]", result.out + result.err)

    def test_behind_a_jump_host_with_the_default_max_startups(self):
        with Hosts(5, max_startups="10:30:100") as hosts, behind_a_jump_host(hosts) as config:
            # `check` sees that hosts behind a jump host, whose names it resolves itself, are one machine here.
            self.check(Kind("jump host", check=False), config, "h1", "h2", "h3", "h4")

    def test_a_bashrc_that_leaves_a_program_that_prints(self):
        """As an update notifier does. Its text comes in the middle of what an agent says."""
        notes = "(for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 0.05; echo note; done) & disown\n"
        with Hosts(1, bashrc=notes) as hosts:
            lines = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; sleep 0.1; done"
            for _ in range(3):
                up = self.user.run("up", "-F", str(hosts.ssh_config), "-H", "h1", "--no-workdir", "--", "sh", "-c", lines).expect(0)
                self.assertEqual(up.out, "".join(f"worker:0 | line {number}\n" for number in range(1, 13)))
                self.assertNotIn("output is missing", up.err)

    def test_an_ssh_that_says_nothing_of_its_steps(self):
        """As a script around ssh does that drops its stderr."""
        hosts = self.start_hosts()
        wrapper = hosts.folder / "bin/ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} "$@" 2>/dev/null\n')
        wrapper.chmod(0o755)
        config = client_config(hosts, "by_ssh_config", "Compression yes")
        self.user.env["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"
        self.check(Kind("mute"), config)

    def test_a_home_that_keeps_files_for_as_long_as_they_are_open(self):
        """As NFS does; bindfs(1) can be had without a server."""
        if not shutil.which("bindfs") or not os.path.exists("/dev/fuse"):
            self.skipTest("no bindfs (Debian package bindfs), or no /dev/fuse")
        hosts = self.start_hosts()
        hosts[0].run_as("root", ["bindfs", "/home", "/home"])
        way = ["-F", str(hosts.ssh_config), "-H", "h1"]
        self.user.run("up", *way, "--no-workdir", "--name", "first", "--", "true").expect(0)
        self.user.run("down", "--purge", "first").expect(0)
        self.user.run("up", *way, "--no-workdir", "--", "true").expect(0)
        cleaned = self.user.run("clean", "--all", "--yes", *way).expect(0)
        self.assertNotIn("kept ", cleaned.out + cleaned.err)
        self.assertEqual(os.listdir(hosts[0].home / ".cache"), [])

    def start_hosts(self):
        hosts = Hosts(1)
        hosts.start()
        self.addCleanup(hosts.stop)
        return hosts

    def test_dropbear(self):
        self.check_server("dropbear", dropbear)

    def test_asyncssh(self):
        self.check_server("asyncssh", asyncssh)

    def check_server(self, name, serve):
        with serve(self.start_hosts()) as config:
            self.check(Kind(name), config)


if __name__ == "__main__":
    unittest.main()
