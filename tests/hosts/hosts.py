"""Test hosts: many real sshd on this machine, each one a host of its own.

    with Hosts(4) as hosts:
        subprocess.run(["ssh", "-F", hosts.ssh_config, hosts[0].name, "hostname"])

A host has an address (127.x.y.z) and a host key of its own, and its own processes, host name, /home, /tmp,
/run and /dev/shm (namespaces: this needs root). On each one live two unprivileged accounts: `trainer`, who
may log in with the keys in `hosts.keys`, and `other`, who may not. Nothing outside `hosts.folder` is
written, and only processes that were started here are ever signalled. All of it ends with this process,
however that ends.

With `own_network=True` a host has ports and routes of its own, too, and an address on a bridge: what TensorFlow
needs, and what a test needs that cuts a link.

By hand, in the repository:
    python3 -m tests.hosts.hosts up 4 FOLDER;  ssh -F FOLDER/ssh_config h1 hostname
    python3 -m tests.hosts.hosts down FOLDER
"""

import argparse
import atexit
import ctypes
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from tests.support.processes import kill, pids
from tests.support.waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
SSHD = "/usr/sbin/sshd"
PORT = 2200  # not 2222, which TensorFlow programs like
KEY_TYPES = ("ed25519", "rsa", "ecdsa")
MAX_HOSTS = 500  # 250 on a bridge
UIDS = range(20000, 50000, 2 * (MAX_HOSTS + 1))  # where the accounts of a test program may begin
HOSTS_OF_A_NETWORK = 250

PR_SET_PDEATHSIG = 1
NS_GET_PARENT = 0xb702  # ioctl_ns(2)

_kept = []  # sockets, for as long as this process runs


class NotPossible(unittest.SkipTest):
    """This machine or account cannot have test hosts; a test that lets it pass is skipped."""


@dataclasses.dataclass
class Options:
    """What makes a host different from a plain one. `Hosts(n, ...)` takes these by name."""

    banner: str = ""             # shown before authentication
    bashrc: str = ""             # the account's .bashrc, which bash reads for every command over SSH
    locale: str = ""             # LC_ALL set by sshd: an unknown one makes shells warn
    shell: str = "/bin/bash"     # login shell of `trainer`
    max_startups: str = "1000"
    host_key_types: tuple = ("ed25519",)
    key_types: tuple = ("ed25519",)  # of the keys that `trainer` may log in with; one of rsa takes a second to make
    sshd_lines: tuple = ()       # further lines of sshd_config
    root: bool = False           # `trainer` has root's uid, and another home than root
    shared_home: bool = False    # one home folder and one uid for all hosts, as on a cluster with NFS
    seen: dict = dataclasses.field(default_factory=dict)  # name -> folder of this machine, read-only at /run/NAME
    uptime: int = 0              # seconds that its monotonic clocks are ahead of this machine's (time_namespaces(7))
    own_network: bool = False    # a network stack of its own, on a bridge with the others; see Host.drop()
    own_clock: bool = False      # a wall clock of its own for `tfdist-failpoints`' agent; see Host.move_clock()


@dataclasses.dataclass
class Process:
    pid: int        # as seen from outside
    pid_there: int  # as the host itself has it, in a container too
    uid: int
    state: str      # R, S, T, Z, ...
    argv: list


def start_time(pid):
    """Field 22 of /proc/PID/stat, which tells a process from a later one of the same number; None: gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Host:
    """One host. Made by Hosts."""

    user = "trainer"
    other = "other"

    def __init__(self, number, folder, address, options):
        self.name = f"h{number}"
        self.folder = folder / self.name
        self.address = address
        self.port = PORT
        self.options = options
        first = first_uid() + (0 if options.shared_home else 2 * number)
        self.uid = 0 if options.root else first
        self.other_uid = first + 1
        self._homes = folder / "home" if options.shared_home else self.folder / "home"
        self.home = self._homes / self.user  # seen from outside; on the host it is /home/trainer
        self.sshd_log = self.folder / "sshd.log"
        self.pid = None  # of its process 1, seen from outside
        self._unshare = None

    # --- life ---------------------------------------------------------------------------------------

    def prepare(self, public_keys, etc_hosts):
        etc = self.folder / "etc"
        (etc / "ssh").mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        (self.folder / "tmp").chmod(0o1777)
        self._make_homes()
        (etc / "hosts").write_text(etc_hosts)
        self._write_accounts(etc)
        (etc / "ssh" / "authorized_keys").write_text(public_keys)
        (etc / "ssh" / "banner").write_text(self.options.banner)
        for key_type in self.options.host_key_types:
            make_key(self._host_key(key_type), key_type, self.name)
        (etc / "ssh" / "sshd_config").write_text(self._sshd_config())
        if self.options.own_clock:
            self.options.seen["clock"] = self.folder / "clock"
            self.options.seen["clock"].mkdir()
            self.move_clock(0)

    def start(self, with_parent):
        """Starts the host; wait_until_up() says when it is there."""
        self.sshd_log.write_bytes(b"")
        ahead = str(self.options.uptime)
        command = ["unshare", *self._namespaces(), *(["--time", "--monotonic", ahead, "--boottime", ahead] if int(ahead) else []),
                   "--fork", "--kill-child",
                   str(HERE / "host-init"), str(self.folder), self.name,
                   *(f"{name}={path}" for name, path in self.options.seen.items())]
        own_network = self.options.own_network
        with open(self.sshd_log, "ab") as log:
            self._unshare = subprocess.Popen(
                command, stdin=subprocess.PIPE if own_network else subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=end_with_parent if with_parent else None)
        if own_network:
            self._join_network()

    def wait_until_up(self, times_listening=1):
        def up():
            if self._unshare and self._unshare.poll() is not None:
                raise RuntimeError(f"{self.name} did not start: {self.sshd_log.read_text()}")
            return self.sshd_log.read_text().count("Server listening") >= times_listening
        wait_for(up, f"sshd of {self.name}")
        if self.pid is None:
            self.pid = self._first_child()

    def crash(self):
        """A power cut: every process of the host is gone at once."""
        if self.pid is not None and self._is_ours():
            kill(self.pid)  # the kernel may have killed it meanwhile
        if self._unshare is not None:
            if self.pid is None:
                self._unshare.kill()  # it takes its child along
            self._unshare.wait()
            self._unshare = None
        self.pid = None

    def _is_ours(self):
        return self._unshare is not None and self._unshare.poll() is None

    # --- what tests do to it ------------------------------------------------------------------------

    def processes(self, with_sshd=False):
        """Processes on the host, without zombies and (unless asked for) without sshd's own."""
        found = []
        for pid in self._pids():
            process = read_process(pid)
            if process is None or process.state == "Z":
                continue
            if with_sshd or not (process.argv and process.argv[0].startswith(("sshd", SSHD))):
                found.append(process)
        return found

    def listening_ports(self):
        """TCP ports that somebody listens on at this host's address, but for sshd's."""
        mine = socket.inet_aton(self.address)[::-1].hex().upper()  # as in /proc/net/tcp: see proc_net_tcp(5)
        ports = set()
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            address, port = local.split(":")
            if (address, state) == (mine, "0A"):
                ports.add(int(port, 16))
        return sorted(ports - {PORT})

    def freeze(self):
        """Stops every process of the host, as a machine that hangs: connections stay open, nobody answers."""
        def all_stopped():  # whoever was not stopped yet may have started another one
            running = [p.pid for p in self.processes(with_sshd=True) if p.state not in "Tt"]
            self._signal(running, signal.SIGSTOP)
            return not running
        wait_for(all_stopped, f"stop of all processes on {self.name}")

    def thaw(self):
        self._signal(self._pids(), signal.SIGCONT)

    def run_as(self, user, argv, check=True, **options):
        """Runs a command on the host as `trainer`, `other` or `root`; subprocess.run()'s result, text."""
        home = "/root" if user == "root" else f"/home/{user}"
        command = ["nsenter", f"--target={self.pid}", *self._namespaces(), "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups",
                   "env", "-i", f"HOME={home}", f"USER={user}",
                   "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *argv]
        return subprocess.run(command, check=check, capture_output=True, text=True, **options)

    def drop(self, source, ports):
        """From now on this host drops what comes from the host `source` to one of its ports ("2222" or
        "2222-2224"), as a firewall does."""
        self._ip("rule", "add", "pref", "10", "from", source.address, "ipproto", "tcp", "dport", str(ports),
                 "blackhole")

    def drop_all(self):
        """From now on this host drops every TCP packet that comes."""
        self._ip("rule", "add", "pref", "10", "ipproto", "tcp", "blackhole")

    def take_all(self):
        """Undoes drop_all()."""
        self._ip("rule", "delete", "pref", "10")

    def move_clock(self, seconds_ahead):
        """From now on the agent of `tfdist-failpoints` there sees a wall clock that is ahead of this machine's by so much."""
        aside = self.folder / "clock/aside"
        aside.write_text(str(seconds_ahead))
        aside.rename(self.folder / "clock/ahead")

    def replace_host_key(self, key_type="ed25519"):
        """The host shows another key from now on; `known_hosts` of the client has the old one."""
        key = self._host_key(key_type)
        key.unlink()
        key.with_name(key.name + ".pub").unlink()
        make_key(key, key_type, self.name)
        self._reload()

    def host_key(self, key_type="ed25519"):
        """"ssh-ed25519 AAAA...", as in known_hosts."""
        key = self._host_key(key_type)
        return " ".join(key.with_name(key.name + ".pub").read_text().split()[:2])

    def refuse_key(self):
        """Nobody's key is accepted any more; accept_key() undoes it."""
        authorized = self.folder / "etc/ssh/authorized_keys"
        shutil.copy(authorized, authorized.with_name("authorized_keys.before"))
        authorized.write_text("")

    def accept_key(self):
        authorized = self.folder / "etc/ssh/authorized_keys"
        authorized.write_text(authorized.with_name("authorized_keys.before").read_text())

    # --- details ------------------------------------------------------------------------------------

    def _namespaces(self):
        return ["--mount", "--pid", "--uts", "--ipc", *(["--net"] if self.options.own_network else [])]

    def _first_child(self):
        children = pathlib.Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        return int(children.read_text().split()[0])

    def _join_network(self):
        """Both ends of the cable go with the host. Its sshd starts when a line comes on stdin."""
        own = pathlib.Path("/proc/self/ns/net").readlink()

        def unshared():
            try:
                self.pid = self._first_child()
                return pathlib.Path(f"/proc/{self.pid}/ns/net").readlink() != own
            except (IndexError, FileNotFoundError):
                return False
        wait_for(unshared, f"namespaces of {self.name}")
        bridge = bridge_name(self.address)
        cable = cable_name(self.address)
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "address", link_address(self.address),
           "netns", str(self.pid))
        ip("link", "set", cable, "master", bridge, "up")
        self._ip("link", "set", "lo", "up")
        self._ip("address", "add", f"{self.address}/24", "dev", "eth0")
        self._ip("link", "set", "eth0", "up")
        # Linux keeps about 1,000 neighbours for all network namespaces together; permanent ones do not count. Nor
        # does a host that drops packets become "no route to host" so.
        self._ip("-batch", "-", input="".join(neighbour_lines(self.address, "eth0")))
        # Rules are looked at before what is this host's own address: those of drop().
        self._ip("rule", "add", "pref", "100", "lookup", "local")
        self._ip("rule", "delete", "pref", "0")
        self._unshare.stdin.write(b"go\n")
        self._unshare.stdin.close()

    def _ip(self, *arguments, **options):
        """ip(8) on this host."""
        if os.readlink(f"/proc/{self.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            raise ValueError(f"{self.name} has no network of its own: this would hold for the whole machine")
        subprocess.run(["nsenter", f"--target={self.pid}", "--net", "ip", *arguments], check=True, text=True, **options)

    def _pids(self):
        """Everything in the host's PID namespace and in those of its containers, its process 1 last."""
        namespace = pid_namespaces(self.pid)[:1]
        found = [pid for pid in pids() if namespace and namespace[0] in pid_namespaces(pid)]
        return sorted(found, key=lambda pid: (pid == self.pid, pid))

    @staticmethod
    def _signal(pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def _reload(self):
        before = self.sshd_log.read_text().count("Server listening")
        os.kill(self.pid, signal.SIGHUP)  # sshd executes itself again
        self.wait_until_up(before + 1)

    def _host_key(self, key_type):
        return self.folder / f"etc/ssh/ssh_host_{key_type}_key"

    def _make_homes(self):
        for user, uid in ((self.user, self.uid), (self.other, self.other_uid)):
            home = self._homes / user
            if not home.exists():
                home.mkdir(parents=True)
                home.chmod(0o700)
                os.chown(home, uid, uid)
        if not (self.folder / "home").exists():  # shared by all hosts
            (self.folder / "home").symlink_to(self._homes)
        if self.options.bashrc:
            bashrc = self.home / ".bashrc"
            bashrc.write_text(self.options.bashrc)
            os.chown(bashrc, self.uid, self.uid)

    def _write_accounts(self, etc):
        accounts = ((self.user, self.uid, self.options.shell), (self.other, self.other_uid, "/bin/sh"))
        write_account_file(etc / "passwd", 0o644, [f"{name}:x:{uid}:{uid}::/home/{name}:{shell}"
                                                   for name, uid, shell in accounts])
        write_account_file(etc / "group", 0o644, [f"{name}:x:{uid}:" for name, uid, _ in accounts])
        # "*": no password, but not locked either, which sshd would refuse.
        write_account_file(etc / "shadow", 0o600, [f"{name}:*:20000:0:99999:7:::" for name, _, _ in accounts])

    def _sshd_config(self):
        lines = [
            f"ListenAddress {self.address}:{self.port}",
            *(f"HostKey /etc/ssh/ssh_host_{key_type}_key" for key_type in self.options.host_key_types),
            "AuthorizedKeysFile /etc/ssh/authorized_keys",
            f"AllowUsers {self.user}",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PrintMotd no",
            "PrintLastLog no",
            "UseDNS no",
            *self.options.sshd_lines,  # the first line of a key counts
            "MaxSessions 1000",
            f"MaxStartups {self.options.max_startups}",
        ]
        if self.options.banner:
            lines.append("Banner /etc/ssh/banner")
        if self.options.own_clock:
            lines.append("SetEnv TFDIST_TEST_CLOCK=/run/clock/ahead")
        if self.options.locale:
            lines.append(f"SetEnv LC_ALL={self.options.locale}")
        if knows_penalties():
            lines.append("PerSourcePenalties no")  # all clients of all tests come from 127.0.0.1
        return "\n".join(lines) + "\n"


class Hosts:
    """`count` hosts, which are up inside `with`. Options: see Options."""

    def __init__(self, count, folder=None, **options):
        most = HOSTS_OF_A_NETWORK if options.get("own_network") else MAX_HOSTS
        if not 1 <= count <= most:
            raise ValueError(f"1 to {most} hosts")
        check_possible()
        self._own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="tfdist-hosts-")).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o711)  # accounts of the hosts pass through
        self.keys = {key_type: self.folder / f"keys/id_{key_type}" for key_type in Options(**options).key_types}
        self.key = self.keys["ed25519"]
        self.known_hosts = self.folder / "known_hosts"
        self.ssh_config = self.folder / "ssh_config"
        self._bridge = None
        network, self._reserved = free_bridge_network() if options.get("own_network") else free_network(count)
        self._hosts = [Host(number, self.folder, address_in(network, number), Options(**options))
                       for number in range(1, count + 1)]

    def __getitem__(self, index):
        return self._hosts[index]

    def __len__(self):
        return len(self._hosts)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, with_parent=True):
        """`with_parent`: the hosts end when this thread does, by whatever it is killed."""
        atexit.register(self.stop)
        try:
            self._write_client_files()
            etc_hosts = "127.0.0.1 localhost\n" + "".join(f"{h.address} {h.name}\n" for h in self)
            public_keys = "".join(key.with_name(key.name + ".pub").read_text() for key in self.keys.values())
            for host in self:
                host.prepare(public_keys, etc_hosts)
            self.write_known_hosts()
            if self[0].options.own_network:
                self._add_bridge()
            for host in self:
                host.start(with_parent)
            for host in self:
                host.wait_until_up()
        except BaseException:
            self.stop()
            raise

    def stop(self):
        atexit.unregister(self.stop)
        for host in self:
            host.crash()
        if self._bridge:
            for host in self:  # else they go some time after their hosts, and the next ones find the names taken
                subprocess.run(["ip", "link", "delete", cable_name(host.address)], check=False, stderr=subprocess.DEVNULL)
            ip("link", "delete", self._bridge)
            self._bridge = None
        release(self._reserved)
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def write_known_hosts(self):
        """Of the keys that the hosts have now."""
        lines = []
        for host in self:
            for key_type in host.options.host_key_types:
                lines.append(f"[{host.address}]:{host.port} {host.host_key(key_type)}\n")
        self.known_hosts.write_text("".join(lines))

    def _add_bridge(self):
        name = bridge_name(self[0].address)
        own = self[0].address.rsplit(".", 1)[0] + ".254"
        ip("link", "add", name, "address", link_address(own), "type", "bridge")
        self._bridge = name
        ip("address", "add", f"{own}/24", "dev", name)
        ip("link", "set", name, "up")
        ip("-batch", "-", input="".join(neighbour_lines(own, name)))

    def _write_client_files(self):
        (self.folder / "keys").mkdir(mode=0o700)
        for key_type, key in self.keys.items():
            make_key(key, key_type, "tfdist-test")
        lines = [f"Host {host.name}\n  HostName {host.address}" for host in self]
        lines.append("\n  ".join([
            "Host *",
            f"User {Host.user}",
            f"Port {PORT}",
            f"IdentityFile {self.key}",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
            "BatchMode yes",
            "LogLevel ERROR",
        ]))
        self.ssh_config.write_text("\n".join(lines) + "\n")


def check_possible():
    if os.geteuid() != 0:
        raise NotPossible("test hosts need root, for namespaces and accounts of their own")
    if not os.path.exists(SSHD):
        raise NotPossible(f"no {SSHD} (Debian package openssh-server)")
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        # In a chroot whose folder is no mount point, no mount can be kept from the rest of the machine.
        remedy = "; in a chroot: mount --bind its folder on itself first" if "propagation" in tried.stderr else ""
        raise NotPossible(f"no namespaces here: {tried.stderr.strip()}{remedy}")


def address_in(network, number):
    """Of the host of that number, which may lie in the network after it."""
    first, second, third = network.split(".")
    return f"{first}.{second}.{int(third) + (number - 1) // HOSTS_OF_A_NETWORK}.{(number - 1) % HOSTS_OF_A_NETWORK + 1}"


def reserve(networks):
    """Sockets that keep them from other processes; None: one is another's."""
    sockets = []
    for network in networks:
        sockets.append(socket.socket(socket.AF_UNIX))
        try:
            sockets[-1].bind(f"\0tfdist-test-network-{network}")
        except OSError:
            release(sockets)
            return None
    return sockets


@functools.cache
def first_uid():
    """Of this process: the kernel counts an account's processes on all test hosts together (RLIMIT_NPROC)."""
    for first in UIDS:
        reserved = socket.socket(socket.AF_UNIX)
        try:
            reserved.bind(f"\0tfdist-test-uids-{first}")
        except OSError:  # another program's
            reserved.close()
            continue
        _kept.append(reserved)
        return first
    raise AssertionError("no block of uids is free: which test programs run here?")


def release(sockets):
    while sockets:
        sockets.pop().close()


def free_network(count):
    """The first three numbers of addresses that nobody listens on, and what reserves them; each process begins somewhere else."""
    for step in range(4096):
        number = (os.getpid() + step) % 4096
        network = f"127.{16 + number // 256}.{number % 256}"
        addresses = [address_in(network, host) for host in range(1, count + 1)]
        reserved = reserve({address.rpartition(".")[0] for address in addresses})
        if reserved is None:
            continue
        if all(is_free(address) for address in addresses):
            return network, reserved
        release(reserved)
    raise NotPossible("no free loopback addresses")


def free_bridge_network():
    """The same, of addresses on a bridge that this machine does not have yet."""
    routes = subprocess.run(["ip", "-o", "address"], check=True, capture_output=True, text=True).stdout
    for step in range(256):
        network = f"10.213.{(os.getpid() + step) % 256}"
        if f" {network}." in routes:
            continue
        reserved = reserve({network})
        if reserved is not None:
            return network, reserved
    raise NotPossible("no free network for a bridge")


def bridge_name(address):
    return "tfd" + address.split(".")[2]


def cable_name(address):
    return f"{bridge_name(address)}.{address.rsplit('.', 1)[1]}"


def link_address(address):
    return f"02:00:00:00:00:{int(address.rsplit('.', 1)[1]):02x}"


def neighbour_lines(own, device):
    """For `ip -batch`: everybody on the bridge."""
    network = own.rsplit(".", 1)[0]
    for number in [*range(1, HOSTS_OF_A_NETWORK + 1), 254]:
        address = f"{network}.{number}"
        if address != own:
            yield f"neighbour add {address} lladdr {link_address(address)} dev {device} nud permanent\n"


def ip(*arguments, **options):
    """ip(8) on this machine."""
    subprocess.run(["ip", *arguments], check=True, text=True, **options)


def is_free(address):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, PORT))
        except OSError:
            return False
        return True


def make_key(path, key_type, comment):
    size = ["-b", "2048"] if key_type == "rsa" else []  # larger ones take seconds to make
    subprocess.run(["ssh-keygen", "-q", "-t", key_type, *size, "-N", "", "-C", comment, "-f", path], check=True)


def knows_penalties():
    """OpenSSH 9.8 and newer."""
    check = subprocess.run([SSHD, "-t", "-o", "PerSourcePenalties=no", "-f", "/dev/null"],
                           capture_output=True, text=True)
    return "PerSourcePenalties" not in check.stderr


def write_account_file(path, mode, lines):
    machine = pathlib.Path("/etc", path.name).read_text()  # sshd needs the system's accounts
    path.touch(mode=mode)
    path.write_text(machine.rstrip("\n") + "\n" + "\n".join(lines) + "\n")


def pid_namespaces(pid):
    """That of the process, and those around it, as far as they are seen from here; empty: it is gone, or none of ours."""
    found = []
    try:
        fd = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
        while True:
            found.append(os.fstat(fd).st_ino)
            try:
                parent = fcntl.ioctl(fd, NS_GET_PARENT)
            finally:
                os.close(fd)
            fd = parent
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return found


def read_process(pid):
    try:
        status = dict(line.split(":\t", 1) for line in
                      pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return Process(pid, int(status["NSpid"].split()[:2][-1]), int(status["Uid"].split()[0]), status["State"].split()[0],
                       argv.rstrip("\0").split("\0"))
    except (FileNotFoundError, ProcessLookupError):
        return None


# --- by hand ----------------------------------------------------------------------------------------


def up(arguments):
    hosts = Hosts(arguments.count, arguments.folder)
    hosts.start(with_parent=False)
    atexit.unregister(hosts.stop)
    state = [{"name": host.name, "pid": host.pid, "start": start_time(host.pid)} for host in hosts]
    (hosts.folder / "state.json").write_text(json.dumps(state))
    print(f"{len(hosts)} hosts up: ssh -F {hosts.ssh_config} {hosts[0].name}")


def down(arguments):
    folder = pathlib.Path(arguments.folder)
    for host in json.loads((folder / "state.json").read_text()):
        if start_time(host["pid"]) == host["start"]:  # the number may belong to someone else by now
            os.kill(host["pid"], signal.SIGKILL)
            wait_for(lambda: start_time(host["pid"]) != host["start"] or
                     read_process(host["pid"]).state == "Z", f"end of {host['name']}")
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("up")
    command.add_argument("count", type=int)
    command.add_argument("folder")
    command.set_defaults(run=up)
    command = commands.add_parser("down")
    command.add_argument("folder")
    command.set_defaults(run=down)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except NotPossible as reason:
        sys.exit(f"hosts.py: {reason}")


if __name__ == "__main__":
    main()
