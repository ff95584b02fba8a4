"""A process that SIGKILL does not end, as one in uninterruptible sleep: the first process of a pid namespace
ends only when every process of the namespace has been reaped, and one of them is ours (pid_namespaces(7))."""

import contextlib
import ctypes
import os

CLONE_NEWPID = 0x20000000

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def made_unkillable(pid):
    """`pid` is the first process of a pid namespace; inside the block it cannot be killed. Needs root."""
    release_read, release = os.pipe()
    ready, ready_write = os.pipe()
    parent = os.fork()
    if parent == 0:
        _keep_a_zombie_in(pid, release_read, release, ready_write)
    os.close(ready_write)
    os.close(release_read)
    try:
        if os.read(ready, 1) != b"y":
            raise AssertionError(f"cannot join the pid namespace of {pid}")
        yield
    finally:
        os.close(release)
        os.close(ready)
        os.waitpid(parent, 0)


def _keep_a_zombie_in(pid, release_read, release, ready_write):
    """Never returns: a child in the namespace ends, and is not reaped before the test is through."""
    os.close(release)
    namespace = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
    if _libc.setns(namespace, CLONE_NEWPID) != 0:
        os._exit(1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.write(ready_write, b"y")
    os.read(release_read, 1)
    os.waitpid(child, 0)
    os._exit(0)
