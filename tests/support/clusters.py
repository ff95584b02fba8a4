"""Cluster files for tests."""

import json


def toml_list(values):
    # A JSON list of strings is a TOML array, but for surrogate pairs, which JSON writes unless told not to.
    return json.dumps(values, ensure_ascii=False)


def local(name, command, slots=2, extra="", task_extra=""):
    """`slots` co-located ps and trainers on this machine, without SSH."""
    return f"""
name = "{name}"
{extra}
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local", slots = {slots} }}]
layout = "uai"
ports = {{ worker = {free_ports(2 * slots)}, ps = {free_ports(2 * slots)} }}

[task]
command = {toml_list(command)}
gpus = 0
{task_extra}
"""


def over_ssh(name, command, hosts, extra="", task_extra="", layout="uai"):
    """A trainer on each of the test hosts, in `uai` a ps as well; they share one network, so ports count up."""
    count = len(hosts)
    roles = ("worker", "ps") if layout == "uai" else ("worker",)
    firsts = {role: free_ports(count) for role in roles}
    ports = ", ".join(f"{role} = {list(range(first, first + count))}" for role, first in firsts.items())
    addresses = ", ".join(f'{{ address = "{host.address}", ssh = "{host.name}" }}' for host in hosts)
    return f"""
name = "{name}"
{extra}
[cluster]
hosts = [{addresses}]
layout = "{layout}"
ports = {{ {ports} }}

[task]
command = {toml_list(command)}
gpus = 0
{task_extra}

[ssh]
config = "{hosts.ssh_config}"
"""


_next_port = None


def free_ports(count):
    """The first of `count` ports in a row that nobody listens on now; each call gives others."""
    import os
    import socket

    global _next_port
    if _next_port is None:  # parallel test programs start in different places, below the ephemeral range
        _next_port = 10000 + os.getpid() % 200 * 100
    while True:
        first, _next_port = _next_port, _next_port + count
        if _next_port > 31000:
            _next_port = 10000
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("", port))
            return first
        except OSError:
            continue
