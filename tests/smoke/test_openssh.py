"""Jobs over the user's own ssh program (transport = "openssh"), on hosts that libssh2 cannot reach."""

import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import BIN, Tfdist
from tests.support.waiting import wait_for

POST_QUANTUM = ("KexAlgorithms sntrup761x25519-sha512@openssh.com",)


def setUpModule():
    check_possible()


class Openssh(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("openssh")
        self.addCleanup(self.user.close)

    def start_hosts(self, count, **options):
        hosts = Hosts(count, sshd_lines=POST_QUANTUM, **options)
        hosts.start()
        self.addCleanup(hosts.stop)
        return hosts

    def write(self, hosts, command, transport="openssh", **options):
        text = clusters.over_ssh("job", command, hosts, layout="mirrored", **options)
        return self.user.write("cluster.toml", text + (f'transport = "{transport}"\n' if transport else ""))

    def masters(self):
        """Of this user: {pid: command}. Each has its socket's path in its command line."""
        return {pid: command for pid, command in processes.matching(str(self.user.folder)).items()
                if re.search(r"ssh -M -S /tmp/tfdist-masters-\S+/\d+ ", command)}

    def folders(self):
        return {pathlib.Path(re.search(r"-S (/tmp/tfdist-masters-[^/]+)/", command).group(1))
                for command in self.masters().values()}

    def logins(self, host):
        return host.sshd_log.read_text().count("Accepted ")

    def run_well(self, *args, **options):
        result = self.user.run(*args, **options)
        self.assertEqual(result.code, 0, result)
        self.assert_nothing_outlives_its_command()
        return result

    def assert_nothing_outlives_its_command(self, said=""):
        """A connection closes its socket a moment before its process is gone; by itself it would stay for ten seconds."""
        wait_for(lambda: not self.user.left(), lambda: f"end of {self.user.left()}, which outlives its command {said}", 9)

    def test_default_transport_takes_ssh_where_libssh2_cannot_and_says_why(self):
        hosts = self.start_hosts(2)
        for transport in (None, "ssh"):
            done = self.run_well("up", self.write(hosts, shell("true"), transport=transport))
            for host in hosts:
                [line] = re.findall(f"^tfdist: {host.address}: by your own ssh: .*$", done.err, re.M)
                self.assertIn("no agreement on algorithms", line)

    def test_a_machine_with_more_slots_than_sshd_has_sessions_for(self):
        """Each transport logs in as often as the slots need, and not more."""
        ports = list(range(first := clusters.free_ports(8), first + 8))
        for most in (1, 2, 4, 8, 10):
            with Hosts(1, sshd_lines=(f"MaxSessions {most}",)) as hosts:
                for transport in ("auto", "openssh"):
                    with self.subTest(most=most, transport=transport):
                        before = self.logins(hosts[0])
                        self.run_well("up", self.user.write("cluster.toml", f"""
name = "job"
cluster = {{ hosts = [{{ address = "{hosts[0].address}", ssh = "h1", slots = 8 }}], layout = "mirrored", ports = {{ worker = {ports} }} }}
task = {{ command = ["true"], gpus = 0 }}
ssh = {{ config = "{hosts.ssh_config}", transport = "{transport}" }}
"""))
                        self.assertEqual(self.logins(hosts[0]) - before, max(1, 8 // most))

    def test_a_whole_job_over_ssh_with_one_login_a_host_and_command(self):
        hosts = self.start_hosts(3)
        self.user.write("work/train.sh", "echo begin $TFDIST_TASK; echo result >out.txt; read word <gate; echo end; ")
        script = "mkfifo gate; exec sh train.sh"
        file = self.write(hosts, shell(script), task_extra='workdir = "work"')
        self.run_well("check", file)
        before = [self.logins(host) for host in hosts]
        self.run_well("up", "-d", file)
        self.assertEqual([self.logins(host) for host in hosts], [count + 1 for count in before])
        self.user.wait_until_tasks_run()
        before = [self.logins(host) for host in hosts]
        done = self.run_well("exec", "job", "worker:[0-2]", "--", "sh", "-c", "cat out.txt; exit 0")
        self.assertEqual(sorted(done.out.splitlines()), [f"worker:{n} | result" for n in range(3)])
        self.assertEqual([self.logins(host) for host in hosts], [count + 1 for count in before])
        failed = self.user.run("exec", "job", "worker:1", "--", "sh", "-c", "exit 255")
        self.assertEqual(failed.code, 255, failed)  # the command's own, and not ssh's for "no connection"
        follower = self.user.start("logs", "-f")
        self.user.wait_for_output(follower, b"worker:2 | begin worker:2\n")
        for host in hosts:
            gate = next((host.home / ".cache/tfdist/jobs").iterdir()) / "run/work/gate"
            gate.write_text("go\n")
        self.assertEqual(follower.wait(60), 0, follower.err.read_text())
        self.assertEqual(len(re.findall(r"\| end\n", follower.out.read_text())), 3)
        self.assertEqual(self.user.wait_until_ended()["state"], "succeeded")
        home = self.user.folder / "results"
        self.run_well("pull", "job", "--to", str(home))
        self.assertEqual([(home / f"worker-{n}/out.txt").read_text() for n in range(3)], ["result\n"] * 3)
        self.run_well("down", "--purge", "job")
        wait_for(lambda: not any(host.processes() for host in hosts), "nothing left on the hosts")

    def test_down_ends_a_job_and_a_host_may_have_another_transport(self):
        hosts = self.start_hosts(2)
        text = clusters.over_ssh("job", shell("exec sleep infinity"), hosts, layout="mirrored") + 'transport = "ssh"\n'
        text = text.replace(f'ssh = "{hosts[0].name}"', f'ssh = "{hosts[0].name}", transport = "openssh"')
        mixed = self.user.write("mixed.toml", text)
        up = self.run_well("up", "-d", mixed)
        self.assertNotIn(f"tfdist: {hosts[0].address}: ", up.err)
        self.assertIn(f"tfdist: {hosts[1].address}: by your own ssh: ", up.err)
        self.user.wait_until_tasks_run()
        self.run_well("down")
        wait_for(lambda: not any(host.processes() for host in hosts), "nothing left on the hosts")

    def test_the_follower_goes_on_when_its_ssh_is_killed(self):
        hosts = self.start_hosts(1)
        script = "mkfifo gate && exec 3<>gate; i=0; while echo line $i; i=$((i+1)); read word <&3 && [ $word = more ]; do :; done"
        up = self.user.start("up", self.write(hosts, shell(script)))
        self.user.wait_for_output(up, b"worker:0 | line 0\n")
        gate = next((hosts[0].home / ".cache/tfdist/jobs").iterdir()) / "run/work/gate"
        for turn, victims in ((1, self.masters), (2, self.channels)):
            found = wait_for(victims, "ssh")
            for pid in found:
                processes.kill(pid)
            wait_for(lambda: up.err.read_text().count("connecting again") >= turn, lambda: f"it notices; {up.err.read_text()}")
            gate.write_text("more\n")
            self.user.wait_for_output(up, f"worker:0 | line {turn}\n".encode())
        gate.write_text("end\n")
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        lines = [line for line in up.out.read_text().splitlines() if " | line " in line]
        self.assertEqual(lines, [f"worker:0 | line {n}" for n in (0, 1, 2)])
        self.assert_nothing_outlives_its_command()

    def channels(self):
        return {pid: command for pid, command in processes.matching(str(self.user.folder)).items()
                if command.startswith("ssh -F /dev/null -S /tmp/tfdist-masters-")}

    def test_nothing_stays_of_a_command_that_was_killed(self):
        """Its connections end by themselves; their folder goes with the next command, also with another test's."""
        hosts = self.start_hosts(2)
        up = self.user.start("up", self.write(hosts, shell("echo up; exec sleep infinity")))
        self.user.wait_for_output(up, b"worker:1 | up\n")
        wait_for(self.masters, "connections")
        [folder] = self.folders()
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        up.send_signal(signal.SIGKILL)
        up.wait()
        wait_for(lambda: not self.user.left(), lambda: f"end of {self.user.left()}", 60)
        strangers = [pathlib.Path(tempfile.mkdtemp(prefix="tfdist-masters-")), folder.with_name(folder.name[:-6] + "strang")]
        strangers[1].mkdir(mode=0o700)
        (strangers[1] / "work").touch()
        self.addCleanup(lambda: [shutil.rmtree(stranger) for stranger in strangers])
        self.run_well("status")
        self.assertFalse(folder.exists())
        self.assertTrue(strangers[0].exists() and (strangers[1] / "work").exists(), "folders of others stay")
        self.run_well("down")

    def test_ctrl_c_leaves_nothing(self):
        hosts = self.start_hosts(2)
        terminal = self.user.start_on_terminal("up", self.write(hosts, shell("echo running; exec sleep infinity")))
        terminal.wait_for_text("running")
        [folder] = self.folders()
        terminal.ctrl_c()
        self.assertEqual(terminal.wait(), 130, terminal.text)
        self.assert_nothing_outlives_its_command()
        self.assertFalse(folder.exists())
        wait_for(lambda: not any(host.processes() for host in hosts), "nothing left on the hosts")

    def test_a_host_that_hangs_is_named_in_time(self):
        hosts = self.start_hosts(3)
        self.run_well("up", "-d", self.write(hosts, shell("exec sleep infinity")))
        self.user.wait_until_tasks_run()
        hosts[2].freeze()
        try:
            down = self.user.run("down", "job", seconds=120)
        finally:
            hosts[2].thaw()
        self.assertNotIn(down.code, (0, 2), down)
        self.assertIn(f"unreachable: {hosts[2].address}", down.err)
        self.assert_nothing_outlives_its_command()
        self.run_well("down", "job")

    def test_sixteen_hosts_of_the_command_line_have_one_connection_each(self):
        hosts = self.start_hosts(16)
        listed = ",".join(host.name for host in hosts)
        done = self.run_well("exec", "--gather", "-F", str(hosts.ssh_config), "--transport", "openssh", "-H", listed,
                             "--", "echo", "ready")
        self.assertEqual(done.out, "---- h[1-9], h[10-16] (16)\nready\n")
        self.assertEqual([self.logins(host) for host in hosts], [1] * 16)

    def test_the_sockets_folder_may_go_while_a_command_runs(self):
        """As a cleaner of /tmp takes it."""
        hosts = self.start_hosts(1)
        script = "mkfifo gate && exec 3<>gate; echo line 0; read word <&3; echo line 1; read word <&3; exit 0"
        up = self.user.start("up", self.write(hosts, shell(script)))
        self.user.wait_for_output(up, b"worker:0 | line 0\n")
        [old] = self.folders()
        shutil.rmtree(old)
        for pid in self.masters():
            processes.kill(pid)
        gate = next((hosts[0].home / ".cache/tfdist/jobs").iterdir()) / "run/work/gate"
        gate.write_text("more\n")
        self.user.wait_for_output(up, b"worker:0 | line 1\n")
        [new] = self.folders()
        self.assertNotEqual(new, old)
        gate.write_text("end\n")
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.assert_nothing_outlives_its_command()
        self.assertFalse(new.exists())

    def test_a_tmp_that_cannot_be_written_is_named_with_the_remedy(self):
        hosts = self.start_hosts(1)
        script = 'mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", BIN / "tfdist", *self.exec_on(hosts, "true")],
                              env=self.user.env, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("cannot make a folder in /tmp for ssh's sockets: Read-only file system", done.stderr)
        self.assertIn("try: let this account write to /tmp", done.stderr)

    def test_a_configuration_of_ssh_that_others_may_write_is_named_with_the_remedy(self):
        """ssh finds ~ by the account, and not by HOME."""
        home = pwd.getpwuid(os.getuid()).pw_dir
        program = shutil.copy(BIN / "tfdist", self.user.folder)
        for spoil in ("chmod 0666", "chown 12345"):
            for transport in ("auto", "openssh"):
                script = f'mount -t tmpfs -o mode=700 tmpfs {home} && mkdir -m 700 {home}/.ssh && cd {home}/.ssh && echo Host h1 >config && {spoil} config && exec "$@"'
                done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", program, "exec", "--transport", transport,
                                       "-H", "h1", "--", "true"], env=self.user.env, capture_output=True, text=True, timeout=120)
                with self.subTest(spoil=spoil, transport=transport):
                    self.assertEqual(done.returncode, 3, done)
                    self.assertIn(f"tfdist: h1: connect: ssh does not accept its configuration: Bad owner or permissions on {home}/.ssh/config\n"
                                  f"  try: chmod go-w {home}/.ssh/config; it must belong to you, or to root: ", done.stderr)

    def exec_on(self, hosts, *command):
        return ("exec", "-F", str(hosts.ssh_config), "--transport", "openssh", "-H", "h1", "--", *command)

    def interrupt(self, command):
        """Ends it as Ctrl-C does, and looks for what it leaves."""
        command.send_signal(signal.SIGINT)
        code = command.wait(120)
        self.assert_nothing_outlives_its_command(command.err.read_text())
        self.assertEqual(code, 130, command.err.read_text())

    def test_a_login_ends_with_its_command(self):
        hosts = self.start_hosts(1)
        hosts[0].freeze()
        self.addCleanup(hosts[0].thaw)
        command = self.user.start(*self.exec_on(hosts, "true"))
        wait_for(self.masters, "a login")
        self.interrupt(command)

    def test_a_connection_that_hangs_ends_with_its_command(self):
        hosts = self.start_hosts(1)
        command = self.user.start(*self.exec_on(hosts, "sh", "-c", "echo up; exec sleep infinity"))
        self.user.wait_for_output(command, b"up\n")
        [master] = self.masters()
        processes.kill(master, signal.SIGSTOP)
        self.interrupt(command)

    def test_init_writes_the_transport_down(self):
        hosts = self.start_hosts(1)
        done = self.run_well("init", "-F", str(hosts.ssh_config), "--transport", "openssh", "h1")
        self.assertRegex(done.out, r'\n\[ssh\]\nconfig = ".*"\ntransport = "openssh"\n')


if __name__ == "__main__":
    unittest.main()
