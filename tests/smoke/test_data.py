"""`[data]`: folders and files that tasks read."""

import json
import os
import shutil
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.tfdist import Tfdist


NO_RESTARTS = """
[restart]
worker = "never"
"""


class OnHosts(unittest.TestCase):
    """Two hosts with an account that is not root."""

    @classmethod
    def setUpClass(cls):
        check_possible()
        cls.hosts = Hosts(2)
        cls.hosts.start()
        cls.addClassCleanup(cls.hosts.stop)

    def setUp(self):
        self.user = Tfdist("data")
        self.addCleanup(self.user.close)

    def write(self, data, command, task_extra="", extra="", name="job"):
        text = clusters.over_ssh(name, command, list(self.hosts), layout="mirrored", ssh_config=self.hosts.ssh_config,
                                 task_extra=task_extra)
        return self.user.write(f"{name}.toml", text + NO_RESTARTS + extra + f"\n[data]\n{data}\n")

    def put(self, host, name, content):
        """A file in the home folder of the host's account."""
        path = host.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        for entry in (path.parent, path):
            os.chown(entry, host.uid, host.uid)
        self.addCleanup(shutil.rmtree, path.parent, ignore_errors=True)


class OfTheHosts(OnHosts):
    """What lies on the hosts already."""

    def put_set(self):
        for host in self.hosts:
            self.put(host, "set/part", f"of {host.name}\n")

    def test_tasks_read_it(self):
        self.put_set()
        file = self.write('set = { path = "~/set" }', shell("cat {data:set}/part $SET/part part"),
                          task_extra='cwd = "{data:set}"\nenv = { SET = "{data:set}" }')
        out = self.user.run("up", file).expect(0).out
        for number, host in enumerate(self.hosts):
            self.assertEqual(out.count(f"worker:{number} | of {host.name}\n"), 3, out)

    def test_a_file_may_be_data(self):
        self.put_set()
        file = self.write('part = { path = "{env:HOME}/set/part" }', ["cat", "{data:part}"])
        self.assertIn("worker:0 | of h1\n", self.user.run("up", file).expect(0).out)

    def test_a_host_that_lacks_it_is_named_before_anything_starts(self):
        self.put(self.hosts[0], "set/part", "here\n")
        file = self.write('set = { path = "~/set" }', shell("echo started; cat {data:set}/part"))
        address = self.hosts[1].address
        refused = self.user.run("up", file).expect(3)
        self.assertNotIn("started", refused.out)
        self.assertIn(f"tfdist: {address}: files: data set: /home/trainer/set", refused.err)
        self.assertIn("No such file or directory", refused.err)
        self.assertNotIn(f"tfdist: {self.hosts[0].address}: files", refused.err)
        checked = self.user.run("check", file).expect(3)
        self.assertIn(f"error: {address}: command: data set: /home/trainer/set: No such file or directory\n", checked.out)

    def test_only_hosts_whose_tasks_name_it_need_it(self):
        self.put(self.hosts[0], "set/part", "here\n")
        file = self.write('set = { path = "~/set" }', ["true"])
        with open(file, encoding="utf-8") as text:
            roles = text.read().replace('layout = "mirrored"', 'layout = "roles"') + f"""
[roles.chief]
hosts = ["{self.hosts[0].address}"]
command = ["cat", "{{data:set}}/part"]
[roles.worker]
hosts = ["{self.hosts[1].address}"]
"""
        self.assertRegex(self.user.run("up", self.user.write("job.toml", roles)).expect(0).out, r"chief:0 +\| here\n")

    def test_what_may_not_be_read_is_named(self):
        self.put_set()
        closed = self.hosts[1].home / "set"
        closed.chmod(0)
        self.addCleanup(closed.chmod, 0o700)
        file = self.write('set = { path = "~/set" }', ["ls", "{data:set}"])
        refused = self.user.run("up", file).expect(3)
        self.assertIn(f"tfdist: {self.hosts[1].address}: files: data set: /home/trainer/set: Permission denied\n", refused.err)

    def test_check_names_hosts_that_differ(self):
        self.put_set()
        file = self.write('set = { path = "~/set" }', ["ls", "{data:set}"])
        same = self.user.run("check", file).expect(0)
        self.assertIn("data: set: ~/set on the hosts, 1 file, 6 bytes\n", same.out)
        self.assertNotIn("is not the same", same.out)
        self.put(self.hosts[1], "set/more", "four")
        checked = self.user.run("check", file).expect(0)
        first, second = (host.address for host in self.hosts)
        self.assertIn(f"set is not the same on all hosts: 1 file of 6 bytes on {first}; 2 files of 10 bytes on {second}\n", checked.out)
        facts = json.loads(self.user.run("check", "--json", file).expect(0).out)["hosts"][1]["data"]
        self.assertEqual(facts, [{"name": "set", "file_count": 2, "bytes": 10, "counted": True}])


class InTheFile(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("data")
        self.addCleanup(self.user.close)

    def write(self, data, command=("ls", "{data:set}")):
        text = clusters.local("job", list(command), slots=1)
        return self.user.write("job.toml", text + f"\n[data]\n{data}\n")

    def test_mistakes_are_named(self):
        for data, why in (('set = { path = "data/set" }', "expected a path of the hosts, beginning with / or ~/, got 'data/set'"),
                          ('set = { path = "/data/{task}" }', "{task} stands for nothing here"),
                          ('set = { paths = "/data/set" }', "did you mean 'path'?"),
                          ("set = {}", "says no path"),
                          ('set-1 = { path = "/data" }', "expected a name of letters, digits and _"),
                          ('sett = { path = "/data" }', "{data:set} stands for nothing: [data] has no such name")):
            self.assertIn(why, self.user.run("render", self.write(data)).expect(2).err, data)

    def test_render_and_describe_show_it(self):
        self.user.write("set/part", "x")
        file = self.write('set = { path = "~/set" }')
        shown = self.user.run("render", file).expect(0).out
        self.assertIn("data: set: ~/set on the hosts\n", shown)
        self.assertIn("ls ~/set\n", shown)
        self.assertEqual(json.loads(self.user.run("render", "--json", file).expect(0).out)["data"], {"set": {"path": "~/set"}})
        self.user.run("up", file).expect(0)
        self.assertIn("data.set ~/set on the hosts", self.user.run("describe", "job").expect(0).out)


if __name__ == "__main__":
    unittest.main()
