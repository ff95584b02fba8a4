"""configs/pytorch: DistributedDataParallel over gloo, told by placeholders what torchrun would say, and by torchrun."""

from tests.support import environments
from tests.tensorflow import jobs


def setUpModule():
    jobs.need(environments.PYTORCH)


class PyTorch(jobs.TensorFlowJobs):
    examples = jobs.CONFIGS / "pytorch"
    workdir = '".."'

    @staticmethod
    def environment():
        return environments.PYTORCH

    def test_a_task_on_each_of_two_hosts(self):
        out = self.train(self.start_hosts(2), "ddp.toml")
        self.assertRegex(out, r"worker:0 \| rank 0 of 2")
        self.assertRegex(out, r"worker:1 \| rank 1 of 2")

    def test_torchrun_with_two_processes_on_each_of_two_hosts(self):
        out = self.train(self.start_hosts(2), "torchrun.toml")
        self.assertRegex(out, r"worker:1 \| rank 3 of 4")
