"""The tfdist command as a user runs it, with a home of its own."""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import time

from tests.support import processes
from tests.support.waiting import PATIENCE, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TFDIST_BIN_DIR", ROOT / "build/bin"))
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as where a script runs the tests with `&`
    signal.signal(signal.SIGINT, signal.default_int_handler)
JOB_ID = re.compile(r"[A-Za-z0-9._-]+-\d{8}T\d{6}Z-[0-9a-f]{6}")


def work_of(slot):
    """Where the tasks of a slot start, by its folder: as SlotFolder::work()."""
    mark = slot.parent / "run/.slot"
    return slot.parent / "run/work" if mark.exists() and mark.read_text() == f"{slot.name}\n" else slot / "work"


def without_waiting(text):
    """What a command said, but for what it waits for: it says that after a second, `up` after five, which a busy machine may need."""
    return re.sub(r"(?m)^tfdist: (\d+ s: )?(waiting for|looking (for|at|through)|asking|reading|packing|trying connections) .*\n", "", text)


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def expect(self, code):
        """Fails with all that was printed where the command ended otherwise."""
        if self.code != code:
            raise AssertionError(f"expected exit code {code}: {self}")
        return self

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Tfdist:
    """One user's machine: a home folder, cluster files, and the jobs started from it."""

    def __init__(self, name="t"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tfdist-{name}-"))
        self.env = dict(os.environ, HOME=str(self.folder))
        self.program = "tfdist"  # or "tfdist-failpoints", whose agent tests can make fail (agent/testing)
        for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK"):
            self.env.pop(variable, None)
        self._started = []

    def close(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
        # A failed test must not leave a job behind; what it left is what the test reports.
        processes.kill_together(lambda: processes.matching(str(self.folder)))
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def run(self, *args, seconds=120, cwd=None, prefix=()):
        """`prefix`: a command that executes tfdist."""
        done = subprocess.run(
            [*prefix, str(BIN / self.program), *args],
            env=self.env,
            cwd=cwd or self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE * seconds,
        )
        return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def run_bytes(self, *args, seconds=120):
        """stdout as it is, of a command that must succeed."""
        done = subprocess.run([str(BIN / self.program), *args], env=self.env, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE * seconds)
        assert done.returncode == 0, done
        return done.stdout

    def start(self, *args, ignored=None):
        """In the background; output goes to files `process.out` and `process.err` (paths). `ignored`: a signal."""
        number = len(self._started)
        out, err = self.folder / f"out{number}", self.folder / f"err{number}"
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            process = subprocess.Popen(
                [str(BIN / self.program), *args],
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                preexec_fn=ignored and (lambda: signal.signal(ignored, signal.SIG_IGN)),
            )
        process.out, process.err = out, err
        self._started.append(process)
        return process

    @staticmethod
    def wait_for_output(process, text, seconds=60):
        """Until a process of start() has printed `text` (bytes); at once an AssertionError when it has ended without."""

        def said():
            ended = process.poll() is not None
            if text in process.out.read_bytes():
                return True
            assert not ended, f"ended with {process.returncode}, without {text}: {process.err.read_text()}"
            return False

        wait_for(said, f"{text} in the output", seconds)

    def start_on_terminal(self, *args, cwd=None):
        """On a pseudo-terminal of its own, as its session's leader: Ctrl-C is a byte written to it."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(cwd or self.folder)
            os.execve(str(BIN / self.program), [str(BIN / self.program), *args], self.env)
        return Terminal(pid, terminal)

    def status(self, job=""):
        """Of a job that there is; wait_for_status() is for one that may not be known yet."""
        result = self._ask_for_status(job)
        assert result.code == 0, f"status: {result}"
        return json.loads(result.out)

    def _ask_for_status(self, job):
        return self.run("status", "--json", *([job] if job else []))

    def wait_for_status(self, condition, what, job="", seconds=60):
        """The first status for which `condition` is true. Until then the job need not be there, nor answer."""
        last = None

        def look():
            nonlocal last
            last = self._ask_for_status(job)
            status = json.loads(last.out) if last.code == 0 else None
            return status if status and condition(status) else None

        return wait_for(look, lambda: f"{what}; the last status: {last}", seconds)

    def wait_until_tasks_run(self, job=""):
        """The status then. `up -d` is through with the commit, before any task has begun."""
        def run(status):
            return status["tasks"] and all(row["state"] == "running" for row in status["tasks"])

        return self.wait_for_status(run, "all tasks run", job)

    def wait_until_ended(self, job=""):
        """The status then: of a job that has ended, the state is the result."""
        return self.wait_for_status(lambda status: status["state"] == status["result"], "the job ends", job, 120)

    def job_id(self):
        """Of the newest job, from the record on this machine."""
        records = [json.loads(path.read_text()) for path in (self.folder / ".local/state/tfdist/jobs").glob("*.json")]
        return max(records, key=lambda record: record["created"])["id"] if records else None

    def task_pid(self, task, job=""):
        """The pid of a running task, once it runs."""

        def pids(status):
            return [row["pid"] for row in status["tasks"] if row["task"] == task and row["state"] == "running"]

        return pids(self.wait_for_status(pids, f"{task} runs", job))[0]

    def left(self):
        """What still runs of this user's jobs on this machine."""
        mine = {process.pid for process in self._started}
        return {pid: cmd for pid, cmd in processes.matching(str(self.folder)).items() if pid not in mine}

    def slot_folder(self, slot, job=None):
        return self.folder / ".cache/tfdist/jobs" / (job or self.job_id()) / f"h{slot}"

    def log_files(self, task, slot=0):
        """Of a task on a local slot, oldest first."""
        folder = self.slot_folder(slot) / "tasks" / task.replace(":", "-")
        return sorted(path for path in folder.iterdir() if path.suffix == ".log")


class Terminal:
    def __init__(self, pid, fd):
        self.pid, self.fd, self.text = pid, fd, ""
        os.set_blocking(fd, False)

    def read(self):
        try:
            while True:
                data = os.read(self.fd, 65536)
                if not data:
                    break
                self.text += data.decode(errors="replace")
        except OSError:  # nothing there now, or the other side has ended
            pass
        return self.text

    def wait_for_text(self, text, seconds=60):
        wait_for(lambda: text in self.read(), lambda: f"{text!r} on the terminal; so far:\n{self.text}", seconds)

    def type(self, text):
        os.write(self.fd, text.encode())

    def ctrl_c(self):
        """A tenth of a second after the one before, at least: sooner it would count as the same."""
        time.sleep(0.15)
        self.type("\x03")

    def wait(self, seconds=60):
        """The exit code."""

        def ended():
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            return (status,) if pid else None

        status = wait_for(ended, lambda: f"the end of tfdist; so far:\n{self.text}", seconds)[0]
        self.read()  # its last words may have come after the last look
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)
