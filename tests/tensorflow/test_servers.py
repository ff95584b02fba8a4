"""configs/tensorflow/local_server and in_graph: plain servers, and a client that places work on them."""

from tests.tensorflow import jobs
from tests.tensorflow.jobs import setUpModule  # noqa: F401


class Servers(jobs.TensorFlowJobs):
    enough_accuracy = 0.90  # a linear model

    def test_two_servers_of_a_job_called_local_on_this_machine(self):
        self.train_here("local_server/cluster.toml")

    def test_one_client_places_its_graph_on_servers_of_two_hosts(self):
        out = self.train(self.start_hosts(2), "in_graph/cluster.toml")
        self.assertRegex(out, r"worker:1 +\| ready")
        self.assertRegex(out, r"chief:0 +\| test accuracy")
