"""Ports that somebody else wants, too: another job of the account, a program of the user's, the kernel (TIME_WAIT)."""

import contextlib
import signal
import socket
import subprocess
import sys
import unittest

from tests.smoke.test_ports import SERVER
from tests.support import clusters
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for


# In a process of its own: a command that the test starts would hold the socket, too, until its exec.
SERVING = """
import signal, socket, sys
counts = {"served": 0, "refused": 0}
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
while not ends:
    with socket.socket() as server:
        try:
            server.bind(("", int(sys.argv[1])))
            server.listen()
            counts["served"] += 1
        except OSError:
            counts["refused"] += 1
    if counts["served"] == 1:
        print("serves", flush=True)
print(counts["served"], counts["refused"])
"""


class Server:
    """Listens on a port and lets go of it, again and again, and counts how often it could not have it."""

    def __init__(self, port):
        self.port, self.refused, self.served = port, 0, 0

    @contextlib.contextmanager
    def running(self):
        process = subprocess.Popen([sys.executable, "-c", SERVING, str(self.port)], stdout=subprocess.PIPE, text=True)
        try:
            process.stdout.readline()
            yield self
        finally:
            process.terminate()
            self.served, self.refused = map(int, process.communicate()[0].split()[-2:])


class Meetings(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("meetings")
        self.addCleanup(self.user.close)
        self.port = clusters.free_ports(2)

    def write(self, name, script="exec sleep infinity", slots=2, ports=True, extra="", env=""):
        """Its tasks listen on nothing."""
        return self.user.write(f"{name}.toml", f"""
name = "{name}"
{extra}
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local", slots = {slots} }}]
layout = "mirrored"
{f"ports = {{ worker = {self.port} }}" if ports else ""}
[task]
command = {clusters.toml_list(["sh", "-c", script])}
gpus = 0
env = {{ {env} }}
""")

    def start(self, name, **options):
        self.user.run("up", "-d", self.write(name, **options)).expect(0)
        return self.user.status(name)["job"]

    def assert_refused(self, result, job):
        result.expect(3)
        self.assertIn(f"port {self.port} of worker:0 is that of worker:0 of job {job}, which is on this host\n", result.err)
        self.assertIn(f"wait for that job or end it, where it was started (tfdist wait {job}, tfdist down {job};", result.err)

    def test_the_second_is_refused_before_anything_starts(self):
        job = self.start("one")
        file = self.write("two")
        refused = self.user.run("up", "-d", file)
        self.assert_refused(refused, job)
        self.assertIn("nothing was started", refused.err)
        self.assertEqual(self.user.status("one")["state"], "running")
        self.user.run("down", "one").expect(0)
        self.user.run("up", "-d", file).expect(0)
        self.user.run("down", "two").expect(0)

    def test_check_says_so_too(self):
        job = self.start("one")
        check = self.user.run("check", self.write("two"))
        check.expect(3)
        self.assertIn(f"port {self.port + 1} of worker:1 is that of worker:1 of job {job}, which is on this host\n", check.out)
        self.user.run("down", "one").expect(0)

    def test_check_keeps_nobody_off_a_port(self):
        file = self.write("one")
        with Server(self.port).running() as server:
            for _ in range(3):
                self.assertIn(self.user.run("check", file).code, (0, 3))  # it may see that server
        self.assertGreater(server.served, 0)
        self.assertEqual(server.refused, 0)

    def test_it_does_not_matter_where_tfdist_has_its_folder(self):
        job = self.start("one")
        elsewhere = f'ssh.remote_dir = "{self.user.folder}/elsewhere"'
        self.assert_refused(self.user.run("up", "-d", self.write("two", extra=elsewhere)), job)
        self.user.run("down", "one").expect(0)

    def two_at_once(self, slots):
        ups = {name: self.user.start("up", "-d", self.write(name, slots=slots)) for name in ("one", "two")}
        return ups, {name: up.wait() for name, up in ups.items()}

    def test_of_two_at_once_that_meet_in_several_slots_one_starts_at_most(self):
        ups, codes = self.two_at_once(slots=2)
        self.assertIn(sorted(codes.values()), ([0, 3], [3, 3]), {name: up.err.read_text() for name, up in ups.items()})
        for name, code in codes.items():
            if code == 0:
                self.user.run("down", name).expect(0)
            else:
                self.assertIn(" of job ", ups[name].err.read_text())

    def test_of_two_at_once_one_starts(self):
        ups, codes = self.two_at_once(slots=1)
        self.assertEqual(sorted(codes.values()), [0, 3], {name: up.err.read_text() for name, up in ups.items()})
        [started] = [name for name, code in codes.items() if code == 0]
        [refused] = [up for name, up in ups.items() if codes[name] == 3]
        self.assertIn(f"of job {self.user.status(started)['job']}, ", refused.err.read_text())
        self.user.run("down", started).expect(0)

    def test_its_replacement_has_the_ports_of_the_job_that_it_replaces(self):
        self.start("one")
        self.user.run("up", "-d", "--replace", self.write("one", script="exec sleep 9999")).expect(0)
        self.user.run("down", "one").expect(0)

    def test_a_job_that_is_over_has_no_port_though_somebody_still_follows_it(self):
        follower = self.user.start("up", self.write("one", script="until [ -e go ]; do sleep 0.1; done; yes | head -n 2000000"))
        status = self.user.wait_for_status(lambda status: status["state"] == "running", "one runs", "one")
        follower.send_signal(signal.SIGSTOP)
        self.addCleanup(follower.send_signal, signal.SIGCONT)
        for task in status["tasks"]:
            self.user.run("exec", "one", task["task"], "--", "touch", "go").expect(0)
        self.user.wait_until_ended("one")
        self.start("two")
        self.user.run("down", "two").expect(0)
        follower.send_signal(signal.SIGCONT)
        wait_for(lambda: follower.poll() is not None, "the follower's end")

    def test_lone_tasks_that_were_given_no_port_run_side_by_side(self):
        for name in ("one", "two"):
            self.start(name, slots=1, ports=False)
        for name in ("one", "two"):
            self.user.run("down", name).expect(0)

    def leave_in_time_wait(self):
        """A file whose job has just left its port so."""
        file = self.write("serve", script=f"exec python3 -c '{SERVER}'", slots=1, env=f'PORT = "{self.port}", FAILS = "0"')
        self.assertIn("served\n", self.user.run("up", file).expect(0).out)
        return file

    def test_check_does_not_mind_a_port_in_time_wait(self):
        self.user.run("check", self.leave_in_time_wait()).expect(0)

    def test_ctrl_c_ends_the_wait_for_a_port_in_time_wait(self):
        up = self.user.start("up", self.leave_in_time_wait())
        wait_for(lambda: "waiting for 127.0.0.1: a port that is not free yet (TIME_WAIT)" in up.err.read_text(),
                 lambda: f"what it waits for, in {up.err.read_text()}")
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(), 130)
        self.assertNotIn("not confirmed", up.err.read_text())
        self.assertEqual(len(list((self.user.folder / ".cache/tfdist/jobs").glob("serve-*"))), 1, "only that of the first")


if __name__ == "__main__":
    unittest.main()
