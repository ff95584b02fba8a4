"""The Python of README and docs/python.md, as it stands there, on test hosts that `ssh gpu1` and `ssh gpu2` reach."""

import pathlib
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.support.python import run_python
from tests.support.shown import blocks
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

TRAIN = """
import os, sys
os.makedirs("ckpt", exist_ok=True)
open("ckpt/last.bin", "w").close()
print("rank", os.environ["RANK"], *sys.argv[1:])
"""
CLUSTER = """
name = "train"
[cluster]
hosts = ["gpu1", "gpu2"]
layout = "mirrored"
[task]
command = ["python3", "train.py"]
workdir = "."
"""
# Of a block that awaits, as a notebook runs it.
RUN = """
import ast, asyncio, inspect, sys, tfdist
result = eval(compile(sys.argv[1], "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
if inspect.iscoroutine(result):
    asyncio.run(result)
"""


def setUpModule():
    check_possible()


class Pages(unittest.TestCase):
    venv = None

    def setUp(self):
        self.user = Tfdist("pages")
        self.addCleanup(self.user.close)
        self.hosts = Hosts(2, own_network=True)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        # ssh looks for ~/.ssh in the account's home, whatever HOME says. The machine's own file is another one for this program.
        config = self.user.write("ssh_config", self.hosts.ssh_config.read_text().replace("Host h", "Host gpu"))
        self.before = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/ssh/ssh_config && exec "$@"', config]
        self.folder = pathlib.Path(self.user.write("train/train.py", TRAIN)).parent
        self.user.write("train/cluster.toml", CLUSTER)

    def run_block(self, block):
        done = run_python(self.user, RUN, block, cwd=self.folder, before=self.before, venv=self.venv).expect(0)
        wait_for(lambda: not any(host.processes() for host in self.hosts), "nothing runs on the hosts", 30)
        return sorted(done.out.splitlines())

    def test_readme(self):
        [block] = blocks((ROOT / "README.md").read_text(), "python")
        self.assertEqual(self.run_block(block), ["worker:0 rank 0", "worker:1 rank 1"])
        self.assertTrue((self.folder / "results/worker-1/ckpt/last.bin").exists())

    def test_page(self):
        start, errors, in_asyncio = blocks((ROOT / "docs/python.md").read_text(), "python")
        self.assertEqual(self.run_block(start), ["worker:0 rank 0 --lr 0.2", "worker:1 rank 1 --lr 0.2"])
        self.assertEqual(self.run_block(in_asyncio), ["worker:0 rank 0", "worker:1 rank 1"])
        for host in self.hosts:
            host.refuse_key()
        self.assertEqual([line.split(" the host")[0] for line in self.run_block(errors)], ["gpu1 authentication", "gpu2 authentication"])


if __name__ == "__main__":
    unittest.main()
