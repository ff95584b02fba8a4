"""configs/ray: a head, workers and a driver from one cluster file."""

from tests.support import environments
from tests.tensorflow import jobs


def setUpModule():
    jobs.need(environments.RAY)


class Ray(jobs.TensorFlowJobs):
    enough_accuracy = 0.90  # a linear model
    examples = jobs.CONFIGS / "ray"
    workdir = '".."'

    @staticmethod
    def environment():
        return environments.RAY

    def test_a_driver_trains_on_three_hosts(self):
        # Ray listens on many ports of its own choice: each host has a network of its own. The environment's `ray` names the
        # Python that made it, which test hosts may not see.
        out = self.train(self.start_hosts(3, own_network=True), "cluster.toml",
                         ('"ray", "start"', '"python3", "-m", "ray.scripts.scripts", "start"'))
        self.assertRegex(out, r"driver:0 +\| trainers on 3 nodes")
