"""The containers of chaos rounds: an engine on each host, an image for tasks, and what the engines still have."""

import pathlib
import tempfile

from tests.support import engines

# Who runs the containers: docker as root, podman for the hosts' accounts, podman for accounts that are root.
ENGINES = ("docker", "podman", "rootful-podman")
IMAGE = "localhost/tfdist-chaos:1"
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}


class Containers:
    def __init__(self, hosts, kind):
        self.hosts, self.kind = hosts, kind
        self.engine = "docker" if kind == "docker" else "podman"
        if kind == "rootful-podman":
            for host in hosts:
                host.uid = 0

    def start(self):
        """Once the hosts are up."""
        for host in self.hosts:
            engines.prepare(host)
            self.start_engine(host)
        with tempfile.TemporaryDirectory(prefix="tfdist-image-") as folder:
            archive = pathlib.Path(folder, "image.tar")
            engines.write_archive(archive, [engines.layer(tree=make_tree(pathlib.Path(folder, "tree")))], name=IMAGE)
            for host in self.hosts:
                engines.ask(host, self.engine, "load", "--quiet", "--input", engines.handed_over(host, archive, "image.tar"))

    def start_engine(self, host):
        """Also after a power cut. podman has no daemon."""
        if self.engine == "docker":
            engines.start_docker(host)

    def settings(self, *folders):
        """Of [task]; `folders` are seen in the container."""
        mounts = ", ".join(f'"{folder}:{folder}"' for folder in folders)
        return f'image = "{IMAGE}"\nengine = "{self.engine}"\nmounts = ["/usr:/usr:ro", {mounts}]'

    def left(self):
        """{host: names of the jobs' containers, running or not}"""
        found = {host.name: engines.ask(host, self.engine, "ps", "--all", "--filter", "label=tfdist.job", "--format", "{{.Names}}").split()
                 for host in self.hosts if host.pid}
        return {name: here for name, here in found.items() if here}


def make_tree(tree):
    """Nearly empty: programs are those of the hosts, in /usr."""
    for name in ("usr", "sbin", "etc", "tmp"):
        (tree / name).mkdir(parents=True)
    for name, target in LINKS.items():
        (tree / name).symlink_to(target)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    return tree
