"""Jobs: start one, find one, look at it, end it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from types import TracebackType
from typing import Any, AsyncIterator, Iterator, Literal, Mapping, Optional, Sequence, Union, cast

from tfdist import types
from tfdist.errors import Error, UsageError
from tfdist.program import Interrupts, Outcome, run, run_async, stream, stream_async

Path = Union[str, "os.PathLike[str]"]
_OVER = {"succeeded", "failed", "stopped", "gone", "not started"}


class Job:
    """A job that this machine knows, by its name or id, or by its cluster file.

    `hosts` finds one that another machine has started. All calls go to the job that this one has found, also where another one
    of its name starts later. Used in `with`, it is ended there if up() has started it and it still runs.
    """

    def __init__(self, job: Path, *, hosts: Sequence[str] = (), ssh_config: Optional[Path] = None, quiet: bool = False) -> None:
        where = _hosts_words(hosts, ssh_config)
        if not os.fspath(job):
            raise _usage("tfdist.Job: expected a job's name, id or cluster file, got ''")
        found: types.Describe = run(["describe", "--json", *where, _operand(job)], quiet).check().result()
        self._set(found["job"], found["name"], False, quiet)

    def _set(self, job: str, name: str, was_started_here: bool, quiet: bool) -> None:
        self.id = job
        self.name = name
        self.was_started_here = was_started_here  # by up(), which had not found it running
        self.quiet = quiet  # nothing is printed to stderr
        self._is_over = False

    @classmethod
    def _started(cls, outcome: Outcome, quiet: bool) -> Job:
        up: types.Up = outcome.result()
        job = cls.__new__(cls)
        job._set(up["job"], up["name"], not up["ran_already"], quiet)
        if not quiet:
            job._say("started" if job.was_started_here else "runs already, from this plan")
        return job

    def __repr__(self) -> str:
        return f"<tfdist.Job {self.id}>"

    # --- to its end ---------------------------------------------------------------------------------

    def wait(self, timeout: Optional[float] = None, *, check: bool = True) -> types.Wait:
        """Until it has ended. `timeout` is in seconds: TimedOut. A job that has failed or was stopped: JobFailed, unless `check`
        is false."""
        return self._waited(run(self._wait_words(timeout), self.quiet), check)

    async def wait_async(self, timeout: Optional[float] = None, *, check: bool = True) -> types.Wait:
        return self._waited(await run_async(self._wait_words(timeout), self.quiet), check)

    def _wait_words(self, timeout: Optional[float]) -> list[str]:
        limit = [] if timeout is None else ["--timeout", _milliseconds(timeout)]
        return ["wait", "--json", *limit, self.id]

    def _waited(self, outcome: Outcome, check: bool) -> types.Wait:
        end: Optional[types.Wait] = outcome.result()
        self._is_over = self._is_over or (end is not None and end["state"] in _OVER)
        if end and outcome.code == 1 and not check and not outcome.interrupted:
            return end
        return cast(types.Wait, outcome.check().result())

    def down(self, *, force: bool = False, purge: bool = False, yes: bool = False) -> types.Down:
        """Ends it. `force`: without grace; `purge`: its logs and folders go as well; `yes`: even {keep}, with the last job of its
        name. Incomplete: a host has not confirmed that nothing is left."""
        return cast(types.Down, run(self._down_words(force, purge, yes), self.quiet).check().result())

    async def down_async(self, *, force: bool = False, purge: bool = False, yes: bool = False) -> types.Down:
        return cast(types.Down, (await run_async(self._down_words(force, purge, yes), self.quiet)).check().result())

    def _down_words(self, force: bool, purge: bool, yes: bool) -> list[str]:
        return ["down", "--json", *["--force"] * force, *["--purge"] * purge, *["--yes"] * yes, self.id]

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            if self._may_run() and not self._has_ended(run(self._status_words(), True)):
                self.down()
        except Error as failure:
            self._not_ended(failure, error)
        except KeyboardInterrupt as again:
            self._say("killing all tasks")
            try:
                self.down(force=True)
            except Error as failure:
                self._not_ended(failure, again)
            except KeyboardInterrupt:
                self._say(f"may still run: tfdist down {self.id}")
                raise
            raise

    async def __aenter__(self) -> Job:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        try:
            if self._may_run() and not self._has_ended(await run_async(self._status_words(), True)):
                await self.down_async()
        except Error as failure:
            self._not_ended(failure, error)
        except asyncio.CancelledError as again:
            self._say("killing all tasks")
            try:
                await self.down_async(force=True)
            except Error as failure:
                self._not_ended(failure, again)
            except asyncio.CancelledError:
                self._say(f"may still run: tfdist down {self.id}")
                raise
            raise

    def _may_run(self) -> bool:
        return self.was_started_here and not self._is_over

    def _status_words(self) -> list[str]:
        return ["status", "--json", self.id]

    @staticmethod
    def _has_ended(status: Outcome) -> bool:
        """Not where the job's first host does not answer: down() says what is left then."""
        if status.interrupted:
            raise status.interrupted
        return status.code == 0 and status.result()["state"] in _OVER

    def _not_ended(self, failure: Error, error: Optional[BaseException]) -> None:
        """An exception that is under way is the one to be seen."""
        if error is None:
            raise failure
        self._say(f"may still run: {failure}")

    def _say(self, what: str) -> None:
        print(f"tfdist: job {self.id}: {what}", file=sys.stderr, flush=True)

    # --- a look -------------------------------------------------------------------------------------

    def logs(self, *tasks: str, follow: bool = False, tail: Optional[int] = None, since: Optional[str] = None,
             grep: Optional[str] = None) -> Iterator[types.LogLine]:
        """Lines of output as they come; of `tasks`: "worker:0", "ps", "@gpu1", else of all. `follow`: until the job is over."""
        for line in stream(self._logs_words(tasks, follow, tail, since, grep), self.quiet):
            yield _line(line)

    async def logs_async(self, *tasks: str, follow: bool = False, tail: Optional[int] = None, since: Optional[str] = None,
                         grep: Optional[str] = None) -> AsyncIterator[types.LogLine]:
        lines = stream_async(self._logs_words(tasks, follow, tail, since, grep), self.quiet)
        try:
            async for line in lines:
                yield _line(line)
        finally:
            await lines.aclose()

    def _logs_words(self, tasks: Sequence[str], follow: bool, tail: Optional[int], since: Optional[str],
                    grep: Optional[str]) -> list[str]:
        values = {"--tail": tail, "--since": since, "--grep": grep}
        return ["logs", "--json", *["--follow"] * follow, *_options(values), self.id, *_operands(tasks)]

    def status(self) -> types.Status:
        return cast(types.Status, self._ask("status"))

    def why(self) -> types.Why:
        """What failed first, and what a stalled job waits for."""
        return cast(types.Why, self._ask("why"))

    def events(self) -> list[types.Event]:
        """What happened, from the job's event log."""
        return [json.loads(line) for line in run(["events", "--json", self.id], self.quiet).check().out.splitlines()]

    def _ask(self, command: str) -> Any:
        return run([command, "--json", self.id], self.quiet).check().result()

    # --- its files, and commands beside it ----------------------------------------------------------

    def pull(self, *paths: str, to: Optional[Path] = None, dry_run: bool = False) -> types.Pull:
        """Brings home what tasks have written, all of it or "ckpt/*.bin", into the folder `to`; default: the job's id. Incomplete:
        a file was left as it is."""
        words = ["pull", "--json", *["--dry-run"] * dry_run, *_options({"--to": to}), self.id, *_operands(paths)]
        return cast(types.Pull, run(words, self.quiet).check().result())

    def exec(self, command: Sequence[str], *, on: Sequence[str] = (), timeout: Optional[float] = None) -> list[types.ExecResult]:
        """Runs it on all hosts, or `on` hosts or in tasks: "gpu1", "worker:0". A result for each says how it ended there."""
        limit = {"--timeout": None if timeout is None else _milliseconds(timeout)}
        _refuse_texts(command=command, on=on)
        outcome = run(["exec", "--json", *_options(limit), self.id, *_operands(on), "--", *command], self.quiet)
        results: Optional[list[types.ExecResult]] = outcome.result()
        # Its exit code is that of the command, and may be any.
        return outcome.check().result() if results is None or outcome.interrupted else results


def up(file: Optional[Path] = None, *, hosts: Sequence[str] = (), command: Sequence[str] = (), args: Sequence[str] = (),
       name: Optional[str] = None, set: Mapping[str, object] = {}, env: Sequence[str] = (), labels: Mapping[str, str] = {},
       workdir: Union[Path, Literal[False], None] = None, layout: Optional[Literal["mirrored", "uai"]] = None,
       replace: bool = False, take_keep: bool = False, ssh_config: Optional[Path] = None, quiet: bool = False) -> Job:
    """Starts a job, from a cluster file or as `command` on `hosts`, and returns once it runs. It outlives this Python.

    `args` are added to the file's command. `set` changes values of the file: {"task.grace": "1m"}. `env` names variables of this
    process that all tasks get; no value is in any command line. `workdir=False` sends no folder. If the same job runs already,
    it is joined. Ctrl-C before it runs rolls all hosts back.
    """
    words = _up_words(file, hosts, command, args, name, set, env, labels, workdir, layout, replace, take_keep, ssh_config, quiet)
    with Interrupts() as interrupts:
        outcome = interrupts.run(words)
        if outcome.code:
            outcome.check()
        job = Job._started(outcome, quiet)
        if not interrupts.count:
            return job
    with job:  # Ctrl-C came too late to roll back
        raise KeyboardInterrupt


async def up_async(file: Optional[Path] = None, *, hosts: Sequence[str] = (), command: Sequence[str] = (), args: Sequence[str] = (),
                   name: Optional[str] = None, set: Mapping[str, object] = {}, env: Sequence[str] = (),
                   labels: Mapping[str, str] = {}, workdir: Union[Path, Literal[False], None] = None,
                   layout: Optional[Literal["mirrored", "uai"]] = None, replace: bool = False, take_keep: bool = False,
                   ssh_config: Optional[Path] = None, quiet: bool = False) -> Job:
    """As up(). A cancellation before it runs rolls all hosts back."""
    words = _up_words(file, hosts, command, args, name, set, env, labels, workdir, layout, replace, take_keep, ssh_config, quiet)
    outcome = await run_async(words)
    if outcome.code:
        outcome.check()
    job = Job._started(outcome, quiet)
    if not outcome.interrupted:
        return job
    async with job:
        raise outcome.interrupted


def jobs(*, label: Optional[str] = None) -> list[types.ListedJob]:
    """All that were started from this machine, the newest first. `label`: only those with it, "lr" or "lr=0.1"."""
    return cast("list[types.ListedJob]", run(["list", "--json", *_options({"--label": label})]).check().result())


def _up_words(file: Optional[Path], hosts: Sequence[str], command: Sequence[str], args: Sequence[str], name: Optional[str],
              set_values: Mapping[str, object], env: Sequence[str], labels: Mapping[str, str],
              workdir: Union[Path, Literal[False], None], layout: Optional[str], replace: bool, take_keep: bool,
              ssh_config: Optional[Path], quiet: bool) -> list[str]:
    _refuse_texts(hosts=hosts, command=command, args=args, env=env)
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels: expected a dict like {{'lr': '0.1'}}, got {labels!r}")
    if isinstance(env, Mapping):
        raise TypeError("env: expected a list of names of variables, got a dict of values: set={'task.env.NAME': value} sets one")
    if name == "":
        raise _usage("tfdist.up: name: expected a job's name, got ''")
    if bool(hosts) != bool(command) or (hosts and file is not None):
        raise _usage("tfdist.up: expected a cluster file, or hosts and a command")
    if any("=" in variable for variable in env):
        raise _usage("tfdist.up: env has names of variables\n  try: set os.environ[NAME], or set={'task.env.NAME': value}")
    words = ["up", "--detach", "--json", *["--quiet"] * quiet, *["--replace"] * replace, *["--take-keep"] * take_keep]
    words += _options({"--name": name, "--layout": layout, "--workdir": workdir or None})
    words += ["--no-workdir"] * (workdir is False)
    for key, value in set_values.items():
        words += ["--set", f"{key}={_toml(value)}"]
    for variable in env:
        words += ["--env", variable]
    for key, value in labels.items():
        words += ["--label", f"{key}={value}"]
    words += _hosts_words(hosts, ssh_config)
    words += [] if file is None else [_operand(file)]
    more = [*command, *args]
    return [*words, *["--"] * bool(more), *more]


def _hosts_words(hosts: Sequence[str], ssh_config: Optional[Path]) -> list[str]:
    _refuse_texts(hosts=hosts)
    return _options({"--hosts": ",".join(hosts) or None, "--ssh-config": ssh_config})


def _usage(cause: str) -> UsageError:
    return UsageError(cause, code=2)


def _operands(words: Sequence[str]) -> Sequence[str]:
    """Tasks, hosts and paths on a host: none of them is an option."""
    for word in words:
        if word.startswith("-"):
            raise _usage(f"tfdist: expected a task, a host or a path, got {word!r}")
    return words


def _refuse_texts(**words: Sequence[str]) -> None:
    """A text is a sequence of texts, too: its letters."""
    for name, value in words.items():
        if isinstance(value, str):
            raise TypeError(f"{name}: expected a list of words, got {value!r}")


def _options(values: Mapping[str, Union[Path, int, None]]) -> list[str]:
    return [f"{option}={value if isinstance(value, int) else os.fspath(value)}" for option, value in values.items() if value is not None]


def _operand(path: Path) -> str:
    """A word that is no option."""
    word = os.fspath(path)
    return f"./{word}" if word.startswith("-") else word


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def _toml(value: object) -> str:
    """A value for --set. JSON's texts, numbers and lists are TOML's, but for surrogate pairs, which JSON writes unless told not to."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if value is None or value != value:
        raise _usage(f"tfdist.up: set: TOML has no {value}")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _line(text: str) -> types.LogLine:
    return cast(types.LogLine, json.loads(text))
