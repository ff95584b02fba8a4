"""Rounds of scripts/chaos with seeds that stay the same."""

import os
import unittest

from tests.chaos import runner
from tests.hosts.hosts import check_possible


def setUpModule():
    check_possible()


class Chaos(unittest.TestCase):
    def test_every_promise_holds_in_every_round(self):
        """CHAOS_ROUNDS: how many; CHAOS_QUICK: without strikes that make a host count as lost, which takes 10 s each."""
        given = runner.arguments(["--seed", "1", "--rounds", os.environ.get("CHAOS_ROUNDS", "30"), "--at-once", "3"]
                                 + (["--quick"] if os.environ.get("CHAOS_QUICK") else []))
        self.assertEqual(runner.run(given), 0, "see above: each broken promise with its seed")


if __name__ == "__main__":
    unittest.main()
