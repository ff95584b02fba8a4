"""A Slurm of test hosts, a real one: munged everywhere, slurmctld on the first host, slurmd on all others.

    slurm.check_possible()
    with Hosts(3, **slurm.OPTIONS) as hosts:
        slurm.start(hosts)
        slurm.run(hosts, "srun", "-N2", "hostname")     # as the hosts' account, on the first one: the login node

The hosts share one home folder and one account, as Slurm wants it. All of it ends with its hosts.
"""

import pathlib
import re
import secrets
import shutil
import subprocess
import unittest

from tests.support.tfdist import BIN
from tests.support.waiting import PATIENCE, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scancel", "squeue", "scontrol")
OPTIONS = {"own_network": True, "shared_home": True, "seen": {"bin": BIN}}
TFDIST = "/run/bin/tfdist"
CPUS = 4
# For start(): as clusters have it, what a step has started is killed when the step ends.
CGROUPS = {"proctrack": "cgroup",
           "cgroup": "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"}
CONF = """
ClusterName=test
SlurmctldHost={login}({address})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ReturnToService=2
KillWait=10
MessageTimeout=30
SlurmdParameters=config_overrides
{more}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def check_possible():
    """Raises SkipTest where this machine has no Slurm (scripts/setup --test brings it), or cannot track its steps."""
    if not pathlib.Path("/sys/fs/cgroup/freezer").is_dir():
        raise unittest.SkipTest("no cgroups of version 1 here, which the Slurm of Debian 12 tracks steps by in test hosts")
    for program in PROGRAMS:
        if shutil.which(program, path="/usr/sbin:/usr/bin") is None:
            raise unittest.SkipTest(f"no {program} here (scripts/setup --test)")


def start(hosts, more="", proctrack="linuxproc", cgroup=""):
    """Until all nodes are idle. `more`: lines of slurm.conf; `cgroup`: cgroup.conf."""
    login, *nodes = hosts
    lines = [f"NodeName={node.name} NodeAddr={node.address} CPUs={CPUS} State=UNKNOWN" for node in nodes]
    conf = CONF.format(login=login.name, address=login.address, nodes="\n".join(lines), more=more,
                       proctrack=proctrack)
    key = secrets.token_hex(64)
    for host in hosts:
        root(host, ["mkdir", "-p", "/etc/slurm", "/run/munge", "/run/slurmctld", "/run/slurmd"])
        root(host, ["sh", "-c", "cat >/etc/slurm/slurm.conf"], input=conf)
        root(host, ["sh", "-c", "cat >/etc/slurm/cgroup.conf"], input=cgroup)
        root(host, ["sh", "-c", "umask 077; cat >/run/munge.key"], input=key)
        daemon(host, ["munged", "--foreground", "--force", "--key-file=/run/munge.key", "--pid-file=/run/munged.pid",
                      "--log-file=/run/munged.log", "--seed-file=/run/munged.seed"])
        wait_for(lambda host=host: root(host, ["munge", "-n"], check=False).returncode == 0, f"munged on {host.name}")
    daemon(login, ["slurmctld", "-D"])
    for node in nodes:
        daemon(node, ["slurmd", "-D", "-N", node.name])
    count = len(nodes)
    wait_for(lambda: len(re.findall(r"^idle$", run(hosts, "sinfo", "-hN", "-o", "%T", check=False).stdout, re.M)) == count,
             lambda: f"idle nodes; {logs(hosts)}", 60)


def run(hosts, *argv, check=True, seconds=120, **options):
    """As the account, on the login node, without variables of Slurm's."""
    done = hosts[0].run_as(hosts[0].user, list(argv), check=False, timeout=PATIENCE * seconds, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{argv} ended with {done.returncode}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
    return done


def steps(hosts, job):
    """Those that run, less batch and extern: ["12.0", "12.1"]."""
    said = run(hosts, "squeue", "--steps", "-h", "-j", str(job), "-o", "%i", check=False).stdout.split()
    return [step for step in said if step.split(".")[-1].isdigit()]


def state(hosts, job):
    """"RUNNING", "COMPLETED", ...; empty: Slurm has forgotten the job."""
    found = re.search(r"JobState=(\S+)", run(hosts, "scontrol", "show", "job", str(job), check=False).stdout)
    return found.group(1) if found else ""


def processes(host):
    """Those on the host that are no part of Slurm, nor of the way into it."""
    own = ("slurmctld", "slurmd", "slurmscriptd", "slurmstepd:", "munged", "/usr/sbin/slurmd", "/usr/sbin/slurmstepd")
    return [process for process in host.processes() if process.argv and process.argv[0].split(" ")[0].rstrip(":") not in
            {name.rstrip(":") for name in own}]


def logs(hosts):
    texts = []
    for host in hosts:
        for log in sorted(host.folder.glob("*.daemon.log")):
            texts.append(f"--- {host.name} {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:]))
    return "\n".join(texts)


def root(host, argv, **options):
    return host.run_as("root", argv, **options)


def daemon(host, argv):
    """It ends with its host, and is nobody's child."""
    with open(host.folder / f"{argv[0]}.daemon.log", "wb") as output:
        subprocess.run(["setsid", "--fork", "nsenter", f"--target={host.pid}", "--mount", "--pid", "--uts", "--ipc", "--net",
                        "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *argv],
                       stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True)
