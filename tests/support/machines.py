"""Programs for aarch64 on this machine: qemu runs them, and the kernel calls it (binfmt_misc)."""

import pathlib
import subprocess
import tempfile
import unittest

# Of release 10. That of Debian 12 (7.2) has no prctl(PR_SET_CHILD_SUBREAPER), without which a keeper ends.
QEMU = pathlib.Path(__file__).resolve().parents[2] / "build/deps/qemu/qemu-aarch64"
NAME = "tfdist-test-aarch64"
# The first bytes of an ELF file for aarch64, and which of them count; as qemu's own packages say them.
MAGIC = (r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00")
MASK = (r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff")


class Binfmt:
    """While it is entered, the kernel runs programs for aarch64. F: qemu is opened now, so that test hosts need no copy of it; P: a
    program keeps the name that it is called by."""

    def __init__(self):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="tfdist-binfmt-"))

    def __enter__(self):
        if not QEMU.exists():
            raise unittest.SkipTest(f"no {QEMU}: scripts/setup --aarch64 --test")
        mounted = subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(self._folder)], capture_output=True, text=True)
        if mounted.returncode != 0:
            raise unittest.SkipTest(f"binfmt_misc cannot be mounted: {mounted.stderr.strip()}")
        if not (self._folder / NAME).exists():
            (self._folder / "register").write_text(f":{NAME}:M::{MAGIC}:{MASK}:{QEMU}:FP")
        return self

    def __exit__(self, *_):
        if (self._folder / NAME).exists():
            (self._folder / NAME).write_text("-1")
        subprocess.run(["umount", str(self._folder)], check=False)
        self._folder.rmdir()


def make_aarch64(host):
    """From now on uname(1) on that test host says that it is one."""
    uname = host.folder / "tmp/uname"  # which it sees as /tmp/uname
    uname.write_text('#!/bin/sh\n[ "$1" = -m ] && echo aarch64 || echo Linux aarch64\n')
    uname.chmod(0o755)
    host.run_as("root", ["mount", "--bind", "/tmp/uname", "/usr/bin/uname"])


def machine_of(file):
    """What an ELF file is for: 62 is x86-64, 183 is aarch64 (elf(5), e_machine)."""
    return int.from_bytes(file.read_bytes()[18:20], "little")
