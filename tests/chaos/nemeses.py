"""What a round does to a cluster, each with what may rightly follow from it.

A nemesis is a function of the round and of a slot; it strikes, and returns what undoes it (or None). `Effects` say what
the job may do because of it; a round with harmless nemeses alone must not show that anything has happened.
"""

import dataclasses
import signal
from typing import Callable

from tests.chaos.world import SLOTS
from tests.support import engines, processes


@dataclasses.dataclass(frozen=True)
class Effects:
    restarts: bool = False    # tasks may fail and start again
    loses_tail: bool = False  # what was in a task's pipe may be lost
    loses_host: bool = False  # the coordinator may count the host as lost
    may_end: bool = False     # somebody asks for the end of the job
    may_fail: bool = False    # tasks cannot be started again for a while
    may_stay: bool = False    # a process without session and environment may survive, and `down` names it (README, "What it promises")
    loses_text: bool = False  # output may be lost, and is counted
    ends_cli: bool = False    # `up` may end with its exit code for a killed or cut command


@dataclasses.dataclass(frozen=True)
class Nemesis:
    name: str
    strike: Callable          # (round, slot) -> what undoes it, or None
    prepare: Callable = None  # (round, slot), before the job is started
    effects: Effects = Effects()
    longest: float = 1.5      # seconds until it is undone
    shortest: float = 0.1
    weight: int = 4
    slots: tuple = tuple(range(SLOTS))
    while_deploying: bool = False  # it may also strike before the job exists
    program: str = "tfdist"   # "tfdist-failpoints": what brings the agent of tests


def killer(*roles):
    def strike(round, slot):
        pids = [pid for role in roles for pid in round.choose(round.world.pids(slot, role))]
        round.note(f"SIGKILL {' '.join(map(str, pids))}")
        for pid in pids:
            processes.kill(pid)
    return strike


def kill_keeper_then_holder(round, slot):
    """The holder dies while it ends what its task has started: that is known to nobody then."""
    killer("keeper")(round, slot)
    return lambda: killer("holder")(round, slot)


def stopper(role):
    def strike(round, slot):
        pids = round.choose(round.world.pids(slot, role))
        round.note(f"SIGSTOP {pids}")
        for pid in pids:
            processes.kill(pid, signal.SIGSTOP)
        return lambda: [processes.kill(pid, signal.SIGCONT) for pid in pids]
    return strike


def kill_all_agents(round, _):
    for slot in range(SLOTS):
        for pid in round.world.pids(slot, "agent"):
            processes.kill(pid)


def kill_cli(round, _):
    round.cli.kill()


def stop_cli(round, _):
    cli = round.cli
    if cli.poll() is not None:
        return None
    cli.send_signal(signal.SIGSTOP)
    return lambda: cli.send_signal(signal.SIGCONT)


def cut(round, slot):
    round.world.links[slot].cut()
    return round.world.links[slot].heal


def cut_towards_host(round, slot):
    round.world.links[slot].cut_towards_host()
    return round.world.links[slot].heal


def cut_from_host(round, slot):
    round.world.links[slot].cut_from_host()
    return round.world.links[slot].heal


def slow(round, slot):
    delay, loss = round.chance.choice([5, 50, 200]), round.chance.choice([0, 1, 5])
    round.note(f"{delay} ms, loss {loss} %")
    round.world.links[slot].slow(delay, loss)
    return round.world.links[slot].heal


def freeze(round, slot):
    round.world.hosts[slot].freeze()
    return round.world.hosts[slot].thaw


def crash(round, slot):
    """Its packets end before its processes, so that nobody hears a farewell."""
    round.world.links[slot].cut()
    round.world.hosts[slot].crash()
    round.crashed.add(slot)
    round.forsaken.add(slot)


def kill_keeper_and_agent(round, slot):
    """Nobody is left who could start an agent there."""
    killer("keeper", "agent")(round, slot)
    round.forsaken.add(slot)


def small_disk(round, slot):
    if slot not in round.world.small_disks:
        round.world.mount_small_disk(slot, round.most_log_bytes())


def fill_disk(round, slot):
    filler = round.world.jobs(slot) / "filler"
    try:
        with open(filler, "ab") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
    except OSError:
        pass
    return lambda: filler.unlink(missing_ok=True)


JUMPS = (3, 45, 600, 86_400, 10 * 365 * 86_400)  # seconds


def jump_clock(round, slot):
    """Forward or back, and, once it is undone, the other way."""
    seconds = round.chance.choice((-1, 1)) * round.chance.choice(JUMPS)
    round.note(f"by {seconds} s")
    round.world.hosts[slot].move_clock(seconds)
    return lambda: round.world.hosts[slot].move_clock(0)


def second_up(round, _):
    round.start_command("up", round.file)


def ask_status(round, _):
    """It must answer, whatever else strikes, and say what was so."""
    round.start_command("status", "--json", round.name)


def down(round, _):
    round.end_it()


def down_by_force(round, _):
    round.end_it("--force")


def interrupt_cli(round, _):
    if round.cli.poll() is None:
        round.cli.send_signal(signal.SIGINT)


def kill_daemon(round, slot):
    """The containers go on: each has a process that looks after it."""
    host = round.world.hosts[slot]
    engines.kill_docker(host)
    return lambda: round.world.containers.start_engine(host)


RESTARTS = Effects(restarts=True)
LOST = Effects(restarts=True, loses_host=True, loses_tail=True)
OTHERS = tuple(range(1, SLOTS))  # hosts without the coordinator

NEMESES = [
    Nemesis("kill task", killer("task"), effects=RESTARTS, weight=8),
    Nemesis("kill agent", killer("agent"), while_deploying=True),
    Nemesis("kill coordinator", killer("agent"), slots=(0,), weight=8),
    Nemesis("kill keeper", killer("keeper"), effects=RESTARTS, while_deploying=True),
    Nemesis("kill holder", killer("holder"), effects=Effects(restarts=True, loses_tail=True)),
    Nemesis("kill keeper and holder", killer("keeper", "holder"),
            effects=Effects(restarts=True, loses_tail=True, may_stay=True)),
    Nemesis("kill keeper, then holder", kill_keeper_then_holder,
            effects=Effects(restarts=True, loses_tail=True, may_stay=True), shortest=0, longest=1),
    Nemesis("kill all agents", kill_all_agents),
    Nemesis("kill start", killer("start"), while_deploying=True, weight=2),
    Nemesis("kill sshd", killer("sshd"), slots=(0,), while_deploying=True),
    Nemesis("kill attach", killer("attach"), slots=(0,)),
    Nemesis("kill cli", kill_cli, effects=Effects(ends_cli=True), while_deploying=True),
    Nemesis("stop agent", stopper("agent")),
    Nemesis("stop coordinator", stopper("agent"), slots=(0,)),
    Nemesis("stop keeper", stopper("keeper")),
    Nemesis("stop holder", stopper("holder")),
    Nemesis("stop task", stopper("task")),
    Nemesis("stop sshd", stopper("sshd"), slots=(0,)),
    Nemesis("stop attach", stopper("attach"), slots=(0,), weight=2),
    Nemesis("stop start", stopper("start"), while_deploying=True, weight=2),
    Nemesis("stop cli", stop_cli, while_deploying=True),
    Nemesis("cut", cut, while_deploying=True),
    Nemesis("cut towards host", cut_towards_host, while_deploying=True),
    Nemesis("cut from host", cut_from_host, while_deploying=True),
    Nemesis("slow link", slow, while_deploying=True, weight=8),
    Nemesis("freeze host", freeze, while_deploying=True),
    Nemesis("clock jump", jump_clock, while_deploying=True, program="tfdist-failpoints"),
    Nemesis("second up", second_up, while_deploying=True),
    Nemesis("status", ask_status, while_deploying=True),
    Nemesis("down", down, effects=Effects(may_end=True), while_deploying=True),
    Nemesis("full disk", fill_disk, effects=Effects(loses_text=True), prepare=small_disk),
    Nemesis("long cut", cut, effects=LOST, shortest=7, longest=9, slots=OTHERS, weight=1),
    Nemesis("long cut towards host", cut_towards_host, effects=LOST, shortest=7, longest=9, slots=OTHERS, weight=1),
    Nemesis("long cut from host", cut_from_host, effects=LOST, shortest=7, longest=9, slots=OTHERS, weight=1),
    Nemesis("long freeze", freeze, effects=LOST, shortest=7, longest=9, slots=OTHERS, weight=1),
    Nemesis("power cut", crash, effects=LOST, slots=OTHERS, weight=1),
    Nemesis("kill keeper and agent", kill_keeper_and_agent, effects=LOST, slots=OTHERS, weight=1),
]
# Of tasks in containers, too.
CONTAINER_NEMESES = [
    Nemesis("kill client", killer("client"), effects=Effects(restarts=True, loses_tail=True), weight=16),
    Nemesis("Ctrl-C", interrupt_cli, effects=Effects(may_end=True), while_deploying=True, weight=8),
    Nemesis("down --force", down_by_force, effects=Effects(may_end=True), while_deploying=True, weight=8),
]
DOCKER_NEMESES = [
    Nemesis("kill daemon", kill_daemon, effects=Effects(restarts=True, loses_tail=True, may_fail=True), weight=16),
]
BY_NAME = {nemesis.name: nemesis for nemesis in NEMESES + CONTAINER_NEMESES + DOCKER_NEMESES}


def nemeses_for(engine):
    """`engine`: one of containers.ENGINES; None: tasks have no containers."""
    return NEMESES + (CONTAINER_NEMESES if engine else []) + (DOCKER_NEMESES if engine == "docker" else [])
