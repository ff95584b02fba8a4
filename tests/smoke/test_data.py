"""`[data]`: folders and files that tasks read."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for


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
        self.assertIn(f"error: {address}: files: data set: /home/trainer/set: No such file or directory\n", checked.out)

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


class Sent(OnHosts):
    """A folder or file of this machine, kept on the hosts by its content."""

    def write_data(self, files, folder="data"):
        for name, content in files.items():
            path = self.user.folder / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def up(self, command, data='set = "./data"', **options):
        file = self.write(data, command, **options)
        return self.user.run("up", "--timeline", file).expect(0)

    def kept(self, host):
        """The folders of data there, by their contents."""
        return sorted((host.home / ".cache/tfdist/data").glob("*"))

    def tearDown(self):
        for host in self.hosts:
            processes.kill_together(lambda host=host: [process.pid for process in host.processes()])
            subprocess.run(["rm", "-rf", str(host.home / ".cache")], check=True)

    def test_it_is_sent_once_and_read_as_it_is_here(self):
        odd = {"a b/c\nd": b"odd", "empty": b"", "run.sh": b"#!/bin/sh\necho ran\n", "large": os.urandom(3 << 20)}
        self.write_data(odd)
        (self.user.folder / "data/run.sh").chmod(0o755)
        (self.user.folder / "data/nothing").mkdir()
        os.symlink("large", self.user.folder / "data/inside")
        os.symlink("/etc/hostname", self.user.folder / "data/outside")
        os.utime(self.user.folder / "data/large", (1_600_000_000, 1_600_000_000))
        os.utime(self.user.folder / "data/nothing", (1_500_000_000, 1_500_000_000))
        look = shell("cd {data:set} && ./run.sh && cat a*/* && stat -c '%n %a %Y' large nothing . run.sh && readlink outside && "
                     "sha256sum <inside && ls | wc -l")
        first = self.up(look)
        self.assertIn("tfdist: data set: 6 files, 3.1 MB\n", first.err)
        self.assertIn("warning: links of data set lead out of it, and what they lead to is not sent: outside\n", first.err)
        for number in range(len(self.hosts)):
            said = [line.split(" | ", 1)[1] for line in first.out.splitlines() if line.startswith(f"worker:{number} ")]
            large = hashlib.sha256(odd["large"]).hexdigest()
            self.assertEqual(said[0], "ran")
            self.assertEqual(said[1], "oddlarge 400 1600000000")
            self.assertEqual(said[2], "nothing 500 1500000000")
            self.assertRegex(said[3], r"^\. 500 ")
            self.assertRegex(said[4], r"^run\.sh 500 ")
            self.assertEqual(said[5:], ["/etc/hostname", f"{large}  -", "7"])
        again = self.up(look, name="other")
        self.assertIn("files: nothing was sent\n", again.err)
        for host in self.hosts:
            (folder,) = self.kept(host)
            self.assertEqual((folder / "content/large").stat().st_nlink, 1)

    def test_tasks_can_not_change_it(self):
        self.write_data({"part": b"data", "sub/part": b"data"})
        self.up(shell("cd {data:set}; for path in part sub/part new sub/new; do echo x 2>/dev/null >$path && echo written; done; "
                      "rm -rf sub part 2>/dev/null && echo removed; exit 0"))
        for host in self.hosts:
            (folder,) = self.kept(host)
            self.assertEqual((folder / "content/part").read_bytes() + (folder / "content/sub/part").read_bytes(), b"datadata")

    def test_a_file_keeps_its_name(self):
        self.write_data({"digits.npz": os.urandom(2 << 20), "other": b"not sent"})
        out = self.up(shell("basename {data:set}; ls $(dirname {data:set}); wc -c <{data:set}"), data='set = "data/digits.npz"').out
        self.assertEqual(out.count("| digits.npz\n"), 4, out)
        self.assertEqual(out.count("| 2097152\n"), 2, out)

    def test_a_file_that_is_there_twice_is_sent_once(self):
        """In the work folder and as data, and as data of two names: to each host by itself, and from host to host."""
        for size in (2 << 20, 9 << 20):
            large = os.urandom(size)
            self.write_data({"large": large})
            self.write_data({"other": large, "more": b"m"}, "second")
            self.write_data({"copy": large, "train": b""}, "work")
            up = self.up(shell("cmp copy {data:set}/large && cmp copy {data:two}/other && echo same"),
                         data='set = "./data"\ntwo = "./second"', task_extra='workdir = "work"')
            self.assertEqual(up.out.count("| same\n"), 2, up)
            megabytes = 2 * size / 1e6
            self.assertRegex(up.err, rf"files: ({megabytes:.1f}|{megabytes:.0f}) MB to 2 hosts, ")
            self.assertNotIn("from this machine", up.err)

    def block_unpacking(self, host):
        """tar(1) of the host says that it begins, and waits there until `go()` is called."""
        scripts = host.home / "tar"
        scripts.mkdir()
        shutil.copy(shutil.which("tar"), scripts / "tar")
        (scripts / "blocked").write_text('#!/bin/sh\ncase "$*" in */tfdist/data/*) : >/home/trainer/tar/begun\n'
                                         'until [ -e /home/trainer/tar/go ]; do sleep 0.05; done;; esac\n'
                                         'exec /home/trainer/tar/tar "$@"\n')
        for path in (scripts, *scripts.iterdir()):
            os.chown(path, host.uid, host.uid)
            path.chmod(0o755)
        self.addCleanup(shutil.rmtree, scripts)
        tar = shutil.which("tar")
        host.run_as("root", ["mount", "--bind", "/home/trainer/tar/blocked", tar])
        self.addCleanup(host.run_as, "root", ["umount", tar])
        return scripts

    def test_hosts_get_it_while_the_first_one_unpacks(self):
        first, second = self.hosts
        self.write_data({f"part{number}": os.urandom(500_000) for number in range(25)})
        tar = self.block_unpacking(first)
        up = self.user.start("up", "--timeline", self.write('set = "./data"', shell("cat {data:set}/* | wc -c")))
        wait_for((tar / "begun").exists, "the first host unpacks")
        wait_for(lambda: list(second.home.glob(".cache/tfdist/data/*/done")), "the second host has it all")
        (tar / "go").touch()
        self.assertEqual(up.wait(120), 0, up.err.read_text())
        self.assertEqual(up.out.read_text().count("| 12500000\n"), 2)
        self.assertNotIn("from this machine", up.err.read_text())
        self.assertRegex(up.err.read_text(), r"files: 25 MB to 2 hosts, 13 MB sent")

    def test_ctrl_c_while_it_is_unpacked_leaves_nothing(self):
        host = self.hosts[0]
        self.write_data({"part": b"data"})
        tar = self.block_unpacking(host)
        up = self.user.start("up", self.write('set = "./data"', ["ls", "{data:set}"]))
        wait_for((tar / "begun").exists, "the first host unpacks")
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(120), 130, up.err.read_text())
        self.assertIn("tfdist: nothing was started\n", up.err.read_text())
        wait_for(lambda: not any(one.processes() for one in self.hosts), "nothing of it runs")
        self.assertEqual(list(host.home.glob(".cache/tfdist/jobs/*")), [])
        (folder,) = self.kept(host)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["lock", "packed"])

    def test_a_changed_file_makes_other_content(self):
        self.write_data({"part": b"one"})
        self.assertEqual(self.up(["cat", "{data:set}/part"]).out.count("| one"), 2)
        self.write_data({"part": b"two"})
        self.assertEqual(self.up(["cat", "{data:set}/part"]).out.count("| two"), 2)
        self.assertEqual(len(self.kept(self.hosts[0])), 2)
        os.utime(self.user.folder / "data/part", (1, 1))  # no other content
        self.assertIn("files: nothing was sent\n", self.up(["cat", "{data:set}/part"]).err)

    def test_it_stays_out_of_the_workdir(self):
        self.write_data({"part": b"data"}, "work/data")
        self.write_data({"train": b""}, "work")
        up = self.up(shell("ls; cat {data:set}/part"), data='set = "work/data"', task_extra='workdir = "work"')
        self.assertIn("workdir: 1 file, 0 bytes; left out as data, which is sent by itself: 4 bytes (data 4 bytes)", up.err)
        self.assertEqual(sorted(up.out.splitlines()), ["worker:0 | data", "worker:0 | train", "worker:1 | data", "worker:1 | train"])

    def test_ignore_files_in_it_do_not_count(self):
        self.write_data({".gitignore": b"*\n", "part": b"data", ".git/x": b"", "sub/.tfdistignore": b"*\n"})
        self.assertIn("| 6\n", self.up(shell("find {data:set} -mindepth 1 | wc -l")).out)

    def test_an_empty_folder_is_data(self):
        (self.user.folder / "data").mkdir()
        self.assertEqual(self.up(shell("ls -A {data:set} | wc -l")).out.count("| 0\n"), 2)

    def test_large_data_goes_from_host_to_host(self):
        self.write_data({"large": os.urandom(12 << 20), "small": b"s"})
        first = self.up(shell("cat {data:set}/* | wc -c"))
        self.assertRegex(first.err, r"files: 25 MB to 2 hosts, 13 MB sent")
        subprocess.run(["rm", "-rf", str(self.hosts[1].home / ".cache")], check=True)
        later = self.up(shell("cat {data:set}/* | wc -c"), name="later")  # what the first host has unpacked long ago
        self.assertEqual(later.out.count("| 12582913\n"), 2, later)
        self.assertNotIn("from this machine", later.err)
        for host in self.hosts:
            (folder,) = self.kept(host)
            self.assertEqual((folder / "content/large").read_bytes(), (self.user.folder / "data/large").read_bytes())

    def up_on_two_names(self, second, mib, account="trainer"):
        """Of one machine; `second` as the cluster file has it; "twin" logs in as `account`. The result of `up`."""
        host = self.hosts[0]
        self.write_data({"part": os.urandom(mib << 20)})
        config = self.user.write("config", f"Host twin\n  HostName {host.address}\n  User {account}\n" + self.hosts.ssh_config.read_text())
        first = clusters.free_ports(2)
        text = f"""
name = "job"
[cluster]
layout = "roles"
[roles.a]
hosts = ["h1"]
ports = {first}
[roles.b]
hosts = [{second}]
ports = {first + 1}
[task]
command = {clusters.toml_list(shell("wc -c <{data:set}/part"))}
[ssh]
config = "{config}"
[data]
set = "./data"
"""
        up = self.user.run("up", "--timeline", self.user.write("job.toml", text)).expect(0)
        self.assertEqual(up.out.count(f"| {mib << 20}\n"), 2, up)
        self.assertIn("are one machine\n", up.err)
        return up

    def test_two_accounts_of_a_machine_have_it_each(self):
        self.hosts = Hosts(1, sshd_lines=("AllowUsers other",))
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        known = self.hosts[0].folder / "etc/hosts"
        known.write_text(known.read_text() + f"{self.hosts[0].address} h1 twin\n")
        self.assertRegex(self.up_on_two_names('"twin"', 1, account="other").err, r"files: 2\.1 MB to 2 hosts, ")

    def test_two_names_of_a_machine_get_it_once(self):
        """One is an alias of ssh's, the other one is none."""
        known = self.hosts[0].folder / "etc/hosts"
        self.addCleanup(known.write_text, known.read_text())
        known.write_text(known.read_text() + f"{self.hosts[0].address} h1 twin other\n")
        for second in ('"twin"', '{ address = "other", ssh = "h1" }'):
            for mib in (3, 12):
                with self.subTest(second=second, mib=mib):
                    self.assertRegex(self.up_on_two_names(second, mib).err, r"files: \d+(\.\d)? MB to 1 host, ")

    def test_a_file_that_changes_while_it_is_read_is_an_error(self):
        """A task's other job writes to it all the time: whatever moment that hits, no host takes it for what it was."""
        self.write_data({f"part{number}": b"x" * 100_000 for number in range(200)})
        part = self.user.folder / "data/part0"
        stop = threading.Event()

        def write():
            while not stop.is_set():
                part.write_bytes(os.urandom(50))
        writer = threading.Thread(target=write)
        writer.start()
        try:
            failed = self.user.run("up", self.write('set = "./data"', ["ls", "{data:set}"])).expect(3)
        finally:
            stop.set()
            writer.join()
        self.assertIn("data/part0 has changed since it was looked at", failed.err)
        for host in self.hosts:
            self.assertEqual([path for path in self.kept(host) if (path / "done").exists()], [])

    def test_a_disk_that_is_too_small_is_said_before_anything_is_sent(self):
        self.write_data({f"part{number}": b"x" * 1_000_000 for number in range(40)})
        host = self.hosts[1]
        subprocess.run(["nsenter", f"--target={host.pid}", "--mount", "sh", "-c",
                        "mkdir -p /home/trainer/.cache && "
                        f"mount -t tmpfs -o size=30m,uid={host.uid},mode=0700 tmpfs /home/trainer/.cache"], check=True)
        failed = self.user.run("up", self.write('set = "./data"', ["ls", "{data:set}"])).expect(3)
        self.assertRegex(failed.err, rf"{host.address}: files: the job's files need \d+ MiB at /home/trainer/.cache/tfdist")
        self.assertEqual(self.kept(self.hosts[0]), [])

    def test_two_jobs_at_once_unpack_it_once(self):
        self.write_data({f"part{number}": os.urandom(20_000) for number in range(500)})
        ups = [self.user.start("up", self.write('set = "./data"', shell("cat {data:set}/* | wc -c"), name=f"job{number}"))
               for number in range(2)]
        for up in ups:
            self.assertEqual(up.wait(120), 0, up.err.read_text())
            self.assertEqual(up.out.read_text().count("| 10000000\n"), 2)
        for host in self.hosts:
            (folder,) = self.kept(host)
            self.assertEqual(sorted(path.name for path in folder.iterdir()), ["content", "done", "lock", "packed"])

    def test_who_is_killed_while_it_is_unpacked_leaves_nothing_that_counts(self):
        """`up` or all of tfdist's processes of a host get SIGKILL once something of the content is there."""
        self.write_data({f"part{number}": os.urandom(2_000) for number in range(3000)})
        host = self.hosts[0]
        for victim in ("up", "agents"):
            up = self.user.start("up", self.write('set = "./data"', ["ls", "{data:set}"]))
            wait_for(lambda: list((host.home / ".cache/tfdist/data").glob("*/new.*")) or up.poll() is not None, "it is being unpacked", 60)
            if victim == "up":
                up.kill()
            else:
                processes.kill_together(lambda: [p.pid for p in host.processes()])
            up.wait(120)
            result = self.up(shell("ls {data:set} | wc -l"), name="next")
            self.assertEqual(result.out.count("| 3000\n"), 2, result)
            (folder,) = self.kept(host)
            self.assertEqual(sorted(path.name for path in folder.iterdir()), ["content", "done", "lock", "packed"])
            self.tearDown()

    def test_what_is_not_marked_is_made_anew(self):
        """As after a power cut, which may keep names and lose what they stand for."""
        self.write_data({"part": b"data", "large": os.urandom(2 << 20)})
        self.up(["ls", "{data:set}"])
        for host in self.hosts:
            (folder,) = self.kept(host)
            (folder / "done").unlink()
            (folder / "content/part").chmod(0o600)
            (folder / "content/part").write_bytes(b"lost")
        self.assertEqual(self.up(["cat", "{data:set}/part"]).out.count("| data"), 2)

    def test_clean_removes_it(self):
        self.write_data({"part": os.urandom(3_000_000)})
        file = self.write('set = "./data"', ["ls", "{data:set}"])
        self.user.run("up", file).expect(0)
        wait_for(lambda: not any(host.processes() for host in self.hosts), "the agents have left", 90)
        self.user.run("clean", "--yes", file).expect(0)
        for host in self.hosts:
            self.assertFalse((host.home / ".cache/tfdist/data").exists())

    def test_retention_removes_what_nobody_uses(self):
        self.write_data({"part": b"old"})
        self.up(["ls", "{data:set}"])
        old = 15 * 24 * 3600
        for host in self.hosts:
            (folder,) = self.kept(host)
            (folder / f"packed/{'0' * 64}.a1B2c3").write_bytes(b"of an agent that was killed")
            for name in (f"packed/{'0' * 64}.a1B2c3", "lock", "done", "packed"):
                os.utime(folder / name, (folder.stat().st_mtime - old,) * 2)
        (folder / "done").touch()  # the second host's is in use
        self.write_data({"part": b"new"})
        self.up(["ls", "{data:set}"])
        contents = [sorted((folder / "content/part").read_bytes() for folder in self.kept(host)) for host in self.hosts]
        self.assertEqual(contents, [[b"new"], [b"new", b"old"]])
        self.assertEqual(list(folder.glob("packed/*.*")), [])

    def test_a_running_job_is_told_apart_by_its_data(self):
        self.write_data({"part": b"one"}, "work/data")
        self.write_data({"train": b""}, "work")
        file = self.write('set = "./work/data"', shell("ls {data:set}; sleep 1000"), task_extra='workdir = "work"')
        self.user.run("up", "-d", file).expect(0)
        self.assertRegex(self.user.run("check", file).expect(0).out, r"\njob job-\S+ runs already, from this plan: ")
        self.write_data({"part": b"two"}, "work/data")
        self.assertIn("error: ", self.user.run("check", file).expect(3).out)
        other = self.user.run("up", "-d", file).expect(4)
        self.assertIn("  data changed: set\n", other.err)
        self.user.run("down", "job").expect(0)


class Slots(unittest.TestCase):
    def test_the_slots_of_a_machine_get_it_once(self):
        user = Tfdist("data")
        self.addCleanup(user.close)
        user.write("data/part", "x" * 3_000_000)
        text = clusters.local("job", shell("wc -c <{data:set}/part"), slots=3)
        file = user.write("job.toml", text + '[data]\nset = "data"\n')
        up = user.run("up", "--timeline", file).expect(0)
        self.assertEqual(up.out.count("| 3000000\n"), 3, up)
        self.assertRegex(up.err, r"files: 3\.\d MB to 1 host, ")
        self.assertEqual(len(list(user.folder.glob(".cache/tfdist/data/*"))), 1)

    def test_slots_without_data_wait_for_none(self):
        user = Tfdist("data")
        self.addCleanup(user.close)
        up = user.run("up", "--timeline", "-H", "localhost:8", "--no-workdir", "--", "true").expect(0)
        self.assertIn("unpacking files, checking ports and commands", up.err)
        self.assertNotRegex(up.err, r"(?m)^data ")


class Examples(unittest.TestCase):
    """The files of configs/ as they are, but for their ports and lengths."""

    def up(self, name, *changes):
        user = Tfdist("data")
        self.addCleanup(user.close)
        args = ("up", str(ROOT / f"configs/{name}.toml"), "--set", "cluster.ports=auto")
        user.run(*args, *changes).expect(0)
        return user.run(*args, *changes).expect(0)

    def test_data_that_is_kept(self):
        again = self.up("data", "--timeline", "--set", 'task.command=["sh", "-c", "ls {data:digits}"]')
        # A ps may be ended with the job before it has printed anything.
        self.assertEqual(len(re.findall(r"(?m)^(?:master|worker):0 +\| train-images-idx3-ubyte\.gz$", again.out)), 2, again)
        self.assertIn("files: nothing was sent\n", again.err)

    def test_an_environment_that_each_host_makes(self):
        self.assertRegex(self.up("setup").out, r"worker:1 \| /.*/setup/.*/\.venv\n")


class InTheFile(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("data")
        self.addCleanup(self.user.close)

    def write(self, data, command=("ls", "{data:set}")):
        (self.user.folder / "work").mkdir(exist_ok=True)
        text = clusters.local("job", list(command), slots=1, task_extra='workdir = "work"')
        return self.user.write("job.toml", text + f"\n[data]\n{data}\n")

    def test_mistakes_are_named(self):
        for data, why in (('set = { path = "data/set" }', "expected a path of the hosts, beginning with / or ~/, got 'data/set'"),
                          ('set = { path = "/data/{task}" }', "{task} stands for nothing here"),
                          ('set = { paths = "/data/set" }', "did you mean 'path'?"),
                          ("set = {}", "says no path"),
                          ('set-1 = { path = "/data" }', "expected a name of letters, digits and _"),
                          ('set = "nothing"', "there is no folder or file"),
                          ('set = "."', "holds the workdir"),
                          ('sett = { path = "/data" }', "{data:set} stands for nothing: [data] has no such name")):
            self.assertIn(why, self.user.run("render", self.write(data)).expect(2).err, data)

    def test_render_and_describe_show_it(self):
        self.user.write("set/part", "x")
        file = self.write('set = { path = "~/set" }')
        shown = self.user.run("render", file).expect(0).out
        self.assertIn("data: set: ~/set on the hosts\n", shown)
        self.assertIn("ls ~/set\n", shown)
        self.assertEqual(json.loads(self.user.run("render", "--json", file).expect(0).out)["data"], {"set": {"path": "~/set", "source": None}})
        self.user.run("up", file).expect(0)
        self.assertIn("data.set ~/set on the hosts", self.user.run("describe", "job").expect(0).out)
        sent = self.user.run("render", self.write('set = "set"')).expect(0).out
        self.assertIn(f"data: set: {self.user.folder}/set, sent from here\n", sent)
        self.assertIn("ls <data>/set\n", sent)


if __name__ == "__main__":
    unittest.main()
