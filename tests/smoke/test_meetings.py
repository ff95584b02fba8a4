"""Two jobs of one account on the same host, whose tasks are to listen on the same ports."""

import signal
import unittest

from tests.support import clusters
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for


class Meetings(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("meetings")
        self.addCleanup(self.user.close)
        self.port = clusters.free_ports(2)

    def write(self, name, script="exec sleep infinity", slots=2, ports=True, extra=""):
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
""")

    def start(self, name, **options):
        self.user.run("up", "-d", self.write(name, **options)).expect(0)
        return self.user.status(name)["job"]

    def assert_refused(self, result, job):
        result.expect(3)
        self.assertIn(f"port {self.port} of worker:0 is that of worker:0 of job {job}, which is on this host\n", result.err)
        self.assertIn(f"or end that job: tfdist down {job}\n", result.err)

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

    def test_it_does_not_matter_where_tfdist_has_its_folder(self):
        job = self.start("one")
        elsewhere = f'ssh.remote_dir = "{self.user.folder}/elsewhere"'
        self.assert_refused(self.user.run("up", "-d", self.write("two", extra=elsewhere)), job)
        self.user.run("down", "one").expect(0)

    def test_of_two_at_once_one_starts(self):
        ups = {name: self.user.start("up", "-d", self.write(name)) for name in ("one", "two")}
        codes = {name: up.wait() for name, up in ups.items()}
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
        self.user.wait_for_status(lambda status: status["result"], "one has ended", "one")
        self.start("two")
        self.user.run("down", "two").expect(0)
        follower.send_signal(signal.SIGCONT)
        wait_for(lambda: follower.poll() is not None, "the follower's end")

    def test_lone_tasks_that_were_given_no_port_run_side_by_side(self):
        for name in ("one", "two"):
            self.start(name, slots=1, ports=False)
        for name in ("one", "two"):
            self.user.run("down", name).expect(0)


if __name__ == "__main__":
    unittest.main()
