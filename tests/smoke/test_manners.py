"""Small things that a user of other command-line tools expects."""

import json
import re
import signal
import subprocess
import unittest

from tests.support import clusters
from tests.support.tfdist import BIN, ROOT, Tfdist
from tests.support.waiting import wait_for


NO_RESTART = '[restart]\nmaster = { policy = "never" }\nps = { policy = "never" }\n'


def documented_keys(command):
    """Of docs/json.md: {"task", "tasks[].task", ...}."""
    section = (ROOT / "docs/json.md").read_text().split(f"## `tfdist {command} --json`\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([\w.\[\]]+)` \|", section, re.MULTILINE))


def keys_of(value, documented, prefix=""):
    """All keys of an object, as documented_keys() writes them. Below a key without rows of its own nothing is looked at."""
    keys = set()
    for key, below in value.items():
        name = prefix + key
        if f"{name}[]" in documented:
            keys.add(f"{name}[]")
            for item in below:
                keys |= keys_of(item, documented, f"{name}[].")
        else:
            keys.add(name)
    return keys


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("manners")
        self.addCleanup(self.user.close)

    def assert_refused(self, args, text):
        result = self.user.run(*args)
        self.assertEqual(result.code, 2, result)
        self.assertIn(text, result.err)

    def test_a_mistyped_command_is_guessed(self):
        self.assert_refused(["statsu"], "there is no command 'statsu'; did you mean 'status'?")
        self.assert_refused(["kill"], "there is no command 'kill'; did you mean 'down'?")
        self.assert_refused(["ps"], "there is no command 'ps'; did you mean 'status'?")
        self.assert_refused(["status", "--jsn"], "unknown: --jsn; did you mean '--json'?")
        self.assert_refused(["zzz"], "there is no command 'zzz'\n  try: tfdist --help")

    def test_a_key_of_the_file_that_is_no_option_is_set(self):
        for option, meant in {"--venv": "task.venv", "--venv=x": "task.venv", "--log-limit": "task.log_limit", "--ports": "cluster.ports",
                              "--deadline": "deadline"}.items():
            self.assert_refused(["up", option, "-H", "localhost", "--", "true"], f"unknown: {option}; did you mean '--set {meant}=...'?")
        self.assertNotIn("did you mean", self.user.run("status", "--venv").expect(2).err)
        self.assertNotIn("--set ", self.user.run("up", "--cluster", "-H", "localhost", "--", "true").expect(2).err)  # a table

    def test_an_output_file_of_init_is_no_word_of_the_command(self):
        self.assert_refused(["init", "localhost", "--", "python3", "train.py", "-o", "cluster.toml"],
                            "-o cluster.toml stands after --, where all words are the command's\n"
                            "  try: tfdist init localhost -o cluster.toml -- COMMAND\n")
        self.user.run("init", "localhost", "-o", "cluster.toml", "--", "python3", "train.py", "-o", "other.toml").expect(0)

    def test_data_with_a_mistake_is_named_once(self):
        for data in ('set = { path = "relative" }', "set = 7", 'set = {}', '"a-b" = "/x"'):
            name = "a-b" if data.startswith('"') else "set"
            file = self.user.write("cluster.toml", f"""[cluster]
hosts = ["localhost"]
layout = "mirrored"
[task]
command = ["ls", "{{data:{name}}}"]
[data]
{data}
""")
            refused = self.user.run("render", file).expect(2)
            self.assertNotIn("stands for nothing", refused.err)

    def test_an_unknown_option_is_named_though_something_else_is_missing(self):
        self.assert_refused(["up", "--foo"], "--foo")
        self.assert_refused(["clean", "--foo"], "--foo")

    def test_a_command_without_its_dashes_is_told_where_they_stand(self):
        self.user.write("work/train.py", "")
        for words in (["up", "-H", "localhost", "python3", "train.py"], ["up", "-H", "localhost", "python3"],
                      ["check", "python3", "train.py"], ["render", "-H", "localhost", "train.py"], ["init", "localhost", "train.py"]):
            refused = self.user.run(*words, cwd=self.user.folder / "work").expect(2)
            self.assertIn("\n  try: the command goes after --: tfdist ", refused.err, words)

    def test_a_file_that_is_not_there_has_a_next_step(self):
        self.user.write("cluster.toml", "")
        self.assert_refused(["up", "clustr.toml"], "clustr.toml: there is no such file\n  did you mean 'cluster.toml'?\n")
        self.assert_refused(["check", "gone/x.toml"], "there is no such file\n  tfdist init HOST... -o gone/x.toml writes one\n")

    def test_a_host_that_is_listed_twice_is_told_how_the_command_line_says_so(self):
        self.assert_refused(["render", "--no-workdir", "-H", "localhost,localhost", "--", "true"],
                            "localhost is listed twice\n  to use it as two hosts, write localhost:2\n")

    def test_paths_of_options_may_begin_at_home(self):
        self.user.run("up", self.user.write("job.toml", clusters.local("job", ["sh", "-c", "echo 1 >model"], slots=1))).expect(0)
        for words, made in ((["pull", "--to=~/results"], "results"), (["logs", "--save=~/logs"], "logs")):
            self.user.run(*words, cwd="/").expect(0)
            self.assertTrue((self.user.folder / made).is_dir(), made)
        self.assert_refused(["init", "--output=~/job.toml", "localhost"], f"{self.user.folder}/job.toml exists")

    def test_hosts_that_do_not_answer_are_not_called_idle(self):
        listed = self.user.run("list", "-H", "no-such-host.invalid").expect(3)
        self.assertEqual(listed.out, "")
        for words in (["list", "-F", "none"], ["list", "--transport", "ssh"], ["exec", "-F", "none", "job", "--", "true"]):
            self.assert_refused(words, "requires --hosts")

    def test_a_host_with_several_slots_is_one_host(self):
        up = self.user.run("up", "--no-workdir", "-H", "localhost:3", "--", "true").expect(0)
        self.assertIn(": 3 tasks on 1 host; ", up.err)
        self.assertIn("nothing is left on 1 host\n", self.user.run("down").expect(0).err)
        self.assertEqual(json.loads(self.user.run("list", "--json").out)[0]["host_count"], 1)
        self.assertEqual(json.loads(self.user.run("down", "--json").out)["confirmed"], ["localhost"])
        job = self.user.job_id()  # with the colon that `up` prints after it
        self.assertEqual(self.user.run("logs", f"{job}:", "worker:1").expect(0).err, "")
        self.assertIn(job, self.user.run("status", f"{job}:").expect(0).out)
        self.user.run("down", ":").expect(4)  # no job, and not any job
        writes = ("up", "--no-workdir", "-H", "localhost:3", "--name", "writes", "--", "touch", "file")
        self.user.run(*writes).expect(0)
        self.assertRegex(self.user.run(*writes).expect(0).err, r"(?m)^tfdist: warning: localhost: job writes-\S+ has left files ")

    def test_a_tf_config_of_the_user_is_warned_of(self):
        path = self.user.write("cluster.toml", clusters.local("job", ["true"]))
        self.assertEqual(self.user.run("render", path).err, "")
        self.user.env["TF_CONFIG"] = "{}"
        result = self.user.run("render", path)
        self.assertEqual(result.code, 0, result)
        self.assertIn("TF_CONFIG is set in your environment; each task gets its own instead", result.err)

    def test_tfdist_without_a_command_prints_an_overview(self):
        overview = self.user.run().expect(0).out
        for command in ("init", "check", "up", "logs", "status", "down", "pull"):
            self.assertRegex(overview, rf"(?m)^ +{command} +\S")

    def test_words_of_other_tools_are_no_mistyped_ones(self):
        for word, meant in {"halt": "down", "tail": "logs -f", "copy": "pull", "srun": "up", "sbatch": "up -d",
                            "squeue": "list", "scancel": "down", "remove": "down --purge", "apply": "up", "ssh": "shell", "scp": "pull",
                            "qsub": "up -d", "torchrun": "up"}.items():
            self.assertIn(f"there is no command '{word}'; did you mean '{meant}'?", self.user.run(word).expect(2).err)

    def test_a_slip_of_the_command_line_has_its_own_remedy(self):
        self.assertIn("exec needs a command, after --\n  try: tfdist exec -- nvidia-smi\n", self.user.run("exec", "nvidia-smi").expect(2).err)
        self.assertIn("  try: tfdist exec -H gpu1,gpu2 -- uptime\n", self.user.run("exec", "@gpu1").expect(2).err)
        self.assertIn("tfdist: --tail needs a value\n", self.user.run("logs", "-n").expect(2).err)
        for words, meant in ((("up", "--dry-run", "x.toml"), "--dry-run; tfdist render shows what would run where"),
                             (("up", "-n", "-H", "gpu1", "--", "true"), "-n; tfdist render shows what would run where"),
                             (("up", "--nnodes=2", "-H", "gpu1", "--", "true"), "--nnodes=2; -H gpu1:4,gpu2:4 says which hosts, and how many tasks on each"),
                             (("logs", "--lines", "3"), "--lines; did you mean '--tail'?"), (("status", "-f"), "-f; did you mean '--watch'?"),
                             (("up", "--gpu", "2", "cluster.toml"), "--gpu cluster.toml; did you mean '--set task.gpus=...'?\n  try: tfdist up --help"),
                             (("down", "--all"), "--all; name the jobs: tfdist list shows them"), (("exec", "-it", "worker:0"), "-it; tfdist shell opens a shell there")):
            self.assertIn(f"tfdist: unknown: {meant}", self.user.run(*words).expect(2).err)
        for words in (("up", "-host", "gpu1", "--", "true"), ("up", "-hgpu1,gpu2", "--", "true"), ("list", "-hosts", "gpu1")):
            self.assertIn(f"tfdist: unknown: {words[1]}; did you mean '-H'?\n", self.user.run(*words).expect(2).err)
        self.assertIn("unknown: ls -l\n  try: exec runs one command: tfdist exec TASK -- ls -l\n", self.user.run("shell", "worker:0", "--", "ls", "-l").expect(2).err)
        self.assertIn("  commas stand between hosts: h1,h2\n", self.user.run("render", "-H", "gpu1 gpu2", "--no-workdir", "--", "true").expect(2).err)
        for hosts in ("gpu1,gpu2,", "gpu1,,gpu2"):
            refused = self.user.run("render", "-H", hosts, "--no-workdir", "--", "true").expect(2).err
            self.assertIn("-H: a host's name is empty\n  h1,h2: is there a comma too many?\n", refused)
        self.assertIn("worker:1", self.user.run("render", "-H", "gpu1, gpu2", "--no-workdir", "--", "true").expect(0).out)

    def test_a_variable_that_is_not_set_names_no_job_and_no_hosts(self):
        """Nothing would mean whichever job runs."""
        for words in (("down", ""), ("down", "-H", "", "job"), ("restart", ""), ("restart", "-H", ""), ("exec", "-H", "", "--", "hostname"), ("wait", ""),
                      ("status", ""), ("logs", ""), ("logs", "--save", ""), ("pull", "--to", ""), ("list", "-H", ""), ("up", "--workdir", "", "-H", "h1", "--", "true")):
            self.assertIn(": expected a value, got nothing\n", self.user.run(*words).expect(2).err)
        self.assertIn("echo ''", self.user.run("render", "-H", "h1", "--no-workdir", "-e", "EMPTY=", "--", "echo", "").expect(0).out)

    def test_what_is_wrong_on_the_command_line_is_named(self):
        refused = self.user.run("clean", "-H", "localhost", "--set", "ssh.remote_dir=/x", "--dry-run").expect(2).err
        self.assertIn("unknown: --set", refused)
        job = ("up", "-H", "localhost", "--no-workdir", "--name", "x", "--set", "task.env.A=1")
        refused = self.user.run(*job, "--set", "task.env={C='1'}", "--", "true").expect(2).err
        self.assertIn("task.env: an earlier --set says a part of it, which would go", refused)
        self.assertIn("--name: expected a value, got nothing",
                      self.user.run("up", "-H", "localhost", "--no-workdir", "--name", "", "--", "true").expect(2).err)

    def test_streams_of_tasks_are_apart_as_the_users_are(self):
        text = """
name = "streams"
[cluster]
layout = "mirrored"
hosts = ["localhost"]
[task]
output = "separate"
command = ["sh", "-c", "echo to out; echo to err >&2"]
"""
        result = self.user.run("up", self.user.write("streams.toml", text)).expect(0)
        self.assertIn("worker:0 | to out\n", result.out)
        self.assertNotIn("to err", result.out)
        self.assertIn("worker:0 | to err\n", result.err)

    def test_help_and_version_by_other_names(self):
        self.assertEqual(self.user.run("help").out, self.user.run("--help").out)
        self.assertIn("Run a distributed training job over SSH", self.user.run("help").out)
        self.assertEqual(self.user.run("help", "logs").out, self.user.run("logs", "--help").out)
        self.assertIn("--follow", self.user.run("help", "logs").out)
        self.assertEqual(self.user.run("-V").out, self.user.run("--version").out)
        self.assert_refused(["help", "statsu"], "statsu")

    def test_a_number_that_is_none_is_refused(self):
        for option in ("--tail", "-n", "--from"):
            for value in ("-5", "x", "1.5"):
                with self.subTest(option=option, value=value):
                    self.assert_refused(["logs", f"{option}={value}" if len(option) > 2 else f"{option}{value}"],
                                        "expected a whole number from 0 on")

    def test_a_current_folder_that_is_gone_is_named(self):
        for words in (["up", "c.toml"], ["up", "-H", "h1", "--", "true"], ["render", "-H", "h1", "--", "true"]):
            with self.subTest(words=words):
                gone = self.user.folder / "gone"
                gone.mkdir()
                gone_rm = ["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", str(gone), str(BIN / "tfdist"), *words]
                done = subprocess.run(gone_rm, env=self.user.env, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 3, done)
                self.assertEqual(done.stderr, "tfdist: files: the current folder is not there any more: No such file or directory\n"
                                 "  try: cd to a folder that is there, and call tfdist again\n")

    def test_a_huge_current_folder_is_refused_at_once_by_name(self):
        folder = self.user.folder / "huge"
        folder.mkdir()
        for number in range(100_001):
            (folder / str(number)).touch()
        result = self.user.run("up", "-H", "localhost", "--", "true", cwd=folder, seconds=60)
        self.assertEqual(result.code, 2, result)
        self.assertRegex(result.err, rf"workdir {folder}\S* has more than 100000 files and folders")
        self.assertIn("--workdir FOLDER", result.err)

    def test_a_list_that_cannot_be_written_is_no_matter_of_logs(self):
        result = self.user.run("list")
        self.assertEqual(result.code, 0, result)
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(BIN / "tfdist"), "list"], env=self.user.env, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 74)
        self.assertEqual(done.stderr, "tfdist: cannot write output: No space left on device\n")


class Jobs(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("manners")
        self.addCleanup(self.user.close)

    def write(self, command, **options):
        return self.user.write("cluster.toml", clusters.local("job", command, **options))

    def test_quiet_prints_the_tasks_output_and_nothing_else(self):
        result = self.user.run("up", "-q", self.write(["sh", "-c", "echo hello"], slots=1))
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertIn("| hello\n", result.out)

    def test_quiet_and_detached_prints_the_id_alone(self):
        result = self.user.run("up", "-d", "-q", self.write(["sleep", "infinity"]))
        self.assertEqual((result.code, result.err), (0, ""), result)
        job = result.out.strip()
        self.user.run("down", job).expect(0)

    def test_a_quiet_up_still_says_why_its_job_failed(self):
        result = self.user.run("up", "-q", self.write(["sh", "-c", "exit 3"], slots=1, extra=NO_RESTART))
        self.assertEqual(result.code, 1, result)
        self.assertIn("exit code 3", result.err)

    def test_down_says_which_task_it_waits_for(self):
        stubborn = "trap '' TERM; echo ready; while true; do sleep 1; done"
        file = self.write(["sh", "-c", stubborn], slots=1)
        up = self.user.start("up", file)
        self.user.wait_for_output(up, b"ready")
        down = self.user.start("down", "job")
        wait_for(lambda: b"waiting for" in down.err.read_bytes(), "down says what it waits for")
        self.assertRegex(down.err.read_text(), r"tfdist: waiting for \S+ \(127.0.0.1\).* to end; SIGKILL follows")
        self.user.run("down", "--force", "job").expect(0)
        self.assertEqual(down.wait(60), 0)
        self.assertIn("tfdist: another command kills all tasks at once\n", down.err.read_text())

    def test_an_interrupted_up_says_which_task_it_waits_for(self):
        stubborn = "trap '' TERM; echo ready; while true; do sleep 1; done"
        up = self.user.start("up", self.write(["sh", "-c", stubborn], slots=1, task_extra='grace = "10m"'))
        self.user.wait_for_output(up, b"ready")
        up.send_signal(signal.SIGINT)
        wait_for(lambda: re.search(r"tfdist: waiting for \S+ \(127.0.0.1\).* to end; SIGKILL follows", up.err.read_text()),
                 "up says what it waits for", 60)
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130)

    def test_an_interrupt_that_was_ignored_from_the_start_ends_no_job(self):
        """A script's `&` does that, as POSIX says: Ctrl-C is meant for what the script runs before the user's eyes."""
        goal = self.user.folder / "goal"
        file = self.write(["sh", "-c", f"echo ready; until [ -e {goal} ]; do sleep 0.1; done"], slots=1)
        up = self.user.start("up", file, ignored=signal.SIGINT)
        self.user.wait_for_output(up, b"ready")
        up.send_signal(signal.SIGINT)
        goal.write_text("")
        self.assertEqual(up.wait(60), 0, up.err.read_text())

    def test_an_unfinished_line_is_shown_on_a_terminal(self):
        self.user.env["TERM"] = "xterm"
        file = self.write(["sh", "-c", "printf 'Name? '; exec sleep infinity"], slots=1)
        terminal = self.user.start_on_terminal("up", file)
        self.addCleanup(terminal.wait)
        self.addCleanup(self.user.run, "down", "--force", "job")
        terminal.wait_for_text("Name? ")

    def test_hosts_with_the_same_failure_are_folded(self):
        file = self.user.write("refused.toml", 'name = "job"\n[cluster]\nhosts = ["127.0.1.[1-5]:1"]\n'
                                               'layout = "mirrored"\n[task]\ncommand = ["true"]\n')
        up = self.user.run("up", file)
        self.assertEqual(up.code, 3, up)
        self.assertEqual(len(re.findall("onnection refused", up.err)), 1, up)
        self.assertRegex(up.err, r"\n  the same on 4 more hosts: 127\.0\.1\.\[[\d,-]+\]\n")
        self.assertIn("5 of 5 hosts could not be brought up", up.err)

    def test_logs_of_some_tasks_with_times(self):
        file = self.write(["sh", "-c", "echo one; echo from $TFDIST_TASK"])
        self.user.run("up", file).expect(0)
        logs = self.user.run("logs", "-t", "-n", "1", "job", "worker:[0-0]")
        self.assertEqual(logs.code, 0, logs)
        self.assertRegex(logs.out, r"^worker:0 \| \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z from worker:0\n$")
        self.user.run("logs", "job", "worker:[0-3]").expect(2)
        here = self.user.run("logs", "--host", "127.0.0.1", "job")
        self.assertIn("from worker:0", here.out)
        elsewhere = self.user.run("logs", "--host", "gpu[1-2]", "job")
        self.assertEqual(elsewhere.code, 2, elsewhere)
        self.assertIn("has no host gpu1", elsewhere.err)

    def test_logs_of_a_cleaned_job(self):
        file = self.write(["true"])
        self.user.run("up", file).expect(0)
        wait_for(lambda: not self.user.left(), "the agents have left", 30)
        self.user.run("clean", "--yes", file).expect(0)
        logs = self.user.run("logs", "job")
        self.assertEqual(logs.code, 4, logs)
        self.assertIn("its folder is gone from 127.0.0.1", logs.err)
        events = self.user.run("events", "job")
        self.assertEqual(events.code, 4, events)
        self.assertIn("its folder is gone from 127.0.0.1", events.err)

    def test_render_env_names_what_the_host_adds(self):
        file = self.write(["env"], slots=1)
        shown = self.user.run("render", "--env", "master:0", file).out
        up = self.user.run("up", file)
        self.assertEqual(up.code, 0, up)
        set_on_host = dict(re.findall(r"master:0 \| (TFDIST_\w+)=(.*)", up.out))
        known = dict(re.findall(r"export (TFDIST_\w+)='(.*)'", shown))
        later = re.search("# set on the host: (.*)", shown)[1].split()
        self.assertEqual(set(known) | set(later), set(set_on_host) - set(self.user.env))
        self.assertEqual(known, {name: set_on_host[name] for name in known})

    def test_the_documented_json_is_what_the_commands_print(self):
        file = self.write(["sh", "-c", "exit 3"], slots=1, extra=NO_RESTART)
        self.user.run("up", file).expect(1)
        checked = self.user.write("checked.toml", clusters.local(
            "job", ["true", "{data:set}"], slots=1,
            extra=f'[check]\npython = ["no-such-package"]\n[data]\nset = {{ path = "{self.user.folder}" }}'))
        outputs = {command: self.user.run(*words).out for command, words in {
            "render": ["render", "--json", file], "check": ["check", "--json", checked], "list": ["list", "--json"], "status": ["status", "--json", "job"],
            "events": ["events", "--json", "job"]}.items()}
        values = {command: json.loads(outputs[command]) for command in ("render", "check", "status")}
        for task in values["status"]["tasks"]:
            self.assertEqual(set(task.pop("previous_exit", task["exit"])), set(task["exit"]))
        [values["list"]] = json.loads(outputs["list"])
        values["events"] = json.loads(outputs["events"].splitlines()[0])
        for command, value in values.items():
            with self.subTest(command=command):
                documented = documented_keys(command)
                self.assertEqual(keys_of(value, documented), documented)
        self.assertEqual(values["status"]["job"], values["list"]["job"])
        self.assertEqual({value["name"] for command, value in values.items() if command != "events"}, {"job"})
