"""SIGKILL of the coordinator's agent again and again, while tasks fail and start again."""

import collections
import os
import unittest

from tests.chaos import promises
from tests.chaos.nemeses import BY_NAME, Nemesis
from tests.chaos.round import Round, Strike
from tests.chaos.world import World
from tests.hosts.hosts import check_possible
from tests.support import processes
from tests.support.waiting import wait_for

KILLS = int(os.environ.get("CHAOS_KILLS", "5"))
# One job's: the keeper starts the sixth agent in a row after a pause of seconds.
KILLS_OF_A_JOB = 5
SECONDS_OF_A_JOB = 6


def setUpModule():
    check_possible()


def kill_coordinator(round, slot):
    """The next one, if the keeper is about to start it."""
    pid, = wait_for(lambda: round.world.pids(slot, "agent"), "a coordinator to kill")
    round.note(f"SIGKILL {pid}")
    processes.kill(pid)
    wait_for(lambda: pid not in round.world.pids(slot, "agent"), "its end")


KILL = Nemesis("kill coordinator", kill_coordinator)


class KillsDuringRestarts(Round):
    """Two workers fail three times a second; parameter servers and the chief run on. `down` ends the job."""

    def _draw(self, only):
        self.seconds, self.fails_after = 600, 0.2
        self.limits = 'limit = 1000, backoff = "10ms", within = "1s"'
        self.spare, self.detached, self.output = False, True, "separate"
        self.ends = {"worker:0": [3] * 1000, "worker:1": [137] * 1000}
        kills = [Strike(KILL, 0, False, self.chance.uniform(0, SECONDS_OF_A_JOB), 0)
                 for _ in range(KILLS_OF_A_JOB)]
        self.strikes = sorted(kills, key=lambda kill: kill.at) + [Strike(BY_NAME["down"], 0, False, SECONDS_OF_A_JOB, 0)]
        self.effects = [strike.nemesis.effects for strike in self.strikes]


class Coordinator(unittest.TestCase):
    def test_nothing_is_touched_decided_twice_or_lost_when_it_is_killed_again_and_again(self):
        counted = collections.Counter()
        with World() as world:
            for seed in range(1, KILLS // KILLS_OF_A_JOB + 1):
                with self.subTest(seed=seed):
                    round = KillsDuringRestarts(world, seed)
                    round.run()  # and all that promises.py asks for
                    counted.update(self.look(round))
        print(f"{KILLS} kills: {dict(counted)}")

    def look(self, round):
        job, = promises.jobs_of(round)
        events = promises.events_of(round, job)
        starts = promises.read_diary(round.diary)
        by_task = collections.Counter(task for task, _ in starts)
        for task in ("ps:0", "ps:1", "ps:2", "master:0"):
            self.assertEqual(by_task[task], 1, f"{task} was touched: {by_task}")
        told = {"started": set(), "exited": set()}
        for fields in promises.kinds(events, "task"):
            told[fields["state"]].add((fields["task"], fields["run"]))
        # A run is ordered when the one before has been told: no start or exit is missing in between.
        for task in ("worker:0", "worker:1"):
            runs = sorted(run for name, run in told["started"] if name == task)
            self.assertEqual(runs, list(range(1, len(runs) + 1)))
            self.assertEqual(sorted(run for name, run in told["exited"] if name == task), runs)
            self.assertLessEqual(abs(by_task[task] - len(runs)), 1, "a start that nobody has told")
        decided = [(f["task"], f["run"]) for f in promises.kinds(events, "run")]
        self.assertEqual(len(decided), len(set(decided)), "decided twice")
        restarts = [f for f in promises.kinds(events, "host") if f["state"] == "agent-restarted" and f["slot"] == 0]
        self.assertGreaterEqual(len(restarts), 1)
        return {"coordinators that came back": len(restarts), "task restarts": len(decided), "events": len(events)}


if __name__ == "__main__":
    unittest.main()
