"""An ssh-agent that signs slowly (a smartcard, or one that asks its user) lets no command fail: the last of three hosts is let in
long after the time that a host has."""

import concurrent.futures
import contextlib
import shutil
import subprocess
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.hosts.probe import client_config
from tests.hosts.test_slow import slow_agent
from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist

SECONDS = 25  # a signature: three take longer than any host has (60 s)


def setUpModule():
    check_possible()


class SlowAgent(unittest.TestCase):
    def test_every_command_waits_for_it(self):
        user = Tfdist("slow-agent")
        self.addCleanup(user.close)
        stranger = Tfdist("slow-agent-2")  # has no record of the job
        self.addCleanup(stranger.close)
        with Hosts(3) as hosts, contextlib.ExitStack() as agents:
            config = client_config(hosts, "slow_config", "IdentityAgent ${TEST_AGENT}", "IdentitiesOnly no", "IdentityFile none")
            config.write_text(config.read_text().replace(f"IdentityFile {hosts.key}\n", ""))
            text = clusters.over_ssh("job", shell("echo result >out; exec sleep infinity"), hosts, layout="mirrored")
            text = text.replace(str(hosts.ssh_config), str(config))
            file = user.write("cluster.toml", text)
            shutil.copy(file, stranger.folder / "cluster.toml")

            def run(who, seconds, *words):
                folder = hosts.folder / f"agent-{run.agents}"
                run.agents += 1
                folder.mkdir()
                agent = agents.enter_context(slow_agent(folder, hosts.key, seconds, 128))
                return pool.submit(subprocess.run, [BIN / "tfdist", *words], env={**who.env, "TEST_AGENT": str(agent)},
                                   cwd=who.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)

            run.agents = 0

            def check(commands):
                for words, running in commands:
                    done = running.result()
                    with self.subTest(" ".join(words)):
                        self.assertEqual(done.returncode, 0, done)

            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                check([(("up",), run(user, 0, "up", "-d", file))])
                look = [("exec", "job", "worker:[0-2]", "--", "true"), ("pull", "job", "--to", str(user.folder / "results")),
                        ("logs", "job"), ("top", "-n", "1"), ("status",), ("why",), ("restart", "job")]
                check([(words, run(user, SECONDS, *words)) for words in look] +
                      [(words, run(stranger, SECONDS, *words)) for words in [("status", "cluster.toml"), ("pull", "cluster.toml")]])
                check([(("down",), run(user, SECONDS, "down", "--purge", "job"))])
                check([(("up",), run(user, 0, "up", "-d", file)), ])
                check([(("down",), run(user, 0, "down"))])
                check([(("clean",), run(user, SECONDS, "clean", file, "--all", "--yes")), (("prune",), run(user, SECONDS, "prune"))])


if __name__ == "__main__":
    unittest.main()
