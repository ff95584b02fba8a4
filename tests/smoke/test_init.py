"""`tfdist init`: looks at hosts, and writes a cluster file that `check` and `up` take as it is."""

import os
import subprocess
import tomllib
import unittest

from tests.hosts.hosts import check_possible
from tests.smoke.test_check import Checked


def setUpModule():
    check_possible()


class Init(Checked):
    def init(self, hosts, *args, code=0, names=None):
        result = self.user.run("init", "-F", str(hosts.ssh_config), *(names or [host.name for host in hosts]), *args)
        self.assertEqual(result.code, code, result)
        return result

    def test_hosts_may_stand_after_the_option_of_other_commands(self):
        hosts = self.start_hosts(3)
        text = self.init(hosts, "-H", "h1,h2", names=["h3"]).out
        self.assertEqual(tomllib.loads(text)["cluster"]["hosts"], ["h3", "h1", "h2"])

    def test_a_python_that_is_not_there_is_named(self):
        text = self.init(self.start_hosts(1), "--", "~/venv/bin/python", "train.py").out
        self.assertRegex(text, r'(?m)^  "h1",  # no GPU; no ~/venv/bin/python$')

    def test_the_file_passes_check_and_runs(self):
        hosts = self.start_hosts(3)
        hosts[2].refuse_key()
        file = str(self.user.folder / "cluster.toml")
        said = self.init(hosts, "-o", file, "--name", "digits", "--", "sh", "-c", "echo rank {rank} of {world_size}", code=3).err
        self.assertIn("tfdist: h3: authentication: the host does not let trainer in", said)
        self.assertIn(f"tfdist: wrote {file}: 2 of 3 hosts; tfdist check {file}\n", said)
        text = (self.user.folder / "cluster.toml").read_text()
        value = tomllib.loads(text)
        self.assertEqual((value["name"], value["cluster"]["hosts"]), ("digits", ["h1", "h2"]))
        self.assertRegex(text, r'(?m)^  "h1",  +# no GPU; (no python3|Python 3\.\d+\.\d+.*(without tensorflow|, tensorflow .+))$')
        self.assertRegex(text, r'(?m)^  # "h3",  # left out: authentication: the host does not let trainer in')
        network = hosts[0].address.rsplit(".", 1)[0] + ".0/24"
        self.assertRegex(text, rf"(?m)^# Among themselves they use {network} \(eth0, .*\)\.$")
        self.assert_clean(hosts)
        code, said = self.check(file)
        self.assertEqual((code, said["error_count"], said["warning_count"]), (0, 0, 0), said)
        up = self.user.run("up", file)
        self.assertEqual(up.code, 0, up)
        self.assertIn("worker:1 | rank 1 of 2\n", up.out)
        again = self.init(hosts, "-o", file, code=2).err
        self.assertIn(f"{file} exists", again)
        self.assertEqual((self.user.folder / "cluster.toml").read_text(), text)

    def test_names_that_hosts_do_not_know_become_addresses(self):
        hosts = self.start_hosts(2)
        for host in hosts:
            self.edit(host, lambda _: "127.0.0.1 localhost\n")
        (self.user.folder / "train.py").write_text("print('trained')\n")
        result = self.init(hosts)
        value = tomllib.loads(result.out)
        self.assertEqual(value["cluster"]["hosts"], [{"address": host.address, "ssh": host.name} for host in hosts])
        self.assertEqual(value["name"], self.user.folder.name[:len(value["name"])], "two folders are two jobs")
        self.assertGreater(len(value["name"]), len("tfdist-"))
        self.assertEqual(value["task"]["command"], ["python3", "train.py"])
        self.assert_clean(hosts)
        file = self.user.write("here/cluster.toml", result.out)
        code, said = self.check(file)
        self.assertEqual((code, said["error_count"]), (0, 0), said)

    def test_hosts_that_do_not_reach_each_other_are_said(self):
        hosts = self.start_hosts(2)
        hosts[1].drop(hosts[0], "1-65534")
        result = self.init(hosts)
        self.assertIn("# Not every host could connect to every other one: tfdist check says which.\n", result.out)
        self.assertEqual(tomllib.loads(result.out)["cluster"]["hosts"], ["h1", "h2"])

    def test_without_any_answer_nothing_is_written(self):
        hosts = self.start_hosts(1)
        hosts[0].refuse_key()
        file = self.user.folder / "cluster.toml"
        said = self.init(hosts, "-o", str(file), code=3).err
        self.assertIn("no host has answered; nothing was written", said)
        self.assertFalse(file.exists())

    def test_a_full_disk_keeps_no_empty_file(self):
        hosts = self.start_hosts(1)
        disk = self.user.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        (disk / "full").write_bytes(bytes(4096))
        said = self.init(hosts, "-o", str(disk / "cluster.toml"), code=3).err
        self.assertIn("cluster.toml: No space left on device", said)
        self.assertEqual([path.name for path in disk.iterdir()], ["full"])

    def test_a_host_says_which_gpus_it_has(self):
        path = self.user.write("bin/nvidia-smi", "#!/bin/sh\n[ $1 = -L ] && for gpu in 0 1; do printf \"GPU $gpu: NVIDIA \\033[2JH100 (UUID: GPU-$gpu)\\n\"; done\n")
        os.chmod(path, 0o755)
        self.user.env["PATH"] = f"{self.user.folder}/bin:{os.environ['PATH']}"
        result = self.user.run("init", "localhost:2")
        self.assertNotIn("2 hosts", result.err)
        self.assertEqual(result.code, 0, result)
        self.assertIn("# 2 x NVIDIA ^[[2JH100; ", result.out)
        self.assertEqual(tomllib.loads(result.out)["cluster"]["hosts"], [{"address": "localhost", "slots": 2}])
        self.assertEqual(self.user.run("init", "localhost:2", "-o", "-").expect(0).out, result.out)
        self.assertFalse((self.user.folder / "-").exists())
        file = self.user.write("cluster.toml", result.out.replace("python3", "true"))
        self.user.run("render", file).expect(0)


if __name__ == "__main__":
    unittest.main()
