"""`[task] shared`: whether it is one folder on all hosts is looked at, not believed."""

import os
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.tfdist import Tfdist


def setUpModule():
    check_possible()


class Shared(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("shared")
        self.addCleanup(self.user.close)

    def up(self, path, code=0, before=lambda hosts: None, **options):
        """`up` on three hosts, and the hosts."""
        hosts = Hosts(3, **options)
        hosts.start()
        self.addCleanup(hosts.stop)
        before(hosts)
        extra = f'workdir = "{self.user.folder / "work"}"\nshared = "{path}"'
        (self.user.folder / "work").mkdir()
        result = self.user.run("up", self.user.write("cluster.toml", clusters.over_ssh(
            "shared", ["true"], hosts, task_extra=extra, layout="mirrored")))
        self.assertEqual(result.code, code, result)
        return result, hosts

    def assert_no_mark(self, host):
        self.assertEqual([name for name in os.listdir(host.home) if name.startswith(".tfdist")], [])

    def test_one_folder_is_fine_and_stays_empty(self):
        result, hosts = self.up("/home/trainer", shared_home=True)
        self.assertNotIn("shared folder", result.err)
        self.assert_no_mark(hosts[0])

    def test_folders_of_their_own_are_said(self):
        result, hosts = self.up("/home/trainer")
        self.assertIn(f"the shared folder /home/trainer is not the same one everywhere: what {hosts[0].address} writes "
                      f"there is not seen on {hosts[1].address}, {hosts[2].address}\n", result.err)
        self.assert_no_mark(hosts[0])

    def test_a_folder_that_is_not_there_is_said(self):
        result, _ = self.up("/home/trainer/absent")
        self.assertIn("/home/trainer/absent: No such file or directory", result.err)

    def test_a_folder_that_is_not_there_is_said_before_a_job_is_ended_for_it(self):
        file = self.user.write("cluster.toml", clusters.local("shared", ["sleep", "infinity"], slots=1))
        self.user.run("up", "-d", file).expect(0)
        job = self.user.job_id()
        new = self.user.write("cluster.toml", clusters.local("shared", ["sleep", "1000"], slots=1, task_extra='shared = "/absent"'))
        err = self.user.run("up", "-d", "--replace", new).expect(0).err
        self.assertRegex(err, rf"(?s)the shared folder cannot be used on .*/absent.*job {job}: ended")
        self.assertEqual(err.count("the shared folder cannot be used"), 1, err)

    def test_a_job_that_is_rolled_back_leaves_no_mark(self):
        result, hosts = self.up("/home/trainer", code=3, before=lambda hosts: hosts[1].refuse_key())
        self.assertIn(f"{hosts[1].address}: authentication", result.err)
        self.assert_no_mark(hosts[0])

    def test_machines_that_share_a_home_folder_have_one_work_folder_each(self):
        """One of them has the path that all have where nothing is shared."""
        hosts = Hosts(3, shared_home=True)
        hosts.start()
        self.addCleanup(hosts.stop)
        script = 'echo "$RANK $(pwd)"; pwd >made; echo 1 >../above'
        up = self.user.run("up", self.user.write("cluster.toml", clusters.over_ssh("job", shell(script), hosts, layout="mirrored"))).expect(0)
        job = self.user.job_id()
        folder = f"/home/trainer/.cache/tfdist/jobs/{job}"
        lines = dict(line.split(" | ")[1].split() for line in up.out.splitlines() if " | " in line)
        [first] = [rank for rank, path in lines.items() if path == f"{folder}/run/work"]
        self.assertEqual(lines, {rank: f"{folder}/run/work" if rank == first else f"{folder}/h{rank}/work" for rank in "012"})
        pulled = self.user.run("pull", job).expect(1).err
        self.assertEqual(pulled.count("/above lies outside of the folder in which the tasks start"), 3, pulled)
        for rank, path in lines.items():
            self.assertEqual((self.user.folder / job / f"worker-{rank}/made").read_text(), f"{path}\n")
        self.user.run("down", "--purge", "-y", "job").expect(0)
        self.assertEqual(list(hosts[0].home.glob(".cache/tfdist/jobs/*")), [])
