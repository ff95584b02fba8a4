"""Kinds of hosts: what makes one, and what `exec` and `up` say there. docs/ssh.md has the same table."""

import contextlib
import dataclasses
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

from tests.hosts.probe import client_config
from tests.support.environments import ASYNCSSH, NoEnvironment
from tests.support.waiting import wait_for

OTHER_PORT = 2201

# Runs what a client asks for, as a program of the account that it runs as.
ASYNCSSH_SERVER = """
import asyncio, sys
import asyncssh
address, port, host_key, authorized = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
async def serve(process):
    child = await asyncio.create_subprocess_exec("/bin/sh", "-c", process.command, stdin=-1, stdout=-1, stderr=-1)
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    process.exit(await child.wait())
async def main():
    await asyncssh.listen(address, port, server_host_keys=[host_key], authorized_client_keys=authorized,
                          process_factory=serve, encoding=None)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def login_shell(text):
    """The account's shell is a script that runs bash in the end."""
    def prepare(host):
        script = host.folder / "etc/ssh/login-shell"
        script.write_text(f'#!/bin/sh\n{text}\nexec /bin/bash "$@"\n')
        script.chmod(0o755)
        accounts = host.folder / "etc/passwd"
        accounts.write_text(re.sub(r"(trainer:x:.*:)/bin/bash", r"\1/etc/ssh/login-shell", accounts.read_text()))
    return prepare


def forced_command(text):
    def prepare(host):
        script = host.folder / "etc/ssh/forced"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        set_first(host, "ForceCommand /etc/ssh/forced")
    return prepare


def chroot_without_proc(host):
    """All that a system has but for /proc and /sys."""
    host.run_as("root", ["sh", "-ec", "mkdir /run/jail; mount -t tmpfs -o mode=755 tmpfs /run/jail; cd /run/jail; "
                         "for name in bin dev etc home lib lib64 sbin tmp usr; do "
                         "[ -e /$name ] || continue; if [ -L /$name ]; then cp -d /$name .; "
                         "else mkdir $name; mount --rbind /$name $name; fi; done"])
    set_first(host, "ChrootDirectory /run/jail")


def home_without_programs(host):
    host.run_as("root", ["mount", "-o", "remount,bind,noexec", "/home"])


def home_of_its_own(options):
    def prepare(host):
        host.run_as("root", ["mount", "-t", "tmpfs", "-o", f"uid={host.uid},mode=700,{options}", "tmpfs", "/home/trainer"])
    return prepare


def as_root(command):
    def prepare(host):
        host.run_as("root", ["sh", "-ec", command])
    return prepare


def set_first(host, line):
    """The first line of a keyword is the one that sshd takes."""
    config = host.folder / "etc/ssh/sshd_config"
    config.write_text(f"{line}\n{config.read_text()}")
    host._reload()


@dataclasses.dataclass
class Kind:
    name: str
    options: dict = dataclasses.field(default_factory=dict)
    prepare: object = None
    exec: str = ""  # words of the error; empty: it works
    up: str = ""
    check: bool = True  # `check` tells what `up` tells


KINDS = [
    Kind("plain"),
    *(Kind(shell, {"shell": f"/usr/bin/{shell}"}) for shell in ("csh", "tcsh", "fish", "zsh")),
    Kind("a login shell that asks on a terminal", prepare=login_shell("[ ! -t 0 ] || read answer")),
    Kind("a login shell that asks always", prepare=login_shell("echo which project?; read answer"),
         exec="has read a part of what was sent", up="has read a part of what was sent"),
    Kind("a .bashrc that prints", {"bashrc": "echo hello; echo bad >&2\n"}),
    Kind("a .bashrc that runs another shell on a terminal", {"bashrc": "case $- in *i*) exec zsh ;; esac\n"}),
    Kind("a .bashrc that runs another shell always", {"bashrc": "exec zsh\n"}, exec="instead of /bin/sh", up="instead of /bin/sh"),
    Kind("a .bashrc that leaves a process", {"bashrc": "setsid sleep 1000 </dev/null >/dev/null 2>&1 &\n"}),
    Kind("a .bashrc that lets no file be written", {"bashrc": "ulimit -f 0\n"}, up="ulimit -f, fsize in limits.conf"),
    Kind("a .bashrc that allows a stack of 64 KiB", {"bashrc": "ulimit -s 64\n"}, up="ulimit -s, stack in limits.conf",
         check=False),
    Kind("a .bashrc that allows 64 open files and a small stack", {"bashrc": "ulimit -n 64; ulimit -s 256\n"}),
    Kind("a .bashrc without a limit of the stack", {"bashrc": "ulimit -s unlimited\n"}),
    *(Kind(f"a .bashrc with {line}", {"bashrc": f"{line}\n"}) for line in (
        "unset PATH", "export PATH=", "export PATH=/nowhere", "unset HOME", "export HOME=", "export HOME=/nowhere", "export HOME=.",
        "export HOME=/tmp", "unset HOME PATH USER LOGNAME SHELL")),
    Kind("ForceCommand that runs what was asked for", prepare=forced_command('exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')),
    Kind("ForceCommand that runs something else", prepare=forced_command("echo only backups here"),
         exec="it printed: only backups here", up="a forced command (ForceCommand"),
    Kind("ForceCommand that records the session", prepare=forced_command('exec script -qec "$SSH_ORIGINAL_COMMAND" /tmp/log'),
         exec="a terminal stands between", up="script(1)"),
    Kind("a chroot without /proc", prepare=chroot_without_proc, up="there is no /proc here"),
    Kind("a home where no program can be run", prepare=home_without_programs, up="set remote_dir in [ssh]"),
    Kind("a read-only home", prepare=home_of_its_own("ro"), up="set remote_dir in [ssh]"),
    Kind("a full home", prepare=home_of_its_own("size=64k"), up="make room there"),
    Kind("a home with room for few files", prepare=home_of_its_own("nr_inodes=9"), up="make room there"),
    Kind("MaxSessions 1", {"sshd_lines": ("MaxSessions 1",)}),
]

ELSEWHERE = "sends what /bin/sh prints elsewhere"
READS_ALL = "reads what is sent to /bin/sh, or ends the shell"

# Not crossed with every configuration.
MORE_KINDS = [
    *(Kind(f"a .bashrc with {line}", {"bashrc": f"{line}\n"}, exec=words, up=words) for line, words in (
        ("exec >~/log", ELSEWHERE), ("exec > >(cat >~/log) 2>&1", ELSEWHERE), ("echo hello; cat >/dev/null", READS_ALL), ("exit 0", READS_ALL))),
    *(Kind(f"a .bashrc with {line}", {"bashrc": f"{line}\n"}) for line in (
        "set -eu", "set -x", "umask 0777", "export CDPATH=/tmp:. IFS=/", "exec 2>&-", "trap '' TERM HUP; trap 'echo bye' EXIT",
        "head -c 3000000 /dev/zero")),
    *(Kind(f"a home {words}", prepare=as_root(command), up="set remote_dir in [ssh]") for words, command in (
        ("that is not there", "mv /home/trainer /home/gone"), ("of another account", "chown root /home/trainer; chmod 755 /home/trainer"),
        ("that everybody may write to", "chmod 777 /home/trainer"))),
    *(Kind(f"no {program}", prepare=as_root(f"mount --bind /etc/passwd $(readlink -f /usr/bin/{program})"),
           up=f"lacks programs that bring tfdist's agent: {program}\n") for program in ("uname", "mkdir", "cat")),
    Kind("a home that is a link", prepare=as_root("mv /home/trainer /home/real; ln -s real /home/trainer")),
    Kind("/bin/sh of busybox", prepare=as_root("mount --bind $(command -v busybox) $(readlink -f /bin/sh)")),
    Kind("authorized_keys with command=", prepare=as_root("sed -i 's/^/command=\"exec $SSH_ORIGINAL_COMMAND\",restrict /' /etc/ssh/authorized_keys")),
]


@contextlib.contextmanager
def behind_a_jump_host(hosts):
    """All but the last one; the configuration for them."""
    *behind, jump = (hosts[number].name for number in range(len(hosts)))
    yield client_config(hosts, "jump_config", f"Host {' '.join(behind)}", f"ProxyJump {jump}", "Host *")


# --- other servers ----------------------------------------------------------------------------------


@contextlib.contextmanager
def server(hosts, user, argv):
    """Another server on the first host's other port; the configuration for it."""
    host = hosts[0]
    command = ["nsenter", f"--target={host.pid}", *host._namespaces(), "setpriv", f"--reuid={user}", f"--regid={user}",
               "--init-groups", "env", "-i", f"HOME=/home/{user}", "PATH=/usr/bin:/bin", *argv]
    with open(hosts.known_hosts, "a") as known:
        known.write(f"[{host.address}]:{OTHER_PORT} {host.host_key()}\n")
    with open(host.folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(lambda: process.poll() is not None or listens(host.address), "the other server")
            if process.poll() is not None:
                raise RuntimeError((host.folder / "server.log").read_text())
            yield client_config(hosts, "other_config", "Host h1", f"Port {OTHER_PORT}", "Host *")
        finally:
            process.kill()
            process.wait()


def listens(address):
    with socket.socket() as client:
        return client.connect_ex((address, OTHER_PORT)) == 0


def dropbear(hosts):
    program, convert = shutil.which("dropbear"), shutil.which("dropbearconvert")
    if not program or not convert:
        raise unittest.SkipTest("no dropbear (Debian package dropbear-bin)")
    host = hosts[0]
    key = host.folder / "etc/ssh/dropbear_key"
    subprocess.run([convert, "openssh", "dropbear", host.folder / "etc/ssh/ssh_host_ed25519_key", key], check=True,
                   capture_output=True)
    folder = host.home / ".ssh"
    folder.mkdir(mode=0o700)
    shutil.copy(host.folder / "etc/ssh/authorized_keys", folder / "authorized_keys")
    host.run_as("root", ["chown", "-R", "trainer:trainer", "/home/trainer/.ssh"])
    return server(hosts, "root", [program, "-F", "-E", "-r", "/etc/ssh/dropbear_key", "-p", f"{host.address}:{OTHER_PORT}"])


def asyncssh(hosts):
    try:
        python, _ = ASYNCSSH.provide()
    except NoEnvironment as error:  # PyPI is out of reach
        raise unittest.SkipTest(str(error)) from error
    host = hosts[0]
    (host.folder / "etc/ssh/server.py").write_text(ASYNCSSH_SERVER)
    host.run_as("root", ["chown", "trainer", "/etc/ssh/ssh_host_ed25519_key"])
    return server(hosts, "trainer", [str(python), "/etc/ssh/server.py", host.address, str(OTHER_PORT),
                                     "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/authorized_keys"])
