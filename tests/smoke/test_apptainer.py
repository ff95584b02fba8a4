"""Tasks in containers of apptainer: of a stand-in that looks at the command line (tests/support/apptainer)."""

import json
import pathlib
import shutil
import signal
import tempfile
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, engines, processes
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

NO_RESTARTS = '[restart]\nworker = "never"\n'
IMAGE = "/home/trainer/train.sif"
hosts = None


def sif(architecture="02", about=b"one"):
    """What tells a SIF file: a line for the kernel, the magic, a version, the architecture, an id."""
    return b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0") + b"SIF_MAGIC\0" + b"01\0" + architecture.encode() + b"\0" + about


def setUpModule():
    global hosts
    check_possible()
    programs = pathlib.Path(tempfile.mkdtemp(prefix="tfdist-programs-"))
    unittest.addModuleCleanup(shutil.rmtree, programs)
    programs.chmod(0o755)
    for program in pathlib.Path("/usr/bin").iterdir():
        if program.name not in ("docker", "podman"):
            (programs / program.name).symlink_to(program)
    shutil.copy(ROOT / "tests/support/apptainer", programs)
    hosts = Hosts(2, seen={"programs": programs}, sshd_lines=("SetEnv PATH=/run/programs",))
    hosts.start()
    unittest.addModuleCleanup(hosts.stop)


class Apptainer(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("apptainer")
        self.addCleanup(self.user.close)
        for host in hosts:
            (host.home / "train.sif").write_bytes(sif())
            (host.home / "apptainer-calls").unlink(missing_ok=True)

    def write(self, command, count=1, image=IMAGE, extra=""):
        return self.user.write("cluster.toml", clusters.over_ssh(
            "job", command, hosts[:count], layout="mirrored", ssh_config=hosts.ssh_config,
            task_extra=f'image = "{image}"\n{extra}') + NO_RESTARTS)

    def up(self, *args, **kwargs):
        return self.user.run("up", self.write(*args, **kwargs))

    def calls(self, host=0):
        return [json.loads(line) for line in (hosts[host].home / "apptainer-calls").read_text().splitlines()]

    def test_a_task_has_its_folder_variables_and_mounts(self):
        up = self.up(shell('echo "$(pwd) $TFDIST_TASK $WORD"; test $TFDIST_TASK = worker:0 || exit 7'), count=2,
                     extra='env = { WORD = "a\\n\\"b\\" $c" }\nmounts = ["/etc:/set:ro"]\n').expect(1)
        self.assertRegex(up.out, r'worker:1 \| /home/trainer/.*/work worker:1 a\nworker:1 \| "b" \$c\n')
        self.assertIn(f"worker:1 on {hosts[1].address}: exit code 7", up.err)
        trial, task = self.calls(host=1)  # where the task ran to its end: its failure may stop the other one before it begins
        self.assertEqual(task[:3], ["exec", "--cleanenv", "--no-home"])
        self.assertIn("--bind=/etc:/set:ro", task)
        self.assertIn(IMAGE, task)
        self.assertIn("container-trial", trial)
        self.assertNotIn("--nv", task)

    def test_an_entry_point_of_the_file_comes_before_the_command(self):
        self.assertIn("worker:0 | two words\n", self.up(["two", "words"], extra='entrypoint = "/bin/echo"\n').expect(0).out)

    def test_down_gives_it_its_grace_and_exec_visits_it(self):
        up = self.user.start("up", self.write(shell("trap 'echo told; exit 3' TERM; echo on; sleep 7777 & wait")))
        self.user.wait_for_output(up, b"on\n")
        visit = self.user.run("exec", "job", "worker:0", "--", "sh", "-c", "echo $TFDIST_TASK in $(pwd); exit 4")
        self.assertEqual(visit.code, 4, visit)
        self.assertRegex(visit.out, r"worker:0 in /home/trainer/.*/work\n")
        self.assertEqual(self.calls()[-1][-3:-1], ["sh", "-c"])
        self.assertIn("nothing is left", self.user.run("down").expect(0).err)
        up.wait(60)
        self.assertIn(b"| told\n", up.out.read_bytes())
        wait_for(lambda: not hosts[0].processes(), lambda: f"end of {hosts[0].processes()}")

    def test_nothing_is_left_where_its_holder_is_killed(self):
        up = self.user.start("up", self.write(shell("echo on; sleep 7777")))
        self.user.wait_for_output(up, b"on\n")
        [holder] = [process.pid for process in hosts[0].processes() if process.argv[:2] == ["tfdist-agent", "holder"]]
        processes.kill(holder, signal.SIGKILL)
        up.wait(60)
        self.assertIn("nothing is left", self.user.run("down").expect(0).err)
        wait_for(lambda: not hosts[0].processes(), lambda: f"end of {hosts[0].processes()}")

    def test_check_tells_of_it(self):
        self.assertRegex(self.user.run("check", self.write(["true"])).expect(0).out,
                         rf"(?m)^image: {IMAGE}\n  on {hosts[0].address}: apptainer 1.3.4, there already$")

    # --- what keeps it from starting ---

    def assert_refused(self, up, *words):
        self.assertEqual(up.code, 3, up)
        for word in (*words, "nothing was started"):
            self.assertIn(word, up.err)

    def test_what_is_wrong_with_an_image_is_named(self):
        (hosts[0].home / "text.sif").write_text("no image\n" * 100)
        (hosts[0].home / "arm.sif").write_bytes(sif("04"))
        makes = "`apptainer pull /path/train.sif docker://"
        self.assert_refused(self.up(["true"], image="/absent.sif"), "image /absent.sif: No such file or directory", makes)
        self.assert_refused(self.up(["true"], image="/home/trainer/text.sif"), "image /home/trainer/text.sif is no SIF file", makes)
        self.assert_refused(self.up(["true"], image="train:3"), "image train:3 is no SIF file", makes + "train:3`")
        self.assert_refused(self.up(["true"], image="/home/trainer/arm.sif"), "is for arm64, and this host is amd64")
        self.assert_refused(self.up(["nothing-here"]), "command 'nothing-here' of worker:0: not found in PATH=", f"in image {IMAGE}")

    def test_an_image_of_this_machine_is_refused_with_the_way_to_make_a_sif_file_of_it(self):
        engines.write_archive(self.user.folder / "train.tar", [engines.layer({"a": b"b"})])
        file = self.write(["true"], extra='engine = "apptainer"\n')
        text = pathlib.Path(file).read_text().replace(f'image = "{IMAGE}"', 'image = { archive = "train.tar" }')
        self.assert_refused(self.user.run("up", self.user.write("cluster.toml", text)),
                            "apptainer takes no image of docker's or podman's", "`apptainer build /path/train.sif docker-archive:train.tar`")

    def test_a_host_that_has_another_image_is_named(self):
        (hosts[1].home / "train.sif").write_bytes(sif(about=b"another"))
        self.assert_refused(self.up(["true"], count=2), f"image {IMAGE} is not the same on all hosts: ", f" on {hosts[1].address}")


if __name__ == "__main__":
    unittest.main()
