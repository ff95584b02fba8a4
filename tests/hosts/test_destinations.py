"""What stands for a host: `ssh NAME true` succeeds, if and only if `tfdist exec` does, by -H, a cluster file and a host file."""

import concurrent.futures
import json
import os
import socket
import struct
import subprocess
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.hosts.probe import client_config
from tests.support.tfdist import Tfdist

# Names of a `Host` line that leads to h1.
ALIASES = ["h1+x", "H_1", "h1.", "prod/h1", "_h1", "fe80::1%eth0", "::1%lo", "bücher", "h1=x", "10.1", "1", "h1^x", "h1~", "h1%x"]
REFUSED = ["-h1", "h1;x", "h1 x", "h1$x", "h1'x", "h1|x", "h1\tx"]


def setUpModule():
    check_possible()


class DestinationsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(1)
        cls.hosts.start()
        cls.addClassCleanup(cls.hosts.stop)
        cls.address = cls.hosts[0].address
        cls.config = client_config(cls.hosts, "names_config", f"Host {' '.join(ALIASES)}", f"  HostName {cls.address}")

    def setUp(self):
        self.user = Tfdist("destinations")
        self.addCleanup(self.user.close)

    def ssh(self, name):
        return subprocess.run(["ssh", "-n", "-F", self.config, "--", name, "true"], env=self.user.env, capture_output=True, text=True, timeout=60)

    def ways(self, number, name):
        """Commands that reach it."""
        cluster = self.user.write(f"c{number}.toml", f"name = \"job\"\n[ssh]\nconfig = {json.dumps(str(self.config))}\n[cluster]\nlayout = \"mirrored\"\n"
                                  f"hosts = [{json.dumps(name)}]\n[task]\ncommand = [\"true\"]\n")
        listed = self.user.write(f"hosts{number}", name + "\n")
        way = ["exec", "-F", str(self.config)]
        return [[*way, "-H", name], [*way, "--transport", "openssh", "-H", name], [*way, "--hostfile", listed], ["exec", cluster]]

    def look(self, number, name):
        ssh = self.ssh(name)
        wrong = []
        for words in self.ways(number, name):
            ours = self.user.run(*words, "--", "true")
            if (ssh.returncode == 0) != (ours.code == 0):
                wrong.append(f"{words}\nssh: {ssh.returncode} {ssh.stderr}\ntfdist: {ours}")
        return "\n".join(wrong)

    def test_every_destination_that_ssh_takes(self):
        first, *rest = socket.inet_aton(self.address)
        short = [f"{first}.{rest[0]}.{rest[1] * 256 + rest[2]}", str(struct.unpack("!I", socket.inet_aton(self.address))[0])]
        uris = ["ssh://h1", "ssh://tr%61iner@h1", "ssh://tr%6@h1", "ssh://a%2Fb@h1", "ssh://trainer@h1:2200", "ssh://trainer@prod/h1", f"ssh://{self.address}:2200/"]
        names = [*ALIASES, *short, *uris, "trainer@h1", "trainer@prod/h1", "nobody@h1", "h9/x", "a:b@h1", "a/b@h1"]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = [text for text in pool.map(self.look, range(len(names)), names) if text]
        self.assertEqual(wrong, [], "\n\n".join(wrong))

    def test_what_ssh_refuses_or_a_shell_reads(self):
        for name in [*REFUSED, "h*", "h?", "h[x]", "h1\x1b[31m"]:
            refused = self.user.run("exec", "-F", str(self.config), "-H", name, "--", "true").expect(2)
            self.assertIn("neither a host name nor an address", refused.err)
        for name in REFUSED:
            self.assertEqual(self.ssh(name).returncode, 255, name)

    def test_user_names_of_directories(self):
        """The host gets them as they are."""
        for name, user in (("a:b@h1", "a:b"), ("a/b@h1", "a/b"), ("ssh://a%2Fb@h1", "a/b")):
            self.assertIn(f"does not let {user} in", self.user.run("exec", "-F", str(self.config), "-H", name, "--", "true").expect(3).err)

    def test_this_machine_beside_others(self):
        """No task runs, so they need not reach each other."""
        for names in ("localhost,h1", "h1,localhost"):
            ran = self.user.run("exec", "-F", str(self.config), "-H", names, "--", "echo", "ran").expect(0)
            self.assertEqual(sorted(ran.out.splitlines()), ["h1        | ran", "localhost | ran"])

    def test_bytes_that_are_no_text(self):
        name = os.fsdecode(b"h1\xff")
        self.assertIn("neither a host name", self.user.run("exec", "-F", str(self.config), "-H", name, "--", "true").expect(2).err)


if __name__ == "__main__":
    unittest.main()
