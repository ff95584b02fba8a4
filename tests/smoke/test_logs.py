"""`tfdist logs` of tasks that have run more than once."""

import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

from tests.support import clusters
from tests.support.tfdist import BIN, ROOT, Tfdist, without_waiting
from tests.support.waiting import wait_for

ROUNDED = 0.001  # seconds: no stamp has more digits


class Logs(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("logs")
        self.addCleanup(self.user.close)

    def up(self, script, restart, *options):
        file = self.user.write("cluster.toml", clusters.local(
            "job", ["sh", "-c", script], slots=2, extra=f"[restart]\nworker = {restart}\n"))
        up = self.user.run("up", *options, file)
        self.assertEqual(up.code, 0, up)
        return up

    BOTH = ("case $TFDIST_TASK in ps*) exec sleep 1000;; esac; "
            "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done")

    def run_once(self, task_extra="", then=""):
        return self.user.run("up", self.user.write("cluster.toml", clusters.local(
            "job", ["sh", "-c", self.BOTH + then], slots=1, task_extra=task_extra)))

    def test_both_streams_come_in_the_order_of_writing(self):
        self.assertEqual(self.run_once().code, 0)
        raw = self.user.run_bytes("logs", "--raw", "job", "master:0").decode()
        self.assertEqual(raw, "".join(f"out {i}\nerr {i}\n" for i in range(1, 10)))
        apart = self.user.run("logs", "--stderr", "job", "master:0")
        self.assertEqual(apart.code, 2, apart)
        self.assertIn('master:0 wrote stdout and stderr as one stream', apart.err)
        self.assertIn('output = "separate" in [task]', apart.err)

    def test_stderr_alone_where_the_streams_are_apart(self):
        self.assertEqual(self.run_once('output = "separate"', "; sleep 1; seq 9").code, 0)  # stdout's lines come last
        self.assertEqual(self.user.run_bytes("logs", "--raw", "--stderr", "job", "master:0").decode(),
                         "".join(f"err {i}\n" for i in range(1, 10)))
        self.assertEqual(self.user.run("logs", "--stderr", "job", "master:0").out.splitlines(),
                         [f"master:0 | err {i}" for i in range(1, 10)])
        self.assertEqual(self.user.run("logs", "--stderr", "-n", "3", "job", "master:0").out.splitlines(),
                         [f"master:0 | err {i}" for i in range(7, 10)])
        self.assertEqual(self.user.run_bytes("logs", "--raw", "job", "master:0").decode().count("out"), 9)

    def test_no_last_line_is_torn_where_the_streams_are_apart(self):
        script = ("case $TFDIST_TASK in ps*) exec sleep 1000;; esac; "
                  "for i in 1 2 3 4; do printf 'out %s, ' $i; sleep 0.1; echo err $i >&2; sleep 0.1; echo end; done")
        file = self.user.write("cluster.toml", clusters.local(
            "job", ["sh", "-c", script], slots=1, task_extra='output = "separate"'))
        self.user.run("up", file).expect(0)
        whole = self.user.run("logs", "job", "master:0").out.splitlines()
        self.assertEqual(sorted(whole), sorted(f"master:0 | {line}" for i in range(1, 5) for line in (f"err {i}", f"out {i}, end")))
        for lines in range(1, 8):
            logs = self.user.run("logs", "-n", str(lines), "job", "master:0")
            self.assertEqual(logs.out.splitlines(), whole[-lines:], logs)
            self.assertNotIn("rotated away", logs.err)

    # The first run of worker:0 fails; ps:* are ended with the job.
    ONCE = ('case $TFDIST_TASK in ps*) exec sleep 1000;; esac; printf "$TFDIST_TASK in $TFDIST_ATTEMPT"; '
            'if [ $TFDIST_TASK = worker:0 ] && [ ! -e been ]; then touch been; exit 3; fi; sleep 0.3; echo; echo end')

    def test_a_line_of_ours_stands_where_a_task_runs_again(self):
        up = self.up(self.ONCE, '{ policy = "task", backoff = "100ms" }')
        self.assertIn("tfdist: worker:0: attempt 1, run 2 begins\n", up.err)
        logs = self.user.run("logs", "job", "worker:0")
        self.assertEqual(logs.code, 0, logs)
        self.assertEqual(logs.out, "worker:0 | worker:0 in 1\nworker:0 | worker:0 in 1\nworker:0 | end\n")
        self.assertEqual(without_waiting(logs.err), "tfdist: worker:0: attempt 1, run 2 begins\n")
        raw = self.user.run("logs", "--raw", "job", "worker:0")
        self.assertEqual((raw.out, without_waiting(raw.err)), ("worker:0 in 1worker:0 in 1\nend\n", ""), raw)
        last = self.user.run("logs", "-n", "1", "job", "worker:0")
        self.assertEqual((last.out, without_waiting(last.err)),
                         ("worker:0 | end\n", "tfdist: worker:0: the next lines are of attempt 1, run 2\n"))
        lines = map(json.loads, self.user.run("logs", "--json", "job", "worker:0").out.splitlines())
        self.assertEqual([(one["line"], one["attempt"], one["run"]) for one in lines],
                         [("worker:0 in 1", 1, 1), ("worker:0 in 1", 1, 2), ("end", 1, 2)])

    def test_one_attempt_alone(self):
        self.up(self.ONCE, '{ policy = "gang", backoff = "100ms" }')
        first = self.user.run("logs", "--attempt", "1", "job", "worker:0")
        self.assertEqual((first.out, without_waiting(first.err)), ("worker:0 | worker:0 in 1\n", ""), first)
        second = self.user.run("logs", "--attempt", "2", "job", "worker:0")
        self.assertEqual(second.out, "worker:0 | worker:0 in 2\nworker:0 | end\n")
        third = self.user.run("logs", "--attempt", "3", "job", "worker:0")
        self.assertEqual((third.code, third.out), (2, ""), third)
        self.assertRegex(third.err, r"--attempt 3: job \S+ has begun 2 attempts\n")
        several = self.user.run("logs", "--from", "0", "job")
        self.assertEqual((several.code, several.out), (2, ""), several)
        self.assertIn("--raw and --from go with one task\n", several.err)
        both = self.user.run("logs", "job", "worker:0")
        self.assertRegex(both.err, r"^tfdist: worker:0: attempt 2, run \d begins\n$")

    def test_of_a_progress_bar_the_newest_frame_is_shown(self):
        """Of a bar that redraws itself, as tqdm does: while it runs, and once its line has ended."""
        self.up("case $TFDIST_TASK in ps*) exec sleep 1000;; worker:0) ;; *) exit 0;; esac; i=0; "
                "while [ $i -lt 20000 ]; do printf '\\rstep %s' $i; i=$((i+1)); done; "
                "while [ ! -e go ]; do sleep 0.1; done; printf '\\rstep all\\nend\\n'", '"never"', "--detach")
        follow = self.user.start("logs", "-f", "job", "worker:0")
        self.user.wait_for_output(follow, b"worker:0 | step 19999\n")
        now = self.user.run("logs", "-n", "1", "job", "worker:0")
        self.assertEqual(now.out, "worker:0 | step 19999\n")
        for words in (["--json"], ["--json", "--since", "1h"], ["--json", "--until", "0s"]):
            [line] = self.user.run("logs", "-n", "1", *words, "job", "worker:0").out.splitlines()
            self.assertEqual(json.loads(line)["line"], "step 19999")
        self.assertRegex(self.user.run("logs", "-n", "1", "--timestamps", "job", "worker:0").out, r"^worker:0 \| \S+Z step 19999\n$")
        self.user.run("exec", "job", "worker:0", "--", "touch", "go").expect(0)
        self.assertEqual(follow.wait(30), 0)
        followed = follow.out.read_text()
        self.assertTrue(followed.endswith("worker:0 | step all\nworker:0 | end\n"), followed[-200:])
        self.assertLess(followed.count("\n"), 100)
        self.assertEqual(self.user.run("logs", "--grep", "step", "job", "worker:0").out, "worker:0 | step all\n")
        objects = [json.loads(line)["line"] for line in self.user.run("logs", "--json", "job", "worker:0").out.splitlines()]
        self.assertEqual(objects, ["step all", "end"])
        raw = self.user.run_bytes("logs", "--raw", "job", "worker:0")
        self.assertEqual(raw.count(b"\r"), 20001, "the bytes as they are")
        self.assertEqual(self.user.run_bytes("logs", "--raw", "-n", "2", "job", "worker:0"), raw)

    def test_lines_are_searched_for_on_the_hosts(self):
        self.up('case $TFDIST_TASK in ps*) exec sleep 1000;; esac; i=0; '
                'while [ $i -lt 2000 ]; do echo "step $i"; i=$((i+1)); done', '"never"')
        found = self.user.run("logs", "--grep", "^step 1[0-9]9$", "job", "worker:0")
        self.assertEqual(found.out, "".join(f"worker:0 | step 1{n}9\n" for n in range(10)), found)
        raw = self.user.run_bytes("logs", "--raw", "--grep", "step 7$", "job", "worker:0")
        self.assertEqual(raw, b"step 7\n")
        wrong = self.user.run("logs", "--grep", "(", "job", "worker:0")
        self.assertEqual((wrong.code, wrong.out), (2, ""), wrong)
        self.assertIn("(: not a regular expression: ", wrong.err)
        costly = self.user.run("logs", "--grep", r"(a)\1")
        self.assertEqual(costly.code, 2, costly)
        self.assertEqual(costly.err.count("it has a back-reference"), 1, costly)

    def test_times_are_those_of_writing_and_bound_what_is_shown(self):
        """Of three lines, each is written once the line before has been seen; all are read long after."""
        go = self.user.folder / "go"
        self.up('case $TFDIST_TASK in ps*) exec sleep 1000;; esac; '
                f'for i in 1 2 3; do until [ -e {go}$i ]; do sleep 0.05; done; echo "line $i"; done; exec sleep 1000', '"never"', "--detach")
        spans = []
        for number in (1, 2, 3):
            before = time.time()
            pathlib.Path(f"{go}{number}").touch()
            wait_for(lambda: f"line {number}\n" in self.user.run("logs", "job", "worker:0").out, f"line {number}")
            spans.append((before, time.time()))
        self.user.run("down", "job").expect(0)
        logs = self.user.run("logs", "--timestamps", "job", "worker:0")
        stamps = re.findall(r"^worker:0 \| (\S+Z) line \d$", logs.out, re.M)
        self.assertEqual(len(stamps), 3, logs)
        for stamp, (before, after) in zip(stamps, spans):
            written = datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
            self.assertTrue(before - ROUNDED <= written <= after, (stamp, before, after))
        since = self.user.run("logs", "--since", stamps[1], "job", "worker:0")
        self.assertEqual(since.out, "worker:0 | line 2\nworker:0 | line 3\n", since)
        until = self.user.run("logs", "--until", stamps[1], "job", "worker:0")
        self.assertEqual(until.out, "worker:0 | line 1\n", until)
        one = self.user.run("logs", "--since", stamps[1], "--until", stamps[2], "-f", "job", "worker:0")
        self.assertEqual(one.out, "worker:0 | line 2\n", one)
        nothing = self.user.run("logs", "--since", "0s", "job", "worker:0")
        self.assertEqual((nothing.code, nothing.out), (0, ""), nothing)
        wrong = self.user.run("logs", "--since", "yesterday", "job", "worker:0")
        self.assertEqual(wrong.code, 2, wrong)
        self.assertIn("--since: expected an age", wrong.err)

    def test_saved_logs_are_the_bytes_of_the_tasks(self):
        self.up(self.ONCE, '{ policy = "task", backoff = "100ms" }')
        saved = self.user.run("logs", "--save", "out/of", "job", "worker", "master")
        self.assertEqual((saved.code, saved.out), (0, ""), saved)
        folder = self.user.folder / "out/of"
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["master-0.log", "worker-0.log"])
        for task in ("worker:0", "master:0"):
            name = task.replace(":", "-") + ".log"
            content = (folder / name).read_bytes()
            self.assertEqual(content, self.user.run_bytes("logs", "--raw", "job", task))
            self.assertEqual((folder / name).stat().st_mode & 0o7777, 0o600)  # as on the host
            self.assertIn(f"tfdist: {task}: {len(content)} bytes in out/of/{name}\n", saved.err)
        # Again, over its own; not over what somebody else has made, nor through a link.
        self.user.run("logs", "--save", "out/of", "job", "worker").expect(0)
        victim = pathlib.Path(self.user.write("victim", "mine\n"))
        (self.user.folder / "out/of/.worker-0.log.part").symlink_to(victim)
        (self.user.folder / "out/of/master-0.log").write_text("mine\n")
        kept = self.user.run("logs", "--save", "out/of", "job", "worker", "master")
        self.assertEqual(kept.code, 1, kept)
        self.assertIn("out/of/master-0.log stays as it is: it is not as logs --save of this job has left it\n", kept.err)
        self.assertEqual((victim.read_text(), (self.user.folder / "out/of/master-0.log").read_text()), ("mine\n", "mine\n"))
        taken = self.user.run("logs", "--save", self.user.write("file", ""), "job").expect(3)
        self.assertRegex(taken.err, "tfdist: files: cannot make the folder .*/file: .*\n  try: --save names another folder\n$")
        wrong = self.user.run("logs", "--save", "x", "-f", "job")
        self.assertEqual(wrong.code, 2, wrong)

    def test_a_saved_log_keeps_what_is_rotated_away_since(self):
        script = ("case $TFDIST_TASK in ps*) exec sleep 1000;; esac; seq 1 50000; until [ -e go ]; do sleep 0.05; done; "
                  "seq 50001 600000; touch gone; exec sleep 1000")
        self.user.run("up", "-d", self.user.write("cluster.toml", clusters.local(
            "job", ["sh", "-c", script], slots=1, task_extra='log_limit = "1MiB"\n'))).expect(0)

        def save():
            return self.user.run("logs", "--save", "saved", "job", "master:0").expect(0)

        wait_for(lambda: "50000" in self.user.run("logs", "-n", "1", "job", "master:0").out, "the first lines")
        save()
        first = self.user.folder / "saved/master-0.log"
        lines = first.read_text()
        self.assertEqual(lines, "".join(f"{i}\n" for i in range(1, 50001)))
        save()  # what has nothing new
        self.assertEqual(sorted(path.name for path in first.parent.iterdir()), ["master-0.log"])
        [work] = self.user.folder.glob(".cache/tfdist/jobs/*/run/work")
        (work / "go").touch()
        wait_for((work / "gone").exists, "the last lines", 60)
        wait_for(lambda: "600000" in self.user.run("logs", "-n", "1", "job", "master:0").out, "the last lines")
        self.assertIn("saved/master-0.log stays: it has lines that are not in what master:0 shows now\n", save().err)
        self.assertEqual(first.read_text(), lines)
        self.assertTrue((first.parent / "master-0.2.log").read_text().endswith("\n600000\n"))
        save()
        self.assertEqual(sorted(path.name for path in first.parent.iterdir()), ["master-0.2.log", "master-0.log"])

    @unittest.skipUnless(os.geteuid() == 0, "mounts a disk")
    def test_saved_logs_leave_room_on_the_disk(self):
        script = "case $TFDIST_TASK in ps*) exec sleep 1000;; esac; head -c 40000000 /dev/zero | tr '\\0' x"
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", script], slots=1))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_ended()
        disk = self.user.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=38m", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        saved = self.user.run("logs", "--save", disk, "job", "master:0")
        self.assertEqual(saved.code, 3, saved)
        self.assertIn(f"{disk}/master-0.log: cannot write output: No space left on device; 64 MiB or 5 % of its disk stay free\n  try: ", saved.err)
        self.assertEqual(list(disk.iterdir()), [])

    @unittest.skipUnless(os.geteuid() == 0, "mounts a disk")
    def test_a_full_disk_here_hides_no_end(self):
        """What a command has seen of the job comes first; the note of it is no more than a note."""
        state = self.user.folder / ".local"
        state.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", state], check=True)
        self.addCleanup(subprocess.run, ["umount", state], check=True)
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", "echo out; sleep 1000"], slots=1))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run()
        with contextlib.suppress(OSError), open(state / "fill", "wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        warning = "warning: this machine does not note how job job-"
        self.assertIn("running", self.user.run("status", "job").expect(0).out)
        waiter = self.user.start("wait", "job")
        down = self.user.run("down", "job").expect(0)
        self.assertIn("nothing is left", down.err + down.out)
        self.assertIn(warning, down.err)
        self.assertIn("No space left on device", down.err)
        self.assertEqual(waiter.wait(60), 1, waiter.err.read_text())
        self.assertIn(warning, waiter.err.read_text())

    def be_hostile(self, harm):
        """The host of the job that is over."""
        [slot] = self.user.folder.glob(".cache/tfdist/jobs/*/h0")
        slot.chmod(0o700)
        (slot / "agent").rename(slot / "agent.real")
        shutil.copy(ROOT / "tests/support/hostile_agent.py", slot / "agent")
        (slot / "agent").chmod(0o500)
        (slot / "harm").write_text(harm)

    @unittest.skipUnless(os.geteuid() == 0, "mounts a disk")
    def test_a_host_that_sends_output_without_end_fills_no_disk_and_no_memory(self):
        self.assertEqual(self.run_once().code, 0)
        wait_for(lambda: not self.user.left(), "the agent has left")
        self.be_hostile("endless")
        disk = self.user.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        limited = subprocess.run(["prlimit", f"--data={256 << 20}", str(BIN / "tfdist"), "logs", "--save", str(disk), "job", "master:0"],
                                 env=self.user.env, cwd=self.user.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        self.assertEqual(limited.returncode, 3, limited)
        self.assertIn(b"64 MiB or 5 % of its disk stay free", limited.stderr)
        self.assertEqual(list(disk.iterdir()), [])

    def test_a_hosts_name_for_a_task_is_no_path_here(self):
        """Another machine's `logs` has all it knows of the job from its first host."""
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", self.BOTH], slots=1))
        self.user.run("up", file).expect(0)
        wait_for(lambda: not self.user.left(), "the agent has left")
        self.be_hostile("name")
        shutil.rmtree(self.user.folder / ".local")
        other = self.user.write("other.toml", pathlib.Path(file).read_text().replace("echo out", "echo other"))
        saved = self.user.run("logs", "--save", "here/below/out", other)
        self.assertIn("the job has a task '../../../harm:0'", saved.err)
        self.assertEqual(saved.code, 3, saved)
        self.assertEqual(list(self.user.folder.rglob("*harm-0*")), [])

    def test_a_follower_is_told_how_the_job_ended(self):
        file = self.user.write("cluster.toml", clusters.local(
            "job", ["sh", "-c", "sleep 1; echo no data; exit 7"], slots=1, extra=clusters.NO_RESTARTS))
        self.user.run("up", "-d", file).expect(0)
        logs = self.user.run("logs", "-f", "job")
        self.assertEqual(logs.code, 0, logs)  # the code of the job is that of `wait`
        self.assertRegex(logs.err, r"tfdist: job job-\S+ failed after \d+\.\d s: (master|ps):0 on 127.0.0.1: exit code 7")
        self.assertIn("tfdist: first to fail: ", logs.err)
        self.assertNotIn("failed after", self.user.run("logs", "job").err)
        self.user.run("wait", "job").expect(1)

    def test_a_host_selects_its_tasks(self):
        self.up("echo hello; case $TFDIST_TASK in ps*) sleep 1000;; esac", '"never"')
        here = self.user.run("logs", "@127.0.0.1", "worker")
        self.assertEqual(here.out, "worker:0 | hello\n", here)
        elsewhere = self.user.run("logs", "job", "@gpu[1-2]")
        self.assertEqual(elsewhere.code, 2, elsewhere)
        self.assertIn("has no host gpu1", elsewhere.err)


if __name__ == "__main__":
    unittest.main()
