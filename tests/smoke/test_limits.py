"""Hosts that hide processes from their own account, or let it have few of them."""

import json
import os
import pathlib
import resource
import shutil
import time
import unittest

from tests.hosts.hosts import check_possible
from tests.smoke.test_local import shell
from tests.smoke.test_ssh import OverSsh
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist, without_waiting
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

    def assert_no_task_left(self):
        """Not for a moment; tfdist's own processes end soon after, as the agent of slot 0 serves followers."""
        left = [process.argv for process in self.hosts[0].processes() if process.argv != [""]]  # one that is just ending has none
        # A command has just talked to an `.../h0/agent attach`, which ends when it sees that.
        self.assertEqual([argv for argv in left if not argv[0].startswith("tfdist-") and not argv[0].endswith("/h0/agent")], [])
        self.assert_nothing_left(self.hosts)

    def test_down_ends_them_at_once(self):
        self.start("exec sleep infinity")
        down = self.user.run("down", seconds=19)  # it took 20 s, and left the process
        self.assertEqual(down.code, 0, down)
        self.assertIn("nothing is left", down.err + down.out)
        self.assert_no_task_left()

    def test_a_task_that_ends_takes_them_along(self):
        self.start("sleep 1; exit 0")
        self.user.run("wait", seconds=19).expect(0)
        self.assert_no_task_left()

    def test_down_does_not_claim_what_it_cannot_see(self):
        self.start("exec sleep infinity")
        processes.kill_together(lambda: [p.pid for p in self.hosts[0].processes() if p.argv[0].startswith("tfdist-")])
        for _ in range(2):
            down = self.user.run("down")
            self.assertEqual(down.code, 1, down)
            self.assertIn("/proc hides it (hidepid=", down.err + down.out)
            clean = self.user.run("clean", "--yes", "cluster.toml").expect(3)  # the note of it stays for the next one
            self.assertIn("/proc hides it (hidepid=", clean.err + clean.out)

    def test_who_looks_sees_the_tasks_and_claims_no_more(self):
        """Its own tasks an account sees here, but for one that hides; `clean` removes nothing of a running job."""
        self.start("exec sleep infinity")
        self.assertEqual([(row["state"], bool(row["pid"])) for row in self.user.status()["tasks"]], [("running", True)])
        for words in (["status"], ["why"], ["top", "-n", "1"]):
            with self.subTest(words=words):
                said = self.user.run(*words).expect(0)
                self.assertIn("running", said.out)
                self.assertNotRegex(said.out + said.err, "not known|has ended|lost")
        cleaned = self.user.run("clean", "--yes", "cluster.toml").expect(0)
        self.assertIn("nothing to remove", cleaned.out)
        self.assertEqual(self.user.status()["state"], "running")
        self.user.run("down").expect(0)
        self.assert_no_task_left()

    def test_who_looks_after_tfdist_was_killed_does_not_say_that_nothing_is_left(self):
        self.start("exec sleep infinity")
        processes.kill_together(lambda: [p.pid for p in self.hosts[0].processes() if p.argv[0].startswith("tfdist-")])
        for words in (["status"], ["why"], ["top", "-n", "1"]):
            with self.subTest(words=words):
                said = self.user.run(*words)
                self.assertNotIn("nothing is left", said.out + said.err)
                self.assertNotIn("stopped", said.out)
        listed = self.user.run("clean", "--yes", "cluster.toml")
        self.assertIn("/proc hides it (hidepid=", listed.out + listed.err)

    def test_list_does_not_claim_what_it_cannot_see(self):
        ask = ("list", "-F", str(self.hosts.ssh_config), "-H", self.hosts[0].name)
        name = self.hosts[0].name
        unseen = f"tfdist: {name}: /proc hides the processes of other accounts (hidepid): their jobs cannot be seen\n" \
                 "  try: as root there, or as a member of the group that gid= of its /proc names\n"
        listed = self.user.run(*ask).expect(3)
        self.assertEqual(listed.out, f"no job can be seen on {name}\n")
        self.assertEqual(listed.err, unseen)
        self.user.run("up", "-d", self.write("sleep infinity")).expect(0)
        listed = self.user.run(*ask).expect(3)
        self.assertIn(self.user.job_id(), listed.out)
        self.assertEqual(listed.err, unseen)
        self.user.run("down").expect(0)

    def test_exec_claims_no_end_of_what_it_cannot_see(self):
        name = self.hosts[0].name
        ask = ("exec", "-F", str(self.hosts.ssh_config), "-H", name)
        self.assertEqual(without_waiting(self.user.run(*ask, "--", "true").expect(0).err), "")
        ended = self.user.run(*ask, "--timeout", "5s", "--", "sleep", "1000").expect(124)
        self.assertIn(f"tfdist: {name}: timed out, and was ended as far as can be seen\n", ended.err)
        self.assertIn(f"tfdist: {name}: may still run: other accounts' processes\n", ended.err)

    def test_check_says_so(self):
        check = self.user.run("check", "--json", self.write("sleep infinity"))
        self.assertEqual(check.code, 0, check)
        self.assertIn(("warning", "processes"), [(f["severity"], f["check"]) for f in json.loads(check.out)["findings"]])


class KilledOneAfterTheOther(OverSsh):
    """The task has ended, and that is known; a process of it that has left its session and its environment has not."""
    ESCAPES = "env -i /usr/bin/setsid -f /bin/sleep 9997"

    def setUp(self):
        super().setUp()
        self.hosts = self.start_hosts(1)
        self.file = self.write(self.hosts, shell(f"{self.ESCAPES}; echo ready; exec sleep 1000"), layout="mirrored",
                               task_extra="grace = '2s'\n")
        self.user.run("up", "-d", self.file).expect(0)
        wait_for(lambda: "ready" in self.user.run("logs").out, "a process that escapes")

    def of_tfdist(self, role=""):
        return [p.pid for p in self.hosts[0].processes() if p.argv[0].startswith("tfdist-") and role in p.argv[1:2] + [""]]

    def escaped(self):
        return [p for p in self.hosts[0].processes() if p.argv == ["sleep", "9997"] or p.argv == ["/bin/sleep", "9997"]]

    def kill_the_rest_after_the_task(self):
        """The holder waits 2 s for who has the task's pipes, before it ends that."""
        folder = self.hosts[0].home / f".cache/tfdist/jobs/{self.user.job_id()}/h0/tasks/worker-0/run-1-1"
        wait_for((folder / "exit").exists, "the end of the task")
        processes.kill_together(self.of_tfdist)

    def assert_down_names_it(self, said):
        [process] = self.escaped()
        self.assertIn(f"not known to be gone: pid {process.pid_there} (sleep) may be of worker-0, run-1-1, "
                      "whose holder and keeper were both killed", said)
        self.assertNotIn("nothing is left", said)

    def test_what_is_left_is_named(self):
        for pid in self.of_tfdist("keeper"):
            processes.kill(pid)
        self.kill_the_rest_after_the_task()
        for _ in range(2):
            self.assert_down_names_it(self.user.run("down").expect(1).err)
            clean = self.user.run("clean", "--yes", self.file)  # the note of it stays for the next one
            self.assertIn("may be of worker-0, run-1-1", clean.out + clean.err)
        [process] = self.escaped()
        processes.kill(process.pid)
        self.assertIn("nothing is left", self.user.run("down").expect(0).err)
        self.user.run("clean", "--yes", self.file).expect(0)

    def test_down_names_it_during_which_they_are_killed(self):
        down = self.user.start("down")
        self.kill_the_rest_after_the_task()
        self.assertEqual(down.wait(60), 1, down.err.read_text())
        self.assert_down_names_it(down.err.read_text())


class AnotherAccount(OverSsh):
    """Tasks that sudo or su-exec has given to another account, as setpriv does here."""

    def start_as_root(self):
        """Holder, agent and keeper have been killed since; the pid of the task."""
        self.hosts = self.start_hosts(1)
        sudo = self.hosts[0].folder / "tmp/sudo"
        shutil.copy("/usr/bin/setpriv", sudo)
        sudo.chmod(0o4755)
        self.file = self.write(self.hosts, ["/tmp/sudo", "--reuid=0", "--clear-groups", "sleep", "infinity"], layout="mirrored")
        self.user.run("up", "-d", self.file).expect(0)
        wait_for(self.tasks, "a task of root's")
        wait_for(lambda: json.loads(self.user.run("status", "--json").out)["tasks"][0].get("pid"), "a note of its pid")
        processes.kill_together(lambda: [p.pid for p in self.hosts[0].processes() if p.argv[0].startswith("tfdist-")])
        [pid] = self.tasks()
        return pid

    def tasks(self):
        return [p.pid for p in self.hosts[0].processes() if p.argv[0] == "sleep" and p.uid == 0]

    def test_what_may_not_be_ended_is_named(self):
        pid = self.start_as_root()
        said = "(sleep): runs as another account, and this account may not end it"
        self.assertIn(said, self.user.run("down").expect(1).err)
        up = self.user.run("up", "-d", self.file).expect(3)
        self.assertIn("which is over, there is still: ", up.err)
        self.assertIn(said, up.err)
        clean = self.user.run("clean", "--yes", self.file).expect(3)
        self.assertIn("something of it runs", clean.err)
        self.assertIn(said, self.user.run("down").expect(1).err)
        processes.kill(pid)
        self.assertIn("nothing is left", self.user.run("down").expect(0).err)


class LowLimits(OverSsh):
    """At each number a job either runs, or does not begin, says why and leaves nothing."""

    def test_a_disk_with_room_for_few_files_is_refused_by_check_and_up(self):
        hosts = self.start_hosts(1)
        hosts[0].run_as("root", ["mount", "-t", "tmpfs", "-o", f"uid={hosts[0].uid},mode=700,nr_inodes=25", "tmpfs", "/home/trainer"])
        file = self.write(hosts, ["true"], layout="mirrored")
        words = r"the job needs room for 32 files at /home/trainer/\.cache/tfdist, where room for \d+ is left"
        check = self.user.run("check", file).expect(3)
        self.assertRegex(check.out + check.err, words)
        up = self.user.run("up", file).expect(3)
        self.assertRegex(up.err, words)
        self.assertIn("set remote_dir in [ssh]", up.err)
        self.assertIn("nothing was started", up.err)
        hosts[0].run_as("root", ["umount", "--lazy", "/home/trainer"])

    def up_with(self, limit, most, slots=1, task=("true",), agent_is_there=False):
        """Its result, on a host whose account may have `most` of what `limit` counts."""
        hosts = self.start_hosts(1)
        words = ("up", "-F", str(hosts.ssh_config), "-H", f"{hosts[0].name}:{slots}", "--no-workdir", "--")
        if agent_is_there:
            self.user.run(*words, "true").expect(0)
        resource.prlimit(hosts[0].pid, limit, (most, most))
        up = self.user.run(*words, *task)
        if up.code != 0:
            self.assertEqual(up.code, 3, up)
            self.assertIn("nothing was started", up.err)
            self.assertIn("\n  try: ", up.err)
        self.assert_nothing_left(hosts)
        hosts.stop()
        return up

    def test_too_few_processes_are_said_before_anything_starts(self):
        refused = 0
        for most in range(2, 11):
            with self.subTest(most=most):
                up = self.up_with(resource.RLIMIT_NPROC, most)
                if up.code != 0:
                    refused += 1
                    self.assertRegex(up.err, f"ulimit -u is {most}|refuses to run|annot fork", up)
                    self.assertIn("ulimit -u", up.err.partition("try: ")[2], up)
        self.assertGreaterEqual(refused, 3)

    def test_all_slots_of_a_machine_are_counted_together(self):
        # Shells that bring the agent need processes, too: with 40 the start itself fails where all eight run at once.
        for most in (40, 56, 72):
            with self.subTest(most=most):
                up = self.up_with(resource.RLIMIT_NPROC, most, slots=8, task=("sleep", "1"), agent_is_there=True)
                at_once = "|cannot start a process.*ulimit -u is 40" if most == 40 else ""
                self.assertRegex(up.err, f"more processes and threads there, and needs{at_once}")
        up = self.up_with(resource.RLIMIT_NPROC, 100, slots=8, task=("sleep", "1"), agent_is_there=True)
        self.assertEqual(up.code, 0, up)

    def test_the_first_agent_has_connections_of_all_other_slots(self):
        up = self.up_with(resource.RLIMIT_NOFILE, 70, slots=8)
        self.assertIn("may have 70 files open there, and needs 78\n  try: have the hard limit raised (ulimit -Hn, ", up.err)

    def test_too_few_open_files_are_said_before_anything_starts(self):
        for most in (12, 63):
            with self.subTest(most=most):
                up = self.up_with(resource.RLIMIT_NOFILE, most)
                self.assertIn(f"may have {most} files open there, and needs 64\n  try: have the hard limit raised (ulimit -Hn, ", up.err)
        self.assertEqual(self.up_with(resource.RLIMIT_NOFILE, 64).code, 0)

    def test_too_little_memory_is_said_before_anything_starts(self):
        for mebibytes in (24, 48):
            with self.subTest(mebibytes=mebibytes):
                up = self.up_with(resource.RLIMIT_AS, mebibytes << 20)
                self.assertIn("and needs 6: it has no memory for more (", up.err)
                self.assertIn(f"ulimit -v is {mebibytes << 10} KiB)\n  try: free memory there, or have the limit raised", up.err)
        self.assertEqual(self.up_with(resource.RLIMIT_AS, 512 << 20).code, 0)

    def test_too_little_data_is_told_and_nothing_is_left(self):
        """`ulimit -d` counts only memory that may be written to."""
        up = self.up_with(resource.RLIMIT_DATA, 20 << 20)
        self.assertEqual(up.code, 3, up)
        self.assertIn("ulimit -d is 20480 KiB)\n  try: free memory there, or have the limit raised", up.err)

    def test_a_file_above_the_limit_of_its_size_is_said(self):
        hosts = self.start_hosts(1)
        file = self.write(hosts, ["true"], layout="mirrored", task_extra='workdir = "work"\n')
        self.user.write("work/small", "1")
        self.user.run("up", file).expect(0)
        resource.prlimit(hosts[0].pid, resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        (self.user.folder / "work/large").write_bytes(os.urandom(9 << 20))
        up = self.user.run("up", file).expect(3)
        self.assertIn("File too large", up.err)
        self.assertIn("nothing was started", up.err)
        self.assert_nothing_left(hosts)

    def test_files_too_small_for_the_job_are_said_before_anything_starts(self):
        up = self.up_with(resource.RLIMIT_FSIZE, 1 << 20, agent_is_there=True)
        self.assertIn("may write files of at most 1.0 MB there, and needs 4.2 MB\n  try: have the limit raised (ulimit -f, ", up.err)

    def test_output_beyond_the_size_of_a_file_is_kept(self):
        hosts = self.start_hosts(1)
        resource.prlimit(hosts[0].pid, resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        lines = 3_000_000
        self.user.run("up", "-d", self.write(hosts, ("seq", str(lines)), layout="mirrored")).expect(0)
        status = self.user.wait_until_ended()
        self.assertEqual([row["lost_bytes"] for row in status["tasks"]], [0])
        said = self.user.run("logs").expect(0).out
        self.assertEqual(said, "".join(f"worker:0 | {number}\n" for number in range(1, lines + 1)))

    def test_a_limit_on_cpu_time_is_said_before_and_after(self):
        spin = ("python3", "-c", "while True: pass")
        for hard in (2, resource.RLIM_INFINITY):
            with self.subTest(hard=hard):
                hosts = self.start_hosts(1)
                resource.prlimit(hosts[0].pid, resource.RLIMIT_CPU, (2, hard))
                file = self.write(hosts, spin, layout="mirrored")
                said = "a process may use 2 s of CPU there (ulimit -t)"
                up = self.warned(file, said)
                self.assertIn("it has used its CPU time (ulimit -t): ", up.err)
                self.assert_nothing_left(hosts)
                hosts.stop()

    def warned(self, file, said):
        """`check` and `up` both say it; the result of `up`, which fails."""
        check = self.user.run("check", file)
        self.assertIn(said, check.out + check.err)
        up = self.user.run("up", file).expect(1)
        self.assertIn(said, up.err)
        return up

    def test_a_limit_on_the_size_of_files_is_said_before_and_after(self):
        hosts = self.start_hosts(1)
        resource.prlimit(hosts[0].pid, resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
        file = self.write(hosts, ("dd", "if=/dev/zero", "of=checkpoint", "bs=1M", "count=65"), layout="mirrored")
        said = "a process may write files of at most 67 MB there (ulimit -f)"
        up = self.warned(file, said)
        self.assertIn("signal 25 (SIGXFSZ): a file was larger than it may be (ulimit -f)", up.err)

    def make_group(self, name, kind="memory"):
        """It goes with the test."""
        group = pathlib.Path("/sys/fs/cgroup", kind, name)
        try:
            group.mkdir()
        except OSError as error:
            self.skipTest(f"no {kind} cgroup can be made here: {error}")
        self.addCleanup(lambda: wait_for(lambda: self.is_removed(group), "the cgroup is empty"))
        return group

    def test_systemd_that_ends_logins_is_named(self):
        group = self.make_group(f"session-tfdist{os.getpid()}.scope")
        hosts = self.start_hosts(1, sshd_lines=("SetEnv PATH=/etc/ssh/bin:/usr/bin:/bin",))
        (group / "cgroup.procs").write_text(str(hosts[0].pid))
        systemctl = hosts[0].folder / "etc/ssh/bin/systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text(f'#!/bin/sh\ncase "$*" in *{group.name}) echo OOMPolicy=stop ;; esac\n')
        systemctl.chmod(0o755)
        file = self.write(hosts, shell("true"), layout="mirrored")
        said = "where one process runs out of memory, systemd ends the whole login"
        check = self.user.run("check", file).expect(0)
        self.assertIn(said, check.out + check.err)
        self.assertIn("OOMPolicy=continue", check.out + check.err)
        up = self.user.run("up", file).expect(0)
        self.assertNotIn(said, up.err)  # at each start nobody would read it any more
        hosts.stop()

    def test_a_cgroup_with_little_memory_leaves_nothing(self):
        group = self.make_group(f"tfdist-test-{os.getpid()}")
        hosts = self.start_hosts(1)
        (group / "memory.limit_in_bytes").write_text(str(6 << 20))
        (group / "cgroup.procs").write_text(str(hosts[0].pid))
        up = self.user.run("up", self.write(hosts, shell("true"), layout="mirrored"))
        self.assertEqual(up.code, 3, up)
        self.assertIn("nothing was started", up.err)
        self.assert_nothing_left(hosts)
        hosts.stop()

    def test_a_cgroup_with_less_memory_than_programs_need_is_said(self):
        group = self.make_group(f"tfdist-test-{os.getpid()}")
        hosts = self.start_hosts(1)
        (group / "memory.limit_in_bytes").write_text(str(128 << 20))
        (group / "cgroup.procs").write_text(str(hosts[0].pid))
        file = self.write(hosts, ("python3", "-c", "x = bytearray(300 << 20)"), layout="mirrored")
        said = "all of this login may have 134 MB of memory (memory.max of its cgroup)"
        check = self.user.run("check", file).expect(0)
        self.assertIn(said, check.out + check.err)
        up = self.user.run("up", file).expect(1)
        self.assertIn(said, up.err)
        self.assertIn("out of memory: the kernel killed it", up.err)
        self.assert_nothing_left(hosts)
        hosts.stop()

    def test_a_host_that_can_start_no_process_is_told_soon_and_by_its_cause(self):
        """One more login may begin, or its session as well, or its shell."""
        group = self.make_group(f"tfdist-test-{os.getpid()}", "pids")
        hosts = self.start_hosts(1)
        (group / "cgroup.procs").write_text(str(hosts[0].pid))
        self.user.run("up", "-d", self.write(hosts, shell("exec sleep infinity"), layout="mirrored")).expect(0)
        self.user.wait_until_tasks_run()
        job = self.user.job_id()
        wait_for(lambda: not [process for process in hosts[0].processes() if "sshd" in process.argv[0]], "no login is left")
        most = group / "pids.max"
        for more in range(4):
            most.write_text(str(int((group / "pids.current").read_text()) + more))
            for words in (("exec", job, "--", "true"), ("pull", job), ("list", "cluster.toml"), ("down", job)):
                with self.subTest(more=more, words=words):
                    begin = time.monotonic()
                    said = self.user.run(*words)
                    seconds = time.monotonic() - begin
                    if more < 3 or said.code != 0:  # down has few needs
                        self.assertRegex(said.err + said.out, "may start no process|Cannot fork")
                    self.assertLess(seconds, 10)
        most.write_text("max")
        self.user.run("down", job).expect(0)
        hosts.stop()

    @staticmethod
    def is_removed(group):
        try:
            group.rmdir()
        except OSError:
            return False
        return True


class ThisMachine(unittest.TestCase):
    """Limits of the account that calls `up`."""

    def up_under(self, limit):
        user = Tfdist("here")
        self.addCleanup(user.close)
        up = user.run("up", "-H", "localhost", "--name", "here", "--no-workdir", "--", "true", prefix=["sh", "-c", f'ulimit {limit} && exec "$@"', "sh"])
        if up.code:
            self.assertEqual([path for path in user.folder.rglob("*") if not path.is_dir()], [])
            self.assertEqual(processes.matching(str(user.folder)), {})
        return up

    def test_too_little_for_up_itself_is_said_before_anything_starts(self):
        for limit, said in (("-d 2000", "it has no memory for more (ulimit -u is "), ("-v 30000", "ulimit -v is 30000 KiB)\n  try: free memory there"),
                            ("-s 64", "may have a stack of 64 KiB there, and needs 256\n  try: have the limit raised (ulimit -s, "),
                            ("-f 1", " there, and needs 1.0 MB\n  try: have the limit raised (ulimit -f, ")):
            with self.subTest(limit):
                up = self.up_under(limit).expect(2)
                self.assertIn("tfdist: this machine: ", up.err)
                self.assertNotIn("internal", up.err)
                self.assertIn(said, up.err)
        self.assertEqual(self.up_under("-n 1024").code, 0)

    def test_a_record_that_no_command_would_read_is_refused_before_anything_starts(self):
        with Tfdist("here") as user:
            file = user.write("cluster.toml", clusters.local("job", ["true"] + ["a" * 100_000] * 9, slots=12))
            up = user.run("up", file).expect(2)
            self.assertRegex(up.err, r"tfdist: the record of this job, with the commands of its 24 tasks, takes \S+ MB, and may have at most \S+ MB\n"
                                     "  try: put long values into a file of the workdir")
            self.assertEqual(processes.matching(str(user.folder)), {})
            self.assertIn("no job", user.run("list").expect(0).out)

    def test_a_home_without_room_or_leave_to_write_has_a_remedy(self):
        with Tfdist("here") as user:
            for options, said in (("ro", "Read-only file system"), ("size=16k", "No space left on device")):
                script = ('mount -t tmpfs -o size=16k tmpfs "$HOME" && { head -c 16384 /dev/zero >"$HOME/full"; mount -o remount,"$0" "$HOME"; } && exec "$@"')
                up = user.run("up", "-H", "localhost", "--name", "here", "--no-workdir", "--", "true",
                              prefix=["unshare", "-m", "sh", "-c", script, options]).expect(3)
                self.assertIn(said, up.err)
                self.assertIn("\n  try: make room there, or set XDG_STATE_HOME to a folder in which you may write: ", up.err)

    def test_a_full_folder_for_temporary_files_has_a_remedy_and_nothing_is_left(self):
        with Tfdist("here") as user:
            user.write("work/train.py", "print('trains')")
            user.env["TMPDIR"] = str(user.folder / "tmp")
            (user.folder / "tmp").mkdir()
            script = 'mount -t tmpfs -o size=8m tmpfs "$TMPDIR" && { cat /dev/zero >"$TMPDIR/full" 2>/dev/null; cd work; } && exec "$@"'
            up = user.run("up", "-H", "localhost", "--name", "here", "--", "python3", "train.py", prefix=["unshare", "-m", "sh", "-c", script, "sh"]).expect(3)
            self.assertIn(f"tfdist: files: cannot write a temporary file in {user.folder}/tmp: No space left on device\n"
                          "  try: make room there, or set TMPDIR to a folder with space\n", up.err)
            self.assertEqual(processes.matching(str(user.folder)), {})
            self.assertEqual(list(user.folder.glob(".cache/tfdist/jobs/*")), [])

    def test_a_full_work_folder_and_a_full_home_are_no_hindrance_or_have_a_remedy(self):
        """Whatever is free, up to 8 MB: the job runs, or is never begun, and nothing of it is left."""
        for free_kib in (0, 200, 2000, 3600, 5000, 7000):
            with Tfdist("here") as user, self.subTest(free_kib=free_kib):
                script = 'mount -t tmpfs -o size=8m tmpfs "$HOME" && head -c $((8192 - $0))k /dev/zero >"$HOME/full"; "$@"; code=$?; ' \
                         'ls -d "$HOME"/.cache/tfdist/jobs/*/h0 2>/dev/null; exit $code'
                up = user.run("up", "-H", "localhost", "--name", "here", "--no-workdir", "--", "true",
                              prefix=["unshare", "-m", "sh", "-c", script, str(free_kib)])
                if up.code:
                    self.assertEqual((up.code, up.out), (3, ""), up)
                    self.assertRegex(up.err, r"No space left on device.*\n  try: make room there, or set ")
                    wait_for(lambda: not user.left(), "the agents have left")
                else:
                    self.assertRegex(up.err, r"(?m)^tfdist: job here-\S+ succeeded after ")

    def test_a_restart_that_waits_for_room_on_the_disk_is_told_and_goes_on(self):
        with Tfdist("here") as user:
            task = 'test "$TFDIST_ATTEMPT" = 1 || exit 0; cat /dev/zero >"$HOME/rest" 2>/dev/null; exit 1'
            script = 'mount -t tmpfs -o size=16m tmpfs "$HOME" && mkfifo "$HOME/told" && exec 3<>"$HOME/told"; ' \
                     '(read line <&3; rm "$HOME/rest") & "$@" 2>&1 | while read line; do echo "$line"; ' \
                     'case $line in *"no task starts again"*) echo >&3;; esac; done; echo >&3; wait'
            up = user.run("up", "-H", "localhost", "--name", "here", "--no-workdir", "--set", 'restart.worker="gang"', "--", "sh", "-c", task,
                          prefix=["unshare", "-m", "bash", "-c", script, "bash"])
            self.assertRegex(up.out, r"tfdist: localhost: event log: it cannot be written, .*: No space left on device\n"
                                     "try: make room there: no task starts again before that is written\n")
            self.assertRegex(up.out, r"(?m)^tfdist: job here-\S+ succeeded after ")


if __name__ == "__main__":
    unittest.main()
