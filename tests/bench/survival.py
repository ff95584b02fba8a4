"""Trainings that lose tasks and go on: scripts/bench survival.

    survival.py [--times N] [--only KIND] [--seed S]

The digits on four hosts (slots of this machine, by `tfdist up`): a parameter server and a trainer on each, which writes
checkpoints into its own work folder. In each run SIGKILL strikes at a random moment: a worker, a server, the chief, all
servers at once. Each run must end with exit code 0, with an accuracy as of runs that nothing has struck (at most two
samples of 360 below the worst of them), and must say how many steps are lost: at most what lies between two checkpoints,
and what is trained while one is written.
"""

import argparse
import random
import re
import sys
import time

from tests.support import clusters, processes
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

HOSTS = 4
STEPS = 12_000
EVERY = 1_000
TWO_SAMPLES = 2 / 360
COMMAND = ["{runtime}", "--data", "digits", "--model", "mlp", "--steps", str(STEPS), "--eval-every", "100",
           "--checkpoint-dir", "run", "--checkpoint-steps", str(EVERY)]
VICTIMS = {
    "nothing": lambda chance: [],
    "a worker": lambda chance: [f"worker:{chance.randrange(HOSTS - 1)}"],
    "a server": lambda chance: [f"ps:{chance.randrange(HOSTS)}"],
    "the chief": lambda chance: ["master:0"],
    "all servers at once": lambda chance: [f"ps:{i}" for i in range(HOSTS)],
}


class Run:
    """One training. `lost`: the number of steps that it says are lost, None where it says nothing of the kind."""

    def __init__(self, victims, chance):
        with Tfdist("survival") as user:
            text = clusters.local("digits", COMMAND, slots=HOSTS, task_extra=f'workdir = "{ROOT / "configs/data"}"')
            self.up = user.start("up", user.write("digits.toml", text))
            if victims:
                self.strike(user, victims, chance)
            self.code = self.up.wait(300)
            self.said = self.up.out.read_text() + self.up.err.read_text()
        self.accuracy = float((re.findall(r"final: .*test accuracy ([0-9.]+)", self.said) or ["0"])[-1])
        self.saved = [int(step) for step in re.findall(r"\| checkpoint run/ckpt-\d+: step (\d+),", self.said)]
        lost = re.findall(r"(no step is lost|\d+ steps are lost)", self.said)
        self.lost = None if not lost else sum(int(number) for number in re.findall(r"(\d+) steps are", " ".join(lost)))
        self.joined = re.search(r"\| worker:\d joins at step [1-9]", self.said) is not None

    def strike(self, user, victims, chance):
        """At a step, and up to 0.2 s later: at any moment of what a task does."""
        pause = 0.2 * chance.random()
        self.wait_for_step(chance.randrange(100, STEPS * 2 // 3))
        pids = [user.task_pid(victim) for victim in victims]
        time.sleep(pause)
        assert self.up.poll() is None, "the training was over before the strike"
        for pid in pids:
            processes.kill(pid)

    def wait_for_step(self, step):
        def reached():
            assert self.up.poll() is None, self.up.err.read_text()
            return any(int(number) >= step for number in re.findall(rb"\| step (\d+),", self.up.out.read_bytes()))

        wait_for(reached, f"step {step}", 120)

    def longest_interval(self):
        """Steps between two checkpoints that follow one another, or before the first."""
        steps = [0, *self.saved]
        return max((later - earlier for earlier, later in zip(steps, steps[1:])), default=EVERY)


def check(kind, run, worst):
    problems = [] if run.code == 0 else [f"exit code {run.code}"]
    if run.accuracy < worst - TWO_SAMPLES:
        problems.append(f"accuracy {run.accuracy:.4f}, undisturbed at least {worst:.4f}")
    if kind == "a worker" and not run.joined:
        problems.append("the worker did not come back")
    if kind in ("a server", "the chief", "all servers at once"):
        if run.lost is None:
            problems.append("does not say how many steps are lost")
        elif run.lost > max(EVERY, run.longest_interval()):
            problems.append(f"{run.lost} steps lost, {run.longest_interval()} between two checkpoints")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="runs of each kind (default: 10)")
    parser.add_argument("--only", choices=list(VICTIMS)[1:], help="of the disturbed ones this kind alone")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of victims and moments")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}; {STEPS} steps, a checkpoint every {EVERY}\n")
    print("| SIGKILL of | runs | exit code 0 | accuracy | steps lost |\n| --- | --- | --- | --- | --- |")
    worst, failed = 1.0, []
    for kind, victims in VICTIMS.items():
        if arguments.only and kind not in ("nothing", arguments.only):
            continue
        runs = [Run(victims(chance), chance) for _ in range(arguments.times)]
        accuracies = [run.accuracy for run in runs]
        if kind == "nothing":
            worst = min(accuracies)
        lost = sorted(run.lost for run in runs if run.lost is not None)
        print(f"| {kind} | {len(runs)} | {sum(run.code == 0 for run in runs)} | {min(accuracies):.4f} to "
              f"{max(accuracies):.4f} | {', '.join(map(str, lost)) or '-'} |", flush=True)
        for number, run in enumerate(runs):
            problems = check(kind, run, worst)
            failed += [f"{kind}, run {number}: {'; '.join(problems)}\n{run.said[-3000:]}"] if problems else []
    print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
