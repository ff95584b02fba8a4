"""What a review of security has tried (docs/findings.md, N1-N15), once more and in one round: another account of a host whose account is
root, a host that means harm to `pull`, `logs --save` and `up --replace`, and a flood of strangers."""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

# Has the environment that it is called with as its own, and stays.
STAYS = ("import os, sys, time; "
         "os.execve(sys.executable, ['python3', '-c', 'import time; print(1, flush=True); time.sleep(600)'], dict([a.split('=', 1) for a in sys.argv[1:]]))")
ORDERS = "\x1b]0;owned\x07\x1b[2J\ntfdist: job succeeded\n"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


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

    def other(self, script, words=(), **options):
        return self.host.run_as("other", ["sh", "-c", script, *words], timeout=60, **options)

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

    def test_no_link_of_another_account_leads_to_the_folder(self):
        """Below a folder in which everybody may make one, and which is sticky."""
        work = self.host.home / "work"
        work.mkdir()
        self.other("ln -s /home/trainer/work /tmp/tfdist; ln -s /home/trainer/work /tmp/theirs")
        (self.host.home / "ours").symlink_to("/tmp/theirs")
        for folder in ("/tmp", "/tmp/theirs", "/home/trainer/ours"):
            with self.subTest(folder):
                file = self.write_job("true")
                with open(file, "a") as text:
                    text.write(f'remote_dir = "{folder}"\n')
                for command in ("up", "check"):
                    said = self.user.run(command, file)
                    self.assertEqual(said.code, 3, said)
                    self.assertRegex(said.err + said.out, "is a symbolic link of another account")
                self.user.run("clean", "--yes", "--all", file)
                self.assertEqual(list(work.iterdir()), [])

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


class AHostThatMeansHarm(Attacks):
    """The job's own executable there says what the attacker likes, and the user's machine is to take no harm."""

    options = {}

    def setUp(self):
        super().setUp()
        self.user.run("up", self.write_job("echo output; echo result >model.bin")).expect(0)
        wait_for(lambda: not self.agents(), "the agents have left")
        [self.slot] = self.host.home.glob(".cache/tfdist/jobs/*/h0")
        self.home = self.user.folder / "results"
        self.before = self.listing()

    def listing(self):
        """All of the user's files, but for results and what tfdist keeps for itself."""
        return sorted(str(path) for path in self.user.folder.rglob("*") if self.home not in (path, *path.parents) and ".local" not in path.parts)

    def say(self, listed, sent):
        """To `task-files list` and `send`."""
        for name, text in (("listed", listed), ("sent", sent)):
            (self.slot / name).write_bytes(text)
        here = f"/home/trainer/{self.slot.relative_to(self.host.home)}"
        (self.slot / "agent").unlink()
        (self.slot / "agent").write_text(f"#!/bin/sh\ncase $2 in list) cat {here}/listed;; send) cat {here}/sent;; esac\n")
        (self.slot / "agent").chmod(0o700)
        for path in self.slot.iterdir():
            os.chown(path, self.host.uid, self.host.uid)

    def pull(self, seconds=40):
        return self.user.run("pull", "job", "--to", str(self.home), seconds=seconds)

    def assert_nothing_outside(self):
        self.assertEqual(self.listing(), self.before)

    def test_what_these_tests_say_is_understood_where_it_means_no_harm(self):
        self.say(b"1:644 1 a/x\0link:777 1 l\0a/x\0end\0", b"1\nx0\n")
        self.pull().expect(0)
        self.assertEqual((self.home / "worker-0/l").read_text(), "x")

    def test_no_path_leads_out_of_the_folder(self):
        for path in (b"../x", b"a/../../x", b"/etc/x", b"a//x", b"./x", b"a/./x", b"", b".", b"..", b"a/", b"a/..", b"x" * 5000, b"a/" * 3000 + b"x"):
            with self.subTest(path=path[:20]):
                self.say(b"1:644 1 " + path + b"\0end\0", b"1\nx0\n")
                self.assertEqual(self.pull().code, 3)
                self.assert_nothing_outside()

    def test_numbers_without_measure(self):
        for record in (b"99999999999999999999:644 1 x", b"-1:644 1 x", b"1:99999999999 1 x", b"1:644 99999999999999999999999 x",
                       b"1:644 x", b"1 x", b"x", b"1:8 1 x", b"1:644:644 1 x", b" :644 1 x"):
            with self.subTest(record=record):
                self.say(record + b"\0end\0", b"1\nx0\n")
                self.assertEqual(self.pull().code, 3)
                self.assert_nothing_outside()
        for size in (2**63 - 1, 2**63, 2**64 - 1):
            with self.subTest(size=size):
                self.say(b"%d:644 1 x\0end\0" % size, b"1\nx0\n")
                pulled = self.pull()
                self.assertEqual(pulled.code, 3, pulled)
                self.assertNotIn("internal", pulled.err)
        for piece in (b"99999999999999999999999\nx", b"-1\nx", b"\nx", b"1" * 4096, b"x\n"):
            with self.subTest(piece=piece[:20]):
                self.say(b"5:644 1 x\0end\0", piece)
                pulled = self.pull()
                self.assertEqual(pulled.code, 3, pulled)
                self.assertNotIn("internal", pulled.err)

    def test_no_mode_gives_a_file_more_than_permissions(self):
        self.say(b"1:7777 1 x\0end\0", b"1\nx0\n")
        self.pull()
        for path in self.home.rglob("*"):
            self.assertEqual(path.stat().st_mode & 0o7022, 0, path)

    def test_a_file_below_a_link_or_below_a_file_and_one_name_twice(self):
        elsewhere = self.user.folder / "elsewhere"
        elsewhere.mkdir()
        self.before = self.listing()
        for listed in (b"link:777 1 a\0../elsewhere\0" + b"1:644 1 a/x\0end\0", b"1:644 1 a\0" + b"1:644 1 a/x\0end\0",
                       b"1:644 1 a\0" + b"1:644 1 a\0end\0"):
            self.say(listed, b"1\nx0\n1\nx0\n")
            pulled = self.pull()
            self.assertNotIn("internal", pulled.err)
            self.assert_nothing_outside()

    def test_names_of_files_give_the_terminal_no_orders(self):
        orders = "\x1b]0;owned\x07\x1b[2J\ntfdist: job succeeded\r".encode()
        for sent in (b"1\nx0\n", b"?\n", b"!\n"):
            self.say(b"1:644 1 " + orders + b"\0" + b"link:777 1 l" + orders + b"\0/etc/" + orders + b"\0end\0", sent)
            pulled = self.pull()
            self.assertNotRegex(pulled.err + pulled.out, CONTROLS)
            self.assertNotIn("\ntfdist: job succeeded", pulled.err + pulled.out)

    # What a path is, all of a sudden; `$1` is the path, `$2` a folder with `canary` and `device`.
    TURNS = {
        "pipe": 'rm -f "$1"; mkfifo "$1"',
        "link": 'rm -f "$1"; ln -s "$2/canary" "$1"',
        "link to what never ends": 'rm -f "$1"; ln -s /dev/zero "$1"',
        "device": 'rm -f "$1"; ln "$2/device" "$1"',
        "folder": 'rm -f "$1"; mkdir "$1"',
        "1 TB": 'truncate -s 1T "$1"',
        "shorter": ': >"$1"',
        "longer": 'head -c 1000000 /dev/zero >>"$1"',
        "nothing": 'rm -f "$1"',
    }

    def turn(self, path, how):
        """Shell words by which a program of the host makes it so."""
        return f"set -- {self.there(path)} {self.there(self.props)}; {self.TURNS[how]}"

    def each_turn(self, path):
        """With `path` as it was before each."""
        content, times = path.read_bytes(), path.stat()
        for how in self.TURNS:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.write_bytes(content)
            path.chmod(stat.S_IMODE(times.st_mode))
            os.chown(path, self.host.uid, self.host.uid)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            yield how

    def there(self, path):
        return f"/home/trainer/{path.relative_to(self.host.home)}"

    def make_props(self):
        self.props = self.host.home / "props"
        self.props.mkdir()
        (self.props / "canary").write_text("canary-51c8")
        os.mknod(self.props / "device", stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zero
        for path in (self.props, *self.props.iterdir()):
            os.chown(path, self.host.uid, self.host.uid)

    def assert_little_came(self, folder, most_bytes):
        for path in folder.rglob("*"):
            mode = path.lstat().st_mode
            self.assertTrue(stat.S_ISREG(mode) or stat.S_ISDIR(mode), path)
            if stat.S_ISREG(mode):
                self.assertLessEqual(path.stat().st_size, most_bytes, path)
                self.assertNotIn(b"canary-51c8", path.read_bytes(), path)

    def test_n8_a_file_that_turns_into_something_else_between_listing_and_sending(self):
        self.make_props()
        path = next(self.host.home.glob(".cache/tfdist/jobs/*/run/work/model.bin"))
        real = self.slot / "agent.real"
        (self.slot / "agent").rename(real)
        for how in self.each_turn(path):
            with self.subTest(how):
                agent = self.slot / "agent"
                agent.write_text(f'#!/bin/sh\n{self.there(real)} "$@"\n[ "$2" = list ] || exit 0\n{self.turn(path, how)}\n')
                agent.chmod(0o700)
                os.chown(agent, self.host.uid, self.host.uid)
                pulled = self.pull()
                self.assertEqual(pulled.code, 0 if how in ("longer", "1 TB") else 1, pulled)
                self.assertNotIn("internal", pulled.err)
                self.assert_little_came(self.home, len("result\n"))
                self.assert_nothing_outside()
                shutil.rmtree(self.home, ignore_errors=True)

    def test_n8_a_file_of_1_tb_is_refused_before_any_of_it_comes(self):
        path = next(self.host.home.glob(".cache/tfdist/jobs/*/run/work/model.bin"))
        os.truncate(path, 1 << 40)
        pulled = self.pull()
        self.assertEqual(pulled.code, 3, pulled)
        self.assertIn("1.1 TB", pulled.err)
        self.assert_little_came(self.home, 0)

    def test_n9_a_million_entries_of_which_none_comes(self):
        self.say(b"".join(b"1:644 1 f%d\0" % number for number in range(10**6)) + b"end\0", b"1\nx0\n")
        pulled = self.pull(120)
        self.assertIn(pulled.code, (1, 3), pulled)
        self.assertLess(len(pulled.err), 10000)
        self.assertLessEqual(len([path for path in self.home.rglob("*") if path.is_file()]), 1)

    def test_n8_a_log_that_turns_into_something_else(self):
        self.make_props()
        [log] = self.slot.glob("tasks/worker-0/*.log")
        saved = self.user.folder / "saved"
        most = log.stat().st_size + 1000000
        for how in self.each_turn(log):
            if how == "1 TB":  # it comes until 64 MiB of the disk are left: test_logs
                continue
            with self.subTest(how):
                self.host.run_as("root", ["sh", "-c", self.turn(log, how)])
                if how != "nothing":
                    os.chown(log, self.host.uid, self.host.uid, follow_symlinks=False)
                done = self.user.run("logs", "--save", str(saved), "job", seconds=40)
                self.assertIn(done.code, (0, 1, 3), done)
                self.assertNotIn("internal", done.err)
                self.assert_little_came(saved, most)
                self.assertEqual(self.listing(), [*self.before, *[path for path in self.listing() if path.startswith(str(saved))]])
                shutil.rmtree(saved, ignore_errors=True)

    def test_what_it_says_of_a_job_that_has_the_name_ends_none_of_the_users_jobs(self):
        self.user.run("up", "-d", self.write_job("sleep infinity", "victim")).expect(0)
        victim = self.user.job_id()
        lock = self.host.home / ".cache/tfdist/names/new.lock"
        lock.touch()
        os.chown(lock, self.host.uid, self.host.uid)
        self.host.run_as("trainer", ["sh", "-c", "flock /home/trainer/.cache/tfdist/names/new.lock sleep 600 >/dev/null 2>&1 </dev/null &"], timeout=60)
        for said in (json.dumps({"job": victim, "plan_sha256": "0" * 64}), json.dumps({"job": "new-" + ORDERS, "plan_sha256": ORDERS}),
                     json.dumps({"job": "../../" + victim}), "[" * 100000, "", ORDERS, "x" * 2000000):
            with self.subTest(said=said[:30]):
                lock.write_text(said)
                up = self.user.run("up", "-d", "--replace", self.write_job("true", "new"))
                self.assertEqual(up.code, 3, up)
                self.assertNotRegex(up.err, CONTROLS)
                self.assertEqual(self.user.status(victim)["state"], "running")
        self.user.run("down", victim).expect(0)


class WhatLiesOnThisMachine(unittest.TestCase):
    """Nobody named it, and another account has written it."""

    def setUp(self):
        self.user = Tfdist("attacks")
        self.addCleanup(self.user.close)
        self.folder = self.user.folder / "there"
        self.folder.mkdir()
        self.file = self.folder / "cluster.toml"
        self.file.write_text(clusters.local("job", shell("id -u"), slots=1))
        self.ran = self.user.folder / "ran"

    def assert_refused(self, why):
        for words in (["up"], ["check"], ["render"], ["up", "../there"]):
            refused = self.user.run(*words, cwd=self.folder).expect(2)
            self.assertIn(f"cluster.toml {why}, and you did not name it\n  try: read it; if you want what it says, name it: ", refused.err)
        self.user.run("up", "./cluster.toml", cwd=self.folder).expect(0)

    def test_a_cluster_file_of_another_account(self):
        os.chown(self.file, 29999, 29999)
        self.assert_refused("belongs to another account (uid 29999)")

    def test_a_link_of_another_account_to_a_file_of_ones_own(self):
        target = self.file.rename(self.user.folder / "mine.toml")
        self.file.symlink_to(target)
        os.chown(self.file, 29999, 29999, follow_symlinks=False)
        self.assert_refused("belongs to another account (uid 29999)")

    def test_a_cluster_file_that_others_can_change_or_replace(self):
        self.file.chmod(0o666)
        self.assert_refused("may be written to by every account")
        self.file.chmod(0o664)
        self.folder.chmod(0o777)
        self.assert_refused("lies in a folder that every account may write to")
        self.folder.chmod(0o1777)
        self.user.run("render", cwd=self.folder).expect(0)
        os.chown(self.folder, 29999, 29999)
        self.assert_refused("lies in a folder of another account (uid 29999)")

    def test_programs_that_the_folders_git_names(self):
        program = self.user.write("program", f"#!/bin/sh\necho x >>{self.ran}\ncat\n")
        os.chmod(program, 0o700)
        for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
                      ["config", "core.fsmonitor", program], ["config", "filter.x.clean", program], ["config", "filter.x.required", "true"]):
            subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True, env=self.user.env)
        (self.folder / ".git/info").mkdir(exist_ok=True)
        (self.folder / ".git/info/attributes").write_text("* filter=x\n")
        os.utime(self.file, (1, 1))  # git looks into it
        subprocess.run(["git", "status"], cwd=self.folder, check=True, capture_output=True, env=self.user.env)
        self.assertTrue(self.ran.exists(), "git itself runs them")
        self.ran.unlink()
        os.utime(self.file, (2, 2))
        self.user.run("up", "-H", "localhost", "--", "true", cwd=self.folder).expect(0)
        self.assertFalse(self.ran.exists())
        self.assertIn("git", self.user.run("describe").expect(0).out)


class AFloodOfStrangers(Attacks):
    """Another account of the first host has as many connections to the coordinator as it gets."""

    FLOOD = ("import socket, sys, time\n"
             "held = []\n"
             "print(1, flush=True)\n"
             "while True:\n"
             "    for end in sys.argv[1:]:\n"
             "        one = socket.socket()\n"
             "        one.setblocking(False)\n"
             "        one.connect_ex(('ADDRESS', int(end)))\n"
             "        held.append(one)\n"
             "    held = held[-900:]\n"
             "    time.sleep(0.001)\n")

    def setUp(self):
        super().setUp()
        self.hosts.stop()
        self.hosts = Hosts(2, **self.options)
        self.hosts.start()
        self.host = self.hosts[0]

    def test_n6_keeps_no_member_and_no_command_from_the_job(self):
        self.user.run("up", "-d", self.write_job("sleep infinity")).expect(0)
        self.user.wait_until_tasks_run("job")
        ports = [str(port) for port in self.host.listening_ports()]
        self.assertTrue(ports)
        code = self.FLOOD.replace("ADDRESS", self.host.address)
        pid = int(self.other('python3 -c "$0" "$@" >/tmp/flood 2>&1 </dev/null & echo $!; until grep -q 1 /tmp/flood; do sleep 0.05; done', words=[code, *ports]).stdout)
        agents = self.agents()
        wait_for(lambda: sum(processes.processor_seconds(one) for one in agents) > 1, "the agents have had much of it")
        status = self.user.status("job")
        self.assertEqual({row["state"] for row in status["hosts"]}, {"connected"}, status)
        self.user.run("restart", "job", "worker:1", seconds=30).expect(0)
        self.user.run("down", "job", seconds=30).expect(0)
        self.assertTrue(self.runs(pid))


class AHostThatTalks(Attacks):
    options = {"banner": ORDERS, "bashrc": "printf '\\033]0;owned\\007\\033[2J\\rtfdist: job succeeded\\n' >&2\n"}

    def test_its_banner_and_its_start_up_files_give_the_terminal_no_orders(self):
        for transport in ("ssh", "openssh"):
            file = self.write_job("true")
            self.user.write("job.toml", pathlib.Path(file).read_text() + f'transport = "{transport}"\n')
            for words in (["check", file], ["up", file], ["status", "job"], ["why", "job"], ["list"], ["pull", "job"]):
                with self.subTest(words=words, transport=transport):
                    done = self.user.run(*words)
                    self.assertNotRegex(done.out + done.err, CONTROLS)
                    self.assertNotRegex(done.out + done.err, "(?m)^tfdist: job succeeded$")
        self.host.refuse_key()
        for transport in ("ssh", "openssh"):
            self.user.write("job.toml", pathlib.Path(file).read_text().replace('"openssh"', f'"{transport}"'))
            done = self.user.run("up", file).expect(3)
            self.assertNotRegex(done.out + done.err, CONTROLS)


if __name__ == "__main__":
    unittest.main()
