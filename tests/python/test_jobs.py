"""Jobs of programs that import tfdist, and what the package has of other files."""

import json
import re
import subprocess
import sys
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.support import clusters
from tests.support.python import FOLDER, checker, environment, run_python
from tests.support.tfdist import ROOT, Tfdist

# On this machine, without a folder.
START = """
import os, sys, tfdist
def up(name, *command, **more):
    return tfdist.up(hosts=["localhost"], command=command, workdir=False, name=name, set={"cluster.ports": "auto"}, **more)
"""


class Jobs(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("python")
        self.addCleanup(self.user.close)

    def run_well(self, script, **options):
        return run_python(self.user, START + script, **options).expect(0)

    def states(self):
        """Of all jobs, by their names."""
        return {job["name"]: job["state"] for job in json.loads(self.user.run("list", "--json").expect(0).out)}

    def test_a_job_from_its_start_to_its_end(self):
        done = self.run_well("""
with up("life", "sh", "-c", "echo out; echo x >model; sleep 1; echo more", labels={"lr": "0.1"}) as job:
    assert job.name == "life" and job.was_started_here and job.id in repr(job)
    assert [line["line"] for line in job.logs(follow=True)] == ["out", "more"]
    assert [line["line"] for line in job.logs("worker:0", tail=1)] == ["more"]
    end = job.wait()
    assert (end["job"], end["state"]) == (job.id, "succeeded"), end
assert job.status()["state"] == "succeeded"
assert job.why()["incidents"] == []
assert {event["kind"] for event in job.events()} >= {"committed", "task", "ended"}
assert job.pull("mod*", to="home")["folders"][0]["file_count"] == 1
assert open("home/worker-0/model").read() == "x\\n"
[row] = tfdist.jobs(label="lr")
assert row["job"] == job.id and tfdist.jobs(label="other") == []
assert tfdist.Job("life").id == tfdist.Job(job.id).id == job.id
""")
        self.assertIn("tfdist: job life-", done.err)
        self.assertEqual(done.out, "")

    def test_a_cluster_file_with_changes(self):
        self.user.write("cluster.toml", clusters.local("file", ["sh", "-c", "echo $A-$B-$1", "sh"], slots=1, task_extra='env = { A = "a" }'))
        self.run_well("""
import pathlib
os.environ["B"] = "secret"
job = tfdist.up(pathlib.Path("cluster.toml"), args=["c"], set={"task.env.A": "z", "task.output": "separate"}, env=["B"], quiet=True)
job.wait()
assert {line["line"] for line in job.logs("master")} == {"z-secret-c"}
assert {line["stream"] for line in job.logs()} == {"stdout"}
""")

    def test_set_takes_values_of_python(self):
        self.run_well("""
from tfdist.job import _toml
assert _toml(["a", 2, True]) == '["a", 2, true]' and _toml({"a": {"b c": "5"}}) == '{"a" = {"b c" = "5"}}'
job = tfdist.up(hosts=["localhost:2"], command=["sh", "-c", "echo $A"], workdir=False,
    set={"cluster.ports": "auto", "task.env": {"A": "grün 😀"}, "task.gpus": 0, "task.grace": "1m"})
job.wait()
assert [line["line"] for line in job.logs()] == ["grün 😀"] * 2
""")

    def test_no_word_is_taken_for_an_option_or_for_the_newest_job(self):
        self.run_well("""
with up("words", "sleep", "60") as job:
    for call in (lambda: tfdist.Job(""), lambda: list(job.logs("--follow")), lambda: job.pull("--to=elsewhere"),
                 lambda: job.exec(["true"], on=["--timeout=1ms"]), lambda: tfdist.up("cluster.toml", set={"name": None})):
        try:
            call()
        except tfdist.UsageError as error:
            assert error.code == 2, error
        else:
            raise AssertionError(call)
    assert job.status()["state"] == "running"
""")

    def test_who_stops_reading_leaves_no_process(self):
        self.run_well("""
def commands():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(open(f"/proc/{pid}/cmdline").read().split("\\0"))
        except OSError:
            pass
    return [words[1] for words in found if job.id in words]
with up("reader", "sh", "-c", "while :; do echo line; sleep 0.01; done") as job:
    for line in job.logs(follow=True):
        assert "logs" in commands()
        break
    assert "logs" not in commands(), commands()
""")

    def test_calls_from_threads(self):
        self.run_well("""
import concurrent.futures
jobs = [up(f"job{number}", "sleep", "0.2") for number in range(3)]
with concurrent.futures.ThreadPoolExecutor() as pool:
    assert [end["state"] for end in pool.map(tfdist.Job.wait, jobs)] == ["succeeded"] * 3
""")

    def test_commands_beside_the_tasks(self):
        self.run_well("""
with up("beside", "sleep", "1000") as job:
    while not all(task["state"] == "running" for task in job.status()["tasks"]): pass
    [done] = job.exec(["sh", "-c", "echo on $TFDIST_TASK; exit 3"], on=["worker:0"])
    assert (done["output"], done["exit_code"]) == ("on worker:0\\n", 3), done
    [late] = job.exec(["sleep", "100"], timeout=0.2)
    assert late["timed_out"], late
""")

    def test_with_ends_what_it_has_started(self):
        done = run_python(self.user, START + """
with up("broken", "sleep", "1000"):
    raise ValueError("of the program")
""").expect(1)
        self.assertIn("ValueError: of the program", done.err)
        self.assertIn("nothing is left on 1 host", done.err)
        self.assertEqual(self.states(), {"broken": "stopped"})

    def test_with_leaves_what_it_has_joined_or_found(self):
        self.run_well("""
mine = up("long", "sleep", "1000")
with up("long", "sleep", "1000") as joined:
    assert joined.id == mine.id and not joined.was_started_here
with tfdist.Job("long") as found:
    assert found.id == mine.id
assert mine.status()["state"] == "running"
assert mine.down()["confirmed"] == ["localhost"]
""")

    def test_with_leaves_a_job_that_has_ended(self):
        done = self.run_well("""
with up("short", "true") as job:
    for line in job.logs(follow=True): pass
""")
        self.assertNotIn("nothing is left", done.err)
        self.assertEqual(self.states(), {"short": "succeeded"})

    def test_each_exit_code_has_its_exception(self):
        done = self.run_well("""
def caught(kind, call, *args, **options):
    try:
        call(*args, **options)
    except tfdist.Error as error:
        assert type(error) is kind, repr(error)
        return error
    raise AssertionError(f"no {kind}")

failed = caught(tfdist.JobFailed, up("fails", "sh", "-c", "exit 7").wait)
assert failed.code == 1 and failed.result["state"] == "failed" and "exit code 7" in str(failed)
assert tfdist.Job("fails").wait(check=False)["state"] == "failed"
job = up("long", "sleep", "1000")
taken = caught(tfdist.NameTaken, up, "long", "sleep", "1001")
assert taken.code == 4 and "tfdist up --replace" in taken.remedy
late = caught(tfdist.TimedOut, job.wait, 0.1)
assert isinstance(late, TimeoutError) and late.result["state"] == "running"
job.down()
gone = caught(tfdist.NoSuchJob, tfdist.Job, "nothing")
assert gone.host == gone.phase == "" and "no job nothing is known" in gone.cause and "tfdist list" in gone.remedy
host = caught(tfdist.HostError, tfdist.up, hosts=["nowhere.invalid"], command=["true"], workdir=False)
assert (host.host, host.phase, host.cause) == ("nowhere.invalid", "name lookup", "nowhere.invalid: the name is not known"), host
assert host.remedy.startswith("check the name") and host.code == 3
command = caught(tfdist.HostError, up, "none", "no-such-program")
assert (command.host, command.phase) == ("localhost", "command") and "no-such-program" in command.cause
left_out = caught(tfdist.Incomplete, job.pull, "no-such-file")
assert left_out.result["not_there"] == ["no-such-file"]
open("bad.toml", "w").write("nmae = 1")
wrong = caught(tfdist.UsageError, tfdist.up, "bad.toml")
assert "bad.toml:1:1: nmae: unknown key" in wrong.cause
caught(tfdist.UsageError, tfdist.up, "bad.toml", hosts=["h"], command=["true"])
caught(tfdist.UsageError, tfdist.up, "bad.toml", env=["A=b"])
caught(tfdist.UsageError, tfdist.up, "bad.toml", name="")
for said, options in (("command: expected a list of words", {"hosts": ["localhost"], "command": "sleep 1"}),
                      ("labels: expected a dict", {"labels": ["lr"]}), ("set={'task.env.NAME': value}", {"env": {"LR": "1"}})):
    try:
        tfdist.up("bad.toml", **options)
    except TypeError as error:
        assert said in str(error), error
    else:
        raise AssertionError(options)
os.environ["PATH"] = "/nowhere"
assert "pip install" in caught(tfdist.ProgramNotFound, tfdist.jobs).remedy
""")
        self.assertNotIn("nowhere.invalid", done.err)  # the exception says it, and was caught

    def test_nothing_of_a_variable_is_in_a_command_line(self):
        """The command itself takes a variable by its name."""
        self.run_well("""
from tfdist import job
os.environ["KEY"] = "secret"
import subprocess
real, seen = subprocess.Popen, []
def popen(argv, **options):
    seen.extend(argv)
    return real(argv, **options)
subprocess.Popen = popen
up("env", "sh", "-c", "echo $KEY", env=["KEY"]).wait()
assert "KEY" in seen and not [word for word in seen if "secret" in word], seen
assert [line["line"] for line in tfdist.Job("env").logs()] == ["secret"]
""")


    def test_a_job_of_another_machine(self):
        """Of another home folder, in which nothing of that job is recorded."""
        check_possible()
        with Hosts(1) as hosts, Tfdist("elsewhere") as other:
            started = self.run_well(f"""
job = tfdist.up(hosts=["h1"], command=["sh", "-c", "echo there; sleep 1000"], workdir=False, name="far", ssh_config={str(hosts.ssh_config)!r})
print(job.id)
""").out.strip()
            run_python(other, START + f"""
try:
    tfdist.Job("far")
except tfdist.NoSuchJob:
    pass
job = tfdist.Job("far", hosts=["h1"], ssh_config={str(hosts.ssh_config)!r})
assert (job.id, job.was_started_here) == ({started!r}, False)
for line in job.logs(follow=True):
    assert line["line"] == "there"
    break
assert job.down()["confirmed"] == ["h1"]
""").expect(0)


class Files(unittest.TestCase):
    def test_types_are_those_of_the_schema(self):
        made = subprocess.run([sys.executable, "-B", FOLDER / "make_types.py"], capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual((FOLDER / "tfdist/types.py").read_text(), made.stdout, "run python/make_types.py --write")

    def test_phases_are_those_of_the_command(self):
        with Tfdist("phases") as user:
            printed = run_python(user, "import tfdist.errors; print(*tfdist.errors.PHASES, sep='\\n')").expect(0).out.splitlines()
        named = re.findall(r'\{Phase::k\w+, "([^"]+)"\}', (ROOT / "base/error.cc").read_text())
        self.assertEqual(printed, [name for name in named if name != "usage"])  # which no line has
        page = (ROOT / "docs/json.md").read_text().split("## Errors")[1].split("\n## ")[0]
        quoted = re.findall(r"`([^`]*)`", page)
        self.assertEqual({words for words in quoted if re.fullmatch(r"[a-z -]+", words)}, set(printed))

    def test_types_are_right(self):
        with Tfdist("mypy") as user:
            done = subprocess.run([checker("mypy"), "--strict", "--cache-dir", user.folder / "cache", "-p", "tfdist"], cwd=FOLDER,
                                  env=environment(user), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
