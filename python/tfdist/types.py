"""What `tfdist COMMAND --json` prints, as types. Made from docs/json.schema.json by make_types.py.

docs/json.md says what each key means. Keys may be added later.
"""

from typing import Any, Literal, Optional, TypedDict, Union


class RenderSsh(TypedDict, total=False):
    """what the file says of programs and files on this machine that connections use; a key is absent where the file does not have it"""

    transport: Literal["openssh"]
    config: str  # instead of ~/.ssh/config; its ProxyCommand and Match exec run here
    identity_file: str


class RenderSetUp(TypedDict):
    """of [setup]; null: the file has none"""

    argv: list[str]  # <setup> stands for the folder that it fills on each host
    inputs: list[str]
    timeout_ms: int


class RenderDataValue(TypedDict):
    path: Optional[str]  # on the hosts; null: it is sent
    source: Optional[str]  # on this machine; null: it is not sent


class RenderTask(TypedDict):
    task: str
    type: str  # task type
    index: int
    host: str
    address: Optional[str]  # host:port in the cluster spec; null: the task is not in it
    more_ports: dict[str, int]  # by their names
    chief: bool
    argv: list[str]  # <jobdir> stands for a path that only the host knows
    cwd: str  # the folder in which it starts
    image: Optional[str]  # of its container; null: it has none
    engine: Optional[Literal["auto", "docker", "podman", "apptainer"]]  # the container engine, beside image
    env: dict[str, str]  # of the user's own variables a hash: sha256: and 8 digits
    gpus: Optional[Union[list[Union[int, str]], Literal["decided on the host"]]]


class _Render(TypedDict):
    name: str
    layout: Literal["uai", "mirrored", "roles"]
    ssh: RenderSsh  # what the file says of programs and files on this machine that connections use; a key is absent where the file does not have it
    tasks: list[RenderTask]  # all tasks, in the order of their hosts


class Render(_Render, total=False):
    """what tfdist render --json prints"""

    set_up: Optional[RenderSetUp]  # of [setup]; null: the file has none
    data: dict[str, RenderDataValue]  # of [data], by their names


class CheckFinding(TypedDict):
    severity: Literal["error", "warning"]
    check: str  # what was looked at; of a host that could not be asked the step that failed
    host: str  # empty: it is about several hosts
    what: str
    remedy: str


class CheckHostData(TypedDict):
    name: str
    file_count: int
    bytes: int
    counted: bool  # false: there was no time to count all of its files


class CheckHostImage(TypedDict):
    image: str  # as the file has it
    engine: str  # with its version
    is_there: bool  # false: up has it pulled
    disk_free_bytes: Optional[int]  # where the engine keeps images; null: not known


class CheckHostPort(TypedDict):
    port: int
    task: str  # coordinator is tfdist's own
    free: bool
    why: str  # why it is not free


class CheckHostUnreached(TypedDict):
    host: str
    port: int
    failure: Literal["silent", "refused", "no-route", "stranger", "other-host", "unresolved"]
    why: str


class CheckHostPython(TypedDict):
    """only with [check] python"""

    program: str
    version: str
    packages: dict[str, str]  # name to version; empty: not installed


class _CheckHost(TypedDict):
    host: str
    state: str  # ok, or the step that failed
    folder: str  # where tfdist keeps its files there; empty: not known


class CheckHost(_CheckHost, total=False):
    clock_offset_ns: int  # how far its clock is ahead of this machine's
    disk_free_bytes: int  # in folder
    set_up_made: Optional[bool]  # the set-up has been run there already; null: the file has none
    data: list[CheckHostData]  # data of [data] that lies on the host already and that its tasks name
    images: list[CheckHostImage]  # images of its tasks, with engines that answer
    ports: list[CheckHostPort]  # ports of the plan
    target_count: int  # ports that the host was to connect to
    unreached: list[CheckHostUnreached]  # those that it could not connect to
    gpus: list[str]  # names of its GPUs
    python: CheckHostPython  # only with [check] python


class Check(TypedDict):
    """what tfdist check --json prints"""

    name: str
    job: Optional[str]  # that runs from this very plan, and up would join; null: none
    error_count: int  # findings that would stop the job
    warning_count: int  # other findings
    findings: list[CheckFinding]  # errors first
    hosts: list[CheckHost]  # all hosts, in the order of their slots; one that has answered has all keys


class ExecResult(TypedDict):
    host: str
    task: str  # empty: the command ran on the host, not where a task runs
    exit_code: Optional[int]  # 128 and the signal's number where a signal ended it; null: the host was not reached
    timed_out: bool  # it was ended because of --timeout
    output: str  # stdout and stderr in the order of writing, at most 1 MiB
    cut: bool  # there was more output
    left: str  # processes of the command that could not be ended, for people
    may_be_left: str  # processes that may be the command's, for people; or other accounts' processes, where /proc hides those and the exit code is above 128
    error: str  # why the host was not reached; empty: it was


class Connection(TypedDict):
    task: str  # at the other end; empty: none of this job, or not known
    local: str
    remote: str
    half_open: bool  # nobody has answered its first packet yet
    unread_bytes: int  # sent, and not confirmed by the other end


class LookTask(TypedDict):
    task: str
    silent_ms: int  # since its last output, or its start; -1: not known
    state: str  # R, S, D or T of its own process, as in proc(5); empty: it has just ended
    processes: int  # itself and what it has started
    cpu_percent: float  # of one CPU, all its processes together
    listens: list[int]  # TCP ports on which it listens
    stack: str  # its Python stack, as py-spy prints it
    connections: list[Connection]  # its TCP connections


class Look(TypedDict):
    """of a job in which no task has written anything for long"""

    silent_ms: int  # since the last output of any task
    sentences: list[str]  # what keeps the job, for people, the most telling first
    tasks: list[LookTask]


TaskState = Literal["waiting", "running", "exited"]


class Exit(TypedDict):
    """how a task has ended"""

    code: int  # exit status, when signal is 0
    signal: int  # that ended it; 0: none
    by_us: bool  # tfdist ended it
    error: str  # it could not be executed, or its holder was lost
    permanent: bool  # a restart would fail too
    lost_bytes: int  # of this run's output, lost because the host could not write it
    out_of_memory: bool  # the kernel killed it for want of memory
    cpu_time_over: bool  # the kernel ended it, as it had used its CPU time (ulimit -t)
    peak_bytes: int  # memory of the largest of its processes; 0: not known
    ended_ns: int  # 0: not known


class _StatusTask(TypedDict):
    task: str
    host: str
    state: TaskState
    attempt: int
    run: int
    pid: int  # on its host; 0: never started
    restarts: int  # caused by failures of this task
    lost_bytes: int  # of the output of all runs, lost because the host could not write it


class StatusTask(_StatusTask, total=False):
    exit: Exit
    previous_exit: Exit


class _StatusHost(TypedDict):
    host: str
    state: str  # a HostState; silent: its agent is there and does not answer; in the state unreachable: waits, running, silent, over, unreachable
    why: str


class StatusHost(_StatusHost, total=False):
    agent_restarts: int
    clock_offset_ns: Optional[int]  # how far its wall clock is ahead of the clock of the event log; null: not measured
    clock_error_ns: Optional[int]  # the offset may be wrong by so much


class _Status(TypedDict):
    job: str
    name: str
    state: str  # starting, running, restarting, stopping; unwatched: no agent of it answers on its first host; of a finished job the result; unreachable: its first host does not answer
    started_by: str  # who called up: user@machine; empty: not known
    live: bool  # an agent of the job answered on the first host
    event_log: str  # what is wrong with the job's event log; empty: nothing
    attempt: int
    result: Literal["", "succeeded", "failed", "stopped", "gone", "not started", "starting", "running", "unwatched"]  # empty: not decided; the last five only from this machine's record
    why: str  # the reason of the result
    first_task: str  # that failed first; empty: none
    collateral: list[str]  # that failed by themselves after it, in that order
    look: Optional[Look]
    tasks: list[StatusTask]
    hosts: list[StatusHost]


class Status(_Status, total=False):
    """what tfdist status --json prints"""

    last_known: bool  # from this machine's record: the first host did not answer


class Gpu(TypedDict):
    index: int  # its number on the host
    percent: int  # of the time in which anything ran on it
    used_bytes: int  # by the task's processes; 0: not known
    total_bytes: int


class TopTask(TypedDict):
    task: str
    host: str
    state: TaskState
    pid: int  # on its host; 0: never started
    cpu_percent: Optional[float]  # of one CPU, all its processes together; null: not known now
    memory_bytes: Optional[int]  # resident, all its processes together
    processes: Optional[int]  # itself and what it has started
    gpus: list[Gpu]  # on which its processes have memory, as far as nvidia-smi shows


class Top(TypedDict):
    """each line of what tfdist top --json prints"""

    job: str
    name: str
    state: str  # as in status
    attempt: int
    time_ns: int
    tasks: list[TopTask]


class Wait(TypedDict):
    """what tfdist wait --json prints"""

    job: str
    name: str
    state: Literal["starting", "running", "unwatched", "not started", "succeeded", "failed", "stopped", "gone"]  # starting, running, unwatched: --timeout was over
    why: str  # the reason of a failure, or of a success by on_deadline
    ended_ns: int
    ended: str  # the same, RFC 3339; empty: not known


class Failure(TypedDict):
    task: str
    host: str
    run: int
    exit: Exit
    time_ns: int
    how: str  # the exit in words


class WhyIncident(TypedDict):
    consequence: Literal["restarted the task", "restarted all tasks", "failed the job", "nothing followed"]
    time_ns: int
    attempt: int
    why: str  # the coordinator's reason
    first: Optional[Failure]
    last_lines: str  # of that task's output
    collateral: list[Failure]  # tasks that failed after it
    ended_before: list[Failure]  # tasks that had ended with exit code 0 in the 15 minutes before first: it may have needed one


class Why(TypedDict):
    """what tfdist why --json prints"""

    job: str
    name: str
    state: str  # as in status
    why: str  # as in status
    waits_for: list[str]  # what the job waits for now, each in words for people
    look: Optional[Look]
    incidents: list[WhyIncident]  # what went wrong, in order; at most the newest 1,000


class _RestartTask(TypedDict):
    task: str
    host: str
    state: TaskState  # waiting: the new run has not begun yet
    attempt: int
    run: int
    pid: int  # on its host; 0: not started yet


class RestartTask(_RestartTask, total=False):
    exit: Exit  # only of one that has ended again


class Restart(TypedDict):
    """what tfdist restart --json prints"""

    job: str
    name: str
    tasks: list[RestartTask]  # the tasks that were started again


class EventCommittedFields(TypedDict):
    plan: dict[str, Any]  # as agents get it; its keys may change


class EventCommitted(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["committed"]
    fields: EventCommittedFields


class EventAttemptFields(TypedDict):
    attempt: int
    why: str
    seats: list[int]  # the slot whose host runs slot i's tasks; empty: each its own


class EventAttempt(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["attempt"]
    fields: EventAttemptFields


HostState = Literal["", "connected", "slow", "lost", "agent-restarted", "keeper-lost"]


class EventHostFields(TypedDict):
    slot: int
    state: HostState
    why: str


class EventHost(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["host"]
    fields: EventHostFields


class EventTaskStartedFields(TypedDict):
    task: str
    attempt: int
    run: int
    state: Literal["started"]
    pid: int


class EventTaskStarted(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["task"]
    fields: EventTaskStartedFields


class EventTaskExitedFields(TypedDict):
    task: str
    attempt: int
    run: int
    state: Literal["exited"]
    exit: Exit
    last_lines: str  # of that task's output


class EventTaskExited(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["task"]
    fields: EventTaskExitedFields


class EventRestartingFields(TypedDict):
    gang: bool  # all tasks
    task: str  # that failed; empty: a lost host, or all were asked for
    why: str
    delay_ms: int
    left: int  # restarts left to it
    asked: bool  # by the user


class EventRestarting(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["restarting"]
    fields: EventRestartingFields


class EventRunFields(TypedDict):
    task: str
    run: int


class EventRun(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["run"]
    fields: EventRunFields


class EventWarnedFields(TypedDict):
    signal: int
    left_ms: int


class EventWarned(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["warned"]
    fields: EventWarnedFields


class EventClockFields(TypedDict):
    slot: int
    offset_ns: int
    error_ns: int


class EventClock(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["clock"]
    fields: EventClockFields


Result = Literal["", "succeeded", "failed", "stopped"]


class EventStoppingFields(TypedDict):
    result: Result
    why: str
    task: str  # the first to fail; empty: none
    force: bool


class EventStopping(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["stopping"]
    fields: EventStoppingFields


class _EventCensusFields(TypedDict):
    slot: int
    killed: list[str]
    left: list[str]
    unknown: list[str]


class EventCensusFields(_EventCensusFields, total=False):
    clients: list[str]  # calls of daemons' clients, as docker run: what they began may stay; not there: none


class EventCensus(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["census"]
    fields: EventCensusFields


class EventSnapshotFields(TypedDict):
    first: int  # number of the first event that it stands for
    state: dict[str, Any]  # what all events up to it amount to


class EventSnapshot(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["snapshot"]
    fields: EventSnapshotFields


class EventEndedFields(TypedDict):
    result: Result
    unconfirmed: list[int]  # slots
    unreachable: list[int]  # slots


class EventEnded(TypedDict):
    number: int  # counted from 1
    time_ns: int
    kind: Literal["ended"]
    fields: EventEndedFields


Event = Union[EventCommitted, EventAttempt, EventHost, EventTaskStarted, EventTaskExited, EventRestarting, EventRun, EventWarned, EventClock, EventStopping, EventCensus, EventSnapshot, EventEnded]


class ListedJob(TypedDict):
    job: str
    name: str
    state: Literal["starting", "running", "unwatched", "not started", "succeeded", "failed", "stopped", "gone"]
    why: str  # the reason of a failure, or of a success by on_deadline
    created: str  # when up was called, RFC 3339
    started_by: str  # who called up: user@machine; empty: not known
    ended_ns: int
    ended: str  # the same, RFC 3339; empty: not known
    host_count: int
    task_count: int
    file: str  # the cluster file; empty: the job came from the command line
    command: str  # of its first task, as a shell line; empty: not known
    labels: dict[str, str]  # of up --label: key to value


class ListedHostJob(TypedDict):
    job: str
    user: str  # the account there
    started_by: str  # who called up: user@machine; empty: not known
    created: str  # when up was called, RFC 3339
    has_tasks: bool  # a task runs there


class ListedHost(TypedDict):
    """what runs on a host"""

    host: str
    jobs: list[ListedHostJob]
    hides_others: bool  # /proc hides the processes of other accounts there: their jobs cannot be seen
    error: str  # why the host was not reached; empty: it was


Listed = Union[ListedJob, ListedHost]


class DescribeTask(TypedDict):
    task: str
    host: str
    command: str  # as a shell line; empty: not known


class Describe(TypedDict):
    """what tfdist describe --json prints, from this machine's record, else from the job's hosts"""

    job: str
    name: str
    state: Literal["starting", "running", "unwatched", "not started", "succeeded", "failed", "stopped", "gone"]
    created: str  # when up was called, RFC 3339
    started_by: str  # who called up: user@machine; empty: not known
    file: str  # the cluster file; empty: the job came from the command line, or it is not known
    workdir: str  # the folder on this machine; empty: nothing was sent
    workdir_sha256: str  # of all that was sent of it
    git_commit: str  # of the repository that the workdir is in; empty: not known
    git_changed: bool  # files of the workdir differ from that commit, or are unknown to it
    version: str  # of tfdist; empty: not known
    plan_sha256: str  # the same for two jobs that mean the same
    labels: dict[str, str]  # of up --label: key to value
    tasks: list[DescribeTask]  # as planned


class LogLine(TypedDict):
    """one line of what tfdist logs --json prints"""

    task: str
    stream: Literal["stdout", "stderr", "merged", ""]  # merged: the task writes both as one stream; empty: not known
    attempt: int  # 0: not known, as the run
    run: int
    time_ns: int
    line: str  # without its newline
    cut: bool  # the line goes on in the task's next object


class Down(TypedDict):
    """what tfdist down --json prints"""

    job: str
    name: str
    confirmed: list[str]  # nothing of the job is left there
    unconfirmed: list[str]  # something is left there
    unreachable: list[str]  # no answer
    details: list[str]  # what is left, why there was no answer, and which processes that tasks had left were ended, for people
    purged: bool  # with --purge: its folders were removed from all hosts


class PullFolder(TypedDict):
    folder: str  # here
    host: str
    tasks: list[str]  # whose files they are; {keep} is one
    file_count: int  # that are here now; with --dry-run: that would come
    bytes: int  # of all its files on the host
    here_count: int  # of them, that were here already
    changed: list[str]  # while they were read: not brought
    unreadable: list[str]  # files, and folders that cannot be looked into, on the host: not brought
    beside: list[str]  # what tasks have made on the host outside of the folder in which they start, at most 100: not brought
    kept: list[str]  # other files here that were left as they are
    newer: list[str]  # of {keep}: files that have changed since the job, by a newer one; they come only where a path names them
    leading_out: list[str]  # links out of the tasks' folder: not brought


class PullFailure(TypedDict):
    host: str
    why: str


class Pull(TypedDict):
    """what tfdist pull --json prints"""

    job: str
    name: str
    folders: list[PullFolder]  # those with files
    not_there: list[str]  # paths of the command line that no task has written
    failures: list[PullFailure]  # hosts whose files could not be listed or brought


class UpHost(TypedDict):
    host: str
    address: str  # by which the tasks have it
    spare: bool  # it takes the place of a host that is lost


class UpTask(TypedDict):
    task: str
    host: str
    port: Optional[int]  # null: it has none
    more_ports: dict[str, int]  # by name


class Up(TypedDict):
    """what tfdist up --detach --json prints"""

    job: str
    name: str
    ran_already: bool  # the job ran already, from this plan; false: it has been started
    hosts: list[UpHost]  # each once, in the order of the plan
    tasks: list[UpTask]


class CleanItem(TypedDict):
    host: str
    kind: Literal["job", "keep", "caches"]
    job: Optional[str]  # of kind job: its id
    slot: Optional[int]  # of kind job
    name: Optional[str]  # of kind keep: whose {keep} it is
    folder: Optional[str]  # null: caches are in several
    age_s: Optional[int]  # since the job began; of kind keep: of the newest file
    bytes: int
    has_task_files: Optional[bool]  # of kind job and caches ({setup}): a task has written files there, or that is not known
    known_here: Optional[bool]  # of kind job: tfdist list has it on this machine; else another machine started it, or prune forgot it
    goes: bool  # it is to be removed
    why: str  # why it stays; empty: it goes


class CleanRemoved(TypedDict):
    host: str
    folder: str


class CleanKept(TypedDict):
    host: str
    why: str  # a folder, and why it could not be removed


class CleanInUse(TypedDict):
    host: str
    why: str  # a folder that was not to go, and why


class Clean(TypedDict):
    """what tfdist clean --json prints"""

    items: list[CleanItem]  # what lies on the hosts that answered
    removed: list[CleanRemoved]
    kept: list[CleanKept]
    in_use: list[CleanInUse]


class PruneForgotten(TypedDict):
    job: str
    name: str


class PruneKept(TypedDict):
    job: str
    name: str
    why: str


class Prune(TypedDict):
    """what tfdist prune --json prints"""

    forgotten: list[PruneForgotten]
    kept: list[PruneKept]  # finished jobs that stay, and those that their up has left


class InitHost(TypedDict):
    host: str
    address: str  # by which the other hosts have it
    slots: int
    state: str  # ok, or the step that failed: the file has it as a comment
    why: str
    gpus: Optional[list[str]]  # their names; null: it has not answered
    python: Optional[str]  # in words, with TensorFlow's version; null: it has not answered


class Init(TypedDict):
    """what tfdist init --json prints"""

    file: Optional[str]  # that was written; null: none was asked for
    text: str  # of the cluster file
    hosts: list[InitHost]


class Version(TypedDict):
    """what tfdist version --json prints"""

    version: str
    agent_sha256: str  # that of the agent for x86-64
    agents: dict[str, str]  # those inside: kind of machine, as uname -m prints it, to SHA-256
    openssl: str  # the one inside, as it names itself
    libraries: dict[str, str]  # those inside: name to version
