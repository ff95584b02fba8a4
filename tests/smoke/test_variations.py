"""One cluster file, varied from the command line; variables of the user's shell, of the host, and those of other launchers."""

import fcntl
import getpass
import json
import os
import pathlib
import pty
import pwd
import re
import shlex
import signal
import socket
import struct
import subprocess
import termios
import unittest

from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.shown import columns_of
from tests.support.tfdist import BIN, Tfdist, work_of
from tests.support.waiting import wait_for


class Variations(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("vary")
        self.addCleanup(self.user.close)

    def write(self, command, name="cluster.toml", layout="mirrored", task_extra=""):
        return self.user.write(name, f"""
name = "job"
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local", slots = 2 }}]
layout = "{layout}"
ports = {{ worker = {clusters.free_ports(2)} }}
[task]
command = {clusters.toml_list(command)}
{task_extra}
""")

    def lines(self, *arguments):
        result = self.user.run("up", *arguments)
        self.assertEqual(result.code, 0, result)
        return sorted(re.findall(r"^(worker:\d +\| .*)$", result.out, re.M)), result

    def test_the_file_of_the_folder_is_taken_and_named(self):
        self.write(["echo", "here"])
        lines, result = self.lines()
        self.assertEqual(lines, ["worker:0 | here", "worker:1 | here"])
        self.assertIn("tfdist: cluster file cluster.toml\n", result.err)
        self.write(["echo", "below"], name="sub/cluster.toml")
        self.assertEqual(self.lines("sub")[0], ["worker:0 | below", "worker:1 | below"])
        self.assertIn("tfdist: cluster file cluster.toml\n", self.user.run("clean", "--dry-run").expect(0).err)

    def test_words_behind_dashes_follow_the_command(self):
        file = self.write(["echo", "train.py"])
        self.assertEqual(self.lines(file, "--", "--lr", "{rank}")[0],
                         ["worker:0 | train.py --lr 0", "worker:1 | train.py --lr 1"])

    def test_words_behind_dashes_reach_the_program_of_a_shell(self):
        file = self.write(shell('echo train.py "$@"'))
        self.assertEqual(self.lines(file, "--", "--lr", "a b")[0], [f"worker:{n} | train.py --lr a b" for n in (0, 1)])
        refused = self.user.run("up", self.write(["bash", "-lc", "exec echo train.py"]), "--", "--lr", "1").expect(2)
        self.assertIn("the script of bash in the file's command does not read the words after --\n"
                      '  hand them on in the script: "exec python3 train.py \\"$@\\""\n', refused.err)

    def test_the_command_that_words_behind_dashes_make_is_shown(self):
        file = self.write(["echo", "train.py"])
        _, result = self.lines(file, "--", "--lr", "0.1")
        self.assertIn("tfdist: command: echo train.py --lr 0.1\n", result.err)
        self.assertNotIn("warning", result.err)
        for program in ("echo", "/bin/echo"):
            _, result = self.lines(file, "--", program, "other.py")
            self.assertIn(f"tfdist: warning: {program} is a program, and the words after -- follow the command of the file: "
                          f"echo train.py {program} other.py\n", result.err)
            remedy = re.search(r"--set '(task\.command=.*)'\n", result.err)[1]
            self.assertEqual(self.lines(file, "--set", remedy)[0], ["worker:0 | other.py", "worker:1 | other.py"])

    def test_a_job_in_which_no_task_wrote_keeps_no_copy_of_the_work_folder(self):
        """Of one whose tasks did write, all stays."""
        self.user.write("work/train.py", "print('trained')\n")
        for command, kept in ((["python3", "train.py"], []), (shell("echo 1 >model"), ["model", "train.py"])):
            file = self.write(command, task_extra='workdir = "work"')
            self.assertEqual(self.user.run("up", file).code, 0)
            wait_for(lambda: not self.user.left(), "the agents have left", 30)
            folders = [path.parent for path in self.user.folder.glob(".cache/tfdist/jobs/*/h*/slot.json")]
            self.assertEqual(len(folders), 2)
            for folder in folders:
                self.assertEqual(sorted(path.name for path in work_of(folder).glob("*")), kept)
            self.assertEqual(self.user.run("down", "--purge", "job").code, 0)

    def test_a_set_up_is_nothing_that_a_task_wrote(self):
        self.user.write("work/train.py", "print('trained')\n")
        file = self.write(["python3", "train.py"], task_extra='workdir = "work"\n[setup]\ncommand = ["true"]')
        self.user.run("up", file).expect(0)
        wait_for(lambda: not self.user.left(), "the agents have left", 30)
        self.assertEqual(list(self.user.folder.glob(".cache/tfdist/jobs/*/**/train.py")), [])
        self.assertNotIn("HAS FILES OF TASKS", self.user.run("clean", "--dry-run", file).out)
        self.assertNotIn("has left files", self.user.run("up", file).expect(0).err)

    def test_two_jobs_side_by_side_are_told_apart(self):
        """Each says what it was started with; hosts say which jobs run there; several are waited for and ended at once."""
        self.user.write("work/train.py", "import sys, time\nprint(sys.argv, flush=True)\ntime.sleep(1000)\n")
        git = ["git", "-C", str(self.user.folder / "work"), "-c", "user.name=n", "-c", "user.email=e"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
            subprocess.run([*git, *words], check=True)
        commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
        file = self.write(["python3", "train.py"], task_extra='workdir = "work"')
        ids = {}
        for name in ("one", "two"):
            port = f"cluster.ports.worker={clusters.free_ports(2)}"
            up = self.user.run("up", "-d", file, "--name", name, "--set", port, "--", "--lr", name)
            self.assertEqual(up.code, 0, up)
            ids[name] = re.search(r"job (\S+):", up.out)[1]
            self.user.write("work/new.py", "")  # the second one differs from the commit
        for name, git_words in (("one", f"commit {commit}\n"), ("two", f"commit {commit}, with changes that are in no commit\n")):
            said = self.user.run("describe", name)
            self.assertEqual(said.code, 0, said)
            self.assertIn(f"job {ids[name]}: running\n", said.out)
            self.assertIn(f"command:  worker:[0-1]: python3 train.py --lr {name}\n", said.out)
            self.assertRegex(said.out, rf"workdir:  {self.user.folder}/work \(content [0-9a-f]{{12}}\)\n")
            self.assertIn(git_words, said.out)
        for words in ([file], ["-H", "localhost"]):
            listed = self.user.run("list", *words)
            self.assertEqual(listed.code, 0, listed)
            for name in ids:
                self.assertRegex(listed.out, rf"(?m)^{ids[name]} +{getpass.getuser()} +\S+@\S+ +tasks run +\d+s +(127.0.0.1|localhost)$")
            [row] = json.loads(self.user.run("list", "--json", *words).expect(0).out)
            self.assertEqual([(job["user"], job["has_tasks"]) for job in row["jobs"] if job["job"] in ids.values()], [(getpass.getuser(), True)] * 2)
            self.assertEqual((row["hides_others"], row["error"]), (False, ""))
        self.assertRegex(self.user.run("list").out, rf"(?m)^{ids['one']} +running +\d+s +\d+s +1 +2 +{file}$")
        self.assertIn("did you mean 'two'?", self.user.run("status", "twoo").err)
        self.assertIn("no job wrker is known on this machine, nor a task or host of that name",
                      self.user.run("restart", "wrker").expect(4).err)
        waiting = self.user.start("wait", "one", "two")
        down = self.user.run("down", "one", "two")
        self.assertEqual((down.code, down.err.count("nothing is left")), (0, 2), down)
        self.assertEqual(waiting.wait(60), 1)
        self.assertIn(f"tfdist: job {ids['two']}\n", self.user.run("logs").err)
        self.assertEqual(self.user.run("down", "one", "nosuch").code, 4)

    def test_a_job_without_a_record_is_told_by_its_host(self):
        """Not by what its cluster file says meanwhile."""
        def text(command, hosts, ports):
            listed = ", ".join(f'{{ address = "127.0.0.{n}", transport = "local" }}' for n in hosts)
            return f"""
name = "job"
[cluster]
hosts = [{listed}]
ports = {{ worker = {ports} }}
layout = "mirrored"
[task]
command = {clusters.toml_list(command)}
gpus = 0
"""
        ports = clusters.free_ports(2)
        file = self.user.write("cluster.toml", text(shell("echo here; sleep 1000"), (1, 2), ports))
        self.user.run("up", "-d", file).expect(0)
        job = self.user.wait_until_tasks_run()["job"]
        start = re.search(r"-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-", job)
        started = "{}-{}-{}T{}:{}:{}Z".format(*start.groups())
        for record in (self.user.folder / ".local/state/tfdist/jobs").glob("*.json"):
            record.unlink()
        same = self.user.run("describe", file).expect(0).out
        self.assertRegex(same, rf"job {job}: running\n  started:  {started} from {file}\n  from:     \S+@\S+\n"
                         "  no record of it is here: this is what its hosts know, and its plan is that of the file\n")
        self.assertIn("sleep 1000", same)
        self.user.write("cluster.toml", text(["echo", "other"], (1,), ports))
        other = self.user.run("describe", file).expect(0).out
        self.assertRegex(other, rf"job {job}: running\n  started:  {started}\n  from:     \S+@\S+\n  no record of it is here: this is what its hosts know\n")
        self.assertIn(f"  command:  worker:0: {shlex.join(shell('echo here; sleep 1000'))}\n  command:  worker:1: not known\n", other)
        self.assertRegex(other, r"(?m)^worker:1  127.0.0.2  -$")
        described = json.loads(self.user.run("describe", "--json", file).expect(0).out)
        self.assertEqual(([task["command"] for task in described["tasks"]], described["file"]), ([shlex.join(shell("echo here; sleep 1000")), ""], ""))
        self.assertIn("worker:0 | here", self.user.run("logs", file, "worker:0").expect(0).out)
        self.assertIn("127.0.0.2: connect: neither the cluster file nor -H names this host of the job\n  try: add it to `hosts`",
                      self.user.run("exec", file, "worker:1", "--", "true").expect(3).err)
        self.user.run("down", file).expect(0)

    def test_two_jobs_without_a_file_run_side_by_side(self):
        words = ("-d", "--no-workdir", "-H", "localhost:2", "--set", "task.gpus=0")
        command = ("--", "sleep", "1000")
        self.user.run("up", *words, "--name", "one", "--set", "cluster.ports=auto", *command).expect(0)
        self.user.run("up", *words, "--name", "two", "--set", "cluster.ports=auto", *command).expect(0)
        taken = self.user.run("up", *words, "--name", "three", "--set", f"cluster.ports.worker={self.port_of('one')}", *command)
        self.assertIn("is that of worker:0 of job one-", taken.expect(3).err)
        self.assertIn("choose other ports: --set cluster.ports=auto", taken.err)
        turned = self.user.run("logs", "worker:0", "one").expect(2).err
        self.assertIn("one is a job, and no task of two-", turned)
        self.assertIn("  try: the job comes first, then its tasks\n", turned)
        self.user.run("down", "one", "two").expect(0)

    def test_another_plan_is_told_by_the_keys_of_the_file(self):
        venv = self.user.folder / "venv"
        subprocess.run(["python3", "-m", "venv", "--without-pip", str(venv)], check=True)
        words = ("--no-workdir", "-H", "localhost", "--name", "mine")
        self.user.run("up", "-d", *words, "--", "sleep", "1000").expect(0)
        job = self.user.status("mine")["job"]
        for key, said in (("deadline=2h", "deadline: none -> 2h"), ("task.grace=1m", "grace of worker:0: 10s -> 1m"),
                          (f"task.venv={venv}", f"venv of worker:0: none -> {venv}"),
                          ("task.cwd=/tmp", "cwd of worker:0: none -> /tmp"), ("task.log_limit=64MiB", "log_limit of worker:0: 1GiB -> 64MiB"),
                          ("restart.host_lost=30s", "restart.host_lost: 11s -> 30s"), (None, "hosts: localhost -> localhost (2 slots)")):
            if key is None:
                words, key = tuple("localhost:2" if word == "localhost" else word for word in words), "task.gpus=0"
            other = self.user.run("up", "-d", *words, "--set", key, "--", "sleep", "1000").expect(4)
            self.assertIn(f"job {job} runs under this name, from another plan\n", other.err)
            self.assertIn(f"  {said}\n", other.err)
            self.assertNotIn("env.", other.err)
        self.assertIn("grace 10s, ", self.user.run("describe", "mine").expect(0).out)
        self.user.run("down", "mine").expect(0)

    def test_paths_of_a_file_that_the_shell_opens_count_from_the_current_folder(self):
        file = self.user.write("files/cluster.toml", clusters.local("piped", ["true"], slots=1, task_extra='workdir = "only-here"'))
        self.user.write("current/only-here/train.py", "")
        folder = self.user.folder / "current"
        for way in ("render <(cat FILE)", "render /dev/stdin <FILE", "render - <FILE"):
            shown = subprocess.run(["bash", "-c", f"{BIN}/tfdist " + way.replace("FILE", file)], cwd=folder, env=self.user.env,
                                   capture_output=True, text=True, timeout=60)
            self.assertEqual(shown.returncode, 0, shown)
        (folder / "link.toml").symlink_to(file)
        self.user.run("render", "current/link.toml").expect(0)
        self.user.run("render", file).expect(2)

    def test_output_of_up_in_the_work_folder_makes_no_other_plan(self):
        file = self.user.write("work/cluster.toml", clusters.local(
            "mine", shell("while :; do echo line; sleep 0.1; done"), slots=1, task_extra='workdir = "."'))
        folder = self.user.folder / "work"
        (folder / "nohup.out").write_text("of another command")
        with (folder / "up.log").open("wb") as log:
            first = subprocess.Popen([BIN / "tfdist", "up", file], env=self.user.env, stdout=log, stderr=subprocess.DEVNULL)
        self.addCleanup(first.wait)
        self.addCleanup(first.kill)
        wait_for(lambda: "line\n" in (folder / "up.log").read_text(), "output in the file")
        (folder / "nohup.out").write_text("and more")
        again = self.user.run("up", "-d", file).expect(0)
        self.assertIn("runs already, from this plan", again.err)
        self.assertIn("left out as output of tfdist: ", again.err)
        self.user.run("down", "mine").expect(0)

    def test_a_home_that_is_not_there_is_not_made(self):
        home = self.user.folder / "nonexistent"
        for value, said in ((str(home), f"there is no folder {home}, which HOME names\n"), (None, "HOME is not set\n"), ("home", "HOME is a relative path, home\n")):
            self.user.env.pop("HOME")
            if value:
                self.user.env["HOME"] = value
            refused = self.user.run("up", "--no-workdir", "-H", "localhost", "--", "true").expect(2)
            self.assertIn(said + "  try: set HOME, or XDG_STATE_HOME\n", refused.err)
            self.assertFalse(home.exists())
            self.user.env["HOME"] = str(self.user.folder)

    def test_a_job_has_its_users_name_also_where_no_variable_has_it(self):
        for variable in ("LOGNAME", "USER"):
            self.user.env.pop(variable, None)
        self.user.run("up", "-d", self.write(["true"])).expect(0)
        started_by = self.user.wait_until_ended()["started_by"]
        self.assertEqual(started_by, f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}")

    def test_check_names_the_job_that_has_the_name(self):
        words = ("-H", "localhost:2", "--name", "mine", "--set", "cluster.ports=auto")
        script = self.user.write("code/serve.py", "import socket, sys, time\nserver = socket.create_server(('', int(sys.argv[1])))\n"
                                                  "print('ready')\ntime.sleep(1000)\n")
        words += ("--workdir", os.path.dirname(script))
        command = ("--", "python3", "serve.py", "{port}")
        self.user.run("check", *words, *command).expect(0)
        self.user.run("up", "-d", *words, *command).expect(0)
        wait_for(lambda: self.user.run("logs", "mine").out.count("ready") == 2, "the tasks have their ports")
        job = self.user.status("mine")["job"]
        taken = self.user.run("check", *words, "--", "true").expect(3)
        self.assertRegex(taken.out, rf"error: localhost: job: a job named 'mine' runs on this host: {job}\n"
                         f"  try: end it with `tfdist down {job}`, or give this one another name\n")
        self.assertNotIn("ports:", taken.out)
        self.assertIn(f"job {job} runs already, from this plan: tfdist up joins it\n", self.user.run("check", *words, *command).expect(0).out)
        self.user.env["XDG_STATE_HOME"] = str(self.user.folder / "elsewhere")  # as another machine, which has no record of it
        self.assertEqual(json.loads(self.user.run("check", "--json", *words, *command).expect(0).out)["job"], job)
        del self.user.env["XDG_STATE_HOME"]
        self.user.run("down", "mine").expect(0)
        self.user.run("check", *words, "--", "true").expect(0)

    def port_of(self, job):
        """Of its worker:0, as it was told."""
        environment = pathlib.Path(f"/proc/{self.user.task_pid('worker:0', job)}/environ").read_bytes()
        return re.search(rb"MASTER_PORT=(\d+)", environment)[1].decode()

    def test_hosts_of_other_launchers_files(self):
        nodes = self.user.write("nodes", "# two slots here\nlocalhost slots=1 max_slots=4\nlocalhost\n")
        up = self.user.run("up", "--hostfile", nodes, "--set", "cluster.ports=auto", "--no-workdir", "--", "echo", "{rank}").expect(0)
        self.assertEqual(sorted(up.out.splitlines()), ["worker:0 | 0", "worker:1 | 1"])
        self.assertEqual(self.user.run("exec", "--hostfile", nodes, "--", "echo", "there").expect(0).out, "localhost | there\n")
        self.assertIn('{ address = "localhost", slots = 2 }', self.user.run("init", "--hostfile", nodes).expect(0).out)
        self.assertIn(self.user.job_id(), self.user.run("clean", "--hostfile", nodes, "--dry-run").expect(0).out)
        file = self.user.write("cluster.toml", 'name = "job"\ncluster = { hosts = { file = "nodes" }, layout = "mirrored", ports = "auto" }\n'
                               'task = { command = ["echo", "{rank}"] }\n')
        self.assertEqual(self.lines(file)[0], ["worker:0 | 0", "worker:1 | 1"])
        more = self.user.write("more", "gpu1:2\n")
        other = self.user.write("other", "gpu0\n")
        for words, hosts in ((("--hostfile", other, "--hostfile", more), ["gpu0", "gpu1", "gpu1"]),
                             (("-H", "gpu2", "--hostfile", "-"), ["gpu2", "gpu1", "gpu1"])):
            piped = subprocess.run([str(BIN / "tfdist"), "render", "--json", *words, "--no-workdir", "--", "true"],
                                   env=self.user.env, input="gpu1 slots=2\n", capture_output=True, text=True, check=True)
            self.assertEqual([task["host"] for task in json.loads(piped.stdout)["tasks"]], hosts)
        bad = self.user.write("bad", "localhost\nlocalhost slot=2\n")
        refused = self.user.run("up", "--hostfile", bad, "--", "true").expect(2)
        self.assertIn(f"--hostfile: {bad}:2: 'slot=2' is not understood\n  a line is HOST, ", refused.err)

    def test_labels_stand_in_list_and_describe(self):
        file = self.write(["true"])
        self.user.run("up", file).expect(0)
        self.assertNotIn("LABELS", self.user.run("list").out)
        self.user.run("up", "--label", "lr=0.1", "--label", "note=again", file).expect(0)
        labelled, plain = self.user.run("list").out.splitlines()[1:]
        self.assertRegex(labelled, rf" lr=0.1, note=again  {file}$")
        self.assertRegex(plain, rf" -  +{file}$")
        for label, found in (("lr=0.1", 1), ("lr", 1), ("lr=0.2", 0), ("nothing", 0)):
            jobs = json.loads(self.user.run("list", "--json", "--label", label).expect(0).out)
            self.assertEqual([job["labels"].get("lr") for job in jobs], ["0.1"] * found, label)
        self.assertIn("no job with that label", self.user.run("list", "--label", "nothing").out)
        self.assertIn("  label:    lr=0.1\n", self.user.run("describe").out)
        self.assertIn("--label: expected KEY=VALUE, got lr", self.user.run("up", "--label", "lr", file).expect(2).err)

    def test_a_daemon_that_a_task_leaves_is_named(self):
        """worker:1 ends once that of worker:0 is gone: it was not the end of the job that ended it."""
        script = ('case $RANK in 0) setsid sleep 1000 & echo $! >"$0.part"; mv "$0.part" "$0";; '
                  '*) until [ -e "$0" ]; do sleep .1; done; while kill -0 $(cat "$0") 2>/dev/null; do sleep .1; done; esac')
        pid = self.user.folder / "daemon"
        self.user.run("up", self.write(["sh", "-c", script, str(pid)], task_extra="")).expect(0)
        daemon = f"pid {pid.read_text().strip()} (sleep), left by worker:0"
        self.assertRegex(self.user.run("events").out, rf"census 127.0.0.1: 1 killed, 0 left; killed: {re.escape(daemon)}\n")
        self.assertIn(f"ended on 127.0.0.1: {daemon}\n", self.user.run("status").out)
        self.assertIn(f"  127.0.0.1: ended: {daemon}\n", self.user.run("down").expect(0).err)
        pull = self.user.run("pull")
        self.assertIn("no task has written a file", pull.out + pull.err)

    def test_a_service_ends_well_at_its_deadline(self):
        for more, code in (("", 1), ('on_deadline = "succeed"', 0)):
            file = self.write(["sleep", "infinity"])
            text = f'deadline = "8s"\n{more}\n' + pathlib.Path(file).read_text()
            up = self.user.run("up", self.user.write("service.toml", text)).expect(code)
            result = f"{'failed' if code else 'succeeded'}"
            why = f"its deadline of 8s has passed{'' if code else ', which counts as success'}\n"
            self.assertRegex(up.err, rf"{result} after \S+ s: {why}")
            self.assertIn(f"tfdist: job {self.user.job_id()} {result}: {why}", self.user.run("wait").expect(code).err)
            self.assertIn(f": {result}: {why}", self.user.run("describe").out)
            self.assertIn(f"  why: {why}", self.user.run("status").out)
            self.assertRegex(self.user.run("why").out, rf": {result} after \S+: {why}")
            self.assertRegex(self.user.run("list").out, rf"(?m)^{self.user.job_id()} +{result} .* {why[:-1]} +/.*service.toml$")

    def test_clean_leaves_new_jobs_where_it_is_told_to(self):
        file = self.write(shell("echo 1 >model"))
        for _ in range(3):
            self.assertEqual(self.user.run("up", file).code, 0)
        wait_for(lambda: not self.user.left(), "the agents have left", 30)

        def jobs():
            return sorted({path.parent.name for path in self.user.folder.glob(".cache/tfdist/jobs/*/h0")})

        started = jobs()
        for words, kept in ((["--older-than", "1h"], started), (["--keep", "2"], started[1:]), (["--keep", "1"], started[2:])):
            clean = self.user.run("clean", "--yes", *words, file)
            self.assertEqual(clean.code, 0, clean)
            self.assertEqual(jobs(), kept, clean)
            self.assertEqual("to be removed\n" in clean.out, kept != started, clean)
            self.assertTrue(list(self.user.folder.glob(".cache/tfdist/bin/*")), "agents stay for the jobs that stay")
        self.assertEqual(self.user.run("clean", "--older-than", "soon", file).code, 2)

    def on_terminal(self, columns, *words):
        """What is printed on a terminal so wide."""
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run([str(BIN / "tfdist"), *words], env=self.user.env, cwd=self.user.folder, stdin=subprocess.DEVNULL,
                       stdout=end, stderr=subprocess.DEVNULL, check=True, timeout=60)
        os.close(end)
        text = b""
        while True:  # the terminal hands on what was written piece by piece
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # nobody writes any more, and all was read
                piece = b""
            if not piece:
                break
            text += piece
        os.close(terminal)
        return text.decode().replace("\r\n", "\n")

    def test_tables_fit_the_terminal(self):
        file = self.write(shell("echo " + "long训练" * 50))
        self.assertEqual(self.user.run("up", file, "--name", "a-name-of-some-length").code, 0)
        self.assertEqual(self.user.run("up", "-H", "localhost", "--no-workdir", "--label", "note=模型", "--", "echo", "训练" * 100).code, 0)
        for columns in (40, 41, 80, 120, 300):
            for words in (["list"], ["status"], ["render", file], ["describe"], ["top", "-n", "1"], ["check", file], ["describe", "a-name-of-some-length"]):
                shown = self.on_terminal(columns, *words)
                table = re.search(r"(?ms)^(?:JOB|TASK|HOST)\b.*?(?=^1 host: |\Z)", shown)[0]
                with self.subTest(columns=columns, words=words):  # a job's id is never cut
                    self.assertEqual([line for line in table.splitlines() if columns_of(line) > columns and " " in line], [])
        for columns in (20, 80):
            self.assertRegex(self.on_terminal(columns, "list"), rf"(?m)^{self.user.job_id()}\b")

    def test_a_narrow_list_shows_what_tells_jobs_apart(self):
        words = ("up", "-H", "localhost", "--no-workdir", "--name", "digits")
        rates = ("0.001", "0.002")
        for rate in rates:
            self.user.run(*words, "--label", f"lr={rate}", "--", "true", "--model", "mlp", "--lr", rate).expect(0)
            self.user.run(*words, "--label", f"lr={rate}", "--", "false", "--model", "mlp", "--lr", rate).expect(1)
        shown = self.on_terminal(80, "list")
        self.assertLessEqual(max(len(line) for line in shown.splitlines()), 80)
        self.assertRegex(shown, r"^JOB +STATE +WHY +FILE OR COMMAND\n")
        for rate in rates:
            self.assertEqual(len(re.findall(rf"(?m)^digits-\S+ +(succeeded|failed) .*{rate}$", shown)), 2, shown)
        self.assertRegex(self.on_terminal(200, "list"), r"^JOB +STATE +AGE +LASTED +HOSTS +TASKS +WHY +LABELS +FILE OR COMMAND\n")

    def test_help_and_describe_fit_the_terminal(self):
        self.assertEqual(self.user.run("up", self.write(shell("echo")), "--label", "note=" + " ".join(["word"] * 30)).code, 0)
        for columns in (40, 80):
            for words in (["--help"], ["up", "--help"], ["help", "exec"], ["describe"]):
                shown = self.on_terminal(columns, *words)
                known = (r"Usage: ", r"       tfdist ", r"  command: ", r"  started: ", r"  plan: ", r"job ", r"  -?-?\S+")  # a word that cannot be parted
                long = [line for line in shown.splitlines() if len(line) > columns and " " in line.strip()
                        and not any(re.match(rf"{start}\S* ?\S*( ?\S*)?$|{start}.*", line) for start in known[:6])]
                self.assertEqual(long, [], shown)

    def test_set_changes_one_value_for_this_once(self):
        file = self.write(shell("echo $LR $TFDIST_JOB"), task_extra='env = { LR = "1" }')
        for value, name in (("a b", "second"), ("0.2", "2026"), ("1#2", "true")):
            self.assertEqual(self.lines(file, "--set", f"task.env.LR={value}", "--name", name)[0],
                             [f"worker:{n} | {value} {name}" for n in (0, 1)])
        for setting, said in (("task.grcae=1s", "did you mean 'grace'?"), ("task.grace=5", "task.grace: expected a duration with its unit, got 5\n  write \"5s\""),
                              ("name.x=secret", "name.x: name is not a table"), ("x:secret", "got x\n")):
            with self.subTest(setting):
                refused = self.user.run("render", file, "--set", setting)
                self.assertEqual(refused.code, 2, refused)
                self.assertIn(said, refused.err)
                self.assertNotIn("secret", refused.err)

    def test_set_without_a_value_takes_a_key_out(self):
        file = self.write(shell("echo [$LR]"), task_extra='venv = "/nowhere"\nenv = { LR = "1" }')
        for out, lr in ((["task.venv="], "1"), (["task.venv=", "task.env.LR="], ""), (["task.venv=", "task.env=", "ssh.port=", "data="], "")):
            settings = [word for setting in out for word in ("--set", setting)]
            self.assertEqual(self.lines(file, *settings, "--name", "out")[0], [f"worker:{n} | [{lr}]" for n in (0, 1)])
        for setting, said in (("task.vnev=", "task.vnev: unknown key\n  did you mean 'venv'?"), ("cluster.hosts=", "list hosts = [...] in [cluster]"),
                              ('task.venv=""', "task.venv: expected text, got an empty one\n  --set task.venv= takes the key out")):
            with self.subTest(setting):
                self.assertIn(said, self.user.run("render", file, "--set", setting).expect(2).err)

    def test_a_mistake_in_a_set_value_is_no_line_of_the_file(self):
        file = self.write(["true"])
        for setting, why in (('cluster.hosts=["localhost","localhost"]', "cluster.hosts[1]: localhost is listed twice"),
                             ("cluster.hosts=localhost", "cluster.hosts: expected a list of hosts")):
            self.assertIn(f"cluster.toml: --set: {why}", self.user.run("render", file, "--set", setting).expect(2).err)

    def test_a_command_that_no_host_finds_is_told_by_its_kind(self):
        self.user.write("work/train.py", "")
        for command, remedy in ((["train.py"], "it is where the task starts, and no program is looked for there: python3 train.py, or ./train.py"),
                                (["python3 train.py"], "no shell parts it: write each word by itself, -- python3 train.py"),
                                (["no-such-program"], "install it on that host, name the Python environment that has it "
                                                      "(venv = \"~/NAME\" in [task], or --set task.venv=~/NAME), give its whole path")):
            result = self.user.run("up", self.write(command, task_extra='workdir = "work"')).expect(3)
            self.assertIn(f"  try: {remedy}", result.err)

    def test_a_script_that_cannot_be_executed_is_told_by_its_kind(self):
        """Nothing is started: the kernel would say "No such file" of a file that is there."""
        for name, text, mode, why, remedy in (("windows.sh", "#!/bin/sh\r\necho\r\n", 0o755, "its lines end in CR LF, as Windows writes them", r"let them end in LF: sed -i 's/\r$//' ./windows.sh"),
                                              ("env.py", "#!/usr/bin/env python3\r\n", 0o755, "its lines end in CR LF, as Windows writes them", r"let them end in LF: sed -i 's/\r$//' ./env.py"),
                                              ("gone.py", "#! /no/such/python3 -u\n", 0o755, "its first line names /no/such/python3, which is not there", "let it name a program of that host, as #!/usr/bin/env python3 does"),
                                              ("my train.sh", "#!/bin/sh\n", 0o644, "not executable", "is it in the workdir, and executable (chmod +x)?")):
            with self.subTest(name):
                pathlib.Path(self.user.write(f"work/{name}", text)).chmod(mode)
                result = self.user.run("up", self.write([f"./{name}"], task_extra='workdir = "work"')).expect(3)
                self.assertRegex(result.err, rf"command '\./{name}' of .*/{name}: {why}\n")
                self.assertIn(f"  try: {remedy}", result.err)

    def test_keys_and_credentials_of_a_home_folder_stay_there(self):
        key = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
        secret = {".ssh/config": "x", ".aws/credentials": "x", ".netrc": "x", ".config/gcloud/token": "x", "certs/server.pem": key, "deploy": key}
        sent = {"train.sh": "true", "certs/ca.pem": "-----BEGIN CERTIFICATE-----\n", ".config/app.toml": "x", ".env": "STEPS=3\nexport WANDB_API_KEY=x\n"}
        for name, text in {**secret, **sent}.items():
            self.user.write(f"home/{name}", text)
        (self.user.folder / "home/deploy").chmod(0o600)
        self.user.run("up", self.write(["sh", "-c", "find . -type f | sed 's,^,sent ,'"], task_extra='workdir = "home"')).expect(0)
        out = self.user.run("logs", "job", "worker:0").out
        self.assertEqual(set(re.findall(r"sent \./(\S+)", out)), set(sent))
        said = self.user.run("render", self.user.folder / "cluster.toml").expect(0)
        for name in (".ssh", ".aws", ".netrc", ".config/gcloud", "certs/server.pem", "deploy"):
            self.assertIn(name, said.err + said.out)
        self.assertIn(".env is sent to each host, and sets WANDB_API_KEY\n  try: a line .env in .tfdistignore keeps it here", said.err + said.out)

    def test_of_two_that_replace_a_job_at_once_the_second_is_told_of_the_first(self):
        self.user.run("up", "-d", self.write(["sleep", "infinity"])).expect(0)
        begun, go = self.user.folder / "begun", self.user.folder / "go"
        file = self.write(["sleep", "1000"])
        pathlib.Path(file).write_text(pathlib.Path(file).read_text() +
                                      f"""\n[setup]\ncommand = ["sh", "-c", "touch {begun}; until [ -e {go} ]; do sleep 0.1; done"]\n""")
        job = self.user.status()["job"]
        first = self.user.start("up", "-d", "--replace", file)
        wait_for(begun.exists, "the first one brings its job up")
        second = self.user.run("up", "-d", "--replace", file).expect(4)
        self.assertIn(f"tfdist: 127.0.0.1: another `tfdist up --replace` is about to replace job {job}: nothing was started\n", second.err)
        self.assertNotIn(".next", second.err)
        go.touch()
        self.assertEqual(first.wait(60), 0, first.err.read_text())
        self.user.run("down").expect(0)

    def test_scripts_of_a_virtual_environment_that_was_moved_are_told(self):
        old, new = self.user.folder / "old", self.user.folder / "new"
        subprocess.run(["python3", "-m", "venv", "--without-pip", str(old)], check=True)
        pathlib.Path(self.user.write("old/bin/launcher", f"#!{old}/bin/python\n")).chmod(0o755)
        old.rename(new)
        up = self.user.run("up", "--no-workdir", "-H", "localhost", "--set", f"task.venv={new}", "--", "launcher").expect(3)
        self.assertRegex(up.err, rf": {new}/bin/launcher: its first line names {old}/bin/python, which is not there; there is no other one in PATH={new}/bin:")
        self.assertIn("  try: a Python environment that was moved or copied keeps its old path in its scripts: make it anew on that host, "
                      "or write python -m MODULE in the place of launcher\n", up.err)

    def test_what_a_virtual_environment_lacks_is_installed_there(self):
        venv = self.user.folder / "venv"
        subprocess.run(["python3", "-m", "venv", "--without-pip", str(venv)], check=True)
        words = ("--no-workdir", "-H", "localhost", "--set", 'check.python=["nosuch"]')
        up = self.user.run("up", *words, "--set", f"task.venv={venv}", "--", "no-such-program").expect(3)
        self.assertIn(f"  try: install it in the task's environment, {venv}/bin/python -m pip install ...; or `venv` names another one\n", up.err)
        failed = self.user.run("up", *words[:-2], "--set", f"task.venv={venv}", "--", "python3", "-c", "import nosuch.part").expect(1)
        self.assertIn(f"  try: a package: {venv}/bin/python -m pip install nosuch on the hosts; a file of yours: is it in the workdir?\n", failed.err)
        within = self.user.run("check", *words, "--set", f"task.venv={venv}", "--", "python3", "-V").expect(3)
        self.assertIn(f"  try: {venv}/bin/python -m pip install nosuch\n", within.out)
        without = self.user.run("check", *words, "--", "python3", "-V").expect(3)
        self.assertIn('  try: python3 -m pip install nosuch; or venv = "~/NAME" (--set task.venv=~/NAME) names the Python environment that has it\n', without.out)

    def test_a_mistake_that_many_make_has_its_remedy_beside_the_last_lines(self):
        words = ("up", "--no-workdir", "-H", "localhost", "--", "python3", "-c")
        for program, remedy in (("import nosuch_module", "a package: install 'nosuch_module' in the Python of the hosts, or name the environment that has it "
                                                         '(venv = "~/NAME" in [task], --set task.venv=~/NAME); a file of yours: is it in the workdir?'),
                                ("import socket; a = socket.create_server(('', 0)); socket.create_server(a.getsockname())",
                                 "let the program listen on a port of the plan: {port}, or MASTER_PORT on the first task; --set cluster.ports=auto chooses others"),
                                ("import ctypes; ctypes.CDLL('libnosuch.so.9')",
                                 "install what has libnosuch.so.9 on the hosts; where it is there, name its folder: --env LD_LIBRARY_PATH=FOLDER, "
                                 "or LD_LIBRARY_PATH in `env`"),
                                ("input('go? ')", "a task has no input: pass what it asks for as an argument, after --; a debugger works in tfdist shell")):
            self.assertIn(f"\n  try: {remedy}\n", self.user.run(*words, program).expect(1).err)
            self.assertIn(f"\n  try: {remedy}\n", self.user.run("why").out)
        self.user.write("train.py", "")
        self.assertEqual(self.user.run("up", "train.py").expect(2).err, "tfdist: train.py is a program, and a cluster file is expected\n"
                                                                        "  try: tfdist up -H gpu1,gpu2 -- python3 train.py\n")

    def test_remedies_name_what_can_be_typed_without_a_file(self):
        def said(*words):
            return self.user.run("render", "--no-workdir", *words).expect(2).err
        self.assertEqual(said("-H", "gpu1:4", "--set", "cluster.gpus=[0,1]", "--", "true"),
                         "command line: cluster.gpus: 4 tasks on gpu1 are to share its GPUs, and it lists 2\n  run fewer of them there, or write gpus = 0 "
                         "for those that need none (--set task.gpus=0); to share a GPU on purpose, list it twice: gpus = [0, 0, 1, 1] in [cluster] "
                         "(--set 'cluster.gpus=[0, 0, 1, 1]')\n")
        self.assertIn("list them: gpus = [0, 1] in [cluster] (--set 'cluster.gpus=[0, 1]')\n", said("-H", "gpu1:2", "--set", "task.gpus=1", "--", "true"))
        self.user.run("render", "--no-workdir", "-H", "gpu1:2", "--set", "task.gpus=1", "--set", "cluster.gpus=[0, 1]", "--", "true").expect(0)
        self.assertIn("(--set roles.worker.more_ports.web=PORT)", said("-H", "gpu1", "--", "serve", "{port.web}"))
        self.user.run("render", "--no-workdir", "-H", "gpu1", "--set", "roles.worker.more_ports.web=8080", "--", "serve", "{port.web}").expect(0)

    def test_a_word_that_is_neither_job_nor_task_is_told_in_one_sentence(self):
        self.user.run("up", "--no-workdir", "-H", "localhost", "--name", "two2", "--", "echo", "{keep}").expect(0)
        self.assertRegex(self.user.run("list").out, r"  echo \{keep\}\n")
        self.assertIn("tfdist: no job two is known on this machine, nor a task or host of that name; did you mean 'two2'?\n",
                      self.user.run("logs", "two").expect(4).err)

    def test_list_of_a_host_names_the_option(self):
        self.assertEqual(self.user.run("list", "gpu7").expect(2).err,
                         "tfdist: list takes a cluster file, and there is no file gpu7\n"
                         "  try: tfdist list -H gpu7 asks the host gpu7; tfdist list shows the jobs of this machine\n")

    def test_an_absolute_program_that_is_not_there_is_no_matter_of_the_workdir(self):
        refused = self.user.run("up", self.write(["/no/such/venv/bin/python", "train.py"])).expect(3).err
        self.assertIn("/no/such/venv/bin/python: No such file or directory\n"
                      "  try: the path counts on that host: is the program there, and not a link to what is not?\n", refused)
        self.assertNotIn("chmod", refused)

    def test_sigterm_to_the_up_that_started_it_ends_the_job(self):
        """As a CI that is cancelled sends it."""
        up = self.user.start("up", self.write(["sleep", "1000"]))
        self.user.wait_until_tasks_run("job")
        up.terminate()
        self.assertEqual(up.wait(60), 130)
        self.assertEqual(self.user.wait_until_ended("job")["why"], "tfdist up was interrupted")

    def test_a_signal_that_comes_twice_at_once_leaves_tasks_their_grace(self):
        """timeout(1) signals its child and then its process group; one signal may be taken before the other comes."""
        up = self.user.start("up", self.write(shell("trap 'sleep 1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done")))
        wait_for(lambda: up.out.read_text().count("ready") == 2, "both tasks have their trap")
        up.terminate()
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130)
        self.assertEqual(up.out.read_text().count("saved"), 2, up.err.read_text())
        self.assertNotIn("killing", up.err.read_text())

    def test_an_interrupted_down_says_that_the_job_may_be_ending(self):
        self.user.run("up", "-d", self.write(shell("trap '' TERM; echo ready; while :; do sleep 0.1; done"), task_extra='grace = "5s"')).expect(0)
        wait_for(lambda: self.user.run("logs", "job").out.count("ready") == 2, "the tasks ignore SIGTERM")
        down = self.user.start("down", "job")
        wait_for(lambda: "SIGKILL follows" in down.err.read_text(), lambda: f"down waits; {down.err.read_text()}")
        down.send_signal(signal.SIGINT)
        self.assertEqual(down.wait(60), 130)
        self.assertRegex(down.err.read_text(), r"tfdist: interrupted: job (job-\S+) may be ending; tfdist down \1 again shows what is left\n$")
        self.assertIn("nothing is left", self.user.run("down", "job").expect(0).err)

    def test_each_command_without_a_file_recommends_itself(self):
        for command in ("up", "check", "render"):
            self.assertIn(f"  try: tfdist {command} FILE, or tfdist {command} -H ", self.user.run(command).expect(2).err)

    def test_a_role_with_a_command_of_its_own_is_named(self):
        file = self.write(["echo", "train.py"], task_extra='[roles.worker]\ncommand = ["echo", "own"]')
        lines, result = self.lines(file, "--", "--lr", "1")
        self.assertEqual(lines, ["worker:0 | own", "worker:1 | own"])
        self.assertIn("[roles.worker] has its own command, which does not get the words after --", result.err)

    def test_variables_of_the_users_shell_come_by_name_and_as_they_are(self):
        file = self.write(shell('echo "$KEY|$OTHER"'), task_extra='env_from = ["KEY"]')
        missing = self.user.run("up", file)
        self.assertEqual(missing.code, 2, missing)
        self.assertIn("env_from names what your shell does not set: KEY\n  try: export KEY=", missing.err)
        self.user.run("status", file).expect(4)  # needs no variable
        self.user.env["KEY"] = self.user.env["OTHER"] = "{rank} ~/s"
        self.assertEqual(self.lines(file, "--env", "OTHER")[0], [f"worker:{n} | {{rank}} ~/s|{{rank}} ~/s" for n in (0, 1)])
        self.assertEqual(self.lines(file, "-e", "KEY=here")[0], [f"worker:{n} | here|{{rank}} ~/s" for n in (0, 1)])
        shown = self.user.run("render", "--json", file)
        self.assertNotIn("~/s", shown.out + shown.err)
        # The tasks of this machine have it from its shell anyhow.
        self.assertEqual([task["env"]["KEY"][:7] for task in json.loads(shown.out)["tasks"]], ["sha256:"] * 2)
        unset = self.user.run("up", file, "--env", "NOBODY")
        self.assertEqual(unset.code, 2, unset)
        self.assertIn("NOBODY is not set in your shell", unset.err)

    def test_machines_that_differ_have_variables_of_their_own(self):
        file = self.user.write("cluster.toml", f"""
name = "job"
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local" }}, {{ address = "127.0.0.2", transport = "local", env = {{ NIC = "ib0", DATA = "~/d" }} }}]
layout = "mirrored"
ports = "auto"
[task]
command = ["sh", "-c", "echo $NIC $DATA"]
env = {{ NIC = "eth0" }}
gpus = 0
""")
        self.assertEqual(self.lines(file)[0], ["worker:0 | eth0", f"worker:1 | ib0 {self.user.folder}/d"])
        self.assertEqual(self.lines(file, "--env", "NIC=lo")[0], ["worker:0 | lo", f"worker:1 | lo {self.user.folder}/d"])
        self.assertIn("export NIC='ib0'\n", self.user.run("render", "--env", "worker:1", file).expect(0).out)
        self.assertIn("of placeholders, only ~/ and {env:NAME} may stand here",
                      self.user.run("render", file, "--set", 'cluster.hosts=[{ address = "h1", env = { A = "{rank}" } }]').expect(2).err)

    def test_home_and_variables_of_the_host(self):
        program = self.user.write("bin/program", '#!/bin/sh\necho "$1 $EXTENDED"\n')
        (self.user.folder / "bin/program").chmod(0o755)
        file = self.write(["~/bin/program", "~/data"], task_extra='env = { EXTENDED = "first:{env:HOME}" }')
        home = self.user.env["HOME"]
        self.assertTrue(program.startswith(home))
        self.assertEqual(self.lines(file)[0], [f"worker:{n} | {home}/data first:{home}" for n in (0, 1)])
        file = self.write(["echo", "--data=~/data", "x.y=~", "-e=a~/b", "a b=~/c"])
        self.assertEqual(self.lines(file)[0],
                         [f"worker:{n} | --data={home}/data x.y={home} -e=a~/b a b=~/c" for n in (0, 1)])
        gone = self.user.run("up", self.write(["echo", "{env:NOBODY_SETS_IT}"]))
        self.assertEqual(gone.code, 3, gone)
        self.assertIn("uses the variable NOBODY_SETS_IT, which this host does not set", gone.err)
        literal = self.user.run("render", self.write(["echo", "$HOME/data"]))
        self.assertIn("$HOME stays as it is written, since no shell reads it: {env:HOME} is what the host has", literal.err)
        self.assertNotIn("stays as it is", self.user.run("render", self.write(shell("echo $HOME"))).err)

    def test_every_task_has_what_torchrun_would_give_it(self):
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
        file = self.write(shell("echo " + " ".join(f"${name}" for name in names)), task_extra='env = { MASTER_PORT = "7" }')
        self.assertEqual(self.lines(file)[0], [f"worker:{n} | {n} 2 {n} 2 0 127.0.0.1 7" for n in (0, 1)])

    def test_a_script_that_is_not_sent_is_named_before_anything_starts(self):
        self.user.write("work/other.py", "")
        file = self.write(["python3", "train.py"], task_extra='workdir = "work"')
        said = f"there is no train.py in the workdir {self.user.folder}/work"
        self.assertIn(f"tfdist: warning: {said}\n", self.user.run("render", file).expect(0).err)
        self.assertIn(f"error: command: {said}\n", self.user.run("check", file).expect(3).out)
        refused = self.user.run("up", file).expect(2)
        self.assertIn(f"tfdist: command: {said}\n  try: paths of a command count from the workdir, or from cwd\n", refused.err)
        self.assertIn("nothing was started", refused.err)
        self.assertEqual(self.user.run("list").out, "no job is known on this machine\n")
        self.write(["torchrun", "train.py"], task_extra='workdir = "work"')
        self.assertIn(f"tfdist: warning: {said}\n", self.user.run("check", file).err)

    def test_a_module_that_is_not_sent_is_named(self):
        self.user.write("work/train.py", "")
        self.user.write("work/.tfdistignore", "train.py\n")
        file = self.write(["python3", "-m", "train"], task_extra='workdir = "work"')
        said = "tfdist: warning: train.py stays on this machine: an ignore file names it\n  try: a line !train.py in .tfdistignore sends it\n"
        for command, code in (("render", 0), ("check", 0), ("up", 3)):
            with self.subTest(command):
                done = self.user.run(command, file).expect(code)
                self.assertIn(said, done.err)
                if code:
                    self.assertIn("python3 has no module train\n", done.out + done.err)
        packages = self.user.write("packages/train.py", "print('from the environment')")
        with_it = self.write(["python3", "-m", "train"],
                             task_extra=f'workdir = "work"\nenv = {{ PYTHONPATH = "{os.path.dirname(packages)}" }}')
        up = self.user.run("up", with_it).expect(0)
        self.assertIn(said, up.err)
        self.assertIn("| from the environment\n", up.out)

    def test_a_host_without_tensorflow_is_named_where_its_server_is_to_run(self):
        self.user.write("packages/tensorflow/__init__.py", "")
        for name, packages in (("without", "nothing"), ("with", "packages")):
            python = pathlib.Path(self.user.write(f"{name}/python3", f"#!/bin/sh\nPYTHONPATH={self.user.folder}/{packages} exec python3 -S \"$@\"\n"))
            python.chmod(0o755)
            file = self.user.write(f"{name}.toml", f"""
name = "job"
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local" }}]
layout = "roles"
ports = "auto"
[task]
command = ["{python}", "-c", "pass"]
gpus = 0
[roles.worker]
count = 1
[roles.ps]
count = 1
command = ["{{tensorflow_server}}"]
""")
            self.assertRegex(self.user.run("render", file).expect(0).out, rf"(?m)^ps:0 .* {python} -c {{tensorflow_server}}$")
            if name == "with":
                self.user.run("check", file).expect(0)
                continue
            self.assertRegex(self.user.run("check", file).expect(3).out,
                             rf"error: 127.0.0.1: python: {python} \S+ has no package tensorflow, which {{tensorflow_server}} of ps:0 needs\n"
                             rf"  try: {python} -m pip install tensorflow; or venv = ")

    def test_tasks_run_in_a_virtual_environment_of_the_host(self):
        venv = self.user.folder / "venvs/one"
        command = shell("python -c 'import sys; print(sys.prefix)'; echo $VIRTUAL_ENV; command -v python")
        file = self.write(command, task_extra=f'venv = "{venv}"')
        for words in (["up", file], ["check", file]):
            missing = self.user.run(*words).expect(3)
            self.assertIn(f"the virtual environment of worker:0: {venv}/bin/python: No such file or directory", missing.err + missing.out)
            self.assertIn(f"make it on that host: python3 -m venv {venv}", missing.err + missing.out)
        subprocess.run(["python3", "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120)
        lines, _ = self.lines(file)
        self.assertEqual(lines, sorted(f"worker:{n} | {line}" for n in (0, 1) for line in (venv, venv, venv / "bin/python")))

    def test_no_other_python_runs_in_the_place_of_the_environments(self):
        venv, conda = self.user.folder / "venvs/one", self.user.folder / "conda"
        subprocess.run(["python3", "-m", "venv", "--without-pip", str(venv)], check=True)
        (conda / "conda-meta").mkdir(parents=True)
        (conda / "bin").mkdir()
        (conda / "bin/python3").symlink_to("/opt/nowhere/python3")
        (venv / "bin/python3").unlink()
        (venv / "bin/python3").symlink_to("/opt/nowhere/python3")
        file = self.write(["env", "python3", "-c", "0"])
        for setting, kind, folder, remedy in ((f"task.conda={conda}", "conda", conda, f"on that host: conda install -p {conda} --force-reinstall python"),
                                              (f"task.venv={venv}", "virtual", venv, "make it anew on that host: python3 -m venv --clear")):
            said = self.user.run("up", file, "--set", setting).expect(3).err
            self.assertIn(f"the {kind} environment of worker:0: {folder}/bin/python", said)
            self.assertIn(" is a link to ", said)
            self.assertIn(f"  try: {remedy}", said)
        (conda / "bin/python3").unlink()
        self.assertIn(f"  try: make it on that host: conda install -p {conda} python\n", self.user.run("up", file, "--set", f"task.conda={conda}").expect(3).err)
        subprocess.run(["python3", "-m", "venv", "--without-pip", "--clear", str(venv)], check=True)  # as the remedy says
        self.user.run("up", file, "--set", f"task.venv={venv}").expect(0)
        for wrong, remedy in ((f"{venv}/bin/python", "`venv` is the folder of the environment, above its bin"),
                              (f"{venv}/bin", f"{venv}/bin is no virtual environment: name the folder of one, or make one in it: python3 -m venv {venv}/bin/venv")):
            self.assertIn(f"  try: {remedy}\n", self.user.run("up", file, "--set", f"task.venv={wrong}").expect(3).err)

    def test_tasks_run_in_a_conda_environment_of_the_host(self):
        # As conda lays one out; nothing of it is started but the program.
        prefix = self.user.folder / "miniconda3/envs/tf"
        file = self.write(["trainer"], task_extra='conda = "tf"')
        for words in (["up", file], ["check", file]):
            missing = self.user.run(*words).expect(3)
            self.assertIn("the conda environment tf of worker:0 is not on this host\n", missing.err + missing.out)
        (self.user.folder / "miniconda3/envs/torch/conda-meta").mkdir(parents=True)
        self.assertIn("  try: this host has: torch\n", self.user.run("up", file).expect(3).err)
        (prefix / "conda-meta").mkdir(parents=True)
        (prefix / "bin").mkdir()
        self.user.write("miniconda3/envs/tf/bin/trainer", "#!/bin/sh\necho $CONDA_DEFAULT_ENV in $CONDA_PREFIX\n")
        (prefix / "bin/trainer").chmod(0o700)
        for conda in ("tf", "~/miniconda3/envs/tf"):
            lines, _ = self.lines(file, "--set", f"task.conda={conda}")
            name = prefix if "/" in conda else conda
            self.assertEqual(lines, [f"worker:{n} | {name} in {prefix}" for n in (0, 1)])

    def test_tasks_start_in_a_folder_of_the_workdir(self):
        self.user.write("work/mnist/train.py", "print(open('data').read())")
        self.user.write("work/mnist/data", "sevens")
        file = self.write(["python3", "train.py"], task_extra='workdir = "work"\ncwd = "mnist"')
        self.assertEqual(self.lines(file)[0], [f"worker:{n} | sevens" for n in (0, 1)])
        self.assertIn("cd mnist && python3 train.py", self.user.run("describe").expect(0).out)
        self.assertIn("there is no nist/train.py in the workdir", self.user.run("up", file, "--set", "task.cwd=nist").expect(2).err)
        self.write(["pwd"], task_extra='workdir = "work"\ncwd = "mnist/none"')
        said = f"cwd: there is no folder mnist/none in what is sent of the workdir {self.user.folder}/work"
        self.assertIn(said, self.user.run("check", file).expect(3).out)
        self.assertIn(said, self.user.run("up", file).expect(2).err)

    def test_render_shows_paths_of_hosts_as_a_shell_reads_them(self):
        file = self.write(["~/venv/bin/python", "~/my train.py", "--data=~/data"], task_extra='cwd = "~/runs/one"\nenv = { EXTENDED = "/x:{env:PATH}" }')
        shown = self.user.run("render", file).expect(0).out
        self.assertIn("""cd ~/runs/one && ~/venv/bin/python ~/'my train.py' --data="${HOME}"/data\n""", shown)
        self.assertIn("""export EXTENDED='/x:'"${PATH}"\n""", self.user.run("render", "--env", "worker:0", file).expect(0).out)

    def test_words_that_are_no_options_are_for_the_program(self):
        file = self.write(["echo"])
        self.assertIn(f"tfdist: unknown: --lr 0.2\n  try: words for the program stand after --: tfdist up {file} -- --lr 0.2\n",
                      self.user.run("up", file, "--lr", "0.2").expect(2).err)
        self.assertIn("did you mean '--replace'?\n  try: tfdist up --help\n", self.user.run("up", file, "--replce").expect(2).err)
        self.user.run("up", file).expect(0)
        self.assertIn("tfdist: job is a job, and list takes a cluster file, whose hosts it asks\n  try: tfdist status job, or tfdist describe job; ",
                      self.user.run("list", "job").expect(2).err)
        self.assertIn("tfdist: no job nosuch is known on this machine", self.user.run("status", "nosuch").expect(4).err)

    def test_tasks_start_at_one_path_of_all_hosts(self):
        place = self.user.folder / "nfs/project"
        self.user.write("nfs/project/run.sh", "echo in $PWD")
        file = self.write(["sh", "run.sh"], task_extra=f'cwd = "{place}"')
        self.assertEqual(self.lines(file)[0], [f"worker:{n} | in {place}" for n in (0, 1)])
        self.user.run("check", file).expect(0)
        said = self.user.run("up", file).expect(0).err
        self.assertIn(f"what its tasks wrote where they start, in {place}, is on the hosts: pull does not look there\n", said)
        self.assertNotIn("tfdist pull", said)
        self.assertIn("tfdist: no task has written a file into the job's folder\n"
                      f"tfdist: its tasks start in {place} of the hosts, where pull does not look: ", self.user.run("pull", "job").err)
        self.write(["sh", "run.sh"], task_extra=f'cwd = "{place}/gone"')
        said = f"worker:0 cannot start in {place}/gone: No such file or directory"
        self.assertIn(said, self.user.run("check", file).expect(3).out)
        self.assertRegex(self.user.run("up", file).expect(3).err,
                         rf"worker:[01] cannot start in {place}/gone: No such file or directory\n"
                         r" +try: cwd is a path of that host: is the folder there, or not mounted\?\n")


if __name__ == "__main__":
    unittest.main()
