"""Container engines of test hosts, real ones: docker with a daemon of the host's own, podman without root.

    engines.prepare(host)             # podman for the host's account
    engines.start_docker(host)        # until the host ends
    engines.bring_image(hosts)        # engines.IMAGE, the same on all hosts, in each engine that they have

The image holds busybox and the libraries that it and tfdist's runtime need: nothing is fetched.
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest

from tests.support.processes import kill
from tests.support.tfdist import BIN
from tests.support.waiting import wait_for

IMAGE = "localhost/tfdist-test:1"
BUSYBOX = "/bin/busybox"
REGISTRY_PORT = 5055
COMMANDS = ("sh", "cat", "echo", "env", "false", "id", "ls", "pwd", "sleep", "touch", "true")
# Debian's crun refuses the mixed cgroups that some machines have; the kernel may have no overlay for a nested host.
PODMAN = {"containers.conf": '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n',
          "storage.conf": '[storage]\ndriver = "vfs"\n'}
# What podman of a root account reads of these, it is told; and it would take this machine's storage.
ROOTS_STORAGE = 'graphroot = "/home/trainer/.local/share/containers/storage"\nrunroot = "/run/containers/storage"\n'
ROOTS_PODMAN = ("CONTAINERS_CONF=/home/trainer/.config/containers/containers.conf",
                "CONTAINERS_STORAGE_CONF=/home/trainer/.config/containers/storage.conf")


def check_possible():
    """Raises SkipTest where this machine has no engines: scripts/setup --test brings them."""
    for program in ("docker", "dockerd", "docker-registry", "podman", "runc"):
        if shutil.which(program, path="/usr/local/bin:/usr/sbin:/usr/bin") is None:
            raise unittest.SkipTest(f"no {program} here (scripts/setup --test)")


def prepare(host):
    folder = host.home / ".config/containers"
    folder.mkdir(parents=True)
    for name, text in PODMAN.items():
        (folder / name).write_text(text)
    # podman's one way to a registry without TLS.
    for_pull = "".join(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n'
                       for address in (registry_address(host), registry_address(host).replace(".253:", ".252:")))
    (folder / "registries.conf").write_text(for_pull)
    if host.uid == 0:
        with open(folder / "storage.conf", "a", encoding="utf-8") as storage:
            storage.write(ROOTS_STORAGE)
        (host.home / ".bashrc").write_text(f"export {' '.join(ROOTS_PODMAN)}\n")  # bash reads it for every command over SSH
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, host.uid, host.uid)


def start_docker(host, group=None, name="docker"):
    """`group`: who may use it; the account may, unless another one is named. One of another `name` has its own containers."""
    log = host.folder / "dockerd.log"
    command = ["dockerd", "--iptables=false", "--bridge=none", "--storage-driver=vfs", f"--data-root=/home/{name}",
               f"--exec-root=/run/{name}", f"--pidfile=/run/{name}.pid", "--host=unix:///run/docker.sock",
               f"--group={group or host.user}"]
    with open(log, "wb") as output:  # it ends with its host, and is the child of the host's process 1
        subprocess.run(["nsenter", f"--target={host.pid}", "--mount", "--pid", "--uts", "--ipc", "--net", "setsid", "--fork", *command],
                       stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True)
    wait_for(lambda: b"API listen on" in log.read_bytes(), lambda: f"dockerd: {log.read_text()}")


def kill_docker(host):
    """Its containers go on: their shims are processes of their own."""
    for process in host.processes():
        if process.argv[0] == "dockerd":
            kill(process.pid)
    wait_for(lambda: not any(process.argv[0] == "dockerd" for process in host.processes()), "end of dockerd")


@contextlib.contextmanager
def docker_hangs(host):
    """It takes connections, and answers nothing."""
    [daemon] = [process.pid for process in host.processes() if process.argv[0] == "dockerd"]
    os.kill(daemon, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon, signal.SIGCONT)


# The account of a registry that asks for one.
REGISTRY_USER, REGISTRY_PASSWORD = "trainer", "secret"
REGISTRY_HASH = "$2b$04$qHjeW4b.UsNxPZ9xOz5qi.45su3zeJx2pyvyD6loHQRfgL7ELZc/i"


def registry_address(host):
    """No host's own, and of loopback: engines take it without TLS."""
    return f"{host.address.rsplit('.', 1)[0]}.253:{REGISTRY_PORT}"


@contextlib.contextmanager
def slow_way(address, to, bytes_a_second):
    """Hands connections to `address` on to `to`; what comes back takes its time."""
    def answer(server, client):
        with server, client, contextlib.suppress(OSError):
            while data := server.recv(bytes_a_second // 10):
                client.sendall(data)
                time.sleep(len(data) / bytes_a_second)  # the rate

    def ask(client):
        server = socket.create_connection(to)
        threading.Thread(target=answer, args=(server, client), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def take():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=ask, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(address) as listener:
        thread = threading.Thread(target=take)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def start_registry(host, folder, asks_for_login=False):
    """docker-registry for the hosts of `host`'s network; its "ADDRESS:PORT". In `folder`."""
    address = registry_address(host)
    config = folder / "registry.yml"
    config.write_text(f"version: 0.1\nstorage: {{ filesystem: {{ rootdirectory: {folder}/registry }} }}\n"
                      f"http: {{ addr: \"{address}\" }}\n"
                      + (f"auth: {{ htpasswd: {{ realm: test, path: {folder}/accounts }} }}\n" if asks_for_login else ""))
    (folder / "accounts").write_text(f"{REGISTRY_USER}:{REGISTRY_HASH}\n")
    log = folder / "registry.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(["docker-registry", "serve", config], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    wait_for(lambda: b"listening on" in log.read_bytes(), lambda: f"docker-registry: {log.read_text()}")
    return process, address


def docker(host, *arguments):
    return host.run_as("root", ["docker", *arguments]).stdout


def podman(host, *arguments):
    told = ROOTS_PODMAN if host.uid == 0 else ()
    return host.run_as(host.user, ["env", *told, "podman", *arguments]).stdout


def ask(host, engine, *arguments):
    return {"docker": docker, "podman": podman}[engine](host, *arguments)


def bring_image(hosts, with_docker=True, with_podman=True):
    """An image of its own on each call; the same on all of these hosts."""
    with tempfile.TemporaryDirectory(prefix="tfdist-image-") as folder:
        tree, archive = pathlib.Path(folder, "tree"), pathlib.Path(folder, "image.tar")
        make_tree(tree)
        subprocess.run(["tar", "--directory", tree, "--create", "--file", archive, "."], check=True)
        first = hosts[0]
        saved = handed_over(first, archive, "base.tar")
        if with_docker:
            docker(first, "import", saved, IMAGE)
            docker(first, "save", "--output", "/tmp/image.tar", IMAGE)
        else:
            podman(first, "import", saved, IMAGE)
            podman(first, "save", "--quiet", "--output", "/tmp/image.tar", IMAGE)
        image = first.folder / "tmp/image.tar"
        image.chmod(0o644)
        for host in hosts:
            path = "/tmp/image.tar" if host is first else handed_over(host, image, "image.tar")
            if with_docker and host is not first:
                docker(host, "load", "--quiet", "--input", path)
            if with_podman:
                podman(host, "load", "--quiet", "--input", path)


def layer(files=None, tree=None, owner=0):
    """A layer's bytes: {name: bytes} that are the `owner`'s, or what is below the folder `tree`."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        if tree:
            tar.add(tree, ".")
        for name, content in (files or {}).items():
            _add(tar, name, content, owner)
    return output.getvalue()


def write_archive(path, layers, name="train:3", architecture="amd64", mode="w", entrypoint=None):
    """As `docker save` writes it. Returns the image's id."""
    hashes = [hashlib.sha256(one).hexdigest() for one in layers]
    config = json.dumps({"architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/bin"], "Entrypoint": entrypoint},
                         "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one}" for one in hashes]}}).encode()
    image = hashlib.sha256(config).hexdigest()
    with tarfile.open(path, mode) as tar:
        _add(tar, f"{image}.json", config)
        for one, content in zip(hashes, layers):
            _add(tar, f"{one}/layer.tar", content)
        _add(tar, "manifest.json", json.dumps([{"Config": f"{image}.json", "RepoTags": [name],
                                                "Layers": [f"{one}/layer.tar" for one in hashes]}]).encode())
    return image


def _add(tar, name, content, owner=0):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.uid = member.gid = owner
    tar.addfile(member, io.BytesIO(content))


def handed_over(host, file, name):
    """Where the host has a copy of it."""
    copy = host.folder / "tmp" / name
    shutil.copy(file, copy)
    copy.chmod(0o644)
    return f"/tmp/{name}"


def make_tree(tree):
    libraries = subprocess.run(["ldd", BUSYBOX], capture_output=True, text=True, check=False).stdout
    runtime = subprocess.run(["ldd", BIN / "tfdist-runtime"], capture_output=True, text=True, check=False).stdout
    for path in {BUSYBOX, *re.findall(r"(/\S+) \(0x", libraries + runtime)}:
        copy = tree / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (tree / "bin").mkdir(exist_ok=True)
    for command in COMMANDS:
        (tree / "bin" / command).symlink_to(BUSYBOX)
    (tree / "etc").mkdir()
    (tree / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (tree / "tmp").mkdir(mode=0o777)


def containers(host):
    """Names of all that the host's engines know, running or not."""
    names = []
    if (host.folder / "dockerd.log").exists():
        names += docker(host, "ps", "--all", "--format", "{{.Names}}").split()
    return names + podman(host, "ps", "--all", "--format", "{{.Names}}").split()


def client(host, engine):
    """Pid of the client that runs the host's one task."""
    found = [process.pid for process in host.processes() if process.argv[:2] == [engine, "run"]]
    return min(found) if found else None


def processes(host):
    """What runs there and is neither an engine's own nor sshd."""
    own = ("dockerd", "containerd", "/usr/bin/containerd-shim-runc-v2", "containerd-shim", "podman")
    return [process.argv for process in host.processes()
            if process.argv and os.path.basename(process.argv[0]) not in [os.path.basename(name) for name in own]]
