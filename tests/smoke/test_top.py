"""`tfdist top`: what each task uses, in place on a terminal and line by line elsewhere."""

import fcntl
import json
import os
import re
import struct
import termios
import time
import unittest

from tests.smoke.test_json import DOCUMENT
from tests.support import clusters
from tests.support.json_schema import Schema
from tests.support.tfdist import Tfdist, without_waiting

# master:0 computes and holds 200 MiB, both in a child of its own; the parameter server sleeps.
CHILD = "held = b'x' * (200 << 20)\\nprint('ready', flush=True)\\nwhile True: pass"
SCRIPT = ('case $TFDIST_TASK in ps:*) echo ready; exec sleep infinity;; esac; '
          f'python3 -c "$(printf "{CHILD}")"; exit')


class Top(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("top")
        self.addCleanup(self.user.close)

    def start(self):
        up = self.user.run("up", "-d", self.user.write("job.toml", clusters.local("job", ["sh", "-c", SCRIPT], slots=1)))
        self.assertEqual(up.code, 0, up)
        self.addCleanup(self.user.run, "down", "--force", "job")
        self.user.wait_until_tasks_run("job")
        self.user.wait_for_output(self.user.start("logs", "-f", "job", "master:0"), b"ready")

    def test_each_task_s_own_use_is_told(self):
        self.user.write("bin/nvidia-smi", """#!/bin/sh
case $1 in
  --query-gpu=index,uuid*) echo "0, GPU-a, 87, 2048, 81559"; echo "1, GPU-b, 5, 0, 81559";;
  --query-compute*) for pid in $(pgrep -f 'held = b'); do echo "$pid, GPU-a, 1024"; done; echo "1, GPU-b, 7";;
  *) exit 1;;
esac
""")
        os.chmod(self.user.folder / "bin/nvidia-smi", 0o755)
        self.user.env["PATH"] = f"{self.user.folder}/bin:{os.environ['PATH']}"
        self.start()
        top = self.user.run("top", "--json", "-n", "2", "--interval", "500ms")
        self.assertEqual((top.code, without_waiting(top.err)), (0, ""), top)
        looks = [json.loads(line) for line in top.out.splitlines()]
        self.assertEqual(len(looks), 2)
        schema = Schema({"$ref": "#/$defs/top", "$defs": DOCUMENT["$defs"]})
        for look in looks:
            self.assertEqual(schema.problems(look), [])
        server, master = sorted(looks[1]["tasks"], key=lambda task: task["task"] == "master:0")
        self.assertGreater(master["cpu_percent"], server["cpu_percent"])
        self.assertGreater(master["memory_bytes"], 200 << 20)
        self.assertLess(server["memory_bytes"], 50 << 20)
        self.assertEqual((master["processes"], server["processes"]), (2, 1))
        [gpu] = master["gpus"]  # the shell has the child's text in its arguments, too
        self.assertEqual((gpu["index"], gpu["percent"], gpu["total_bytes"]), (0, 87, 81559 << 20))
        self.assertIn(gpu["used_bytes"], (1 << 30, 2 << 30))
        self.assertEqual(server["gpus"], [])
        table = self.user.run("top", "-n", "1").out
        self.assertNotIn("\x1b", table)
        self.assertRegex(table, r"(?m)^job: running, attempt 1, \d+s \(job-\S+\)\nTASK +CPU +MEMORY +GPU +PROCESSES +HOST +STATE\n")
        self.assertRegex(table, r"(?m)^master:0 +\d+% +2\d\d MiB +0: 87% [12].0 GiB +2 +127.0.0.1 +running$")
        self.assertRegex(table, r"(?m)^ps:0 +\d+% +\d+ \wiB +- +1 +127.0.0.1 +running$")

    def test_on_a_terminal_the_table_stays_in_its_place_and_ends_with_the_job(self):
        self.start()
        self.user.env["TERM"] = "xterm"
        terminal = self.user.start_on_terminal("status", "-w", "--interval", "500ms")
        fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        terminal.wait_for_text("\x1b[4F\x1b[J")  # a heading and three lines further up
        terminal.wait_for_text("\x1b[4F\x1b[J")
        self.user.run("down", "--force", "job").expect(0)
        self.assertEqual(terminal.wait(), 0)
        self.assertRegex(terminal.text, r"\x1b\[Jjob: stopped, attempt 1, ")
        last = re.split(r"\x1b\[\d+F\x1b\[J", terminal.text)[-1]
        self.assertLessEqual(max(len(line) for line in last.replace("\r", "").split("\n")), 30)

    def test_a_plain_terminal_gets_no_control_sequences(self):
        self.start()
        self.user.env["TERM"] = "dumb"
        terminal = self.user.start_on_terminal("top", "-n", "2", "--interval", "500ms")
        self.assertEqual(terminal.wait(), 0)
        self.assertNotIn("\x1b", terminal.text)
        self.assertEqual(terminal.text.count("TASK "), 2)

    def test_an_interval_without_a_unit_is_in_seconds(self):
        self.start()
        begin = time.monotonic()
        top = self.user.run("top", "-n", "2", "--interval", "1")
        self.assertEqual((top.code, top.out.count("TASK ")), (0, 2), top)
        self.assertGreaterEqual(time.monotonic() - begin, 1)

    def test_a_shorter_interval_than_hosts_need_is_refused(self):
        refused = self.user.run("top", "--interval", "10ms")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("--interval: expected a time from 500ms on, got 10ms", refused.err)


if __name__ == "__main__":
    unittest.main()
