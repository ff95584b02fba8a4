"""The promises that scripts/chaos looks at can be broken: a round in which one is must fail."""

import json
import pathlib
import tempfile
import types
import unittest

from tests.chaos import promises
from tests.chaos.nemeses import BY_NAME
from tests.chaos.task import line

SECOND = 10 ** 9
ASKED = 1000  # seconds


def event(number, seconds, kind, **fields):
    return {"number": number, "time_ns": seconds * SECOND, "kind": kind, "fields": fields}


def exit_of(code, error=""):
    return {"code": code, "signal": 0, "by_us": False, "error": error}


def events(*, exited_at=None, code=0):
    """Of a task that was started at 900 s."""
    found = [event(1, 900, "task", task="worker:0", attempt=1, run=1, pid=7, state="started")]
    if exited_at is not None:
        found.append(event(2, exited_at, "task", task="worker:0", attempt=1, run=1, state="exited", exit=exit_of(code)))
    return found


def round_of(*nemeses):
    strikes = [types.SimpleNamespace(nemesis=BY_NAME[name], slot=0, while_deploying=False) for name in nemeses]
    return types.SimpleNamespace(
        strikes=strikes, commands=[],
        may=lambda effect: any(getattr(strike.nemesis.effects, effect) for strike in strikes))


class Exits(unittest.TestCase):
    DIARY = {("worker:0", 1): {"task": "worker:0", "attempt": 1, "pid": 7, "exit": 3}}

    def test_of_a_container_it_is_known_by_its_order(self):
        told = [event(number, 900 + number, "task", task="worker:0", attempt=1, run=number, state="exited", exit=exit_of(code))
                for number, code in enumerate((137, 3, 0), 1)]
        starts = lambda *codes: {("worker:0", start): {"task": "worker:0", "attempt": 1, "pid": 1, "exit": code}
                                 for start, code in enumerate(codes, 1)}
        for codes in ((3, 0), (None, 3, 0), (3, None)):
            promises.exits_of_containers_are_kept(round_of("kill agent"), told, starts(*codes))
        for codes in ((0, 3), (3, 3), (4,)):
            with self.assertRaises(promises.Broken):
                promises.exits_of_containers_are_kept(round_of("kill agent"), told, starts(*codes))

    def test_an_exit_that_is_told_is_kept(self):
        promises.exits_are_kept(round_of("kill agent"), events(exited_at=950, code=3), self.DIARY)

    def test_an_exit_that_no_event_tells_is_a_broken_promise(self):
        for told in (events(), []):
            with self.assertRaisesRegex(promises.Broken, "no event tells it"):
                promises.exits_are_kept(round_of("kill agent"), told, self.DIARY)

    def test_another_code_is_a_broken_promise(self):
        with self.assertRaisesRegex(promises.Broken, "has ended, told was"):
            promises.exits_are_kept(round_of(), events(exited_at=950, code=4), self.DIARY)

    def test_a_killed_holder_may_take_the_exit_along(self):
        promises.exits_are_kept(round_of("kill holder"), events(), self.DIARY)


class Down(unittest.TestCase):
    HOSTS = [types.SimpleNamespace(name="h1", address="10.0.0.1"), types.SimpleNamespace(name="h2", address="10.0.0.2")]
    LEFT = {"h2": [types.SimpleNamespace(pid=1007, pid_there=7, argv=["sleep", "9"])]}
    NAMES_IT = "tfdist: job j: confirmed on 1 of 2 hosts\n  unconfirmed: 10.0.0.2\n  10.0.0.2: still there: pid 7 (sleep)\n"

    def look(self, code, said, left):
        promises.what_is_left_is_named(code, said, "j", left, self.HOSTS)

    def test_a_host_that_is_named_may_have_something_left(self):
        self.look(1, self.NAMES_IT, self.LEFT)
        self.look(0, "tfdist: job j: ended; nothing is left on 2 hosts\n", {})

    def test_something_left_where_nothing_was_said_to_be_is_a_broken_promise(self):
        for code, said in ((0, "tfdist: job j: ended; nothing is left on 2 hosts\n"),
                           (1, self.NAMES_IT.replace("10.0.0.2", "10.0.0.1"))):
            with self.assertRaisesRegex(promises.Broken, r"left .*on h2"):
                self.look(code, said, self.LEFT)

    def test_something_left_that_is_not_named_is_a_broken_promise(self):
        with self.assertRaisesRegex(promises.Broken, "did not name it"):
            self.look(1, self.NAMES_IT.replace("pid 7 ", "pid 77 "), self.LEFT)
        self.look(1, self.NAMES_IT.replace("pid 7 (sleep)", "what it has started: /proc hides it (hidepid=2)"), self.LEFT)
        self.look(1, "tfdist: job j: confirmed on 1 of 2 hosts\n  unreachable: 10.0.0.2\n", self.LEFT)


class LostOutput(unittest.TestCase):
    """Of a task that wrote LINES lines on a host whose disk was full now and then."""
    LINES = 20_000
    MINE = {1: {"task": "worker:0", "start": 1, "attempt": 1, "pid": 7, "lines": LINES}}
    HOLDER_KILLED = "its holder was killed by signal 9; its last output may be lost, at most 192 KiB"

    def look(self, *nemeses, lines_there, told=0, ends=()):
        data = b"".join(line("worker:0", 1, number) for number in range(lines_there))
        cost = promises.cost_of_killed_holders(round_of("full disk", *nemeses), [*events(), *ends], self.MINE)
        promises.what_is_lost_is_counted("worker:0", data, self.MINE, {"tasks": [{"task": "worker:0", "lost_bytes": told}]}, cost)

    def end(self, error):
        return event(2, 950, "task", task="worker:0", attempt=1, run=1, state="exited", exit=exit_of(0, error))

    def test_what_is_told_as_lost_is_counted(self):
        lost = sum(len(line("worker:0", 1, number)) for number in range(self.LINES - 100, self.LINES))
        self.look(lines_there=self.LINES - 100, told=lost, ends=[self.end("")])

    def test_what_nobody_tells_is_a_broken_promise(self):
        with self.assertRaisesRegex(promises.Broken, "told as lost"):
            self.look(lines_there=self.LINES - 100, ends=[self.end("")])

    def test_a_killed_holder_takes_no_more_along_than_its_end_says(self):
        width = len(line("worker:0", 1, self.LINES))
        most = promises.KILLED_HOLDER_BYTES // width
        self.look("kill holder", lines_there=self.LINES - most, ends=[self.end(self.HOLDER_KILLED)])
        with self.assertRaisesRegex(promises.Broken, "lost with holders"):
            self.look("kill holder", lines_there=self.LINES - most - 200, ends=[self.end(self.HOLDER_KILLED)])

    def test_another_end_costs_nothing_although_holders_were_killed(self):
        with self.assertRaisesRegex(promises.Broken, "told as lost"):
            self.look("kill holder", lines_there=self.LINES - 100, ends=[self.end("")])

    def test_an_end_that_is_not_told_may_be_a_killed_holders(self):
        self.look("kill keeper and holder", lines_there=self.LINES - 100)
        with self.assertRaisesRegex(promises.Broken, "told as lost"):
            self.look("kill agent", lines_there=self.LINES - 100)


class Status(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "out"

    def look(self, happened, job="running", **row):
        """`status` was asked at ASKED, and said that row, and `job`: that state of the job."""
        said = {"job": "job", "state": job, "result": "",
                "tasks": [{"task": "worker:0", "attempt": 1, "run": 1, "pid": 7, "state": "running", **row}]}
        self.out.write_text(json.dumps(said))
        round = round_of()
        round.commands = [types.SimpleNamespace(args_given=["status"], returncode=0, out=self.out, began=ASKED)]
        promises.status_told_the_truth(round, {"job": ({"result": "succeeded"}, happened)})

    def test_what_was_so_when_it_was_asked_is_the_truth(self):
        self.look(events())
        self.look(events(exited_at=ASKED - 1))
        self.look(events(exited_at=950), state="exited")

    def test_a_task_that_has_long_ended_does_not_run(self):
        with self.assertRaisesRegex(promises.Broken, "it had ended"):
            self.look(events(exited_at=ASKED - 60))

    def test_a_run_before_the_last_one_is_not_the_last_one(self):
        again = event(3, 960, "task", task="worker:0", attempt=2, run=1, pid=8, state="started")
        with self.assertRaisesRegex(promises.Broken, "it had started again"):
            self.look([*events(exited_at=950), again], state="exited")

    def test_a_job_that_has_long_ended_has_a_result(self):
        ended = [*events(exited_at=950), event(3, 960, "ended", result="succeeded")]
        with self.assertRaisesRegex(promises.Broken, "the job had ended"):
            self.look(ended, job="running", state="exited")

    def test_a_run_that_never_was_is_a_broken_promise(self):
        with self.assertRaisesRegex(promises.Broken, "events have"):
            self.look(events(), pid=8)


if __name__ == "__main__":
    unittest.main()
