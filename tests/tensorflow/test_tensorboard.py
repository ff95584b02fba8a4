"""`tfdist tensorboard` with a real TensorBoard: on a host over SSH, fetched to this machine, and where something is missing."""

import json
import os
import pathlib
import re
import signal
import unittest
import urllib.request

from tests.hosts.hosts import Hosts
from tests.support import clusters, environments
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for
from tests.tensorflow import jobs
from tests.tensorflow.jobs import setUpModule  # noqa: F401

# Writes a scalar at once, another one each second, and never ends.
WRITER = """
import sys, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(sys.argv[1], flush_secs=1)
step = 0
while True:
    value = Summary(value=[Summary.Value(tag="loss", simple_value=1 / (step + 1))])
    writer.add_event(Event(wall_time=time.time(), step=step, summary=value))
    writer.flush()
    print("step %d" % step, flush=True)
    step += 1
    time.sleep(1)
"""
URL = re.compile(rb"http://127\.0\.0\.1:\d+/")
ENOUGH_SECONDS = 180  # TensorBoard imports TensorFlow, on a busy machine


class TensorBoard(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("tensorboard")
        self.addCleanup(self.user.close)

    def put_job(self, folder, program=WRITER, path_of_hosts=True, **options):
        """Two hosts, and the cluster file of a job on them that writes event files to `folder`."""
        python = f"/run/{jobs.SEEN_AS}/bin/python3"
        path = f"/run/{jobs.SEEN_AS}/bin:" if path_of_hosts else ""
        hosts = Hosts(2, seen={jobs.SEEN_AS: environments.tensorflow().folder},
                      sshd_lines=(f"SetEnv PATH={path}/usr/local/bin:/usr/bin:/bin",), **options)
        hosts.start()
        self.addCleanup(hosts.stop)
        text = clusters.over_ssh("board", [python, "-c", program, folder], hosts,
                                 task_extra='shared = "/home/trainer"', layout="mirrored")
        return hosts, self.user.write("cluster.toml", text)

    def start_job(self, *arguments, **options):
        hosts, path = self.put_job(*arguments, **options)
        up = self.user.run("up", "-d", path)
        self.assertEqual(up.code, 0, up)
        return hosts

    def start_job_that_writes(self, folder, **options):
        hosts = self.start_job(folder, **options)
        wait_for(lambda: "step 1" in self.user.run("logs", "board", "worker:0").out, "event files")
        return hosts

    def show(self, *arguments):
        """A running `tfdist tensorboard`, and its address."""
        shown = self.user.start("tensorboard", *arguments)
        return shown, self.address_of(shown)

    def address_of(self, shown):
        def address():
            assert shown.poll() is None, f"ended with {shown.returncode}: {shown.err.read_text()}"
            return URL.search(shown.out.read_bytes())

        return wait_for(address, lambda: f"an address: {shown.err.read_text()}", ENOUGH_SECONDS)[0].decode()

    def steps(self, address, run):
        """Of the scalar, as the page gets them."""
        with urllib.request.urlopen(f"{address}data/plugin/scalars/scalars?tag=loss&run={run}", timeout=60) as answer:
            return [int(step) for _, step, _ in json.load(answer)]

    def runs(self, address):
        with urllib.request.urlopen(f"{address}data/runs", timeout=60) as answer:
            return json.load(answer)

    def assert_shows(self, address, run):
        with urllib.request.urlopen(address, timeout=60) as page:
            self.assertIn(b"<title>TensorBoard</title>", page.read())
        wait_for(lambda: run in self.runs(address), lambda: f"run {run}: {self.runs(address)}", ENOUGH_SECONDS)
        steps = self.steps(address, run)
        self.assertEqual(steps, list(range(len(steps))))
        self.assertGreaterEqual(len(steps), 1)

    @staticmethod
    def boards(hosts):
        return [p.argv for host in hosts for p in host.processes() if "tensorboard.main" in p.argv]

    def assert_ends(self, shown, hosts):
        shown.send_signal(signal.SIGINT)
        self.assertEqual(shown.wait(60), 0, shown.err.read_text())
        wait_for(lambda: not self.boards(hosts), lambda: f"no TensorBoard left: {self.boards(hosts)}")

    def test_page_and_scalars_come_through_ssh_and_ctrl_c_ends_all(self):
        hosts = self.start_job_that_writes("/home/trainer/runs", shared_home=True)
        shown, address = self.show("board")
        self.assertEqual(len(self.boards(hosts)), 1)
        self.assert_shows(address, "runs")
        self.assertRegex(shown.err.read_text(), rf"TensorBoard [\d.]+ on {hosts[0].address} for job "
                                                r"board-\S+ \(/home/trainer\); Ctrl-C ends it")
        self.assert_ends(shown, hosts)
        self.assertEqual(self.user.status("board")["state"], "running")

    def test_up_opens_it_with_the_job_and_ends_it(self):
        hosts, path = self.put_job("/home/trainer/runs", shared_home=True)
        up = self.user.start("up", "--tensorboard", path)

        def address():
            assert up.poll() is None, f"ended with {up.returncode}: {up.err.read_text()}"
            return re.search(r"tfdist: TensorBoard [\d.]+ on \S+ for job board-\S+ \(/home/trainer\): (http://\S+)\n",
                             up.err.read_text())

        self.assert_shows(wait_for(address, lambda: f"an address: {up.err.read_text()}", ENOUGH_SECONDS)[1], "runs")
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130, up.err.read_text())
        wait_for(lambda: not self.boards(hosts), lambda: f"no TensorBoard left: {self.boards(hosts)}")

    def test_nothing_is_left_on_the_host_when_the_command_is_killed(self):
        hosts = self.start_job_that_writes("/home/trainer/runs", shared_home=True)
        shown, address = self.show("board", "worker:1", "--logdir", "/home/trainer/runs")
        self.assert_shows(address, ".")
        self.assertEqual(len(self.boards(hosts[1:])), 1)
        shown.kill()
        shown.wait()
        wait_for(lambda: not self.boards(hosts), lambda: f"no TensorBoard left: {self.boards(hosts)}")

    def test_where_there_are_no_event_files_it_says_where_it_looked_or_waits(self):
        hosts = self.start_job("/home/trainer/runs", "import time; time.sleep(1000)", shared_home=True)
        result = self.user.run("tensorboard", "board")
        self.assertEqual(result.code, 3, result)
        self.assertIn(f"tfdist: {hosts[0].address}: files: no event files yet: looked below /home/trainer\n", result.err)
        absent = self.user.run("tensorboard", "board", "--logdir", "absent")
        self.assertRegex(absent.err, r"looked below \./absent in the folder where worker:0 starts \(.*No such file")
        waiting = self.user.start("tensorboard", "board", "--wait")
        wait_for(lambda: b"waiting for them" in waiting.err.read_bytes(), "it waits", ENOUGH_SECONDS)
        hosts[0].run_as("trainer", ["mkdir", "/home/trainer/runs"])
        writer = f"import sys; sys.argv[1] = '/home/trainer/runs'\n{WRITER.replace('while True', 'for _ in [1]')}"
        hosts[0].run_as("trainer", [f"/run/{jobs.SEEN_AS}/bin/python3", "-c", writer, "-"])
        self.assert_shows(self.address_of(waiting), "runs")
        self.assert_ends(waiting, hosts)

    def test_a_host_without_tensorboard_has_its_event_files_fetched(self):
        hosts = self.start_job_that_writes("/home/trainer/runs", path_of_hosts=False)
        missing = self.user.run("tensorboard", "board", seconds=ENOUGH_SECONDS)
        self.assertEqual(missing.code, 3, missing)
        self.assertIn("TensorBoard is installed neither there nor on this machine\n  try: python3 -m pip install tensorboard",
                      missing.err)
        self.user.env["PATH"] = f"{environments.tensorflow().folder}/bin:{os.environ['PATH']}"
        self.user.env["TMPDIR"] = str(self.user.folder)
        shown, address = self.show("board")
        self.assertIn(f", fetched from {hosts[0].address}; Ctrl-C ends it", shown.err.read_text())
        self.assert_shows(address, "runs")
        before = len(self.steps(address, "runs"))
        wait_for(lambda: len(self.steps(address, "runs")) > before, "what is written later comes too", ENOUGH_SECONDS)
        self.assertEqual(self.boards(hosts), [])
        shown.send_signal(signal.SIGINT)
        self.assertEqual(shown.wait(60), 0, shown.err.read_text())
        self.assertEqual(list(self.user.folder.glob("tfdist-events-*")), [])
        wait_for(lambda: not self.boards_here(), lambda: f"no TensorBoard left here: {self.boards_here()}")

    def boards_here(self):
        """With the home folder of this test's user."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                argv = (entry / "cmdline").read_bytes()
                mine = f"HOME={self.user.folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if mine and b"tensorboard.main" in argv:
                found.append(argv)
        return found
