"""Large work folders on their way to the hosts."""

import contextlib
import hashlib
import os
import pathlib
import re
import subprocess

from tests.hosts.hosts import bridge_name
from tests.smoke.test_ssh import OverSsh, setUpModule  # noqa: F401: unittest looks for it here
from tests.support import clusters
from tests.support.tfdist import BIN
from tests.support.waiting import wait_for

MB = 1_000_000


class FilesTest(OverSsh):
    def write_job(self, hosts, **options):
        return self.user.write("cluster.toml", clusters.over_ssh(
            "job", ["sh", "-c", "wc -c data*"], hosts, layout="mirrored", task_extra='workdir = "work"', **options))

    def write_data(self, megabytes, name="data"):
        """Of random bytes, so that what is sent is as long."""
        path = self.user.folder / "work" / name
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb") as file:
            for _ in range(megabytes):
                file.write(os.urandom(MB))


class LargeWorkdirs(FilesTest):
    def test_up_says_how_many_bytes_and_hosts_have_their_files(self):
        hosts = self.start_hosts(2)
        self.write_data(60)
        up = self.user.start("up", self.write_job(hosts))
        # The first bytes are there: from now on one host hangs.
        files = hosts[1].home / ".cache/tfdist/files"
        wait_for(lambda: files.is_dir() and any(f.stat().st_size > 0 for f in files.iterdir()), "the first bytes")
        hosts[1].freeze()
        said = re.compile(rb"(\d+) s: files: ([\d.]+) MB of 120 MB sent \((\d+) %\); all are on 1 of 2 hosts")
        wait_for(lambda: said.search(up.err.read_bytes()), "the progress")
        hosts[1].thaw()
        self.assertEqual(up.wait(timeout=60), 0, up.err.read_text())
        seconds, megabytes, percent = said.search(up.err.read_bytes()).groups()
        self.assertTrue(60 <= float(megabytes) < 120 and 50 <= int(percent) < 100 and int(seconds) >= 5)
        self.assertEqual(up.out.read_text().count("60000000 data"), 2)

    def test_a_disk_that_is_too_small_is_said_before_the_hosts_get_a_byte(self):
        hosts = self.start_hosts(2)
        self.write_data(40)
        subprocess.run(["nsenter", f"--target={hosts[1].pid}", "--mount", "sh", "-c",
                        "mkdir -p /home/trainer/.cache && "
                        f"mount -t tmpfs -o size=50m,uid={hosts[1].uid},mode=0700 tmpfs /home/trainer/.cache"], check=True)
        job = self.write_job(hosts)
        checked = self.user.run("check", job).expect(3)
        self.assertRegex(checked.out, r"127\.\S+: disk: the job's files need 76 MiB at /home/trainer/.cache/tfdist, where \d+ MiB are free")
        result = self.user.run("up", job)
        self.assertEqual(result.code, 3, result)
        # Twice 40 MB: the cache's copy and the tasks' own.
        self.assertRegex(result.err, r"127\.\S+: files: the job's files need 76 MiB at /home/trainer/.cache/tfdist, "
                                     r"where \d+ MiB are free")
        self.assertIn("  try: make room there, or set remote_dir in [ssh]", result.err)
        self.assertIn("1 of 2 hosts could not be brought up; nothing was started", result.err)
        for host in hosts:  # the first has room, and gets nothing for nothing either
            self.assertFalse((host.home / ".cache/tfdist/files").exists())

    def test_the_memory_of_up_does_not_grow_with_the_workdir(self):
        hosts = self.start_hosts(1)

        def peak_mb(megabytes):
            self.write_data(megabytes)
            process = subprocess.Popen([str(BIN / "tfdist"), "up", "-q", self.write_job(hosts)], env=self.user.env,
                                       cwd=self.user.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            return usage.ru_maxrss / 1000

        small = peak_mb(5)
        self.assertLess(peak_mb(120), small + 20, f"{small} MB for 5 MB")


class Times(FilesTest):
    def test_files_arrive_with_their_times_and_a_touched_one_is_not_sent_again(self):
        """Programs look for the newest checkpoint, and for what is newer than what it was made from."""
        hosts = self.start_hosts(2)
        work = self.user.folder / "work"
        self.write_data(2, "ckpt-0")
        (work / "ckpt-1").write_text("1")
        (work / "sub").mkdir()
        (work / "sub/ckpt-2").write_text("2")
        (work / "latest").symlink_to("sub/ckpt-2")
        names = ["ckpt-0", "ckpt-1", "latest", "sub/ckpt-2", "sub", "."]
        times = {name: 1_600_000_000_123_456_789 + number * 2_000_000_007 for number, name in enumerate(names)}
        file = self.user.write("cluster.toml", clusters.over_ssh(
            "job", ["sh", "-c", "stat -c '%n %.9Y' " + " ".join(names)], hosts, layout="mirrored", task_extra='workdir = "work"'))

        def up():
            for name, time in times.items():
                os.utime(work / name, ns=(time, time), follow_symlinks=False)
            done = self.user.run("up", "--timeline", file)
            self.assertEqual(done.code, 0, done)
            shown = re.findall(r"worker:[01] \| (\S+) (\d+)\.(\d{9})", done.out)
            self.assertEqual(sorted((name, int(seconds + fraction)) for name, seconds, fraction in shown),
                             sorted(2 * list(times.items())))
            return done.err, {path.name for path in (hosts[1].home / ".cache/tfdist/files").iterdir()}

        before = up()[1]
        times["ckpt-0"] += 1
        said, after = up()
        self.assertEqual(len(after - before), 1)  # the list of times
        self.assertRegex(said, r"files: \d+ bytes to 2 hosts, ")
        self.assertIn("files: nothing was sent\n", up()[0])


    def test_files_and_folders_arrive_with_their_modes(self):
        hosts = self.start_hosts(1)
        self.write_data(2, "large")
        work = self.user.folder / "work"
        modes = {"large": 0o644, "small": 0o640, "run.sh": 0o755, "ckpt": 0o444}
        (work / "small").write_text("1")
        for name in ("run.sh", "ckpt"):
            self.write_data(2, name)
        for name, mode in (("closed", 0o700), ("open", 0o777), ("guarded", 0o555)):
            (work / name).mkdir()
            (work / name / "file").write_text("1")
            modes[name] = mode
        for name, mode in modes.items():
            (work / name).chmod(mode)
        work.chmod(0o555)
        file = self.user.write("cluster.toml", clusters.over_ssh(
            "job", ["sh", "-c", "stat -c '%n %a' *; echo >made"], hosts, layout="mirrored", task_extra='workdir = "work"'))
        done = self.user.run("up", file)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(dict(re.findall(r"worker:0 \| (\S+) (\d+)$", done.out, re.M)),
                         {name: f"{mode:o}" for name, mode in modes.items()})


def folders_of_large_files(folder, size):
    """What goes meanwhile is left out."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += [pathlib.Path(parent).name] if os.path.getsize(os.path.join(parent, name)) >= size else []
    return found


class OverTheUplinkOnce(FilesTest):
    """Each host has a network of its own; this machine's bytes are counted at its end of the bridge."""

    @staticmethod
    def sent_bytes(hosts):
        lines = pathlib.Path("/proc/net/dev").read_text().splitlines()  # proc_pid_net(5); /sys may be another namespace's
        counters = dict(line.strip().split(":", 1) for line in lines if ":" in line)
        return int(counters[bridge_name(hosts[0].address)].split()[8])

    def test_a_large_workdir_is_sent_once_and_hosts_need_not_reach_each_other(self):
        hosts = self.start_hosts(4, own_network=True)
        self.write_data(1)
        self.user.run("up", self.write_job(hosts)).expect(0)  # the agents are there
        for one in hosts:
            for other in hosts:
                if one is not other and hosts[0] not in (one, other):
                    one.drop(other, "1-65534")
        for number in range(10):  # the answers to some come while others are compressed
            self.write_data(5, f"data{number}")
        before = self.sent_bytes(hosts)
        result = self.user.run("up", "--timeline", self.write_job(hosts))
        sent = self.sent_bytes(hosts) - before
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.out.count("5000000 data"), 4 * 10, result)
        self.assertRegex(result.err, r"files: 200 MB to 4 hosts, 50 MB sent")
        self.assertLess(sent, 1.3 * 50 * MB)
        self.assertGreater(sent, 50 * MB)
        again = self.user.run("up", "--timeline", self.write_job(hosts))
        self.assertIn("files: nothing was sent", again.err)

    def test_hosts_with_one_home_get_and_keep_a_large_workdir_once(self):
        hosts = self.start_hosts(3, own_network=True, shared_home=True)
        self.write_data(1)
        self.user.run("up", self.write_job(hosts)).expect(0)  # the agent is there
        self.write_data(20)
        before = self.sent_bytes(hosts)
        up = self.user.run("up", self.write_job(hosts)).expect(0)
        self.assertLess(self.sent_bytes(hosts) - before, 1.3 * 20 * MB)
        self.assertEqual(up.out.count("20000000 data"), 3, up)
        folder = hosts[0].home / ".cache/tfdist"
        # Agents remove what no task has written into, after `up` has ended.
        wait_for(lambda: folders_of_large_files(folder, 20 * MB) == ["files"], "the 20 MB are in the cache only")
        clean = self.user.run("clean", "--yes", self.write_job(hosts)).expect(0)
        self.assertNotIn("kept", clean.out)
        self.assertFalse(folder.exists())

    def test_one_changed_small_file_does_not_send_all_of_them_again(self):
        hosts = self.start_hosts(2, own_network=True)
        work = self.user.folder / "work"
        for number in range(4000):
            file = work / f"pkg{number % 20}" / f"{number}.bin"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(os.urandom(2000))
        (work / "data").write_text("")
        closed = work / "pkg7"
        closed.chmod(0o555)
        self.user.run("up", self.write_job(hosts)).expect(0)
        closed.chmod(0o755)
        (work / "pkg3/3.bin").write_bytes(os.urandom(2000))
        job = clusters.over_ssh("job", ["sh", "-c", "find . -type f | wc -l; sha256sum pkg3/3.bin"], hosts, layout="mirrored",
                                task_extra='workdir = "work"')
        before = self.sent_bytes(hosts)
        result = self.user.run("up", self.user.write("cluster.toml", job)).expect(0)
        self.assertLess(self.sent_bytes(hosts) - before, 2 * MB)  # of 8 MB; each login and the list of times count
        self.assertEqual(result.out.count("4001"), 2, result)
        self.assertEqual(result.out.count(hashlib.sha256((work / "pkg3/3.bin").read_bytes()).hexdigest()), 2)

    def test_a_host_refuses_wrong_bytes_and_gets_the_files_from_here(self):
        hosts = self.start_hosts(2, own_network=True)
        self.write_data(20)
        self.user.run("up", self.write_job([hosts[0]], ssh_config=hosts.ssh_config)).expect(0)
        path = next(f for f in (hosts[0].home / ".cache/tfdist/files").iterdir() if f.stat().st_size == 20 * MB)
        used = path.stat().st_mtime_ns
        # The first host looks at its file before the second one can ask for it.
        hosts[1].freeze()
        up = self.user.start("up", self.write_job(hosts))
        wait_for(lambda: path.stat().st_mtime_ns != used, "the first host's look at the file")
        with open(path, "r+b") as file:
            file.seek(10 * MB)
            file.write(b"wrong bytes")
        hosts[1].thaw()
        self.assertEqual(up.wait(timeout=60), 0, up.err.read_text())
        self.assertRegex(up.err.read_text(), rf"warning: {hosts[1].address}: got the job's files from this machine, not from "
                                             rf"{hosts[0].address}: a file arrived damaged: 20000000 of 20000000 bytes")
        cached = hosts[1].home / ".cache/tfdist/files" / path.name
        self.assertEqual(cached.read_bytes(), (self.user.folder / "work/data").read_bytes())

    def test_a_connection_that_breaks_meanwhile_costs_time_alone(self):
        hosts = self.start_hosts(2, own_network=True)
        self.write_data(60)
        up = self.user.start("up", self.write_job(hosts))
        files = hosts[1].home / ".cache/tfdist/files"
        wait_for(lambda: files.is_dir() and any(f.stat().st_size > 0 for f in files.iterdir()), "the first bytes")
        # New connections have other ports.
        listing = subprocess.run(["nsenter", f"--target={hosts[1].pid}", "--net", "ss", "-Htn", "dst", hosts[0].address],
                                 check=True, capture_output=True, text=True).stdout
        for port in re.findall(rf"{re.escape(hosts[1].address)}:(\d+)", listing):
            hosts[1].drop(hosts[0], port)
        self.assertEqual(up.wait(timeout=60), 0, up.err.read_text())
        self.assertNotIn("from this machine", up.err.read_text())
        self.assertEqual(up.out.read_text().count("60000000 data"), 2)
