"""Hundreds of hosts on one machine that is far too small for them: every start comes to its end."""

import os
import shutil
import time
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.support import clusters
from tests.support.tfdist import Tfdist

HOSTS = int(os.environ.get("TFDIST_MANY_HOSTS", 256))
STARTS = int(os.environ.get("TFDIST_MANY_STARTS", 20))


def setUpModule():
    check_possible()


class ManyHosts(unittest.TestCase):
    def test_no_start_is_rolled_back(self):
        with Hosts(HOSTS) as hosts, Tfdist("many") as user:
            file = user.write("cluster.toml", clusters.over_ssh("many", ["echo", "ready"], hosts, layout="mirrored"))
            for start in range(STARTS):
                for host in hosts:  # no agent is there, as at the first time
                    shutil.rmtree(host.home / ".cache", ignore_errors=True)
                began = time.monotonic()
                up = user.run("up", file, seconds=600)
                print(f"start {start + 1} of {STARTS} on {HOSTS} hosts: {time.monotonic() - began:.0f} s", flush=True)
                self.assertEqual(up.code, 0, up.err[-5000:])
                self.assertEqual(up.out.count("| ready\n"), HOSTS)


if __name__ == "__main__":
    unittest.main()
