"""Runs the program `tfdist`, one process for each call, and lets none outlive its call.

The process has its own session, so the Ctrl-C of a terminal or notebook reaches only Python, and Python decides: it hands SIGINT
on, waits until the command has ended (it may have hosts to roll back), and raises KeyboardInterrupt then.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import selectors
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import threading
import time
from types import FrameType, TracebackType
from typing import Any, AsyncGenerator, Iterator, NamedTuple, Optional, Sequence, Union

from tfdist.errors import ProgramNotFound, error_of

_CHUNK = 1 << 16
# What an interrupted command may take to roll hosts back, and more; it is killed then.
_END_SECONDS = 60
# Whoever presses Ctrl-C so often wants to leave at once.
_KILLING_INTERRUPT = 3
# A line of stderr is shown so late. What a command says just before it fails is for the exception, not for the screen.
_NOTE_SECONDS = 0.5


def program() -> str:
    """The executable: beside this Python, where pip puts it, else in PATH."""
    folders: list[Optional[str]] = [sysconfig.get_path("scripts")]
    if site.ENABLE_USER_SITE:
        folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    for folder in [*folders, None]:
        found = shutil.which("tfdist", path=folder)
        if found:
            return found
    raise ProgramNotFound("there is no tfdist beside this Python, nor in PATH\n"
                          "  try: pip install the wheel of tfdist, or add the folder of tfdist to PATH")


class Outcome(NamedTuple):
    command: str
    code: int
    out: str
    err: str
    interrupted: Optional[BaseException] = None  # what to raise, where Ctrl-C or a cancellation has ended it

    def result(self) -> Any:
        """What it printed as JSON; None: nothing."""
        try:
            return json.loads(self.out)
        except ValueError:
            return None

    def check(self) -> Outcome:
        if self.interrupted:
            raise self.interrupted
        if self.code:
            raise error_of(self.command, self.code, self.err, self.result())
        return self


def run(words: Sequence[str], quiet: bool = False) -> Outcome:
    """Until the command has ended. Unless `quiet`, what it prints to stderr is shown while it goes on."""
    with Interrupts() as interrupts:
        return interrupts.run(words, quiet)


def stream(words: Sequence[str], quiet: bool = False) -> Iterator[str]:
    """The lines of its stdout as they come. The command ends where the caller stops reading."""
    notes = _Notes(quiet)
    process = _popen(words)
    try:
        yield from _lines(process, notes)
    except BaseException:
        _end(process, signal.SIGTERM)
        raise
    code = _end(process)
    notes.close(code == 0)
    Outcome(words[0], code, "", notes.text()).check()


async def run_async(words: Sequence[str], quiet: bool = False) -> Outcome:
    """As run(). Cancelled, it interrupts the command, and returns once that has ended."""
    process = await _spawn(words)
    notes, out = _Notes(quiet), _Text()
    ending = asyncio.gather(_read(process.stdout, out), _read(process.stderr, notes), process.wait())
    interrupted: Optional[BaseException] = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
            _send(process, signal.SIGTERM)
    code = ending.result()[2]
    notes.close(code == 0 or interrupted is not None)
    return Outcome(words[0], code, out.text(), notes.text(), interrupted)


async def stream_async(words: Sequence[str], quiet: bool = False) -> AsyncGenerator[str, None]:
    """As stream()."""
    process = await _spawn(words)
    notes, lines = _Notes(quiet), _Lines()
    errors = asyncio.ensure_future(_read(process.stderr, notes))
    assert process.stdout
    try:
        while data := await process.stdout.read(_CHUNK):
            for line in lines.feed(data):
                yield line
        for line in lines.end():
            yield line
    except BaseException:
        _send(process, signal.SIGTERM)
        raise
    finally:
        _, code = await asyncio.gather(errors, process.wait())
    notes.close(code == 0)
    Outcome(words[0], code, "", notes.text()).check()


class Interrupts:
    """Ctrl-C reaches the command instead of this Python, as often as it comes.

    Only where Ctrl-C would raise KeyboardInterrupt: in the main thread, without another handler. Elsewhere an exception that comes
    from anywhere interrupts the command as well.
    """

    def __init__(self) -> None:
        self.count = 0
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._is_installed = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._hand_on)
            self._is_installed = True
        return self

    def run(self, words: Sequence[str], quiet: bool = False) -> Outcome:
        notes, out = _Notes(quiet), _Text()
        process = self._process = _popen(words)
        try:
            if self.count:  # it came before the process was there
                process.send_signal(signal.SIGINT)
            for line in _lines(process, notes):
                out.add(line)
        except BaseException:
            _end(process, signal.SIGTERM)
            raise
        code = _end(process)
        notes.close(code == 0 or self.count > 0)
        return Outcome(words[0], code, out.text(), notes.text(), KeyboardInterrupt() if self.count else None)

    def _hand_on(self, _signal: int, _frame: Optional[FrameType]) -> None:
        self.count += 1
        if self._process:
            _send(self._process, signal.SIGINT if self.count < _KILLING_INTERRUPT else signal.SIGKILL)

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._is_installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _popen(words: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True)


async def _spawn(words: Sequence[str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(program(), *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe,
                                                start_new_session=True)


def _lines(process: subprocess.Popen[bytes], notes: _Notes) -> Iterator[str]:
    """Of stdout, until both streams have ended; stderr goes to `notes`."""
    assert process.stdout and process.stderr
    lines = _Lines()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(notes.show_due()):
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    yield from lines.feed(data)
                else:
                    notes.feed(data)
    yield from lines.end()
    notes.end()


def _end(process: subprocess.Popen[bytes], number: Optional[signal.Signals] = None) -> int:
    """Its exit code; `number` is to end it."""
    assert process.stdout and process.stderr
    try:
        if number:
            process.send_signal(number)
        return process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        process.stdout.close()
        process.stderr.close()


async def _read(stream: Optional[asyncio.StreamReader], into: _Text) -> None:
    assert stream
    while data := await stream.read(_CHUNK):
        into.feed(data)
        if isinstance(into, _Notes):
            asyncio.get_running_loop().call_later(_NOTE_SECONDS + 0.01, into.show_due)
    into.end()


def _send(process: Union[subprocess.Popen[bytes], asyncio.subprocess.Process], number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:  # it has ended
        pass


class _Lines:
    """Bytes that come in pieces as whole lines, each with its newline."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        *lines, self._rest = (self._rest + self._decode(data)).split("\n")
        return [line + "\n" for line in lines]

    def end(self) -> list[str]:
        return [self._rest] if self._rest else []


class _Text:
    """All that is fed to it."""

    def __init__(self) -> None:
        self._all: list[str] = []
        self._lines = _Lines()

    def text(self) -> str:
        return "".join(self._all)

    def feed(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self.add(line)

    def end(self) -> None:
        for line in self._lines.end():
            self.add(line)

    def add(self, line: str) -> None:
        self._all.append(line)


class _Notes(_Text):
    """stderr. A line is printed once the command has gone on for a while, at its end only where no Error has it."""

    def __init__(self, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet
        self._waiting: list[tuple[float, str]] = []  # when each is due

    def add(self, line: str) -> None:
        super().add(line)
        self._waiting.append((time.monotonic() + _NOTE_SECONDS, line))

    def show_due(self) -> Optional[float]:
        """Seconds until the next one; None: there is none."""
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            self._print(self._waiting.pop(0)[1])
        return max(0, self._waiting[0][0] - time.monotonic()) if self._waiting else None

    def close(self, is_shown: bool) -> None:
        for _, line in self._waiting if is_shown else []:
            self._print(line)
        self._waiting = []

    def _print(self, line: str) -> None:
        if not self._quiet:
            print(line, end="", file=sys.stderr, flush=True)
