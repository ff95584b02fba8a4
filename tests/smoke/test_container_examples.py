"""configs/containers as they are, but for what their reader puts in, on four hosts: with docker, and with podman without root."""

import pathlib
import re
import shutil
import tempfile
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.support import engines, shown
from tests.support.tfdist import BIN, ROOT, Tfdist
from tests.support.waiting import wait_for

EXAMPLES = ROOT / "configs/containers"
TRAINING = "localhost/training:3"
# Reads TF_CONFIG, as a program of a TFJob does; its words are --model-dir DIR.
ENTRY_POINT = '#!/bin/sh\nexec /training-program --data /digits --model mlp --steps 200 --checkpoint-dir "$2"\n'
hosts = None
volume = None  # a folder that all hosts see


def setUpModule():
    global hosts, volume
    check_possible()
    engines.check_possible()
    hosts = Hosts(4, own_network=True)
    hosts.start()
    unittest.addModuleCleanup(hosts.stop)
    for host in hosts:
        engines.prepare(host)
        engines.start_docker(host)
    volume = pathlib.Path(tempfile.mkdtemp(prefix="tfdist-volume-", dir="/var/tmp"))
    unittest.addModuleCleanup(shutil.rmtree, volume)
    volume.chmod(0o777)
    with tempfile.TemporaryDirectory(prefix="tfdist-image-") as folder:
        archive = pathlib.Path(folder, "image.tar")
        engines.write_archive(archive, [engines.layer(tree=training_tree(pathlib.Path(folder, "tree")))], name=TRAINING,
                              entrypoint=["/entry-point"])
        for host in hosts:
            path = engines.handed_over(host, archive, "image.tar")
            for ask in (engines.docker, engines.podman):
                ask(host, "load", "--quiet", "--input", path)


def training_tree(tree):
    engines.make_tree(tree)
    shutil.copy(BIN / "tfdist-runtime", tree / "training-program")
    shutil.copytree(ROOT / "configs/data/digits", tree / "digits")
    (tree / "entry-point").write_text(ENTRY_POINT)
    (tree / "entry-point").chmod(0o755)
    return tree


def without_numbers(line):
    return re.sub(r"\d+(\.\d+)?", "N", shown.masked(line))


class OfAnEngine:
    engine = None

    def setUp(self):
        self.user = Tfdist("examples")
        self.addCleanup(self.user.close)

    def train(self, example, *changes):
        text = (EXAMPLES / example).read_text()
        for old, new in (("10.0.0.", hosts[0].address.rpartition(".")[0] + "."), *changes):
            self.assertIn(old, text)
            text = text.replace(old, new)
        text = re.sub(r"(?m)^image = ", f'engine = "{self.engine}"\nimage = ', text)
        up = self.user.run("up", self.user.write(example, f'{text}[ssh]\nconfig = "{hosts.ssh_config}"\n')).expect(0)
        self.assertGreater(float(re.findall(r"test accuracy ([0-9.]+)", up.out)[-1]), 0.8, up)
        for host in hosts:
            self.assertEqual(engines.containers(host), [])
            wait_for(lambda: engines.processes(host) == [], lambda: f"end of {engines.processes(host)}")
        return up

    def test_digits_in_layout_uai(self):
        """And each line that the page shows is one of its lines, but for numbers: their order is another one each time."""
        up = self.train("digits.toml", ("debian:12", TRAINING), ('"2000"', '"200"'), ('"../data"', f'"{ROOT / "configs/data"}"'),
                   ("gpus = 0", 'gpus = 0\nentrypoint = ""'))
        [page] = shown.shown_commands((EXAMPLES / "README.md").read_text()).values()
        printed = set(map(without_numbers, (up.out + up.err).splitlines()))
        self.assertEqual([line for line in map(without_numbers, page) if line != "..." and line not in printed], [])

    def test_a_tfjob_with_its_images_entry_point_and_a_volume(self):
        self.train("tfjob.toml", ("registry.lan/training:3", TRAINING), ("/srv/training:", f"{volume}:"))
        self.assertTrue([path for path in volume.rglob("*") if path.is_file()], "checkpoints in the volume")
        for path in list(volume.iterdir()):
            shutil.rmtree(path)


class Docker(OfAnEngine, unittest.TestCase):
    engine = "docker"


class Podman(OfAnEngine, unittest.TestCase):
    engine = "podman"


if __name__ == "__main__":
    unittest.main()
