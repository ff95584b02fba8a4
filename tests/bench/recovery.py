"""How long a job takes from a fault until it goes on: scripts/bench recovery.

    recovery.py [--times N] [--only training|power|parts]

First the demo's training on four hosts with networks of their own, a fault in each run, at a random step: SIGKILL of a
worker, of a parameter server, of the chief; a power cut of a host, with a spare host. Each run must end with exit code 0
and an accuracy of 0.95. Then what the parts of a repair take, in one long job: from the death of a task to its event, from
SIGKILL of an agent (of the coordinator's) until it serves again, from a cut link to the decision. The default pause of 2 s
before a restart is in the first table, not in the second.
"""

import argparse
import json
import os
import random
import re
import statistics
import sys
import time

from tests.chaos.links import Link
from tests.hosts.hosts import Hosts
from tests.support import clusters, processes
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

HOSTS = 4
STEPS = 8000


def is_task(process, name):
    """Whether it is the program of that task itself."""
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            return f"TFDIST_TASK={name}".encode() in file.read().split(b"\0") and process.argv[0] != "tfdist-agent"
    except OSError:
        return False


def pids_of(host, name):
    return [process.pid for process in host.processes() if is_task(process, name)]


def agent_of(host):
    return [process.pid for process in host.processes() if process.argv[:2] == ["tfdist-agent", "agent"]][0]


def events(user, job=""):
    said = user.run("events", "--json", *([job] if job else []))
    assert said.code == 0, said
    return [json.loads(line) for line in said.out.splitlines()]


def first_after(found, moment_ns, kind, **fields):
    for event in found:
        if event["kind"] == kind and event["time_ns"] >= moment_ns and \
                all(event["fields"].get(key) == value for key, value in fields.items()):
            return event
    return None


def seconds(event, moment_ns):
    return (event["time_ns"] - moment_ns) / 1e9


def show(name, samples, unit="s"):
    samples = sorted(samples)
    scale = 1000 if unit == "ms" else 1
    p99 = samples[min(len(samples) - 1, int(0.99 * len(samples)))]
    print(f"| {name} | {len(samples)} | {scale * statistics.median(samples):.3g} {unit} | {scale * p99:.3g} {unit} | "
          f"{scale * samples[-1]:.3g} {unit} |", flush=True)


def header(what):
    print(f"\n| {what} | times | p50 | p99 | max |\n| --- | --- | --- | --- | --- |")


# --- a training job and one fault -------------------------------------------------------------------------


class Cluster:
    def __init__(self):
        self.hosts = Hosts(HOSTS + 1, own_network=True)
        self.user = Tfdist("recovery")
        self.hosts.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hosts.stop()
        self.user.close()

    def write(self, command, spare, extra="", task_extra="", layout="uai"):
        text = clusters.over_ssh("digits", command, self.hosts[:HOSTS], layout=layout, extra="",
                                 task_extra=task_extra, ssh_config=self.hosts.ssh_config) + extra
        if spare:
            last = self.hosts[HOSTS]
            text = text.replace("hosts = [", f'hosts = [{{ address = "{last.address}", ssh = "{last.name}", spare = true }}, ', 1)
        return self.user.write("cluster.toml", text)

    def clear(self, slot):
        """A crashed host starts again, and what waits for its agent is ended."""
        Link(self.hosts[slot]).remove()
        self.hosts[slot].start(with_parent=True)
        self.hosts[slot].wait_until_up()
        for host in self.hosts:
            processes.kill_together(lambda h=host: [p.pid for p in h.processes() if p.argv[0] == "tfdist-agent"])


def train(cluster, spare, strike, step):
    """(exit code, accuracy, the moment of the fault in ns, what up said)"""
    command = ["{runtime}", "--data", "digits", "--model", "mlp", "--steps", str(STEPS), "--eval-every", "250"]
    up = cluster.user.start("up", cluster.write(command, spare, task_extra=f'workdir = "{ROOT / "configs/data"}"'))
    steps = re.compile(rb"\| step (\d+),")

    def far_enough():
        assert up.poll() is None, up.err.read_text()
        return any(int(number) >= step for number in steps.findall(up.out.read_bytes()))

    wait_for(far_enough, f"step {step}")
    moment = time.time_ns()
    strike()
    code = up.wait(300)
    said = up.out.read_text()
    accuracy = float((re.findall(r"final: .*test accuracy ([0-9.]+)", said) or ["0"])[-1])
    return code, accuracy, moment, said + up.err.read_text()


def kill(cluster, name, slot):
    def strike():
        for pid in pids_of(cluster.hosts[slot], name):
            processes.kill(pid)
    return strike


def power_cut(cluster, slot):
    def strike():
        Link(cluster.hosts[slot]).cut()  # nobody hears a farewell
        cluster.hosts[slot].crash()
    return strike


def training(cluster, times, chance, only_power):
    rows = {"a worker": ("worker:1", 2, False), "a parameter server": ("ps:1", 1, False),
            "the chief": ("master:0", 0, False), "a host, power cut": (None, 3, True)}
    header("training on four hosts: from the fault until all tasks run again")
    for row, (task, slot, spare) in rows.items():
        if only_power and task:
            continue
        again, worst = [], 1.0
        for _ in range(times):
            step = chance.randrange(250, STEPS // 2, 250)
            strike = kill(cluster, task, slot) if task else power_cut(cluster, slot)
            code, accuracy, moment, said = train(cluster, spare, strike, step)
            worst = min(worst, accuracy)
            assert code == 0 and accuracy >= 0.95, f"{row}: exit code {code}, accuracy {accuracy}\n{said[-3000:]}"
            again.append(until_all_run(events(cluster.user), moment, task))
            if not task:
                cluster.clear(slot)
        show(f"{row}: {times} of {times} ended with 0, accuracy at least {worst:.3f}", again)


def until_all_run(found, moment_ns, task):
    """Until the killed task runs again, where it alone did; else until the last task of the new attempt does."""
    attempt = first_after(found, moment_ns, "attempt")
    if attempt is None:
        return seconds(first_after(found, moment_ns, "task", task=task, state="started"), moment_ns)
    started = [event for event in found if event["kind"] == "task" and event["fields"]["state"] == "started"
               and event["fields"]["attempt"] == attempt["fields"]["attempt"]]
    return seconds(max(started, key=lambda event: event["time_ns"]), moment_ns)


# --- the parts of a repair --------------------------------------------------------------------------------

RULES = """
[restart]
worker = { policy = "task", limit = 1000, backoff = "10ms", within = "1s" }
on_host_lost = "wait"
"""


def parts(cluster, times, chance):
    user = cluster.user
    up = user.run("up", "-d", cluster.write(["sleep", "1000000"], False, extra=RULES, layout="mirrored"))
    assert up.code == 0, up
    user.wait_until_tasks_run()
    header("the parts of a repair")
    show("task killed until its event is written", *[task_deaths(cluster, 10 * times, chance)], unit="ms")
    show("agent killed until it reports again", agent_deaths(cluster, 1, times), unit="ms")
    show("coordinator's agent killed until it has its job again", agent_deaths(cluster, 0, times), unit="ms")
    show("coordinator's agent killed until `tfdist status` is answered", status_after_death(cluster, times), unit="ms")
    cuts = [link_cut(cluster, 2) for _ in range(max(times // 2, 1))]
    show("link cut until the host counts as lost", [lost for lost, _ in cuts])
    show("link healed until the host is connected again", [back for _, back in cuts])
    assert user.run("down").code == 0


def task_deaths(cluster, count, chance):
    moments = []
    for _ in range(count):
        slot = chance.randrange(HOSTS)
        name = f"worker:{slot}"
        pid = wait_for(lambda: pids_of(cluster.hosts[slot], name), f"{name} runs")[0]
        moments.append((time.time_ns(), name))
        processes.kill(pid)
        wait_for(lambda: pids_of(cluster.hosts[slot], name) not in ([], [pid]), f"{name} runs again")
    found = events(cluster.user)
    return [seconds(first_after(found, moment, "task", task=name, state="exited"), moment) for moment, name in moments]


def agent_deaths(cluster, slot, count):
    """Each agent has lived for 10 s, or the next one would come after a pause."""
    moments = []
    for _ in range(count):
        time.sleep(10.5)  # the keeper's own rule, agent_restarts.h
        before = cluster.user.status()["hosts"][slot]["agent_restarts"]
        pid = agent_of(cluster.hosts[slot])
        moments.append(time.time_ns())
        processes.kill(pid)
        cluster.user.wait_for_status(lambda s: s["hosts"][slot]["agent_restarts"] > before, "the agent is back")
    found = events(cluster.user)
    return [seconds(first_after(found, moment, "host", slot=slot, state="agent-restarted"), moment) for moment in moments]


def status_after_death(cluster, count):
    """The whole command, from the kill on: a process, a login, the answer."""
    taken = []
    for _ in range(count):
        time.sleep(10.5)
        pid = agent_of(cluster.hosts[0])
        began = time.monotonic()
        processes.kill(pid)
        cluster.user.wait_for_status(lambda s: s["live"], "status")
        taken.append(time.monotonic() - began)
    return taken


def link_cut(cluster, slot):
    link = Link(cluster.hosts[slot])
    cut = time.time_ns()
    link.cut()
    cluster.user.wait_for_status(lambda s: s["hosts"][slot]["state"] == "lost", "the host is lost")
    healed = time.time_ns()
    link.heal()
    cluster.user.wait_for_status(lambda s: s["hosts"][slot]["state"] == "connected" and
                                 all(t["state"] == "running" for t in s["tasks"]), "the host is back")
    found = events(cluster.user)
    return (seconds(first_after(found, cut, "host", slot=slot, state="lost"), cut),
            seconds(first_after(found, healed, "host", slot=slot, state="connected"), healed))


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench recovery")
    parser.add_argument("--times", type=int, default=10, help="faults of each kind; by default 10")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--only", choices=["training", "power", "parts"], help="one table, or of the first the power cuts")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with Cluster() as cluster:
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
        if given.only != "parts":
            training(cluster, given.times, chance, only_power=given.only == "power")
        if given.only in (None, "parts"):
            parts(cluster, given.times, chance)
        print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    sys.exit(main())
