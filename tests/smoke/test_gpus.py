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

    def test_numbers_mean_what_nvidia_smi_means_by_them(self):
        """CUDA counts from the fastest card on, unless it is told otherwise."""
        self.host_has_gpus(2)
        result = self.user.run("up", "--no-workdir", "-H", "localhost:2", "--", "printenv", "CUDA_DEVICE_ORDER").expect(0)
        self.assertEqual(sorted(result.out.splitlines()), ["worker:0 | PCI_BUS_ID", "worker:1 | PCI_BUS_ID"])

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

    def up_here(self, slots):
        return self.user.run("up", "--no-workdir", "-H", f"localhost:{slots}", "--", *SHOW)

    def test_slots_of_the_command_line_share_what_the_host_has(self):
        self.host_has_gpus(4)
        result = self.up_here(2).expect(0)
        self.assertIn("worker:1 sees 2,3\n", result.out)
        self.host_has_gpus(1)
        result = self.up_here(2)
        self.assertEqual(result.code, 3, result)
        self.assertEqual(result.err.count("2 tasks that use GPUs are to share those of this host, and it has 1"), 1, result)
        self.host_has("echo 'No devices were found'; exit 6")
        self.up_here(2).expect(0)

    def test_tasks_of_the_command_line_share_one_gpu(self):
        self.host_has_gpus(1)
        result = self.user.run("up", "--no-workdir", "-H", "localhost:2", "--set", "cluster.gpus=[0, 0]", "--", *SHOW).expect(0)
        for task in (0, 1):
            self.assertIn(f"worker:{task} sees 0\n", result.out)

    def test_gpus_are_given_by_their_uuids(self):
        self.host_has_gpus(2)
        self.assertIn("worker:0 sees GPU-1\n", self.up(count=1, extra='gpus = ["GPU-1"]').expect(0).out)
        self.assertIn("worker:0 is to use GPU GPU-7, which this host does not have: it has 2 GPUs (GPU-0, GPU-1)",
                      self.up(count=1, extra='gpus = ["GPU-7"]').expect(3).err)

    @unittest.skipIf(shutil.which("nvidia-smi") or os.path.exists("/proc/driver/nvidia"), "this machine has NVIDIA's tools")
    def test_amds_gpus_are_divided_by_the_variable_of_their_runtime(self):
        lines = "".join(f"GPU[{number}]\\t\\t: Card Series: \\t\\tAMD Instinct MI250X\\n" for number in range(4))
        path = self.user.write("bin/rocm-smi", f"#!/bin/sh\n[ \"$*\" = --showproductname ] && printf '{lines}'\n")
        os.chmod(path, 0o755)
        self.user.env["PATH"] = f"{self.user.folder}/bin:{os.environ['PATH']}"
        show = "echo \"$TFDIST_TASK sees ${ROCR_VISIBLE_DEVICES-all}, HIP ${HIP_VISIBLE_DEVICES-all}, CUDA ${CUDA_VISIBLE_DEVICES-all}\""
        for extra, slots, seen in (("", 2, "2,3, HIP all, CUDA all"), ("task.gpus=[1]", 1, "1, HIP all, CUDA all"), ("task.gpus=0", 1, "all, HIP -1, CUDA all")):
            words = ["--set", extra] if extra else []
            result = self.user.run("up", "--no-workdir", "-H", f"localhost:{slots}", *words, "--", "sh", "-c", show).expect(0)
            self.assertIn(f"worker:{slots - 1} sees {seen}\n", result.out)
        self.assertRegex(self.user.run("check", "--no-workdir", "-H", "localhost", "--", "true").out, r"localhost +ok .* 4 ")

    def test_a_listed_gpu_that_the_host_does_not_have_is_an_error_before_anything_runs(self):
        self.host_has_gpus(1)
        result = self.up(count=1, extra="gpus = [1]")
        self.assertEqual(result.code, 3, result)
        self.assertIn("worker:0 is to use GPU 1, which this host does not have: it has 1 GPU (0)", result.err)
        self.assertNotIn("sees", result.out)

    def without_tools(self):
        """A host on whose PATH no program lists GPUs."""
        folder = self.user.folder / "tools"
        folder.mkdir()
        for name in ("sh", "ls", "cat", "mkdir", "uname", "stat", "sleep", "id", "rm", "env"):
            os.symlink(shutil.which(name), folder / name)
        self.user.env["PATH"] = str(folder)

    @unittest.skipIf(os.path.exists("/proc/driver/nvidia"), "this machine has a GPU")
    def test_listed_gpus_of_a_host_without_any_are_an_error_before_anything_runs(self):
        self.without_tools()
        for wanted in ("gpus = [0]", "gpus = 1", 'gpus = ["GPU-1"]'):
            result = self.up(count=1, extra=wanted).expect(3)
            self.assertRegex(result.err, r"localhost: gpus: worker:0 is to use GPU (0|GPU-1), and no GPU is found on this host: "
                                         r"there is no /proc/driver/nvidia/gpus, and neither nvidia-smi nor rocm-smi in PATH=.*/tools\n")
            self.assertIn("try: if it has one, put the folder of nvidia-smi or rocm-smi into the PATH of its login shell; "
                          "to compute on the CPU, write gpus = 0 (--set task.gpus=0)\n", result.err)
            self.assertNotIn("sees", result.out)
            self.assertRegex(self.user.run("check", "cluster.toml").expect(3).out, r"error: localhost: gpus: worker:0 is to use GPU (0|GPU-1), and no GPU is found")
        self.host_has("echo 'No devices were found'; exit 6")
        self.assertIn("no GPU is found on this host: nvidia-smi finds none\n", self.up(count=1, extra="gpus = 1").expect(3).err)
        for none in ("gpus = []", "gpus = 0", 'gpus = "auto"'):
            self.up(count=1, extra=none).expect(0)

    def test_a_restart_finds_the_gpu_that_has_gone(self):
        self.host_has_gpus(1)
        self.user.write("cluster.toml", f"""
name = "gone"
[cluster]
hosts = [{{ address = "localhost", gpus = [0] }}]
ports = {{ worker = {clusters.free_ports(1)}, ps = {clusters.free_ports(1)} }}
[task]
command = ["sleep", "3600"]
[restart]
worker = {{ policy = "task", limit = 1, backoff = "100ms" }}
""")
        self.user.run("up", "-d", "cluster.toml").expect(0)
        self.host_has("echo 'No devices were found'; exit 6")
        restarted = self.user.run("restart", "gone").expect(1)
        self.assertIn("master:0 is to use GPU 0, and no GPU is found on this host: nvidia-smi finds none", restarted.out)
        self.user.run("wait", "gone").expect(1)

    def test_a_host_without_gpus_sets_nothing(self):
        self.host_has("echo 'No devices were found'; exit 6")
        result = self.up()
        self.assertEqual(result.code, 0, result)
        self.assertIn("worker:1 sees all\n", result.out)

    MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"

    def test_a_failing_nvidia_smi_stops_a_job_that_may_use_gpus_in_its_own_words(self):
        self.host_has(f"echo '{self.MISMATCH}'; exit 18")
        for count in (1, 2):
            result = self.up(count)
            self.assertEqual(result.code, 3, result)
            self.assertIn(f"nvidia-smi: {self.MISMATCH}\n", result.err)
            self.assertIn("or write gpus = 0", result.err)
        check = self.user.run("check", "cluster.toml")
        self.assertEqual(check.code, 3, check)
        self.assertIn(f"nvidia-smi: {self.MISMATCH}\n", check.out)
        self.assertEqual(self.up(extra="gpus = 0").code, 0)

    @unittest.skipIf(os.path.exists("/proc/driver/nvidia"), "this machine has a GPU")
    def test_a_machine_without_a_card_may_have_the_program(self):
        self.host_has("echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9")
        result = self.up()
        self.assertEqual(result.code, 0, result)

    def test_a_warning_of_nvidia_smi_is_no_gpu(self):
        warning = "WARNING: infoROM is corrupted at gpu 0000:C1:00.0"
        for code in (0, 14):
            self.host_has("printf 'GPU 0: NVIDIA A100 (UUID: GPU-0)\\nGPU 1: NVIDIA A100 (UUID: GPU-1)\\n'; "
                          f"echo '{warning}'; exit {code}")
            result = self.up()
            self.assertEqual(result.code, 0, result)
            self.assertIn("worker:1 sees 1\n", result.out)
            check = self.user.run("check", "cluster.toml")
            self.assertEqual(check.code, 0, check)
            self.assertIn(warning, check.out)
            self.assertRegex(check.out, r"localhost +ok .* 2 ")
            init = self.user.run("init", "localhost")
            self.assertIn("2 x NVIDIA A100", init.out + init.err)

    def test_slices_of_a_divided_gpu_are_shared_out(self):
        slices = "".join(f"  MIG 1g.10gb     Device  {number}: (UUID: MIG-{number})\\n" for number in range(4))
        self.host_has(f"printf 'GPU 0: NVIDIA H100 (UUID: GPU-0)\\n{slices}'")
        result = self.up(count=4)
        self.assertEqual(result.code, 0, result)
        for number in range(4):
            self.assertIn(f"worker:{number} sees MIG-{number}\n", result.out)

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
        os.chmod(self.user.write("tools/nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-0)'\n"), 0o755)
        self.user.env["PATH"] = f"{self.user.folder}/tools:{os.environ['PATH']}"

    def add_runtime(self, name, device, first=""):
        """`first`: what it does before it says so."""
        os.chmod(self.user.write(f"bin/{name}", f'#!/bin/sh\n{first}\necho "$TFDIST_TASK runs on a $1: {device}"\n'), 0o755)

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
        # Servers end with the master, however little they have said by then: it waits until this one begins its line.
        begun = self.user.folder / "begun"
        self.add_runtime("tfdist-runtime", "CPU", first=f"trap '' TERM; : > {begun}")
        self.add_runtime("tfdist-runtime-cuda", "GPU",
                         first=f"for i in $(seq 600); do [ -e {begun} ] && break; sleep 0.1; done")
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
