"""What must hold after each round, whatever has struck."""

import json
import re

from tests.chaos.task import line
from tests.support import processes
from tests.support.waiting import wait_for

POLICIES = {"worker": "task", "ps": "gang", "master": "gang"}
END = 90           # seconds for a command or a job to end once nothing is in its way
UNCOMMITTED = 75   # an agent that nobody has committed ends itself after 60 s
STALE = 3          # seconds that an event may take to the disk, and so to whoever asks
SECOND = 10 ** 9
OUTPUT_LOST = "its last output may be lost, at most 192 KiB"  # what the end of a run says whose holder was killed
KILLED_HOLDER_BYTES = 192 << 10
DAEMON_IS_GONE = re.compile(rb'time="[^"]*" level=error msg="error waiting for container: [^"]*"\n')
EXIT_CODES = {"succeeded": 0, "failed": 1, "stopped": 1}


class Broken(AssertionError):
    """A promise was not kept."""


def expect(condition, what):
    if not condition:
        raise Broken(what() if callable(what) else what)


def check(round):
    commands_end(round)
    down_has_told_what_it_left(round)
    jobs = jobs_of(round)
    seen = {job: the_job_ends(round, job) for job in jobs}
    what_may_stay_is_named(round, jobs)
    nothing_is_left(round, seen)
    starts = read_diary(round.diary)
    one_copy_at_most(round, starts)
    for job, (status, events) in seen.items():
        if not events:
            continue
        of_job = {key: me for key, me in starts.items() if me["job"] == job}
        events_are_sound(round, events)
        if round.world.containers:
            exits_of_containers_are_kept(round, events, of_job)
        else:
            exits_are_kept(round, events, of_job)
        policy_was_followed(round, status, events, of_job)
        logs_are_exact(round, job, status, events, of_job)
    exit_codes_agree(round, seen)
    status_told_the_truth(round, seen)


# --- everything ends -----------------------------------------------------------------------------------


def commands_end(round):
    """`up`, a second one, `down`: none of them hangs."""
    if round.detached and round.cli.poll() is None:
        wait_for(lambda: round.cli.poll() is not None, "the end of up -d", END)
    for command in round.commands:
        wait_for(lambda: command.poll() is not None,
                 lambda: f"the end of tfdist {command.args_given}: {command.err.read_text()[-2000:]}", END)


def down_has_told_what_it_left(round):
    """With exit code 0 nothing of the job was there in that moment; with 1 each host is named on which something was."""
    for command in round.commands:
        if command.args_given[0] != "down":
            continue
        command.looking.join(END)
        for job, left in command.left_behind.items():
            what_is_left_is_named(command.returncode, command.err.read_text(), job, left, round.world.hosts)


def what_may_stay_is_named(round, jobs):
    """README: a process whose holder and keeper were killed may survive the job, and `down` names it then."""
    for job in jobs if round.may("may_stay") and not round.forsaken else []:
        said = round.world.user.run("down", job, seconds=END)
        what_is_left_is_named(said.code, said.err, job, round.world.tasks_of(job), round.world.hosts)


def what_is_left_is_named(code, said, job, left, hosts):
    """Each host, and on those that have answered each process, unless /proc shows none."""
    unconfirmed, unreachable = (set(re.findall(r"[\w.]+", " ".join(re.findall(rf"(?m)^  {word}: (.*)$", said))))
                                for word in ("unconfirmed", "unreachable"))
    named = unconfirmed | unreachable
    for host in hosts:
        there = left.get(host.name, [])
        expect(not there or (code == 1 and host.address in named),
               lambda: f"`down` of {job}, exit code {code}, left {there} on {host.name} ({host.address}), and said: {said}")
        answered = host.address in unconfirmed
        of_host = "\n".join(re.findall(rf"(?m)^  {re.escape(host.address)}: .*$", said))
        for process in there if answered and "/proc hides it" not in of_host else []:
            expect(f"pid {process.pid_there} (" in of_host,
                   lambda: f"`down` of {job} left {process} on {host.name} ({host.address}), and did not name it: {said}")


def jobs_of(round):
    """Ids of all jobs that this round has begun, from the user's records, the oldest first."""
    folder = round.world.user.folder / ".local/state/tfdist/jobs"
    records = [json.loads(path.read_text()) for path in folder.glob(f"{round.name}-*.json")]
    return [record["id"] for record in sorted(records, key=lambda record: record["created"])]


def the_job_ends(round, job):
    """(its last status, its events): none, where it never began."""
    def look():
        said = round.world.user.run("status", "--json", job, seconds=60)
        if said.code == 4 or (said.code == 3 and not committed(round, job)):
            return ({}, [])
        status = json.loads(said.out) if said.code == 0 else None
        if status and status["state"] in ("not started", "gone"):
            return ({}, [])
        if status and status["state"] == status["result"]:
            return (status, events_of(round, job))
        if not committed(round, job):
            return ({}, [])
        return None
    return wait_for(look, lambda: f"the end of {job}: {round.world.user.run('status', job)}", END)


def committed(round, job):
    folder = round.world.job_folder(0, job) / "h0"
    return any(b'"committed"' in path.read_bytes() for path in folder.glob("events*.jsonl"))


def events_of(round, job):
    said = round.world.user.run("events", "--json", job, seconds=60)
    expect(said.code == 0, lambda: f"events of {job}: {said}")
    return [json.loads(text) for text in said.out.splitlines()]


def nothing_is_left(round, seen):
    """Tasks and what they started are gone at once, tfdist's own processes soon. Of a job that never began, and where a
    host has lost its memory, agents may wait for their time to come: tasks never."""
    world = round.world
    stays = round.may("may_stay")
    if stays:
        for slot in range(len(world.hosts)):  # what README says may survive
            for process in world.hosts[slot].processes():
                if round.mark in process.argv:
                    processes.kill(process.pid)
    wait_for(lambda: not world.tasks_left(round.mark), lambda: f"no task is left; there is {world.tasks_left(round.mark)}", 30)
    unknown = any(not events for _, events in seen.values())
    if round.forsaken:
        coordinator_waits_alone(round)
        for slot in sorted(round.crashed):
            world.reboot(slot)
        world.clear_host(0)
    wait_for(lambda: not world.left(round.mark), lambda: f"nothing is left; there is {world.left(round.mark)}",
             UNCOMMITTED if unknown else 30)
    if world.containers:
        no_container_is_left(round, seen)


def no_container_is_left(round, jobs):
    """Of a host that was gone, and of an engine that was, `down` removes what is still recorded."""
    if round.forsaken or round.may("may_fail"):
        for job in jobs:
            round.world.user.run("down", job, seconds=END)
    left = round.world.containers.left
    wait_for(lambda: not left(), lambda: f"no container is left; there is {left()}", 30)


def coordinator_waits_alone(round):
    """For a host whose agent never comes back: it must have ended by itself first, which takes minutes."""
    def others():
        return {name: here for name, here in round.world.left(round.mark).items()
                if name != round.world.hosts[0].name or any("agent holder" in command for _, command in here)}
    wait_for(lambda: not others(), lambda: f"nothing is left but slot 0's agent; there is {others()}", 30)


# --- what tasks say of themselves ----------------------------------------------------------------------


def read_diary(folder):
    """{(task, start): what it wrote}"""
    starts = {}
    for path in folder.glob("*.start"):
        me = json.loads(path.read_text())
        counted = path.with_suffix(".lines").read_text()
        end = path.with_suffix(".exit")
        me["lines"] = int(counted) if counted else 0
        me["exit"] = int(end.read_text()) if end.exists() else None
        starts[me["task"], me["start"]] = me
    return starts


def one_copy_at_most(round, starts):
    for path in sorted(round.diary.glob("*.double")):
        first, second = json.loads(path.read_text())
        elsewhere = first.get("host") != second["host"]
        # Nobody can end what a host runs that cannot be reached; its tasks end once it can.
        expect(elsewhere and round.may("loses_host"), f"two copies of a task at once: {first} and {second}")


# --- what the coordinator says -------------------------------------------------------------------------


def kinds(events, kind):
    return [event["fields"] for event in events if event["kind"] == kind]


def events_are_sound(round, events):
    expect([event["number"] for event in events] == list(range(1, len(events) + 1)), "events are not numbered 1, 2, ...")
    for kind in ("committed", "ended"):
        expect(len(kinds(events, kind)) == 1, f"{len(kinds(events, kind))} events {kind}")
    expect(len(kinds(events, "stopping")) in (1, 2), f"stopping was decided {len(kinds(events, 'stopping'))} times")
    attempts = [fields["attempt"] for fields in kinds(events, "attempt")]
    expect(attempts == list(range(1, len(attempts) + 1)), f"attempts {attempts}")
    changes = [(f["task"], f["attempt"], f["run"], f["state"]) for f in kinds(events, "task")]
    expect(len(changes) == len(set(changes)), lambda: f"told twice: {sorted(c for c in changes if changes.count(c) > 1)}")
    attempt, run = 0, {}
    for event in events:
        fields = event["fields"]
        if event["kind"] == "attempt":
            attempt, run = fields["attempt"], {}
        if event["kind"] == "run":
            expect(fields["run"] == run.get(fields["task"], 1) + 1, f"run {fields} after {run}")
            run[fields["task"]] = fields["run"]
        if event["kind"] == "task" and fields["state"] == "started":
            expect((fields["attempt"], fields["run"]) == (attempt, run.get(fields["task"], 1)),
                   f"started without an order: {fields}, ordered attempt {attempt} run {run}")


def exits_are_kept(round, events, starts):
    """Each exit code that a task chose is told, and none else in its place. Pids are those on the task's own host."""
    told = {}
    pids = {}
    for fields in kinds(events, "task"):
        key = (fields["task"], fields["attempt"], fields["run"])
        if fields["state"] == "started":
            pids[key] = fields["pid"]
        else:
            told[key] = fields["exit"]
    known = {(task, attempt, pid): key for (task, attempt, run), pid in pids.items() for key in [(task, attempt, run)]}
    may_be_lost = any(round.may(effect) for effect in ("loses_tail", "loses_host", "loses_text"))
    for me in starts.values():
        if me["exit"] is None:
            continue
        key = known.get((me["task"], me["attempt"], me["pid"]))
        if key not in told:
            expect(may_be_lost, f"{me} has ended, and no event tells it")
            continue
        said = told[key]
        if said["error"] and (round.may("loses_tail") or round.may("loses_host")):
            continue  # its holder was killed, too
        expect((said["code"], said["signal"]) == (me["exit"], 0), f"{me} has ended, told was {said}")


def exits_of_containers_are_kept(round, events, starts):
    """The same: by their order, as a task does not see its pid on the host."""
    may_be_lost = any(round.may(effect) for effect in ("loses_tail", "loses_host", "loses_text"))
    told = {}
    for fields in kinds(events, "task"):
        if fields["state"] == "exited":
            told.setdefault((fields["task"], fields["attempt"]), []).append(fields["exit"])
    for (task, start), me in sorted(starts.items()):
        if me["exit"] is None or may_be_lost:
            continue
        exits = told.get((task, me["attempt"]), [])
        codes = [(end["code"], end["signal"]) for end in exits]
        expect((me["exit"], 0) in codes, f"{me} has ended as its start {start}, told was {exits}")
        del exits[:codes.index((me["exit"], 0)) + 1]


def policy_was_followed(round, status, events, starts):
    result = status["result"]
    allowed = {"succeeded"}
    if round.may("may_end"):
        allowed.add("stopped")
    if round.may("loses_host") and (not round.spare or len(round.strikes) > 1):
        allowed.add("failed")
    if round.may("may_fail"):
        allowed.add("failed")
    if round.may("loses_text") and (round.may("restarts") or round.ends):
        allowed.add("failed")  # nothing can be started where the disk is full
    expect(result in allowed, f"the job has {result} ({status['why']}), allowed is {sorted(allowed)}")
    for fields in kinds(events, "restarting"):
        role = fields["task"].split(":")[0]
        if fields["task"] and "keeper" not in fields["why"]:
            expect(fields["gang"] == (POLICIES[role] == "gang"), f"against the policy: {fields}")
    if not round.may("restarts") and not round.ends:
        expect(not kinds(events, "restarting"), lambda: f"restarts without a reason: {kinds(events, 'restarting')}")
        tasks = [task for task, _ in starts]
        again = sorted({task for task in tasks if tasks.count(task) > 1})
        expect(not again, f"started again without a reason: {again}")
    each_failure_has_its_decision(events)


def has_failed(fields):
    end = fields.get("exit")
    return end and not end["by_us"] and (end["code"] or end["signal"] or end["error"])


def each_failure_has_its_decision(events):
    """At once: between them there is only what the same report told."""
    undecided, restarting_all = None, False
    for event in events:
        kind, fields = event["kind"], event["fields"]
        if kind in ("restarting", "stopping"):
            undecided = None
            restarting_all = kind == "stopping" or fields["gang"]
        elif kind == "attempt":
            restarting_all = False
        elif kind == "task" and has_failed(fields) and not restarting_all:
            undecided = undecided or fields
        expect(not undecided or kind in ("task", "host"), lambda: f"nothing followed from {without_lines(undecided)}")
    expect(not undecided, lambda: f"nothing followed from {without_lines(undecided)}")


def without_lines(fields):
    return {key: value for key, value in fields.items() if key != "last_lines"}


def exit_codes_agree(round, seen):
    """What `up` and `down` have said is what has happened."""
    jobs = [status for status, events in seen.values() if events]
    for command in round.commands:
        verb, code = command.args_given[0], command.returncode
        said = f"tfdist {' '.join(command.args_given)}: {code}: {command.err.read_text()[-1500:]}"
        expect(code in (0, 1, 3, 4, 130) or (code == -9 and round.may("ends_cli")), said)
        expect(code != 70, said)
        if verb == "up" and code in (0, 1) and "-d" not in command.args_given:
            expect(any(EXIT_CODES[status["result"]] == code for status in jobs), lambda: f"{said}, but {jobs}")
    struck_early = any(strike.while_deploying for strike in round.strikes)
    if not jobs:
        expect(struck_early or round.may("may_end"), lambda: f"no job: {round.cli.err.read_text()}")


def status_told_the_truth(round, seen):
    """What it said in the middle of all is what the job's own events say of a moment before."""
    for command in round.commands:
        if command.args_given[0] != "status" or command.returncode != 0:
            continue
        said = json.loads(command.out.read_text())
        events = seen.get(said["job"], (None, []))[1]
        if not events:
            continue
        asked = event_time(round, command.began)
        for row in said["tasks"]:
            it_was_so(row, events, asked)
        ended = [event for event in events if event["kind"] == "ended"]
        if said["result"]:
            expect(said["result"] == seen[said["job"]][0]["result"], lambda: f"status said {said['result']}")
        expect(said["state"] == said["result"] or not is_over(ended, asked),
               lambda: f"status said {said['state']}, asked at {asked}: the job had ended at {ended[0]['time_ns']}")


def event_time(round, moment):
    """A time.time() on the clock of the job's events, which begins with that of slot 0; None, if that was moved by then."""
    if any(s.nemesis.program != "tfdist" and s.slot == 0 and s.while_deploying for s in round.strikes):
        return None
    return int(moment * SECOND)


def is_over(events, asked):
    """The first of them had happened, and was on the disk, before anybody asked."""
    return bool(events) and asked is not None and events[0]["time_ns"] < asked - STALE * SECOND


def it_was_so(row, events, asked):
    """What `status` said of a task was so when it was asked, or soon after: what is long past must not be told as if it were so."""
    run = (row["task"], row["attempt"], row["run"])
    of_task = [event for event in events if event["kind"] == "task" and event["fields"]["task"] == row["task"]]
    runs = [(event, tuple(event["fields"][key] for key in ("task", "attempt", "run"))) for event in of_task]
    starts = [event for event, its_run in runs if its_run == run and event["fields"]["state"] == "started"]
    exits = [event for event, its_run in runs if its_run == run and event["fields"]["state"] == "exited"]
    later = [event for event, its_run in runs if its_run[1:] > run[1:]]
    if row["state"] == "running":
        expect(starts and starts[0]["fields"]["pid"] == row["pid"], lambda: f"status said {row}, events have {of_task}")
        expect(not is_over(exits, asked), lambda: f"status said {row}, asked at {asked}: it had ended: {exits}")
    if row["state"] == "exited":
        expect(exits, lambda: f"status said {row}, events have {of_task}")
    expect(not is_over(later, asked), lambda: f"status said {row}, asked at {asked}: it had started again: {later}")


# --- logs ----------------------------------------------------------------------------------------------


def logs_are_exact(round, job, status, events, starts):
    world, saved = round.world, round.world.user.folder / f"saved-{job}"
    # Before there is a coordinator, `down` ends each host's agent, and with it what brings `up` the output.
    swept_early = any(strike.nemesis.name == "down" and strike.while_deploying for strike in round.strikes)
    said = world.user.run("logs", "--save", str(saved), job)
    expect(said.code == 0 or round.forsaken, lambda: f"logs --save: {said}")
    for task in [row["task"] for row in status["tasks"]]:
        whole = b""
        for slot, host in enumerate(world.hosts):
            mine = {start: me for (name, start), me in starts.items() if name == task and me["host"] == host.name}
            data = world.log(job, task, slot)
            if round.may("loses_text"):
                what_is_lost_is_counted(task, data, mine, status, cost_of_killed_holders(round, events, mine))
                whole += data
                continue
            numbers = read_log(round, task, data, mine)
            for start, me in mine.items():
                has = numbers.get(start, 0)
                least = 0 if round.may("loses_tail") else me["lines"]
                expect(least <= has <= me["lines"] + 1,
                       f"{task}, start {start} on {host.name}: {has} lines in the log, {me['lines']} written")
            whole += data
        if round.may("loses_host"):
            continue  # its log may lie on two hosts, one of them cut off while `up` read
        read = (saved / f"{task.replace(':', '-')}.log").read_bytes()
        expect(read == whole, f"logs --save gives {len(read)} bytes of {task}, {len(whole)} are on the disk")
        for command in round.commands:
            shows = command.args_given[0] == "up" and "-d" not in command.args_given
            if shows and command.returncode in (0, 1) and job in command.err.read_text():
                if not (swept_early and re.search(rf"tfdist: (.*, )?{task}(, .*)?: output is missing: ", command.err.read_text())):
                    up_has_shown(command, task, whole)


def cost_of_killed_holders(round, events, mine):
    """The most bytes of output that the ends of these starts of a task leave open: each end that names a killed holder, and
    each that is not told, where holders are killed."""
    if not round.may("loses_tail"):
        return 0
    told = kinds(events, "task")
    runs = {(f["task"], f["attempt"], f["pid"]): f["run"] for f in told if f["state"] == "started"}
    ends = {(f["task"], f["attempt"], f["run"]): f["exit"] for f in told if f["state"] == "exited"}
    cost = 0
    for me in mine.values():
        run = runs.get((me["task"], me["attempt"], me["pid"]))
        end = ends.get((me["task"], me["attempt"], run))
        if end is None or OUTPUT_LOST in end["error"]:
            cost += KILLED_HOLDER_BYTES
    return cost


def what_is_lost_is_counted(task, data, mine, status, not_counted=0):
    """A disk that is full costs text: as much as `status` says, and at most `not_counted` bytes more. A line that a kill has
    cut may be there or not."""
    if not mine:
        return
    dropped = re.compile(rb"\n?tfdist: \d+ bytes of output dropped: No space left on device\n")
    has = len(dropped.sub(b"", data))
    written = sum(len(line(task, start, number)) for start, me in mine.items() for number in range(me["lines"]))
    lost = sum(row["lost_bytes"] for row in status["tasks"] if row["task"] == task)
    slack = sum(len(line(task, start, me["lines"])) for start, me in mine.items())
    newlines = len(re.findall(rb"\ntfdist: \d+ bytes of output dropped", data))  # ours, or the end of a line of the task
    expect(has - slack <= written - lost <= has + newlines + not_counted,
           f"{task}: {written} bytes written, {has} in the log, {lost} told as lost, at most {not_counted} lost with holders")


def read_log(round, task, data, mine):
    """{start: how many lines}; anything else than one line after the other is an error. docker's client says in a task's
    output that its daemon is gone."""
    if any(strike.nemesis.name == "kill daemon" for strike in round.strikes):
        data = DAEMON_IS_GONE.sub(b"", data)
    numbers, at, order = {}, 0, sorted(mine)
    for index, start in enumerate(order):
        number = 0
        while data.startswith(line(task, start, number), at):
            at += len(line(task, start, number))
            number += 1
        numbers[start] = number
        # What a kill has cut in the middle of a line.
        following = [line(task, later, 0) for later in order[index + 1:]] + [b""]
        wanted = line(task, start, number)
        for cut in range(len(wanted)):
            if data.startswith(wanted[:cut], at) and (
                    at + cut == len(data) or any(f and data.startswith(f, at + cut) for f in following)):
                at += cut
                break
    expect(at == len(data), lambda: f"the log of {task} goes on with {data[at:at + 80]!r} at {at} of {len(data)}")
    return numbers


def up_has_shown(command, task, whole):
    """Each line once and in order, also where the connection broke meanwhile. A second `up` may have come late, but not
    with a hole."""
    pattern = re.compile(rb"(?m)^" + task.encode() + rb" *\| (" + task.encode() + rb" start .*)$")
    shown = pattern.findall(command.out.read_bytes())
    there = [text for text in whole.split(b"\n")[:-1] if b" line " in text]
    expect(shown == there, lambda: f"tfdist {command.args_given} showed {len(shown)} lines of {task}, {len(there)} are in the log")
