"""configs/jax, configs/mpi, configs/lightgbm and configs/dask: each one cluster file and one program."""

from tests.support import environments
from tests.tensorflow import jobs


def setUpModule():
    jobs.need(environments.FRAMEWORKS)


class Frameworks(jobs.TensorFlowJobs):
    enough_accuracy = 0.90  # linear models, few trees
    examples = jobs.CONFIGS
    workdir = '".."'

    @staticmethod
    def environment():
        return environments.FRAMEWORKS

    def test_jax_has_a_process_on_each_of_two_hosts(self):
        out = self.train(self.start_hosts(2), "jax/cluster.toml")
        self.assertRegex(out, r"worker:0 \| process 0 of 2: 2 devices in all\n")
        self.assertRegex(out, r"worker:1 \| process 1 of 2: 2 devices in all\n")

    def test_lightgbm_grows_one_model_on_two_hosts(self):
        out = self.train(self.start_hosts(2, own_network=True), "lightgbm/cluster.toml")
        self.assertRegex(out, r"worker:1 \| machine 1 of 2: 200 trees, ")

    def test_dask_has_a_worker_on_each_other_host(self):
        # Workers listen on ports of their own choice. The environment's `dask` names the Python that made it, which test hosts
        # may not see.
        out = self.train(self.start_hosts(3, own_network=True), "dask/cluster.toml",
                         ('"dask", "scheduler"', '"python3", "-m", "dask", "scheduler"'), ('"dask", "worker"', '"python3", "-m", "dask", "worker"'))
        self.assertRegex(out, r"driver:0 +\| shares on 2 workers\n")

    def test_mpi_adds_ranks_on_three_hosts_without_ssh_between_them(self):
        hosts = self.start_hosts(3, own_network=True)
        out = self.user.run("up", self.put_on(hosts, "mpi/cluster.toml"), seconds=jobs.SECONDS).expect(0).out
        self.assert_nothing_left(hosts)
        for rank, host in enumerate(hosts):
            self.assertRegex(out, rf"mpiexec:0 \| rank {rank} of 3 on {host.name}: the ranks add up to 3\n")
