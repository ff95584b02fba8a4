"""Cluster files for tests."""

import fcntl
import json
import os
import pathlib
import socket
import tempfile


def toml_list(values):
    # A JSON list of strings is a TOML array, but for surrogate pairs, which JSON writes unless told not to.
    return json.dumps(values, ensure_ascii=False)


# For jobs that a failure is to end.
NO_RESTARTS = """
[restart]
master = "never"
worker = "never"
ps = "never"
"""


def local(name, command, slots=2, extra="", task_extra=""):
    """`slots` co-located ps and trainers on this machine, without SSH."""
    return f"""
name = "{name}"
{extra}
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local", slots = {slots} }}]
layout = "uai"
ports = {{ worker = {free_ports(2 * slots)}, ps = {free_ports(2 * slots)} }}

[task]
command = {toml_list(command)}
gpus = 0
{task_extra}
"""


def over_ssh(name, command, hosts, extra="", task_extra="", layout="uai", listed=None, ssh_config=None):
    """A trainer on each of the test hosts, in `uai` a ps as well. `listed`: `hosts` as a user writes them."""
    count = len(hosts)
    roles = ("worker", "ps") if layout == "uai" else ("worker",)
    firsts = {role: free_ports(count) for role in roles}
    ports = ", ".join(f"{role} = {list(range(first, first + count))}" for role, first in firsts.items())
    addresses = ", ".join(f'{{ address = "{host.address}", ssh = "{host.name}" }}' for host in hosts)
    if listed:
        addresses = toml_list(listed)[1:-1]
    return f"""
name = "{name}"
{extra}
[cluster]
hosts = [{addresses}]
layout = "{layout}"
ports = {{ {ports} }}

[task]
command = {toml_list(command)}
gpus = 0
{task_extra}

[ssh]
config = "{ssh_config or hosts.ssh_config}"
"""


BLOCK = 1000
_block = None  # descriptor of the locked file of this process's block of ports
_first = 0
_used = 0


def _open_lock(path):
    """The name can be known beforehand, in a folder that all may write to: no link is followed, no content is lost."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(lock).st_uid != os.geteuid():
        os.close(lock)
        raise PermissionError(f"{path} belongs to another account")
    return lock


def _take_block():
    """Test programs that run side by side use ports of their own, below the ephemeral range."""
    global _block, _first
    for first in range(10000, 31000, BLOCK):
        try:
            lock = _open_lock(pathlib.Path(tempfile.gettempdir()) / f"tfdist-test-ports-{first}")
        except OSError:  # another account's, or a link
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another program's
            os.close(lock)
            continue
        _block, _first = lock, first
        return
    raise AssertionError("no block of ports is free: which test programs run here?")


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def free_ports(count):
    """The first of `count` ports in a row that nobody listens on now; each call gives others."""
    global _used
    if _block is None:
        _take_block()
    for _ in range(2 * BLOCK):  # from anywhere in the block, more than once around it
        offset = _used if _used + count <= BLOCK else 0
        if offset + count > BLOCK:
            break
        _used = offset + count
        if all(_is_free(_first + port) for port in range(offset, _used)):
            return _first + offset
    raise AssertionError(f"no {count} ports in a row are free in {_first}..{_first + BLOCK - 1}: what listens there?")
