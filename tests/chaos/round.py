"""One round: a job, what strikes it and when, all of it drawn from a seed; then what it promised is looked at."""

import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import threading
import time

from tests.chaos import promises, task
from tests.chaos.nemeses import BY_NAME, Effects, Nemesis, nemeses_for
from tests.chaos.world import SLOTS
from tests.support import processes
from tests.support.clusters import toml_list
from tests.support.waiting import wait_for

TASKS = {0: ("ps:0", "master:0"), 1: ("ps:1", "worker:0"), 2: ("ps:2", "worker:1")}
END = 90  # seconds for a job to end once nothing is in its way
SECONDS_A_STRIKE = 6  # of a long job
LOGGED_BYTES_A_LINE = 128  # at most: its text, and its record in the index
ENDED_EARLY = 0.35  # of the rounds have a `down` beside what strikes them
DEPLOYING = 0.4  # seconds that `up` takes to bring the hosts up


@dataclasses.dataclass
class Strike:
    nemesis: Nemesis
    slot: int
    while_deploying: bool
    at: float       # seconds after `up` was started, or after the first task runs
    lasts: float    # until it is undone


class Round:
    hidden = False  # whether /proc of the hosts hides processes
    on_host_lost = "fail"

    def __init__(self, world, seed, only=(), again=0, life=None):
        self.world, self.seed = world, seed
        self.chance = random.Random(seed)
        self.name = f"chaos{seed}.{again}" if again else f"chaos{seed}"
        self.mark = f"{86400 + seed % 100000}.{os.getpid()}{seed:09}"
        self.diary = world.diaries / self.name
        self.story = []      # what was done, in words
        self.commands = []   # processes of `tfdist`, `up` first
        self.limits = 'limit = 1000, within = "10s", backoff = "100ms"' if life else 'limit = 20, backoff = "100ms"'
        self.crashed = set()   # slots whose hosts are off
        self.forsaken = set()  # slots whose agent does not come back
        self.file = self.world.user.write(f"{self.name}.toml", "")  # until the round begins
        self.life = life       # seconds that its job takes; None: as chance will have it
        self._draw(only)
        self.program = max((strike.nemesis.program for strike in self.strikes), default="tfdist")  # the longer name

    def _draw(self, only):
        """Everything that chance decides beforehand, in one place: a seed names it."""
        chance = self.chance
        containers = self.world.containers
        known = [nemesis for nemesis in nemeses_for(containers and containers.kind) if not only or nemesis.name in only]
        count = chance.choices((0, 1, 2, 3), (1, 10, 5, 2))[0] if not self.life else int(self.life / SECONDS_A_STRIKE)
        drawn = chance.choices(known, [nemesis.weight for nemesis in known], k=count)
        if not self.life and BY_NAME["down"] in known and chance.random() < ENDED_EARLY:
            drawn[2:] = [BY_NAME["down"]]
        self.seconds = self.life or chance.uniform(0.5, 1.0)  # that a trainer lives
        self.fails_after = min(self.seconds / 2, 0.5)
        self.spare = chance.random() < 0.6
        self.detached = chance.random() < 0.2
        self.output = chance.choice(("separate", "merged"))
        self.ends = self._draw_ends()
        self.strikes = sorted((self._draw_strike(nemesis) for nemesis in drawn), key=lambda s: (not s.while_deploying, s.at))
        self.hidden = chance.random() < 0.25
        self.on_host_lost = chance.choice(("wait", "fail"))
        self.effects = [strike.nemesis.effects for strike in self.strikes] + [Effects(may_end=True)] * bool(self.life)

    def _draw_ends(self):
        """Some rounds have a task that fails by itself, as any may."""
        if self.chance.random() < 0.7:
            return {}
        task = self.chance.choice([name for names in TASKS.values() for name in names])
        return {task: [self.chance.choice((1, 3, 77, 137, 255)) for _ in range(self.chance.choice((1, 1, 2)))]}

    def _draw_strike(self, nemesis):
        deploying = nemesis.while_deploying and not self.life and self.chance.random() < 0.3
        return Strike(nemesis, self.chance.choice(nemesis.slots), deploying,
                      self.chance.uniform(0, DEPLOYING if deploying else self.seconds),
                      self.chance.uniform(nemesis.shortest, nemesis.longest))

    def most_log_bytes(self):
        """That a long job may write on one host: its disk is to be full because of a strike, and never by itself."""
        return int(self.life / task.PAUSE) * LOGGED_BYTES_A_LINE * max(len(tasks) for tasks in TASKS.values()) if self.life else 0

    def may(self, effect):
        return any(getattr(effects, effect) for effects in self.effects)

    def describe(self):
        struck = "; ".join(f"{s.nemesis.name} (slot {s.slot}, {'deploying' if s.while_deploying else 'running'}"
                           f" +{s.at:.2f} s, for {s.lasts:.2f} s)" for s in self.strikes)
        return f"seed {self.seed}: {struck or 'nothing'}{f'; ends {self.ends}' if self.ends else ''}" \
               f"{', a spare host' if self.spare else ''}{', up -d' if self.detached else ''}" \
               f"{', hidden processes' if self.hidden else ''}, on_host_lost {self.on_host_lost}, {self.seconds:.2f} s"

    # --- what nemeses need ------------------------------------------------------------------------------

    def note(self, what):
        self.story.append(f"{time.time():.3f} {what}")

    def choose(self, pids):
        """One of them, if there is any."""
        return [self.chance.choice(pids)] if pids else []

    @property
    def cli(self):
        return self.commands[0]

    def start_command(self, *args):
        self.note("tfdist " + " ".join(args))
        command = self.world.user.start(*args)
        command.args_given = args
        command.began = time.time()
        self.commands.append(command)
        return command

    def end_it(self, *options):
        """`down`, and a look at the hosts in the moment in which it has ended."""
        command = self.start_command("down", *options, self.name)
        command.looking = threading.Thread(target=self._look_behind, args=(command,))
        command.looking.start()

    def _look_behind(self, command):
        command.wait()
        jobs = re.findall(r"(?m)^tfdist: job (\S+): (?:ended|confirmed)", command.err.read_text())
        command.left_behind = {job: self.world.tasks_of(job) for job in jobs}

    # --- the round --------------------------------------------------------------------------------------

    def run(self):
        self.diary.mkdir()
        self.diary.chmod(0o777)
        self.world.user.program = self.program
        self.file = self.world.user.write(f"{self.name}.toml", self._cluster())
        self.world.hide_processes(self.hidden)
        undo = []
        for strike in self.strikes:
            if strike.nemesis.prepare:
                strike.nemesis.prepare(self, strike.slot)
        try:
            began = time.monotonic()
            self.start_command("up", *(["-d"] if self.detached else []), self.file)
            self._strike_all([s for s in self.strikes if s.while_deploying], began, undo)
            self._wait_until_it_runs(undo)
            self._strike_all([s for s in self.strikes if not s.while_deploying], time.monotonic(), undo)
            self._undo(undo, until=None)
        finally:
            self._undo(undo, until=None)
            self.world.heal()
        self.note("healed")
        if self.life:  # each restart of all tasks has begun it anew
            self.end_it()
        promises.check(self)
        self.world.unmount_small_disks()

    def _strike_all(self, strikes, began, undo):
        for strike in strikes:
            self._undo(undo, until=began + strike.at)
            sleep_until(began + strike.at)
            self.note(f"{strike.nemesis.name}, slot {strike.slot}")
            if undoing := strike.nemesis.strike(self, strike.slot):
                undo.append((time.monotonic() + strike.lasts, strike, undoing))

    def _undo(self, undo, until):
        """What is due before `until`, each at its time; with None all of it."""
        for one in sorted(undo, key=lambda due: due[0]):
            due, strike, undoing = one
            if until is None or due <= until:
                sleep_until(due)
                undo.remove(one)
                self.note(f"undone: {strike.nemesis.name}")
                undoing()

    def _wait_until_it_runs(self, undo):
        """Until each trainer has begun, or it is clear that the job will not. A strike may stand in the way."""
        def clear():
            self._undo(undo, until=time.monotonic())
            started = {path.name.split(".")[0] for path in self.diary.glob("*.start")}
            ended = any(command.args_given[0] == "down" and command.poll() == 0 for command in self.commands)
            return all(task in started for tasks in TASKS.values() for task in tasks) or ended or \
                (self.cli.poll() is not None and (not self.detached or self.cli.returncode != 0))
        wait_for(clear, lambda: f"tasks run or `up` ends: {self.describe()}", END)

    def _cluster(self):
        hosts = self.world.hosts
        rows = [f'{{ address = "{h.address}", ssh = "{h.name}"{", spare = true" if n == SLOTS else ""} }}'
                for n, h in enumerate(hosts) if n < SLOTS or self.spare]
        host_lost = 5 if self.may("loses_host") else 11
        rules = "\n".join(f'{role} = {{ policy = "{policy}", {self.limits} }}'
                          for role, policy in promises.POLICIES.items())
        return f"""name = "{self.name}"
[cluster]
hosts = [{", ".join(rows)}]
layout = "uai"
ports = {{ worker = 2222, ps = 2223 }}
[task]
command = {toml_list(["python3", "-I", "-S", "task.py", str(self.diary)])}
workdir = "{self.world.program}"
{self.world.containers.settings(self.diary) if self.world.containers else ""}
gpus = 0
grace = "3s"
output = "{self.output}"
env = {{ CHAOS_SECONDS = "{self.seconds}", CHAOS_FAILS_AFTER = "{self.fails_after}", CHAOS_MARK = "{self.mark}", CHAOS_ENDS = '{json.dumps(self.ends)}' }}
[restart]
host_lost = "{host_lost}s"
on_host_lost = "{self.on_host_lost}"
{f'orphan_timeout = "{3 * host_lost}s"' if self.on_host_lost == "wait" else ""}
{rules}
[ssh]
config = "{hosts.ssh_config}"
"""

    # --- what is kept of a round that failed ----------------------------------------------------------

    def keep(self, folder):
        """Everything that may say why."""
        folder = pathlib.Path(folder) / self.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "story").write_text(self.describe() + "\n" + "\n".join(self.story) + "\n")
        shutil.copytree(self.diary, folder / "diary")
        shutil.copy(self.file, folder)
        for number, command in enumerate(self.commands):
            shutil.copy(command.out, folder / f"command{number}.out")
            shutil.copy(command.err, folder / f"command{number}.err")
        for slot, host in enumerate(self.world.hosts):
            for job in self.world.jobs(slot).glob(self.name + "-*"):
                shutil.copytree(job, folder / host.name / job.name, ignore=shutil.ignore_patterns("sock", "agent"))
        left = self.world.left(self.mark)
        (folder / "left").write_text("\n".join(f"{name}: {pid} {command}" for name, here in left.items() for pid, command in here))
        for name in ("status", "events", "why"):
            said = self.world.user.run(name, "--json", self.name)
            (folder / f"{name}.json").write_text(said.out + said.err)
        return folder

    def end_by_force(self):
        for command in self.commands:
            processes.kill(command.pid)
            command.wait()


def sleep_until(moment):
    """The one place where a round waits for a time: a strike has a moment, no condition."""
    time.sleep(max(moment - time.monotonic(), 0))
