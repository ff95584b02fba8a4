"""Followers of many tasks that restart, while their connections break and they are killed: not a byte is lost or doubled."""

import hashlib
import os
import random
import subprocess
import sys
import time
import unittest

from tests.chaos.world import HERE, World
from tests.hosts.hosts import check_possible
from tests.support import processes
from tests.support.clusters import toml_list
from tests.support.tfdist import BIN
from tests.support.waiting import wait_for

sys.path.insert(0, str(HERE))  # the program imports its neighbour on hosts as well
from tests.chaos import lines  # noqa: E402

# As many as `scripts/test --long` has.
WHOLE = bool(os.environ.get("CHAOS_WHOLE"))
TASKS, LINES, SECONDS, CUTS, KILLS = (32, 100_000, 100, 20, 5) if WHOLE else (8, 3000, 8, 3, 1)


def setUpModule():
    check_possible()


class Follower:
    """`logs -f --raw` of one task into a file; a killed one is followed by one that goes on where the file ends."""

    def __init__(self, user, job, task):
        self.user, self.job, self.task = user, job, task
        self.path = user.folder / f"followed-{task}"
        self.path.touch()
        self.start()

    def start(self):
        with open(self.path, "ab") as out, open(str(self.path) + ".err", "ab") as err:
            self.process = subprocess.Popen(
                [str(BIN / "tfdist"), "logs", "-f", "--raw", "--from", str(self.path.stat().st_size), self.job, self.task],
                env=self.user.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def kill(self):
        processes.kill(self.process.pid)
        self.process.wait()
        self.start()

    def said(self):
        with open(str(self.path) + ".err", encoding="utf-8") as err:
            return err.read()


class Followers(unittest.TestCase):
    def test_they_have_every_byte_once(self):
        world = World()
        self.addCleanup(world.close)
        job = self.start_job(world)
        tasks = [f"worker:{number}" for number in range(TASKS)]
        followers = [Follower(world.user, job, task) for task in tasks]
        self.addCleanup(lambda: [processes.kill(f.process.pid) or f.process.wait() for f in followers])
        self.strike(world, followers)
        world.user.wait_for_status(lambda s: s["result"] == "succeeded", "the job ends", job, 10 * SECONDS + 120)
        for follower in followers:
            wait_for(lambda f=follower: f.process.poll() is not None, lambda f=follower: f"the end of logs -f {f.task}", 120)
            self.assertEqual(follower.process.returncode, 0, follower.said())
        for number, follower in enumerate(followers):
            log = world.log(job, follower.task, number // (TASKS // 4))
            written = b"".join(b"".join(lines.share(follower.task, start, LINES)) for start in range(1, lines.STARTS + 1))
            self.assertEqual(hashlib.sha256(log).hexdigest(), hashlib.sha256(written).hexdigest(), f"{follower.task}: the host's file")
            followed = follower.path.read_bytes()
            self.assertEqual(hashlib.sha256(followed).hexdigest(), hashlib.sha256(log).hexdigest(),
                             f"{follower.task}: {len(followed)} bytes followed, {len(log)} on the host")

    def start_job(self, world):
        diary = world.diaries / "followers"
        diary.mkdir()
        diary.chmod(0o777)
        for name in ("lines.py", "task.py"):
            (world.program / name).write_bytes((HERE / name).read_bytes())
        hosts = ", ".join(f'{{ address = "{h.address}", ssh = "{h.name}" }}' for h in world.hosts)
        command = ["python3", "-E", "-S", "lines.py", str(diary), str(LINES), str(SECONDS)]
        up = world.user.run("up", "-d", world.user.write("followers.toml", f"""name = "followers"
[cluster]
hosts = [{hosts}]
layout = "roles"
ports = {{ worker = 2222 }}
[task]
command = {toml_list(command)}
workdir = "{world.program}"
gpus = 0
[roles.worker]
per_host = {TASKS // 4}
[restart]
worker = {{ policy = "task", limit = 2, backoff = "200ms" }}
[ssh]
config = "{world.hosts.ssh_config}"
"""))
        self.assertEqual(up.code, 0, up)
        return world.user.job_id()

    def strike(self, world, followers):
        """Each at its moment, while the tasks write."""
        chance = random.Random(11)
        moments = [(chance.uniform(0, SECONDS), "cut") for _ in range(CUTS)] + \
                  [(chance.uniform(0, SECONDS), "kill") for _ in range(KILLS)]
        began = time.monotonic()
        for at, what in sorted(moments):
            time.sleep(max(began + at - time.monotonic(), 0))
            if what == "kill":
                for follower in followers:
                    follower.kill()
            elif chance.random() < 0.5:
                for pid in world.pids(0, "sshd"):
                    processes.kill(pid)
            else:  # silence, no end
                world.links[0].cut()
                time.sleep(chance.uniform(0.2, 1.5))
                world.links[0].heal()


if __name__ == "__main__":
    unittest.main()
