"""What is left of a job on this machine, found independently of tfdist."""

import os
import signal


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has ended, or is a kernel's or another's
        return b""


def _state(pid):
    stat = _read(f"/proc/{pid}/stat")
    return stat[stat.rfind(b")") + 2 :][:1].decode() if stat else ""


def alive(pid):
    return _state(pid) not in ("", "Z", "X")


def name_of(pid):
    """As ps(1) shows it; "": the process has ended."""
    return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def matching(mark):
    """Live processes that have `mark` (text) in their command line or environment: {pid: command}."""
    mark = mark.encode()
    found = {}
    for pid in pids():
        if pid == os.getpid() or not alive(pid):
            continue
        command = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
        if mark in command or mark in _read(f"/proc/{pid}/environ"):
            found[pid] = command.decode(errors="replace").strip()
    return found


def children(pid):
    found = []
    for other in pids():
        stat = _read(f"/proc/{other}/stat")
        if stat and int(stat[stat.rfind(b")") + 2 :].split()[1]) == pid:
            found.append(other)
    return found


def processor_seconds(pid):
    """That it has used; 0 where it has ended."""
    stat = _read(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_together(find):
    """Kills all that find() names. They are stopped first: a keeper and its agent start each other again."""
    stopped = set()
    while new := set(find()) - stopped:
        for pid in new:
            kill(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        kill(pid)
