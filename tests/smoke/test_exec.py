"""`tfdist exec` and `tfdist shell` on test hosts, as a user runs them."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.hosts.probe import client_config
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import BIN, Tfdist, without_waiting
from tests.support.waiting import PATIENCE, wait_for


def setUpModule():
    check_possible()


class Exec(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3)
        cls.hosts.start()
        cls.addClassCleanup(cls.hosts.stop)
        cls.names = [host.name for host in cls.hosts]

    def setUp(self):
        self.user = Tfdist("exec")
        self.addCleanup(self.user.close)
        self.addCleanup(self.assert_nothing_left)

    def assert_nothing_left(self):
        def left():
            return {host.name: [p.argv for p in host.processes()] for host in self.hosts if host.processes()}

        wait_for(lambda: not left(), lambda: f"nothing left on the hosts; there is {left()}", 30)

    def exec(self, *args):
        return self.user.run("exec", "-F", str(self.hosts.ssh_config), "-H", ",".join(self.names), *args)

    def write(self, command, **options):
        return self.user.write("cluster.toml", clusters.over_ssh("job", command, self.hosts, **options))

    def start_job(self, script, **options):
        """Detached, until all tasks run."""
        up = self.user.run("up", "-d", self.write(shell(script), **options))
        self.assertEqual(up.code, 0, up)
        self.user.wait_until_tasks_run()
        self.addCleanup(self.user.run, "down", "--force", "job")

    def test_output_of_all_hosts_comes_with_their_names(self):
        done = self.exec("--", "sh", "-c", "echo on $(hostname); echo bad >&2")
        self.assertEqual(done.code, 0, done)
        expected = {f"{name} | on {name}" for name in self.names} | {f"{name} | bad" for name in self.names}
        self.assertEqual(set(done.out.splitlines()), expected)
        self.assertEqual(without_waiting(done.err), "")

    def test_words_reach_the_program_as_they_are(self):
        words = ["a b", "it's", "$HOME `id`", "", "*", "-n", "--", "x\ny", "ä"]
        done = self.exec("--gather", "--", "printf", "<%s>", *words)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out, "---- h[1-3] (3)\n" + "".join(f"<{word}>" for word in words) + "\n")

    def test_a_tilde_is_the_home_folder_of_the_host(self):
        """As in the command of a cluster file; only where the whole word is a path, or the value of an option."""
        done = self.exec("--gather", "--", "printf", "<%s>", "~", "~/a b", "--data=~/c", "x~/d", "a ~/e")
        self.assertEqual(done.out, "---- h[1-3] (3)\n</home/trainer></home/trainer/a b><--data=/home/trainer/c><x~/d><a ~/e>\n", done)
        self.start_job("sleep infinity")
        self.assertIn("worker:0 | /home/trainer/a\n", self.user.run("exec", "worker:0", "--", "echo", "~/a").out)

    def test_a_tilde_that_the_users_own_shell_has_read_is_named(self):
        path = self.user.folder / "data"  # below the user's HOME
        done = self.exec("--", "ls", str(path))
        self.assertEqual(done.err.count(f"  try: if your shell made {self.user.folder} of ~: quote it ('~/...'), and each host puts its own "
                                        "home folder there\n"), 1, done)
        self.assertNotIn("quote it", self.exec("--", "ls", "/nothing").err)
        self.assertNotIn("quote it", self.exec("--", "echo", str(path)).err)
        connection = ("-F", str(self.hosts.ssh_config), "-H", self.names[0], "--no-workdir")
        for words in (("--set", f"task.venv={path}", "--", "python", "-V"), ("--", f"{path}/bin/python", "-V")):
            up = self.user.run("up", *connection, *words).expect(3)
            self.assertRegex(up.err, rf"  try: .*; if your shell made {self.user.folder} of ~: quote it")
        self.assertNotIn("quote it", self.user.run("up", *connection, "--", "/nothing/python", "-V").expect(3).err)

    def test_hosts_without_their_option_are_told_it(self):
        done = self.user.run("exec", "h1", "h2", "--", "echo", "a b").expect(4)
        self.assertIn("no job h1 is known on this machine, nor a task or host of that name\n"
                      "  try: for hosts: tfdist exec -H h1,h2 -- echo 'a b'\n", done.err)
        self.assertNotIn("exec -H", self.user.run("exec", "worker:0", "--", "true").expect(4).err)

    def test_a_command_gets_no_input(self):
        words = ("exec", "-F", str(self.hosts.ssh_config), "-H", "h1", "--", "cat")
        done = subprocess.run([str(BIN / "tfdist"), *words], input=b"text\n", capture_output=True, env=self.user.env, timeout=60, check=True)
        self.assertEqual(done.stdout, b"")
        self.assertIn("The command's stdin is empty", " ".join(self.user.run("exec", "--help").out.split()))

    def test_the_exit_code_is_the_worst_one(self):
        done = self.exec("--", "sh", "-c", "test $(hostname) = h1 || exit 7; exit 3")
        self.assertEqual(done.code, 7, done)
        self.assertIn("tfdist: h1: exit code 3\n", done.err)
        self.assertIn("tfdist: h[2-3]: exit code 7\n", done.err)
        self.assertEqual(self.exec("--", "sh", "-c", "kill -9 $$").code, 128 + signal.SIGKILL)

    def test_equal_output_is_folded(self):
        done = self.exec("--gather", "--", "sh", "-c", "test $(hostname) = h2 && echo other && exit 5; echo same")
        self.assertEqual(done.code, 5, done)
        self.assertEqual(done.out, "---- h[1,3] (2)\nsame\n---- h2 (1): exit code 5\nother\n")

    def test_a_host_that_cannot_be_reached_hides_no_other(self):
        self.hosts[1].refuse_key()
        self.addCleanup(self.hosts[1].accept_key)
        done = self.exec("--", "echo", "here")
        self.assertEqual(done.code, 3, done)
        self.assertEqual(set(done.out.splitlines()), {"h1 | here", "h3 | here"})
        self.assertRegex(done.err, "tfdist: h2: authentication: ")

    def test_a_whole_line_in_one_word_is_told_that_no_shell_reads_it(self):
        done = self.exec("--", "cd /tmp && pwd")
        self.assertEqual(done.code, 127, done)
        self.assertIn("  try: no shell reads the command; for one: -- sh -c 'cd /tmp && pwd'\n", done.err)

    def test_a_word_that_only_a_shell_knows_is_told_so(self):
        done = self.exec("--", "source", "/opt/a b/setup.sh")
        self.assertEqual(done.code, 127, done)
        self.assertIn("  try: only a shell knows source, and none reads the command; for one: -- bash -c ", done.err)
        self.assertIn("  try: only a shell knows ulimit, ", self.exec("--", "ulimit", "-n").err)

    def test_the_hosts_of_a_file_need_no_job(self):
        file = self.write(["true"])
        done = self.user.run("exec", file, "h[1-2]", "--", "hostname")
        self.assertEqual(done.code, 2, done)  # the file calls them by their addresses
        self.assertIn("cluster.toml has no task or host h1", done.err)
        addresses = [host.address for host in self.hosts]
        done = self.user.run("exec", file, addresses[0], "@" + addresses[2], "--", "hostname")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(set(re.findall(r"\| (\w+)", done.out)), {"h1", "h3"})

    def test_a_task_has_its_environment_and_its_folder(self):
        self.user.write("work/data.txt", "of the workdir\n")
        self.start_job("sleep infinity", task_extra='workdir = "work"\nenv = { COLOUR = "it\'s blue" }')
        done = self.user.run("exec", "worker", "--", "sh", "-c",
                             'cat data.txt; echo "$TFDIST_TASK $COLOUR"; echo ${TFDIST_COOKIE-none}; '
                             'echo "$TF_CONFIG" | grep -c cluster')
        self.assertEqual(done.code, 0, done)
        for task in ("worker:0", "worker:1"):
            lines = [line.split(" | ", 1)[1] for line in done.out.splitlines() if line.startswith(task)]
            self.assertEqual(lines, ["of the workdir", f"{task} it's blue", "none", "1"])
        one = self.user.run("exec", "job", "worker:[0-1]", f"@{self.hosts[2].address}", "--", "true")
        self.assertEqual((one.code, one.out), (0, ""), one)
        unknown = self.user.run("exec", "job", "worker:7", "--", "true")
        self.assertEqual(unknown.code, 2, unknown)
        hosts = self.user.run("exec", "job", "--gather", "--", "echo", "all")
        self.assertEqual(hosts.code, 0, hosts)
        self.assertIn("(3)\nall\n", hosts.out)

    def test_a_finished_job_has_no_environment_to_run_in(self):
        self.user.run("up", self.write(["true"])).expect(0)
        self.assert_nothing_left()
        done = self.user.run("exec", "worker:0", "--", "true")
        self.assertEqual(done.code, 4, done)
        job = self.user.job_id()
        self.assertEqual(done.err, f"tfdist: job {job} is over (succeeded): none of its tasks runs\n"
                                   f"  try: tfdist logs {job} shows what they wrote, tfdist pull {job} brings their files home, "
                                   f"tfdist exec {job} @{self.hosts[0].address} -- COMMAND looks at a host\n")
        self.assertEqual(self.user.run("shell", "worker:0").expect(4).err, done.err)

    def test_the_time_limit_ends_it_everywhere(self):
        done = self.exec("--timeout", "5s", "--", "sh", "-c", "(setsid sleep 1000 &); echo begun; sleep 1000")
        self.assertEqual(done.code, 124, done)
        self.assertEqual(done.out.count("begun"), 3)
        self.assertIn("tfdist: h[1-3]: timed out, and was ended\n", done.err)

    def test_the_time_limit_holds_for_the_login_too(self):
        """Of a host that says nothing, and of one that hangs once it has let others in."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            config = client_config(self.hosts, "timeout_config", "Host mute", "HostName 127.0.0.1", f"Port {silent.getsockname()[1]}",
                                   "Host *")
            for transport in ("ssh", "openssh"):
                with self.subTest(transport=transport):
                    begin = time.monotonic()
                    done = self.user.run("exec", "--timeout", "4s", "-F", str(config), "--transport", transport, "-H", "mute,h1", "--",
                                         "sh", "-c", "echo begun; sleep 1000")
                    spent = time.monotonic() - begin
                    self.assertEqual(done.code, 124, done)
                    self.assertLess(spent, 4 + 8 * PATIENCE, done)
                    self.assertRegex(done.out, r"^h1 +\| begun\n$")
                    self.assertRegex(done.err, r"tfdist: mute: connect: timed out in the login \((SSH version|login)\): the command was "
                                     r"not started\n  try: ssh -v mute true shows")
                    self.assertIn("tfdist: h1: timed out, and was ended\n", done.err)
            gathered = self.user.run("exec", "--timeout", "1s", "--json", "-F", str(config), "-H", "mute", "--", "true").expect(124)
            self.assertEqual([(row["timed_out"], row["exit_code"]) for row in json.loads(gathered.out)], [(True, None)])

    def test_the_time_limit_of_wait_holds_where_the_first_host_hangs(self):
        self.start_job("exec sleep infinity")
        self.hosts[0].freeze()
        self.addCleanup(self.hosts[0].thaw)
        begin = time.monotonic()
        waited = self.user.run("wait", "--timeout", "3s").expect(124)
        spent = time.monotonic() - begin
        self.hosts[0].thaw()
        self.assertLess(spent, 4 + 8 * PATIENCE, waited)

    def end_by_hand(self, name):
        """What a test has made that tfdist cannot end, or may not."""
        for host in self.hosts:
            for process in host.processes():
                if pathlib.Path(process.argv[0]).name == name:
                    processes.kill(process.pid)

    def test_what_has_no_mark_is_ended_by_its_session_or_its_descent(self):
        done = self.exec("--timeout", "5s", "--", "sh", "-c", "env -i sleep 1000 & setsid env -i sh -c 'env -i sleep 1000; :' & echo begun; wait")
        self.assertEqual(done.code, 124, done)
        self.assertEqual(done.out.count("begun"), 3)
        self.assertIn("tfdist: h[1-3]: timed out, and was ended\n", done.err)
        self.assert_nothing_left()

    def test_no_end_is_claimed_of_what_another_account_runs(self):
        """As sudo does, of which the account that calls it can end nothing."""
        for host in self.hosts:
            sudo = shutil.copy(shutil.which("setpriv"), host.folder / "tmp/sudo")
            pathlib.Path(sudo).chmod(0o4755)
        self.addCleanup(self.end_by_hand, "sleep")
        done = self.exec("--timeout", "5s", "--json", "--", "sh", "-c", "/tmp/sudo --reuid=0 env -i sleep 1000; :")
        self.assertEqual(done.code, 3, done)
        for row in json.loads(done.out):
            self.assertRegex(row["left"], r"^\d+ \(sleep\)$")
            self.assertRegex(done.err, rf"tfdist: {row['host']}: remote shell: processes of the command could not be ended: {re.escape(row['left'])}\n")
        self.end_by_hand("sleep")
        done = self.exec("--timeout", "5s", "--", "/tmp/sudo", "--reuid=0", "env", "-i", "sleep", "1000")
        self.assertEqual(done.code, 3, done)
        self.assertEqual(len(re.findall(r"processes of the command could not be ended: \d+ \(sleep\)\n", done.err)), 3, done)
        self.end_by_hand("sleep")
        done = self.exec("--timeout", "5s", "--", "sh", "-c", "/tmp/sudo --reuid=0 sleep 1000; :")
        self.assertIn("tfdist: h[1-3]: timed out, and was ended as far as can be seen\n", done.err)

    def test_what_may_be_left_of_it_is_named(self):
        """ssh-agent shows its environment to nobody, and is nobody's child; the other one has none to show."""
        agent = 'eval "$(ssh-agent)" >/dev/null; until [ "$(cut -d " " -f 6 /proc/$SSH_AGENT_PID/stat)" = $SSH_AGENT_PID ]; do sleep 0.1; done'
        sleep = "(setsid env -i sleep 1000 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do sleep 0.1; done)"
        for program, command in (("ssh-agent", agent), ("sleep", sleep)):
            for rest, code, limit in (("exit 5", 5, []), ("sleep 1000", 124, ["--timeout", "5s"])):
                with self.subTest(program=program, rest=rest):
                    self.addCleanup(self.end_by_hand, program)
                    done = self.exec(*limit, "--", "sh", "-c", f"{command}; {rest}")
                    self.assertEqual(done.code, code, done)
                    for name in self.names:
                        self.assertRegex(done.err, rf"tfdist: {name}: may still run: \d+ \({program}\)\n")
                    self.assertNotIn("and was ended\n", done.err)
                    self.end_by_hand(program)

    def test_ctrl_c_ends_it_everywhere_and_a_second_one_kills(self):
        for program, presses in (("sleep 1000", 1), ("trap '' TERM; echo deaf; while true; do sleep 0.1; done", 2)):
            with self.subTest(program=program):
                terminal = self.user.start_on_terminal(
                    "exec", "-F", str(self.hosts.ssh_config), "-H", ",".join(self.names), "--", "sh", "-c",
                    f"echo begun; {program}")
                wait_for(lambda: terminal.read().count("begun") >= 3, "the command runs everywhere")
                terminal.ctrl_c()
                terminal.wait_for_text("ending the command on")
                if presses == 2:
                    terminal.ctrl_c()
                    terminal.wait_for_text("killing the command on")
                self.assertEqual(terminal.wait(), 130)
                self.assert_nothing_left()

    def test_ctrl_c_ends_it_also_while_start_up_files_take_long(self):
        start_up = self.hosts[1].home / ".bashrc"
        start_up.write_text("sleep 20\n")
        self.addCleanup(start_up.unlink)
        self.addCleanup(self.end_sleeping_logins)
        for told in (signal.SIGINT, signal.SIGTERM):
            running = self.user.start("exec", "-F", str(self.hosts.ssh_config), "-H", "h1,h2", "--", "true")
            wait_for(lambda r=running: "waiting for h2" in r.err.read_text(), "the wait is named", 30)
            told_at = time.monotonic()
            running.send_signal(told)
            self.assertEqual(running.wait(15), 130)
            self.assertLess(time.monotonic() - told_at, 15)
            self.assertIn("h2: remote shell: interrupted while the command was to begin: the host ends it as the connection is closed\n", running.err.read_text())

    def end_sleeping_logins(self):
        for process in self.hosts[1].processes():
            if process.argv == ["sleep", "20"]:
                processes.kill(process.pid)

    def test_a_killed_tfdist_leaves_nothing_on_the_hosts(self):
        process = self.user.start("exec", "-F", str(self.hosts.ssh_config), "-H", ",".join(self.names), "--",
                                  "sh", "-c", "(setsid sleep 1000 &); echo begun; sleep 1000")
        wait_for(lambda: process.out.read_bytes().count(b"begun") == 3, "the command runs everywhere")
        process.kill()
        self.assert_nothing_left()

    def test_a_reader_that_leaves_ends_it(self):
        read, write = os.pipe()
        process = subprocess.Popen(
            [str(BIN / "tfdist"), "exec", "-F", str(self.hosts.ssh_config), "-H", "h1", "--", "yes"],
            env=self.user.env, cwd=self.user.folder, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        self.assertIn(b"h1 | y", os.read(read, 100))
        os.close(read)
        self.assertEqual(process.wait(60), 0)
        process.stderr.close()

    def test_a_frozen_host_is_named_after_a_second_and_ctrl_c_keeps_what_the_others_said(self):
        self.hosts[2].freeze()
        self.addCleanup(self.hosts[2].thaw)

        def has_ended(host):
            begun = host.run_as("trainer", ["test", "-e", "/tmp/begun"], check=False).returncode == 0
            return begun and not host.processes()

        process = self.user.start("exec", "-F", str(self.hosts.ssh_config), "-H", ",".join(self.names), "--gather",
                                  "--", "sh", "-c", "echo done; touch /tmp/begun")
        # On a busy machine the others may not have answered either.
        wait_for(lambda: re.search(r"tfdist: waiting for h(3|\[[\d,-]*3\]) to answer", process.err.read_text()),
                 "a word on h3")
        wait_for(lambda: has_ended(self.hosts[0]) and has_ended(self.hosts[1]), "the others have ended")
        interrupted = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        self.assertLess(time.monotonic() - interrupted, 20)
        self.assertEqual(process.out.read_text(), "---- h[1-2] (2)\ndone\n")
        self.assertIn("h3: remote shell: interrupted before the command was started", process.err.read_text())

        listing = self.user.start("list", "-F", str(self.hosts.ssh_config), "-H", ",".join(self.names))
        wait_for(lambda: "waiting for h" in listing.err.read_text(), "a word on h3")
        listing.send_signal(signal.SIGINT)
        self.assertEqual(listing.wait(20), 130)

    def test_a_parent_that_ignores_sigchld_is_no_obstacle(self):
        """As some CI runners, and `trap '' CHLD` in bash: the system then keeps no exit code of a child."""
        for transport in ("ssh", "openssh"):
            with self.subTest(transport=transport):
                done = subprocess.run(
                    ["bash", "-c", "trap '' CHLD; exec \"$@\"", "bash", str(BIN / "tfdist"), "exec", "-F",
                     str(self.hosts.ssh_config), "--transport", transport, "-H", "h1", "--", "hostname"],
                    env=self.user.env, cwd=self.user.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(done.stdout, b"h1 | h1\n")

    def test_what_is_wrong_is_said_before_any_host_is_asked(self):
        for args, text in ((["-H", "h1"], "exec needs a command, after --"),
                           (["-H", "h1", "job", "--", "true"], "-H and a job exclude each other"),
                           (["-H", "h1", "--timeout", "soon", "--", "true"], "--timeout: expected a time")):
            with self.subTest(args=args):
                done = self.user.run("exec", *args)
                self.assertEqual(done.code, 2, done)
                self.assertIn(text, done.err)
        nothing = self.user.run("exec", "--", "true")
        self.assertEqual(nothing.code, 4, nothing)

    def test_a_shell_of_a_task_is_where_the_task_is(self):
        self.user.write("work/data.txt", "of the workdir\n")
        self.start_job("sleep infinity", task_extra='workdir = "work"')
        self.user.env["TERM"] = "xterm"
        terminal = self.user.start_on_terminal("shell", "worker:0")
        os.write(terminal.fd, b"cat data.txt; echo task=$TFDIST_TASK host=$(hostname) tty=$(tty); exit 6\n")
        self.assertEqual(terminal.wait(), 6)
        self.assertIn("of the workdir", terminal.text)
        self.assertRegex(terminal.text, r"task=worker:0 host=h2 tty=/dev/")

    def test_a_shell_on_a_host(self):
        file = self.write(["true"])
        terminal = self.user.start_on_terminal("shell", file, self.hosts[1].address)
        os.write(terminal.fd, b"echo on=$(hostname); exit 5\n")
        self.assertEqual(terminal.wait(), 5)
        self.assertIn("on=h2", terminal.text)
        several = self.user.run("shell", file)
        self.assertEqual(several.code, 2, several)
        self.assertIn("a shell is for one of them", several.err)
        nothing = self.user.run("shell")
        self.assertEqual(nothing.code, 2, nothing)
        self.assertIn("shell needs a host or a task", nothing.err)


class IdleChannels(unittest.TestCase):
    def test_a_command_that_sshd_ended_because_it_was_silent_is_explained(self):
        user = Tfdist("idle")
        self.addCleanup(user.close)
        with Hosts(1, sshd_lines=("ChannelTimeout session:command=5s",)) as hosts:
            for transport in ("ssh", "openssh"):
                done = user.run("exec", "-F", str(hosts.ssh_config), "--transport", transport, "-H", "h1", "--", "sleep", "1000")
                self.assertEqual(done.code, 3, done)
                self.assertIn("the host hung up while the command ran", done.err)
                self.assertIn("ChannelTimeout in its sshd_config", done.err)
                wait_for(lambda: not hosts[0].processes(), "the end of the command", 30)


if __name__ == "__main__":
    unittest.main()
