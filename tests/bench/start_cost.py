"""What `tfdist up` costs the user's machine, beside plain ssh on the same sshds in the same run.

    start_cost.py [HOSTS] [REPETITIONS]

The job: every host prints a line and exits. Beside it: `ssh HOST echo`, all hosts at a time. Wall time, and CPU
time of the client and its children; medians, with the smallest and largest. First with an agent to upload, then
with it already there, as in every later start.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time

from tests.hosts.hosts import Hosts
from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist


def measured(action):
    """(wall seconds, CPU seconds of child processes) of action()."""
    before, start = os.times(), time.monotonic()
    action()
    wall, after = time.monotonic() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu


def up(user, file, count):
    result = user.run("up", file)
    assert result.code == 0 and result.out.count("| hello\n") == count, result


def plain_ssh(hosts):
    commands = [
        subprocess.Popen(["ssh", "-F", hosts.ssh_config, host.name, "echo", "hello"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for host in hosts
    ]
    assert all(command.communicate()[0] == b"hello\n" for command in commands)


def row(name, samples):
    def spread(values):
        return f"{statistics.median(values):6.2f} s ({min(values):.2f}-{max(values):.2f})"

    walls, cpus = zip(*samples)
    print(f"{name:<28} wall {spread(walls)}   CPU {spread(cpus)}")
    return statistics.median(walls), statistics.median(cpus)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    repetitions = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with Hosts(count) as hosts, Tfdist("bench") as user:
        file = user.write("cluster.toml", clusters.over_ssh("bench", ["echo", "hello"], hosts, layout="mirrored"))
        cold, warm, ssh = [], [], []
        for _ in range(repetitions):
            for host in hosts:
                shutil.rmtree(host.home / ".cache", ignore_errors=True)
            cold.append(measured(lambda: up(user, file, count)))
            warm.append(measured(lambda: up(user, file, count)))
            ssh.append(measured(lambda: plain_ssh(hosts)))
    print(f"{count} hosts, {repetitions} repetitions, {os.cpu_count()} cores, {BIN / 'tfdist'}")
    row("tfdist up, agent uploaded", cold)
    warm_wall, warm_cpu = row("tfdist up, agent there", warm)
    ssh_wall, ssh_cpu = row("ssh HOST echo, all at once", ssh)
    print(f"tfdist up (agent there) / ssh: wall {warm_wall / ssh_wall:.2f}, CPU {warm_cpu / ssh_cpu:.2f}")


if __name__ == "__main__":
    main()
