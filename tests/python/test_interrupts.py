"""Ctrl-C, exceptions and kills: what of a program's jobs runs on, what ends, and that nothing is left."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.support import clusters, processes
from tests.support.python import environment, run_python, start_python_on_terminal
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

START = """
import asyncio, os, sys, threading, time, tfdist
def up(*command, more={}, quiet=False):
    return tfdist.up(hosts=["localhost"], command=command or ["sleep", "1000"], workdir=False, name="job",
                     set={"cluster.ports": "auto", **more}, quiet=quiet)
"""
INTERRUPTED = -signal.SIGINT  # how Python ends by KeyboardInterrupt


class Case(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("interrupts")
        self.addCleanup(self.user.close)

    def state(self):
        [job] = json.loads(self.user.run("list", "--json").expect(0).out)
        return job["state"]

    def assert_nothing_left(self):
        wait_for(lambda: not self.user.left(), lambda: f"nothing runs; there is {self.user.left()}", 60)

    def write_slow_start(self):
        """A bring-up that a set-up command keeps from its end."""
        self.user.write("cluster.toml", clusters.local("job", ["sleep", "1000"], slots=1) +
                        '[setup]\ncommand = ["sh", "-c", "echo set-up runs; sleep 1000"]\n')


class Interrupts(Case):
    def start(self, script):
        """On a terminal, as a user does."""
        return start_python_on_terminal(self.user, START + script)

    def interrupt_when(self, script, text, times=1):
        terminal = self.start(script)
        terminal.wait_for_text(text)
        for _ in range(times):
            terminal.ctrl_c()
        self.assertEqual(terminal.wait(), INTERRUPTED, terminal.text)
        self.assertIn("KeyboardInterrupt", terminal.text)
        return terminal.text

    def test_in_up_it_rolls_back(self):
        self.write_slow_start()
        text = self.interrupt_when('with tfdist.up("cluster.toml"): pass', "set-up runs")
        self.assertIn("tfdist: nothing was started", text)
        self.assert_nothing_left()

    def test_in_a_call_inside_with_it_ends_the_job(self):
        text = self.interrupt_when("with up() as job: print('job is there'); job.wait()", "job is there")
        self.assertIn("nothing is left on 1 host", text)
        self.assertEqual(self.state(), "stopped")
        self.assert_nothing_left()

    def test_in_a_loop_over_logs_it_ends_the_job(self):
        self.interrupt_when("""
with up("sh", "-c", "while sleep 0.1; do echo a line; done") as job:
    for line in job.logs(follow=True): print(line["line"])
""", "a line")
        self.assertEqual(self.state(), "stopped")
        self.assert_nothing_left()

    def test_without_with_the_job_runs_on(self):
        self.interrupt_when("job = up(); print('job is there'); job.wait()", "job is there")
        self.assertEqual(self.state(), "running")
        self.assertEqual([command for command in self.user.left().values() if "wait" in command], [])
        self.user.run("down").expect(0)
        self.assert_nothing_left()

    def test_again_while_with_ends_the_job_it_kills(self):
        """The tasks do not heed SIGTERM, and have a minute."""
        terminal = self.start("""
with up("sh", "-c", "trap : TERM; echo trap is set; while :; do sleep 1; done", more={"task.grace": "1m"}) as job:
    for line in job.logs(follow=True): print(line["line"])
""")
        terminal.wait_for_text("trap is set")
        terminal.ctrl_c()
        wait_for(lambda: [command for command in self.user.left().values() if " down " in command], "down runs")
        terminal.ctrl_c()
        self.assertEqual(terminal.wait(30), INTERRUPTED, terminal.text)
        self.assertRegex(terminal.text, r"tfdist: job job-\S+: killing all tasks\s+tfdist: job job-\S+: ended; nothing is left")
        self.assert_nothing_left()

    def test_a_notebook_goes_on_with_its_next_cell(self):
        """A kernel is the leader of its process group, and "interrupt the kernel" signals that group."""
        cells = ["job = up(quiet=True)", "print('waits', flush=True); job.wait()", "print(job.status()['state'], flush=True); job.down()"]
        script = START + f"""
import code
console = code.InteractiveInterpreter(globals())
for cell in {cells!r}:
    console.runcode(compile(cell, "cell", "exec"))
print(threading.active_count(), "thread")
"""
        kernel = subprocess.Popen([sys.executable, "-c", script], env=environment(self.user), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, start_new_session=True)
        try:
            self.assertEqual(kernel.stdout.readline(), b"waits\n")
            os.killpg(kernel.pid, signal.SIGINT)
            out, err = kernel.communicate(timeout=60)
        finally:
            kernel.kill()
            kernel.wait()
        self.assertEqual(out.split(b"\n")[-3:], [b"running", b"1 thread", b""], (out, err))
        self.assertIn(b"\nKeyboardInterrupt", err)
        self.assert_nothing_left()

    def test_at_any_moment_nothing_is_left(self):
        """As the job comes up and runs, in `with`."""
        seed = int(os.environ.get("TFDIST_SEED", 0)) or random.randrange(1 << 32)
        moments = random.Random(seed)
        for number in range(8):
            seconds = moments.uniform(0, 0.8)
            with self.subTest(f"TFDIST_SEED={seed}, round {number}: {seconds:.3f} s"):
                terminal = self.start("print('begins', flush=True)\nwith up() as job: job.wait()")
                terminal.wait_for_text("begins")
                time.sleep(seconds)  # the moment is what the test is about
                terminal.ctrl_c()
                self.assertEqual(terminal.wait(), INTERRUPTED, terminal.text)
                self.assert_nothing_left()

    def test_a_killed_python_leaves_the_job_running(self):
        process = subprocess.Popen([sys.executable, "-c", START + "with up() as job: print(job.id, flush=True); job.wait()"],
                                   env=environment(self.user), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        job = process.stdout.readline().decode().strip()
        wait_for(lambda: [command for command in self.user.left().values() if "wait" in command], "wait runs")
        process.kill()
        process.wait()
        process.stdout.close()
        run_python(self.user, START + f"""
[row] = [row for row in tfdist.jobs() if row["state"] == "running"]
assert row["job"] == {job!r}
assert tfdist.Job(row["job"]).down()["unconfirmed"] == []
""").expect(0)
        self.assert_nothing_left()

    def test_a_python_that_is_killed_during_up_leaves_a_job_that_is_listed(self):
        """The command goes on by itself."""
        process = subprocess.Popen([sys.executable, "-c", START + "up()"], env=environment(self.user),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: [pid for pid in processes.children(process.pid) if processes.alive(pid)], "up runs")
        process.kill()
        process.wait()
        self.user.wait_until_tasks_run()
        self.user.run("down").expect(0)
        self.assert_nothing_left()


class LostHost(Case):
    """The job's only host is lost inside the block, which cannot end the job then."""

    def leave_block(self, last_line):
        """Its output, once the block has ended with `last_line`."""
        check_possible()
        hosts = Hosts(1)
        hosts.start()
        self.addCleanup(hosts.stop)
        script = f"""
with tfdist.up(hosts=["h1"], command=["sleep", "1000"], workdir=False, ssh_config={str(hosts.ssh_config)!r}, quiet=True):
    print("runs", flush=True)
    sys.stdin.readline()
    {last_line}
"""
        process = subprocess.Popen([sys.executable, "-c", START + script], env=environment(self.user), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "runs\n")
        hosts.stop()
        _, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 1, err)
        return err

    def test_the_end_of_the_block_raises(self):
        err = self.leave_block("pass")
        self.assertRegex(err, r"tfdist\.errors\.Incomplete: .*\n  unreachable: h1\n")

    def test_the_programs_own_exception_is_the_one_to_be_seen(self):
        err = self.leave_block("raise ValueError('of the program')")
        self.assertRegex(err, r"tfdist: job \S+: may still run: tfdist: ")
        self.assertEqual(err.strip().splitlines()[-1], "ValueError: of the program", err)


class Asyncio(Case):
    def test_logs_and_the_end(self):
        run_python(self.user, START + """
async def main():
    async with await tfdist.up_async(hosts=["localhost"], command=["sh", "-c", "echo a; sleep 0.5; echo b"], workdir=False) as job:
        assert [line["line"] async for line in job.logs_async(follow=True)] == ["a", "b"]
        assert (await job.wait_async())["state"] == "succeeded"
        try:
            await tfdist.up_async(hosts=["nowhere.invalid"], command=["true"], workdir=False)
        except tfdist.HostError as error:
            assert error.phase == "name lookup"
        else:
            raise AssertionError
asyncio.run(main())
""").expect(0)
        self.assert_nothing_left()

    def test_a_cancelled_start_rolls_back(self):
        self.write_slow_start()
        process = subprocess.Popen([sys.executable, "-W", "error", "-c", START + """
async def main():
    start = asyncio.ensure_future(tfdist.up_async("cluster.toml"))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    start.cancel()
    await asyncio.wait([start])
    assert start.cancelled()
asyncio.run(main())
"""], env=environment(self.user), cwd=self.user.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for(lambda: [command for command in self.user.left().values() if command == "sleep 1000"], "the set-up runs")
        out, _ = process.communicate(b"\n", timeout=60)
        self.assertEqual(process.returncode, 0, out)
        self.assertIn(b"interrupted: rolling back", out)
        self.assert_nothing_left()

    def test_ctrl_c_in_a_block_ends_its_job(self):
        terminal = start_python_on_terminal(self.user, START + """
async def main():
    async with await tfdist.up_async(hosts=["localhost"], command=["sleep", "1000"], workdir=False) as job:
        print("job is there")
        await job.wait_async()
asyncio.run(main())
""")
        terminal.wait_for_text("job is there")
        terminal.ctrl_c()
        self.assertEqual(terminal.wait(), INTERRUPTED, terminal.text)
        self.assertEqual(self.state(), "stopped")
        self.assert_nothing_left()

    def test_a_cancelled_block_ends_its_job(self):
        run_python(self.user, START + """
async def run():
    async with await tfdist.up_async(hosts=["localhost"], command=["sh", "-c", "echo there; sleep 1000"], workdir=False) as job:
        async for line in job.logs_async(follow=True):
            there.set()
async def main():
    global there
    there = asyncio.Event()
    task = asyncio.ensure_future(run())
    await there.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
asyncio.run(main())
""").expect(0)
        self.assertEqual(self.state(), "stopped")
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
