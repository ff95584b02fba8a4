"""Jobs on this machine without SSH: what a newcomer runs first."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from tests.support import clusters, processes
from tests.support.gate import Gate
from tests.support.tfdist import BIN, ROOT, Tfdist, without_waiting, work_of
from tests.support.waiting import wait_for

SERVE = 'case "$TFDIST_TASK" in ps:*) exec sleep infinity;; esac; '


def shell(script):
    """Trainers run `script`; parameter servers wait to be ended."""
    return ["sh", "-c", SERVE + script]


@unittest.skipIf(os.environ.get("TFDIST_SANITIZE"), "a sanitizer's runtime is a library; the release build shows it")
class Agent(unittest.TestCase):
    def test_the_agent_needs_nothing_of_its_host(self):
        """Neither a loader nor a library: it runs in a folder that holds nothing but itself."""
        headers = subprocess.run(["readelf", "--wide", "--program-headers", "--dynamic", BIN / "tfdist-agent"],
                                 capture_output=True, text=True, check=True).stdout
        self.assertNotIn("INTERP", headers)
        self.assertNotIn("NEEDED", headers)
        self.assertNotIn(" RWE ", headers)

    @unittest.skipIf(os.geteuid() != 0, "needs root for chroot")
    def test_the_agent_runs_where_there_is_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(BIN / "tfdist-agent", folder)
            started = subprocess.run(["chroot", folder, "/tfdist-agent", "version"], capture_output=True, text=True)
        self.assertEqual(started.returncode, 0, started)
        self.assertRegex(started.stdout, r"^tfdist-agent [\d.]+, protocol")


class RoleThatDecides(unittest.TestCase):
    def test_the_driver_alone_ends_the_job(self):
        with Tfdist("driver") as user:
            path = user.write("cluster.toml", f"""
name = "driver"
done = "driver"
[cluster]
hosts = ["localhost"]
layout = "roles"
ports = {{ driver = {clusters.free_ports(1)}, worker = {clusters.free_ports(2)} }}
[task]
command = ["sh", "-c", 'case $TFDIST_TASK in driver:0) echo done;; *) exec sleep 600;; esac']
gpus = 0
[roles.driver]
count = 1
[roles.worker]
count = 2
""")
            result = user.run("up", path)
            self.assertEqual(result.code, 0, result)
            self.assertIn("driver:0 | done", result.out)
            wait_for(lambda: not user.left(), lambda: f"nothing left; there is {user.left()}")


    def test_up_says_at_once_that_a_client_does_not_end_the_job(self):
        with Tfdist("client") as user:
            path = user.write("cluster.toml", """
name = "client"
[cluster]
hosts = ["localhost"]
layout = "roles"
ports = "auto"
[task]
command = ["sh", "-c", 'case $TFDIST_TASK in client:0) echo done;; *) exec sleep 600;; esac']
gpus = 0
[roles.client]
count = 1
[roles.worker]
count = 2
""")
            up = user.start("up", path)
            # Which workers have begun by then is not known.
            said = re.compile(rb"tfdist: client:0 has ended with exit code 0, and the job goes on; (still running: .+|its other tasks are just starting)\. "
                              rb"Where the end of client is the job's, write done = \"client\"\n")
            wait_for(lambda: said.search(up.err.read_bytes()), lambda: f"the line; so far {up.err.read_text()}", 120)
            user.run("down").expect(0)
            self.assertEqual(up.wait(60), 1)
            self.assertEqual(user.run("up", "--set", "done=client", path).expect(0).err.count("goes on"), 0)

    def test_the_master_ends_the_job_of_a_tfjob_and_workers_have_a_moment(self):
        with Tfdist("tfjob") as user:
            path = user.write("cluster.toml", f"""
name = "tfjob"
finish_timeout = "5s"
[cluster]
hosts = ["localhost"]
layout = "roles"
ports = {{ master = {clusters.free_ports(1)}, worker = {clusters.free_ports(2)}, ps = {clusters.free_ports(1)} }}
[task]
command = ["sh", "-c", 'case $TFDIST_TASK in master:0) echo done;; worker:0) sleep 0.3; echo last;; *) exec sleep 600;; esac']
gpus = 0
[roles.master]
count = 1
[roles.worker]
count = 2
[roles.ps]
count = 1
""")
            self.assertIn("done when master:0 has ended with 0; tasks that run on have 5s then", user.run("render", path).err)
            result = user.run("up", path, seconds=60)
            self.assertEqual(result.code, 0, result)
            self.assertIn("worker:0 | last", result.out)


    def test_workers_that_fail_once_the_chief_has_ended_do_not_fail_the_job(self):
        """As `ray symmetric-run` does it: the same command on all hosts, and each worker fails when its head is gone."""
        script = "[ $RANK = 0 ] && exec sleep 0.1; sleep 1; exit 1"
        job = ["up", "--no-workdir", "-H", "localhost:2", "--name", "ray", "--set", "finish_timeout=60s"]
        words = ["--", "sh", "-c", script]
        with Tfdist("ray") as user:
            ports = ["--set", f"cluster.ports.worker={clusters.free_ports(2)}"]
            alone = user.run(*job, *ports, *words, seconds=60)
            self.assertEqual(alone.code, 1, alone)
            result = user.run(*job, *ports, "--set", "cluster.chief_name=chief", "--set", "done=chief", *words, seconds=60)
            self.assertEqual(result.code, 0, result)

    def test_a_task_that_runs_on_after_the_first_is_named_with_what_to_do(self):
        with Tfdist("finish") as user:
            job = ["up", "-q", "--no-workdir", "-H", "localhost:2", "--set", f"cluster.ports.worker={clusters.free_ports(2)}"]
            result = user.run(*job, "--set", "finish_timeout=2s", "--", "sh", "-c", "[ $RANK = 1 ] || exec sleep 600", seconds=60)
            self.assertEqual(result.code, 1, result)
            self.assertIn("worker:0 on localhost still runs 2s after worker:1 ended (finish_timeout)", result.err)
            self.assertIn("--set finish_timeout=1h where it needs longer", result.err)
            self.assertNotIn("first to fail", result.err)
            self.assertIn("the others have 10m (finish_timeout)", user.run("render", "--no-workdir", "-H", "h[1-2]", "--", "true").err)

    def test_render_says_whose_end_counts_for_finish_timeout(self):
        def said(*words):
            return [line for line in user.run("render", *words).expect(0).err.splitlines() if "finish_timeout" in line]

        with Tfdist("finish") as user:
            path = user.write("c.toml", clusters.local("job", ["true"], slots=2, extra='finish_timeout = "3s"'))
            self.assertEqual(said(path), ["tfdist: after the first task of master and worker has ended with 0, the others of these roles "
                                          "have 3s (finish_timeout)"])
            self.assertEqual(said(path, "--set", "done=chief"), [
                "tfdist: the job is done when master:0 has ended with 0; tasks that run on have 3s then (done, finish_timeout)"])
            self.assertEqual(said(path, "--set", "done=worker"), [])  # there is one

    def test_a_quiet_up_tells_of_a_restart(self):
        with Tfdist("quiet") as user:
            fails_once = "[ $TFDIST_ATTEMPT != 1 ] || { sleep 5.5; exit 3; }"
            result = user.run("up", "-q", "--no-workdir", "-H", "localhost", "--set", f"cluster.ports.worker={clusters.free_ports(1)}", "--",
                              "sh", "-c", fails_once, seconds=60)
            self.assertEqual(result.code, 0, result)
            self.assertIn("exit code 3; starting all tasks again", result.err)

    def test_words_of_a_shell_before_a_program_have_their_remedy(self):
        with Tfdist("words") as user:
            for word, remedy in (("LR=0.1", "--env LR=0.1"), ("cd", "--workdir and `cwd` choose")):
                result = user.run("up", "--no-workdir", "-H", "localhost", "--set", f"cluster.ports.worker={clusters.free_ports(1)}", "--", word,
                                  "python3")
                self.assertEqual(result.code, 3, result)
                self.assertIn(remedy, result.err)


class LocalJob(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("local")
        self.addCleanup(self.user.close)

    def write(self, command, **options):
        return self.user.write("cluster.toml", clusters.local("job", command, **options))

    def assert_nothing_left(self):
        wait_for(lambda: not self.user.left(), lambda: f"nothing left; there is {self.user.left()}", 30)

    def test_up_streams_whole_lines_and_ends_by_itself(self):
        file = self.write(shell('echo "hello from $TFDIST_TASK"; printf "no newline"'))
        result = self.user.run("up", file)
        self.assertEqual(result.code, 0, result)
        self.assertIn("master:0 | hello from master:0\n", result.out)
        self.assertIn("worker:0 | hello from worker:0\n", result.out)
        self.assertIn("master:0 | no newline\n", result.out)
        self.assertIn("succeeded", result.err)
        self.assert_nothing_left()

    def test_arguments_and_environment_arrive_byte_exact(self):
        awkward = "quote\" newline\n $(id) `id` \\ ' é \U0001f600 {{brace}}"
        expected = awkward.replace("{{", "{")  # `{{` is a brace
        file = self.write(
            ["python3", "-c",
             "import json,os,sys,signal\n"
             "print(json.dumps([sys.argv[1], os.environ['AWKWARD']]), flush=True)\n"
             "if os.environ['TFDIST_TASK'].startswith('ps'): signal.pause()".replace("{", "{{"),
             awkward],
            task_extra=f"env = {{ AWKWARD = {json.dumps(awkward, ensure_ascii=False)} }}",
        )
        result = self.user.run("up", file)
        self.assertEqual(result.code, 0, result)
        line = next(l for l in result.out.splitlines() if l.startswith("master:0"))
        self.assertEqual(json.loads(line.split("| ", 1)[1]), [expected, expected])

    def test_a_task_gets_exactly_what_render_shows(self):
        file = self.write(shell("env"))
        rendered = json.loads(self.user.run("render", "--json", file).out)
        result = self.user.run("up", file)
        self.assertEqual(result.code, 0, result)
        for task in rendered["tasks"]:
            if task["type"] == "ps":
                continue
            for name, value in task["env"].items():
                self.assertIn(f"{task['task']} | {name}={value}\n", result.out)

    def test_a_task_that_sees_all_gpus_does_not_get_the_login_s_choice_of_them(self):
        self.user.env["CUDA_VISIBLE_DEVICES"] = "7"
        text = clusters.local("job", shell("env"), slots=1).replace("gpus = 0", 'gpus = "auto"')
        result = self.user.run("up", self.user.write("cluster.toml", text))
        self.assertEqual(result.code, 0, result)
        self.assertIn("TF_CONFIG=", result.out)
        self.assertNotIn("CUDA_VISIBLE_DEVICES", result.out)

    def test_the_example_for_four_hosts_renders(self):
        result = self.user.run("render", "--json", str(ROOT / "configs/four_hosts.toml"))
        self.assertEqual(result.code, 0, result)
        tasks = json.loads(result.out)["tasks"]
        self.assertEqual(len(tasks), 8)
        self.assertEqual([t["task"] for t in tasks if t["chief"]], ["master:0"])

    def test_purge_leaves_no_folder_and_down_of_a_vanished_job_is_harmless(self):
        file = self.write(shell("sleep infinity"))
        self.user.run("up", "-d", file).expect(0)
        folder = self.user.slot_folder(0).parent
        purged = self.user.run("down", "--purge", "job")
        self.assertEqual(purged.code, 0, purged)
        for slot in (0, 1):
            self.assertIn(f"127.0.0.1: removed {folder}/h{slot}\n", purged.err)
        self.assertFalse(folder.exists())
        self.user.run("status", "job").expect(4)
        self.user.run("up", "-d", file).expect(0)
        self.user.run("down", "job").expect(0)
        wait_for(lambda: not self.user.left(), "the agents have left")
        shutil.rmtree(self.user.slot_folder(0).parent)
        vanished = self.user.run("down", "job")
        self.assertEqual(vanished.code, 0, vanished)

    @unittest.skipIf(os.geteuid() != 0, "needs root for a mount")
    def test_a_damaged_agent_is_replaced_where_the_host_cannot_hash(self):
        file = self.write(["true"])
        self.user.run("up", file).expect(0)
        [agent] = (self.user.folder / ".cache/tfdist/bin").iterdir()
        # Another file under its name: the agents of the job before may still run from the old one.
        content = agent.read_bytes()
        agent.unlink()
        agent.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        agent.chmod(0o500)
        hide = f'mount --bind /dev/null {shutil.which("sha256sum")}; exec "$@"'
        up = subprocess.run(["unshare", "--mount", "sh", "-ec", hide, "up", BIN / "tfdist", "up", file],
                            env=self.user.env, cwd=self.user.folder, capture_output=True, text=True)
        self.assertEqual(up.returncode, 0, up)
        self.assertEqual(agent.read_bytes(), content)
        self.assert_nothing_left()

    def test_an_agent_that_is_replaced_while_it_starts_says_what_it_is(self):
        """As another slot's start does it with a damaged one."""
        self.user.run("up", self.write(["true"])).expect(0)
        [agent] = (self.user.folder / ".cache/tfdist/bin").iterdir()
        damaged = self.user.folder / "damaged"
        damaged.write_bytes(agent.read_bytes() + b"x")
        damaged.chmod(0o500)
        good = agent.read_bytes()
        agent.unlink()
        damaged.rename(agent)
        program = os.open(agent, os.O_RDONLY)
        self.addCleanup(os.close, program)
        agent.unlink()
        agent.write_bytes(good)
        started = subprocess.run([f"/proc/self/fd/{program}", "start"], pass_fds=[program], stdin=subprocess.DEVNULL,
                                 env=self.user.env, capture_output=True, timeout=60)
        self.assertIn(hashlib.sha256(good + b"x").hexdigest().encode(), started.stdout, started)

    def test_clean_keeps_what_runs_and_removes_all_the_rest(self):
        file = self.write(shell("sleep infinity"))
        self.user.run("up", "-d", file).expect(0)
        cache = self.user.folder / ".cache/tfdist"
        self.user.wait_until_tasks_run()
        kept = self.user.run("clean", "--yes", file)
        self.assertEqual(kept.code, 0, kept)
        self.assertIn("stays, it runs", kept.out)
        self.assertEqual(self.user.status("job")["state"], "running")
        self.user.run("down", "job").expect(0)
        wait_for(lambda: not self.user.left(), "the agents have left")
        cleaned = self.user.run("clean", "--yes", file)
        self.assertEqual(cleaned.code, 0, cleaned)
        self.assertIn(str(cache / "bin"), cleaned.out)
        self.assertEqual([p for p in cache.rglob("*") if p.is_file()] if cache.exists() else [], [])

    def test_clean_that_could_not_remove_all_does_not_end_well(self):
        file = self.write(shell("mkdir -p mine; echo x >result"))
        self.user.run("up", file).expect(0)
        job = self.user.job_id()
        self.assert_nothing_left()
        [folder] = self.user.folder.glob(".cache/tfdist/jobs/*/h0")
        point = work_of(folder) / "mine"
        subprocess.run(["mount", "--bind", str(self.user.folder), str(point)], check=True)
        self.addCleanup(subprocess.run, ["umount", str(point)], stderr=subprocess.DEVNULL)
        for words in (["clean", "--yes", file], ["clean", "--yes", "--json", file]):
            cleaned = self.user.run(*words).expect(3)
            self.assertIn(f"tfdist: 127.0.0.1: files: kept {folder}: something is mounted at {point}: unmount it first\n  try: ", cleaned.err)
        self.assertTrue(json.loads(cleaned.out)["kept"], cleaned)
        purged = self.user.run("down", "--purge", job).expect(1)
        self.assertIn(f"kept {folder}: something is mounted at {point}: unmount it first\n  try: ", purged.err)
        subprocess.run(["umount", str(point)], check=True)
        self.user.run("clean", "--yes", file).expect(0)
        self.assertFalse(folder.exists())

    def test_clean_of_a_finished_job_of_which_something_runs_does_not_end_well(self):
        file = self.write(shell("cp /bin/sleep mine"))
        self.user.run("up", file).expect(0)
        job = self.user.job_id()
        [folder] = self.user.folder.glob(".cache/tfdist/jobs/*/h0")
        with subprocess.Popen([work_of(folder) / "mine", "1000"]) as running:
            self.addCleanup(running.kill)
            cleaned = self.user.run("clean", "--yes", file)
            running.kill()
        self.assertEqual(cleaned.code, 3, cleaned)
        self.assertIn(f"kept {folder}: something of it runs\n  try: tfdist down {job} ends it", cleaned.err)
        self.user.run("clean", "--yes", file).expect(0)  # its agent may be there still: that is waited for
        self.assertFalse(folder.exists())

    def test_clean_asks_and_removes_this_file_s_jobs_alone(self):
        jobs = self.user.folder / ".cache/tfdist/jobs"
        files = {name: self.user.write(f"{name}.toml", clusters.local(name, shell(script), slots=1))
                 for name, script in (("mine", "echo weights > model.ckpt"), ("theirs", "true"))}
        for file in files.values():
            self.user.run("up", file).expect(0)
        self.assert_nothing_left()
        mine, theirs = (next(jobs.glob(f"{name}-*")) for name in ("mine", "theirs"))
        listed = self.user.run("clean", "--dry-run", "--all", files["mine"])
        self.assertEqual(listed.code, 0, listed)
        self.assertRegex(listed.out, rf"\d+ KiB +job {mine.name}, slot 0: HAS FILES OF TASKS\n")
        kib = re.search(rf"(\d+) KiB +job {theirs.name}, slot 0\n", listed.out)
        self.assertLess(int(kib[1]), 1024, "the agent is counted once, in the cache that its link comes from")
        self.assertRegex(listed.out, r"\d+ \w+ +agents and caches, shared with all other jobs of this account\n")
        refused = self.user.run("clean", files["mine"])
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("there is no terminal to ask on", refused.err)
        terminal = self.user.start_on_terminal("clean", files["mine"])
        terminal.wait_for_text("remove these, files of tasks too? [y/N]")
        os.write(terminal.fd, b"\n")
        self.assertEqual(terminal.wait(), 0)
        self.assertIn("nothing was removed", terminal.text)
        self.assertTrue(mine.exists() and theirs.exists() and (jobs.parent / "bin").exists())
        terminal = self.user.start_on_terminal("clean", files["mine"])
        terminal.wait_for_text("[y/N]")
        os.write(terminal.fd, b"y\n")
        self.assertEqual(terminal.wait(), 0)
        self.assertEqual((mine.exists(), theirs.exists()), (False, True), terminal.text)
        self.assertFalse((jobs.parent / "bin").exists())
        self.user.run("clean", "--all", "--yes", files["mine"]).expect(0)
        self.assertFalse(jobs.parent.exists())

    def test_clean_marks_jobs_that_this_machine_did_not_start(self):
        file = self.user.write("mine.toml", clusters.local("mine", shell("true"), slots=1))
        self.user.run("up", file).expect(0)
        self.user.env["XDG_STATE_HOME"] = str(self.user.folder / "other")  # as on another machine of the account
        self.user.run("up", file).expect(0)
        self.assert_nothing_left()
        listed = self.user.run("clean", "-n", "-H", "localhost").expect(0).out
        rows = [line for line in listed.splitlines() if "job mine-" in line]
        self.assertEqual(sorted(row.endswith(": NOT IN THE LIST OF THIS MACHINE") for row in rows), [False, True], listed)
        self.assertIn("1 job from another machine, or forgotten here by prune: tfdist list does not have it\n", listed)
        items = json.loads(self.user.run("clean", "-n", "--json", "-H", "localhost").expect(0).out)["items"]
        self.assertEqual({item["known_here"] for item in items}, {True, False, None})
        terminal = self.user.start_on_terminal("clean", "-H", "localhost")
        terminal.wait_for_text("remove these, 1 job of another machine too? [y/N]")
        os.write(terminal.fd, b"\n")
        self.assertEqual(terminal.wait(), 0)

    def test_old_results_and_logs_stay_and_what_is_empty_goes_with_a_word(self):
        self.user.write("work/data", "numbers")
        for name, script in (("results", "echo weights > model.ckpt"), ("logs", "cat data"), ("empty", "true")):
            file = self.user.write(f"{name}.toml", clusters.local(
                name, shell(script), slots=1, task_extra='workdir = "work"'))
            self.user.run("up", file).expect(0)
        self.assert_nothing_left()
        jobs = self.user.folder / ".cache/tfdist/jobs"
        week_ago = time.time() - 8 * 24 * 3600
        for path in [*jobs.glob("*/h0"), *jobs.glob("*/h0/events.jsonl"), *jobs.glob("*/h0/tasks/*/*")]:
            os.utime(path, (week_ago, week_ago))
        empty = next(jobs.glob("empty-*")) / "h0"
        up = self.user.run("up", self.user.write("next.toml", clusters.local("next", shell("true"), slots=1)))
        self.assertEqual(up.code, 0, up)
        self.assertEqual(next(jobs.glob("results-*/run/work/model.ckpt")).read_text(), "weights\n")
        self.assertIn("| numbers\n", self.user.run("logs", next(jobs.glob("logs-*")).name).expect(0).out)
        self.assertFalse(empty.exists())
        self.assertIn(f"removed 1 old folder of finished jobs without files and output of tasks (127.0.0.1: {empty})", up.err)
        self.assertIn(f"removed {empty}", (self.user.slot_folder(0) / "agent.log").read_text())

    def test_replace_ends_the_old_job_first(self):
        self.user.write("work/.gitignore", "cache\n")
        self.user.write("work/cache", "cached")
        file = self.write(shell("echo old; sleep infinity"), task_extra='workdir = "work"')
        self.user.run("up", "-d", file).expect(0)
        old = self.user.job_id()
        text = pathlib.Path(file).read_text().replace("echo old", "echo new")
        replaced = self.user.run("up", "-d", "--replace", self.user.write("new.toml", text))
        self.assertEqual(replaced.code, 0, replaced)
        self.assertIn(f"job {old}: ended; nothing is left", replaced.err)
        self.assertEqual(replaced.err.count("left out by .gitignore"), 1, replaced.err)
        wait_for(lambda: "| new" in self.user.run("logs", "job").out, "the new job runs")
        self.user.run("down", "job").expect(0)

    def test_ctrl_c_while_a_job_from_elsewhere_is_looked_for_ends_up(self):
        file = self.write(shell("sleep infinity"))
        self.user.run("up", "-d", file).expect(0)
        # Another state folder: the job is looked for on its hosts, where `ls -A` does not come back, which only that look calls.
        self.user.env["XDG_STATE_HOME"] = str(self.user.folder / "elsewhere")
        gate = Gate(self)
        for name, options in (("join", []), ("replace", ["--replace"])):
            with self.subTest(name):
                # Of its own: another slot's `ls` of the round before may come late.
                asked = self.user.folder / name / "asked"
                ls = self.user.write(f"{name}/ls", f"#!/bin/sh\nif [ \"$1\" = -A ]; then\n: >{asked}\n{gate.wait}\nfi\nexec /bin/ls \"$@\"\n")
                os.chmod(ls, 0o700)
                self.user.env["PATH"] = f"{asked.parent}:{os.environ['PATH']}"
                terminal = self.user.start_on_terminal("up", *options, file)
                wait_for(asked.exists, "the look for the job")
                terminal.ctrl_c()
                self.assertEqual(terminal.wait(), 130, terminal.text)
                self.assertIn("tfdist: interrupted: nothing was started\r\n", terminal.text)

    def test_a_changed_program_is_another_plan(self):
        program = self.user.write("work/run.sh", "sleep infinity")
        file = self.write(["sh", "run.sh"], task_extra='workdir = "work"')
        self.user.run("up", "-d", file).expect(0)
        os.utime(program)  # the same content: the same plan
        self.user.run("up", "-d", file).expect(0)
        self.user.write("work/run.sh", "exec sleep infinity")
        self.user.write("work/data/new", "numbers")
        changed = self.user.run("up", "-d", file)
        self.assertEqual(changed.code, 4, changed)
        self.assertIn("  workdir changed: data/new (new), run.sh\n", changed.err)
        self.user.run("down", "job").expect(0)

    def test_what_gitignore_names_stays_here(self):
        self.user.write("work/.gitignore", ".venv/\n/data/\n")
        self.user.write("work/.venv/lib", "x" * 3000)
        self.user.write("work/data/train.csv", "numbers\n")
        self.user.write("work/run.sh", "find . -type f | sort")
        file = self.write(["sh", "run.sh"], slots=1, task_extra='workdir = "work"')
        result = self.user.run("up", file)
        self.assertEqual(result.code, 0, result)
        self.assertNotIn("train.csv", result.out)
        self.assertNotIn(".venv", result.out)
        said = "tfdist: workdir: 2 files, 35 bytes; left out by .gitignore: 3.0 kB (.venv 3.0 kB, data 8 bytes)\n"
        self.assertIn(said, result.err)
        self.assertIn(said, self.user.run("render", file).err)
        self.assertRegex(result.err, r"write a line such as !/\.venv/ into /\S+/work/\.tfdistignore\n")
        self.user.write("work/.tfdistignore", "!/data/\n")
        result = self.user.run("up", file)
        self.assertIn("./data/train.csv\n", result.out, result)
        self.assertNotIn(".venv/", result.out)

    def test_only_what_has_changed_is_sent(self):
        work = self.user.folder / "work"
        work.mkdir()
        for number in range(7):  # does not compress, and is more than one archive could once hold
            (work / f"data{number}").write_bytes(os.urandom(10_000_000))
        self.user.write("work/run.sh", "cat data* | sha256sum")
        file = self.write(["sh", "run.sh"], slots=1, task_extra='workdir = "work"')

        def sent():
            result = self.user.run("up", "--timeline", file)
            self.assertEqual(result.code, 0, result)
            content = b"".join(path.read_bytes() for path in sorted(work.glob("data*")))
            self.assertIn(hashlib.sha256(content).hexdigest(), result.out)
            return re.search(r"^files: (.*)$", result.err, re.MULTILINE)[1]

        self.assertEqual(sent(), "70 MB to 1 host, 70 MB sent")
        self.assertEqual(sent(), "nothing was sent")
        (work / "data3").write_bytes(os.urandom(10_000_000))
        self.assertEqual(sent(), "10 MB to 1 host, 10 MB sent")
        self.user.write("work/run.sh", "sha256sum <data0 >/dev/null; cat data* | sha256sum")
        self.assertRegex(sent(), r"^\d+ bytes to 1 host, \d+ bytes sent$")

    def test_values_of_the_user_s_variables_are_neither_shown_nor_kept(self):
        canary = f"canary-{os.urandom(8).hex()}"

        def write(value):
            return self.write(shell('[ "$TOKEN" ] && echo has it; sleep infinity'),
                              task_extra=f'env = {{ TOKEN = "{value}" }}')

        said = self.user.run("up", "-d", write(canary))
        self.assertEqual(said.code, 0, said)
        wait_for(lambda: "| has it" in self.user.run("logs").out, "a task has it")
        other = self.user.run("up", "-d", write("another"))
        self.assertEqual(other.code, 4, other)
        self.assertIn("  env.TOKEN of ps:[0-1], master:0, worker:0: another value\n", other.err)
        seen = [str(said), str(other), self.user.run("render", "--json", write(canary)).out]
        self.assertIn(canary, self.user.run("render", "--env", "ps:0", write(canary)).out)
        os.remove(self.user.folder / "cluster.toml")
        self.user.run("down").expect(0)
        self.assert_nothing_left()
        seen += [path.read_bytes().decode(errors="replace")
                 for path in self.user.folder.rglob("*") if path.is_file() and "bin" not in path.parts]
        self.assertGreater(len(seen), 10)
        for text in seen:
            self.assertNotIn(canary, text)

    def test_a_reader_that_leaves_does_not_end_the_job(self):
        gate = Gate(self)
        file = self.write(shell(f"echo line; {gate.wait}; echo line; sleep infinity"))
        cli = subprocess.Popen([str(BIN / "tfdist"), "up", file], env=self.user.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        cli.stdout.readline()
        cli.stdout.close()
        gate.open()
        self.assertEqual(cli.wait(60), 141)
        self.assertEqual(self.user.status("job")["state"], "running")
        self.user.run("down", "job").expect(0)

    def test_output_that_cannot_be_written_is_said_and_the_job_goes_on(self):
        file = self.write(shell("echo line; sleep infinity"))
        with open("/dev/full", "wb") as full:
            def run(*args):
                return subprocess.run([str(BIN / "tfdist"), *args], env=self.user.env, stdin=subprocess.DEVNULL,
                                      stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)

            up = run("up", file)
            self.assertEqual(up.returncode, 74, up)
            self.assertIn("tfdist: cannot write output: No space left on device; the job goes on", up.stderr)
            self.assertEqual(self.user.status("job")["state"], "running")
            joined = run("up", "-d", "-q", file)
            self.assertEqual(joined.returncode, 74, joined)
            self.assertIn(f"the job goes on: tfdist logs -f {self.user.status('job')['job']}", joined.stderr)
            for command in (("status",), ("list",), ("events", "--json"), ("logs",), ("render", file), ("--help",)):
                said = run(*command)
                self.assertEqual(said.returncode, 74, said)
                self.assertEqual("tfdist: cannot write output: No space left on device\n", without_waiting(said.stderr))
        self.user.run("down", "job").expect(0)

    def test_what_was_done_is_told_where_the_output_cannot_be_written(self):
        """`up -d` started a job of which nobody had the id; `clean --yes` removed what it could not list."""
        file = self.write(shell("echo line; sleep infinity"))

        def run(*args, redirect=">/dev/full"):
            return subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirect}', str(BIN / "tfdist"), *args], env=self.user.env,
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)

        for options, redirect in (((), ">/dev/full"), (("--quiet",), ">/dev/full"), (("--json",), ">&-")):
            with self.subTest(options=options, redirect=redirect):
                up = run("up", "-d", *options, file, redirect=redirect)
                self.assertEqual(up.returncode, 74, up)
                job = self.user.status("job")
                self.assertEqual(job["state"], "running")
                self.assertIn(f"; the job goes on: tfdist logs -f {job['job']}\n", up.stderr)
                down = run("down", "--json", "job")
                self.assertEqual(down.returncode, 74, down)
                self.assertIn(f"tfdist: job {job['job']}: ended; nothing is left on 1 host", down.stderr)
        told = run("exec", "-H", "localhost", "--gather", "--", "true")
        self.assertEqual((told.returncode, told.stderr), (74, "tfdist: cannot write output: No space left on device; the command has run\n"))
        told = run("clean", "--yes", file)
        self.assertEqual(told.returncode, 74, told)
        self.assertIn("No space left on device; nothing was removed on the hosts\n", told.stderr)
        told = run("clean", "--yes", "--json", file)
        self.assertEqual(told.returncode, 74, told)
        self.assertRegex(told.stderr, r"No space left on device; \d+ folders were removed on the hosts\n")
        told = run("prune")
        self.assertEqual(told.returncode, 74, told)
        self.assertIn("No space left on device; forgot 3 of 3 jobs\n", told.stderr)

    def test_closed_streams_are_no_interrupt(self):
        """The pipe of signals must not have the number of a stream: what was printed was taken for Ctrl-C."""
        file = self.write(shell("echo line; sleep infinity"))
        up = subprocess.run(["sh", "-c", 'exec "$0" up "$1" <&- >&-', str(BIN / "tfdist"), file], env=self.user.env,
                            stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(up.returncode, 74, up)
        self.assertIn("the job goes on", up.stderr)
        self.assertEqual(self.user.status("job")["state"], "running")
        self.user.run("down", "job").expect(0)

    def test_an_error_that_cannot_be_printed_still_has_its_exit_code(self):
        with open("/dev/full", "wb") as full:
            for command, code in ((("nonsense",), 2), (("up",), 2), (("status", "nonsense"), 4)):
                ended = subprocess.run([str(BIN / "tfdist"), *command], env=self.user.env, stderr=full, timeout=60)
                self.assertEqual(ended.returncode, code, ended)

    def test_an_internal_error_has_an_exit_code_of_its_own(self):
        """Here: too few descriptors for a pipe."""
        def run(*command, descriptors):
            def limit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

            return subprocess.run(command, env=self.user.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60, preexec_fn=limit)

        # The loader itself needs a fourth one, for one library after the other.
        up = run(BIN / "tfdist", "up", self.write(shell("true")), descriptors=4)
        self.assertEqual((up.returncode, up.stderr), (70, "tfdist: internal: pipe: Too many open files\n"))
        keeper = run(BIN / "tfdist-agent", "keeper", self.user.folder, "0", "0", "0", "0", "0", "18", "0", descriptors=5)
        log = (self.user.folder / "agent.log").read_text()
        self.assertEqual(keeper.returncode, 70, log)
        self.assertIn(": internal: ", log)

    def test_output_that_is_not_utf8_comes_back_as_it_was(self):
        file = self.write(shell(r"printf 'a\377\376\000b\n'"))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_ended()
        logs = self.user.run_bytes("logs", "--raw", "job", "master:0")
        self.assertEqual(logs, b"a\xff\xfe\x00b\n")

    def test_a_task_that_fails_fails_the_job_and_is_named(self):
        file = self.write(shell('case $TFDIST_TASK in worker:0) echo "cannot read data" >&2; exit 7;; esac; sleep infinity'))
        result = self.user.run("up", file)
        self.assertEqual(result.code, 1, result)
        self.assertIn("first to fail: worker:0 on 127.0.0.1: exit code 7", result.err)
        self.assertIn("    cannot read data", result.err)
        self.assert_nothing_left()

    def test_a_command_that_does_not_exist_is_found_before_anything_runs(self):
        file = self.write(["no-such-program"])
        result = self.user.run("up", file)
        self.assertEqual(result.code, 3, result)
        self.assertIn("127.0.0.1: command: ", result.err)
        self.assertIn("no-such-program", result.err)
        self.assert_nothing_left()

    def test_a_taken_port_is_named(self):
        import socket

        with socket.socket() as taken:
            taken.bind(("", 0))
            taken.listen()
            port = taken.getsockname()[1]
            text = clusters.local("job", shell("true"), slots=1).replace("worker = ", f"worker = {port} # ")
            lines = [l for l in text.splitlines() if not l.startswith("ports")]
            lines.insert(lines.index('layout = "uai"'), f"ports = {{ worker = {port}, ps = {clusters.free_ports(1)} }}")
            result = self.user.run("up", self.user.write("cluster.toml", "\n".join(lines)))
        self.assertEqual(result.code, 3, result)
        self.assertIn(f"ports: port {port}", result.err)
        self.assert_nothing_left()

    def test_a_daemon_that_a_task_leaves_behind_is_ended(self):
        name = f"escaped-{os.getpid()}"
        escape = ("import os,time\n"
                  "if os.fork() == 0:\n"
                  " os.setsid()\n"
                  " if os.fork() == 0:\n"
                  f"  os.execve('/bin/sleep', ['{name}', 'infinity'], {{}})\n"
                  " os._exit(0)\n"
                  "os.wait()\n")
        program = self.user.write("escape.py", escape)
        file = self.write(shell(f"exec python3 {program}"))
        result = self.user.run("up", file)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(processes.matching(f"{name} infinity"), {})
        self.assert_nothing_left()

    def test_up_detached_then_status_logs_list_and_down_from_elsewhere(self):
        file = self.write(shell("echo ready; sleep infinity"))
        started = self.user.run("up", "-d", file)
        self.assertEqual(started.code, 0, started)
        wait_for(lambda: self.user.run("logs", "job").out.count(":0 | ready") == 2, "both trainers' lines")
        status = self.user.run("status", "job")
        self.assertIn("running", status.out)
        self.assertIn(self.user.job_id(), self.user.run("list").out)
        self.assertIn("worker:0", self.user.run("logs", "job", "worker:0").out)
        of_workers = self.user.run("logs", "worker")  # no job is called that: a task type of the newest job
        self.assertEqual((of_workers.code, of_workers.out), (0, "worker:0 | ready\n"), of_workers)
        self.user.run("logs", "nothing").expect(4)
        down = self.user.run("down", "job")
        self.assertEqual(down.code, 0, down)
        self.assert_nothing_left()
        again = self.user.run("down", "job")
        self.assertEqual(again.code, 0, again)
        self.assertIn("ready", self.user.run("logs", "job", "worker:0").out)
        self.assertIn("ended: stopped", self.user.run("events", "job").out)

    def test_a_killed_cli_leaves_the_job_to_finish(self):
        gate = Gate(self)
        file = self.write(shell(f"echo begin; {gate.wait}; echo end"))
        cli = self.user.start("up", file)
        self.user.wait_for_output(cli, b"begin")
        cli.kill()
        cli.wait()
        gate.open()
        self.assertEqual(self.user.wait_until_ended()["result"], "succeeded")
        self.assertIn("master:0 | begin\nmaster:0 | end\n", self.user.run("logs", "job", "master:0").out)
        self.assert_nothing_left()

    def test_down_ends_a_job_whose_folder_was_removed(self):
        self.user.run("up", "-d", self.write(shell("sleep infinity"))).expect(0)
        self.user.wait_until_tasks_run()
        cache = self.user.folder / ".cache"

        def removed():  # the agents write while we remove
            shutil.rmtree(cache, ignore_errors=True)
            return not cache.exists()

        wait_for(removed, "the folder is gone")
        down = self.user.run("down", "job").expect(0)
        self.assertIn("the job's folder is not where it was", down.err)
        self.assert_nothing_left()

    def test_a_name_is_free_as_soon_as_its_job_has_ended(self):
        file = self.write(shell("echo done"))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_ended()
        first = self.user.job_id()
        again = self.user.run("up", file)
        self.assertEqual(again.code, 0, again)
        self.assertNotEqual(self.user.job_id(), first)
        self.assertNotIn("runs already", again.err)

    def test_a_reader_of_a_finished_job_may_leave(self):
        result = self.user.run("up", self.write(shell("seq 100000")))
        self.assertEqual(result.code, 0, result.err)
        logs = subprocess.Popen([str(BIN / "tfdist"), "logs", "job"], env=self.user.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        logs.stdout.readline()
        logs.stdout.close()
        self.assertEqual((logs.wait(60), logs.stderr.read()), (0, b""))
        logs.stderr.close()

    def test_ctrl_c_in_a_terminal_ends_the_job(self):
        file = self.write(shell("echo begin; sleep infinity"))
        terminal = self.user.start_on_terminal("up", file)
        terminal.wait_for_text("master:0 | \x1b[0mbegin")
        self.assertRegex(terminal.text, r"\x1b\[\d+mmaster:0 \| \x1b\[0mbegin")  # the prefix in colour
        terminal.ctrl_c()
        self.assertEqual(terminal.wait(), 130)
        self.assertIn("stopped", terminal.text)
        self.assert_nothing_left()

    def test_up_again_joins_its_job_where_home_is_in_the_workdir(self):
        """tfdist's own folders are in it then, and change: they are no part of what is sent."""
        self.user.write("home/.cache/of-another-program", "x")
        self.user.env["HOME"] = str(self.user.folder / "home")
        up = ("up", "-d", "-H", "localhost:2", "--name", "here", "--", "sleep", "infinity")
        first = self.user.run(*up).expect(0)
        self.assertIn("workdir: 1 file, 1 byte", first.err)
        for _ in range(2):
            self.assertIn("runs already, from this plan\n", self.user.run(*up).expect(0).err)
        self.user.run("restart", "here").expect(0)
        self.user.run("down", "here").expect(0)

    def test_up_again_joins_the_same_plan_and_refuses_another(self):
        file = self.write(shell("echo ready; sleep infinity"))
        self.user.run("up", "-d", file).expect(0)
        same = self.user.run("up", "-d", file)
        self.assertEqual(same.code, 0, same)
        self.assertIn("runs already", same.err)
        text = pathlib.Path(file).read_text().replace("echo ready", "echo other")
        other = self.user.run("up", "-d", self.user.write("other.toml", text))
        self.assertEqual(other.code, 4, other)
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    def test_a_crash_of_the_command_leaves_no_core_file(self):
        """It holds keys for a moment."""
        self.user.run("up", "-d", self.write(shell("echo ready; sleep infinity"))).expect(0)
        commands = {"control": ["sh", "-c", "echo ready; sleep 60"],
                    "tfdist": [str(BIN / "tfdist"), "logs", "-f", "job", "master:0"]}
        cores = {}
        for name, argv in commands.items():
            folder = self.user.folder / name
            folder.mkdir()
            unlimited = lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
            with subprocess.Popen(argv, env=self.user.env, cwd=folder, stdout=subprocess.PIPE,
                                  preexec_fn=unlimited) as process:
                self.assertIn(b"ready", process.stdout.readline())
                process.send_signal(signal.SIGSEGV)
                _, status = os.waitpid(process.pid, 0)
                process.returncode = -os.WTERMSIG(status)
            self.assertEqual(os.WTERMSIG(status), signal.SIGSEGV)
            cores[name] = os.WCOREDUMP(status)
        self.user.run("down").expect(0)
        self.assertFalse(cores["tfdist"])
        if not cores["control"]:
            self.skipTest("this machine dumps no core at all")

    def test_ctrl_c_in_an_up_that_joined_leaves_the_job_running(self):
        file = self.write(shell("echo ready; sleep infinity"))
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run()
        joined = self.user.start_on_terminal("up", file)
        joined.wait_for_text("joining it; Ctrl-C leaves it running")
        joined.wait_for_text("ready\r\n")
        joined.ctrl_c()
        self.assertEqual(joined.wait(), 130, joined.text)
        self.assertIn("leaving; the job goes on", joined.text)
        self.assertEqual(self.user.status()["state"], "running")
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    def test_up_again_joins_and_replaces_a_job_whose_tasks_listen(self):
        """Every slot but the first, which tells that the job runs, finds its ports in use."""
        listen = ("import json,os,signal,socket\n"
                  "config = json.loads(os.environ['TF_CONFIG'])\n"
                  "address = config['cluster'][config['task']['type']][config['task']['index']]\n"
                  "server = socket.create_server(('127.0.0.1', int(address.rpartition(':')[2])))\n"
                  "print('listening', flush=True)\n"
                  "signal.pause()\n")
        file = self.write(["python3", self.user.write("listen.py", listen)])

        def all_listen():
            return self.user.run("logs", "job").out.count("| listening\n") == 4

        self.user.run("up", "-d", file).expect(0)
        wait_for(all_listen, "all tasks listen")
        job = self.user.job_id()
        same = self.user.run("up", "-d", file)
        self.assertEqual(same.code, 0, same)
        self.assertIn("runs already, from this plan\n", same.err)
        replaced = self.user.run("up", "-d", "--replace", file)
        self.assertEqual(replaced.code, 0, replaced)
        self.assertIn(f"job {job}: ended; nothing is left", replaced.err)
        wait_for(all_listen, "all tasks of the new job listen")
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    def test_replace_leaves_the_job_alone_where_the_new_one_could_not_start(self):
        running = self.start_job("job")
        file = pathlib.Path(next(self.user.folder.glob("job-*.toml")))
        pathlib.Path(self.user.write("train", "train")).chmod(0o755)
        self.user.write("links/x", "")
        (self.user.folder / "links/link.py").symlink_to("/no/train.py")
        with socket.create_server(("127.0.0.1", 0)) as stranger:
            port = stranger.getsockname()[1]
            for name, text, why in (
                    ("mistyped.toml", clusters.local("job", ["pyhton3", "train.py"], slots=1), "command 'pyhton3' of "),
                    ("within.toml", clusters.local("job", ["env", "A=1", "nohup", "pyhton3"], slots=1), "command 'pyhton3' of "),
                    ("shell.toml", clusters.local("job", ["sh", "-c", "exec pyhton3 x >y"], slots=1), "command 'pyhton3' of "),
                    ("module.toml", clusters.local("job", ["python3", "-m", "trian"], slots=1), "python3 has no module trian\n"),
                    ("script.toml", clusters.local("job", ["env", "A=1", "python3", "-u", "/no/train.py"], slots=1), "python3 cannot open /no/train.py: No such"),
                    ("kept.toml", clusters.local("job", ["bash", "{keep}/train.sh"], slots=1), "/keep/job/train.sh: No such file or directory\n"),
                    ("link.toml", clusters.local("job", ["python3", "link.py"], slots=1, task_extra='workdir = "links"'), "python3 cannot open link.py: No such"),
                    ("option.toml", clusters.local("job", ["python3", "-Z", "/no/train.py"], slots=1), "python3 has no option -Z\n"),
                    ("text.toml", clusters.local("job", [str(self.user.folder / "train")], slots=1), "/train: neither a program for Linux nor a script"),
                    ("taken.toml", re.sub(r"worker = \d+", f"worker = {port}", file.read_text()), f"port {port} of master:0 is in use")):
                with self.subTest(name):
                    refused = self.user.run("up", "-d", "--replace", self.user.write(name, text))
                    self.assertEqual(refused.code, 3, refused)
                    self.assertIn(why, refused.err)
                    self.assertIn("nothing was started", refused.err)
                    self.assertEqual(self.user.status(running)["state"], "running")
        for name, text, why in (
                ("input.toml", clusters.local("job", ["python3"], slots=1), "runs python3 without a script: "),
                ("shell.toml", clusters.local("job", ["bash", "-l"], slots=1), "runs bash without a script: "),
                ("unsent.toml", clusters.local("job", ["nohup", "python3", "train.py"], slots=1), "no workdir is sent: "),
                ("outside.toml", clusters.local("job", ["launcher", "trian.py"], slots=1, task_extra='workdir = "empty"'),
                 "there is no trian.py in the workdir ")):
            with self.subTest(name):
                self.user.write("empty/x", "")
                refused = self.user.run("up", "-d", "--replace", self.user.write(name, text)).expect(2)
                self.assertRegex(refused.err, f"{why}.*: nothing was started, and job {running} runs on\n  try: .*; if the "
                                 f"command is right, tfdist down {running} first\n")
                self.assertEqual(self.user.status(running)["state"], "running")
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    def test_replace_starts_nothing_where_down_has_ended_the_job_meanwhile(self):
        self.start_job("job")
        slow = clusters.local("job", ["sleep", "infinity"], slots=1) + '\n[setup]\ncommand = ["sleep", "9"]\n'
        up = self.user.start("up", "-d", "--replace", self.user.write("slow.toml", slow))
        wait_for(lambda: "waiting for " in up.err.read_text(), "the set-up of the new one")
        self.user.run("down", "job").expect(0)
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        self.assertIn("was ended by tfdist down meanwhile: nothing was started in its place\n", up.err.read_text())
        self.assert_nothing_left()

    def start_packing(self, *options, gib=5):
        """`up` of a folder whose one file takes seconds to read."""
        project = self.user.folder / "project"
        project.mkdir()
        with open(project / "large", "wb") as large:
            large.truncate(gib << 30)
        text = clusters.local("job", ["sleep", "infinity"], slots=1, task_extra=f'workdir = "{project}"')
        up = self.user.start("up", "-d", *options, self.user.write("packing.toml", text))
        wait_for(lambda: "packing" in up.err.read_text(), lambda: f"it packs: {up.err.read_text()}")
        return up

    def assert_packing_was_ended(self, up, why):
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        self.assertIn(f"{why}\ntfdist: nothing was started\n", up.err.read_text())
        self.assert_nothing_left()
        self.assertEqual(len(json.loads(self.user.run("list", "--json").expect(0).out)), 1)

    def test_down_ends_an_up_that_packs(self):
        """The only record of that name was yesterday's."""
        yesterday = self.start_job("job")
        self.user.run("down").expect(0)
        up = self.start_packing()
        down = self.user.run("down", "job").expect(0)
        self.assertNotIn(yesterday, down.err)
        self.assert_packing_was_ended(up, "tfdist: ended by tfdist down")

    def test_down_ends_an_up_that_packs_while_another_job_has_its_name(self):
        for options in ((), ("--replace",)):
            with self.subTest(options):
                running = self.start_job("job")
                up = self.start_packing(*options, gib=50)  # for longer than it is waited for
                self.user.run("down", "job").expect(0)
                self.assertEqual(up.wait(60), 130, up.err.read_text())
                self.assertIn(f"tfdist: job {running} was ended by tfdist down meanwhile: nothing was started in its "
                              "place\n", up.err.read_text())
                self.assert_nothing_left()
                shutil.rmtree(self.user.folder / "project")

    def test_who_looks_means_the_job_that_runs_not_one_that_packs(self):
        for name, words in (("other", []), ("job", []), ("job", ["job"])):
            with self.subTest(running=name, named=words):
                running = self.start_job(name)
                up = self.start_packing()
                self.assertEqual(self.user.status(*words)["job"], running)
                up.send_signal(signal.SIGINT)
                self.assertEqual(up.wait(60), 130, up.err.read_text())
                self.user.run("down", running).expect(0)
                shutil.rmtree(self.user.folder / "project")

    def start_stopped_packing(self):
        """`up` that packs until it gets SIGCONT, and what others say of its job."""
        up = self.start_packing()
        up.send_signal(signal.SIGSTOP)
        return up, rf"`up` \(pid {up.pid} on \S+, for \d+s\) has not started it yet"

    def test_who_looks_at_a_job_that_its_up_packs_is_told_so(self):
        up, told = self.start_stopped_packing()
        for words in (["status"], ["describe"], ["why"], ["events"], ["logs"], ["logs", "-n", "1"]):
            with self.subTest(words):
                said = self.user.run(*words, "job").expect(0)
                self.assertRegex(said.out + said.err, rf"job job-\S+: (starting: )?{told}")
        for command in ("status", "why"):
            with self.subTest(command, json=True):
                said = json.loads(self.user.run(command, "--json", "job").expect(0).out)
                self.assertEqual(said["state"], "starting")
                self.assertRegex(said["why"], told)
        for words in (["pull", "job"], ["exec", "job", "master:0", "--", "true"], ["shell", "job", "ps:0"], ["restart", "job"], ["tensorboard", "job"],
                      ["logs", "--save", "saved", "job"]):
            with self.subTest(words):
                self.assertRegex(self.user.run(*words).expect(4).err, told)
        self.assertIn("has not ended in 1s\n", self.user.run("wait", "--timeout", "1s", "job").expect(124).err)
        up.send_signal(signal.SIGCONT)
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130, up.err.read_text())

    def test_who_waits_for_a_job_whose_hosts_its_up_sets_up_waits_until_it_begins(self):
        gate = self.user.folder / "gate"
        setup = f'\n[setup]\ncommand = ["sh", "-c", "until [ -e {gate} ]; do sleep 0.1; done"]\n'
        up = self.user.start("up", "-d", self.user.write("setup.toml", clusters.local("job", ["sleep", "infinity"], slots=1) + setup))
        told = rf"`up` \(pid {up.pid} on \S+, for \d+s\) has not started it yet"
        wait_for(lambda: "waiting for " in up.err.read_text(), "it sets hosts up")
        self.assertRegex(self.user.run("status", "job").expect(0).out, told)
        followers = [self.user.start(*words) for words in (["wait", "job"], ["logs", "-f", "job"], ["top", "job"])]
        left = self.user.start("wait", "job")
        for follower in (*followers, left):
            wait_for(lambda one=follower: re.search(told, one.err.read_text()), lambda one=follower: one.err.read_text())
        left.send_signal(signal.SIGINT)
        self.assertEqual(left.wait(60), 130)
        self.assertRegex(left.err.read_text(), r"tfdist: interrupted: job \S+ has not begun; its `up` goes on\n")
        gate.touch()
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        wait_for(lambda: "running" in followers[2].out.read_text(), "top shows the job")
        self.user.run("down", "job").expect(0)
        self.assertEqual([follower.wait(30) for follower in followers], [1, 0, 0], [one.err.read_text() for one in followers])
        self.assert_nothing_left()

    def test_who_waits_for_a_job_that_its_up_gives_up_is_told_so(self):
        up, told = self.start_stopped_packing()
        waits = self.user.start("wait", "job")
        follows = self.user.start("logs", "-f", "job")
        for one in (waits, follows):
            wait_for(lambda one=one: re.search(told, one.err.read_text()), lambda one=one: one.err.read_text())
        up.send_signal(signal.SIGCONT)
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        self.assertEqual([waits.wait(60), follows.wait(60)], [1, 4])
        for one in (waits, follows):
            self.assertIn("not started: its `up` ended before it had started it\n", one.err.read_text())

    def test_ctrl_c_ends_an_up_whose_job_of_the_same_plan_is_silent(self):
        running = self.start_job("job")
        file = str(next(self.user.folder.glob("job-*.toml")))
        agents = [pid for pid, command in self.user.left().items() if "tfdist-agent" in command]
        for pid in agents:
            processes.kill(pid, signal.SIGSTOP)
        try:
            up = self.user.start("up", "-d", file)
            wait_for(lambda: processes.children(up.pid), "it asks the job's host")
            begun = time.monotonic()
            up.send_signal(signal.SIGINT)
            self.assertEqual(up.wait(60), 130, up.err.read_text())
            self.assertLess(time.monotonic() - begun, 8)  # of the ten for which it would have asked
            self.assertIn("tfdist: interrupted\ntfdist: nothing was started\n", up.err.read_text())
        finally:
            for pid in agents:
                processes.kill(pid, signal.SIGCONT)
        self.user.run("down", running).expect(0)

    def test_ctrl_c_ends_an_up_that_packs(self):
        self.start_job("job")
        self.user.run("down").expect(0)
        up = self.start_packing(gib=50)  # for longer than it is waited for
        up.send_signal(signal.SIGINT)
        self.assert_packing_was_ended(up, "tfdist: interrupted")

    def start_blocked_unpacking(self, *options):
        """`up` whose tar(1) unpacks for ever, and this tar's pid."""
        pid = self.user.folder / "tar-pid"
        tar = self.user.write("bin/tar", f'#!/bin/sh\n[ "$1" = -x ] || exec {shutil.which("tar")} "$@"\n'
                              f"echo $$ >{pid}.part; mv {pid}.part {pid}; exec sleep infinity\n")
        os.chmod(tar, 0o700)
        self.user.env["PATH"] = f"{os.path.dirname(tar)}:{self.user.env['PATH']}"
        self.user.write("work/file", "content")
        up = self.user.start("up", *options, self.user.write("unpacks.toml", clusters.local("job", ["true"], slots=1, task_extra='workdir = "work"')))
        wait_for(pid.exists, lambda: f"the host unpacks: {up.err.read_text()}")
        return up, int(pid.read_text())

    def test_ctrl_c_ends_an_up_whose_host_unpacks(self):
        up, tar = self.start_blocked_unpacking()
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        self.assertIn("tfdist: interrupted: rolling back\ntfdist: nothing was started\n", up.err.read_text())
        self.assertFalse(processes.alive(tar))
        self.assert_nothing_left()
        self.assertEqual(list((self.user.folder / ".cache/tfdist/jobs").iterdir()), [])

    def test_an_up_that_rolls_back_names_a_silent_host_after_a_second(self):
        up, _ = self.start_blocked_unpacking("-q")
        agents = [pid for pid, argv in processes.matching(str(self.user.folder)).items() if "agent" in argv]
        self.assertTrue(agents)
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)
        up.send_signal(signal.SIGINT)
        wait_for(lambda: re.search(r"rolling back\ntfdist: [1-4] s: waiting for 127\.0\.0\.1: roll back\n", up.err.read_text()),
                 lambda: up.err.read_text())
        for pid in agents:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        self.assert_nothing_left()

    def test_ctrl_c_between_the_end_of_the_old_job_and_the_new_one_is_heard(self):
        """Many records make that moment long."""
        running = self.start_job("job")
        records = self.user.folder / ".local/state/tfdist/jobs"
        record = json.loads((records / f"{running}.json").read_text())
        for number in range(3000):
            other = f"other-20260101T000000Z-{number:06x}"
            (records / f"{other}.json").write_text(json.dumps(dict(record, id=other, name="other")))
        up = self.user.start("up", "-d", "--replace", self.user.write("next.toml", clusters.local("job", ["sleep", "300"], slots=1)))
        wait_for(lambda: f"job {running}: ended" in up.err.read_text(), lambda: up.err.read_text())
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(30), 130, up.err.read_text())
        self.assertRegex(up.err.read_text(), f"tfdist: interrupted\ntfdist: nothing was started, and job {running} was ended for it\n")
        self.assert_nothing_left()

    @unittest.skipIf(os.geteuid() != 0, "needs root to become another account")
    def test_replace_believes_no_other_account_that_has_a_port_of_the_job(self):
        """The job plans the port, and does not listen on it."""
        running = self.start_job("job")
        file = pathlib.Path(next(self.user.folder.glob("job-*.toml")))
        port = int(re.search(r"worker = (\d+)", file.read_text()).group(1))
        with self.listener_of_another_account(port):
            refused = self.user.run("up", "-d", "--replace", file)
            self.assertEqual(refused.code, 3, refused)
            self.assertIn(f"port {port} of master:0 is in use", refused.err)
            self.assertEqual(self.user.status(running)["state"], "running")
        self.user.run("down").expect(0)

    @unittest.skipIf(os.geteuid() != 0, "needs root to become another account")
    def test_up_does_not_wait_for_another_accounts_program_that_is_called_as_a_check_is(self):
        program = self.user.folder / "bin" / ("0" * 64)
        program.parent.mkdir()
        shutil.copy(os.path.realpath(sys.executable), program)
        text = clusters.local("job", shell("true"), slots=1)
        port = int(re.search(r"worker = (\d+)", text).group(1))
        with self.listener_of_another_account(port, program):
            up = self.user.run("up", "-d", self.user.write("cluster.toml", text)).expect(3)
            self.assertRegex(up.err, rf"port {port} of \S+ is in use by pid ")

    def test_replace_leaves_the_job_alone_where_the_coordinator_could_not_listen(self):
        running = self.start_job("job")
        file = pathlib.Path(next(self.user.folder.glob("job-*.toml")))
        with socket.create_server(("127.0.0.1", 0)) as stranger:
            port = stranger.getsockname()[1]
            text = f"{file.read_text()}\n[control]\nport = {port}\n"
            refused = self.user.run("up", "-d", "--replace", self.user.write("control.toml", text))
            self.assertEqual(refused.code, 3, refused)
            self.assertIn(f"the coordinator's port 127.0.0.1:{port} is in use by pid {os.getpid()} ", refused.err)
            self.assertEqual(self.user.status(running)["state"], "running")
        for time in ("first", "again"):  # then its own coordinator has it
            replaced = self.user.run("up", "-d", "--replace", self.user.folder / "control.toml")
            self.assertEqual(replaced.code, 0, f"{time}: {replaced}")
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    @contextlib.contextmanager
    def listener_of_another_account(self, port, program=sys.executable):
        code = ("import os, socket, sys; os.setuid(65534); server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); "
                "print('listening', flush=True); sys.stdin.read()")
        with subprocess.Popen([program, "-c", code, str(port)], env=os.environ | {"PYTHONHOME": sys.base_prefix}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"listening\n")
            try:
                yield
            finally:
                process.stdin.close()

    def test_replace_of_a_job_whose_port_no_process_of_it_seems_to_hold(self):
        """As with a container that has the host's network."""
        listen = ("import json,os,sys\n"
                  "config = json.loads(os.environ['TF_CONFIG'])\n"
                  "address = config['cluster'][config['task']['type']][config['task']['index']]\n"
                  "code = ('import signal,socket,sys; server = socket.create_server((\"127.0.0.1\", int(sys.argv[1]))); '\n"
                  "        'print(\"listening\", flush=True); signal.pause()')\n"
                  "os.execve(sys.executable, [sys.executable, '-c', code, address.rpartition(':')[2]], {})\n")
        file = self.user.write("cluster.toml", clusters.local(
            "job", ["python3", self.user.write("listen.py", listen)], slots=1))
        self.user.run("up", "-d", file).expect(0)
        wait_for(lambda: self.user.run("logs", "job").out.count("| listening\n") == 2, "the tasks listen")
        job = self.user.job_id()
        replaced = self.user.run("up", "-d", "--replace", file)
        self.assertEqual(replaced.code, 0, replaced)
        self.assertIn(f"job {job}: ended; nothing is left", replaced.err)
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    ELSEWHERE = '\n[ssh]\nremote_dir = "~/elsewhere"\n'

    def test_replace_and_down_of_a_file_mean_its_own_hosts_by_all_settings(self):
        running = self.start_job("twin")
        other = self.user.write("other.toml", clusters.local("twin", shell("sleep infinity"), slots=1) + self.ELSEWHERE)
        for options in ([], ["--purge"]):
            self.user.run("down", *options, other).expect(4)
            self.assertEqual(self.user.status(running)["state"], "running")
        replaced = self.user.run("up", "-d", "--replace", other)
        self.assertEqual(replaced.code, 0, replaced)
        self.assertIn(f"job {running} runs beside this one, on 127.0.0.1: ", replaced.err)
        self.assertEqual(self.user.status(running)["state"], "running")
        self.user.run("down", other).expect(0)
        self.assertEqual(self.user.status(running)["state"], "running")
        self.user.run("down", running).expect(0)
        self.assert_nothing_left()

    def test_a_host_cannot_speak_for_a_job_of_the_same_name_on_other_hosts(self):
        victim = self.start_job("twin", extra=self.ELSEWHERE)
        record = self.user.folder / f".local/state/tfdist/jobs/{victim}.json"
        before = record.read_text()
        lock = self.user.folder / ".cache/tfdist/names/twin.lock"
        lock.parent.mkdir(parents=True)
        lock.write_text(json.dumps({"job": victim, "plan_sha256": "0" * 64}))
        with open(lock, encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for options in (["--replace"], []):
                refused = self.user.run("up", "-d", *options, self.user.write("twin.toml", clusters.local("twin", shell("true"), slots=1)))
                self.assertEqual(refused.code, 3, refused)
                self.assertIn(f"job {victim} runs there, which this machine has started elsewhere", refused.err)
                self.assertNotIn("tfdist down", refused.err)
        self.assertEqual(record.read_text(), before)
        self.assertEqual(self.user.status(victim)["state"], "running")
        self.user.run("down").expect(0)

    def test_a_host_cannot_have_a_job_of_another_name_ended(self):
        victim = self.start_job("victim")
        lock = self.user.folder / ".cache/tfdist/names/other.lock"
        lock.write_text(json.dumps({"job": victim, "plan_sha256": "0" * 64}))
        with open(lock, encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for options in (["--replace"], []):
                refused = self.user.run("up", "-d", *options, self.user.write("other.toml", clusters.local("other", shell("true"), slots=1)))
                self.assertEqual(refused.code, 3, refused)
                self.assertIn(f"the host says that job {victim} has the name other", refused.err)
                self.assertNotIn("tfdist down", refused.err)
        self.assertEqual(self.user.status(victim)["state"], "running")
        self.user.run("down").expect(0)

    def start_job(self, name, script="sleep infinity", extra=""):
        """Detached, on one slot; its id."""
        text = clusters.local(name, shell(script), slots=1) + extra
        up = self.user.run("up", "-d", self.user.write(f"{name}-{len(extra)}.toml", text))
        self.assertEqual(up.code, 0, up)
        return re.search(r"job (\S+):", up.out).group(1)

    def test_without_a_name_the_job_that_runs_is_meant(self):
        long = self.start_job("long")
        self.start_job("short", "true")
        self.user.wait_until_ended("short")
        self.assertEqual(self.user.status()["job"], long)
        self.assertIn(f"tfdist: job {long}\n", self.user.run("logs").expect(0).err)
        down = self.user.run("down")
        self.assertEqual(down.code, 0, down)
        self.assertIn(f"job {long}: ended", down.err)
        self.assertEqual(self.user.status("long")["state"], "stopped")
        self.assertEqual(self.user.status()["name"], "short")  # none runs: the newest

    def test_of_several_running_jobs_none_is_ended_by_mistake(self):
        first, second = self.start_job("first"), self.start_job("second")
        down = self.user.run("down")
        self.assertEqual(down.code, 2, down)
        self.assertIn(f"2 jobs run: {second} (127.0.0.1), {first} (127.0.0.1)", down.err)
        self.assertEqual(self.user.status()["job"], second)
        for job in (first, second):
            self.assertEqual(self.user.status(job)["state"], "running")
        self.user.run("down", "first").expect(0)
        self.user.run("down").expect(0)
        self.assertEqual(self.user.status(second)["state"], "stopped")

    def test_a_record_that_cannot_be_read_is_not_a_job_that_is_not_there(self):
        job = self.start_job("job", "sleep 60")
        [record] = self.user.folder.rglob("jobs/*.json")
        whole = record.read_bytes()
        for content, cause in ((whole[:100], "it is damaged"),
                               (whole.replace(b'"version": 2', b'"version": 99'), "it was written by another version of tfdist")):
            with self.subTest(cause):
                record.write_bytes(content)
                listed = self.user.run("list").expect(3)
                self.assertEqual(listed.out, "no job is known on this machine, but for 1 record that cannot be read\n")
                self.assertEqual(listed.err, f"tfdist: warning: {record} cannot be read as the record of a job: {cause}\n  try: the job's hosts "
                                             "know it: tfdist list -H HOST, and commands take -H as well; or remove the file\n")
                down = self.user.run("down", job).expect(4)
                self.assertIn(f"no job {job} is known on this machine, but for 1 record that cannot be read\n", down.err)
                self.assertEqual(down.err.count("warning"), 1)
        record.write_bytes(whole)
        self.user.run("down", job).expect(0)

    @unittest.skipIf(os.geteuid() != 0, "needs root to give a folder away")
    def test_no_command_runs_what_another_account_has_put_where_the_job_was(self):
        open_to_all = self.user.folder / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o1777)  # as /tmp
        job = self.start_job("job", "echo text >file", f'\n[ssh]\nremote_dir = "{open_to_all}"\n')
        file = str(next(self.user.folder.glob("job-*.toml")))
        self.user.wait_until_ended(job)
        wait_for(lambda: not self.user.left(), "the agents have left")
        shutil.rmtree(open_to_all / "tfdist")
        slot = open_to_all / "tfdist/jobs" / job / "h0"
        slot.mkdir(parents=True)
        (slot / "agent").write_text(f"#!/bin/sh\ntouch {self.user.folder}/ran\necho end\n")
        (slot / "agent").chmod(0o755)
        for folder, _, names in os.walk(open_to_all / "tfdist"):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(path, 12345, 12345)
        for words in (["pull", job], ["exec", job, "master:0", "--", "true"], ["shell", job, "master:0"], ["logs", job],
                      ["why", job], ["events", job], ["top", "-n", "1", job], ["restart", job], ["tensorboard", job],
                      ["down", job], ["down", "--purge", job], ["clean", "--yes", file], ["up", file]):
            with self.subTest(words=words):
                done = self.user.run(*words)
                tells_the_end = words[0] in ("why", "events", "top")  # from this machine's record
                self.assertEqual(done.code == 0, words[0] in ("why", "top"), done)
                needs_tasks = words[0] in ("exec", "shell")
                self.assertIn("is over (succeeded)" if needs_tasks else "belongs to another account", done.out if tells_the_end else done.err)
                self.assertFalse((self.user.folder / "ran").exists())
        self.assertEqual([path.name for path in slot.iterdir()], ["agent"])

    def test_up_says_what_the_last_job_of_its_name_has_left(self):
        said = "has left files of its tasks here; this job starts in a fresh folder"
        text = clusters.local("job", shell("ls; echo weights >model.ckpt"), slots=1)
        first = self.user.run("up", self.user.write("cluster.toml", text))
        self.assertNotIn(said, first.err)
        job = self.user.job_id()
        second = self.user.run("up", str(self.user.folder / "cluster.toml"))
        self.assertNotIn("| model.ckpt", second.out)
        self.assertIn(f"tfdist: warning: 127.0.0.1: job {job} {said}\n  try: tfdist pull {job} brings them home; ", second.err)
        jobs = [job, self.user.job_id()]
        third = self.user.run("up", str(self.user.folder / "cluster.toml")).err  # of each job, not of each name
        self.assertIn(f"job {jobs[1]} {said}", third)
        self.assertNotIn(jobs[0], third)
        jobs.append(self.user.job_id())
        self.user.write("none.toml", text.replace("echo weights >model.ckpt", "true"))
        self.assertIn(f"job {jobs[2]} {said}", self.user.run("up", str(self.user.folder / "none.toml")).err)
        jobs.append(self.user.job_id())
        self.assertNotIn(said, self.user.run("up", str(self.user.folder / "none.toml")).err)  # that was said
        for job in (*jobs, self.user.job_id()):
            self.user.run("down", "--purge", job).expect(0)
        self.assertNotIn(said, self.user.run("up", str(self.user.folder / "cluster.toml")).err)

    def test_work_that_a_task_hands_to_a_daemon_is_not_claimed_to_have_ended(self):
        file = self.user.write("cluster.toml", clusters.local("client", shell("exec sleep infinity; docker run image"), slots=1))
        warning = ("tfdist: warning: a task runs docker, which hands its work to a daemon: `down` and restarts end the client only; "
                   "the container must end with its client: run --init --rm, without -d\n")
        self.assertIn(warning, self.user.run("render", file).expect(0).err)
        self.assertIn(warning, self.user.run("up", "-d", file).expect(0).err)
        self.user.wait_until_tasks_run()
        unseen = "what docker runs for the job's tasks belongs to a daemon and cannot be seen: docker ps on the hosts shows it"
        self.assertIn(f"tfdist: {unseen}; of the run before, too\n", self.user.run("restart").expect(0).err)
        down = self.user.run("down").expect(0)
        self.assertIn(f"ended; no process of its tasks is left on 1 host\n  {unseen}\n", down.err)
        self.assertNotIn("nothing is left", down.err)

    def test_prune_keeps_the_only_way_to_results(self):
        run = self.user.run("up", "-H", "localhost", "--name", "made", "--no-workdir", "--", "sh", "-c", "echo weights >model.ckpt")
        self.assertEqual(run.code, 0, run)
        made = self.user.job_id()
        empty = self.start_job("empty", "true")
        self.user.wait_until_ended(empty)
        wait_for(lambda: not self.user.left(), "the agents have left")
        pruned = self.user.run("prune")
        self.assertEqual(pruned.code, 0, pruned)
        self.assertIn(f"kept {made}: files of its tasks are on localhost\n", pruned.out)
        self.assertIn("forgot 1 of 2 jobs; ", pruned.out)
        self.assertEqual(self.states(), {"made": "succeeded"})
        self.user.run("pull", made).expect(0)
        terminal = self.user.start_on_terminal("prune")
        terminal.wait_for_text("No command finds its files then [y/N]")
        os.write(terminal.fd, b"n\n")
        self.assertEqual(terminal.wait(), 0, terminal.text)
        running = self.start_job("made")
        refused = self.user.run("prune", "made")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn(f"job {running} is not over (running): nothing was forgotten", refused.err)
        self.assertIn("forgot 1 of 2 jobs; ", self.user.run("prune", made).out)
        self.user.run("down").expect(0)

    def test_prune_by_name_asks_where_results_are_left(self):
        for name, script in (("empty", "true"), ("made", "echo weights >model.ckpt")):
            self.user.wait_until_ended(self.start_job(name, script))
        made = self.user.job_id()
        wait_for(lambda: not self.user.left(), "the agents have left")
        refused = self.user.run("prune", "empty", "made").expect(2)
        self.assertIn(f"left: {made}: files of its tasks are on 127.0.0.1\n", refused.out)
        self.assertIn("nothing was forgotten: this machine's record is the only way to these files\n"
                      f"  try: tfdist pull {made} brings them home", refused.err)
        self.assertEqual(len(self.states()), 2)
        for answer, code, left in ((b"n\n", 2, 2), (b"y\n", 0, 1)):
            terminal = self.user.start_on_terminal("prune", "made")
            terminal.wait_for_text("forget this job? No command finds its files then [y/N]")
            os.write(terminal.fd, answer)
            self.assertEqual(terminal.wait(), code, terminal.text)
            self.assertEqual(len(self.states()), left)
        self.assertIn("forgot 1 job; ", self.user.run("prune", "empty").expect(0).out)

    def test_prune_asks_before_it_forgets_several_jobs(self):
        for name in ("one", "two"):
            self.user.wait_until_ended(self.start_job(name, "true"))
        wait_for(lambda: not self.user.left(), "the agents have left")
        terminal = self.user.start_on_terminal("prune")
        terminal.wait_for_text("forget 2 finished jobs? No command finds their logs then [y/N]")
        os.write(terminal.fd, b"n\n")
        self.assertEqual(terminal.wait(), 0, terminal.text)
        self.assertEqual(len(self.states()), 2)
        self.assertIn("forgot 2 of 2 jobs; ", self.user.run("prune").expect(0).out)

    def test_each_answer_to_prune_counts_at_once(self):
        for name, script in (("one", "true"), ("two", "true"), ("made", "echo weights >model.ckpt")):
            self.user.wait_until_ended(self.start_job(name, script))
        wait_for(lambda: not self.user.left(), "the agents have left")
        terminal = self.user.start_on_terminal("prune")
        terminal.wait_for_text("forget 2 finished jobs? No command finds their logs then [y/N]")
        os.write(terminal.fd, b"n\n")
        self.assertEqual(terminal.wait(), 0, terminal.text)
        self.assertNotIn("forget this job?", terminal.text)
        self.assertEqual(len(self.states()), 3)
        terminal = self.user.start_on_terminal("prune")
        terminal.wait_for_text("No command finds their logs then [y/N]")
        os.write(terminal.fd, b"y\n")
        terminal.wait_for_text("No command finds its files then [y/N]")
        os.close(terminal.fd)
        wait_for(lambda: os.waitpid(terminal.pid, os.WNOHANG)[0], "the end of prune, whose terminal is closed")
        self.assertEqual(list(self.states()), ["made"])

    def test_clean_of_hosts_removes_what_jobs_without_a_file_left(self):
        self.user.run("up", "-H", "localhost", "--name", "made", "--no-workdir", "--", "sh", "-c", "echo weights >model.ckpt").expect(0)
        wait_for(lambda: not self.user.left(), "the agents have left")
        self.assertIn("tfdist clean FILE, or tfdist clean -H HOST,...", self.user.run("clean").expect(2).err)
        listed = self.user.run("clean", "-H", "localhost", "--dry-run").expect(0)
        self.assertRegex(listed.out, r"localhost +\S+ +\S+ \S+ +job made-\S+, slot 0: HAS FILES OF TASKS")
        self.user.run("clean", "-H", "localhost", "--yes").expect(0)
        self.assertEqual(list((self.user.folder / ".cache/tfdist").glob("*")), [])

    def test_prune_keeps_jobs_whose_folder_it_cannot_see(self):
        run = self.user.run("up", "-H", "localhost", "--name", "made", "--no-workdir", "--", "sh", "-c", "echo weights >model.ckpt")
        self.assertEqual(run.code, 0, run)
        made = self.user.job_id()
        wait_for(lambda: not self.user.left(), "the agents have left")
        self.user.write(".tfdist/jobs/other-20260801T120000Z-a1b2c3/h0/slot.json", "{}")  # another of its folders is well
        kept = f"kept {made}: tfdist's folder cannot be seen on localhost (is its file system mounted?); if it was removed: tfdist prune {made}\n"
        jobs = self.user.folder / ".cache/tfdist/jobs"
        jobs.chmod(0o777)  # refused
        pruned = self.user.run("prune").expect(3)
        self.assertIn(kept, pruned.out)
        self.assertIn("tfdist: files: 1 kept job: not known whether files of tasks are left\n  try: ", pruned.err)
        jobs.chmod(0o700)
        (self.user.folder / ".cache").rename(self.user.folder / "away")  # as where it is not mounted
        self.assertIn(kept, self.user.run("prune").expect(3).out)
        (self.user.folder / "away").rename(self.user.folder / ".cache")
        self.user.run("pull", made).expect(0)

    def test_purge_asks_before_it_ends_the_only_job_that_there_is(self):
        job = self.start_job("done")
        refused = self.user.run("down", "--purge").expect(2)
        self.assertIn(f"nothing was removed: no job was named; job {job} runs on\n  try: tfdist down --purge {job} ", refused.err)
        self.assertEqual(self.user.status(job)["state"], "running")

    def test_purge_asks_before_it_removes_a_finished_job_that_nobody_named(self):
        first = self.start_job("done", "echo weights >model.ckpt")
        self.user.wait_until_ended(first)
        result = work_of(self.user.slot_folder(0, first)) / "model.ckpt"
        # The record still says that it runs: nobody has looked since.
        record = self.user.folder / f".local/state/tfdist/jobs/{first}.json"
        seen = json.loads(record.read_text())
        seen["last_seen"] |= {"stage": "running", "result": "", "ended_ns": 0}
        record.write_text(json.dumps(seen))
        refused = self.user.run("down", "--purge")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn(f"nothing was removed: no job runs, and the newest is {first} (succeeded)\n"
                      f"  try: tfdist down --purge {first} ", refused.err)
        second = self.start_job("done")
        refused = self.user.run("down", "--purge", "done")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn(f"2 jobs are meant, of which {second} (running) comes first; job {second} runs on\n"
                      f"  try: tfdist down --purge {second} ends it, and removes what its tasks have written; --yes does not say", refused.err)
        terminal = self.user.start_on_terminal("down", "--purge", "--yes", "done")
        terminal.wait_for_text("[y/N]")
        os.write(terminal.fd, b"n\n")
        self.assertEqual(terminal.wait(), 2, terminal.text)
        self.assertIn(f"nothing was removed; job {second} runs on", terminal.text)
        self.assertEqual(self.user.status(second)["state"], "running")
        refused = self.user.run("down", "--purge")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn(f"nothing was removed: no job was named, and 2 are known; job {second} runs on\n", refused.err)
        self.assertEqual(self.user.status(second)["state"], "running")
        purged = self.user.run("down", "--purge", second)
        self.assertEqual(purged.code, 0, purged)
        self.assertIn(f"job {second}: ended", purged.err)
        for answer, code in ((b"n\n", 2), (b"y\n", 0)):
            self.assertEqual(result.read_text(), "weights\n")
            terminal = self.user.start_on_terminal("down", "--purge")
            terminal.wait_for_text("remove what its tasks have written? [y/N]")
            os.write(terminal.fd, answer)
            self.assertEqual(terminal.wait(), code, terminal.text)
        self.assertFalse(result.exists())

    def test_a_name_that_two_running_jobs_have_is_refused(self):
        first = self.start_job("twin")
        second = self.start_job("twin", extra='\n[ssh]\nremote_dir = "~/elsewhere"\n')
        for command in ("down", "status", "logs", "events"):
            refused = self.user.run(command, "twin")
            self.assertEqual(refused.code, 2, refused)
            self.assertIn(first, refused.err)
            self.assertIn(second, refused.err)
        down = self.user.run("down", first)
        self.assertEqual(down.code, 0, down)
        self.assertEqual(self.user.status(second)["state"], "running")
        self.user.run("down", "twin").expect(0)  # one runs
        self.assertEqual(self.user.status(second)["state"], "stopped")
        self.assert_nothing_left()

    def test_exec_is_refused_where_several_jobs_run_and_none_is_named(self):
        first, second = self.start_job("first"), self.start_job("second")
        for words in ([], ["worker:0"]):
            refused = self.user.run("exec", *words, "--", "true")
            self.assertEqual(refused.code, 2, refused)
            self.assertIn(f"2 jobs run: {second} (127.0.0.1), {first} (127.0.0.1)", refused.err)
        self.user.run("exec", "second", "--", "true").expect(0)
        for job in (first, second):
            self.user.run("down", job).expect(0)

    def test_what_a_job_that_is_gone_has_left_is_exit_code_4(self):
        job = self.start_job("short", "echo text >file")
        self.user.wait_until_ended("short")

        def restart():
            restart = self.user.run("restart", job)
            self.assertEqual(restart.code, 4, restart)
            self.assertIn(f"job {job} has ended (succeeded): nothing of it runs\n  try: tfdist up ", restart.err)

        restart()  # its agents may be there still
        # A path where the job should stand.
        for path in ("file", "folder/file"):
            pull = self.user.run("pull", path)
            self.assertEqual(pull.code, 4, pull)
            self.assertIn(f"name the job before the path: tfdist pull JOB {path}", pull.err)
        wait_for(lambda: not self.user.left(), "the agents have left")
        restart()
        cleaned = self.user.run("clean", "--yes", str(self.user.folder / "short-0.toml"))
        self.assertEqual(cleaned.code, 0, cleaned)
        for command in ("pull", "restart"):
            gone = self.user.run(command, job)
            self.assertEqual(gone.code, 4, gone)
            self.assertIn(f"of job {job} is gone: its folder is gone from 127.0.0.1", gone.err)

    def test_options_that_a_file_has_no_use_for_are_refused(self):
        file = self.write(["true"])
        for options, named in ((["-F", "config"], "-F"), (["--transport", "openssh"], "--transport"),
                               (["--no-workdir"], "--workdir and --no-workdir")):
            for command in ("up", "render", "check"):
                refused = self.user.run(command, file, *options)
                self.assertEqual(refused.code, 2, refused)
                self.assertIn(f"{named} goes with -H: {file} says it itself\n  try: ", refused.err)

    def states(self):
        return {row["name"]: row["state"] for row in json.loads(self.user.run("list", "--json").out)}

    def start_up_that_waits_at(self, gate, name):
        """Its record says "starting"; nothing has reached the host."""
        ls = self.user.write("path/ls", f"#!/bin/sh\n: >{self.user.folder}/asked\n{gate.wait}\n")
        os.chmod(ls, 0o700)
        path, self.user.env["PATH"] = self.user.env["PATH"], f"{os.path.dirname(ls)}:{os.environ['PATH']}"
        up = self.user.start("up", self.user.write(f"{name}.toml", clusters.local(name, shell("true"), slots=1)))
        wait_for((self.user.folder / "asked").exists, "the host is being brought up")
        self.user.env["PATH"] = path
        return up

    def kill_up_while_it_brings_its_host_up(self, name, gate):
        up = self.start_up_that_waits_at(gate, name)
        up.kill()
        up.wait()

    def test_list_says_how_jobs_fare_and_prune_forgets_those_that_are_over(self):
        gate = Gate(self)
        self.start_job("good", "true")
        self.start_job("bad", "exit 3")
        self.start_job("long")
        for name in ("good", "bad"):
            self.user.wait_until_ended(name)
        self.kill_up_while_it_brings_its_host_up("killed", gate)
        gate.open()
        states = {"good": "succeeded", "bad": "failed", "long": "running", "killed": "not started"}
        self.assertEqual(self.states(), states, "nothing of the last one is on its host")
        self.assertRegex(self.user.run("list").out, r"long-\S+ +running +\d+s +\d+s +1 +2 ")
        self.assertEqual(self.user.run("prune").out.split(";")[0], "forgot 3 of 4 jobs")
        self.assertEqual(self.states(), {"long": "running"})
        self.user.run("down").expect(0)

    def test_a_job_that_down_has_ended_before_it_began_has_not_started(self):
        gate = Gate(self)
        self.kill_up_while_it_brings_its_host_up("early", gate)
        gate.open()
        self.user.run("down", "early").expect(0)
        self.assertEqual(self.user.status("early")["state"], "not started")
        for command in ("events", "logs", "why"):
            result = self.user.run(command, "early")
            self.assertEqual(result.code, 4, result)
            self.assertIn("the job has not started", result.err)
        self.user.run("wait", "early").expect(1)
        self.assert_nothing_left()

    def test_down_ends_an_up_that_has_not_reached_its_hosts(self):
        gate = Gate(self)
        up = self.start_up_that_waits_at(gate, "early")
        down = self.user.run("down", "early")
        gate.open()
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        self.assertIn("ended by tfdist down: rolling back\ntfdist: nothing was started\n", up.err.read_text())
        self.assertEqual(down.code, 0, down)
        self.assertIn("nothing is left on 1 host\n", down.err)
        self.assertEqual(self.states(), {})
        self.assert_nothing_left()

    def test_timeline_shows_each_host_and_its_steps(self):
        result = self.user.run("up", "--timeline", self.write(["true"]))
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.err, r"(?m)^MILLISECONDS +MEDIAN +127\.0\.0\.1 +127\.0\.0\.1$")
        for step in ("all", "find or send the agent", "commit"):
            self.assertRegex(result.err, rf"(?m)^{step}(?: +\d+\.\d){{3}}$")
        self.assertRegex(result.err, r"(?m)^bring-up of 2 hosts: \d+\.\d\d s$")
        self.assertRegex(result.err, r"(?m)^slowest: 127\.0\.0\.1, .* more than the median host in: ")

    def test_no_such_job_is_exit_code_4(self):
        result = self.user.run("status", "nobody")
        self.assertEqual(result.code, 4, result)

    def test_logs_in_pieces_equal_the_file_on_the_host(self):
        count = 20000
        file = self.write(shell(f"i=0; while [ $i -lt {count} ]; do echo line $i; echo err $i >&2; i=$((i+1)); done"))
        self.user.run("up", "-d", file).expect(0)
        pieces = b""
        for _ in range(6):
            follower = self.user.start("logs", "-f", "--raw", "--from", str(len(pieces)), "job", "master:0")
            size = follower.out.stat().st_size
            wait_for(lambda: follower.poll() is not None or follower.out.stat().st_size > size, "some bytes")
            processes.kill(follower.pid, signal.SIGKILL)
            follower.wait()
            pieces += follower.out.read_bytes()
        self.user.wait_until_ended()
        rest = self.user.run_bytes("logs", "--raw", "--from", str(len(pieces)), "job", "master:0")
        whole = b"".join(path.read_bytes() for path in sorted(self.user.log_files("master:0")))
        self.assertEqual(pieces + rest, whole)
        lines = whole.decode().splitlines()
        self.assertEqual([l for l in lines if l.startswith("line")], [f"line {i}" for i in range(count)])


if __name__ == "__main__":
    unittest.main()
