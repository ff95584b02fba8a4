"""configs/tensorflow/parameter_server_strategy: a chief that coordinates, and an evaluator beside the cluster."""

from tests.tensorflow import jobs
from tests.tensorflow.jobs import setUpModule  # noqa: F401


class ParameterServerStrategy(jobs.TensorFlowJobs):
    def test_the_chief_ends_the_job(self):
        out = self.train(self.start_hosts(3), "parameter_server_strategy/cluster.toml")
        self.assertRegex(out, r"chief:0 +\| test accuracy")
        self.assertRegex(out, r"evaluator:0 +\| epoch-\d+: test accuracy 0\.")
