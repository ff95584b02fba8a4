"""Runs build/bin/ssh_probe (cli/ssh/testing/ssh_probe.cc), which is tfdist's SSH without the rest of tfdist."""

import json
import os
import pathlib
import subprocess

BIN = pathlib.Path(os.environ.get("TFDIST_BIN_DIR", pathlib.Path(__file__).parents[2] / "build/bin"))


def probe_all(config, action, *hosts, **options):
    """The results for all hosts at once, in no order: dicts with `ok`, and `phase`, `cause`, `remedy` or more.

    `options` as on ssh_probe's command line: key_exchange_ms=300 is --key-exchange-ms 300."""
    command = [BIN / "ssh_probe", "--config", config]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    run = subprocess.run([*command, *action.split("/", 1), *hosts] if action.startswith("boot/")
                         else [*command, action, *hosts],
                         check=True, capture_output=True, text=True, timeout=100)
    return [json.loads(line) for line in run.stdout.splitlines()]


def probe(config, action, host, **options):
    """The result for one host. `action`: open, again, bulk, jobs, or "boot/" and a remote_dir."""
    return probe_all(config, action, host, **options)[0]


def client_config(hosts, name, *lines):
    """A copy of hosts.ssh_config called `name`, in which `lines` come first and so win."""
    config = hosts.folder / name
    config.write_text("\n".join(lines) + "\n" + hosts.ssh_config.read_text())
    return config
