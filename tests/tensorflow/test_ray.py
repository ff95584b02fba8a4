"""configs/ray: a head, workers and a driver from one cluster file."""

import json

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

    def test_symmetric_run_is_one_command_on_all_hosts(self):
        """Each worker fails some time after its head has ended: `done` says whose end is the job's."""
        hosts = self.start_hosts(3, own_network=True)
        wrapper = "mkdir -p bin && printf '#!/bin/sh\\nexec python3 -m ray.scripts.scripts \"$@\"\\n' >bin/ray && chmod +x bin/ray && PATH=$PWD/bin:$PATH"
        run = ("exec ray symmetric-run --address {chief:0.address} --min-nodes 3 --num-cpus=1 --object-store-memory=100000000"
               " -- env RAY_ADDRESS={chief:0.address} python3 ray/train.py --nodes=3")
        out = self._train(self.user.write("cluster.toml", f"""
name = "symmetric"
done = "chief"
[cluster]
hosts = [{", ".join(f'"{host.address}"' for host in hosts)}]
layout = "mirrored"
chief_name = "chief"
ports = {{ chief = 6379, worker = 6379 }}
[task]
gpus = 0
workdir = {json.dumps(str(jobs.CONFIGS))}
env = {{ PYTHONPATH = "tensorflow/common", RAY_USAGE_STATS_ENABLED = "0", RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT = "300" }}
command = ["sh", "-c", {json.dumps(f"{wrapper}; {run}")}]
[ssh]
config = "{hosts.ssh_config}"
"""))
        self.assertRegex(out, r"chief:0 +\| trainers on 3 nodes")
        self.assert_nothing_left(hosts)
