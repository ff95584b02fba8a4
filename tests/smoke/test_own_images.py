"""Images of the user's machine: sent by content, once, to hosts whose engines lack them."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, engines
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

NO_RESTARTS = '[restart]\nworker = "never"\n'
BASE_MB = 9  # more than 8 MiB go from host to host
SAYS = shell("cat /top")
hosts = None  # three, for all tests
base = None  # a layer with a shell, and something that does not compress


def setUpModule():
    global hosts, base
    check_possible()
    engines.check_possible()
    hosts = Hosts(3)
    hosts.start()
    unittest.addModuleCleanup(hosts.stop)
    for host in hosts:
        engines.prepare(host)
        engines.start_docker(host)
    with tempfile.TemporaryDirectory(prefix="tfdist-image-") as folder:
        tree = pathlib.Path(folder, "tree")
        engines.make_tree(tree)
        (tree / "ballast").write_bytes(os.urandom(BASE_MB << 20))
        base = engines.layer(tree=tree)


class OfAnEngine:
    engine = None

    def setUp(self):
        self.user = Tfdist("images")
        self.addCleanup(self.user.close)
        for host in hosts:
            self.forget(host)

    def ask(self, host, *arguments):
        return engines.ask(host, self.engine, *arguments)

    def forget(self, host):
        """What other tests have left there."""
        self.ask(host, "image", "prune", "--all", "--force")
        shutil.rmtree(host.home / ".cache/tfdist", ignore_errors=True)

    def archive(self, top="one", name="train.tar", **kwargs):
        """With an image that says `top`. Returns the image's id."""
        path = pathlib.Path(self.user.folder, name)
        return engines.write_archive(path, [base, engines.layer({"top": f"{top}\n".encode()})], **kwargs)

    def write(self, image, command=SAYS, count=3, extra=""):
        return self.user.write("cluster.toml", clusters.over_ssh(
            "job", command, hosts[:count], layout="mirrored", ssh_config=hosts.ssh_config,
            task_extra=f'image = {{ {image} }}\nengine = "{self.engine}"\n' + extra) + NO_RESTARTS)

    def up(self, image='archive = "train.tar"', **kwargs):
        return self.user.run("up", "--timeline", self.write(image, **kwargs))

    def assert_says(self, up, text, count=3):
        up.expect(0)
        for number in range(count):
            self.assertIn(f"worker:{number} | {text}\n", up.out)

    def reference(self, image, name="train"):
        return f"localhost/tfdist/{name}:{image[:12]}"

    def id_of(self, host, image):
        return self.ask(host, "image", "inspect", "--format", "{{.Id}}", image).strip().removeprefix("sha256:")

    # --- the way to the hosts ---

    def sent(self, up):
        """(what hosts lacked, hosts, what left this machine), in MB."""
        found = re.search(r"files: (\S+) (\w+) to (\d) hosts?, (\S+) (\w+) sent", up.err)
        self.assertIsNotNone(found, up)
        unit = {"bytes": 1e-6, "kB": 0.001, "MB": 1}
        return float(found[1]) * unit[found[2]], int(found[3]), float(found[4]) * unit[found[5]]

    def test_it_crosses_the_uplink_once_and_a_second_up_moves_nothing(self):
        image = self.archive()
        first = self.up()
        self.assert_says(first, "one")
        self.assertIn(f"tfdist: image train:3 of train.tar: sha256:{image[:8]}, ", first.err)
        lacked, to, left = self.sent(first)
        self.assertEqual(to, 3)
        self.assertGreater(lacked, 3 * BASE_MB)
        self.assertTrue(BASE_MB < left < 1.6 * BASE_MB, first.err)
        self.assertIn("files: nothing was sent\n", self.up().err)
        for host in hosts:
            self.assertEqual(self.id_of(host, self.reference(image)), image)

    def test_of_a_changed_image_only_the_changed_layer_moves(self):
        self.archive("one")
        self.assert_says(self.up(), "one")
        self.archive("two")
        second = self.up()
        self.assert_says(second, "two")
        self.assertLess(self.sent(second)[0], 0.1)

    def test_a_host_that_has_it_under_any_name_gets_nothing_and_keeps_its_names(self):
        image = self.archive()
        path = pathlib.Path(self.user.folder, "train.tar")
        self.ask(hosts[1], "load", "--quiet", "--input", engines.handed_over(hosts[1], path, "mine.tar"))
        self.ask(hosts[1], "tag", "train:3", "mine:1")
        other = self.archive("another", name="other.tar")
        self.ask(hosts[2], "load", "--quiet", "--input",
                 engines.handed_over(hosts[2], pathlib.Path(self.user.folder, "other.tar"), "other.tar"))
        up = self.up()
        self.assert_says(up, "one")
        self.assertEqual(self.sent(up)[1], 2)
        self.assertEqual(self.id_of(hosts[1], "mine:1"), image)
        self.assertEqual(self.id_of(hosts[2], "train:3"), other)

    def test_each_form_of_archive_is_one_image(self):
        image = self.archive()
        path = pathlib.Path(self.user.folder, "train.tar")
        saved = engines.handed_over(hosts[0], path, "train.tar")
        engines.docker(hosts[0], "load", "--quiet", "--input", saved)
        engines.podman(hosts[0], "load", "--quiet", "--input", saved)
        made = {"docker.tar": ("docker", "save", "--output"),
                "podman.tar": ("podman", "save", "--quiet", "--output"),
                "oci.tar": ("podman", "save", "--quiet", "--format", "oci-archive", "--output")}
        for name, (engine, *words) in made.items():
            engines.ask(hosts[0], engine, *words, f"/tmp/{name}", "train:3")
            (hosts[0].folder / "tmp" / name).rename(pathlib.Path(self.user.folder, name))
        self.archive(name="small.tar.gz", mode="w:gz")
        for name in [*made, "small.tar.gz"]:
            with self.subTest(name=name):
                for host in hosts[1:]:
                    self.forget(host)
                up = self.user.run("up", self.write(f'archive = "{name}"', count=2))
                self.assert_says(up, "one", count=2)
                if name != "oci.tar":  # podman writes another configuration into that
                    self.assertEqual(self.id_of(hosts[1], self.reference(image)), image)

    def test_ctrl_c_ends_the_engines_client_that_loads_it(self):
        """The client is stopped, so that it takes its time. What has come stays for the next `up`."""
        self.archive()
        up = self.user.start("up", "--timeline", self.write('archive = "train.tar"', count=1))

        def loading():
            return [process.pid for process in hosts[0].processes() if process.argv[:2] == [self.engine, "load"]]

        for pid in wait_for(loading, "the engine's client"):
            os.kill(pid, signal.SIGSTOP)
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130)
        self.assertIn("tfdist: nothing was started\n", up.err.read_text())
        wait_for(lambda: engines.processes(hosts[0]) == [], lambda: f"end of {engines.processes(hosts[0])}")
        again = self.up(count=1)
        self.assert_says(again, "one", count=1)
        self.assertIn("files: nothing was sent\n", again.err)

    # --- what keeps it from starting ---

    def assert_refused(self, up, *words, code=3):
        up.expect(code)
        for word in words:
            self.assertIn(word, up.err)
        for host in hosts:
            self.assertEqual(engines.containers(host), [])

    def test_an_archive_that_is_none_is_named_before_a_host_is_asked(self):
        folder = pathlib.Path(self.user.folder)
        self.archive()
        (folder / "cut.tar").write_bytes((folder / "train.tar").read_bytes()[:BASE_MB << 20])
        (folder / "text.tar").write_text("no archive\n" * 100)
        engines.write_archive(folder / "one.tar", [engines.layer({"top": b""})])
        subprocess.run(["tar", "--create", "--file", folder / "export.tar", "--directory", folder, "text.tar"], check=True)
        for name, words in {"absent.tar": "there is no file '", "cut.tar": "cut.tar: it is cut off",
                            "text.tar": "text.tar: it is no tar file, or a damaged one",
                            "export.tar": "export.tar: it holds no image: neither manifest.json nor index.json is in it"}.items():
            self.assert_refused(self.up(f'archive = "{name}"'), words, code=2)
        self.assert_refused(self.up('archive = "one.tar", name = "other:1"'), "it holds no image other:1; it holds train:3", code=2)

    def test_a_layer_that_is_not_what_the_image_says_is_not_loaded(self):
        self.archive()
        path = pathlib.Path(self.user.folder, "train.tar")
        content = bytearray(path.read_bytes())
        content[5 << 20] ^= 1
        path.write_bytes(content)
        self.assert_refused(self.up(), "a layer of image train:3 of train.tar is not what the image says of it", "nothing was started")

    def test_another_architecture_is_named_and_nothing_is_sent(self):
        self.archive(architecture="arm64")
        self.assert_refused(self.up(), "image train:3 of train.tar of worker:0 is for arm64, and this host is amd64",
                            "files: nothing was sent", "nothing was started")

    def test_what_the_engine_does_not_take_is_told_in_its_words(self):
        """A layer that is no tar file."""
        path = pathlib.Path(self.user.folder, "train.tar")
        engines.write_archive(path, [base, b"{ no tar file }" * 1000])
        self.assert_refused(self.up(), f"{self.engine} cannot load image localhost/tfdist/train:", "nothing was started")

    def test_render_and_check_tell_of_it(self):
        image = self.archive()
        file = self.write('archive = "train.tar"')
        self.assertIn(f"image: train:3 of train.tar ({self.engine}), sent from here as {self.reference(image)}, "
                      f"sha256:{image}: worker:0 worker:1 worker:2\n", self.user.run("render", file).expect(0).out)
        self.ask(hosts[1], "load", "--quiet", "--input",
                 engines.handed_over(hosts[1], pathlib.Path(self.user.folder, "train.tar"), "mine.tar"))
        checked = self.user.run("check", file).expect(0).out
        self.assertRegex(checked, rf"image: {self.reference(image)}\n")
        self.assertRegex(checked, rf"(?m)^  on {hosts[1].address}: {self.engine} \S+, there already$")
        self.assertRegex(checked, rf"(?m)^  on \S+: {self.engine} \S+, up will send it; [\d.]+ GiB free$")


class Docker(OfAnEngine, unittest.TestCase):
    engine = "docker"

    def test_an_image_of_this_machines_docker(self):
        """That of a host stands for it."""
        image = self.archive()
        engines.docker(hosts[2], "load", "--quiet", "--input",
                       engines.handed_over(hosts[2], pathlib.Path(self.user.folder, "train.tar"), "mine.tar"))
        self.user.env["DOCKER_HOST"] = f"unix:///proc/{hosts[2].pid}/root/run/docker.sock"
        up = self.up('local = "train:3"', count=2)
        self.assert_says(up, "one", count=2)
        self.assertIn(f"tfdist: image train:3 of this machine's docker: sha256:{image[:8]}", up.err)
        self.assertEqual(self.id_of(hosts[1], self.reference(image)), image)
        self.assertIn("files: nothing was sent\n", self.up('local = "train:3"', count=2).err)
        absent = self.up('local = "absent:1"').expect(2)
        self.assertIn("this machine has no image absent:1 (docker: no such image: absent:1: No such image: absent:1; podman: ", absent.err)


class Podman(OfAnEngine, unittest.TestCase):
    engine = "podman"

    def test_an_image_of_this_machines_podman(self):
        folder = pathlib.Path(self.user.folder)
        for name, text in engines.PODMAN.items():
            (folder / name).write_text(text)
        (folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n')
        self.user.env.update(CONTAINERS_CONF=f"{folder}/containers.conf", CONTAINERS_STORAGE_CONF=f"{folder}/storage.conf",
                             DOCKER_HOST="unix:///absent")
        image = self.archive()
        subprocess.run(["podman", "load", "--quiet", "--input", folder / "train.tar"], env=os.environ | self.user.env, check=True,
                       stdout=subprocess.DEVNULL)
        up = self.up('local = "train:3"', count=2)
        self.assert_says(up, "one", count=2)
        self.assertIn(f"tfdist: image train:3 of this machine's podman: sha256:{image[:8]}", up.err)
        self.assertEqual(self.id_of(hosts[1], self.reference(image)), image)


class SmallDisk(unittest.TestCase):
    def test_this_machine_without_room_for_a_layer_says_so_before_it_writes(self):
        with Tfdist("small") as user:
            engines.write_archive(pathlib.Path(user.folder, "train.tar"), [engines.layer({"ballast": os.urandom(16 << 20)})])  # on no host
            file = user.write("cluster.toml", clusters.over_ssh(
                "job", ["true"], hosts[:1], layout="mirrored", ssh_config=hosts.ssh_config,
                task_extra='image = { archive = "train.tar" }\nengine = "docker"\n'))
            folder = pathlib.Path(user.folder, "temporary")
            folder.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
            try:
                user.env["TMPDIR"] = str(folder)
                refused = user.run("up", file).expect(3)
            finally:
                subprocess.run(["umount", folder], check=True)
            self.assertRegex(refused.err, rf"no room for temporary files in {folder}: \d+ MB are needed, and \d.\d MB are free\n"
                                          r"  try: make room there, or set TMPDIR to a folder with space\n")
            self.assertIn("nothing was started", refused.err)

    def test_a_host_without_room_is_named_before_anything_is_sent(self):
        with Hosts(1) as fresh, Tfdist("small") as user:
            subprocess.run(["nsenter", f"--target={fresh[0].pid}", "--mount", "sh", "-c",
                            "mkdir /home/docker && mount -t tmpfs -o size=12m tmpfs /home/docker"], check=True)
            engines.start_docker(fresh[0])
            engines.write_archive(pathlib.Path(user.folder, "train.tar"), [base])
            refused = user.run("up", "--timeline", user.write("cluster.toml", clusters.over_ssh(
                "job", ["true"], fresh[:1], layout="mirrored", ssh_config=fresh.ssh_config,
                task_extra='image = { archive = "train.tar" }\nengine = "docker"\n'))).expect(3)
            self.assertRegex(refused.err, r"no room for image localhost/tfdist/train:\w+: docker needs 2\d MB while it takes it in, and 1\d MB are free")
            self.assertIn("files: nothing was sent", refused.err)


if __name__ == "__main__":
    unittest.main()
