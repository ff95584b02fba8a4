"""Jobs inside an allocation of a real Slurm, whose nodes are test hosts (tests/support/slurm.py)."""

import json
import os
import re
import shutil
import unittest

from tests.hosts import hosts as test_hosts
from tests.support import slurm
from tests.support.tfdist import ROOT
from tests.support.waiting import wait_for

SAVES = "trap 'sleep 1; echo saved >$HOME/saved.$TFDIST_TASK; exit 0' TERM; echo begin; while :; do sleep 0.1; done"


def setUpModule():
    test_hosts.check_possible()
    slurm.check_possible()


class InSlurm(unittest.TestCase):
    nodes = 2

    def setUp(self):
        self.hosts = test_hosts.Hosts(1 + self.nodes, **slurm.OPTIONS)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        slurm.start(self.hosts, **slurm.CGROUPS)
        self.home = self.hosts[0].home

    def run_here(self, *argv, **options):
        return slurm.run(self.hosts, *argv, **options)

    def tfdist(self, *words, **options):
        """On the login node, outside of any allocation."""
        return self.run_here(slurm.TFDIST, *words, **options)

    def write(self, name, text):
        path = self.home / name
        path.write_text(text)
        path.chmod(0o644)
        return f"/home/trainer/{name}"

    def cluster_file(self, command, layout="mirrored", extra=""):
        return self.write("job.toml", f'name = "job"\n{extra}\n[cluster]\nhosts = "slurm"\nlayout = "{layout}"\n'
                                      f'[task]\ncommand = {json.dumps(command)}\ngpus = 0\n')

    def batch(self, script, *options):
        """Its number, and the file of its output."""
        path = self.write("batch.sh", "#!/bin/sh\n" + script)
        said = self.run_here("sbatch", f"--nodes={self.nodes}", "--chdir=/home/trainer", "--output=/home/trainer/batch.out", *options, path)
        return re.search(r"\d+", said.stdout).group(), self.home / "batch.out"

    def start_detached(self, command, *options):
        """A job in a batch script that outlives its `up`, until its tasks run."""
        file = self.cluster_file(["sh", "-c", command])
        job, out = self.batch(f"{slurm.TFDIST} up -d {file}; echo up $?; exec sleep 600", *options)
        wait_for(lambda: out.exists() and "up " in out.read_text(), lambda: f"up: {out.exists() and out.read_text()}", 60)
        self.assertIn("up 0", out.read_text())
        wait_for(lambda: self.tfdist("logs").stdout.count("| begin") == self.nodes, "tasks that run", 60)
        return job

    def left(self):
        return {host.name: [process.argv for process in slurm.processes(host)] for host in self.hosts[1:] if slurm.processes(host)}

    def assert_nothing_left(self, job):
        wait_for(lambda: not slurm.steps(self.hosts, job), lambda: f"no step of {job}; there are {slurm.steps(self.hosts, job)}")
        wait_for(lambda: not self.agents(), lambda: f"nothing left on the nodes; there is {self.left()}")

    def agents(self):
        """And tasks and steps: all but the batch script."""
        return [argv for found in self.left().values() for argv in found if "tfdist" in " ".join(argv) and "batch" not in " ".join(argv)]

    def pids(self, word, host):
        return [process.pid for process in slurm.processes(host) if any(word in text for text in process.argv)]


class TheTestSlurm(InSlurm):
    def test_a_step_runs_on_each_node_and_its_end_kills_all_that_it_started(self):
        """What tfdist has to live with: no daemon outlives its step."""
        script = "setsid sleep 600 </dev/null >/dev/null 2>&1 & hostname"
        done = self.run_here("srun", "-N2", "sh", "-c", script)
        self.assertEqual(sorted(done.stdout.split()), ["h2", "h3"])
        self.assertEqual(self.left(), {})


class Jobs(InSlurm):
    def test_digits_are_learned_in_an_allocation_without_ssh(self):
        data = self.home / "data"
        shutil.copytree(ROOT / "configs/data", data)
        data.chmod(0o755)
        file = self.cluster_file(["{runtime}", "--data", "digits", "--model", "mlp", "--steps", "2000"], layout="uai")
        text = (self.home / "job.toml").read_text() + 'workdir = "data"\n'
        self.write("job.toml", text)
        done = self.run_here("salloc", "--nodes=2", slurm.TFDIST, "up", file, seconds=300)
        self.assertRegex(done.stdout, r"final: .*test accuracy 0\.9[5-9]")
        wait_for(lambda: self.left() == {}, lambda: f"nothing left; there is {self.left()}")

    def exported(self, command, top="", task="", words=()):
        """The script that `export` makes of a file with SSH hosts, as a file."""
        file = self.write("ssh.toml", f'name = "job"\n{top}\n[cluster]\nhosts = ["h2", "h3"]\nlayout = "mirrored"\n'
                                      f'[task]\ncommand = {json.dumps(command)}\ngpus = 0\n{task}\n')
        return self.write("exported.sh", self.tfdist("export", file, "--to", "slurm", *words).stdout)

    def submit(self, script, *options):
        """Its number; the output is in `batch.out`, and of an array in `batch.N`."""
        said = self.run_here("env", f"PATH=/run/bin:{os.environ['PATH']}", "sbatch", "--chdir=/home/trainer",
                             "--output=/home/trainer/batch." + ("%a" if "--array" in str(options) else "out"), *options, script)
        return re.search(r"\d+", said.stdout).group()

    def wait_for_end(self, job, state="COMPLETED"):
        wait_for(lambda: slurm.state(self.hosts, job) == state, lambda: f"{state} of {job}: {slurm.state(self.hosts, job)}", 120)

    def test_an_exported_script_runs_the_plan_of_the_file(self):
        data = self.home / "data"
        shutil.copytree(ROOT / "configs/data", data)
        data.chmod(0o755)
        script = self.exported(["{runtime}", "--data", "digits", "--model", "mlp"], 'deadline = "2h"', 'workdir = "data"',
                               ("--set", 'cluster.layout="uai"', "--", "--steps", "2000"))
        self.assertIn("#SBATCH --time=130\n", (self.home / "exported.sh").read_text())
        job = self.submit(script)
        self.wait_for_end(job)
        self.assertRegex((self.home / "batch.out").read_text(), r"final: .*test accuracy 0\.9[5-9]")
        self.assertIn("succeeded", self.tfdist("list").stdout)
        self.assert_nothing_left(job)

    def test_runs_of_an_array_have_a_name_and_a_number_each(self):
        script = self.exported(["sh", "-c", 'echo "$TFDIST_TASK has $1 of $TFDIST_JOB"', "sh", "{env:SLURM_ARRAY_TASK_ID}"])
        self.submit(script, "--array=3-4%1")
        for number in ("3", "4"):
            out = self.home / f"batch.{number}"
            wait_for(lambda out=out: out.exists() and "succeeded" in out.read_text(), lambda: f"run {number}: {out.exists() and out.read_text()}", 120)
            said = re.findall(r"\| (worker:\d) has (\d) of (job-\d)\n", out.read_text())
            self.assertEqual(sorted(said), [(f"worker:{index}", number, f"job-{number}") for index in (0, 1)], out.read_text())

    def test_a_requeued_script_goes_on_with_what_its_first_run_has_kept(self):
        command = 'own=$1/$TFDIST_TASK; if [ -e "$own" ]; then echo goes on at $(cat "$own"); exit 0; fi; echo 7 >"$own"; echo begin; exec sleep 600'
        script = self.exported(["sh", "-c", command, "sh", "{keep}"])
        job = self.submit(script, "--requeue")
        out = self.home / "batch.out"
        wait_for(lambda: out.exists() and out.read_text().count("| begin") == 2, lambda: f"tasks: {out.exists() and out.read_text()}", 60)
        self.run_here("scontrol", "requeue", job)
        wait_for(lambda: slurm.state(self.hosts, job) == "PENDING", lambda: f"end of the first run: {slurm.state(self.hosts, job)}", 60)
        self.run_here("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm waits for two minutes
        wait_for(lambda: out.read_text().count("| goes on at 7") == 2, lambda: f"a second run: {out.read_text()}", 240)
        self.wait_for_end(job)
        self.assertEqual(out.read_text().count("| begin"), 2)
        self.assert_nothing_left(job)

    def test_a_host_is_each_node_and_has_the_tasks_that_were_asked_for(self):
        done = self.run_here("salloc", "--nodes=2", "--ntasks=3", slurm.TFDIST, "up", "-H", "slurm", "--no-workdir", "--", "sh", "-c",
                             'echo "$TFDIST_TASK of $(hostname)"')
        self.assertEqual(sorted(re.findall(r"\| (.*)", done.stdout)),
                         ["worker:0 of h2", "worker:1 of h2", "worker:2 of h3"])
        seen = self.run_here("salloc", "--nodes=2", slurm.TFDIST, "exec", "-H", "slurm", "--", "hostname").stdout
        self.assertEqual(sorted(seen.split()), ["h2", "h2", "h3", "h3", "|", "|"])

    def test_outside_of_an_allocation_it_says_where_to_call_it(self):
        file = self.cluster_file(["true"])
        for words in (["up", file], ["up", "-H", "slurm", "--no-workdir", "--", "true"], ["check", file]):
            done = self.tfdist(*words, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn("this is no allocation of Slurm: SLURM_JOB_ID is not set", done.stderr)
            self.assertIn("salloc --nodes=2", done.stderr)

    def test_the_login_node_looks_at_a_job_and_ends_it(self):
        job = self.start_detached(SAVES)
        status = json.loads(self.tfdist("status", "--json").stdout)
        self.assertEqual([task["state"] for task in status["tasks"]], ["running", "running"])
        wait_for(lambda: len(slurm.steps(self.hosts, job)) == 2, "steps of the two agents")
        down = self.tfdist("down")
        self.assertIn("nothing is left on 2 of 2 hosts", down.stderr)
        self.assertEqual(slurm.state(self.hosts, job), "RUNNING")
        self.assert_nothing_left(job)
        self.assertIn("| begin", self.tfdist("logs").stdout)

    def test_no_process_of_the_login_node_is_needed_while_a_job_runs(self):
        """An srun that gets SIGTERM kills its step at once."""
        job = self.start_detached(SAVES)
        wait_for(lambda: not self.pids("srun", self.hosts[1]), lambda: f"no srun; there is {self.left()}")
        wait_for(lambda: len(slurm.steps(self.hosts, job)) == 2, "steps of the two agents")
        self.tfdist("down")
        self.assert_nothing_left(job)

    def test_scancel_lets_tasks_save_also_where_up_waits_in_the_script(self):
        file = self.cluster_file(["sh", "-c", SAVES])
        job, out = self.batch(f"exec {slurm.TFDIST} up {file}")
        wait_for(lambda: out.exists() and out.read_text().count("| begin") == 2, "tasks that run", 60)
        self.check_that_tasks_save(job)

    def test_scancel_lets_tasks_save(self):
        self.check_that_tasks_save(self.start_detached(SAVES))

    def check_that_tasks_save(self, job):
        self.run_here("scancel", job)
        wait_for(lambda: slurm.state(self.hosts, job) == "CANCELLED", lambda: f"end of {job}: {slurm.state(self.hosts, job)}", 60)
        wait_for(lambda: self.left() == {}, lambda: f"nothing left; there is {self.left()}")
        saved = sorted(path.name for path in self.home.glob("saved.*"))
        self.assertEqual(saved, ["saved.worker:0", "saved.worker:1"])
        self.assertIn(f"no agent of it runs on h2: Slurm's job {job} has ended", self.tfdist("status").stdout)

    def test_what_a_job_has_written_outlives_its_allocation(self):
        job = self.start_detached("echo kept >result; echo begin; exec sleep 600")
        self.run_here("scancel", job)
        wait_for(lambda: self.left() == {}, lambda: f"nothing left; there is {self.left()}", 60)
        self.assertEqual(self.tfdist("logs").stdout.count("| begin"), 2)
        self.tfdist("pull", "--to", "/home/trainer/results")
        self.assertEqual([path.read_text() for path in self.home.glob("results/**/result")], ["kept\n"] * 2)
        name = self.tfdist("list", "--json").stdout.split('"job": "')[1].split('"')[0]
        self.assertIn("nothing is left on 2 of 2 hosts", self.tfdist("down").stderr)
        self.assertIn("stopped", self.tfdist("list").stdout)
        self.tfdist("down", "--purge", "-y", name)
        self.assertEqual(list(self.home.glob(".cache/tfdist/jobs/*")), [])

    def test_down_of_a_job_whose_nodes_are_gone_confirms_its_end(self):
        """Homes of the nodes' own: nothing of the job is to be seen here."""
        job = self.start_detached("echo begin; exec sleep 600")
        self.run_here("scancel", job)
        wait_for(lambda: self.left() == {}, lambda: f"nothing left; there is {self.left()}", 60)
        (self.home / ".cache/tfdist/jobs").rename(self.home / "of-the-nodes")
        down = self.tfdist("down")
        self.assertIn("nothing is left on 2 of 2 hosts", down.stderr)
        self.assertIn(f"Slurm's job {job} has ended", down.stderr)
        self.assertNotIn("running", self.tfdist("list").stdout)


if __name__ == "__main__":
    unittest.main()
