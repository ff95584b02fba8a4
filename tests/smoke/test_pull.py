"""`tfdist pull` on test hosts: what tasks have written comes home, whole, and again only what has changed."""

import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist, work_of
from tests.support.waiting import PATIENCE, wait_for


def setUpModule():
    check_possible()


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if path.is_file())


class Pull(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("pull")
        self.addCleanup(self.user.close)
        self.hosts = Hosts(2)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        self.home = self.user.folder / "results"

    def run_job(self, script, **options):
        self.user.write("work/data.txt", "of the workdir\n")
        file = self.user.write("cluster.toml", clusters.over_ssh(
            "job", shell(script), self.hosts, task_extra='workdir = "work"', layout="mirrored", **options))
        up = self.user.run("up", file)
        self.assertEqual(up.code, 0, up)
        return up

    def pull(self, *args):
        return self.user.run("pull", "job", *args, "--to", str(self.home))

    def pull_until_a_file_has(self, most_bytes):
        """It may not write one byte more (setrlimit(2)), and ends with that error; its exit code."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

        return subprocess.run([str(BIN / "tfdist"), "pull", "job", "--to", str(self.home)], env=self.user.env, cwd=self.user.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120, preexec_fn=limit).returncode

    def replace_agent(self, cases):
        """What worker:0's agent says to `list` and `send`, by a shell's `case`."""
        agent = self.slot(0) / "agent"
        agent.unlink()
        agent.write_text(f"#!/bin/sh\ncase $2 in\n{cases}\nesac\n")
        agent.chmod(0o700)
        os.chown(agent, self.hosts[0].uid, self.hosts[0].uid)

    def work(self, number):
        """The folder in which tasks run, on a host."""
        return work_of(self.slot(number))

    def slot(self, number):
        [folder] = self.hosts[number].home.glob(f".cache/tfdist/jobs/*/h{number}")
        return folder

    def test_a_folder_that_somebody_has_removed_is_told_with_its_host(self):
        self.run_job("echo $TFDIST_TASK >result")
        shutil.rmtree(self.work(0))
        pulled = self.pull()
        self.assertEqual(pulled.code, 1, pulled)
        self.assertIn(f"tfdist: {self.hosts[0].address}: the folder in which worker:0 started is not there any more, nor what was written there\n", pulled.err)
        self.assertEqual(files_below(self.home / "worker-1"), ["result"])
        shutil.rmtree(self.slot(1).parent)
        for words in ((), ("worker:1",)):
            pulled = self.pull(*words)
            self.assertNotIn("no task has written", pulled.err)
            self.assertIn(self.hosts[1].address, pulled.err)
        named = self.pull("result")
        self.assertIn("tfdist: what is left holds no result\n", named.err)
        logs = self.user.run("logs", "job")
        self.assertIn(f"tfdist: the job's folder is gone from {self.hosts[1].address}: the output of worker:1 is gone\n", logs.err)
        job = self.user.job_id()
        down = self.user.run("down", "--purge", job).expect(0)
        self.assertIn(f"tfdist: {self.hosts[1].address}: nothing of job {job} was there any more\n", down.err)
        self.assertIn(f"tfdist: {self.hosts[0].address}: removed ", down.err)

    def test_purge_keeps_the_record_of_what_it_cannot_see(self):
        """Results are there again once the host has mounted its file system."""
        self.run_job("echo $TFDIST_TASK >result")
        job = self.user.job_id()
        cache, away = self.hosts[1].home / ".cache", self.hosts[1].home / "away"
        cache.rename(away)
        down = self.user.run("down", "--purge", "--yes", job).expect(1)
        self.assertIn(f"tfdist: {self.hosts[1].address}: down: tfdist's folder cannot be seen (is its file system mounted?)\n  try: ", down.err)
        self.assertNotIn("was there any more", down.err)
        away.rename(cache)
        self.assertEqual(self.pull("worker:1").code, 0)
        self.assertIn(f"tfdist: {self.hosts[1].address}: removed ", self.user.run("down", "--purge", "--yes", job).expect(0).err)

    def cover_home(self, number):
        """As where the file system that holds it is not mounted."""
        host = self.hosts[number]
        host.run_as("root", ["mount", "-t", "tmpfs", "-o", f"size=64m,uid={host.uid},mode=700", "t", "/home/trainer"])

    def uncover_home(self, number):
        self.hosts[number].run_as("root", ["umount", "-l", "/home/trainer"])

    def assert_all_is_there_again(self):
        for number in (0, 1):
            self.uncover_home(number)
        self.assertEqual(self.pull().code, 0)
        self.assertEqual(files_below(self.home), ["worker-0/result", "worker-1/result"])

    def assert_out_of_sight(self, result, *numbers):
        said = result.out + result.err
        self.assertIn("tfdist's folder cannot be seen (is its file system mounted?)", said)
        for number in numbers:
            self.assertIn(self.hosts[number].address, said)
        for word in ("gone", "removed", "any more", "prune forgets finished jobs"):
            self.assertNotIn(word, said)

    def test_what_a_covered_home_hides_is_out_of_sight_and_not_gone(self):
        self.run_job("echo said; echo $TFDIST_TASK >result")
        job = self.user.job_id()
        self.cover_home(1)
        self.assert_out_of_sight(self.pull(), 1)
        self.assertEqual(files_below(self.home), ["worker-0/result"])
        logs = self.user.run("logs", job).expect(3)
        self.assertEqual(logs.out, "worker:0 | said\n")
        self.assert_out_of_sight(logs, 1)
        self.cover_home(0)
        for command in ("pull", "logs", "events"):
            self.assert_out_of_sight(self.user.run(command, job).expect(3), 0)
        for command in ("status", "why"):  # the last known result
            self.assert_out_of_sight(self.user.run(command, job).expect(0), 0)
        down = self.user.run("down", "--purge", "--yes", job).expect(1)
        self.assertIn(f"\n  unconfirmed: {self.hosts[0].address}, {self.hosts[1].address}\n", down.err)
        self.assertIn("cannot be seen", self.user.run("prune").expect(3).out)
        self.assert_all_is_there_again()

    def test_a_folder_that_was_made_anew_in_a_covered_home_is_another_one(self):
        """Its path tells nothing."""
        self.run_job("echo said; echo $TFDIST_TASK >result")
        job = self.user.job_id()
        for number in (0, 1):
            self.cover_home(number)
        other = self.user.write("other.toml", clusters.over_ssh("other", shell("true"), self.hosts, layout="mirrored"))
        self.user.run("up", other).expect(0)
        pruned = self.user.run("prune").expect(3)
        self.assertIn(f"kept {job}: tfdist's folder cannot be seen on ", pruned.out)
        self.assertEqual([record["job"] for record in json.loads(self.user.run("list", "--json").expect(0).out)], [job])
        for command in ("pull", "logs", "events"):
            self.assert_out_of_sight(self.user.run(command, job).expect(3), 0)
        self.user.run("down", "--purge", "--yes", job).expect(1)
        self.assert_all_is_there_again()

    def test_prune_names_the_command_that_forgets_a_job_whose_folder_was_removed(self):
        """Nobody can tell it from one that another file system hides."""
        self.run_job("echo $TFDIST_TASK >result")
        job = self.user.job_id()
        wait_for(lambda: not any(host.processes() for host in self.hosts), "the agents have left")
        for host in self.hosts:
            shutil.rmtree(host.home / ".cache/tfdist")
        other = self.user.write("other.toml", clusters.over_ssh("other", shell("true"), self.hosts, layout="mirrored"))
        self.user.run("up", other).expect(0)
        command = re.search(f"^kept {job}: .*; if it was removed: tfdist (.*)$", self.user.run("prune").expect(3).out, re.MULTILINE)[1]
        self.user.run(*command.split()).expect(0)
        self.assertNotIn(job, self.user.run("list").out)

    def test_a_file_system_over_the_jobs_of_a_host_hides_them(self):
        self.run_job("echo $TFDIST_TASK >result")
        job = self.user.job_id()
        for number, host in enumerate(self.hosts):
            host.run_as("root", ["mount", "-t", "tmpfs", "-o", f"uid={host.uid},mode=700", "t", "/home/trainer/.cache/tfdist/jobs"])
        for command in ("pull", "logs", "events"):
            self.assert_out_of_sight(self.user.run(command, job).expect(3), 0)
        self.user.run("down", "--purge", "--yes", job).expect(1)
        self.assertIn(f"kept {job}: tfdist's folder cannot be seen on ", self.user.run("prune").expect(3).out)
        for host in self.hosts:
            host.run_as("root", ["umount", "-l", "/home/trainer/.cache/tfdist/jobs"])
        self.assertEqual(self.pull().code, 0)
        self.assertEqual(files_below(self.home), ["worker-0/result", "worker-1/result"])

    def test_a_record_of_an_earlier_version_knows_its_folders_by_their_paths(self):
        self.run_job("echo $TFDIST_TASK >result")
        job = self.user.job_id()
        [record] = (self.user.folder / ".local/state/tfdist/jobs").glob(f"{job}*.json")
        value = json.loads(record.read_text())
        self.assertEqual(len(set(value["base_ids"])), 2, value["base_ids"])
        del value["base_ids"]
        record.write_text(json.dumps(value))
        wait_for(lambda: not self.hosts[1].processes(), "its agent has left")
        shutil.rmtree(self.slot(1).parent)
        self.assertIn("gone", self.pull().err)
        self.cover_home(1)
        self.assert_out_of_sight(self.pull(), 1)

    def test_a_folder_that_is_closed_on_the_way_to_a_job_is_named_with_the_reason(self):
        self.run_job("[ $TFDIST_TASK != worker:0 ] || echo >result")
        job = self.user.job_id()
        file = str(self.user.folder / "cluster.toml")
        jobs = self.slot(0).parent.parent
        wait_for(lambda: not self.hosts[0].processes(), "its agent has left")
        for closed in (jobs / job, jobs, jobs.parent, jobs.parent.parent):
            there = "/home/trainer/" + str(closed.relative_to(self.hosts[0].home))
            mode = closed.stat().st_mode
            closed.chmod(0)
            self.addCleanup(closed.chmod, mode)
            why = f"{there}: Permission denied\n  try: on that host, chmod u+rwx {there}; then the same again\n"
            for words in (("pull", job), ("logs", job), ("clean", "-n", file)):
                with self.subTest(closed.name, words=words):
                    self.assertIn(why, self.user.run(*words).expect(3).err)
            with self.subTest(closed.name):
                down = self.user.run("down", "--purge", "--yes", job).expect(1)
                self.assertIn(f"{there}: Permission denied", down.err)
                self.assertNotIn("nothing is left", down.err)
                self.assertIn(f"kept {job}", self.user.run("prune").expect(3).out)
                if closed == jobs:
                    up = self.user.run("up", file).expect(3).err
                    self.assertIn(": Permission denied", up)
                    self.assertIn("\n  try: ", up)
            closed.chmod(mode)
        self.assertEqual(self.pull().code, 0)

    def test_a_closed_folder_of_another_host_than_the_first_is_not_taken_for_none(self):
        """Nor asked for again and again: only what runs ends by itself."""
        self.run_job("echo $TFDIST_TASK >result")
        job = self.user.job_id()
        wait_for(lambda: not any(host.processes() for host in self.hosts), "the agents have left")
        for closed in (self.slot(1).parent, self.slot(1).parent.parent, self.slot(1)):
            with self.subTest(closed.name):
                closed.chmod(0)
                self.addCleanup(closed.chmod, 0o700)
                logins = [host.sshd_log.read_text().count("Accepted ") for host in self.hosts]
                pulled = self.pull("worker:1")
                self.assertEqual(pulled.code, 3)
                self.assertNotIn("gone", pulled.err)
                self.assertIn("Permission denied", pulled.err)
                down = self.user.run("down", "--purge", "--yes", job).expect(1)
                self.assertIn("Permission denied", down.err)
                self.assertNotIn("was there any more", down.err)
                self.assertIn(job, self.user.run("list").expect(0).out)
                asked = [host.sshd_log.read_text().count("Accepted ") - before for host, before in zip(self.hosts, logins)]
                self.assertLessEqual(asked[1], asked[0] + 3)
                closed.chmod(0o700)
        self.assertEqual(self.pull("worker:1").code, 0)

    def test_a_running_job_whose_folder_is_hidden_or_moved_is_told_so_by_all_commands_and_ended_by_down(self):
        script = "trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.1; done"
        file = self.user.write("cluster.toml", clusters.over_ssh("job", shell(script), self.hosts, layout="mirrored"))
        for moves, forces in ((False, False), (True, False), (False, True), (True, True)):
            with self.subTest(moves=moves, forces=forces):
                self.user.run("up", "-d", file).expect(0)
                self.user.wait_until_tasks_run("job")
                job = self.user.job_id()
                folder = self.slot(0).parent
                if moves:
                    folder.rename(folder.parent / "mine")
                else:
                    self.cover_home(0)
                for command in ("status", "pull", "logs"):
                    said = self.user.run(command, job).expect(3)
                    self.assertIn(f"job {job} runs there (processes ", said.err)
                    self.assertNotIn("gone", said.out + said.err)
                    self.assertNotIn("nobody leads", said.out + said.err)
                if moves:
                    self.assertRegex(self.user.run("clean", "-n", file).out + self.user.run("clean", "-n", "--all", file).out, r"job mine, slot 0: .*")
                    self.assertNotIn("498", self.user.run("clean", "-n", "--all", file).out)
                down = self.user.run("down", *["--force"] * forces, job).expect(0)
                self.assertIn(f"job {job}: ended; no process of it is left on 2 of 2 hosts\n", down.err)
                self.assertIn(f"  {self.hosts[0].address}: the job's folder is not where it was", down.err)
                wait_for(lambda: not any(host.processes() for host in self.hosts), "the login shells have left")
                if moves:
                    (folder.parent / "mine").rename(folder)
                else:
                    self.uncover_home(0)
                self.assertEqual("asked" in self.user.run("logs", job, "worker:0").out, not forces)
                self.assertNotIn("restarting", self.user.run("status", job).out)
                self.user.run("down", job).expect(0)
                wait_for(lambda: not any(host.processes() for host in self.hosts), "the login shells have left")
                self.user.run("down", "--purge", "--yes", job).expect(0)
                wait_for(lambda: not any(host.processes() for host in self.hosts), "the login shells have left")

    def test_a_task_whose_folder_is_hidden_as_it_ends_is_told_so(self):
        file = self.user.write("cluster.toml", clusters.over_ssh("job", shell("exec sleep infinity"), self.hosts, layout="mirrored"))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run("job")
        self.cover_home(1)
        self.user.run("down", "job")
        said = self.user.run("events", "job").expect(0).out
        self.assertIn("h1 cannot be seen", said)
        self.assertNotIn("removed", said)
        self.uncover_home(1)
        self.user.run("down", "job").expect(0)

    def test_a_job_without_files_has_lost_none(self):
        """tfdist itself removes what it sent."""
        self.run_job("true")
        pulled = self.pull()
        self.assertEqual(pulled.code, 0, pulled)
        self.assertIn("tfdist: no task has written a file\n", pulled.err)
        self.assertNotIn("any more", pulled.err)

    def test_tasks_start_at_one_path_on_all_hosts(self):
        """As mpirun expects it, and whoever keeps absolute paths in a file. What they write above it is theirs, too."""
        script = "pwd; python3 -c 'import os; print(os.getcwd())'; echo {workdir}; echo 1 >../above"
        up = self.run_job(script)
        job = self.user.job_id()
        folders = [line.split(" | ")[1] for line in up.out.splitlines() if " | " in line]
        self.assertEqual(folders, [f"/home/trainer/.cache/tfdist/jobs/{job}/run/work"] * 6)
        for number, host in enumerate(self.hosts):
            self.assertEqual(work_of(self.slot(number)).parent.name, "run")
        file = str(self.user.folder / "cluster.toml")
        self.assertRegex(self.user.run("clean", "-n", file).expect(0).out, rf"job {job}, slot 0: HAS FILES OF TASKS\n[^$]*job {job}, slot 1: HAS FILES OF TASKS\n")
        self.user.run("down", "--purge", "-y", "job").expect(0)
        for host in self.hosts:
            self.assertEqual(list(host.home.glob(".cache/tfdist/jobs/*")), [])

    def test_a_further_slot_of_a_machine_has_a_folder_of_its_own(self):
        up = self.user.run("up", "--no-workdir", "-H", "localhost:3", "--set", "task.gpus=0", "--",
                           "sh", "-c", 'echo "$RANK $(pwd)"; pwd >made; cat made').expect(0)
        job = self.user.job_id()
        folder = self.user.folder / ".cache/tfdist/jobs" / job
        lines = {tuple(line.split(" | ")[1].split()) for line in up.out.splitlines() if line.count(" ") == 3 and " | " in line}
        self.assertEqual(lines, {("0", f"{folder}/run/work"), ("1", f"{folder}/h1/work"), ("2", f"{folder}/h2/work")})
        self.user.run("pull", job).expect(0)
        for number, name in enumerate(("run", "h1", "h2")):
            self.assertEqual((self.user.folder / job / f"worker-{number}/made").read_text(), f"{folder}/{name}/work\n")
        self.assertIn(f"{folder}/run/work\n", self.user.run("exec", "-H", "localhost", "--", "cat", f"{folder}/run/work/made").expect(0).out)
        self.user.run("down", "--purge", "-y", job).expect(0)
        self.assertEqual(list((self.user.folder / ".cache/tfdist/jobs").glob("*")), [])

    def test_patterns_choose_files_and_a_dry_run_brings_none(self):
        self.run_job('mkdir -p ckpt; echo 1 >ckpt/a.bin; echo 1 >ckpt/b.bin; echo 1 >ckpt/c.txt; echo 1 >d.bin')
        job = self.user.job_id()
        looked = self.user.run("pull", "-n", job, "ckpt/*.bin").expect(0)
        for number in (0, 1):
            self.assertRegex(looked.out, rf"(?m)^worker-{number}: 2 files, 4 bytes, of worker:{number} on 127\S+$")
        self.assertIn("8 bytes to come; nothing was brought\n", looked.out)
        self.assertFalse((self.user.folder / job).exists())
        self.user.run("pull", job, "ckpt/*.bin", "worker:0").expect(0)
        self.assertEqual(sorted(path.name for path in (self.user.folder / job / "worker-0/ckpt").iterdir()), ["a.bin", "b.bin"])
        (self.user.folder / job / "worker-0/ckpt/a.bin").write_text("mine")
        again = self.user.run("pull", "-n", job, "ckpt/*.bin", "worker:0").expect(0).out
        self.assertRegex(again, r"^worker-0: 1 file, 2 bytes, of worker:0 on \S+; 1 was here already; 1 would stay as it is\n0 bytes to come;")
        self.assertIn("expected a value, got nothing", self.user.run("pull", job, "").expect(2).err)
        self.user.run("pull", job, "ck*", "worker:1").expect(0)
        self.assertEqual(len(list((self.user.folder / job / "worker-1/ckpt").iterdir())), 3)
        self.assertIn("no task has written *.nothing", self.user.run("pull", job, "*.nothing").expect(1).err)

    def test_a_folder_that_cannot_be_made_and_a_job_that_is_forgotten(self):
        self.run_job("echo 1 >model.bin")
        job = self.user.job_id()
        self.user.write("taken", "a file")
        for to, why in (("taken", "Not a directory"), ("taken/below", "Not a directory")):
            refused = self.user.run("pull", job, "--to", to).expect(3)
            self.assertIn(f"tfdist: files: cannot make the folder {to}: {why}\n  try: --to names another folder\n", refused.err)
        self.user.run("prune", job).expect(0)
        self.assertIn(f"tfdist: no job {job} is known on this machine\n"
                      "  try: tfdist list shows those that are; a cluster file, or -H with its hosts, finds a job there\n",
                      self.user.run("pull", job).expect(4).err)

    def test_results_come_home_by_task_and_again_only_what_has_changed(self):
        up = self.run_job('mkdir -p out; echo "by $TFDIST_TASK" >"out/a b.txt"; echo 1 >model.bin; : >empty')
        self.assertIn("tfdist pull job-", up.err)
        pulled = self.pull()
        self.assertEqual(pulled.code, 0, pulled)
        self.assertEqual(files_below(self.home), [f"worker-{n}/{name}" for n in (0, 1)
                                                  for name in ("empty", "model.bin", "out/a b.txt")])
        for number in (0, 1):
            self.assertEqual((self.home / f"worker-{number}/out/a b.txt").read_text(), f"by worker:{number}\n")
            self.assertRegex(pulled.out, rf"worker-{number}: 3 files, 14 bytes, of worker:{number} on 127")
        (self.work(0) / "model.bin").write_text("12")
        again = self.pull()
        self.assertEqual(again.code, 0, again)
        self.assertIn("2 were here already", again.out)
        self.assertIn("3 were here already", again.out)
        self.assertEqual((self.home / "worker-0/model.bin").read_text(), "12")

    def test_another_content_of_one_size_and_time_comes(self):
        self.run_job("echo 1 >model.bin; echo 1 >{keep}/kept")
        self.pull().expect(0)
        for path, here in ((self.work(0) / "model.bin", "worker-0/model.bin"), (next(self.hosts[0].home.rglob("kept")), "keep-worker-0/kept")):
            time_ns = path.stat().st_mtime_ns
            path.write_text("2\n")
            os.utime(path, ns=(time_ns, time_ns))
            self.assertIn("2 bytes to come", self.pull("--dry-run").expect(0).out)
            self.pull().expect(0)
            self.assertEqual((self.home / here).read_text(), "2\n")
            self.assertIn("0 bytes to come", self.pull("--dry-run").expect(0).out)

    def test_results_in_the_work_folder_are_not_sent_back(self):
        self.run_job("echo 1 >model.bin")
        [job] = [row["job"] for row in json.loads(self.user.run("list", "--json").out)]
        self.user.run("pull", cwd=self.user.folder / "work").expect(0)
        self.assertEqual((self.user.folder / "work" / job / "worker-0/model.bin").read_text(), "1\n")
        again = self.user.run("up", str(self.user.folder / "cluster.toml"))
        self.assertEqual(again.code, 0, again)
        self.assertIn(f"left out as results of tfdist pull: 4 bytes ({job} 4 bytes)\n  to send results of tfdist pull, ", again.err)
        self.assertEqual([path for host in self.hosts for path in host.home.rglob(f"work/{job}")], [])

    def test_some_files_of_some_tasks(self):
        self.run_job("mkdir -p out/deep; echo 1 >out/deep/x; echo 2 >out/y; echo 3 >outer")
        pulled = self.pull("out/deep/", "outer", "worker:1")
        self.assertEqual(pulled.code, 0, pulled)
        self.assertEqual(files_below(self.home), ["worker-1/out/deep/x", "worker-1/outer"])
        missing = self.pull("nothing", "outer", f"@{self.hosts[0].address}")
        self.assertEqual(missing.code, 1, missing)
        self.assertIn("tfdist: no task has written nothing\n", missing.err)
        self.assertTrue((self.home / "worker-0/outer").exists())
        outside = self.pull("../../secret")
        self.assertEqual(outside.code, 2, outside)

    def test_links_come_along_but_for_those_that_lead_out(self):
        self.run_job('mkdir -p ck-5 out; echo w >ck-5/w; ln -s ck-5 latest; ln -s "$PWD/ck-5/w" out/best; ln -s /etc/passwd far')
        pulled = self.pull("worker:0")
        self.assertEqual(pulled.code, 1, pulled)
        home = self.home / "worker-0"
        self.assertEqual(os.readlink(home / "latest"), "ck-5")
        self.assertEqual(os.readlink(home / "out/best"), "../ck-5/w")
        self.assertEqual((home / "out/best").read_text(), "w\n")
        self.assertFalse(os.path.lexists(home / "far"))
        self.assertIn("far -> /etc/passwd leads out of the tasks' folder, and is left there\n  try: ", pulled.err)
        self.assertIn("3 were here already", self.pull("worker:0").out)
        shutil.rmtree(home)
        latest = self.pull("latest", "worker:0")  # and what is behind it
        self.assertEqual(latest.code, 0, latest)
        self.assertEqual((home / "latest/w").read_text(), "w\n")
        self.assertFalse((home / "out").exists())

    def test_modes_and_times_come_along_and_no_mode_is_wider_than_there(self):
        self.run_job('umask 022; mkdir -m 700 private; echo k >private/key; echo t >token; chmod 600 token; '
                     'echo x >tool; chmod 777 tool; touch -d "2020-01-01 00:00:00.123456789" token private')
        pulled = self.pull("worker:0")
        self.assertEqual(pulled.code, 0, pulled)
        home = self.home / "worker-0"
        for name, mode in (("private", 0o700), ("private/key", 0o644), ("token", 0o600), ("tool", 0o755)):
            here, there = (home / name).stat(), (self.work(0) / name).stat()
            self.assertEqual((name, here.st_mode & 0o7777, here.st_mtime_ns), (name, mode, there.st_mtime_ns))
        self.assertEqual(home.stat().st_mode & 0o7777, 0o700)
        (self.work(0) / "private/new").write_text("n")
        os.utime(self.work(0) / "private", ns=(1, 1))
        self.assertEqual(self.pull("worker:0").code, 0)
        self.assertEqual((home / "private").stat().st_mtime_ns, 1)

    def test_a_folder_that_is_closed_there_is_closed_here_and_the_next_pull_opens_it(self):
        self.run_job("mkdir closed; echo 1 >closed/x; chmod 500 closed")
        self.pull("worker:0").expect(0)
        closed = self.home / "worker-0/closed"
        self.assertEqual(closed.stat().st_mode & 0o7777, 0o500)
        (self.work(0) / "closed/new").write_text("n")
        # Root may write anywhere, unless it has given that up.
        as_others = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
        self.user.run("pull", "job", "worker:0", "--to", str(self.home), prefix=as_others).expect(0)
        self.assertEqual((closed / "new").read_text(), "n")
        self.assertEqual(closed.stat().st_mode & 0o7777, 0o500)

    @unittest.skipUnless(os.geteuid() == 0, "mounts a disk")
    def test_a_small_disk_is_filled_to_a_part_of_it(self):
        """A few bytes were refused where 21 MB were free, and the remedy was the command itself."""
        self.run_job("echo 1 >model; head -c 20000000 /dev/urandom >large")
        self.home.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", self.home], check=True)
        self.addCleanup(subprocess.run, ["umount", self.home], check=True)
        self.pull("worker:0", "model").expect(0)
        for path, remedy in (("large", r"--to FOLDER on another disk"), (None, r"--to FOLDER on another disk, or some of it: tfdist pull JOB PATH")):
            large = self.pull("worker:0", *([path] if path else []))
            self.assertEqual(large.code, 3, large)
            self.assertRegex(large.err, rf"20 MB are to come to \S+, where 2\d MB are free; 1.0 MB of them stay free\n  try: {remedy}\n")

    @unittest.skipUnless(os.geteuid() == 0, "mounts a disk")
    def test_a_folder_here_that_cannot_be_written_is_no_matter_of_the_host(self):
        """It was named with the host, and the remedy was another folder for tfdist there."""
        self.run_job("mkdir folder; echo 1 >folder/model")
        self.home.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", self.home], check=True)
        self.addCleanup(subprocess.run, ["umount", self.home], check=True)
        self.pull("worker:0").expect(0)
        subprocess.run(["mount", "-o", "remount,ro", self.home], check=True)
        self.pull("worker:0").expect(0)  # all is here
        more = self.pull()
        self.assertEqual(more.code, 3, more)
        self.assertIn("worker-1: Read-only file system\n  try: --to names another folder\n", more.err)
        (self.work(0) / "folder/model").write_text("2 more\n")
        more = self.pull("worker:0")
        self.assertEqual(more.code, 3, more)
        self.assertRegex(more.err, r"tfdist: this machine: files: cannot write \S+: Read-only file system\n  try: --to names another folder\n")

    def test_a_link_has_the_time_that_it_has_there(self):
        self.run_job("echo 1 >model; ln -s model latest; touch -h -d 2020-01-01 latest")
        self.pull("worker:0").expect(0)
        here = (self.home / "worker-0/latest").lstat()
        self.assertEqual(here.st_mtime_ns, (self.work(0) / "latest").lstat().st_mtime_ns)
        self.assertEqual(here.st_mtime, 1577836800)

    def test_a_sparse_file_takes_no_more_room_here(self):
        self.run_job("truncate -s 64M model; printf x | dd of=model bs=1 seek=5000001 conv=notrunc status=none; "
                     "printf end | dd of=model bs=1 seek=67108861 conv=notrunc status=none; truncate -s 8M zeros")
        self.pull("worker:0").expect(0)
        for name in ("model", "zeros"):
            here, there = self.home / "worker-0" / name, self.work(0) / name
            self.assertEqual(here.read_bytes(), there.read_bytes())
            self.assertLessEqual(here.stat().st_blocks * 512, 256 * 1024)

    def test_the_holes_of_a_sparse_file_do_not_travel(self):
        """8 GB with 11 bytes of data come within seconds."""
        self.run_job("printf begin >model; truncate -s 8G model; printf endend | dd of=model bs=1 seek=8000000000 conv=notrunc status=none")
        begin = time.monotonic()
        self.pull("worker:0").expect(0)
        self.assertLess(time.monotonic() - begin, 10 * PATIENCE)
        here, there = self.home / "worker-0/model", self.work(0) / "model"
        self.assertEqual((here.stat().st_size, here.stat().st_mtime_ns), (8 << 30, there.stat().st_mtime_ns))
        self.assertLessEqual(here.stat().st_blocks * 512, 256 * 1024)
        for offset, size in ((0, 4096), (4096, 4096), (8000000000 - 4096, 8192), ((8 << 30) - 10, 20)):
            with open(here, "rb") as left, open(there, "rb") as right:
                left.seek(offset)
                right.seek(offset)
                self.assertEqual(left.read(size), right.read(size), offset)

    def test_a_link_in_the_place_of_a_tasks_folder_is_not_followed(self):
        self.run_job("echo k >authorized_keys")
        elsewhere = self.user.folder / "elsewhere"
        elsewhere.mkdir()
        self.home.mkdir()
        (self.home / "worker-0").symlink_to(elsewhere)
        pulled = self.pull("worker:0")
        self.assertEqual(pulled.code, 3, pulled)
        self.assertIn(f"{self.home}/worker-0 is no folder\n  try: --to another folder, or move it away\n", pulled.err)
        self.assertEqual(files_below(elsewhere), [])

    def test_a_file_that_stays_needs_no_room(self):
        self.run_job("truncate -s 8T huge; echo 1 >small")
        home = self.home / "worker-0"
        home.mkdir(parents=True)
        (home / "huge").write_text("mine\n")
        pulled = self.pull("worker:0")
        self.assertEqual(pulled.code, 1, pulled)
        self.assertEqual((home / "huge").read_text(), "mine\n")
        self.assertEqual((home / "small").read_text(), "1\n")

    def test_a_file_in_the_place_of_a_folder_stays_and_the_rest_comes(self):
        self.run_job("mkdir ckpt logs; echo 1 >ckpt/a; echo 1 >ckpt/b; echo 1 >logs/x; echo 1 >small; ln -s a ckpt/latest")
        home = self.home / "worker-0"
        home.mkdir(parents=True)
        (home / "ckpt").write_text("mine\n")
        (home / "logs").symlink_to(self.user.folder)
        pulled = self.pull("worker:0").expect(1)
        self.assertIn(": 1 file, ", pulled.out)
        self.assertIn("; 4 were not brought\n", pulled.out)
        self.assertIn(f"tfdist: {home}/ckpt is no folder, and stays: 3 files of it were not brought\n", pulled.err)
        self.assertIn(f"tfdist: {home}/logs is no folder, and stays: 1 file of it was not brought\n", pulled.err)
        self.assertEqual(files_below(self.home), ["worker-0/ckpt", "worker-0/small"])
        [folder] = json.loads(self.user.run("pull", "job", "worker:0", "--to", str(self.home), "--json").expect(1).out)["folders"]
        self.assertEqual((folder["file_count"], folder["bytes"]), (1, 2))

    def test_a_file_that_was_changed_here_stays(self):
        self.run_job("echo 1 >notes; echo 1 >model.bin; ln -s model.bin latest; mkdir out; echo 1 >out/x")
        home = self.home / "worker-0"
        self.assertEqual(self.pull("worker:0").code, 0)
        (home / "notes").write_text("mine\n")
        (home / "latest").unlink()
        (home / "latest").write_text("mine\n")
        (home / "new").write_text("mine\n")
        for name in ("notes", "model.bin", "new"):
            (self.work(0) / name).write_text("of the task\n")
        pulled = self.pull("worker:0")
        self.assertEqual(pulled.code, 1, pulled)
        for name in ("notes", "latest", "new"):
            self.assertEqual((home / name).read_text(), "mine\n")
            self.assertIn(f"{home}/{name} stays as it is: it is not as a pull of this job has left it\n", pulled.err)
        self.assertIn("  try: --to another folder, or move it away\n", pulled.err)
        self.assertEqual((home / "model.bin").read_text(), "of the task\n")
        self.assertIn("; 3 were not brought\n", pulled.out)
        for name in ("notes", "latest", "new"):
            (home / name).unlink()
        self.assertEqual(self.pull("worker:0").code, 0)
        self.assertEqual((home / "notes").read_text(), "of the task\n")
        # Another job's files of the same names.
        self.run_job("echo 2 >model.bin")
        other = self.pull("worker:0")
        self.assertEqual(other.code, 1, other)
        self.assertEqual((home / "model.bin").read_text(), "of the task\n")

    def test_a_host_that_sends_more_than_it_has_listed_is_given_up(self):
        self.run_job("echo 1 >model.bin")
        self.replace_agent('list) printf "5:600 1 a/x\\0end\\0";; send) while printf "1\\nx"; do sleep 0.1; done;;')
        pulled = self.user.run("pull", "job", "worker:0", "--to", str(self.home), seconds=60)
        self.assertEqual(pulled.code, 3, pulled)
        self.assertIn("more bytes of a file than it has listed", pulled.err)
        self.assertFalse((self.home / "worker-0/a/x").exists())

    def test_an_interrupted_pull_says_how_much_is_here(self):
        self.run_job("echo 1 >model.bin")
        self.replace_agent('list) printf "5:600 1 x\\0end\\0";; send) printf "2\\nab"; exec sleep 600;;')
        pull = self.user.start("pull", "job", "worker:0", "--to", str(self.home))
        wait_for(lambda: any(path.stat().st_size == 2 for path in self.home.rglob("*") if path.is_file()), "a piece is here", 60)
        pull.send_signal(signal.SIGINT)
        self.assertEqual(pull.wait(60), 130)
        self.assertIn("tfdist: interrupted: 2 bytes of 5 bytes; the same pull goes on from there\n", pull.err.read_text())

    def test_files_that_grow_come_from_an_agent_of_an_earlier_version(self):
        """Which tells no modes, and sends all that there is by then."""
        self.run_job("echo 1 >model.bin")
        self.replace_agent('list) printf "2 1 growing\\0002 1 other\\0end\\0";; send) printf "4\\nabcd0\\n2\\nef0\\n";;')
        pulled = self.pull("worker:0")
        self.assertEqual(pulled.code, 0, pulled)
        home = self.home / "worker-0"
        self.assertEqual([(home / name).read_text() for name in ("growing", "other")], ["ab", "ef"])

    def test_a_file_that_cannot_be_read_is_named_and_not_counted(self):
        self.run_job("echo 1 >open; echo 2 >closed")
        (self.work(0) / "closed").chmod(0)
        pulled = self.pull("worker:0")
        self.assertEqual(pulled.code, 1, pulled)
        self.assertIn("worker-0: 1 file, ", pulled.out)
        self.assertIn("; 1 was not brought\n", pulled.out)
        self.assertIn("closed cannot be read there: chmod u+r makes it readable\n", pulled.err)

    def test_a_folder_that_cannot_be_looked_into_is_named(self):
        self.run_job("mkdir out; echo w >out/w")
        (self.work(0) / "out").chmod(0)  # as root, or a container, leaves it
        for words in (["worker:0"], ["worker:0", "--dry-run"], ["worker:0", "out/w"]):
            pulled = self.pull(*words).expect(1)
            self.assertIn("out cannot be looked into there: what it holds was not brought\n  try: there, chmod u+rwx", pulled.err)
            self.assertNotIn("no task has written", pulled.err)
        [folder] = json.loads(self.pull("worker:0", "--json").expect(1).out)["folders"]
        self.assertEqual((folder["unreadable"], folder["file_count"]), (["out"], 0))
        (self.work(0) / "out").chmod(0o755)
        self.pull("worker:0").expect(0)
        self.assertEqual(files_below(self.home), ["worker-0/out/w"])

    def test_what_lies_beside_the_start_folder_is_named(self):
        self.run_job("case $TFDIST_TASK in worker:1) mkdir ../results; echo w >../results/w;; esac")
        pulled = self.pull().expect(1)
        at = "/" + str(self.work(1).parent.relative_to(self.hosts[1].home.parent.parent))
        self.assertIn(f"{self.hosts[1].address}: {at}/results lies outside of the folder in which the tasks start, "
                      "and was not brought\n  try: scp -r", pulled.err)
        self.assertNotIn("no task has written", pulled.err)
        self.pull("worker:0").expect(0)

    def test_two_pulls_into_one_folder_wait_for_each_other(self):
        self.run_job("head -c 20000000 /dev/urandom >model.bin")
        pulls = [self.user.start("pull", "job", "--to", str(self.home)) for _ in range(3)]
        for pulled in pulls:
            self.assertEqual(pulled.wait(120), 0, pulled.err.read_text())
        for number in (0, 1):
            self.assertEqual((self.home / f"worker-{number}/model.bin").read_bytes(), (self.work(number) / "model.bin").read_bytes())
        self.assertEqual(files_below(self.home), ["worker-0/model.bin", "worker-1/model.bin"])

    def test_two_saves_of_logs_into_one_folder_lose_no_line(self):
        self.run_job("seq 1000000")
        alls = [self.user.start("logs", "job", "worker:0", "--save", str(self.home), *words) for words in ([], ["-n", "3"], [])]
        whole = len("".join(f"{n}\n" for n in range(1, 1000001)))
        for saved, size in zip(alls, (whole, len("999998\n999999\n1000000\n"), whole)):
            self.assertEqual(saved.wait(120), 0, saved.err.read_text())
            self.assertIn(f"tfdist: worker:0: {size} bytes in ", saved.err.read_text())
        sizes = sorted(path.stat().st_size for path in self.home.iterdir())
        self.assertEqual(sizes[-1], whole)

    def test_a_pull_that_a_limit_has_ended_goes_on(self):
        self.run_job("case $TFDIST_TASK in worker:1) touch made;; esac")  # else nothing of the work folder stays
        content = bytes(range(256)) * (4096 * 64)  # 64 MiB
        folder = self.work(1) / "ck"
        folder.mkdir()
        (folder / "large.bin").write_bytes(content)
        folder.chmod(0o755)
        os.utime(folder, ns=(1, 1))
        self.assertEqual(self.pull_until_a_file_has(len(content) // 2), 3)
        self.assertFalse((self.home / "worker-1/ck/large.bin").exists())
        [part] = self.home.rglob(".large.bin.*.part")
        self.assertEqual(part.stat().st_size, len(content) // 2)
        had = part.stat()
        pulled = self.pull()
        self.assertEqual(pulled.code, 0, pulled)
        whole = self.home / "worker-1/ck/large.bin"
        self.assertEqual((whole.parent.stat().st_mode & 0o7777, whole.parent.stat().st_mtime_ns), (0o755, 1))
        self.assertEqual(hashlib.sha256(whole.read_bytes()).digest(), hashlib.sha256(content).digest())
        self.assertEqual(whole.stat().st_ino, had.st_ino)  # it is the part that has grown
        self.assertEqual(files_below(self.home), ["worker-1/ck/large.bin", "worker-1/made"])

    def test_a_host_that_is_gone_hides_no_other_and_a_cleaned_job_is_said(self):
        self.run_job("echo 1 >model.bin")
        self.hosts[1].crash()
        pulled = self.pull()
        self.assertEqual(pulled.code, 3, pulled)
        self.assertEqual(files_below(self.home), ["worker-0/model.bin"])
        self.assertRegex(pulled.err, rf"tfdist: {self.hosts[1].address}: connect")

    def test_a_job_without_results_says_so(self):
        self.run_job("true")
        pulled = self.pull()
        self.assertEqual((pulled.code, pulled.out), (0, ""), pulled)
        self.assertIn("tfdist: no task has written a file\n", pulled.err)
        self.assertFalse(self.home.exists())


if __name__ == "__main__":
    unittest.main()
