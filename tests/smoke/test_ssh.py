"""Jobs over SSH, on test hosts with an unprivileged account each."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.hosts.kinds import login_shell
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import JOB_ID, ROOT, Tfdist
from tests.support.waiting import PATIENCE, wait_for

DATA = ROOT / "configs/data"


def read(path):
    """Empty for what has gone since it was listed: a file under another name by now, a process that has ended."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def setUpModule():
    check_possible()


def garble_after(host, count):
    """Each login's output is inverted after its first `count` bytes."""
    login_shell(f'''/bin/bash "$@" | exec python3 -c "
import os
left = {count}
while text := os.read(0, 65536):
    passed, text = text[:left], text[left:]
    left -= len(passed)
    os.write(1, passed + bytes(255 - byte for byte in text))
"; exit''')(host)


class OverSsh(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("ssh")
        self.addCleanup(self.user.close)

    def start_hosts(self, count, **options):
        hosts = Hosts(count, **options)
        hosts.start()
        self.addCleanup(hosts.stop)
        return hosts

    def write(self, hosts, command, **options):
        return self.user.write("cluster.toml", clusters.over_ssh("job", command, hosts, **options))

    def assert_nothing_left(self, hosts, seconds=30, said=""):
        """`said`: by tfdist, which tells what it could not confirm."""
        def left():
            return {host.name: [p.argv for p in host.processes()] for host in hosts if host.processes()}

        wait_for(lambda: not left(), lambda: f"nothing left on the hosts; there is {left()} {said}", seconds)

    def start_detached(self, hosts, command, **file):
        """Until all tasks run; `up`'s result."""
        up = self.user.run("up", "-d", self.write(hosts, command, **file))
        self.assertEqual(up.code, 0, up)
        self.user.wait_until_tasks_run()
        return up

    def job_folder(self, host):
        return next((host.home / ".cache/tfdist/jobs").iterdir())


class FoldersOfHosts(OverSsh):
    """Of a job that runs."""

    def start_ticking(self):
        hosts = self.start_hosts(2)
        self.start_detached(hosts, shell("echo one; exec sleep infinity"), layout="mirrored")
        wait_for(lambda: self.user.run("logs", "job").out.count("one\n") == 2, "two tasks have written")
        return hosts

    def test_the_end_says_where_files_lie_on_hosts_that_differ(self):
        hosts = self.start_hosts(2)
        caches = hosts[1].home / ".cache"
        caches.mkdir()
        caches.chmod(0o777)  # so another folder is taken
        up = self.user.run("up", "-F", str(hosts.ssh_config), "-H", "h1,h2", "--no-workdir", "--", "true").expect(0)
        self.assertRegex(up.err, r"(?m), or /home/trainer/\.cache/tfdist/jobs/\S+/\*/work on h1, or /home/trainer/\.tfdist/jobs/\S+/\*/work on h2$")

    def test_output_that_was_removed_is_named_while_the_job_runs(self):
        hosts = self.start_ticking()
        folder = self.job_folder(hosts[1])
        subprocess.run(["rm", "-rf", folder], check=True)
        logs = self.user.run("logs", "job")
        self.assertEqual(logs.code, 3, logs)
        self.assertEqual(logs.out, "worker:0 | one\n")
        self.assertIn("worker:1: output is missing", logs.err)
        self.assertIn("the job's folder on this host was removed", logs.err)
        self.user.run("down")

    def test_a_folder_that_others_may_write_to_is_no_reason_to_end_the_job(self):
        hosts = self.start_ticking()
        cache = hosts[0].home / ".cache"
        cache.chmod(0o777)
        status = self.user.run("status", "job")
        self.assertIn("runs on, and its folder is not used", status.err)
        self.assertIn("chmod go-w", status.err)
        self.assertNotIn("kill", status.err)
        cache.chmod(0o700)
        self.assertEqual(self.user.status("job")["state"], "running")
        self.user.run("down").expect(0)
        self.assert_nothing_left(hosts)


class FourHosts(OverSsh):
    def test_digits_are_learned_on_four_hosts_with_private_files(self):
        hosts = self.start_hosts(4)
        command = ["{runtime}", "--data", "digits", "--model", "mlp", "--steps", "2000"]
        result = self.user.run("up", self.write(hosts, command, task_extra=f'workdir = "{DATA}"'), seconds=300)
        self.assertEqual(result.code, 0, result)
        accuracy = float(re.search(r"final: .*test accuracy ([0-9.]+)", result.out).group(1))
        self.assertGreaterEqual(accuracy, 0.95)
        self.assert_nothing_left(hosts)
        for host in hosts:
            base = host.home / ".cache/tfdist"
            self.assertEqual(stat.S_IMODE(base.stat().st_mode), 0o700)
            for path in base.rglob("*"):
                mode = stat.S_IMODE(path.lstat().st_mode)
                if not path.is_symlink() and "work" not in path.parts:
                    self.assertEqual(mode & 0o077, 0, f"{path} is open to others: {mode:o}")

    def test_the_example_for_four_hosts_trains_on_four_hosts(self):
        """configs/four_hosts.toml as it is, but for what its reader has to put in: hosts, and where their keys are."""
        hosts = self.start_hosts(4)
        text = (ROOT / "configs/four_hosts.toml").read_text()
        for old, new in (('["10.0.0.[1-4]"]', ", ".join(f'{{ address = "{h.address}", ssh = "{h.name}" }}' for h in hosts)),
                         ("[ssh]", f'[ssh]\nconfig = "{hosts.ssh_config}"'),
                         ('workdir = "data"', f'workdir = "{DATA}"'),
                         ("worker = 2222, ps = 2223", self.ports(hosts))):
            self.assertIn(old, text)
            text = text.replace(old, f"[{new}]" if old.startswith("[") and "10.0" in old else new)
        result = self.user.run("up", self.user.write("four_hosts.toml", text), seconds=300)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"final: .*test accuracy 0\.9[5-9]")
        self.assert_nothing_left(hosts)

    @staticmethod
    def ports(hosts):
        """The test hosts share one network stack: no two tasks have one port, nor one that is taken."""
        first = clusters.free_ports(2 * len(hosts))
        lists = {"worker": range(first, first + len(hosts)), "ps": range(first + len(hosts), first + 2 * len(hosts))}
        return ", ".join(f"{role} = {list(ports)}" for role, ports in lists.items())

    def test_another_account_reads_nothing_and_connects_to_nothing(self):
        hosts = self.start_hosts(2)
        self.start_detached(hosts, shell("echo private; sleep infinity"))
        for host in hosts:
            inside = str(self.job_folder(host)).replace(str(host.home), "/home/trainer")
            slot = f"h{list(hosts).index(host)}"
            for attempt in (["ls", inside], ["cat", f"{inside}/{slot}/secret"],
                            ["cat", f"{inside}/{slot}/key"],
                            ["python3", "-c", "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])",
                             f"{inside}/{slot}/sock"]):
                tried = host.run_as("other", attempt, check=False)
                self.assertNotEqual(tried.returncode, 0, attempt)
                self.assertIn("ermission denied", tried.stderr)
                # The same works for the account that the job runs as: the paths are right.
                owner = host.run_as("trainer", attempt, check=False)
                self.assertEqual(owner.returncode, 0, owner)
        self.user.run("down").expect(0)
        self.assert_nothing_left(hosts)

    def test_another_account_gets_nothing_from_the_ports_of_a_training_job(self):
        hosts = self.start_hosts(2)
        command = ["{runtime}", "--data", "digits", "--model", "mlp", "--steps", "100000000"]
        up = self.user.run("up", "-d", self.write(hosts, command, task_extra=f'workdir = "{DATA}"'))
        self.assertEqual(up.code, 0, up)
        wait_for(lambda: self.step() > 0, "training goes on")
        tried = 0
        for host in hosts:
            for port in host.listening_ports():
                with self.subTest(host=host.name, port=port):
                    program = (ROOT / "tests/support/zmtp_stranger.py").read_text()
                    said = host.run_as("other", ["python3", "-c", program, host.address, str(port)]).stdout
                    # Its greeting at most, and no message: not even a refusal that tells something.
                    self.assertLessEqual(int(said), 64)
                    tried += 1
        self.assertEqual(tried, 3, "two parameter servers and the coordinator")
        before = self.step()
        wait_for(lambda: self.step() > before, "training went on all the time")
        self.user.run("down").expect(0)
        self.assert_nothing_left(hosts)

    def step(self):
        """The newest global step that the chief has told."""
        steps = re.findall(r"\| step (\d+),", self.user.run("logs", "--tail", "50", "job", "master:0").out)
        return int(steps[-1]) if steps else 0

    def test_no_secret_is_in_a_command_line_a_log_or_a_record(self):
        hosts = self.start_hosts(2)
        up = self.start_detached(hosts, shell("echo started; sleep infinity"))
        secrets = []
        for number, host in enumerate(hosts):
            slot = self.job_folder(host) / f"h{number}"
            # The file holds the public and then the secret key, 40 characters each (Z85).
            secrets += [(slot / "secret").read_bytes().strip(), (slot / "key").read_bytes()[40:80]]
        self.assertTrue(all(len(secret) >= 32 for secret in secrets))
        seen = up.out.encode() + up.err.encode() + self.user.run("events", "--json").out.encode()
        seen += b"".join(read(p) for p in (self.user.folder / ".local").rglob("*") if p.is_file())
        for host in hosts:
            seen += b"".join(b" ".join(a.encode() for a in p.argv) for p in host.processes(with_sshd=True))
            files = [p for p in self.job_folder(host).rglob("*") if p.is_file() and p.name not in ("secret", "key")]
            seen += b"".join(read(p) for p in files)
            seen += b"".join(read(pathlib.Path(f"/proc/{p.pid}/environ")) for p in host.processes())
        for secret in secrets:
            self.assertNotIn(secret, seen)
        self.user.run("down").expect(0)

    def test_a_rolled_back_host_keeps_nothing_of_a_folder_that_may_not_be_written(self):
        hosts = self.start_hosts(1)
        self.user.write("work/frozen/data", "numbers")
        frozen = self.user.folder / "work/frozen"
        frozen.chmod(0o555)
        self.addCleanup(frozen.chmod, 0o755)
        result = self.user.run("up", self.write(hosts, ["no-such-program"], task_extra='workdir = "work"'))
        self.assertEqual(result.code, 3, result)
        self.assert_nothing_left(hosts)
        self.assertEqual([str(path) for path in (hosts[0].home / ".cache/tfdist/jobs").rglob("*")], [])

    def test_the_last_known_result_is_told_where_the_first_host_is_off(self):
        hosts = self.start_hosts(2)
        up = self.user.run("up", self.write(hosts, shell('case $TFDIST_TASK in worker:0) exit 7;; esac; sleep infinity')))
        self.assertEqual(up.code, 1, up)
        hosts[0].crash()
        status = self.user.run("status")
        self.assertEqual(status.code, 0, status)
        self.assertRegex(status.out, r"job \S+: failed, \d+s ago, after \d+s\n")
        self.assertIn("exit code 7", status.out)
        self.assertIn("the last known result, from this machine's record: ", status.out)
        self.assertEqual(self.user.status()["state"], "failed")


def hosts_told_of(out, word):
    """Two hosts with one word share a line."""
    return out.count(word) + out.count("\n  the same on 1 more host: ")


class HostsThatAreOff(OverSsh):
    """A host lost power for good, and the job failed: the others' output is what is asked for then."""

    def lose(self, hosts, at):
        """The job fails because of it; slot 0's agent stays, as the lost host may come back."""
        script = 'echo "$TFDIST_TASK on $TFDIST_HOST"; echo more; exec sleep infinity'
        extra = '[restart]\nworker = "never"\nhost_lost = "5s"\non_host_lost = "fail"\n'
        file = self.write(hosts, shell(script), layout="mirrored", extra=extra)
        self.user.run("up", "-d", file).expect(0)
        self.user.wait_until_tasks_run()
        hosts[at].crash()
        if at:
            self.user.wait_until_ended()

    def lines(self, hosts, but):
        return [f"worker:{i} | worker:{i} on {host.address}" for i, host in enumerate(hosts) if i != but]

    def assert_names(self, err, host, task):
        """One line, of that host alone, and its remedy."""
        self.assertRegex(err, rf"^tfdist: {task}: output is missing: {host.address}: connect: .*\n  try: .*\n$")

    def test_the_others_logs_are_read_from_them_and_one_line_names_the_host(self):
        hosts = self.start_hosts(4)
        self.lose(hosts, 3)
        for ended in (False, True):
            with self.subTest(after_down=ended):
                logs = self.user.run("logs", "job", "--grep", " on ")
                self.assertEqual((logs.code, logs.out.splitlines()), (3, self.lines(hosts, 3)), logs)
                self.assert_names(logs.err, hosts[3], "worker:3")
                one = self.user.run("logs", "job", "-n", "1", f"@{hosts[1].address}")
                self.assertEqual((one.code, one.out, one.err), (0, "worker:1 | more\n", ""))
            self.user.run("down", "job")
        follow = self.user.run("logs", "-f", "job", "worker:1", "worker:3")
        self.assertEqual((follow.code, follow.out.splitlines()), (3, [self.lines(hosts, 3)[1], "worker:1 | more"]), follow)
        saved = self.user.run("logs", "job", "--save", "saved")
        self.assertEqual(saved.code, 3, saved)
        self.assertEqual({path.name: path.read_text() for path in (self.user.folder / "saved").iterdir()},
                         {f"worker-{i}.log": f"worker:{i} on {hosts[i].address}\nmore\n" for i in range(3)})

    def test_without_the_first_host_the_others_logs_are_read_all_the_same(self):
        hosts = self.start_hosts(3)
        self.lose(hosts, 0)
        logs = self.user.run("logs", "job", "--grep", " on ")
        self.assertEqual((logs.code, logs.out.splitlines()), (3, self.lines(hosts, 0)), logs)
        self.assert_names(logs.err, hosts[0], "worker:0")
        one = self.user.run("logs", "job", "worker:1", "-n", "1")
        self.assertEqual((one.code, one.out), (0, "worker:1 | more\n"), one)
        self.assertRegex(one.err, f"^tfdist: {hosts[0].address}: connect: .*; the output is read without it\n  try: .*\n$")
        saved = self.user.run("logs", "job", "--save", "saved")
        self.assertEqual(saved.code, 3, saved)
        self.assertEqual(sorted(path.name for path in (self.user.folder / "saved").iterdir()), ["worker-1.log", "worker-2.log"])
        for command in ("why", "events"):
            with self.subTest(command):
                said = self.user.run(command)
                self.assertEqual(said.code, 3, said)
                self.assertRegex(said.out, r"(?m)^job \S+: running when its first host answered last; it began \d+s ago$")
                self.assertEqual(hosts_told_of(said.out, ": its agent last heard from the coordinator "), 2, said.out)
        self.assertEqual(json.loads(self.user.run("why", "--json").out)["state"], "unreachable")

    def test_a_first_host_that_lets_nobody_in_hides_no_other(self):
        hosts = self.start_hosts(3)
        self.start_detached(hosts, shell('echo "$TFDIST_TASK on $TFDIST_HOST"; exec sleep infinity'), layout="mirrored")
        wait_for(lambda: self.user.run("logs", "job").out.count(" on ") == 3, "three tasks have written")
        cache = hosts[0].home / ".cache"
        for why, how, back in (("is not used", lambda: cache.chmod(0o777), lambda: cache.chmod(0o700)),
                               ("authentication", hosts[0].refuse_key, hosts[0].accept_key),
                               ("no answer of tfdist's agent", lambda: garble_after(hosts[0], 1200), lambda: garble_after(hosts[0], 1 << 40)),
                               ("host key", hosts[0].replace_host_key, lambda: None)):
            with self.subTest(why):
                how()
                logs = self.user.run("logs", "job")
                self.assertEqual((logs.code, sorted(logs.out.splitlines())), (3, [f"worker:{i} | worker:{i} on {hosts[i].address}" for i in (1, 2)]), logs)
                self.assertIn(why, logs.err)
                self.assertRegex(logs.err, r"(?m)^tfdist: worker:0: output is missing: .*\n  try: .*\n$")
                saved = self.user.run("logs", "job", "--save", "saved").expect(3)
                self.assertEqual(saved.err.count("  try: "), 1, saved)
                follow = self.user.run("logs", "-f", "job", "worker:1")
                self.assertEqual((follow.code, follow.out), (3, f"worker:1 | worker:1 on {hosts[1].address}\n"), follow)
                for command in ("why", "events", "wait", "top"):
                    said = self.user.run(command, "job", *(["--count", "1"] if command == "top" else []))
                    self.assertEqual(said.code, 3, said)
                    self.assertIn(why, said.err, said)
                    self.assertEqual(hosts_told_of(said.out, "its agent last heard from the coordinator"), 2, said)
                back()

    def assert_status_says_that_it_is_off(self, hosts, turn_off):
        """Its neighbours miss it, too, so nobody waits half a minute for a firewall that counts connections."""
        self.start_detached(hosts, shell('echo "$TFDIST_TASK on $TFDIST_HOST"; exec sleep infinity'), layout="mirrored")
        for _ in range(6):
            self.user.run("status").expect(0)
        turn_off(hosts[0])
        off = time.monotonic()
        # No command asks only the others; they miss a coordinator after 4 s.
        wait_for(lambda: time.monotonic() - off > 5, "the others miss it")
        begin = time.monotonic()
        status = self.user.run("status").expect(3)
        self.assertLess(time.monotonic() - begin, PATIENCE * 10)
        self.assertRegex(status.err, rf"(?m)^tfdist: {hosts[0].address}: connect: no answer, neither to this machine nor to the other hosts of "
                                     r"the job: is it off\? \(.*\)\n  try: tfdist restart job-\S+( @\S+)? goes on with the job once it is up again; "
                                     r"tfdist down job-\S+ ends what is left$")
        self.assertNotIn("firewall", status.err)
        self.assertEqual(hosts_told_of(status.out, ": its agent has not heard the coordinator for "), 2, status)

    def test_a_first_host_that_refuses_connections_is_not_taken_for_one_behind_a_firewall(self):
        self.assert_status_says_that_it_is_off(self.start_hosts(3), lambda host: host.crash())

    def test_a_first_host_that_is_silent_is_not_taken_for_one_behind_a_firewall(self):
        hosts = self.start_hosts(3, own_network=True)
        self.assert_status_says_that_it_is_off(hosts, lambda host: host.drop_all())
        for command in (["wait"], ["wait", "--json"], ["wait", "--timeout", "20s"], ["top", "-n", "1"], ["top", "--json", "-n", "1"], ["restart"],
                        ["tensorboard", "--logdir", "out"]):
            with self.subTest(command):
                begin = time.monotonic()
                asked = self.user.run(*command).expect(3)
                self.assertLess(time.monotonic() - begin, PATIENCE * 10)
                self.assertRegex(asked.err, rf"(?m)^tfdist: {hosts[0].address}: connect: no answer, neither to this machine nor to the other hosts ")
                self.assertIn("tfdist down job-", asked.err)
        self.assertIn("the event files of another task: tfdist tensorboard job-", asked.err)
        begin = time.monotonic()
        self.assertIn("has not ended in 1s", self.user.run("wait", "--timeout", "1s").expect(124).err)
        self.assertLess(time.monotonic() - begin, PATIENCE * 4)
        for command in (["logs"], ["pull", "--to", "pulled"]):
            begin = time.monotonic()
            read = self.user.run(*command).expect(3)
            self.assertLess(time.monotonic() - begin, 11 + PATIENCE * 7, read)
            self.assertRegex(read.err, rf"{hosts[0].address}: connect: {hosts[0].address} port \d+: no answer")
            self.assertNotIn("trying again", read.err)
            if command == ["logs"]:
                self.assertEqual(read.out.splitlines(), self.lines(hosts, 0), read)

    def test_all_commands_have_one_word_for_a_job_whose_first_host_was_restarted(self):
        hosts = self.start_hosts(2)
        self.start_detached(hosts, shell("exec sleep infinity"), layout="mirrored")
        hosts[0].crash()
        hosts[0].start(True)
        hosts[0].wait_until_up()

        def words():
            json_words = [json.loads(self.user.run(*command).out)["state"] for command in (("status", "--json"), ("why", "--json"), ("top", "-n", "1", "--json"))]
            listed = json.loads(self.user.run("list", "--json").out)[0]["state"]
            shown = [re.match(r"job \S+: ([a-z]+)", self.user.run(command).out)[1] for command in ("status", "why")]
            return {*json_words, listed, *shown}

        self.assertEqual(words(), {"unwatched"})
        self.user.run("down").expect(0)
        self.assertEqual(words(), {"stopped"})
        self.assertIn("stopped", self.user.run("wait").expect(1).err)
        self.assertNotIn("running", self.user.run("status").out)

    def test_a_job_of_another_machine_is_found_by_its_hosts(self):
        hosts = self.start_hosts(3)
        connection = ("-F", str(hosts.ssh_config))
        self.user.run("up", "-d", *connection, "-H", "h1,h2", "--no-workdir", "--name", "job", "--",
                      *shell("echo $TFDIST_TASK here; echo result >file; exec sleep infinity")).expect(0)
        self.user.wait_until_tasks_run()
        job = self.user.job_id()
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)

        def place(*some):
            return (*connection, "-H", ",".join(host.name for host in some))

        self.assertIn("tfdist list -H", laptop.run("status", *place(hosts[2])).expect(4).err)
        self.assertIn("the first host of job", laptop.run("status", *place(hosts[1])).expect(2).err)
        both = place(hosts[1], hosts[0])  # in any order
        status = laptop.run("status", *both, "job").expect(0)
        self.assertIn(f"job {job}: running", status.out)
        self.assertIn(f"tfdist: job {job} is known on this machine from now on; ", status.err)
        self.assertNotIn("from now on", laptop.run("why", *both).expect(0).err)
        self.assertIn("worker:1 | worker:1 here\n", laptop.run("logs", *both, "worker:1").expect(0).out)
        self.assertIn("worker:0 on ", laptop.run("restart", *both, "job", "worker:0").expect(0).out)
        home = laptop.folder / "results"
        laptop.run("pull", *both, "job", "--to", str(home)).expect(0)
        self.assertEqual({path.name for path in home.rglob("*") if path.is_file()}, {"file"})
        self.assertIn("no job other", laptop.run("down", *both, "other").expect(4).err)
        for words in (("down",), ("down", "--purge"), ("restart", "worker:0")):
            self.assertIn("no job is named, and those on the hosts may be others'", laptop.run(words[0], *both, *words[1:]).expect(2).err)
        self.assertEqual(self.user.status()["state"], "running")
        other = Tfdist("other")
        self.addCleanup(other.close)
        hosts[0].refuse_key()  # it is one of the job's hosts, whatever the other one says
        for words, what in (((), f"slot 0 of job {job}, which knows all of it,"), (("elsewhere",), "job elsewhere")):
            self.assertIn(f"{what} is on no host that answered; h1 did not\n  try: the same again once h1 answers\n",
                          other.run("status", *both, *words).expect(3).err)
        hosts[0].accept_key()
        laptop.run("down", *both, "job").expect(0)
        self.assertIn(f"job {job}: stopped", laptop.run("status", job).expect(0).out)
        self.assertEqual(self.user.status()["state"], "stopped")

    def test_a_name_is_no_word_for_a_job_where_a_host_does_not_answer(self):
        hosts = self.start_hosts(2)
        where = ("-F", str(hosts.ssh_config), "-H", "h1,h2")
        up = self.user.run("up", "-F", str(hosts.ssh_config), "-H", "h1", "--no-workdir", "--name", "job", "--", *shell("echo result >file"))
        job = JOB_ID.search(up.expect(0).err).group(0)
        hosts[1].refuse_key()
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)
        for words in (("down", "--purge"), ("down", "--purge", "--yes"), ("down",)):
            refused = laptop.run(*words, *where, "job").expect(3).err
            self.assertIn("which job job is meant is not known: h2 did not answer\n"
                          f"  try: name it by its id; on the hosts that answered: {job}\n", refused)
        self.assertTrue((hosts[0].home / ".cache/tfdist/jobs" / job / "run/work/file").exists())
        laptop.run("down", "--purge", *where, job).expect(0)
        self.assertFalse((hosts[0].home / ".cache/tfdist/jobs" / job).exists())

    def test_who_has_looked_at_anothers_job_does_not_change_it_unasked(self):
        hosts = self.start_hosts(1)
        file = self.write(hosts, shell("sleep infinity"), layout="mirrored")
        self.user.run("up", "-d", file).expect(0)
        job = self.user.job_id()
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)
        laptop.run("status", "-F", str(hosts.ssh_config), "-H", "h1", "job").expect(0)
        for words in (("down",), ("down", "--purge", "--yes"), ("restart",), ("exec", "--", "true")):
            self.assertIn("no job is named, and those that this machine knows were started on another one\n  try: name the job: tfdist list",
                          laptop.run(*words).expect(4).err)
        fresh = Tfdist("fresh")
        self.addCleanup(fresh.close)
        same = fresh.write("cluster.toml", pathlib.Path(file).read_text())
        other = fresh.write("other.toml", pathlib.Path(file).read_text().replace("infinity", "1000"))
        refused = fresh.run("up", "-d", "--replace", other).expect(2).err
        self.assertRegex(refused, rf"nothing was started: job {job} runs, which was started by \S+@\S+, and runs on\n")
        self.assertEqual(self.user.status()["state"], "running")
        self.assertIn("runs already, from this plan", fresh.run("up", "-d", same).expect(0).err)
        self.assertIn(f"job {job}: running", fresh.run("status").expect(0).out)  # it has joined that one
        fresh.run("up", "-d", "--replace", "--name", "job", other).expect(0)
        self.assertEqual(self.user.status(job)["state"], "stopped")
        # A file means the job that runs there, although this machine knows an older one of it.
        newer = fresh.job_id()
        self.assertNotEqual(newer, job)
        self.assertIn(f"job {newer}: running", self.user.run("status", file).expect(0).out)

    def test_of_several_jobs_on_hosts_the_running_one_is_meant(self):
        """As docs/consent.md has it for the jobs of this machine."""
        hosts = self.start_hosts(2)
        where = ("-F", str(hosts.ssh_config), "-H", "h1,h2")

        def start(*command):
            return JOB_ID.search(self.user.run("up", "-d", *where, "--no-workdir", "--name", "job", "--", *shell(*command)).expect(0).out).group(0)

        over = start("echo result >file")
        self.user.wait_until_ended(over)
        wait_for(lambda: time.strftime("%H%M%SZ", time.gmtime()) not in over, "another second: ids tell no more")
        runs = start("echo result >file; exec sleep infinity")
        self.user.wait_until_tasks_run(runs)
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)
        for words in (("down", "--purge"), ("down", "--purge", "--yes")):
            asked = laptop.run(*words, *where, "job").expect(2).err
            self.assertIn(f"2 jobs are meant, of which {runs} (running) comes first", asked)
            self.assertIn(f"try: tfdist down --purge {runs} ends it", asked)
        line = f"tfdist: of 2 jobs there this one runs: {runs}\n"
        restarted = laptop.run("restart", *where, "job").expect(0)
        self.assertIn(line, restarted.err)
        self.assertIn(line, laptop.run("status", *where, "job").expect(0).err)
        self.assertIn(line, laptop.run("down", *where, "job").expect(0).err)
        # The agents of both may still be there for their followers.
        status = laptop.run("status", *where, "job").expect(0)
        self.assertIn(f"job {runs}: stopped", status.out)
        self.assertRegex(status.err, f"tfdist: of 2 jobs there this one (runs|ended last|is the newest): {runs}\n")
        laptop.run("down", *where, "job").expect(0)
        self.assertEqual(laptop.status(runs)["state"], "stopped")
        self.assertTrue((hosts[0].home / ".cache/tfdist/jobs" / over / "run/work/file").exists())

    def test_of_jobs_on_hosts_that_end_now_the_last_one_is_meant(self):
        hosts = self.start_hosts(1)
        where = ("-F", str(hosts.ssh_config), "-H", "h1")
        jobs = []
        for name in ("one", "two"):
            up = self.user.run("up", "-d", *where, "--no-workdir", "--name", name, "--set", "cluster.ports=auto", "--", *shell("exec sleep infinity"))
            jobs.append(JOB_ID.search(up.expect(0).out).group(0))
            self.user.wait_until_tasks_run(jobs[-1])
        laptop = Tfdist("laptop")
        self.addCleanup(laptop.close)
        self.assertIn("tfdist: of 2 running jobs there this is the newest: ", laptop.run("status", *where).expect(0).err)
        self.user.run("down", *reversed(jobs)).expect(0)
        status = laptop.run("status", *where).expect(0)  # the agents stay for a moment, for their followers
        self.assertRegex(status.err, rf"tfdist: of 2 jobs there this one ((ended last|runs): {jobs[0]}|is the newest: )")
        self.assertIn(": stopped", status.out)

    def test_bash_reads_its_start_up_file_and_sh_reads_none(self):
        """As configs/README.md says: SSH_CLIENT makes bash take its shell for one of rshd's."""
        hosts = self.start_hosts(1, bashrc="echo noise\n")
        for shell_words, noise in ((["bash", "-c"], 1), (["sh", "-c"], 0), (["bash", "-lc"], 0)):
            up = self.user.run("up", self.write(hosts, [*shell_words, "echo said"], layout="mirrored")).expect(0)
            self.assertEqual((up.out.count("| noise\n"), up.out.count("| said\n")), (noise, 1), shell_words)

    def test_status_shows_several_jobs(self):
        hosts = self.start_hosts(1)
        for name in ("one", "two"):
            file = self.user.write(f"{name}.toml", clusters.over_ssh(name, shell("true"), hosts, layout="mirrored"))
            self.user.run("up", file).expect(0)
        shown = self.user.run("status", "one", "two").expect(0)
        self.assertEqual(re.findall(r"(?m)^job (one|two)-\S+: succeeded", shown.out), ["one", "two"])
        self.assertIn("no job three", self.user.run("status", "one", "three").expect(4).err)

    def clean_without_the_last(self, hosts):
        """After a job has succeeded on all of them."""
        up = self.user.run("up", self.write(hosts, shell("true"), layout="mirrored"))
        self.assertEqual(up.code, 0, up)
        self.assert_nothing_left(hosts)
        hosts[-1].crash()
        cleaned = self.user.run("clean", "--yes", "cluster.toml")
        self.assertEqual(cleaned.code, 3, cleaned)
        self.assertRegex(cleaned.err, f"(?s)^tfdist: {hosts[-1].address}: connect: .*"
                         f"1 of {len(hosts)} hosts could not be asked: what lies there stays\n  try: ")
        return cleaned

    def test_prune_forgets_what_clean_has_removed(self):
        """Of tfdist's folder nothing is left then, nor anything beside it."""
        hosts = self.start_hosts(2)
        file = self.write(hosts, shell("echo result >file"), layout="mirrored")
        self.user.run("up", file).expect(0)
        self.assertIn("files of its tasks are on ", self.user.run("prune").expect(0).out)
        self.user.run("clean", "--all", "--yes", file).expect(0)
        self.assertIn("succeeded", self.user.run("status").expect(0).out)
        self.assertIn("forgot 1 job; ", self.user.run("prune").expect(0).out)

    def test_prune_that_a_host_did_not_answer_does_not_end_well(self):
        hosts = self.start_hosts(2)
        self.user.run("up", self.write(hosts, shell("true"), layout="mirrored")).expect(0)
        self.assert_nothing_left(hosts)
        hosts[-1].crash()
        for words in (["prune"], ["prune", "--json"]):
            pruned = self.user.run(*words).expect(3)
            self.assertRegex(pruned.err, f"(?s)tfdist: {hosts[-1].address}: connect: .*"
                             "tfdist: files: 1 kept job: not known whether files of tasks are left\n  try: ")
            self.assertIn(f"{hosts[-1].address} did not answer", pruned.out)

    def test_clean_removes_all_on_the_other_hosts(self):
        hosts = self.start_hosts(3)
        self.clean_without_the_last(hosts)
        files = [str(path) for host in hosts[:2] for path in (host.home / ".cache").rglob("*") if path.is_file()]
        self.assertEqual(files, [])

    def test_clean_keeps_what_may_run_in_a_folder_that_is_shared(self):
        hosts = self.start_hosts(2, shared_home=True)
        cleaned = self.clean_without_the_last(hosts)
        self.assertEqual(cleaned.out.count(": stays, a host that was not looked at may run it\n"), 2, cleaned.out)
        self.assertIn("agents and caches, shared with all other jobs of this account: stay, a job may run\n", cleaned.out)
        self.assertTrue((self.job_folder(hosts[0]) / "h1/agent").exists())

    def test_clean_lists_and_removes_what_lies_in_one_home_of_several_hosts_once(self):
        hosts = self.start_hosts(2, shared_home=True)
        file = self.user.write("both.toml", clusters.over_ssh("both", shell("echo x >result"), list(hosts), layout="mirrored",
                                                              ssh_config=hosts.ssh_config))
        self.user.run("up", file).expect(0)
        job = self.user.job_id()
        wait_for(lambda: ": stay, " not in self.user.run("clean", "--dry-run", file).out, "the agents have left")
        listed = self.user.run("clean", "--dry-run", file).out
        for what in (f"job {job}, slot 0: HAS FILES OF TASKS", f"job {job}, slot 1: HAS FILES OF TASKS", "agents and caches"):
            self.assertEqual(listed.count(what), 1, listed)
        self.assertIn(f"{hosts[0].address[:-1]}[1-2] ", listed)
        cleaned = self.user.run("clean", "--yes", file).expect(0).out
        self.assertEqual(cleaned.count(f"{job}/h0\n"), 1, cleaned)
        self.assertNotIn("kept", cleaned)
        self.assertFalse((hosts[0].home / ".cache/tfdist").exists())

    def test_clean_of_one_file_keeps_what_runs_on_the_host_of_another(self):
        hosts = self.start_hosts(2, shared_home=True)
        files = [self.user.write(f"{name}.toml", clusters.over_ssh(name, shell("exec sleep infinity"), [host], layout="mirrored",
                                                                   ssh_config=hosts.ssh_config))
                 for name, host in (("mine", hosts[0]), ("other", hosts[1]))]
        self.user.run("up", "-d", files[1]).expect(0)
        self.user.wait_until_tasks_run()
        job = self.user.job_id()
        clean = ("clean", "--all", "--yes", files[0])
        kept = f"job {job}, slot 0: stays, a host that was not looked at may run it\n"
        self.assertIn(kept, self.user.run(*clean).out)
        # Nor what another machine has started.
        [record] = self.user.folder.rglob(f"{job}.json")
        record.rename(self.user.folder / "record")
        self.assertIn(kept, self.user.run(*clean).out)
        (self.user.folder / "record").rename(record)
        self.assertTrue((self.job_folder(hosts[0]) / "h0/agent").exists())
        self.user.run("down", job).expect(0)
        self.assertIn(f"{job}/h0\n", self.user.run("clean", "--yes", files[1]).out)


class UnfitFolders(OverSsh):
    """What `clean` may be for: nothing more fits into tfdist's folder, or no program runs there any more."""

    def assert_cleans(self, spoil):
        """Where the agent of this tfdist is not there, as after an upgrade."""
        hosts = self.start_hosts(1)
        host = hosts[0]
        host.run_as("root", ["mount", "-t", "tmpfs", "-o", f"uid={host.uid},mode=700,size=64m", "tmpfs", "/home/trainer"])
        self.user.run("up", self.write(hosts, shell("echo x >result"))).expect(0)
        self.assert_nothing_left(hosts)
        folder = host.run_as("trainer", ["sh", "-c", "rm -r ~/.cache/tfdist/bin; ls -d ~/.cache/tfdist/jobs/*/h0"]).stdout
        host.run_as("root", ["sh", "-c", spoil], check=False)
        cleaned = self.user.run("clean", "--yes", "cluster.toml")
        self.assertEqual(cleaned.code, 0, cleaned)
        self.assertIn(": HAS FILES OF TASKS\n", cleaned.out)
        self.assertIn(f": removed {folder}", cleaned.out)
        left = host.run_as("root", ["find", "/dev/shm", "/tmp", "/run/user", "-user", "trainer", "-name", "tfdist-*"], check=False)
        self.assertEqual(left.stdout, "")

    def test_clean_of_a_folder_that_is_full(self):
        self.assert_cleans("cat /dev/zero >/home/trainer/rest")

    def test_clean_of_a_folder_that_is_noexec(self):
        self.assert_cleans("mount -o remount,noexec /home/trainer")


class NoisyHosts(OverSsh):
    def test_banner_rc_file_and_locale_warning_have_no_effect(self):
        hosts = self.start_hosts(
            2, banner="*** Authorized use only ***\n",
            bashrc='echo "welcome to $(hostname)"; echo "rc on stderr" >&2; printf "no newline"\n',
            locale="xx_YY.UTF-8")
        result = self.user.run("up", self.write(hosts, shell("echo hello")))
        self.assertEqual(result.code, 0, result)
        self.assertIn("worker:0 | hello\n", result.out)
        self.assertNotIn("welcome", result.out)
        self.assert_nothing_left(hosts)


class BadHosts(OverSsh):
    def test_every_bad_host_is_named_with_its_cause_and_nothing_is_started(self):
        hosts = self.start_hosts(4)
        hosts[1].refuse_key()
        hosts[2].replace_host_key()
        result = self.user.run("up", self.write(hosts, shell("true")))
        self.assertEqual(result.code, 3, result)
        self.assertRegex(result.err, rf"tfdist: {hosts[1].address}: authentication: ")
        self.assertRegex(result.err, rf"tfdist: {hosts[2].address}: host key: .*differs")
        self.assertIn("  try: ", result.err)
        self.assert_nothing_left(hosts)
        for host in (hosts[0], hosts[3]):
            jobs = host.home / ".cache/tfdist/jobs"
            self.assertEqual(list(jobs.rglob("h?")) if jobs.exists() else [], [])

    def assert_one(self, text, others):
        """One error, its remedy, and where else it is the same."""
        error = r"(tfdist: .*|error: .*)\n(  try: .*\n)?"
        self.assertRegex(text, rf"(?m)^{error}  the same {others}$")
        self.assertEqual(len(re.findall("(?m)^  the same ", text)), 1, text)

    def test_errors_that_differ_in_the_task_or_the_host_are_one(self):
        hosts = self.start_hosts(3)
        prefix = re.escape(hosts[0].address[:-1])
        more = rf"on 2 more hosts: {prefix}\[2-3\]"
        file = self.write(hosts, ["nosuch"], layout="mirrored")
        for command in ("up", "check"):
            said = self.user.run(command, file).expect(3)
            self.assertEqual((said.out + said.err).count("not found in PATH"), 1, said)
            self.assert_one(said.out + said.err, more + r" \(worker:\[1-2\]\)")
        one = self.user.run("up", "--no-workdir", "-F", hosts.ssh_config, "-H", f"{hosts[0].name}:3", "--", "nosuch").expect(3)
        self.assertEqual(one.err.count("not found in PATH"), 1, one)
        self.assert_one(one.err, r"for worker:\[1-2\]")
        self.start_detached(hosts, shell("sleep infinity"), layout="mirrored")
        for host in hosts:
            host.refuse_key()
        for command in (("exec", "job", "--", "true"), ("logs", "job"), ("pull", "job"), ("status", "job"), ("why", "job"),
                        ("clean", "--yes", self.user.folder / "cluster.toml"), ("down", "job")):
            said = self.user.run(*command)
            with self.subTest(command=command):
                # `status` and `why` name the first host, which knows all, by itself.
                apart = command[0] in ("status", "why")
                self.assertEqual(said.err.count("does not let") + said.out.count("does not let"), 2 if apart else 1, said)
                self.assertRegex(said.out + said.err, rf"(?m)^ +the same on 1 more host: {hosts[2].address}$" if apart else rf"(?m)^ +the same {more}$")
        for host in hosts:
            host.accept_key()

    def test_a_script_that_no_host_has_is_told_before_anything_starts(self):
        hosts = self.start_hosts(2)
        for path in ("/no/train.py", "~/train.py"):
            file = self.write(hosts, ["python3", "-u", path], layout="mirrored")
            for command in ("up", "check"):
                said = self.user.run(command, file).expect(3)
                self.assertRegex(said.out + said.err, r"command of worker:0: python3 cannot open /\S*/train\.py: No such file or directory\n  try: the path counts on that host: ")
        self.assertEqual(self.user.run("list").out.count("failed"), 0)
        self.user.run("up", self.write(hosts, shell("echo pass >made.py; python3 made.py"), layout="mirrored")).expect(0)

    def test_an_agent_that_says_nothing_is_named_with_its_process(self):
        hosts = self.start_hosts(2)
        file = self.write(hosts, shell("true"), layout="mirrored")
        self.user.run("up", file).expect(0)
        [agent] = (hosts[1].home / ".cache/tfdist/bin").iterdir()
        owner = agent.stat()
        agent.unlink()  # it may still run
        agent.write_text("#!/bin/sh\nexec sleep 600\n")
        agent.chmod(0o500)
        os.chown(agent, owner.st_uid, owner.st_gid)
        up = self.user.start("up", file)
        name = hosts[1].address
        wait_for(lambda: f"waiting for {name}: the agent's first word" in up.err.read_text(), lambda: up.err.read_text(), 30)
        self.assertEqual(up.wait(100), 3)  # 240 s, before
        said = up.err.read_text()
        [process] = [process for process in hosts[1].processes() if process.argv[:2] == ["sleep", "600"]]
        self.assertIn(f"tfdist: {name}: agent start: the agent was started as process {process.pid_there}, and has said nothing for 60 s\n"
                      f"  try: `ps -o stat,args {process.pid_there}` on that host: ", said)
        self.assertIn("nothing was started", said)
        hosts[1].run_as("root", ["kill", str(process.pid_there)])

    def test_down_names_a_frozen_host_and_confirms_it_once_it_is_back(self):
        hosts = self.start_hosts(3)
        self.start_detached(hosts, shell("sleep infinity"))
        hosts[2].freeze()
        down = self.user.run("down", "job", seconds=120)
        self.assertNotIn(down.code, (0, 2), down)
        self.assertIn(f"unreachable: {hosts[2].address}", down.err)
        hosts[2].thaw()
        again = self.user.run("down", "job", seconds=120)
        self.assertEqual(again.code, 0, again)
        self.assert_nothing_left(hosts)


    def test_purge_says_that_nothing_was_removed_where_a_host_is_off(self):
        hosts = self.start_hosts(2)
        self.start_detached(hosts, shell("sleep infinity"))
        job = self.user.job_id()
        hosts[1].crash()
        down = self.user.run("down", "--purge", "--yes", job, seconds=120).expect(1)
        self.assertIn(f"tfdist: job {job}: nothing was removed: its folders go once every host has confirmed the end\n", down.err)
        self.assertIn(f"  try: tfdist down --purge {job} again when they answer\n", down.err)
        self.assertTrue(self.job_folder(hosts[0]).exists())


class Interrupted(OverSsh):
    COUNT = 8

    def interrupt(self, hosts, when):
        """In less than the 60 s after which agents end by themselves nothing is left."""
        terminal = self.user.start_on_terminal("up", self.write(hosts, shell("echo running; sleep infinity")))
        when(terminal)
        terminal.ctrl_c()
        self.assertEqual(terminal.wait(), 130, terminal.text)
        self.assert_nothing_left(hosts, 30, terminal.text)

    def test_ctrl_c_during_the_run_leaves_nothing_on_eight_hosts(self):
        hosts = self.start_hosts(self.COUNT)
        self.interrupt(hosts, lambda terminal: terminal.wait_for_text("running"))

    def test_ctrl_c_during_deployment_leaves_nothing_on_eight_hosts(self):
        hosts = self.start_hosts(self.COUNT)
        reached = {
            "the first connection": lambda: any(host.processes(with_sshd=True)[1:] for host in hosts),
            "the first agent": lambda: any("keeper" in p.argv for host in hosts for p in host.processes()),
            "the last agent": lambda: all(any("keeper" in p.argv for p in host.processes()) for host in hosts),
        }
        for what, condition in reached.items():
            with self.subTest(what):
                self.interrupt(hosts, lambda up: wait_for(condition, lambda: f"{what}; so far: {up.read()}"))


class Faults(OverSsh):
    def test_the_agent_of_slot_0_and_its_connection_may_die_while_up_reads(self):
        """The streams of tasks that have ended stay ended, the others go on where they were."""
        hosts = self.start_hosts(2)
        script = ('case "$TFDIST_TASK" in master:0) seq 100;; *) mkfifo gate && exec 3<>gate && echo "line 0"; i=1; '
                  'while read -r word <&3 && [ "$word" = more ]; do echo "line $i"; i=$((i+1)); done; echo over;; esac')
        up = self.user.start("up", self.write(hosts, shell(script)))
        self.user.wait_for_output(up, b"master:0 | 100\n")
        self.user.wait_for_output(up, b"worker:0 | line 0\n")
        gate = self.job_folder(hosts[1]) / "run/work/gate"
        gate.write_text("more\n")
        self.user.wait_for_output(up, b"worker:0 | line 1\n")
        self.kill(hosts[0], lambda argv: argv[:2] == ["tfdist-agent", "agent"])
        gate.write_text(10 * "more\n")  # nobody reads it now
        self.user.wait_for_status(lambda s: s["hosts"][0]["agent_restarts"] > 0, "the agent is back")
        self.kill(hosts[0], lambda argv: re.match(r"sshd(-session)?: trainer", argv[0]), with_sshd=True)
        gate.write_text(10 * "more\n")
        wait_for(lambda: b"connecting again" in up.err.read_bytes(), "up has noticed")
        wait_for(lambda: b"tfdist: connected again\n" in up.err.read_bytes(), "up says that it is back")
        gate.write_text("over\n")
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.assertEqual(up.err.read_text().count("connected again"), up.err.read_text().count("connecting again"))
        printed = up.out.read_text().splitlines()
        self.assertEqual([l for l in printed if l.startswith("master:0")], [f"master:0 | {i}" for i in range(1, 101)])
        of_worker = [l.split(" | ")[1] for l in printed if l.startswith("worker:0")]
        self.assertEqual(of_worker, [f"line {i}" for i in range(22)] + ["over"])
        self.assert_nothing_left(hosts)

    def test_a_spare_host_takes_the_place_of_one_that_lost_power(self):
        hosts = self.start_hosts(3)
        script = ('echo "attempt $TFDIST_ATTEMPT on $TFDIST_HOST with $TF_CONFIG"; '
                  'case "$TFDIST_TASK" in ps*) exec sleep infinity;; esac; '
                  '[ "$TFDIST_ATTEMPT" = 1 ] && exec sleep infinity; echo over')
        text = clusters.over_ssh("job", shell(script), hosts[:2], ssh_config=hosts.ssh_config)
        spare = f'{{ address = "{hosts[2].address}", ssh = "{hosts[2].name}", spare = true }}'
        text = text.replace("hosts = [", f"hosts = [{spare}, ", 1)
        up = self.user.start("up", self.user.write("job.toml", text))
        self.user.wait_for_output(up, b"worker:0 | attempt 1 on")
        hosts[1].crash()
        self.assertEqual(up.wait(120), 0, up.err.read_text())
        said, printed = up.err.read_text(), up.out.read_text()
        lost, taken = hosts[1].address, hosts[2].address
        self.assertIn(f"host {lost} is lost: nothing heard for 11 s; starting all tasks again", said)
        self.assertIn(f"tfdist: attempt 2: {taken} runs the tasks of {lost}", said)
        self.assertRegex(printed, f"worker:0 . attempt 2 on {taken} with .*{taken}")
        self.assertRegex(printed, "worker:0 . over")
        self.assertNotRegex(printed, f"attempt 2 .*{lost}")
        cleaned = self.user.run("clean", "--yes", "job.toml")
        self.assertIn(", slot 0: stays for now: the job is over, but its agent is there for a follower or a lost host\n", cleaned.out)
        hosts[0].crash()
        logs = self.user.run("logs", "job", "worker:0")
        self.assertEqual(logs.code, 0, logs)
        self.assertIn("worker:0 | over\n", logs.out)

    def test_a_spare_host_takes_the_place_of_one_that_is_off_when_the_job_starts(self):
        for off in (1, 0):
            hosts = self.start_hosts(3)
            text = clusters.over_ssh("job", shell('echo "on $TFDIST_HOST with $TF_CONFIG"; sleep 1'), hosts[:2],
                                     layout="mirrored", ssh_config=hosts.ssh_config)
            spare = f'{{ address = "{hosts[2].address}", ssh = "{hosts[2].name}", spare = true }}'
            file = self.user.write("job.toml", text.replace("hosts = [", f"hosts = [{spare}, ", 1))
            hosts[off].crash()
            up = self.user.run("up", file)
            self.assertEqual(up.code, 0, up)
            self.assertIn(f"tfdist: {hosts[off].address}: connect: ", up.err)
            self.assertIn(f"tfdist: spare host {hosts[2].address} takes the place of {hosts[off].address}\n", up.err)
            self.assertRegex(up.out, f"worker:{off} . on {hosts[2].address} with .*{hosts[2].address}")
            self.assertNotIn(hosts[off].address, up.out)

    def test_another_plan_is_refused_in_the_same_words_where_another_host_fails(self):
        hosts = self.start_hosts(2)

        def write(count, deadline):
            return self.user.write("job.toml", clusters.over_ssh("job", shell("sleep infinity"), hosts[:count], layout="mirrored",
                                                                 ssh_config=hosts.ssh_config, extra=deadline))

        self.user.run("up", "-d", write(1, "")).expect(0)
        job = self.user.job_id()
        refused = f"tfdist: {hosts[0].address}: job {job} runs under this name, from another plan\n"
        other = self.user.run("up", "-d", write(1, 'deadline = "1h"')).expect(4)
        self.assertIn(refused + "  deadline: none -> 1h\n", other.err)
        hosts[1].refuse_key()
        both = self.user.run("up", "-d", write(2, 'deadline = "1h"')).expect(4)
        self.assertIn(f"tfdist: {hosts[1].address}: authentication: ", both.err)
        self.assertIn(refused, both.err)
        self.assertIn("  deadline: none -> 1h\n", both.err)
        self.assertIn("  worker:1 is new\n", both.err)
        self.assertIn(f"  try: tfdist down {job}, or tfdist up --replace, or another name\n", both.err)
        self.assertNotIn("nothing was started", both.err)

    def test_several_people_with_one_account_learn_whose_job_it_is(self):
        hosts = self.start_hosts(2)
        alice, bob = self.user, Tfdist("bob")
        self.addCleanup(bob.close)
        machine = socket.gethostname()
        for user, name in ((alice, "alice"), (bob, "bob")):
            user.env["LOGNAME"] = name

        text = clusters.over_ssh("job", shell("sleep infinity"), hosts, layout="mirrored", ssh_config=hosts.ssh_config)

        def up(user, command, *words):
            return user.run("up", "-d", *words, user.write("job.toml", text.replace("sleep infinity", command)))

        up(alice, "sleep infinity").expect(0)
        job = alice.job_id()
        self.assertNotIn("FROM", alice.run("list").out)
        follows = alice.start("up", "job.toml")
        refused = up(bob, "sleep 1000").expect(4)
        self.assertRegex(refused.err, rf"job {job} runs under this name, from another plan; alice@{machine} started it \d+s ago\n"
                                      r"  try: --name NAME starts this one beside it; --name job --replace ends that one\n")
        asked = up(bob, "sleep 1000", "--replace").expect(2)
        self.assertIn(f"job {job} runs, which was started by alice@{machine}, and runs on\n", asked.err)
        self.assertIn(f"runs already, from this plan, started by alice@{machine}\n", up(bob, "sleep infinity").expect(0).err)
        on_hosts = bob.run("list", "job.toml").out
        self.assertRegex(on_hosts, rf"JOB +USER +FROM +STATE +AGE +ON\n{job} +\S+ +alice@{machine} +tasks run ")
        self.assertEqual({one["started_by"] for host in json.loads(bob.run("list", "--json", "job.toml").out) for one in host["jobs"]}, {f"alice@{machine}"})
        self.assertRegex(bob.run("list").out, rf" FROM .*\n{job} .* alice@{machine} ")
        self.assertIn(f"\n  from: alice@{machine}\n", bob.run("status", "job").out)
        self.assertIn(f"\n  from:     alice@{machine}\n", bob.run("describe", "job").out)
        self.assertEqual(bob.status("job")["started_by"], f"alice@{machine}")
        bob.run("down", job).expect(0)
        self.assertEqual(follows.wait(60), 1)
        for said in (follows.err.read_text(), *(alice.run(command, job).out for command in ("status", "why", "events"))):
            self.assertIn(f"tfdist down by bob@{machine}", said)

    def test_another_first_host_is_a_difference_of_the_plan(self):
        hosts = self.start_hosts(3)

        def up(*chosen, words=(), file="job.toml"):
            return self.user.run("up", "-d", *words, self.user.write(file, clusters.over_ssh(
                "job", shell("sleep infinity"), [hosts[at] for at in chosen], layout="mirrored", ssh_config=hosts.ssh_config)))

        up(0, 1).expect(0)
        job = self.user.job_id()
        for chosen in ([1], [1, 2], [2, 1]):
            other = up(*chosen).expect(4)
            self.assertIn(f"tfdist: {hosts[1].address}: job {job} runs under this name, from another plan\n", other.err)
            self.assertIn(f"  try: tfdist down {job}, or tfdist up --replace, or another name\n", other.err)
        elsewhere = up(1, words=("--replace",), file="other/job.toml").expect(4)
        self.assertIn(f"  try: tfdist down {job}, or another name\n", elsewhere.err)
        up(2, 1, words=("--replace",)).expect(0)
        self.assertNotEqual(self.user.job_id(), job)

    def test_no_spare_host_takes_the_place_of_one_that_is_for_the_user_to_look_into(self):
        """Its key has changed, and somebody may be listening in; or it lets the user in no more."""
        hosts = self.start_hosts(3)
        text = clusters.over_ssh("job", ["true"], hosts[:2], layout="mirrored", ssh_config=hosts.ssh_config)
        spare = f'{{ address = "{hosts[2].address}", ssh = "{hosts[2].name}", spare = true }}'
        file = self.user.write("job.toml", text.replace("hosts = [", f"hosts = [{spare}, ", 1))
        for spoil, said in ((hosts[1].refuse_key, "authentication: "), (hosts[1].replace_host_key, "host key: ")):
            spoil()
            up = self.user.run("up", file)
            self.assertEqual(up.code, 3, up)
            self.assertIn(f"tfdist: {hosts[1].address}: {said}", up.err)
            self.assertNotIn("takes the place", up.err)
            self.assertIn("1 of 3 hosts could not be brought up; nothing was started", up.err)

    def test_a_file_means_the_job_whose_first_host_is_a_spare(self):
        """And not one of before, which had the first host of the file."""
        hosts = self.start_hosts(3)
        text = clusters.over_ssh("job", shell("true"), hosts[:2], layout="mirrored", ssh_config=hosts.ssh_config)
        spare = f'{{ address = "{hosts[2].address}", ssh = "{hosts[2].name}", spare = true }}'
        text = text.replace("hosts = [", f"hosts = [{spare}, ", 1)
        file = self.user.write("job.toml", text)
        self.user.run("up", file).expect(0)
        hosts[0].crash()
        self.user.run("up", "-d", file, "--set", "task.command=['sleep', 'infinity']").expect(0)
        running = self.user.job_id()
        self.assertEqual(json.loads(self.user.run("status", "--json", file).out)["job"], running)
        self.assertIn(f"job {running}: ended", self.user.run("down", file).expect(0).err)

    def test_a_spare_host_that_is_off_does_not_hold_a_job_up(self):
        hosts = self.start_hosts(2)
        text = clusters.over_ssh("job", ["true"], hosts[:1], layout="mirrored", ssh_config=hosts.ssh_config)
        spare = f'{{ address = "{hosts[1].address}", ssh = "{hosts[1].name}", spare = true }}'
        file = self.user.write("job.toml", text.replace("hosts = [", f"hosts = [{spare}, ", 1))
        hosts[1].crash()
        self.assertEqual(self.user.run("up", file).code, 0)

    def test_a_job_waits_for_a_lost_host(self):
        hosts = self.start_hosts(2)
        up = self.user.start("up", self.write(hosts, shell("exec sleep infinity"), layout="mirrored"))
        self.user.wait_until_tasks_run()
        hosts[1].freeze()
        self.user.wait_for_status(lambda s: s["hosts"][1]["state"] == "lost", "the host counts as lost")
        self.assertRegex(self.user.run("why").out, r"goes on when it is back, and fails in \dm\d\ds if it is not")
        for command in (("status",), ("top", "-n", "1")):
            self.assertRegex(self.user.run(*command).out, r"worker:1 .* unknown \(host lost\)\n")
        hosts[1].thaw()
        self.user.wait_for_status(lambda s: s["hosts"][1]["state"] == "connected", "the host is back")
        self.assertEqual(self.user.status()["state"], "running")
        self.assertEqual(self.user.run("down").code, 0)
        up.wait(60)
        self.assertRegex(up.err.read_text(), r": lost: nothing heard for 11 s; the job waits for it, for \S+ at most")

    def lose_second_host(self, hosts, look=lambda: None):
        """It is rebooted, in a moment; `look` while it is off."""
        hosts[1].crash()
        self.user.wait_for_status(lambda s: s["hosts"][1]["state"] == "lost", "the host counts as lost")
        look()
        hosts[1].start(True)
        hosts[1].wait_until_up()

    def test_up_starts_the_agent_of_a_rebooted_host_again(self):
        hosts = self.start_hosts(2, own_network=True)
        up = self.user.start("up", self.write(hosts, shell("exec sleep infinity"), layout="mirrored"))
        self.user.wait_until_tasks_run()
        self.lose_second_host(hosts)
        status = self.user.wait_for_status(
            lambda s: s["attempt"] == 2 and all(task["state"] == "running" for task in s["tasks"]), "all tasks run again")
        self.assertEqual({host["state"] for host in status["hosts"]} & {"lost", "slow"}, set(), status)
        said = up.err.read_text()
        self.assertIn(f"tfdist: {hosts[1].address}: the host was restarted; its agent runs again\n", said)
        self.assertIn(f"tfdist: {hosts[1].address}: it was restarted, which ended its tasks\n", said)
        self.assertIn(f"host {hosts[1].address}: it was restarted, which ended its tasks", self.user.run("why").out)
        for words in (said, self.user.run("why").out, self.user.run("status").out):
            self.assertNotIn("keeper", words)
        self.assertNotIn(f"host {hosts[1].address}", self.user.run("status").out)  # all is well there
        self.user.run("down").expect(0)
        self.assertEqual(up.wait(60), 1)
        self.assert_nothing_left(hosts)

    def test_restart_does_so_for_a_job_that_nobody_follows(self):
        hosts = self.start_hosts(2)
        self.start_detached(hosts, shell("exec sleep infinity"), layout="mirrored")
        job = self.user.job_id()
        command = f"tfdist restart {job} @{hosts[1].address}"

        def restart_while_lost():
            restart = self.user.run("restart", job).expect(3)
            self.assertIn(f" is lost, and worker:1 cannot start before it is back\n  try: once {hosts[1].address} is up again, {command}\n",
                          restart.err)
        self.lose_second_host(hosts, restart_while_lost)
        self.assertIn(f"  once {hosts[1].address} is up again, {command} starts its agent there\n", self.user.run("status").out)
        self.assertIn(f"{hosts[1].address} is lost; once it is up again, {command} starts", self.user.run("events").err)
        self.assertRegex(self.user.run("why").out, rf"asked just now: the host was restarted\n  try: {command} starts its agent there\n")
        restart = self.user.run("restart", job, f"@{hosts[1].address}").expect(0)
        self.assertIn(f"tfdist: {hosts[1].address}: the host was restarted; its agent runs again\n", restart.err)
        self.user.wait_until_tasks_run()
        self.assertEqual(len([p for p in hosts[1].processes() if p.argv == ["sleep", "infinity"]]), 1)
        self.assertNotIn("up again", self.user.run("status").out)
        self.user.run("down").expect(0)
        self.assert_nothing_left(hosts)

    def sleeping_on(self, hosts):
        return [p.argv for host in hosts for p in host.processes() if p.argv == ["sleep", "infinity"]]

    def test_what_down_has_ended_a_host_that_comes_back_does_not_begin_again(self):
        """The first one was off when `down` came, and `up` is attached."""
        hosts = self.start_hosts(3, own_network=True)
        up = self.user.start("up", self.write(hosts, shell("exec sleep infinity"), layout="mirrored"))
        self.user.wait_until_tasks_run()
        job = self.user.job_id()
        hosts[0].crash()
        self.assertIn("confirmed on 2 of 3 hosts", self.user.run("down", job).expect(1).err)
        hosts[0].start(True)
        hosts[0].wait_until_up()
        self.assertEqual(up.wait(60), 3)
        said = up.err.read_text()
        self.assertRegex(said, rf"job {job} was told to end: tfdist down by \S+\n  try: tfdist down {job} again ends what is left\n")
        self.assertNotIn("runs again", said)
        self.assertEqual(self.sleeping_on(hosts), [])
        status = self.user.run("status", job).out
        self.assertRegex(status, rf"it was told to end \(tfdist down by \S+\); tfdist down {job} again ends what is left\n")
        self.assertNotIn("tfdist restart", status)
        self.assertIn("was told to end", self.user.run("restart", job).expect(3).err)
        self.user.run("down", job).expect(0)
        self.assertEqual(self.user.status(job)["state"], "stopped")
        self.assert_nothing_left(hosts)

    def test_an_interrupt_ends_the_job_on_the_hosts_that_answer(self):
        hosts = self.start_hosts(3, own_network=True)
        up = self.user.start("up", self.write(hosts, shell("exec sleep infinity"), layout="mirrored"))
        self.user.wait_until_tasks_run()
        hosts[0].crash()
        wait_for(lambda: "connection lost" in up.err.read_text(), "`up` notices it")
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130)
        self.assertIn("confirmed on 2 of 3 hosts", up.err.read_text())
        self.assertEqual(self.sleeping_on(hosts), [])

    def test_replace_goes_on_without_a_host_that_died(self):
        """It holds nothing that the new job, on the other hosts, needs."""
        hosts = self.start_hosts(3)
        self.start_detached(hosts, shell("exec sleep infinity"), layout="mirrored")
        old = self.user.job_id()
        hosts[2].crash()
        file = self.user.write("cluster.toml", clusters.over_ssh("job", shell("exec sleep infinity"), [hosts[0], hosts[1]], layout="mirrored",
                                                                 ssh_config=hosts.ssh_config))
        replaced = self.user.run("up", "-d", "--replace", file).expect(0)
        self.assertIn(f"unreachable: {hosts[2].address}", replaced.err)
        new = [job for job in json.loads(self.user.run("list", "--json").expect(0).out) if job["job"] != old]
        self.assertEqual([job["state"] for job in new], ["running"])
        self.user.run("down", new[0]["job"]).expect(0)

    def test_replace_ends_the_job_of_its_name_on_other_hosts_too(self):
        hosts = self.start_hosts(2)

        def file_of(host, name="cluster.toml"):
            return self.user.write(name, clusters.over_ssh("job", shell("exec sleep infinity"), [host], layout="mirrored",
                                                           ssh_config=hosts.ssh_config))
        self.user.run("up", "-d", file_of(hosts[0])).expect(0)
        first = self.user.job_id()
        beside = self.user.run("up", "-d", file_of(hosts[1])).expect(0)
        self.assertIn(f"job {first} runs beside this one, on {hosts[0].address}: commands need the id of one\n", beside.err)
        self.assertIn(f"  try: tfdist down {first} ends it, as up --replace does; ", beside.err)
        second = [job["job"] for job in json.loads(self.user.run("list", "--json").out) if job["job"] != first]
        self.user.run("down", *second).expect(0)
        self.user.run("up", "-d", "--replace", file_of(hosts[1])).expect(0)
        self.assertEqual(self.user.status(first)["state"], "stopped")
        self.assertFalse([p for p in hosts[0].processes() if p.argv == ["sleep", "infinity"]])
        # Another file's is another program's.
        other = self.user.run("up", "-d", "--replace", file_of(hosts[0], "other.toml")).expect(0)
        self.assertIn("runs beside this one", other.err)
        for job in json.loads(self.user.run("list", "--json").out):
            self.user.run("down", job["job"]).expect(0)

    def reboot(self, host):
        host.crash()
        host.start(True)
        host.wait_until_up()

    def test_up_starts_the_agent_of_a_rebooted_first_host_again(self):
        hosts = self.start_hosts(2, own_network=True)
        up = self.user.start("up", self.write(hosts, shell("echo begin; exec sleep infinity"), layout="mirrored"))
        self.user.wait_until_tasks_run()
        self.user.wait_for_output(up, b"begin")
        self.reboot(hosts[0])
        status = self.user.wait_for_status(
            lambda s: s["attempt"] == 2 and all(task["state"] == "running" for task in s["tasks"]), "all tasks run again")
        self.assertEqual({host["state"] for host in status["hosts"]} & {"lost", "slow"}, set(), status)
        said = up.err.read_text()
        self.assertIn(f"tfdist: {hosts[0].address}: the host was restarted; its agent runs again\n", said)
        self.assertIn("tfdist: connected again\n", said)
        self.user.run("down").expect(0)
        self.assertEqual(up.wait(60), 1)
        self.assert_nothing_left(hosts)

    def test_restart_goes_on_with_a_job_whose_hosts_were_all_rebooted(self):
        hosts = self.start_hosts(2)
        self.start_detached(hosts, shell("exec sleep infinity"), layout="mirrored")
        job = self.user.job_id()
        for host in hosts:
            self.reboot(host)
        command = f"tfdist restart {job} @{hosts[0].address} starts it again; tfdist down {job} ends what is left\n"
        self.assertIn(f"  no agent of it runs on {hosts[0].address}: the host was restarted; {command}", self.user.run("status").out)
        self.assertIn(f"no agent of the job runs on {hosts[0].address}: the host was restarted; {command}", self.user.run("events").err)
        self.assertIn(f"host {hosts[0].address}: the host was restarted\n  try: {command}", self.user.run("why").out)
        self.assertIn(f"no agent of it runs any more: the host was restarted\n  try: {command}", self.user.run("logs", "-f").expect(3).err)
        restart = self.user.run("restart", job, f"@{hosts[0].address}").expect(0)
        for host in hosts:
            self.assertIn(f"tfdist: {host.address}: the host was restarted; its agent runs again\n", restart.err)
        self.user.wait_until_tasks_run()
        for host in hosts:
            self.assertEqual(len([p for p in host.processes() if p.argv == ["sleep", "infinity"]]), 1)
        self.user.run("down").expect(0)
        self.assert_nothing_left(hosts)

    def start_and_lose_the_first_host(self, start):
        """It is away until the other one has ended its tasks and its agent; `start(hosts, file)`."""
        hosts = self.start_hosts(2)
        file = self.write(hosts, shell("echo $$ >>runs; exec sleep infinity"), layout="mirrored",
                          extra='[restart]\nhost_lost = "5s"\norphan_timeout = "10s"\n')
        start(hosts, file)
        self.user.wait_until_tasks_run()
        hosts[0].crash()
        wait_for(lambda: not [p for p in hosts[1].processes() if p.argv[0].startswith("tfdist-") or p.argv[0] == "sleep"],
                 "the other host has ended all", 60)
        hosts[0].start(True)
        hosts[0].wait_until_up()
        return hosts

    def assert_that_it_goes_on(self, hosts):
        """In the same folders, with one copy of each task."""
        self.user.wait_until_tasks_run()
        for host in hosts:
            self.assertEqual(len([p for p in host.processes() if p.argv == ["sleep", "infinity"]]), 1)
            [runs] = host.home.rglob("work/runs")
            self.assertEqual(len(runs.read_text().split()), 2)
        self.assertEqual(self.user.status()["state"], "running")

    def test_restart_goes_on_with_a_job_whose_other_hosts_gave_the_first_one_up(self):
        hosts = self.start_and_lose_the_first_host(lambda hosts, file: self.user.run("up", "-d", file).expect(0))
        job = self.user.job_id()
        restart = self.user.run("restart", job).expect(0)
        self.assertIn(f"tfdist: {hosts[0].address}: the host was restarted; its agent runs again\n", restart.err)
        self.assertRegex(restart.err, rf"(?m)^tfdist: {hosts[1].address}: nothing was heard from the coordinator for \d+ s: its tasks "
                                      r"were ended at \S+Z; its agent runs again$")
        self.assert_that_it_goes_on(hosts)
        self.user.run("down").expect(0)
        self.assert_nothing_left(hosts)
        for host in hosts:
            left = {path.name for path in (host.home / ".cache/tfdist/jobs").rglob("*")}
            self.assertEqual(left & {"key", "secret", "description", "orphaned"}, set())

    def test_up_does_so_while_it_waits(self):
        followers = []
        hosts = self.start_and_lose_the_first_host(lambda hosts, file: followers.append(self.user.start("up", file)))
        [up] = followers
        wait_for(lambda: f"{hosts[1].address}: nothing was heard from the coordinator" in up.err.read_text(),
                 lambda: "up starts its agent: " + up.err.read_text(), 60)
        self.assert_that_it_goes_on(hosts)
        self.user.run("down").expect(0)
        self.assertEqual(up.wait(60), 1)
        self.assert_nothing_left(hosts)

    def lose_folder(self, host):
        """It lay in memory, and the host is rebooted."""
        host.crash()
        shutil.rmtree(host.home / ".cache/tfdist/jobs")
        host.start(True)
        host.wait_until_up()

    def test_a_host_whose_folder_went_with_the_reboot_is_told(self):
        hosts = self.start_hosts(2, own_network=True)
        up = self.user.start("up", self.write(hosts, shell("exec sleep infinity"), layout="mirrored", extra='[restart]\nhost_lost = "5s"\n'
                                                                                                           'orphan_timeout = "10s"\n'))
        self.user.wait_until_tasks_run()
        job = self.user.job_id()
        self.lose_folder(hosts[1])
        said = (f"tfdist: {hosts[1].address}: the job's folder is gone from it, so its agent cannot start again\n"
                f"  try: tfdist down {job}, then the same `up`; ")
        wait_for(lambda: said in up.err.read_text(), lambda: "up says so: " + up.err.read_text(), 60)
        restart = self.user.run("restart", job, f"@{hosts[1].address}")
        self.assertIn(said, restart.err)
        self.assertEqual(up.wait(90), 1)
        self.assertEqual(up.err.read_text().count(said), 1)
        self.assertIn(f"tfdist: the job's folder is gone from {hosts[1].address}: the output of worker:1 is gone\n", up.err.read_text())
        self.assertIn(f"tfdist: {hosts[1].address}: not heard when the job ended; run tfdist down {job}\n", up.err.read_text())
        self.user.run("down").expect(0)

    def test_a_first_host_whose_folder_went_with_the_reboot_is_told(self):
        hosts = self.start_hosts(2)
        up = self.user.start("up", self.write(hosts, shell("echo begin; exec sleep infinity"), layout="mirrored"))
        self.user.wait_until_tasks_run()
        self.user.wait_for_output(up, b"begin")
        job = self.user.job_id()
        self.lose_folder(hosts[0])
        said = (f"tfdist: {hosts[0].address}: run: the job's folder is gone from it, with the event log: nobody leads the job any more\n"
                f"  try: tfdist down {job} ends what is left of it\n")
        self.assertEqual(up.wait(60), 3)
        self.assertIn(said, up.err.read_text())
        self.assertIn(said, self.user.run("status").expect(3).err)
        self.user.run("down").expect(0)
        self.assert_nothing_left(hosts)

    def test_a_first_host_whose_agent_cannot_start_again_is_told(self):
        hosts = self.start_hosts(2)
        self.start_detached(hosts, shell("exec sleep infinity"), layout="mirrored")
        old = self.user.job_id()
        for host in hosts:
            self.reboot(host)
        self.start_detached(hosts, shell("exec sleep infinity"), layout="mirrored")
        restart = self.user.run("restart", old).expect(3)
        self.assertIn(f"tfdist: {hosts[0].address}: agent start: a job named 'job' runs already: {self.user.job_id()}", restart.err)
        self.user.run("down").expect(0)

    def test_when_the_first_host_is_lost_status_says_what_the_others_know(self):
        hosts = self.start_hosts(3)
        self.user.run("up", "-d", self.write(hosts, shell("exec sleep infinity"))).expect(0)
        self.user.wait_until_tasks_run()
        hosts[0].crash()

        def said():
            status = self.user.run("status")
            self.assertEqual(status.code, 3, status)
            self.assertIn(f"{hosts[0].address}: ", status.err)
            return all(re.search(f"host {host.address}: its agent has not heard the coordinator for \\d+s; "
                                 "it ends its tasks when that lasts\n", status.out) for host in list(hosts)[1:])

        wait_for(said, "both others miss the coordinator", 60)
        status = json.loads(self.user.run("status", "--json").out)
        self.assertEqual(status["state"], "unreachable")
        self.assertEqual([(host["host"], host["state"]) for host in status["hosts"]],
                         [(host.address, "waits") for host in list(hosts)[1:]])
        down = self.user.run("down", "--force")
        self.assertEqual(down.code, 1, down)
        self.assertIn("confirmed on 2 of 3 hosts", down.err)

    KILLED = "all processes of tfdist there were killed at once, and the host was not restarted"

    def kill_all(self, host):
        """As the end of a login's control group does, while the host stays up: none sees another one end."""
        processes.kill_together(lambda: [process.pid for process in host.processes()])

    def test_a_host_that_is_up_and_lost_all_its_processes_is_told_from_one_that_is_off(self):
        hosts = self.start_hosts(3)
        file = self.write(hosts, shell("exec sleep infinity"), layout="mirrored", extra='[restart]\nhost_lost = "5s"\non_host_lost = "fail"\n')
        for lost in (0, 2):
            self.user.run("up", "-d", file).expect(0)
            self.user.wait_until_tasks_run()
            self.kill_all(hosts[lost])
            if lost:
                self.user.wait_until_ended()
                why = self.user.run("why").out
                self.assertIn(f"host {hosts[2].address}, asked just now: {self.KILLED}", why)
            else:
                status = self.user.run("status").out
                self.assertIn(f"no agent of it runs on {hosts[0].address}: {self.KILLED}", status)
                self.assertEqual(status.count("  unknown (nobody watches it)\n"), 1, status)
                self.assertEqual(status.count("  running, as its host's agent says\n"), 2, status)
                self.assertIn(f"host {hosts[0].address}: {self.KILLED}", self.user.run("why").out)
            self.user.run("down").expect(0)

    def test_the_next_job_of_a_name_finds_nothing_of_the_earlier_one_on_a_host_that_was_lost(self):
        """The host hangs, the job ends without it, the host is back, and the same `up` again."""
        hosts = self.start_hosts(3)
        file = self.write(hosts, shell("exec sleep infinity"), extra='[restart]\non_host_lost = "fail"\n')
        up = self.user.start("up", file)
        self.user.wait_until_tasks_run()
        hosts[2].freeze()
        self.assertEqual(up.wait(60), 1, up.err.read_text())
        self.assertIn(f"{hosts[2].address}: lost", up.err.read_text())
        hosts[2].thaw()
        again = self.user.run("up", "-d", file)
        self.assertEqual(again.code, 0, again)
        self.user.wait_until_tasks_run()
        for host in hosts:
            tasks = [p.argv for p in host.processes() if p.argv == ["sleep", "infinity"]]
            self.assertEqual(len(tasks), 2, f"a trainer and a parameter server on {host.name}")
        down = self.user.run("down")
        self.assertEqual(down.code, 0, down)
        self.assert_nothing_left(hosts)  # the first job's agent too: nothing of it is left to wait for

    def test_a_host_that_was_lost_ends_its_tasks_when_it_is_back(self):
        hosts = self.start_hosts(3)
        self.start_detached(hosts, shell("exec sleep infinity"), extra='[restart]\non_host_lost = "fail"\n')
        hosts[2].freeze()
        self.user.wait_for_status(lambda s: s["state"] == "failed", "the job fails")
        hosts[2].thaw()
        self.assert_nothing_left(hosts)

    def kill(self, host, is_it, with_sshd=False):
        found = wait_for(lambda: [p.pid for p in host.processes(with_sshd) if p.argv and is_it(p.argv)], "its processes")
        for pid in found:
            processes.kill(pid)


class Stopped(OverSsh):
    def test_a_stopped_slow_reader_does_not_slow_the_tasks(self):
        """A CLI that stands still: the task's own clock goes on."""
        hosts = self.start_hosts(1)
        script = "i=0; while [ $i -lt 3000 ]; do echo line $i xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done; echo over"
        cli = self.user.start("up", self.write(hosts, shell(script)))
        self.user.wait_for_output(cli, b"line")
        cli.send_signal(signal.SIGSTOP)
        log = self.job_folder(hosts[0]) / "h0/tasks/master-0"
        wait_for(lambda: any(b"over" in p.read_bytes() for p in log.glob("*.log")), "the task's end")
        cli.send_signal(signal.SIGCONT)
        self.assertEqual(cli.wait(60), 0)
        self.assertIn(b"master:0 | over\n", cli.out.read_bytes())


if __name__ == "__main__":
    unittest.main()
