"""Four hosts with links of their own, a user, and the diaries of tasks: what the rounds of a batch share."""

import pathlib
import re
import shutil
import tempfile

from tests.chaos.containers import Containers
from tests.chaos.links import Link
from tests.chaos.task import number_of
from tests.hosts.hosts import Hosts, pid_namespaces, read_process
from tests.support import processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
JOBS_PARENTS = ("/home/trainer/.cache", "/home/trainer/.cache/tfdist")
JOBS = JOBS_PARENTS[-1] + "/jobs"
SMALL_DISK_BYTES = 24 << 20
SLOTS = 3  # the fourth host is a spare, or idle

# How each of tfdist's processes on a host is told from the others, by its command line.
ROLES = {
    "agent": lambda argv: argv[:2] == ["tfdist-agent", "agent"],
    "keeper": lambda argv: argv[:2] == ["tfdist-agent", "keeper"],
    "holder": lambda argv: argv[:2] == ["tfdist-agent", "holder"],
    "attach": lambda argv: argv[1:2] == ["attach"],
    "start": lambda argv: argv[1:2] == ["start"],
    "sshd": lambda argv: re.match(r"sshd(-session)?: trainer", argv[0]) is not None,
    "task": lambda argv: argv[0] == "python3" and "task.py" in argv,
    "client": lambda argv: argv[0] in ("docker", "podman") and argv[1:2] == ["run"],
}


def read_environ(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone
        return b""


class World:
    def __init__(self, engine=None):
        """`engine`: one of containers.ENGINES, which runs the tasks."""
        self.hosts = Hosts(SLOTS + 1, own_network=True, own_clock=True)
        self.user = Tfdist("chaos")
        self.links = [Link(host) for host in self.hosts]
        self.hosts[1].options.uptime = 86_400  # the clocks of machines have nothing in common
        self.hosts[2].uid = 0  # an account that may end every process
        self.containers = Containers(self.hosts, engine) if engine else None
        self.small_disks = set()  # slots whose jobs lie on a small disk of their own
        self.hides_processes = False
        # Hosts have folders of their own under /tmp and /home; this one is the machine's.
        self.diaries = pathlib.Path(tempfile.mkdtemp(prefix="tfdist-chaos-", dir="/var/tmp"))
        self.diaries.chmod(0o755)
        self.program = self.user.folder / "program"
        self.program.mkdir()
        shutil.copy(HERE / "task.py", self.program)
        self.hosts.start()
        if self.containers:
            self.containers.start()

    def close(self):
        self.heal()
        self.hosts.stop()
        self.user.close()
        shutil.rmtree(self.diaries, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- processes ----------------------------------------------------------------------------------

    def pids(self, slot, role):
        """Of that role on the host of a slot, oldest first."""
        is_it = ROLES[role]
        return sorted(p.pid for p in self.hosts[slot].processes(with_sshd=True) if p.argv and p.argv[0] and is_it(p.argv))

    def left(self, mark):
        """What is left of jobs on the hosts: {host: [(pid, command)]}; `mark` finds what has escaped a task."""
        names = {namespace: host.name for host in self.hosts if host.pid for namespace in pid_namespaces(host.pid)[:1]}
        found = {}
        for pid in processes.pids():  # one walk for all hosts: this is asked again and again
            name = next((names[namespace] for namespace in pid_namespaces(pid) if namespace in names), None)
            process = read_process(pid) if name else None
            if process is None or process.state == "Z" or not process.argv[0]:
                continue
            if mark in process.argv or any(is_it(process.argv) for role, is_it in ROLES.items() if role != "sshd"):
                found.setdefault(name, []).append((pid, " ".join(process.argv)))
        return found

    def tasks_left(self, mark):
        """Only tasks and what they have started."""
        left = {name: [(pid, command) for pid, command in here if mark in command or "task.py" in command]
                for name, here in self.left(mark).items()}
        return {name: here for name, here in left.items() if here}

    def tasks_of(self, job):
        """{host: what is left of the tasks of one job, and of what they have started}"""
        number, named = number_of(job), f"TFDIST_JOB_ID={job}".encode()
        left = {}
        for host in self.hosts:
            for process in host.processes() if host.pid else []:
                is_its_task = "task.py" in process.argv and named in read_environ(process.pid).split(b"\0")
                if number in process.argv or is_its_task:
                    left.setdefault(host.name, []).append(process)
        return left

    def hide_processes(self, hides):
        """/proc of every host shows an account those of its processes only that it may trace, or again all."""
        if hides != self.hides_processes:
            self.hides_processes = hides
            for slot in range(len(self.hosts)):
                self._mount_proc(slot)

    def _mount_proc(self, slot):
        self.hosts[slot].run_as("root", ["mount", "-o", f"remount,hidepid={2 if self.hides_processes else 0}", "/proc"])

    # --- what undoes the nemeses ----------------------------------------------------------------------

    def heal(self):
        for slot, host in enumerate(self.hosts):
            self.links[slot].heal()
            host.move_clock(0)
            if host.pid is not None:
                host.thaw()

    def reboot(self, slot):
        """A host that has crashed starts again; what was on its disk is there."""
        self.links[slot].remove()
        self.hosts[slot].start(with_parent=True)
        self.hosts[slot].wait_until_up()
        if self.hides_processes:
            self._mount_proc(slot)
        if self.containers:
            self.containers.start_engine(self.hosts[slot])

    def clear_host(self, slot):
        """Ends by force what may rightly still be there, so that the next round begins clean."""
        def found():
            return [p.pid for p in self.hosts[slot].processes() if p.argv and p.argv[0] == "tfdist-agent"]
        processes.kill_together(found)
        wait_for(lambda: not found(), f"the end of all on {self.hosts[slot].name}")

    # --- what is on the disks of the hosts --------------------------------------------------------------

    def jobs(self, slot):
        """The folder of all jobs on that host, as seen from here."""
        host = self.hosts[slot]
        home = f"/proc/{host.pid}/root/home/{host.user}" if slot in self.small_disks else host.home
        return pathlib.Path(home) / ".cache/tfdist/jobs"

    def job_folder(self, slot, job):
        return self.jobs(slot) / job

    def mount_small_disk(self, slot, logs_bytes=0):
        """Under the folder of all jobs; it holds an agent, some logs, and `logs_bytes` more of them."""
        host = self.hosts[slot]
        host.run_as(host.user, ["mkdir", "-p", "-m", "700", *JOBS_PARENTS, JOBS])
        host.run_as("root", ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES + logs_bytes},mode=700,uid={host.uid},gid={host.uid}",
                             "tmpfs", JOBS])
        self.small_disks.add(slot)

    def unmount_small_disks(self):
        for slot in self.small_disks:
            if self.hosts[slot].pid:
                # A power cut has taken it along.
                self.hosts[slot].run_as("root", ["sh", "-c", 'if mountpoint -q "$0"; then umount -l "$0"; fi', JOBS])
        self.small_disks.clear()

    def log(self, job, task, slot):
        """The bytes of a task's log on the host of a slot: empty, if it never ran there."""
        return b"".join(path.read_bytes() for folder in self.job_folder(slot, job).glob(f"h*/tasks/{task.replace(':', '-')}")
                        for path in sorted(folder.glob("*.log")))

    def slot_of(self, host_name):
        return int(host_name[1:]) - 1
