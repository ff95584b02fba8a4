"""As test_commands, for each kind of host: configurations and kinds of hosts get in each other's way, or they do not."""

import contextlib
import itertools
import pathlib
import unittest

from tests.hosts.hosts import KEY_TYPES, Hosts, check_possible
from tests.hosts.kinds import KINDS, asyncssh, behind_a_jump_host, dropbear
from tests.hosts.test_configurations import KEYWORDS, Configured
from tests.support.tfdist import Tfdist

# `exec` is tried with each configuration, `up` with each fourth; the next kind of host begins at the next configuration.
UP_OF = 4

turns = itertools.count()


def setUpModule():
    check_possible()


class CrossTest(Configured):
    @classmethod
    def setUpClass(cls):
        pass  # hosts of a kind, one after the other

    def setUp(self):
        pass  # as soon as there are hosts

    def look(self, number, one):
        config = self.config(number, one)
        ssh = self.run_ssh(config)
        way = ["-F", str(config), "-H", "h1"]
        commands = [["exec", *way, "--", "true"]]
        if not self.up and number % UP_OF == self.turn % UP_OF:
            commands.append(["up", *way, "--name", f"job{self.turn}-{number}", "--no-workdir", "--", "true"])
        wrong = []
        for words in commands:
            with self.new_hosts():
                ours = self.user.run(*words, seconds=300)
            if (ssh.returncode == 0) != (ours.code == 0 or one.differs):
                wrong.append(f"{one}\nssh: {ssh.returncode} {ssh.stderr}\ntfdist {words[0]}: {ours}")
        return "\n".join(wrong)

    def cross(self, options, serve=None, prepare=None, up=""):
        self.turn = next(turns)
        self.up = up
        with Hosts(2, key_types=KEY_TYPES, **options) as hosts:
            if prepare:
                prepare(hosts[0])
            with serve(hosts) if serve else contextlib.nullcontext(hosts.ssh_config) as config:
                self.use(hosts)
                type(self).base_config = config
                super().setUp()
                self.user = Tfdist("cross")
                self.addCleanup(self.user.close)
                self.check(KEYWORDS)


def add_test(name, **how):
    def test(self):
        self.cross(**how)
    setattr(CrossTest, "test_" + "".join(c if c.isalnum() else "_" for c in name), test)


for kind in KINDS:
    if not kind.exec and pathlib.Path(kind.options.get("shell", "/")).exists():
        add_test(kind.name, options=kind.options, prepare=kind.prepare, up=kind.up)
add_test("behind a jump host", options={"max_startups": "10:30:100"}, serve=behind_a_jump_host)
add_test("dropbear", options={}, serve=dropbear)
add_test("asyncssh", options={}, serve=asyncssh)


if __name__ == "__main__":
    unittest.main()
