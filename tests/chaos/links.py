"""What a test does to the link of a host with a network of its own (tests/hosts): cut it, one way or both, slow it.

Connections stay open on both sides, as when a switch fails: nobody is told.
"""

import pathlib
import subprocess
import sys

from tests.hosts.hosts import bridge_name

WIRE = pathlib.Path(__file__).with_name("wire.py")
# A bucket that holds less than any packet: nothing passes (tc-tbf(8)).
NOTHING_PASSES = ("tbf", "rate", "8bit", "burst", "1", "limit", "1")


class Link:
    def __init__(self, host):
        self._host = host
        self._bridge = bridge_name(host.address)
        self.cable = f"{self._bridge}.{host.address.rsplit('.', 1)[1]}"  # the bridge's end
        self._wire = None

    def cut(self):
        run("bridge", "link", "set", "dev", self._port(), "state", "0")

    def cut_towards_host(self):
        """The host speaks and hears nothing."""
        run("tc", "qdisc", "replace", "dev", self.cable, "root", *NOTHING_PASSES)

    def cut_from_host(self):
        """The host hears and is not heard."""
        self._on_host("tc", "qdisc", "replace", "dev", "eth0", "root", *NOTHING_PASSES)

    def slow(self, delay_ms, loss_percent):
        """Delays each way by delay_ms / 2 and drops packets. A program does it: a kernel may lack netem. A link that is
        slow already is slow anew."""
        if self._wire:
            self.heal()
        tap = self.cable + "t"
        run("ip", "link", "set", self.cable, "nomaster")
        run("ip", "tuntap", "add", "dev", tap, "mode", "tap", "vnet_hdr")
        run("ip", "link", "set", tap, "master", self._bridge, "up")
        self._wire = subprocess.Popen([sys.executable, "-S", str(WIRE), self.cable, tap, str(delay_ms), str(loss_percent)],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._wire.stdout.readline() == b"ready\n", "the slow wire does not start"

    def heal(self):
        if self._wire:
            self._wire.kill()
            self._wire.wait()
            self._wire.stdout.close()
            self._wire = None
            run("ip", "link", "delete", self.cable + "t")
            run("ip", "link", "set", self.cable, "master", self._bridge, check=False)  # gone, if the host is
        run("bridge", "link", "set", "dev", self.cable, "state", "3", check=False)
        run("tc", "qdisc", "delete", "dev", self.cable, "root", check=False)
        if self._host.pid:
            self._on_host("tc", "qdisc", "delete", "dev", "eth0", "root", check=False)

    def remove(self):
        """A crashed host's cable goes with its network, but only after a while."""
        run("ip", "link", "delete", self.cable, check=False)

    def _port(self):
        return self.cable + "t" if self._wire else self.cable

    def _on_host(self, *command, **options):
        run("nsenter", f"--target={self._host.pid}", "--net", *command, **options)


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True)
    assert not check or done.returncode == 0, f"{command}: {done.stderr}"
