"""configs/containers/tensorflow.toml: TensorFlow in containers of docker, and of podman without root. The image is nearly empty:
TensorFlow is that of the test's environment, which is mounted."""

import pathlib
import tempfile
import unittest

from tests.chaos.containers import make_tree
from tests.hosts.hosts import Hosts
from tests.support import engines, environments
from tests.tensorflow import jobs

IMAGE = "localhost/tensorflow:2.15.0"


def setUpModule():
    jobs.setUpModule()
    engines.check_possible()
    if not environments.has_estimator():
        raise unittest.SkipTest(f"{environments.tensorflow().installed()} has no Estimator: 2.15 is the last that has")


class Containers(jobs.TensorFlowJobs):
    examples = jobs.CONFIGS / "containers"
    workdir = '".."'

    def start_hosts(self, count, **options):
        """With home folders of their own, in which engines keep their images, and one account, as on a cluster with NFS."""
        hosts = Hosts(count, seen={jobs.SEEN_AS: self.environment().folder}, **options)
        for host in hosts:
            host.uid = hosts[0].uid
        hosts.start()
        self.addCleanup(hosts.stop)
        return hosts

    def train_with(self, engine, prepare):
        with tempfile.TemporaryDirectory(prefix="tfdist-volume-", dir="/var/tmp") as shared:
            pathlib.Path(shared).chmod(0o777)
            hosts = self.start_hosts(4)
            archive = pathlib.Path(shared, "image.tar")
            with tempfile.TemporaryDirectory() as folder:
                engines.write_archive(archive, [engines.layer(tree=make_tree(pathlib.Path(folder, "tree")))], name=IMAGE)
            for host in hosts:
                prepare(host)
                engines.ask(host, engine, "load", "--quiet", "--input", engines.handed_over(host, archive, "image.tar"))
            venv = f"/run/{jobs.SEEN_AS}"
            self.train(hosts, "tensorflow.toml", ("tensorflow/tensorflow:2.15.0", IMAGE),
                       ('command = ["python3"', f'engine = "{engine}"\nmounts = ["/usr:/usr:ro", "{venv}:{venv}:ro"]\n'
                                                f'command = ["{venv}/bin/python3"'),
                       ('"/home/trainer"', f'"{shared}"'))
            for host in hosts:
                self.assertEqual(engines.ask(host, engine, "ps", "--all", "--quiet"), "")

    def assert_nothing_left(self, hosts):
        """The engines' own processes stay."""

    def test_estimator_in_docker(self):
        self.train_with("docker", engines.start_docker)

    def test_estimator_in_podman(self):
        self.train_with("podman", engines.prepare)


if __name__ == "__main__":
    unittest.main()
