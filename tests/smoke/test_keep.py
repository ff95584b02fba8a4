"""`{keep}`: a folder that jobs of one name keep on their hosts from one to the next."""

import json
import os
import re
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

# As a training does: it goes on at the step of its newest checkpoint.
TRAIN = shell("step=$(cat {keep}/step 2>/dev/null || echo 0); echo at $step; echo $((step + 100)) >{keep}/step")


def setUpModule():
    check_possible()


class Keep(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("keep")
        self.addCleanup(self.user.close)
        self.hosts = Hosts(3)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)

    def up(self, hosts, command=TRAIN, name="job"):
        file = self.user.write("cluster.toml", clusters.over_ssh(name, command, hosts, layout="mirrored",
                                                                 ssh_config=self.hosts.ssh_config))
        return self.user.run("up", file).expect(0)

    def kept(self, host, name="job"):
        return host.home / ".cache/tfdist/keep" / name

    def test_the_next_job_of_the_name_goes_on(self):
        first, second = self.hosts[0], self.hosts[1]
        begun = self.up([first, second])
        self.assertIn("worker:0 | at 0\n", begun.out)
        self.assertIn(f"tfdist: {{keep}}: {first.address[:-1]}[1-2]: empty\n", begun.err)
        self.assertIn("tfdist: what they keep for the next job called job: ", begun.err)
        self.assertEqual(self.kept(first).stat().st_mode & 0o777, 0o700)
        (self.kept(second) / "step").unlink()
        gone_on = self.up([first, second])
        self.assertIn("worker:0 | at 100\n", gone_on.out)
        self.assertRegex(gone_on.err, re.escape(f"tfdist: {{keep}}: {first.address}: 1 file, 4 bytes, the newest step, ")
                         + r"\d+\w* ago; " + re.escape(f"{second.address}: empty\n"))
        self.assertNotIn("left files of its tasks", gone_on.err)
        self.assertIn("worker:0 | at 0\n", self.up([first, second], name="other").out)

    def test_a_host_that_is_no_more_among_them_is_named(self):
        self.up(self.hosts[:2])
        moved = self.up(self.hosts[1:])
        self.assertIn(f"tfdist: warning: the last job called job ran on {self.hosts[0].address} too: what it kept there, "
                      "no task of this job finds\n", moved.err)
        self.assertNotIn("ran on", self.up(self.hosts[1:]).err)

    def test_results_on_a_host_that_is_no_more_among_them_are_named_without_keep_too(self):
        train = shell('[ "$RANK" = 0 ] && echo 100 >step; true')
        self.up(self.hosts[:2], train)
        job = self.user.job_id()
        said = f"the last job called job ({job}) ran on {self.hosts[0].address} too: what its tasks wrote there, if anything, no task of this job finds"
        self.assertIn(f"tfdist: warning: {said}\n  try: tfdist pull {job} brings it home; ", self.up(self.hosts[1:], train).err)
        self.assertNotIn("ran on", self.up(self.hosts[1:], train).err)

    def with_spare(self, script):
        first, second, third = self.hosts
        text = clusters.over_ssh("job", shell(script), [first, second], layout="mirrored", ssh_config=self.hosts.ssh_config)
        spare = f'{{ address = "{third.address}", ssh = "{third.name}", spare = true }}'
        return self.user.write("job.toml", text.replace("hosts = [", f"hosts = [{spare}, ", 1))

    def test_what_a_spare_host_lacks_is_said_when_it_takes_over(self):
        file = self.with_spare('echo begun >{keep}/step; [ "$TFDIST_ATTEMPT" = 1 ] && exec sleep infinity; echo over')
        up = self.user.start("up", file)
        wait_for(lambda: (self.kept(self.hosts[1]) / "step").exists(), "a checkpoint")
        self.hosts[1].crash()
        self.assertEqual(up.wait(120), 0, up.err.read_text())
        lack = (f"{self.hosts[2].address} has only its own {{keep}}: it lacks what the tasks have kept on {self.hosts[1].address}, "
                "unless both share that folder")
        self.assertEqual(up.err.read_text().count(f"tfdist: warning: {lack}\n  try: keep checkpoints in a folder that all hosts share\n"), 1,
                         up.err.read_text())
        self.assertEqual(self.user.run("events", "job").expect(0).out.count(f"; {lack}\n"), 1)

    def test_a_job_that_replaces_another_says_once_what_is_kept(self):
        for folder, words in (("first", ["-d"]), ("second", ["--replace"])):
            self.user.write(f"{folder}/file", folder)
            command = ["--", "sh", "-c", "echo {keep}; touch {keep}/file; sleep $0", "1000" if folder == "first" else "0"]
            done = self.user.run("up", *words, "-F", str(self.hosts.ssh_config), "-H", "h1", "--name", "job", *command, cwd=self.user.folder / folder).expect(0)
            if folder == "first":
                wait_for(lambda: (self.kept(self.hosts[0]) / "file").exists(), "a file")
        self.assertEqual(done.err.count("tfdist: warning: {keep} of job has what job job-"), 1, done.err)
        self.assertEqual(done.err.count("tfdist: workdir: "), 1, done.err)
        self.assertEqual(done.err.count("tfdist: {keep}: "), 1, done.err)

    def test_a_start_with_a_spare_host_says_once_what_is_kept(self):
        file = self.with_spare("true {keep}")
        self.hosts[1].crash()
        up = self.user.run("up", file).expect(0)
        self.assertIn(f"tfdist: spare host {self.hosts[2].address} takes the place of {self.hosts[1].address}\n", up.err)
        self.assertEqual(up.err.count("tfdist: {keep}: "), 1, up.err)

    def test_what_a_cleaned_host_had_is_named_and_the_rest_is_shown(self):
        first, second = self.hosts[0], self.hosts[1]
        for cleaned, left, gone in ((first, "worker:1", "worker:0"), (second, "worker:0", "worker:1")):
            self.up([first, second], shell('echo "said by $TFDIST_TASK"; echo text >file'), name="gone")
            job = self.user.job_id()
            self.user.run("clean", "--yes", "-F", str(self.hosts.ssh_config), "-H", cleaned.name).expect(0)
            logs = self.user.run("logs", job).expect(3)
            self.assertEqual(logs.out, f"{left} | said by {left}\n")
            self.assertEqual(logs.err, f"tfdist: the job's folder is gone from {cleaned.address}: the output of {gone} is gone\n")
            pulled = self.user.run("pull", job, "--to", job).expect(1)
            self.assertIn(f"tfdist: the job's folder is gone from {cleaned.address}: what its tasks wrote there is gone\n", pulled.err)
            self.assertEqual([path.name for path in (self.user.folder / job).iterdir() if path.name[0] != "."], [left.replace(":", "-")])
            self.assertEqual(self.user.run("logs", job, gone).expect(3).err, logs.err)
            if cleaned == first:
                self.assertIn(f"is gone from {first.address}; {second.address} still has one\n  try: tfdist logs {job} and tfdist pull {job} bring",
                              self.user.run("why", job).expect(4).err)
        self.user.run("clean", "--yes", "-F", str(self.hosts.ssh_config), "-H", first.name).expect(0)
        for command in ("logs", "pull", "why"):
            self.assertIn("try: tfdist prune forgets finished jobs", self.user.run(command, job).expect(4).err)

    def test_a_task_that_finds_what_another_one_kept_is_named(self):
        first, second = self.hosts[0], self.hosts[1]
        self.up([first, second])
        moved = self.up([second, first])
        self.assertIn(f"tfdist: warning: worker:0 ran on {first.address} the last time, and finds what another task kept "
                      "(so do 1 more)\n", moved.err)
        self.assertNotIn("the last time", self.up([second, first]).err)

    def test_two_projects_with_a_program_of_one_name_do_not_share_what_they_keep(self):
        """A train.py in another folder is mostly another program."""
        def up(project, *words, code=0):
            self.user.write(f"{project}/train.py", "import sys\nopen(sys.argv[1] + '/made', 'a').close()\n")
            return self.user.run("up", "-H", "localhost", *words, "--", "python3", "train.py", "{keep}",
                                 cwd=self.user.folder / project).expect(code)

        up("first")
        refused = up("second", code=2).err
        self.assertRegex(refused, r"\{keep\} of train has what job train-\S+ has kept, which was started from "
                         + re.escape(str(self.user.folder / "first")))
        self.assertIn("--name NAME gives this program a {keep} of its own; --name train goes on with that one\n", refused)
        wait_for(lambda: not self.user.left(), lambda: f"nothing left; there is {self.user.left()}", 60)
        self.user.run("up", "-d", "-H", "localhost", "--name", "train", "--", "sleep", "1000", cwd=self.user.folder / "first").expect(0)
        self.assertIn("has what job train-", up("second", "--replace", code=2).err)
        self.assertEqual(self.user.status("train")["state"], "running")
        self.user.run("down", "train").expect(0)
        up("second", "--name", "other")
        self.assertIn("tfdist: warning: {keep} of train has what job train-", up("second", "--name", "train").err)
        self.assertNotIn("has kept", up("second", "--name", "other").err)

    def test_replace_ends_no_job_of_another_folder_that_nobody_has_named(self):
        """Both have a train.py, by which tfdist names the job."""
        def up(project, *words):
            self.user.write(f"{project}/train.py", "import time\ntime.sleep(1000)\n")
            return self.user.run("up", "-d", *words, "-H", "localhost", "--", "python3", "train.py", cwd=self.user.folder / project)

        up("first").expect(0)
        first = self.user.job_id()
        refused = up("second", "--replace").expect(2)
        self.assertIn(f"nothing was started: job {first} runs, which was started from {self.user.folder / 'first'}/, and runs on\n", refused.err)
        self.assertIn(f"--name NAME gives this program's jobs a name of their own; tfdist down {first} ends that one; "
                      "--name train --replace replaces it\n", refused.err)
        self.assertEqual(self.user.status(first)["state"], "running")
        up("first", "--replace").expect(0)
        self.assertEqual(self.user.status(first)["state"], "stopped")
        up("second", "--replace", "--name", "train").expect(0)

    def test_nobody_goes_on_from_a_strangers_checkpoint_unasked(self):
        """Another machine, or another home folder, logs in to the same account, and its job has the same name."""
        first, second = self.hosts[0], self.hosts[1]
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)

        def up(user, *words):
            file = user.write("cluster.toml", clusters.over_ssh("job", TRAIN, [first, second], layout="mirrored", ssh_config=self.hosts.ssh_config))
            return user.run("up", file, *words)

        up(self.user).expect(0)
        refused = up(laptop).expect(2)
        self.assertRegex(refused.err, r"tfdist: \{keep\} of job has what jobs of \S+@\S+ have kept; \{keep\}: .*: 1 file, 4 bytes, the newest step, \d+\w* ago\n"
                                      r"  try: --name NAME gives this job its own \{keep\}; `up --take-keep` goes on with these files\n"
                                      r"tfdist: nothing was started\n")
        self.assertEqual(refused.err.count("{keep}: "), 1)
        self.assertEqual((self.kept(first) / "step").read_text(), "100\n")
        self.assertIn("no job is known on this machine\n", laptop.run("list").out)
        checked = laptop.run("check", "--json", "cluster.toml").expect(3)
        self.assertEqual([(one["severity"], one["check"], one["what"].split(" have kept; ")[0]) for one in json.loads(checked.out)["findings"]],
                         [("error", "keep", refused.err.split(" have kept; ")[0].removeprefix("tfdist: "))])
        laptop.run("check", "--name", "other", "cluster.toml").expect(0)
        self.assertIn("worker:0 | at 0\n", up(laptop, "--name", "other").expect(0).out)
        taken = up(laptop, "--take-keep").expect(0)
        self.assertIn("worker:0 | at 100\n", taken.out)
        self.assertIn("worker:0 | at 200\n", up(laptop).expect(0).out)  # asked once
        back = up(self.user).expect(0)
        self.assertIn("worker:0 | at 300\n", back.out)
        self.assertRegex(back.err, r"tfdist: \{keep\}: the last job that used it was started by \S+@\S+\n")

    def test_nothing_is_sent_where_one_host_has_a_strangers_checkpoint(self):
        first, second = self.hosts[0], self.hosts[1]
        self.up([second])
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)
        for size in (2 << 20, 9 << 20):  # from here to each host; from host to host
            with self.subTest(size=size):
                (laptop.folder / "model").write_bytes(os.urandom(size))
                command = shell("sleep 1; cat model {keep}/step")
                file = laptop.write("cluster.toml", clusters.over_ssh("job", command, [first, second], layout="mirrored", task_extra='workdir = "."',
                                                                      ssh_config=self.hosts.ssh_config))
                self.assertIn("--take-keep", laptop.run("up", file).expect(2).err)
                for host in (first, second):
                    sent = [path for path in (host.home / ".cache/tfdist/files").rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]
                    self.assertEqual(sent, [])

    def test_check_names_what_a_program_of_another_folder_has_kept(self):
        for project in ("first", "second"):
            self.user.write(f"{project}/train.py", "import sys\nopen(sys.argv[1] + '/made', 'a').close()\n")
            self.user.write(f"{project}/cluster.toml", clusters.over_ssh("job", ["python3", "train.py", "{keep}"], [self.hosts[0]], layout="mirrored",
                                                                          task_extra='workdir = "."', ssh_config=self.hosts.ssh_config))
        self.user.run("up", "first/cluster.toml").expect(0)
        self.assertNotIn("keep", self.user.run("check", "first/cluster.toml").expect(0).out)
        checked = self.user.run("check", "second/cluster.toml").expect(0)
        self.assertRegex(checked.out, r"(?m)^warning: keep: \{keep\} of job has what job \S+ has kept, which was started from "
                                      + re.escape(str(self.user.folder / "first")) + "/?$")

    def test_a_job_that_runs_is_not_ended_for_one_that_may_not_have_what_it_kept(self):
        host = self.hosts[0]
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)
        script = "echo 100 >{keep}/step; echo ready; exec sleep 1000"

        def write(user, command):
            return user.write("cluster.toml", clusters.over_ssh("job", command, [host], layout="mirrored", ssh_config=self.hosts.ssh_config))

        self.user.run("up", "-d", write(self.user, shell(script))).expect(0)
        wait_for(lambda: "ready" in self.user.run("logs", "job").out, "the task has kept something")
        refused = laptop.run("up", "--replace", "--name", "job", write(laptop, TRAIN)).expect(2)
        self.assertIn("`up --take-keep` goes on with these files\n", refused.err)
        self.assertRegex(refused.err, r"tfdist: nothing was started, and job job-\S+ runs on\n")
        self.assertEqual(self.user.status("job")["state"], "running")
        self.assertIn("worker:0 | at 100\n", laptop.run("up", "--replace", "--name", "job", "--take-keep", write(laptop, TRAIN)).expect(0).out)

    def test_an_empty_folder_is_nobodys(self):
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)
        for user in (self.user, laptop, self.user):
            file = user.write("cluster.toml", clusters.over_ssh("job", shell("ls {keep}"), self.hosts[:1], layout="mirrored", ssh_config=self.hosts.ssh_config))
            user.run("up", file).expect(0)

    def test_files_of_a_running_job_are_no_news_to_another_plan_of_its_name(self):
        def cluster(hosts, seconds):
            command = shell(f"echo {{keep}} >log; echo ready; exec sleep {seconds}")
            return self.user.write("cluster.toml", clusters.over_ssh("job", command, hosts, layout="mirrored", ssh_config=self.hosts.ssh_config))
        self.user.run("up", "-d", cluster(self.hosts[:2], 1000)).expect(0)
        wait_for(lambda: self.user.run("logs", "job").out.count("ready") == 2, "both tasks have written")
        refused = self.user.run("up", "-d", cluster([self.hosts[0], self.hosts[2]], 2000)).expect(4)
        self.assertIn("runs under this name, from another plan\n", refused.err)
        self.assertNotIn("warning", refused.err)
        self.assertNotIn("{keep}:", refused.err)
        self.user.run("down", "job").expect(0)

    def test_pull_brings_it_home(self):
        self.up(self.hosts[:2], shell("mkdir -p {keep}/ckpt; echo {task} >{keep}/ckpt/model; echo log >log"))
        home = self.user.folder / "results"
        self.user.run("pull", "job", "--to", str(home)).expect(0)
        found = {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}
        self.assertEqual(found, {"worker-0/log": "log\n", "worker-1/log": "log\n",
                                 "keep-worker-0/ckpt/model": "worker:0\n", "keep-worker-1/ckpt/model": "worker:1\n"})

    def test_pull_brings_that_of_hosts_with_one_home_once(self):
        hosts = Hosts(2, shared_home=True)
        hosts.start()
        self.addCleanup(hosts.stop)
        file = self.user.write("cluster.toml", clusters.over_ssh("job", shell("echo {task} >{keep}/{task}"), list(hosts),
                                                                 layout="mirrored", ssh_config=hosts.ssh_config))
        self.user.run("up", file).expect(0)
        home = self.user.folder / "results"
        self.user.run("pull", "job", "--to", str(home)).expect(0)
        self.assertEqual(sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()),
                         ["keep-worker-0/worker:0", "keep-worker-0/worker:1"])

    def test_the_newest_job_of_the_name_is_the_way_to_it(self):
        host = self.hosts[0]
        self.up([host], shell("mkdir -p {keep}/ckpt; echo best >{keep}/ckpt/model; echo log >{keep}/log"))
        self.up([host], shell("echo a trial"))
        home = self.user.folder / "results"
        listed = self.user.run("pull", "job", "--dry-run").expect(0)
        self.assertIn("keep: 2 files, ", listed.out)
        self.user.run("pull", "job", "{keep}/ckpt", "--to", str(home)).expect(0)
        self.user.run("pull", "job", "keep/ckpt", "--to", str(home)).expect(0)
        self.assertEqual({str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()},
                         {"keep/ckpt/model": "best\n"})

    def test_an_older_jobs_pull_leaves_out_what_a_newer_one_has_kept(self):
        host = self.hosts[0]
        home = self.user.folder / "results"
        self.up([host], shell("echo 1 >{keep}/model; echo 1 >{keep}/first"))
        older = self.user.job_id()
        self.assertNotIn("{keep}", self.user.run("pull", "-n", older).expect(0).err)
        self.up([host], shell("echo 2 >{keep}/model"))  # mostly in the same second
        newer = self.user.job_id()
        self.assertNotEqual(older, newer)
        for words in (["-n"], []):
            pulled = self.user.run("pull", *words, older, "--to", str(home)).expect(0)
            self.assertIn(f"tfdist: {host.address}: {{keep}}: model has changed since job {newer} began, and is left out\n"
                          f"  try: tfdist pull {older} '{{keep}}/*' brings it; tfdist pull {newer} too\n", pulled.err)
        self.assertEqual([path.name for path in (home / "keep").iterdir() if not path.name.startswith(".")], ["first"])
        listed = json.loads(self.user.run("pull", "-n", "--json", older, "--to", str(home)).expect(0).out)
        self.assertEqual([one["newer"] for one in listed["folders"]], [["model"]])
        named = self.user.run("pull", older, "{keep}/*", "--to", str(home)).expect(0)
        self.assertIn(f"model has changed since job {newer} began\n", named.err)
        self.assertEqual((home / "keep/model").read_text(), "2\n")
        self.assertNotIn("{keep}", self.user.run("pull", newer, "--to", str(home / "newer")).expect(0).err)
        self.assertEqual((home / "newer/keep/first").read_text(), "1\n")

    def test_a_job_that_cannot_start_leaves_none(self):
        file = self.user.write("cluster.toml", clusters.over_ssh("job", ["{keep}/nothing"], self.hosts[:1], layout="mirrored",
                                                                 ssh_config=self.hosts.ssh_config))
        self.user.run("up", file).expect(3)
        self.assertFalse(self.kept(self.hosts[0]).parent.exists())

    def test_a_purge_of_a_job_that_keeps_nothing_leaves_it(self):
        host = self.hosts[0]
        self.up([host])
        self.user.run("clean", "--yes", str(self.user.folder / "cluster.toml")).expect(0)
        self.up([host], shell("echo a trial"))
        purged = self.user.run("down", "--purge", self.user.job_id()).expect(0)
        self.assertRegex(purged.err, rf"tfdist: \{{keep\}}: {re.escape(host.address)}: 1 file, 4 bytes, the newest step, \d+\w* ago: "
                                     "this stays for the next job called job\n")
        self.assertEqual((self.kept(host) / "step").read_text(), "100\n")

    def test_what_an_ending_task_keeps_is_not_removed_unasked(self):
        """{keep} was empty when `down --purge` looked at it."""
        host = self.hosts[0]
        script = "trap 'echo 100 >{keep}/step; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
        file = self.user.write("cluster.toml", clusters.over_ssh("job", shell(script), [host], layout="mirrored",
                                                                 ssh_config=self.hosts.ssh_config))
        self.user.run("up", "-d", file).expect(0)
        wait_for(lambda: "ready" in self.user.run("logs", "job").out, "the task heeds SIGTERM")
        self.user.run("down", "--purge", "job").expect(0)
        self.assertEqual((self.kept(host) / "step").read_text(), "100\n")

    def test_what_no_job_leads_to_any_more_is_listed_and_removed_where_it_is_asked_for(self):
        """The last job of the name does not name {keep}, and is purged."""
        host = self.hosts[0]
        self.up([host])
        keeping = self.user.job_id()
        self.up([host], shell("echo a trial"))
        file = str(self.user.folder / "cluster.toml")
        self.user.run("clean", "--yes", file).expect(0)
        gone = self.user.run("pull", keeping).expect(4)
        folder = "/home/trainer/.cache/tfdist/keep/job"  # as the host sees it
        place = f"scp -r h1:{folder} ."
        self.assertEqual(gone.err, f"tfdist: what its tasks wrote of job {keeping} is gone: its folder is gone from {host.address}\n"
                                   f"  try: what jobs called job keep is still there, and the next one finds it: {place} brings it home; "
                                   "tfdist clean --purge removes it\n")
        self.up([host], shell("echo a trial"))
        self.user.run("down", "--purge", self.user.job_id()).expect(0)
        self.user.run("prune", keeping).expect(0)
        self.assertIn(place, self.user.run("pull", file).expect(4).err)
        row = rf"{re.escape(host.address)} +\S+ +\S+ KiB +\{{keep\}} of job, {folder}: 1 file, 4 bytes, the newest step, \S+ ago"
        listed = self.user.run("clean", "--yes", file).expect(0)
        self.assertRegex(listed.out, row + ": stays for the next job of that name; --purge removes it\n")
        self.assertEqual((self.kept(host) / "step").read_text(), "100\n")
        self.assertRegex(self.user.run("clean", "--purge", file).expect(2).out, row + "\n")
        for spared in (("--older-than", "30d"), ("--keep", "1")):
            listed = self.user.run("clean", "--purge", "--yes", *spared, file).expect(0)
            self.assertRegex(listed.out, row + ": stays by --keep or --older-than\n")
            self.assertTrue(self.kept(host).exists())
        # In a folder that is closed there may be a newer file.
        closed = "/home/trainer/.cache/tfdist/keep/job/closed"
        host.run_as("root", ["mkdir", "-m", "700", closed])
        host.run_as("root", ["touch", "-d", "2001-01-01", f"{closed}/../step"])
        unseen = self.user.run("clean", "--purge", "--yes", "--older-than", "1d", file).expect(3)
        self.assertIn(": stays, a newer file may be in what was not looked at\n", unseen.out)
        self.assertIn(f"tfdist: {host.address}: files: kept {folder}: not all of it could be looked at, ", unseen.err)
        host.run_as("root", ["rmdir", closed])
        self.assertIn(f"{host.address}: removed {folder}\n", self.user.run("clean", "--purge", "--yes", file).expect(0).out)
        self.assertFalse(self.kept(host).exists())

    def test_several_jobs_of_a_name_are_purged_in_one_command(self):
        host = self.hosts[0]
        ids = []
        for _ in range(3):
            self.up([host])
            ids.append(self.user.job_id())
        self.up([host], shell("echo a trial"))
        ids.insert(0, self.user.job_id())  # keeps nothing
        refused = self.user.run("down", "--purge", *ids).expect(2)
        self.assertIn("nothing was removed: ", refused.err)
        self.assertNotIn("ended;", refused.err)
        terminal = self.user.start_on_terminal("down", "--purge", *ids)
        terminal.wait_for_text("remove it? [y/N]")
        os.write(terminal.fd, b"y\n")
        self.assertEqual(terminal.wait(), 0, terminal.text)
        self.assertEqual(terminal.text.count("[y/N]"), 1, terminal.text)
        self.assertFalse(self.kept(host).exists(), terminal.text)
        self.assertIn("no job is known on this machine\n", self.user.run("list").out)

    def test_a_purge_leaves_no_empty_folder(self):
        host = self.hosts[0]
        self.up([host], shell("ls {keep}"))
        self.user.run("down", "--purge", "job").expect(0)
        self.assertFalse(self.kept(host).parent.exists())

    def test_a_job_is_not_forgotten_while_it_is_the_way_to_what_is_kept(self):
        self.up([self.hosts[0]])
        first = self.user.job_id()
        self.up([self.hosts[0]])
        second = self.user.job_id()
        pruned = self.user.run("prune").expect(0)
        kept = re.findall("^kept (.*): files of its tasks are on " + re.escape(self.hosts[0].address), pruned.out, re.MULTILINE)
        self.assertEqual(len(kept), 1, pruned)
        self.assertIn(kept[0], (first, second))  # ids of one second have no order
        self.user.run("pull", "job", "--to", str(self.user.folder / "results")).expect(0)

    def test_nothing_but_a_purge_of_the_last_job_of_the_name_removes_it(self):
        host = self.hosts[0]
        self.up([host])
        first = self.user.job_id()
        self.up([host])
        second = self.user.job_id()
        kept = self.kept(host)
        self.assertIn("this stays for the next job called job\n", self.user.run("down", "--purge", first).expect(0).err)
        self.assertEqual((kept / "step").read_text(), "200\n")
        self.user.run("clean", "--yes", str(self.user.folder / "cluster.toml")).expect(0)
        self.assertEqual((kept / "step").read_text(), "200\n")
        self.up([host])
        last = self.user.job_id()
        refused = self.user.run("down", "--purge", last).expect(2)
        self.assertRegex(refused.err, f"nothing was removed: job {last} is the last one called job there, so that this goes with it: "
                                      rf"\{{keep\}}: {re.escape(host.address)}: 1 file, 4 bytes, the newest step, \d+\w* ago\n"
                                      f"  try: tfdist pull {last} brings the files home, tfdist down --purge --yes {last} removes them\n")
        self.assertEqual((kept / "step").read_text(), "300\n")
        terminal = self.user.start_on_terminal("down", "--purge", last)
        terminal.wait_for_text("remove it? [y/N]")
        os.write(terminal.fd, b"y\n")
        self.assertEqual(terminal.wait(), 0, terminal.text)
        self.assertFalse(kept.exists(), terminal.text)
        self.assertIn("worker:0 | at 0\n", self.up([host]).out)
