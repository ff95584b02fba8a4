"""configs/tensorflow/mirrored: Keras with MultiWorkerMirroredStrategy."""

import json

from tests.tensorflow import jobs
from tests.tensorflow.jobs import setUpModule  # noqa: F401


class Mirrored(jobs.TensorFlowJobs):
    def test_two_hosts(self):
        out = self.train(self.start_hosts(2), "mirrored/two_hosts.toml")
        self.assertIn("worker:1 | 2 replicas", out)

    def test_four_hosts(self):
        out = self.train(self.start_hosts(4), "mirrored/four_hosts.toml")
        self.assertIn("worker:3 | 4 replicas", out)

    def test_two_workers_on_this_machine_without_a_word_about_gpus(self):
        example = "mirrored/this_machine.toml"
        self.assertNotIn("gpus", (jobs.EXAMPLES / example).read_text())
        out = self.train_here(example, ('"/tmp"', json.dumps(str(self.user.folder))))
        self.assertIn("worker:1 | 2 replicas", out)
