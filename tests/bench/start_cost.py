"""What a start costs beside what no start can do without, on the same sshds in the same run.

    start_cost.py [--hosts N] [--repetitions N] [--config one|each] [--pdsh] [--before FOLDER]

The job: every host prints a line and exits. Beside it:
    floor     one thread of libssh2: connect, key exchange, key, `echo` on all hosts (cli/ssh/bench/login_floor.cc)
    pdsh      as it is shipped (`apt-get install pdsh`), all hosts at a time; with --pdsh
    ssh       `ssh HOST echo`, all hosts at a time
Of tfdist:
    login     a shell on each host, and nothing more (build/bin/ssh_probe)
    by ssh    with a line in ssh's configuration that leads to the user's own ssh
    before    by another build, whose build/bin --before names
Wall time; CPU of the client and its children; CPU of the hosts, from the login until the last process there has gone; the
client's largest memory. Medians, with the smallest and largest wall time. The hosts are named by their addresses, which ssh's
configuration cannot tell apart; `--config each` gives each a block of its own there.
"""

import argparse
import collections
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import threading
import time

from tests.hosts.hosts import PORT, Hosts
from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist
from tests.support.waiting import wait_for

TICKS = os.sysconf("SC_CLK_TCK")


def ticks_of(host):
    """User and system time of a host's process 1, which is its sshd, and of all that it has waited for: orphans too."""
    with open(f"/proc/{host.pid}/stat") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return sum(int(field) for field in fields[11:15])


class Sample:
    def __init__(self, wall, client, hosts, memory_kib):
        self.wall, self.client, self.hosts, self.memory_kib = wall, client, hosts, memory_kib


def settle(hosts):
    """Until nothing but the sshds runs there: the time of what runs is not in `ticks_of`."""
    wait_for(lambda: not any(child_of(host) for host in hosts), "end of all processes on the hosts")


def child_of(host):
    with open(f"/proc/{host.pid}/task/{host.pid}/children") as children:
        return children.read()


def watch_memory(pid, peaks):
    """Adds the process's largest memory so far (KiB) to `peaks`. What wait4(2) says includes this Python's, before the exec."""
    while True:
        with open(f"/proc/{pid}/status") as status:
            lines = [line for line in status if line.startswith("VmHWM:")]
        if not lines:  # it has ended
            return
        peaks.append(int(lines[0].split()[1]))
        time.sleep(0.01)


def measured(hosts, argv, check, env=None, out=None):
    """`check` is called with exit code, stdout and stderr; stdout goes to the file `out` instead, if there is one."""
    if out is not None:
        with open(out, "wb") as stdout:
            return measured_into(stdout, hosts, argv, check, env)
    return measured_into(subprocess.PIPE, hosts, argv, check, env)


def measured_into(stdout, hosts, argv, check, env):
    before = sum(map(ticks_of, hosts))
    start = time.monotonic()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env)
    errors, peaks = [], [0]
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    watcher = threading.Thread(target=watch_memory, args=(process.pid, peaks))
    reader.start(), watcher.start()
    out = process.stdout.read() if process.stdout else ""
    reader.join(), watcher.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - start
    check(process.returncode, out, errors[0])
    settle(hosts)
    client = usage.ru_utime + usage.ru_stime
    return Sample(wall, client, (sum(map(ticks_of, hosts)) - before) / TICKS, peaks[-1])


def prints(line, count):
    def check(code, out, err):
        assert code == 0 and sum(text.endswith(line) for text in out.splitlines()) == count, (code, out[-2000:], err[-2000:])
    return check


def succeeds(code, _, err):
    assert code == 0, err


def table(rows, count):
    print(f"{'':<26} {'wall s':>18} {'x floor':>8} {'client ms/host':>15} {'hosts ms/host':>14} {'x floor':>8} {'client MB':>10}")
    floor = None
    for name, samples in rows:
        walls = [sample.wall for sample in samples]
        wall, client = statistics.median(walls), statistics.median(sample.client for sample in samples)
        host, memory = statistics.median(sample.hosts for sample in samples), max(sample.memory_kib for sample in samples)
        floor = floor or (wall, host)
        print(f"{name:<26} {wall:6.2f} ({min(walls):.2f}-{max(walls):.2f}) {wall / floor[0]:8.2f} {client / count * 1e3:15.1f}"
              f" {host / count * 1e3:14.1f} {host / floor[1]:8.2f} {memory / 1024:10.1f}")


def shared_config(hosts, name="shared_config", line="", is_one=True):
    """One block for all hosts, which are named by their addresses, or one for each; `line` before them."""
    text = hosts.ssh_config.read_text()
    config = hosts.folder / name
    config.write_text(line + "\n" + (text[text.index("Host *"):] if is_one else text))
    return config


class Way:
    """A configuration of ssh that begins with `line`, and a cluster file that names it."""

    def __init__(self, hosts, user, name, line, is_one):
        self.config = shared_config(hosts, f"{name}_config", line, is_one)
        self.names = [host.address if is_one else host.name for host in hosts]
        cluster = clusters.over_ssh("bench", ["echo", "ready"], hosts, layout="mirrored", ssh_config=self.config)
        for host, name_there in zip(hosts, self.names):
            cluster = cluster.replace(f'ssh = "{host.name}"', f'ssh = "{name_there}"')
        self.file = user.write(f"{name}.toml", cluster)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--config", choices=("one", "each"), default="one")
    parser.add_argument("--pdsh", action="store_true")
    parser.add_argument("--before", metavar="FOLDER", type=pathlib.Path)
    return parser.parse_args()


def pdsh_commands(hosts, config):
    """pdsh gives ssh's options in PDSH_SSH_ARGS, all hosts at a time by -f."""
    names = ",".join(host.address for host in hosts)
    env = os.environ | {"PDSH_SSH_ARGS": f"-F {config} -oKexAlgorithms=curve25519-sha256 %h"}
    return ["pdsh", "-R", "ssh", "-f", str(len(hosts)), "-w", names, "echo", "ready"], env


def plain_ssh(way):
    script = "for host; do ssh -F '{}' $host echo ready & done; wait".format(way.config)
    return ["sh", "-c", script, "sh", *way.names]


def main():
    arguments = parse()
    count = arguments.hosts
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with Hosts(count) as hosts, Tfdist("bench") as user:
        usual, by_ssh = (Way(hosts, user, name, line, arguments.config == "one")
                         for name, line in (("usual", ""), ("by_ssh", "AddressFamily inet")))
        tfdist = BIN / "tfdist"
        builds = [("", BIN, usual), (", by ssh", BIN, by_ssh)]
        if arguments.before:
            builds.append((", before", arguments.before, usual))
        floor_argv = [str(BIN / "login_floor"), "trainer", str(PORT), str(hosts.key), "echo ready", *(h.address for h in hosts)]
        rows = collections.defaultdict(list)

        def sample(name, argv, check, env=None):
            rows[name].append(measured(hosts, argv, check, env))

        for _ in range(arguments.repetitions):
            sample("floor", floor_argv, succeeds)
            if arguments.pdsh:
                argv, env = pdsh_commands(hosts, usual.config)
                sample("pdsh", argv, prints("ready", count), env)
            sample("ssh", plain_ssh(usual), prints("ready", count))
            for host in hosts:
                shutil.rmtree(host.home / ".cache", ignore_errors=True)
            for there in ("sent", "there"):
                sample(f"tfdist up, agent {there}", [tfdist, "up", usual.file], prints("| ready", count), user.env)
            for name, folder, way in builds:
                sample(f"login{name}", [folder / "ssh_probe", "--config", way.config, "open", *way.names], succeeds)
                command = [folder / "tfdist", "exec", way.file, "--", "echo", "ready"]
                sample(f"tfdist exec{name}", command, prints("| ready", count), user.env)
    print(f"{count} hosts, {arguments.repetitions} repetitions, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {tfdist}")
    table(rows.items(), count)


if __name__ == "__main__":
    main()
