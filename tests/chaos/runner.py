"""Rounds of faults at random against whole jobs on hosts of their own: scripts/chaos.

    runner.py [--seed N] [--rounds N] [--minutes M] [--only NEMESIS]... [--repeat N] [--at-once N] [--keep FOLDER]

Round i has the seed N + i. A round that breaks a promise prints its seed and keeps what there is to see; `--seed` runs it
again: the same job, the same strikes at the same moments, as far as processes of a machine do the same twice.
"""

import argparse
import collections
import signal
import sys
import threading
import time
import traceback

from tests.chaos.containers import ENGINES
from tests.chaos.nemeses import BY_NAME, nemeses_for
from tests.chaos.round import Round
from tests.chaos.world import World
from tests.support.tfdist import ROOT

ROUNDS_OF_A_WORLD = 50  # then new hosts: those of before have logs of many jobs


class Table:
    """What was tried, and what held."""

    def __init__(self):
        self.began = time.monotonic()
        self.struck = collections.Counter()
        self.together = collections.Counter()
        self.broken = []
        self.times = []
        self.lock = threading.Lock()
        self.stop = False

    def next_of(self, seeds, given):
        with self.lock:
            late = given.minutes and time.monotonic() - self.began > 60 * given.minutes
            return None if late or self.stop else next(seeds, None)

    def add(self, round, seconds, failure):
        self.times.append(seconds)
        self.together[len(round.strikes)] += 1
        self.struck.update(strike.nemesis.name for strike in round.strikes)
        if failure:
            self.broken.append((round.seed, failure))
        if len(self.times) % 50 == 0:
            print(f"{len(self.times)} rounds, {len(self.broken)} broke a promise; seed {round.seed}", flush=True)

    def print(self):
        rounds = len(self.times)
        if not rounds:
            return
        print(f"\n{rounds} rounds in {time.monotonic() - self.began:.0f} s, median {sorted(self.times)[rounds // 2]:.1f} s; "
              + ", ".join(f"{count} with {strikes}" for strikes, count in sorted(self.together.items())) + " strikes")
        for name in BY_NAME:
            if self.struck[name]:
                print(f"  {self.struck[name]:5}  {name}")
        print(f"rounds that broke a promise: {len(self.broken)}")
        for seed, failure in self.broken:
            print(f"  seed {seed}: {failure}")


def arguments(words=None):
    parser = argparse.ArgumentParser(prog="scripts/chaos")
    parser.add_argument("--seed", type=int, help="of the first round; by default the time")
    parser.add_argument("--rounds", type=int, help="by default 30, with --seed 1, with --minutes as many as there is time for")
    parser.add_argument("--minutes", type=float, help="no new round begins after so long")
    parser.add_argument("--only", action="append", default=[], choices=BY_NAME,
                        metavar="NEMESIS", help="draw from these alone: " + ", ".join(BY_NAME))
    parser.add_argument("--engine", choices=ENGINES, help="run the tasks in containers, with this engine on each host")
    parser.add_argument("--life", type=float, metavar="SECONDS", help="let each job run for SECONDS, with a strike every 6 s")
    parser.add_argument("--quick", action="store_true", help="no strike makes a host count as lost: that takes 10 s each")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run each seed N times")
    parser.add_argument("--at-once", type=int, default=1, help="rounds side by side, each on hosts of its own")
    parser.add_argument("--keep", default=str(ROOT / "build/chaos"), help="where failed rounds leave what there is to see")
    parser.add_argument("--verbose", action="store_true", help="say each round's plan before it begins")
    given = parser.parse_args(words)
    if given.rounds is None:
        given.rounds = 10 ** 9 if given.minutes else 1 if given.seed is not None else 30
    if (given.quick or given.life) and not given.only:
        given.only = [nemesis.name for nemesis in nemeses_for(given.engine) if not nemesis.effects.loses_host
                      and not (given.life and nemesis.effects.may_end)]
    if given.seed is None:
        given.seed = int(time.time())
    return given


def one_round(world, seed, again, given, table):
    """Whether all held."""
    began, failure = time.monotonic(), None
    round = Round(world, seed, given.only, again, given.life)
    if given.verbose:
        print(round.describe(), flush=True)
    try:
        round.run()
    except AssertionError as error:
        failure = str(error).splitlines()[0][:300]
        print(f"BROKEN {round.describe()}\n  {error}", flush=True)
    except Exception:  # of the runner, or a command that did not answer in time: a failure as well
        failure = traceback.format_exc().splitlines()[-1][:300]
        print(f"BROKEN {round.describe()}\n{traceback.format_exc()}", flush=True)
    if failure:
        with_engine = f" --engine {given.engine}" if given.engine else ""
        print(f"  kept in {round.keep(given.keep)}\n  again: scripts/chaos --seed {seed}{with_engine}", flush=True)
        round.end_by_force()
    table.add(round, time.monotonic() - began, failure)
    return failure is None


def rounds_of_a_thread(seeds, given, table):
    """Until no seed is left. Hosts end with the thread that has started them, so each thread has its own."""
    world, in_this_world = None, 0
    try:
        while (drawn := table.next_of(seeds, given)) is not None:
            if world is None:
                with table.lock:  # looks for a network that nobody has
                    world, in_this_world = World(given.engine), 0
            held = one_round(world, *drawn, given, table)
            in_this_world += 1
            if not held or in_this_world == ROUNDS_OF_A_WORLD:
                world.close()
                world = None
    except BaseException:
        table.broken.append((0, traceback.format_exc()))
        raise
    finally:
        if world:
            world.close()


def run(given):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a script
    table = Table()
    seeds = ((given.seed + i, again) for i in range(given.rounds) for again in range(given.repeat))
    threads = [threading.Thread(target=rounds_of_a_thread, args=(seeds, given, table)) for _ in range(given.at_once)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        table.stop = True  # after the rounds that are under way
        for thread in threads:
            thread.join()
    table.print()
    return 1 if table.broken else 0


if __name__ == "__main__":
    sys.exit(run(arguments()))
