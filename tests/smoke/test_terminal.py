"""Whatever hosts and tasks say, the user's terminal takes no orders from it."""

import fcntl
import json
import os
import pathlib
import re
import struct
import termios
import unittest

from tests.support import clusters
from tests.support.shown import columns_of
from tests.support.tfdist import BIN, ROOT, Tfdist

# Title (OSC 0), clipboard (OSC 52), clear screen (CSI 2 J), a question to the terminal (C1 CSI 6 n), text in
# another order (U+202E), a line of one's own.
ORDERS = "\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07\x1b[2J\u009b6n\u202etxt.exe\ntfdist: job succeeded"
SGR = re.compile(r"\x1b\[[0-9;]*m")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u0080-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def as_bytes(text):
    """As bytes that need not be UTF-8 stand in JSON: each is the character of its number."""
    return text.encode().decode("latin-1")


def frame(kind, number, body):
    """One message (wire/protocol.md)."""
    header = json.dumps({"t": kind, "id": number, "b": body}, ensure_ascii=False).encode()
    rest = b"\x04" + struct.pack(">I", len(header)) + header
    return struct.pack(">I", len(rest)) + rest


def hostile_events():
    """Of a job whose first host puts orders into every text it may choose."""
    rule = {"policy": "task", "limit": 3, "backoff_ms": 2000}
    task = {"task": "worker:0" + ORDERS, "slot": 0, "chief": True, "decides": True, "may_fail": False, "restart": rule}
    plan = {"job": "j", "name": "j", "layout": "roles", "plan_sha256": "", "tasks": [task],
            "slots": [{"host": "h" + ORDERS, "address": "127.0.0.1", "spare": False}]}
    kinds = [
        ("committed", {"plan": plan}),
        ("attempt", {"attempt": 1, "why": ORDERS}),
        ("host", {"slot": 0, "state": "slow", "why": ORDERS}),
        ("task", {"task": task["task"], "attempt": 1, "run": 1, "state": "started", "pid": 1}),
        ("task", {"task": task["task"], "attempt": 1, "run": 1, "state": "exited", "last_lines": as_bytes(ORDERS),
                  "exit": {"code": 1, "signal": 0, "by_us": False, "error": ORDERS}}),
        ("stopping", {"result": "failed", "why": ORDERS, "task": task["task"], "force": False}),
        ("ended", {"result": "failed", "unconfirmed": [0], "unreachable": []}),
    ]
    return [{"number": number, "time_ns": number, "kind": kind, "fields": fields}
            for number, (kind, fields) in enumerate(kinds, 1)]


class HostileText(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("terminal")
        self.addCleanup(self.user.close)
        self.user.env["TERM"] = "xterm"

    def on_terminal(self, *args):
        terminal = self.user.start_on_terminal(*args)
        terminal.wait(120)
        return terminal.text.replace("\r\n", "\n")

    def assert_harmless(self, text):
        self.assertNotRegex(SGR.sub("", text), CONTROLS)
        self.assertNotIn("\ntfdist: job succeeded", text)

    def test_what_a_task_prints(self):
        script = r"printf '\033]0;owned\007\033[2J\302\2336n\342\200\256txt.exe\033[31mred\033[0m\n'; exit 3"
        file = self.user.write("cluster.toml", clusters.local("job", ["sh", "-c", script]))
        text = self.on_terminal("up", file)
        self.assert_harmless(text)
        self.assertIn("^[]0;owned^G^[[2J", text)
        self.assertIn("\x1b[31mred\x1b[0m", text)
        self.assert_harmless(self.on_terminal("status"))

    def test_a_plain_terminal_gets_no_colours(self):
        file = self.user.write("cluster.toml", clusters.local("job", ["printf", "\\033[31mred\\n"]))
        self.user.env["TERM"] = "dumb"
        self.assertNotIn("\x1b", self.on_terminal("up", file))
        self.user.env.update(TERM="xterm", NO_COLOR="1")
        self.assertNotIn("\x1b", self.on_terminal("logs"))
        del self.user.env["NO_COLOR"]
        self.assertIn("\x1b[31mred\x1b[0m", self.on_terminal("logs"))

    def test_what_a_host_says(self):
        """The job's own executable on its first host lies: every command is asked about that job."""
        file = self.user.write("cluster.toml", clusters.local("job", ["true"]))
        self.user.run("up", file).expect(0)
        agent = self.user.slot_folder(0) / "agent"
        hello = {"oldest": 2, "newest": 2, "serving": "folder", "agent_sha256": "", "base": as_bytes(ORDERS), "job": ORDERS,
                 "slot": 0, "public_key": ""}
        said = self.user.folder / "said"
        said.write_bytes(frame("hello", 0, hello) + frame("event", 1, {"events": hostile_events()}) +
                         frame("end", 1, {"offset": 8, "why": ORDERS}))
        agent.unlink()
        agent.write_text(f"#!/bin/sh\ncat {said}; exec cat >&2\n")
        agent.chmod(0o500)
        for command in (["status"], ["events"], ["logs"], ["down"], ["status", "--json"], ["events", "--json"]):
            with self.subTest(command=command):
                text = self.on_terminal(*command)
                self.assert_harmless(text)
                self.assertNotEqual(text, "")
        refusal = {"kind": ORDERS, "phase": ORDERS, "cause": ORDERS, "remedy": ORDERS, "job": "", "plan_sha256": ""}
        said.write_bytes(frame("hello", 0, hello) + frame("error", 1, refusal))
        for command in (["status"], ["events"], ["logs"], ["down"]):
            with self.subTest(refused=command):
                text = self.on_terminal(*command)
                self.assert_harmless(text)
                self.assertIn("^[]0;owned^G", text)


class Progress(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("progress")
        self.addCleanup(self.user.close)
        self.user.env.update(TERM="xterm", NO_COLOR="1")
        self.go_on = self.user.folder / "go-on"
        bars = [f"{'█' * 150}{'训练' * 100} {percent}%%" for percent in (10, 20)]
        command = f"printf '\\r{bars[0]}'; while [ ! -e {self.go_on} ]; do sleep 0.1; done; printf '\\r{bars[1]}'; sleep 2"
        self.words = ("up", "-H", "localhost", "--no-workdir", "--set", "cluster.ports=auto", "--", "sh", "-c", command)

    def start(self, columns):
        terminal = self.user.start_on_terminal(*self.words)
        self.resize(terminal, columns)
        return terminal

    @staticmethod
    def resize(terminal, columns):
        fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def frames(self, terminal):
        """The rows that bars take; the last line of the job is whole."""
        self.go_on.touch()
        self.assertEqual(terminal.wait(60), 0)
        self.go_on.unlink()
        return re.findall(r"(worker:0 \| █[^\r\n]*?)(?=\r\x1b)", terminal.text)

    def test_a_bar_takes_one_row_of_the_terminal_and_nearly_all_of_it(self):
        for columns in (40, 80, 161, 162, 300):  # between: a wide character would take half of the last column
            with self.subTest(columns=columns):
                terminal = self.start(columns)
                terminal.wait_for_text("worker:0 | █")
                frames = self.frames(terminal)
                self.assertNotEqual(frames, [])
                for frame in frames:
                    self.assertIn(columns_of(frame), (columns - 2, columns - 1), frame)

    def test_a_bar_fits_a_window_that_has_become_narrower(self):
        terminal = self.start(120)
        terminal.wait_for_text("worker:0 | █")
        self.resize(terminal, 40)
        frames = self.frames(terminal)
        self.assertEqual([columns_of(frame) for frame in frames], [119, 39], frames)


class Sources(unittest.TestCase):
    def test_nothing_is_printed_but_through_the_file_that_filters(self):
        other_ways = re.compile(r"fmt::print|\bf?put[sc]\(|\bf?printf\(|std::c(out|err|log)\b|\b(Print|Say)Raw\(")
        allowed = {"stream/print.h", "stream/print.cc", "ssh/testing/ssh_probe.cc", "ssh/bench/login_floor.cc"}  # the last two are programs for tests
        cli = ROOT / "cli"
        found = [f"{path.relative_to(cli)}:{number}: {line.strip()}"
                 for path in sorted(cli.rglob("*")) if path.suffix in (".cc", ".h")
                 and not path.name.endswith("_test.cc") and str(path.relative_to(cli)) not in allowed
                 for number, line in enumerate(path.read_text().splitlines(), 1)
                 if other_ways.search(line.partition("//")[0])]
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
