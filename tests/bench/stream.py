"""What it costs that tasks' output comes to the user's machine, beside the same bytes over bare SSH, on the same sshds in the same run.

    stream.py [--hosts N] [--lines N] [--repetitions N]

The job: each host prints a file of N lines of 100 bytes, and `tfdist up` writes the output to a file. Beside it:
    floor     one thread of libssh2: login, and `cat` of the same file on all hosts, read and dropped (cli/ssh/bench/login_floor.cc)
    ssh       `ssh HOST cat`, all hosts at a time, to one file
    start     `tfdist up` of a job whose tasks print one line: what of the time of `up` is no stream
Wall time; CPU of the client and its children; CPU of the hosts; the client's largest memory. Medians, with the smallest and
largest wall time. Every line is counted.
"""

import argparse
import os
import pathlib
import statistics

from tests.bench.start_cost import measured, shared_config, succeeds
from tests.hosts.hosts import PORT, Hosts
from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist

LINE_BYTES = 100
FILE = "/tmp/lines"


def make_lines(hosts, count):
    filler = "x" * (LINE_BYTES - 10)
    text = "".join(f"{number:08} {filler}\n" for number in range(count))
    for host in hosts:
        (host.folder / "tmp/lines").write_text(text)


def writes_all(out, count):
    """Every host's first and last line, and as many lines as there are in all."""
    def check(code, _, err):
        text = out.read_bytes()
        assert code == 0, err[-2000:]
        lines = text.count(b"x\n")
        assert lines == count[0] * count[1], (lines, err[-2000:])
        for number in (0, count[1] - 1):
            assert text.count(b"%08d xx" % number) == count[0], number
        out.unlink()
    return check


def table(rows, megabytes):
    print(f"{'':<12} {'wall s':>18} {'x floor':>8} {'client s':>9} {'x floor':>8} {'hosts s':>8} {'x floor':>8} {'client MB':>10}")
    floor = None
    for name, samples in rows:
        walls = [sample.wall for sample in samples]
        wall, client = statistics.median(walls), statistics.median(sample.client for sample in samples)
        host, memory = statistics.median(sample.hosts for sample in samples), max(sample.memory_kib for sample in samples)
        floor = floor or (wall, client, host)
        print(f"{name:<12} {wall:6.2f} ({min(walls):.2f}-{max(walls):.2f}) {wall / floor[0]:8.2f} {client:9.2f} {client / floor[1]:8.2f}"
              f" {host:8.2f} {host / floor[2]:8.2f} {memory / 1024:10.1f}")
    print(f"{megabytes:.0f} MB in each row but `start`")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--lines", type=int, default=200000)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    count = arguments.hosts
    with Hosts(count) as hosts, Tfdist("bench") as user:
        make_lines(hosts, arguments.lines)
        config = shared_config(hosts)
        addresses = [host.address for host in hosts]

        def cluster(name, command):
            return str(user.write(f"{name}.toml", clusters.over_ssh(name, command, hosts, layout="mirrored", listed=addresses,
                                                                    ssh_config=config)))

        stream, start = cluster("stream", ["cat", FILE]), cluster("start", ["echo", "ready"])
        tfdist = str(BIN / "tfdist")
        floor = [str(BIN / "login_floor"), "trainer", str(PORT), str(hosts.key), f"cat {FILE}", *addresses]
        ssh = ["sh", "-c", f"for host; do ssh -F '{config}' $host cat {FILE} & done; wait", "sh", *addresses]
        out = pathlib.Path(hosts.folder, "out")
        whole = writes_all(out, (count, arguments.lines))
        measured(hosts, [tfdist, "up", start], succeeds, user.env)  # from now on the agent is there
        rows = {"floor": [], "ssh": [], "start": [], "tfdist up": []}
        for _ in range(arguments.repetitions):
            rows["floor"].append(measured(hosts, floor, succeeds))
            rows["ssh"].append(measured(hosts, ssh, whole, out=out))
            rows["start"].append(measured(hosts, [tfdist, "up", start], succeeds, user.env))
            rows["tfdist up"].append(measured(hosts, [tfdist, "up", stream], whole, user.env, out))
    print(f"{count} hosts x {arguments.lines} lines, {arguments.repetitions} repetitions, {os.cpu_count()} cores,"
          f" load {os.getloadavg()[0]:.1f}, {tfdist}")
    table(rows.items(), count * arguments.lines * LINE_BYTES / 1e6)


if __name__ == "__main__":
    main()
