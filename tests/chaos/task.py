"""The task of a chaos round: numbered lines, and a diary that outlives task and host.

    task.py DIARY

DIARY is a folder that all hosts see. Each start of a task leaves three files there: `worker:0.2.start` (who, where),
`worker:0.2.lines` (how many lines it has surely written) and, if it ended by itself, `worker:0.2.exit` (with which code).
A second copy of a task that runs finds the lock of the first one and leaves `worker:0.2.double`. Environment:
CHAOS_SECONDS (how long a trainer lives), CHAOS_ENDS ({"worker:0": [3, 0]}: the codes of its starts, one by one),
CHAOS_FAILS_AFTER (seconds until a code other than 0), CHAOS_MARK (for `sleep`: descendants that try to escape). Each of these
has its job's number as well.
"""

import fcntl
import json
import os
import signal
import sys
import time

PAUSE = 0.005  # between two lines
OTHER_UID = 30_000
# As ssh-agent: it shows its environment to nobody, and where /proc hides processes not itself to its own account.
NOT_DUMPABLE = "import ctypes, sys, time; ctypes.CDLL(None).prctl(4, 0); time.sleep(float(sys.argv[1]))"


def line(task, start, number):
    return f"{task} start {start} line {number} \N{GREEK SMALL LETTER MU}\N{CHECK MARK}\n".encode()


def write_whole(path, text):
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".part", path)


def take_number(diary, task):
    """Which start of this task it is, counted over all hosts."""
    start = 1
    while True:
        try:
            os.close(os.open(f"{diary}/{task}.{start}.lines", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            return start
        except FileExistsError:
            start += 1


def take_lock(diary, task, start, me):
    """Record locks end with their process, whoever inherits the descriptor."""
    lock = os.open(f"{diary}/{task}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps(me).encode(), 0)
    except OSError:
        write_whole(f"{diary}/{task}.{start}.double", json.dumps([json.loads(os.pread(lock, 4096, 0) or b"{}"), me]))
    return lock


def number_of(job):
    """What `sleep` takes for a time, and names the job: of "name-20260801T120000Z-1a2b3c"."""
    return "0." + "".join(f"{int(digit, 16):02}" for digit in job.rsplit("-", 1)[1])


def has_account(uid):
    """A container without root may have this account only."""
    with open("/proc/self/uid_map", encoding="ascii") as ranges:
        return any(int(first) <= uid < int(first) + int(count) for first, _, count in map(str.split, ranges))


def escape(clear_environment, new_session, program=("/bin/sleep",), uid=None):
    """A grandchild that has no parent of ours, nor, perhaps, session, environment or account."""
    if os.fork() > 0:
        return
    if new_session:
        os.setsid()
    if os.fork() == 0:
        environment = {} if clear_environment else dict(os.environ)
        if uid is not None and has_account(uid):
            os.setuid(uid)
        marks = [os.environ["CHAOS_MARK"], number_of(os.environ["TFDIST_JOB_ID"])]
        os.execve(program[0], [os.path.basename(program[0]), *program[1:], *marks], environment)
    os._exit(0)


def main():
    os.umask(0)  # the diary is everybody's: each host has accounts of its own
    diary, task = sys.argv[1], os.environ["TFDIST_TASK"]
    start = take_number(diary, task)
    me = {"job": os.environ["TFDIST_JOB_ID"], "task": task, "start": start, "host": os.uname().nodename, "pid": os.getpid(),
          "attempt": int(os.environ["TFDIST_ATTEMPT"]), "time": time.time()}
    lock = take_lock(diary, task, start, me)  # kept until the end
    write_whole(f"{diary}/{task}.{start}.start", json.dumps(me))
    escape(clear_environment=True, new_session=start % 2 == 0)
    escape(clear_environment=False, new_session=True)
    escape(clear_environment=False, new_session=True, program=(sys.executable, "-I", "-S", "-c", NOT_DUMPABLE))
    if os.getuid() == 0:
        escape(clear_environment=False, new_session=start % 2 == 0, uid=OTHER_UID)
    codes = json.loads(os.environ["CHAOS_ENDS"]).get(task, [])
    code = codes[start - 1] if start <= len(codes) else 0
    seconds = float(os.environ["CHAOS_FAILS_AFTER" if code else "CHAOS_SECONDS"])
    serves = task.startswith("ps:") and not code
    end = time.monotonic() + seconds
    counter = os.open(f"{diary}/{task}.{start}.lines", os.O_WRONLY)
    number = 0
    while serves or time.monotonic() < end:
        os.write(1, line(task, start, number))
        number += 1
        os.pwrite(counter, b"%012d" % number, 0)
        time.sleep(PAUSE)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what the diary says from here on is how it ends
    write_whole(f"{diary}/{task}.{start}.exit", str(code))
    os.close(lock)
    os._exit(code)


if __name__ == "__main__":
    main()
