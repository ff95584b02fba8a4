"""scripts/bench starts: that it starts jobs, tells of those that fail, and leaves nothing behind."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from tests.support import processes
from tests.support.tfdist import BIN, ROOT
from tests.support.waiting import wait_for


class Starts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tfdist-starts-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, count, bin_folder=BIN):
        """Every process of it has self.folder in its environment."""
        environment = dict(os.environ, TFDIST_BIN_DIR=str(bin_folder), STARTS_TEST=str(self.folder))
        process = subprocess.Popen([sys.executable, "-B", "-m", "tests.bench.starts", str(count)], cwd=ROOT,
                                   env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def imitation(self, script):
        """A folder with a tfdist-runtime that is this script."""
        program = self.folder / "tfdist-runtime"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        return self.folder

    def test_both_shapes_start_and_end(self):
        process = self.start(3)
        out = process.communicate()[0]
        self.assertEqual(process.returncode, 0, out)
        for shape in ("1x1", "2x2"):
            self.assertRegex(out, rf"(?m)^{shape}: 3 starts, 0 failures, median \d+\.\d\d s, slowest \d+\.\d\d s$")

    def test_a_failure_is_told_with_the_last_lines_and_the_rest_goes_on(self):
        servers_only = f'case "$TF_CONFIG" in *\'"type": "ps"\'*) exec {BIN}/tfdist-runtime;; esac; echo no luck; exit 3'
        process = self.start(2, self.imitation(servers_only))
        out = process.communicate()[0]
        self.assertEqual(process.returncode, 1, out)
        self.assertRegex(out, r"1x1: start 2 failed(.|\n)*  master:0: exit code 3\n    \| no luck\n")
        for shape in ("1x1", "2x2"):
            self.assertIn(f"{shape}: 2 starts, 2 failures, ", out)
        self.assertEqual(processes.matching(str(self.folder)), {})

    def test_ctrl_c_leaves_nothing_behind(self):
        process = self.start(1, self.imitation("exec sleep infinity"))
        wait_for(lambda: len(processes.matching(str(self.folder))) == 3, "a start with its two tasks")
        process.send_signal(signal.SIGINT)
        out = process.communicate()[0]
        self.assertEqual(process.returncode, 130, out)
        self.assertEqual(processes.matching(str(self.folder)), {})


if __name__ == "__main__":
    unittest.main()
