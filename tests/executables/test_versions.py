"""Executables say which libraries are inside, with the distribution's revision: whether they have a fix."""

import json
import os
import pathlib
import re
import subprocess
import unittest

BIN = pathlib.Path(os.environ["TFDIST_BIN_DIR"])


def lines(*command):
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


class Versions(unittest.TestCase):
    def check(self, printed, libraries):
        versions = dict(line.split(" ", 1) for line in printed if line.count(" ") == 1)
        for library in libraries:
            self.assertRegex(versions.get(library, "missing"), r"^[0-9].*-", f"{library} in {printed}")

    def test_tfdist_lists_its_libraries(self):
        printed = lines(BIN / "tfdist", "version", "--verbose")
        self.assertEqual(printed[0], lines(BIN / "tfdist", "--version")[0])
        self.check(printed, ["openssl", "libssh2", "libsodium", "fmtlib", "glibc", "nlohmann-json3"])

    def test_the_version_of_openssl_is_that_of_its_package(self):
        version = json.loads("\n".join(lines(BIN / "tfdist", "version", "--json")))
        inside = re.match(r"OpenSSL (\S+) ", version["openssl"])[1]
        self.assertEqual(inside, version["libraries"]["openssl"].split("-")[0])

    def test_the_agents_inside_are_named_by_their_hashes(self):
        version = json.loads("\n".join(lines(BIN / "tfdist", "version", "--json")))
        self.assertRegex(version["agent_sha256"], r"^[0-9a-f]{64}$")
        self.assertEqual(version["agent_sha256"], version["agents"]["x86_64"])

    def test_agent_lists_its_libraries(self):
        printed = lines(BIN / "tfdist-agent", "version", "--verbose")
        self.check(printed, ["libsodium", "zeromq3", "fmtlib", "glibc"])

    def test_short_version_is_one_line(self):
        self.assertEqual(len(lines(BIN / "tfdist", "version")), 1)
        self.assertEqual(len(lines(BIN / "tfdist-agent", "version")), 1)


if __name__ == "__main__":
    unittest.main()
