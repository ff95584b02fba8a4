"""`[setup]`: a command that each host runs once for its content before a job's tasks."""

import json
import os
import pathlib
import re
import signal
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

# Counts its runs beside the folder, where no later run removes it.
COUNT = "echo run >>$RUNS; "


class SetUp(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("setup")
        self.addCleanup(self.user.close)
        self.runs = self.user.folder / "runs"
        self.gate = self.user.folder / "gate"
        self.user.write("work/lock", "one\n")

    def write(self, command, task=None, name="job", inputs=("lock",), extra="", slots=1):
        text = clusters.local(name, task or shell("cat {setup}/made"), slots=slots,
                              task_extra=f'workdir = "work"\nenv = {{ RUNS = "{self.runs}", GATE = "{self.gate}" }}')
        return self.user.write(f"{name}.toml", text + f"""
[restart]
master = "never"
worker = "never"
ps = "never"
[setup]
command = {clusters.toml_list(command)}
inputs = {clusters.toml_list(list(inputs))}
{extra}
""")

    def count(self):
        return self.runs.read_text().count("run") if self.runs.exists() else 0

    def set_ups(self):
        return sorted(self.user.folder.glob(".cache/tfdist/setup/*/*/"))

    def nothing_left(self):
        wait_for(lambda: not self.user.left(), lambda: f"nothing runs any more: {self.user.left()}", 90)

    def wait_for_run(self):
        wait_for(self.count, "the set-up has begun", 60)

    # What it is for

    def test_it_runs_once_for_its_content(self):
        file = self.write(shell(COUNT + "echo building; cp lock made; pwd >where"), shell("cat {setup}/made; pwd >&2; echo {setup}"))
        first = self.user.run("up", file).expect(0)
        self.assertIn("127.0.0.1 | building\n", first.err)
        self.assertIn("master:0 | one\n", first.out)
        made = re.search(r"master:0 \| (/.*setup/.*)\n", first.out)[1]
        self.assertEqual(pathlib.Path(made, "where").read_text().strip(), made)
        self.assertEqual(pathlib.Path(made).parent.stat().st_mode & 0o777, 0o700)
        second = self.user.run("up", file).expect(0)
        self.assertNotIn("building", second.err)
        self.assertIn("master:0 | one\n", second.out)
        self.assertEqual(self.count(), 1)
        self.user.write("work/other", "no input\n")
        self.user.run("up", file).expect(0)
        self.assertEqual(self.count(), 1)
        self.user.write("work/lock", "two\n")
        self.assertIn("master:0 | two\n", self.user.run("up", file).expect(0).out)
        self.assertEqual(self.count(), 2)
        self.user.write("work/lock", "one\n")
        self.assertIn("master:0 | one\n", self.user.run("up", file).expect(0).out)
        self.assertEqual(self.count(), 2)

    def test_setup_again_makes_another_beside_the_one_in_use(self):
        file = self.write(shell(COUNT + "date +%N >made"), shell("cat {setup}/made; echo {setup}"))
        before = self.user.run("up", file).expect(0).out
        again = self.user.run("up", "--setup", file).expect(0).out
        self.assertNotEqual(before, again)
        self.assertEqual(self.count(), 2)
        self.assertEqual(self.user.run("up", file).expect(0).out, again)
        self.assertTrue(pathlib.Path(re.search(r"\| (/.*)\n", before)[1], "made").exists())

    def test_two_slots_of_a_machine_share_it(self):
        file = self.write(shell(COUNT + "touch made"), shell("ls {setup}/made"), slots=3)
        result = self.user.run("up", file).expect(0)
        self.assertEqual(self.count(), 1, result)
        self.user.run("up", "--setup", file).expect(0)
        self.assertEqual(self.count(), 2)

    def test_its_environment_is_that_of_tasks(self):
        file = self.write(shell("echo $LR $RANK_OF; env >made"), shell("cat {setup}/made"))
        text = pathlib.Path(file).read_text().replace("env = {", 'env = { LR = "0.1", RANK_OF = "{rank}", AT = "{setup}/x", ')
        pathlib.Path(file).write_text(text)
        out = self.user.run("up", file, "--env", "GIVEN=yes").expect(0).out
        self.assertIn("master:0 | LR=0.1\n", out)
        self.assertIn("master:0 | GIVEN=yes\n", out)
        self.assertRegex(out, r"master:0 \| AT=/.*/setup/.*/x\n")
        self.assertNotIn("RANK_OF=", out)

    def test_a_virtual_environment_that_it_makes(self):
        python = shell("python3 -m venv --without-pip .venv")
        file = self.write(python, ["python", "-c", "import sys; print(sys.prefix)"])
        pathlib.Path(file).write_text(pathlib.Path(file).read_text().replace("gpus = 0\n", 'gpus = 0\nvenv = "{setup}/.venv"\n'))
        self.assertRegex(self.user.run("up", file).expect(0).out, r"master:0 \| /.*/setup/.*/\.venv\n")

    # What is said of it before

    def test_it_is_shown_before_it_runs(self):
        file = self.write(["sh", "-c", "touch made"])
        self.assertIn("set-up: sh -c 'touch made' (inputs lock)\n", self.user.run("render", file).expect(0).out)
        self.assertEqual(json.loads(self.user.run("render", "--json", file).expect(0).out)["set_up"]["inputs"], ["lock"])
        self.assertIn("  up will run it on 127.0.0.1\n", self.user.run("check", file).expect(0).out)
        self.assertEqual(self.set_ups(), [])
        self.user.run("up", file).expect(0)
        self.assertIn("  there already on 127.0.0.1\n", self.user.run("check", file).expect(0).out)
        self.assertIn(", setup sh -c 'touch made' (inputs lock)", self.user.run("describe", "job").expect(0).out)

    def test_an_input_that_is_not_sent_is_an_error(self):
        self.user.write("work/.gitignore", "kept\n")
        self.user.write("work/kept/x", "")
        os.symlink("lock", self.user.folder / "work/link")
        for name, why in (("nothing", "is not in the workdir"), ("kept", "stays here by a line of .gitignore"),
                          ("kept/x", "stays here by a line of .gitignore"), ("link", "is a link"),
                          ("../x", "expected a path inside the workdir"), ("/etc/passwd", "expected a path inside the workdir")):
            refused = self.user.run("up", self.write(["true"], inputs=[name])).expect(2)
            self.assertIn(why, refused.err, name)
        self.assertFalse((self.user.folder / ".cache/tfdist/jobs").exists())

    def test_a_folder_is_an_input_with_all_below_it(self):
        self.user.write("work/src/a/b", "deep\n")
        file = self.write(shell("cp src/a/b made"), inputs=["src/"])
        self.assertIn("master:0 | deep\n", self.user.run("up", file).expect(0).out)

    def test_a_task_that_names_what_no_setup_makes(self):
        text = clusters.local("job", shell("cat {setup}/made"), slots=1)
        refused = self.user.run("up", self.user.write("job.toml", text)).expect(2)
        self.assertIn("{setup} stands for nothing: the file has no [setup]", refused.err)

    # Failures

    def test_a_failure_ends_the_start(self):
        file = self.write(shell(COUNT + "touch made; echo no such package; exit 7"))
        failed = self.user.run("up", "-q", file).expect(3)
        self.assertRegex(failed.err, r"tfdist: 127\.0\.0\.1: set-up: `sh -c .*` ended with exit code 7; its last lines: / no such package")
        self.assertIn("nothing was started", failed.err)
        self.nothing_left()
        self.user.run("up", "-q", file).expect(3)  # a failed one is begun anew
        self.assertEqual(self.count(), 2)

    def test_an_error_shows_no_value_of_a_variable(self):
        self.user.env["TOKEN"] = "s3cret"
        failed = self.user.run("up", self.write(shell("exit 3") + ["{env:TOKEN}"])).expect(3)
        self.assertNotIn("s3cret", failed.err)
        failed = self.user.run("up", self.write(["false", "{env:TOKEN}"])).expect(3)
        self.assertIn("set-up: `false {env:TOKEN}` ended with exit code 1", failed.err)

    def test_a_command_that_is_not_there(self):
        self.assertIn("not found in PATH", self.user.run("up", self.write(["nosuchprogram"])).expect(3).err)
        self.assertIn("cannot execute ./lock", self.user.run("up", self.write(["./lock"])).expect(3).err)

    def test_a_set_up_that_takes_too_long(self):
        file = self.write(shell(COUNT + "sleep 1000 & sleep 1000"), extra='timeout = "1s"')
        self.assertRegex(self.user.run("up", file).expect(3).err, r"set-up: `.*` did not end within 1s")
        self.nothing_left()

    def test_a_daemon_that_it_leaves_is_ended_and_named(self):
        file = self.write(shell("setsid sleep 1000 </dev/null >/dev/null 2>&1 & touch made"))
        ended = self.user.run("up", file).expect(0)
        self.assertRegex(ended.err, r"127\.0\.0\.1 \| tfdist: ended what the set-up left running: pid \d+ \((sleep|setsid|sh)\)\n")
        self.nothing_left()

    def test_a_set_up_that_is_killed(self):
        """Itself, and the process that runs it: each is a failure, and the next start does it anew."""
        for who in ("command", "parent"):
            self.runs.unlink(missing_ok=True)
            file = self.write(shell("echo $$ >$RUNS.pid; " + COUNT + "cat $GATE; touch made"))
            self.gate.unlink(missing_ok=True)
            os.mkfifo(self.gate)
            up = self.user.start("up", file)
            self.wait_for_run()
            pid = int((self.user.folder / "runs.pid").read_text())
            if who == "parent":
                pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[1])
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(up.wait(90), 3, up.err.read_text())
            self.assertIn("signal 9", up.err.read_text())
            self.nothing_left()
            self.gate.unlink()
            self.gate.write_text("")
            self.user.run("up", file).expect(0)
            self.user.write("work/lock", who)  # the next one is of another content

    def test_ctrl_c_ends_it(self):
        file = self.write(shell("setsid sleep 1000 & " + COUNT + "sleep 1000; touch made"))
        up = self.user.start("up", file)
        self.wait_for_run()
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(90), 130)
        self.assertIn("nothing was started", up.err.read_text())
        self.nothing_left()

    def test_a_second_job_waits_for_it(self):
        os.mkfifo(self.gate)
        command = shell(COUNT + "cat $GATE; echo through >made")
        first = self.user.start("up", self.write(command))
        self.wait_for_run()
        second = self.user.start("up", self.write(command, name="other"))
        wait_for(lambda: b"waiting for job job-" in second.err.read_bytes(), lambda: f"it waits: {second.err.read_text()}", 60)
        with open(self.gate, "w", encoding="ascii"):
            pass
        self.assertEqual((first.wait(90), second.wait(90)), (0, 0), second.err.read_text())
        self.assertEqual(self.count(), 1)
        self.assertIn(b"| through\n", second.out.read_bytes())

    def test_a_second_job_goes_on_where_the_first_one_is_killed(self):
        """`up` and all of tfdist's processes of the first job get SIGKILL; the second one runs the set-up."""
        os.mkfifo(self.gate)
        command = shell(COUNT + "cat $GATE; echo through >made")
        first = self.user.start("up", self.write(command))
        self.wait_for_run()
        second = self.user.start("up", self.write(command, name="other"))
        wait_for(lambda: b"waiting for job job-" in second.err.read_bytes(), "it waits", 60)
        first.kill()
        first.wait()
        job = re.search(r"waiting for job (\S+),", second.err.read_text())[1]
        processes.kill_together(lambda: processes.matching(job))
        wait_for(lambda: self.count() == 2, lambda: f"the second one runs it: {second.err.read_text()}", 90)
        with open(self.gate, "w", encoding="ascii"):
            pass
        self.assertEqual(second.wait(90), 0, second.err.read_text())

    def test_an_up_that_is_killed(self):
        """Its agent ends the set-up within a minute."""
        file = self.write(shell(COUNT + "sleep 1000"))
        up = self.user.start("up", file)
        self.wait_for_run()
        up.kill()
        up.wait()
        self.nothing_left()

    def test_output_of_any_kind(self):
        """100 MB of it, bytes that are no text, and no newline at the end."""
        file = self.write(shell(r"head -c 100000000 /dev/zero | tr '\0' 'x' | fold -w 1000; printf '\na\033[31mb\377\n'; printf end; touch made"))
        result = self.user.run("up", file).expect(0)
        self.assertLess(len(result.err), 20_000_000)
        short = [line for line in result.err.splitlines() if len(line) < 200]
        self.assertIn("127.0.0.1 | a^[[31mb\ufffd", short)
        self.assertIn("127.0.0.1 | end", short)
        self.assertTrue([line for line in short if line.endswith("of its output left out")], short)

    # What stays

    def test_clean_counts_and_removes_it(self):
        file = self.write(shell("head -c 3000000 /dev/urandom >made"), ["true"])
        self.user.run("up", file).expect(0)
        wait_for(lambda: not self.user.left(), "the agents have left", 30)
        cleaned = self.user.run("clean", "--yes", file).expect(0)
        self.assertEqual(self.set_ups(), [], cleaned)
        self.assertFalse((self.user.folder / ".cache/tfdist/setup").exists())

    def test_retention_removes_what_nobody_uses(self):
        self.user.run("up", self.write(shell("touch made"))).expect(0)
        old = 15 * 24 * 3600
        for path in self.user.folder.glob(".cache/tfdist/setup/*/*"):
            os.utime(path, (path.stat().st_mtime - old,) * 2)
        self.user.write("work/lock", "newer\n")
        self.user.run("up", self.write(shell("touch made"))).expect(0)
        self.assertEqual(len(self.set_ups()), 1)
        self.assertEqual(len(list(self.user.folder.glob(".cache/tfdist/setup/*"))), 1)

    def test_what_tasks_have_written_into_it_is_the_users(self):
        """A cache, compiled kernels, a checkpoint beside the environment."""
        file = self.write(shell("touch made"), shell("mkdir {setup}/hub; cp {setup}/made {setup}/hub/weights"))
        self.user.run("up", file).expect(0)
        for path in self.user.folder.glob(".cache/tfdist/setup/*/*"):
            os.utime(path, (path.stat().st_mtime - 15 * 24 * 3600,) * 2)
        self.user.write("work/lock", "newer\n")
        self.user.run("up", self.write(shell("touch made"))).expect(0)
        self.assertEqual(len(self.set_ups()), 2)
        wait_for(lambda: not self.user.left(), "the agents have left", 30)
        listed = self.user.run("clean", "--dry-run", file).expect(0)
        self.assertRegex(listed.out, "agents and caches.*: HAS FILES OF TASKS, as .*/hub")
        listed = json.loads(self.user.run("clean", "--dry-run", "--json", file).expect(0).out)
        self.assertIn(("caches", True), [(item["kind"], item["has_task_files"]) for item in listed["items"]])


class OnHosts(unittest.TestCase):
    def setUp(self):
        check_possible()
        self.user = Tfdist("setup")
        self.addCleanup(self.user.close)
        self.hosts = Hosts(3)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        self.user.write("work/lock", "one\n")

    def write(self, command):
        return self.user.write("job.toml", clusters.over_ssh("job", shell("cat {setup}/made"), list(self.hosts), layout="mirrored",
                                                             ssh_config=self.hosts.ssh_config,
                                                             task_extra='workdir = "work"') + f"""
[setup]
command = {clusters.toml_list(command)}
inputs = ["lock"]
""")

    def test_all_hosts_run_it_at_once(self):
        result = self.user.run("up", self.write(shell("hostname >made; hostname"))).expect(0)
        for number, host in enumerate(self.hosts):
            self.assertIn(f"{host.address} | {host.name}\n", result.err)
            self.assertIn(f"worker:{number} | {host.name}\n", result.out)

    def test_one_host_that_fails_ends_the_start_on_all(self):
        bad = self.hosts[1].name
        failed = self.user.run("up", self.write(shell(f"touch made; [ $(hostname) != {bad} ]"))).expect(3)
        self.assertIn(f"tfdist: {self.hosts[1].address}: set-up: ", failed.err)
        self.assertIn("1 of 3 hosts could not be brought up; nothing was started", failed.err)
        for host in self.hosts:
            wait_for(lambda host=host: not host.processes(), lambda host=host: f"nothing runs on {host.name}", 60)


if __name__ == "__main__":
    unittest.main()
