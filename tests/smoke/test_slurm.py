"""Jobs inside an allocation of a real Slurm, whose nodes are test hosts (tests/support/slurm.py)."""

import unittest

from tests.hosts import hosts as test_hosts
from tests.support import slurm


def setUpModule():
    test_hosts.check_possible()
    slurm.check_possible()


class InSlurm(unittest.TestCase):
    nodes = 2

    def setUp(self):
        self.hosts = test_hosts.Hosts(1 + self.nodes, **slurm.OPTIONS)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        slurm.start(self.hosts, **slurm.CGROUPS)


class TheTestSlurm(InSlurm):
    def test_a_step_runs_on_each_node_and_its_end_kills_all_that_it_started(self):
        """What tfdist has to live with: no daemon outlives its step."""
        script = "setsid sleep 600 </dev/null >/dev/null 2>&1 & hostname"
        done = slurm.run(self.hosts, "srun", "-N2", "sh", "-c", script)
        self.assertEqual(sorted(done.stdout.split()), ["h2", "h3"])
        self.assertEqual([process.argv for host in self.hosts[1:] for process in slurm.processes(host)], [])


if __name__ == "__main__":
    unittest.main()
