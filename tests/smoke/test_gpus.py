"""GPUs that the cluster file does not list: counted on the host, and divided among its tasks."""

import os
import shutil
import unittest

from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist

SHOW = ["sh", "-c", "echo \"$TFDIST_TASK sees ${CUDA_VISIBLE_DEVICES-all}\""]


class Gpus(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("gpus")
        self.addCleanup(self.user.close)

    def host_has(self, script):
        """What tasks and agents find as nvidia-smi."""
        path = self.user.write("bin/nvidia-smi", f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        self.user.env["PATH"] = f"{self.user.folder}/bin:{os.environ['PATH']}"

    def host_has_gpus(self, count):
        lines = "".join(f"GPU {number}: NVIDIA H100 (UUID: GPU-{number})\\n" for number in range(count))
        self.host_has(f"[ \"$*\" = -L ] && printf '{lines}'")

    def up(self, count=2, extra=""):
        """A worker in each of `count` slots of this machine: an agent each."""
        return self.user.run("up", self.user.write("cluster.toml", f"""
name = "gpus"
[cluster]
layout = "mirrored"
hosts = [{{ address = "localhost", slots = {count} }}]
ports = {{ worker = {clusters.free_ports(count)} }}
[task]
command = {clusters.toml_list(SHOW)}
{extra}
"""))

    def test_they_are_divided_evenly_in_order_of_tasks(self):
        self.host_has_gpus(4)
        result = self.up()
        self.assertEqual(result.code, 0, result)
        self.assertIn("worker:0 sees 0,1\n", result.out)
        self.assertIn("worker:1 sees 2,3\n", result.out)

    def test_fewer_than_tasks_is_an_error_before_anything_runs(self):
        self.host_has_gpus(2)
        result = self.up(count=3)
        self.assertEqual(result.code, 3, result)
        self.assertIn("3 tasks that use GPUs are to share those of this host, and it has 2", result.err)
        self.assertNotIn("sees", result.out)

    def test_a_host_without_gpus_sets_nothing(self):
        self.host_has("echo 'No devices were found'; exit 6")
        result = self.up()
        self.assertEqual(result.code, 0, result)
        self.assertIn("worker:1 sees all\n", result.out)

    def test_zero_is_said_by_the_user(self):
        self.host_has_gpus(2)
        result = self.up(extra="gpus = 0")
        self.assertEqual(result.code, 0, result)
        self.assertIn("worker:1 sees \n", result.out)


class RuntimeChoice(unittest.TestCase):
    """A tfdist with runtimes of its own beside it, which say what they are."""

    def setUp(self):
        self.user = Tfdist("runtimes")
        self.addCleanup(self.user.close)
        os.mkdir(self.user.folder / "bin")
        shutil.copy(BIN / "tfdist", self.user.folder / "bin/tfdist")
        self.user.program = self.user.folder / "bin/tfdist"
        self.add_runtime("tfdist-runtime", "CPU")

    def add_runtime(self, name, device):
        os.chmod(self.user.write(f"bin/{name}", f'#!/bin/sh\necho "$TFDIST_TASK runs on a $1: {device}"\n'), 0o755)

    def cluster(self, task_extra=""):
        return self.user.write("cluster.toml", f"""
name = "choice"
[cluster]
hosts = [{{ address = "localhost", gpus = [0] }}]
ports = {{ worker = {clusters.free_ports(1)}, ps = {clusters.free_ports(1)} }}
[task]
command = ["{{runtime}}", "device"]
{task_extra}
""")

    def test_tasks_with_gpus_run_the_one_for_gpus(self):
        self.add_runtime("tfdist-runtime-cuda", "GPU")
        result = self.user.run("up", self.cluster())
        self.assertEqual(result.code, 0, result)
        self.assertIn("master:0 runs on a device: GPU", result.out)
        self.assertIn("ps:0 runs on a device: CPU", result.out)
        self.assertNotIn("idle", result.err)

    def test_without_it_they_run_the_other_and_a_warning_says_so(self):
        result = self.user.run("up", self.cluster())
        self.assertEqual(result.code, 0, result)
        self.assertIn("master:0 runs on a device: CPU", result.out)
        self.assertIn("warning: the GPUs of master:0 stay idle: there is no tfdist-runtime-cuda", result.err)

    def test_a_job_without_gpus_does_not_send_it(self):
        self.add_runtime("tfdist-runtime-cuda", "GPU")
        result = self.user.run("up", self.cluster("gpus = 0"))
        self.assertEqual(result.code, 0, result)
        self.assertIn("master:0 runs on a device: CPU", result.out)
        self.assertNotIn("GPU", result.out)
