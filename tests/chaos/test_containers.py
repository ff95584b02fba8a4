"""Rounds of scripts/chaos with tasks in containers, with seeds that stay the same."""

import os
import unittest

from tests.chaos import runner
from tests.chaos.containers import ENGINES
from tests.hosts.hosts import check_possible
from tests.support import engines


def setUpModule():
    check_possible()
    engines.check_possible()


class Containers(unittest.TestCase):
    def test_every_promise_holds_with_each_engine(self):
        """CHAOS_ROUNDS: how many, with each."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                given = runner.arguments(["--seed", "1", "--rounds", os.environ.get("CHAOS_ROUNDS", "10"), "--engine", engine])
                self.assertEqual(runner.run(given), 0, "see above: each broken promise with its seed")


if __name__ == "__main__":
    unittest.main()
