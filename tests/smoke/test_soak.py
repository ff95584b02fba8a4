"""Many rounds of what the other tests do once: only with scripts/test --long."""

import random
import unittest

from tests.smoke.test_faults import FaultsCase
from tests.support import processes

ROUNDS = 100


class Soak(FaultsCase):
    """SIGKILL to a random process of a job at a random moment: nothing is left, and the end is told."""

    def test_any_victim_at_any_time(self):
        chance = random.Random(20_260_801)
        for number in range(ROUNDS):
            role, slot = chance.choice(["keeper", "agent", "holder", "task"]), chance.randrange(2)
            with self.subTest(number=number, role=role, slot=slot):
                self.one_round(role, slot)

    def one_round(self, role, slot):
        self.gate.unlink(missing_ok=True)
        pids = self.start()
        if role == "task":
            processes.kill(pids[f"ps:{slot}"])
        else:
            self.kill(slot, role)
        if role == "agent":
            self.gate.touch()
        expected = "succeeded" if role == "agent" else "failed"
        self.user.wait_for_status(lambda s: s["state"] == expected, f"the job has {expected}")
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
