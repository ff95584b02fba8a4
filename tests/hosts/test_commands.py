"""As test_configurations, with the commands of a user: `ssh HOST true` succeeds, if and only if `tfdist exec` and `tfdist up` do."""

import unittest

from tests.hosts.hosts import check_possible
from tests.hosts.test_configurations import KEYWORDS, PATHS, Configured, with_key
from tests.support.tfdist import Tfdist


def setUpModule():
    check_possible()


class CommandsTest(Configured):
    def setUp(self):
        super().setUp()
        self.user = Tfdist("commands")
        self.addCleanup(self.user.close)

    def look(self, number, one):
        config = self.config(number, one)
        ssh = self.run_ssh(config)
        way = ["-F", str(config), "-H", "h1"]
        wrong = []
        for words in (["exec", *way, "--", "true"], ["up", *way, "--name", f"job{number}", "--no-workdir", "--", "true"]):
            with self.new_hosts():
                ours = self.user.run(*words, seconds=300)
            if (ssh.returncode == 0) != (ours.code == 0 or one.differs):
                wrong.append(f"{one}\nssh: {ssh.returncode} {ssh.stderr}\ntfdist {words[0]}: {ours}")
        return "\n".join(wrong)

    def test_every_keyword_that_touches_a_login(self):
        self.check(KEYWORDS)

    def test_paths_of_keys(self):
        self.check([with_key(path, self.folder) for path in PATHS])


if __name__ == "__main__":
    unittest.main()
