"""`tfdist tensorboard`, and `up --tensorboard`, with a web server in TensorBoard's place: what tfdist does around it. With the
real one: tests/tensorflow/test_tensorboard.py."""

import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import time
import unittest
import urllib.request

from tests.hosts.hosts import Hosts, check_possible
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

# Called as TensorBoard is, and says where it listens as TensorBoard does. Shows files as they are.
SERVER = """#!/usr/bin/python3
import functools, http.server, sys
if sys.argv[1:] == ["--version"]:
    print("0.1")
    sys.exit()
folder = sys.argv[sys.argv.index("--logdir") + 1]
shown = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), shown)
print("TensorBoard 0.1 at http://127.0.0.1:%d/ (Press CTRL+C to quit)" % server.server_port, flush=True)
server.serve_forever()
"""
# Ends once the file is there.
TASK = ["python3", "-c", """
import os, time
while not os.path.exists("/home/trainer/end"):
    time.sleep(0.05)
"""]
EVENTS = "events.out.tfevents.1.h"
URL = re.compile(r"http://127\.0\.0\.1:\d+/")


def setUpModule():
    check_possible()


class TensorBoard(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("board")
        self.addCleanup(self.user.close)
        self.programs = self.user.folder / "programs"
        self.programs.mkdir()

    def add_program(self, name, text):
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def start_host(self, sshd_lines=(), transport="ssh"):
        """One, whose tasks find `self.programs` first; and the path of a cluster file of a job that ends at end_job()."""
        self.user.folder.chmod(0o755)
        hosts = Hosts(1, seen={"programs": self.programs},
                      sshd_lines=("SetEnv PATH=/run/programs:/usr/local/bin:/usr/bin:/bin", *sshd_lines))
        hosts.start()
        self.addCleanup(hosts.stop)
        self.host = hosts[0]
        text = clusters.over_ssh("board", TASK, hosts, task_extra='shared = "/home/trainer"', layout="mirrored")
        return self.user.write("cluster.toml", text + f'transport = "{transport}"\n')

    def write_events(self, text="events", name=EVENTS):
        self.host.run_as("trainer", ["sh", "-c", f"printf {text} > /home/trainer/{name}"])

    def end_job(self):
        self.host.run_as("trainer", ["touch", "/home/trainer/end"])

    def boards(self):
        return [p.argv for p in self.host.processes() if "/run/programs/tensorboard" in p.argv]

    def wait_for_no_board(self):
        wait_for(lambda: not self.boards(), lambda: f"nothing left of TensorBoard: {self.boards()}")

    def wait_for_text(self, process, pattern):
        def text():
            said = process.err.read_text() + process.out.read_text()
            assert process.poll() is None, f"ended with {process.returncode}: {said}"
            return re.search(pattern, said)

        return wait_for(text, lambda: f"{pattern}: {process.err.read_text()}{process.out.read_text()}")[0]

    def get(self, address, path=""):
        with urllib.request.urlopen(address + path, timeout=30) as page:
            return page.read()

    # --- up --tensorboard

    def test_up_shows_it_once_there_are_event_files_and_ends_it(self):
        self.add_program("tensorboard", SERVER)
        up = self.user.start("up", "--tensorboard", self.start_host())
        self.user.wait_until_tasks_run("board")
        self.assertEqual(self.boards(), [])
        self.write_events()
        line = self.wait_for_text(up, r"tfdist: TensorBoard 0\.1 on \S+ for job board-\S+ \(/home/trainer\): http://\S+\n")
        self.assertEqual(self.get(URL.search(line)[0], EVENTS), b"events")
        self.assertNotIn("TensorBoard", up.out.read_text())  # that is for what tasks print
        self.end_job()
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.wait_for_no_board()

    def test_nothing_is_left_of_it_when_up_is_killed(self):
        self.add_program("tensorboard", SERVER)
        up = self.user.start("up", "--tensorboard", self.start_host())
        self.user.wait_until_tasks_run("board")
        self.write_events()
        self.wait_for_text(up, URL.pattern)
        self.assertEqual(len(self.boards()), 1)
        up.kill()
        up.wait()
        self.wait_for_no_board()
        self.assertEqual(self.user.status("board")["state"], "running")

    def test_where_there_is_none_up_warns_once_and_the_job_goes_on(self):
        path = self.start_host()
        self.write_events()
        up = self.user.start("up", "--tensorboard", path)
        self.wait_for_text(up, r"tfdist: warning: no TensorBoard: \S+: .*: TensorBoard is installed neither there nor on this "
                               r"machine\n  try: python3 -m pip install tensorboard")
        self.assertEqual(self.user.status("board")["state"], "running")
        self.end_job()
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.assertEqual(up.err.read_text().count("warning"), 1, up.err.read_text())

    def test_it_does_not_outlast_a_job_without_event_files(self):
        self.add_program("tensorboard", SERVER)
        up = self.user.start("up", "--tensorboard", self.start_host())
        self.user.wait_until_tasks_run("board")
        self.end_job()
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.assertNotIn("TensorBoard", up.err.read_text())

    def test_a_command_that_does_not_stay_cannot_show_it(self):
        result = self.user.run("up", "-d", "--tensorboard", "cluster.toml")
        self.assertEqual(result.code, 2, result)
        self.assertIn("--tensorboard", result.err)

    def test_by_the_users_ssh_program(self):
        self.add_program("tensorboard", SERVER)
        up = self.user.start("up", "--tensorboard", self.start_host(transport="openssh"))
        self.user.wait_until_tasks_run("board")
        self.write_events()
        address = URL.search(self.wait_for_text(up, URL.pattern))[0]
        for _ in range(3):
            self.assertEqual(self.get(address, EVENTS), b"events")
        self.end_job()
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.assertEqual([command for command in self.user.left().values() if command.startswith("ssh ")], [])
        self.wait_for_no_board()

    def test_a_host_that_forbids_forwarding_is_named_with_the_remedy(self):
        self.add_program("tensorboard", SERVER)
        for transport in ("ssh", "openssh"):
            with self.subTest(transport):
                path = self.start_host(sshd_lines=("AllowTcpForwarding no",), transport=transport)
                self.write_events()
                up = self.user.run("up", "-d", path)
                self.assertEqual(up.code, 0, up)
                self.user.wait_until_tasks_run("board")
                shown = self.user.start("tensorboard", "board")
                address = URL.search(self.wait_for_text(shown, URL.pattern))[0]
                with self.assertRaises(OSError):
                    self.get(address, EVENTS)
                said = self.wait_for_text(shown, r"tfdist: \S+: connect: its sshd does not connect to port .*\n.*AllowTcpForwarding yes")
                self.assertIn(self.host.address, said)
                self.end(shown)
                self.end_job()
                self.assertEqual(self.user.wait_until_ended("board")["state"], "succeeded")

    # --- event files that are fetched

    def start_fetching(self, before=lambda: None):
        path = self.start_host(sshd_lines=("LogLevel VERBOSE",))
        self.add_program("tensorboard", SERVER)
        up = self.user.run("up", "-d", path)
        self.assertEqual(up.code, 0, up)
        self.user.wait_until_tasks_run("board")
        self.write_events()
        before()
        self.user.env["PATH"] = f"{self.programs}:{os.environ['PATH']}"
        self.user.env["TMPDIR"] = str(self.user.folder)
        self.logins_before = self.logins()
        return self.user.start("tensorboard", "board", "--fetch")

    def logins(self):
        return self.host.sshd_log.read_text().count("Accepted publickey")

    def test_a_file_that_cannot_be_read_is_named_and_passed_over_and_one_login_is_enough(self):
        def write_more():
            for number in range(5):
                self.write_events(f"more{number}", f"{EVENTS}.{number}")
            closed = self.host.home / f"{EVENTS}.closed"
            closed.write_text("root alone reads this")
            closed.chmod(0o600)

        shown = self.start_fetching(write_more)
        self.wait_for_text(shown, "Ctrl-C ends it")
        address = URL.search(shown.out.read_text())[0]
        self.assertRegex(shown.err.read_text(), rf"warning: \S+: /home/trainer/{EVENTS}\.closed cannot be read and is passed "
                                                r"over: .*Permission denied\n")
        self.assertEqual(self.get(address, EVENTS), b"events")
        self.assertEqual(self.get(address, f"{EVENTS}.4"), b"more4")
        self.assertEqual(self.logins() - self.logins_before, 1)
        self.end(shown)

    def test_where_no_descriptor_is_left_its_port_waits_and_does_not_spin(self):
        self.add_program("tensorboard", SERVER)
        self.user.run("up", "-d", self.start_host()).expect(0)
        self.write_events()
        shown = self.user.start("tensorboard", "board")
        address = self.wait_for_text(shown, URL.pattern)
        open_now = len(os.listdir(f"/proc/{shown.pid}/fd"))
        before = resource.prlimit(shown.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(shown.pid, resource.RLIMIT_NOFILE, (open_now, before[1]))
        port = int(address.rsplit(":", 1)[1].strip("/"))
        with contextlib.ExitStack() as callers:
            for _ in range(4):
                callers.enter_context(socket.create_connection(("127.0.0.1", port)))
            used = processes.processor_seconds(shown.pid)
            time.sleep(1)
            self.assertLess(processes.processor_seconds(shown.pid) - used, 0.3)
        resource.prlimit(shown.pid, resource.RLIMIT_NOFILE, before)
        self.assertEqual(self.get(address, EVENTS), b"events")
        self.end(shown)
        self.end_job()

    def test_ctrl_c_is_heard_while_event_files_are_fetched(self):
        # find(1) of the host, which hangs when it is to list them.
        self.add_program("find", '#!/bin/sh\ncase "$*" in *printf*) exec sleep 1000;; esac\nexec /usr/bin/find "$@"\n')
        shown = self.start_fetching()
        wait_for(lambda: ["sleep", "1000"] in [p.argv for p in self.host.processes()], "files are listed")
        self.end(shown, 130)
        wait_for(lambda: ["sleep", "1000"] not in [p.argv for p in self.host.processes()], "find has ended")

    def end(self, shown, code=0):
        shown.send_signal(signal.SIGINT)
        self.assertEqual(shown.wait(20), code, shown.err.read_text())
        self.assertEqual(list(pathlib.Path(self.user.folder).glob("tfdist-events-*")), [])
