"""configs/tensorflow/tf1: the classic trainer, told by flags who it is."""

from tests.tensorflow import jobs
from tests.tensorflow.jobs import setUpModule  # noqa: F401


class Tf1(jobs.TensorFlowJobs):
    def test_asynchronous(self):
        out = self.train(self.start_hosts(2), "tf1/async.toml")
        self.assertRegex(out, r"worker:0 \| final: step (19|20)\d\d,")
        self.assertRegex(out, r"worker:1 \| final: step (19|20)\d\d,")

    def test_sync_replicas(self):
        out = self.train(self.start_hosts(2), "tf1/sync.toml")
        self.assertRegex(out, r"worker:1 \| final: step (999|1000),")

    def test_servers_of_tfdist_for_a_program_that_starts_none(self):
        out = self.train(self.start_hosts(2), "tf1/async.toml",
                         ("[roles.ps]\n", '[roles.ps]\ncommand = ["{tensorflow_server}"]\n'))
        self.assertRegex(out, r"worker:0 \| final: step (19|20)\d\d,")
