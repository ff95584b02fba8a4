"""The executables that users run are hardened, and hold no path of the machine that built them."""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["TFDIST_BIN_DIR"])
SANITIZED = bool(os.environ.get("TFDIST_SANITIZE"))
CUDA = "tfdist-runtime-cuda"  # where the build has found CUDA's toolkit
EXECUTABLES = ("tfdist", "tfdist-agent", "tfdist-runtime") + ((CUDA,) if (BIN / CUDA).exists() else ())


def readelf(name, *options):
    command = ["readelf", "--wide", *options, str(BIN / name)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


class Hardening(unittest.TestCase):
    def test_executables_are_position_independent(self):
        for name in EXECUTABLES:
            with self.subTest(executable=name):
                self.assertRegex(readelf(name, "--file-header"), r"Type: +DYN")
                self.assertRegex(readelf(name, "--dynamic"), r"\(FLAGS_1\).*\bPIE\b")

    def test_relocations_are_read_only_after_the_start(self):
        for name in EXECUTABLES:
            with self.subTest(executable=name):
                self.assertIn("GNU_RELRO", readelf(name, "--segments"))
                self.assertRegex(readelf(name, "--dynamic"), r"\(FLAGS_1\).*\bNOW\b")

    def test_no_memory_is_both_writable_and_executable(self):
        for name in EXECUTABLES:
            with self.subTest(executable=name):
                segments = readelf(name, "--segments")
                stack = re.search(r"GNU_STACK.* ([RWE ]{3}) +0x", segments)
                self.assertIsNotNone(stack, segments)
                self.assertNotIn("E", stack[1])
                self.assertNotRegex(segments, r"LOAD.* RWE +0x")

    def test_stack_is_protected(self):
        for name in EXECUTABLES:
            with self.subTest(executable=name):
                self.assertIn("__stack_chk_fail", readelf(name, "--symbols"))

    @unittest.skipIf(SANITIZED, "sanitizers check these calls themselves")
    def test_calls_of_libc_are_checked(self):
        for name in EXECUTABLES:
            with self.subTest(executable=name):
                self.assertRegex(readelf(name, "--symbols"), r"__\w+_chk\b")

    def test_libraries_are_looked_for_in_the_system_alone(self):
        for name in EXECUTABLES:
            with self.subTest(executable=name):
                self.assertNotRegex(readelf(name, "--dynamic"), r"\((RPATH|RUNPATH)\)")

    def test_executables_for_the_cpu_have_nothing_of_cuda(self):
        for name in EXECUTABLES:
            with self.subTest(executable=name):
                self.assertNotRegex(readelf(name, "--dynamic"), r"NEEDED.*(cuda|cublas)")
                content = (BIN / name).read_bytes()
                self.assertEqual(b"libcuda.so" in content, name == CUDA)
                self.assertEqual(b"libcublas.so" in content, name == CUDA)
                self.assertEqual(b"cudaMalloc" in content, name == CUDA)

    @unittest.skipIf(SANITIZED, "executables of a sanitizer's build are dynamic")
    def test_command_and_agent_need_no_shared_library(self):
        for name in ("tfdist", "tfdist-agent"):
            with self.subTest(executable=name):
                self.assertNotIn("(NEEDED)", readelf(name, "--dynamic"))
                self.assertNotIn("INTERP", readelf(name, "--segments"))

    @unittest.skipIf(SANITIZED, "executables of a sanitizer's build are dynamic")
    def test_command_does_not_look_accounts_up_itself(self):
        # It would load the machine's NSS modules into a glibc that is not the machine's. (getaddrinfo(3) is there: it is
        # asked for numeric addresses alone.)
        of_accounts = re.compile(r"(get(pw|gr)(nam|uid|gid|ent)(_r)?|initgroups|getgrouplist|getlogin(_r)?)$")
        symbols = {line.split()[-1] for line in readelf("tfdist", "--symbols").splitlines() if line}
        self.assertEqual([symbol for symbol in symbols if of_accounts.match(symbol)], [])

    @unittest.skipIf(SANITIZED, "executables of a sanitizer's build are dynamic")
    def test_agent_has_neither_resolver_nor_modules_of_one(self):
        # agent/no_lookups.cc stands in for what libzmq would bring along.
        of_lookups = re.compile(r"(__nss_(database|module)_\w+|_nss_\w+|__?res_\w*send\w*|gethostby\w+)$")
        symbols = {line.split()[-1] for line in readelf("tfdist-agent", "--symbols").splitlines() if line}
        self.assertIn("getaddrinfo", symbols)
        self.assertEqual([symbol for symbol in symbols if of_lookups.match(symbol)], [])

    @unittest.skipIf(SANITIZED, "debugging information names the sources")
    def test_agent_does_not_hold_the_path_of_the_checkout(self):
        # Its name is the hash of its bytes, so two checkouts of one commit would be two agents.
        held = (BIN / "tfdist-agent").read_bytes().count(str(ROOT).encode())
        self.assertEqual(held, 0, f"{ROOT} is {held} times in tfdist-agent")


if __name__ == "__main__":
    unittest.main()
