"""configs/tensorflow/estimator: train_and_evaluate in the layout uai."""

import unittest

from tests.support import environments
from tests.tensorflow import jobs


def setUpModule():
    jobs.setUpModule()
    if not environments.has_estimator():
        raise unittest.SkipTest(f"{environments.tensorflow().installed()} has no Estimator: 2.15 is the last that has")


class Estimator(jobs.TensorFlowJobs):
    def test_master_workers_and_servers_on_four_hosts(self):
        out = self.train(self.start_hosts(4), "estimator/master.toml")
        self.assertRegex(out, r"master:0 +\| test accuracy")
        # All three train, each begins 5 s after the one before.
        self.assertRegex(out, r"worker:2 \| .*Loss for final step|worker:2 \| .*Skipping training")

    def test_a_chief_with_an_evaluator_beside_the_cluster(self):
        out = self.train(self.start_hosts(4), "estimator/chief_and_evaluator.toml")
        self.assertRegex(out, r"chief:0 +\| test accuracy")
        self.assertRegex(out, r"evaluator:0 +\| .*Saving dict for global step \d+: accuracy = 0\.")
