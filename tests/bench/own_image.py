"""An image of this machine on its way to hosts behind a slow uplink: `up`, beside `docker load` over ssh to each host.

    python3 -m tests.bench.own_image [--hosts 8] [--mb 1024] [--mbit 100]

The hosts are network namespaces on a bridge; what leaves this machine is limited by tc-tbf(8), what goes from host to host is
not. The image has two layers of random bytes: nothing compresses. Needs root, docker, and room for the image four times a host.
"""

import argparse
import os
import pathlib
import subprocess
import time

from tests.hosts.hosts import Hosts, check_possible
from tests.support import clusters, engines
from tests.support.tfdist import Tfdist


class Uplink:
    def __init__(self, hosts, mbit):
        self.device = hosts._bridge  # pylint: disable=protected-access
        subprocess.run(["tc", "qdisc", "add", "dev", self.device, "root", "tbf", "rate", f"{mbit}mbit", "burst", "256kb",
                        "latency", "50ms"], check=True)

    def sent_mb(self):
        return int(pathlib.Path(f"/sys/class/net/{self.device}/statistics/tx_bytes").read_text()) / 1e6


def measured(uplink, what, work):
    sent, begin = uplink.sent_mb(), time.monotonic()
    work()
    print(f"{what}: {time.monotonic() - begin:.0f} s, {uplink.sent_mb() - sent:.0f} MB left this machine", flush=True)


def load_by_ssh(hosts, archive):
    """To all hosts at once."""
    loads = []
    for host in hosts:
        with open(archive, "rb") as content:
            loads.append(subprocess.Popen(["ssh", "-F", hosts.ssh_config, host.name, "docker", "load", "--quiet"], stdin=content,
                                          stdout=subprocess.DEVNULL))
    if any([load.wait() for load in loads]):
        raise RuntimeError("docker load has failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--mbit", type=int, default=100)
    options = parser.parse_args()
    check_possible()
    engines.check_possible()
    with Hosts(options.hosts, own_network=True) as hosts, Tfdist("image") as user:
        for host in hosts:
            engines.start_docker(host)
        uplink = Uplink(hosts, options.mbit)
        tree = pathlib.Path(user.folder, "tree")
        engines.make_tree(tree)
        half = options.mb << 19
        (tree / "ballast").write_bytes(os.urandom(half))
        base = engines.layer(tree=tree)
        archive = pathlib.Path(user.folder, "train.tar")

        def write(top):
            engines.write_archive(archive, [base, engines.layer({"top": top})])

        first = os.urandom(half)
        write(first)
        file = user.write("cluster.toml", clusters.over_ssh(
            "job", ["true"], list(hosts), layout="mirrored", ssh_config=hosts.ssh_config,
            task_extra='image = { archive = "train.tar" }\nengine = "docker"\n'))

        def up():
            print(user.run("up", "--timeline", file, seconds=3600).expect(0).err)

        print(f"{options.mb} MiB in two layers, {options.hosts} hosts, {options.mbit} Mbit/s up", flush=True)
        measured(uplink, "up", up)
        measured(uplink, "up again", up)
        write(first[:-1] + b"x")
        measured(uplink, "up with a new top layer", up)
        for host in hosts:
            engines.docker(host, "image", "prune", "--all", "--force")
        measured(uplink, "docker load over ssh, all hosts at once", lambda: load_by_ssh(hosts, archive))


if __name__ == "__main__":
    main()
