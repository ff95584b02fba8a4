"""What a review of security has tried (docs/findings.md, N1-N15), once more and in one round: another account of a host whose account is
root, and a host that means harm to `pull`, `logs --save` and `up --replace`."""

import json
import os
import pathlib
import stat
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

# Has the environment that it is called with as its own, and stays.
STAYS = ("import os, sys, time; "
         "os.execve(sys.executable, ['python3', '-c', 'import time; print(1, flush=True); time.sleep(600)'], dict([a.split('=', 1) for a in sys.argv[1:]]))")


def setUpModule():
    check_possible()


class Attacks(unittest.TestCase):
    """One host, to whose root this user logs in."""

    options = {"root": True}

    def setUp(self):
        self.user = Tfdist("attacks")
        self.addCleanup(self.user.close)
        self.hosts = Hosts(1, **self.options)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        self.host = self.hosts[0]

    def write_job(self, script, name="job", **options):
        return self.user.write(f"{name}.toml", clusters.over_ssh(name, shell(script), self.hosts, layout="mirrored", **options))

    def other(self, script, **options):
        return self.host.run_as("other", ["sh", "-c", script], timeout=60, **options)

    def start_as(self, user, *environment):
        """A process there that has this environment; its pid, as the host knows it."""
        script = 'code=$1; shift; python3 -c "$code" "$@" >/tmp/said.$$ 2>&1 </dev/null & echo $!; while ! grep -q 1 /tmp/said.$$; do sleep 0.05; done'
        return int(self.host.run_as(user, ["sh", "-c", script, "sh", STAYS, *environment], timeout=60).stdout)

    def runs(self, pid):
        return self.host.run_as("root", ["kill", "-0", str(pid)], check=False).returncode == 0

    def agents(self):
        return [p.pid for p in self.host.processes() if "tfdist" in " ".join(p.argv)]

    def base(self):
        return self.host.home / ".cache/tfdist"


class AnotherAccountOfRootsHost(Attacks):
    def test_the_account_of_the_host_is_root(self):
        up = self.user.run("up", self.write_job("id -u")).expect(0)
        self.assertIn("worker:0 | 0\n", up.out)

    def plant(self, victim):
        """A folder like a slot's, whose note of what is to be ended has `victim`."""
        self.other("mkdir -p /tmp/evil/h0; echo '{}' >/tmp/evil/h0/slot.json; "
                   "{ cat /proc/sys/kernel/random/boot_id; "
                   f"echo {victim} $(cut -d' ' -f22 /proc/{victim}/stat); }} >/tmp/evil/h0/left; chmod -R a+rX /tmp/evil")

    def test_n1_no_process_of_roots_is_ended_for_a_cookie_of_anothers(self):
        self.user.run("up", self.write_job("true")).expect(0)
        victim = self.start_as("root")
        self.assertNotEqual(self.other(f"kill {victim}", check=False).returncode, 0)
        self.plant(victim)
        for cookie in ("/tmp/evil/h0", "../../../../../../tmp/evil/h0", "../../../../../../../../tmp/evil/h0"):
            self.start_as("other", f"TFDIST_COOKIE={cookie}")
        for command in ("up", "check"):
            self.user.run(command, self.write_job("true")).expect(0)
        self.user.run("down", "job").expect(0)
        self.user.run("clean", "--yes", str(self.user.folder / "job.toml")).expect(0)
        self.assertTrue(self.runs(victim))
        self.assertEqual(self.other("ls /tmp/evil/h0").stdout, "left\nslot.json\n")

    def test_n1_a_strangers_process_with_the_jobs_own_cookie_is_not_the_jobs(self):
        self.user.run("up", "-d", self.write_job("sleep infinity")).expect(0)
        stranger = self.start_as("other", f"TFDIST_COOKIE={self.user.job_id()}/h0")
        down = self.user.run("down", "job").expect(0)
        self.assertIn("nothing is left", down.err)
        self.assertTrue(self.runs(stranger))

    def test_n1_a_record_of_anothers_or_a_pipe_in_its_place_holds_up_nobody(self):
        """Also where the folder itself has been given away, which only root can do."""
        self.user.run("up", self.write_job("true")).expect(0)
        slot = self.base() / "jobs" / self.user.job_id() / "h0"
        wait_for(lambda: not self.agents(), "the agents have left")
        record = slot / "slot.json"
        text = record.read_text()
        for put in (lambda: os.mkfifo(record), lambda: record.symlink_to("/dev/zero"), lambda: record.mkdir(),
                    lambda: (record.write_text(text), os.chown(record, self.host.other_uid, self.host.other_uid))):
            if record.is_dir():
                record.rmdir()
            else:
                record.unlink()
            put()
            for words in (["up", "job.toml"], ["status", "job"], ["clean", "-n", "job.toml"], ["list"]):
                with self.subTest(words=words):
                    done = self.user.run(*words, seconds=45)
                    self.assertIn(done.code, (0, 1, 3), done)

    def test_n2_nothing_runs_that_another_account_has_put_where_the_job_was(self):
        file = self.write_job("echo text >file")
        text = pathlib.Path(file).read_text() + 'remote_dir = "/tmp"\n'
        self.user.run("up", self.user.write("job.toml", text)).expect(0)
        job = self.user.job_id()
        wait_for(lambda: not self.agents(), "the agents have left")
        self.host.run_as("root", ["rm", "-rf", "/tmp/tfdist"])
        self.other(f"mkdir -p /tmp/tfdist/jobs/{job}/h0; cd /tmp/tfdist/jobs/{job}/h0; "
                   "printf '#!/bin/sh\\nid >/tmp/ran\\n' >agent; chmod -R 755 /tmp/tfdist")
        for words in (["pull", job], ["exec", job, "worker:0", "--", "true"], ["shell", job, "worker:0"], ["logs", job],
                      ["why", job], ["down", job], ["status", job], ["clean", "--yes", file], ["up", file], ["check", file]):
            with self.subTest(words=words):
                done = self.user.run(*words)
                self.assertFalse((self.host.folder / "tmp/ran").exists(), done)

    def test_n3_another_account_cannot_name_the_job_that_replace_ends(self):
        self.user.run("up", "-d", self.write_job("sleep infinity", "victim")).expect(0)
        victim = self.user.job_id()
        said = json.dumps({"job": victim, "plan_sha256": "0" * 64})
        self.other(f"mkdir -p /tmp/evil/h0; echo '{said}' >/tmp/evil/h0/slot.json; chmod -R a+rX /tmp/evil")
        self.start_as("other", "TFDIST_COOKIE=/tmp/evil/h0")
        self.start_as("other", f"TFDIST_COOKIE={victim}/h0")
        self.user.run("up", "--replace", self.write_job("true", "new")).expect(0)
        self.assertEqual(self.user.status(victim)["state"], "running")
        self.user.run("down", victim).expect(0)

    def test_n4_a_search_that_takes_long_keeps_no_decision_waiting(self):
        script = "python3 -c 'import random; [print(\"\".join(random.choices(\"ab\", k=4000))) for i in range(8000)]'; echo printed; sleep infinity"
        self.user.run("up", "-d", self.write_job(script)).expect(0)
        wait_for(lambda: "printed" in self.user.run("logs", "--tail", "1", "job").out, "all is printed")
        search = self.user.start("logs", "job", "worker:0", "--grep", "[ab]*a[ab]{255}c")
        agents = self.agents()
        before = sum(processes.processor_seconds(pid) for pid in agents)
        wait_for(lambda: sum(processes.processor_seconds(pid) for pid in agents) > before + 1, "the search is under way")
        self.user.run("restart", "job", "worker:0", seconds=30).expect(0)
        self.assertIsNone(search.poll(), "the search lasts until `down`")
        self.user.run("down", "job", seconds=30).expect(0)

    def test_n14_what_lies_there_is_closed_to_others(self):
        self.user.run("up", "-d", self.write_job("sleep infinity", task_extra='env = { TOKEN = "canary-7f3a" }')).expect(0)
        for path in self.base().rglob("*"):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and "work" not in path.parts:
                self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, path)
        seen = self.other('cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; grep -rs "canary"-7f3a /home /tmp /run /dev/shm', check=False)
        self.assertNotIn("canary-7f3a", seen.stdout)
        self.user.run("down", "job").expect(0)
        wait_for(lambda: not self.agents(), "the agents have left")
        self.assertEqual([path for path in self.base().rglob("*") if path.is_file() and b"canary-7f3a" in path.read_bytes()], [])


if __name__ == "__main__":
    unittest.main()
