"""What a call raises: a class for each meaning of an exit code, all of them Error."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

# Of base/error.cc, in its order; a test compares them.
PHASES = (
    "cluster file", "name lookup", "connect", "host key", "authentication", "remote shell", "upload", "agent start", "files",
    "ports", "set-up", "command", "gpus", "control", "commit", "run", "logs", "down", "internal",
)
# docs/json.md: how an error of a host stands on stderr.
_OF_A_HOST = re.compile(rf"tfdist: (?P<host>\S+): (?P<phase>{'|'.join(PHASES)}): (?P<cause>.*)")
_REMEDY = "  try: "


class Fault(NamedTuple):
    """An error of one host. `remedy` may be empty."""

    host: str
    phase: str
    cause: str
    remedy: str


class Error(Exception):
    """A command has failed. str() is its stderr.

    `host`, `phase`, `cause` and `remedy` are those of the first of `faults`. An error that is of no host has an empty `host` and
    `phase`, and all of stderr as its `cause`.
    """

    def __init__(self, stderr: str, code: int = 0, result: Any = None) -> None:
        super().__init__(stderr)
        self.code = code
        self.result = result  # what the command printed as JSON all the same, else None
        self.faults = faults_in(stderr)
        first = self.faults[0] if self.faults else Fault("", "", stderr, _first_remedy(stderr.splitlines()))
        self.host, self.phase, self.cause, self.remedy = first

    def __str__(self) -> str:
        return str(self.args[0])


class JobFailed(Error):
    """The job that was waited for has failed, or was stopped; `result` is what wait() would have returned."""


class Incomplete(Error):
    """Something was not done: `down` could not confirm that nothing is left, or `pull` left a file out; `result` says which."""


class UsageError(Error):
    """Wrong usage, a mistake in the cluster file, or a name that means several running jobs."""


class HostError(Error):
    """A host could not be brought up or reached."""


class NoSuchJob(Error):
    """No such job, or its folder was cleaned from its hosts."""


class NameTaken(Error):
    """Another job of that name is running."""


class InternalError(Error):
    """A bug, or no more memory, threads or descriptors."""


class OutputError(Error):
    """The command could not write its output."""


class TimedOut(Error, TimeoutError):
    """The time limit of the call is over; `result` is what is known."""


class Interrupted(Error):
    """Somebody else has interrupted the command. Ctrl-C here raises KeyboardInterrupt."""


class ProgramNotFound(Error):
    """There is no `tfdist` beside this Python, nor in PATH."""


# README has the exit codes.
_CLASSES = {
    1: Incomplete,
    2: UsageError,
    3: HostError,
    4: NoSuchJob,
    74: OutputError,
    124: TimedOut,
    130: Interrupted,
    141: OutputError,
}
_OF_COMMANDS = {("wait", 1): JobFailed, ("up", 4): NameTaken}


def error_of(command: str, code: int, stderr: str, result: Any) -> Error:
    """`code` as subprocess has it: negative where a signal ended the program."""
    kind: type[Error] = _OF_COMMANDS.get((command, code)) or _CLASSES.get(code, InternalError)
    return kind(stderr.rstrip() or f"tfdist {command} ended with code {code}", code, result)


def faults_in(stderr: str) -> list[Fault]:
    lines = stderr.splitlines()
    found = [(number, _OF_A_HOST.fullmatch(line)) for number, line in enumerate(lines, 1)]
    return [Fault(match["host"], match["phase"], match["cause"], _remedy_at(lines, number)) for number, match in found if match]


def _remedy_at(lines: list[str], number: int) -> str:
    is_there = number < len(lines) and lines[number].startswith(_REMEDY)
    return lines[number][len(_REMEDY):] if is_there else ""


def _first_remedy(lines: list[str]) -> str:
    return next((line[len(_REMEDY):] for line in lines if line.startswith(_REMEDY)), "")
