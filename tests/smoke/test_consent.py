"""docs/consent.md, cell by cell: what each command does to which jobs without the user's word."""

import json
import os
import re
import shutil
import unittest

from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

# Of each column: whether a job is named, and how many jobs run and are over.
COLUMNS = {
    "no JOB, one runs": (False, 1, 2),
    "no JOB, several run": (False, 2, 2),
    "no JOB, none runs": (False, 0, 2),
    "JOB runs": (True, 1, 0),
    "JOB is over": (True, 0, 1),
    "JOB: one runs, others are over": (True, 1, 1),
    "JOB: several are over": (True, 0, 2),
    "JOB: several run": (True, 2, 0),
}
# Of each row: a command that stands for it, with what it needs after the job.
ROWS = {
    "`status` `why` `top` `events` `wait` `logs` `pull` `tensorboard`": (["logs"], []),
    "`exec` `shell`": (["exec"], ["--", "true"]),
    "`restart`": (["restart"], []),
    "`down`": (["down"], []),
    "`down --purge`": (["down", "--purge"], []),
    "`down --purge` where `{keep}` goes": (["down", "--purge"], []),
    "`up --replace`": (["up", "-d", "--replace"], []),
    "`prune`": (["prune"], []),
    "`clean`": (["clean"], []),
}
# Jobs that keep files for each other, of which only the newest has a folder left.
KEEPING = {"`down --purge` where `{keep}` goes"}
# A first host lets in one job of a name.
IMPOSSIBLE = {("`up --replace`", "JOB: several run")}
# Who has nothing to restart says so.
NOTHING_RUNS = 4


def table():
    """(row, column) -> what stands there."""
    lines = [line.strip("| \n").split(" | ") for line in (ROOT / "docs/consent.md").read_text().splitlines() if line.startswith("| ")]
    header = [line for line in lines if line[0] == "command"][0]
    return {(line[0], column): cell for line in lines if line[0] in ROWS for column, cell in zip(header[1:], line[1:])}


class Situation:
    """Jobs of one name, of which each has written a file. The newest one runs, if any does."""

    def __init__(self, running, over, keeping=False):
        self.user = Tfdist("consent")
        self.script = "echo x >result; " + ("echo x >{keep}/x; " if keeping else "")
        self.jobs = {}  # id -> its file
        for number in range(over + running):
            runs = number >= over
            # Several of one name run in several folders.
            elsewhere = f'[ssh]\nremote_dir = "~/elsewhere-{number}"\n' if number > over else ""
            self.start("sleep infinity" if runs else "true", elsewhere)
        for job in list(self.jobs)[:over + running - 1] if keeping else []:
            shutil.rmtree(self.user.folder / ".cache/tfdist/jobs" / job, ignore_errors=True)

    def start(self, script, extra):
        text = clusters.local("job", shell(self.script + script), slots=1, extra="") + "\n" + extra
        file = self.user.write(f"{len(self.jobs)}.toml", text)
        up = self.user.run("up", "-d", file)
        assert up.code == 0, up
        job = re.search(r"job (\S+):", up.out).group(1)
        self.jobs[job] = file
        if script == "true":
            self.user.wait_until_ended(job)
            # Its agent serves those who follow for a moment; until then `clean` leaves the job alone.
            wait_for(lambda: not processes.matching(job), "nothing of the job runs")
        else:
            self.user.wait_until_tasks_run(job)

    def newest(self):
        return list(self.jobs)[-1]

    def seen(self):
        """id -> state as this machine knows it, and whether what the job wrote is there."""
        states = {row["job"]: row["state"] for row in json.loads(self.user.run("list", "--json").out)}
        results = {path.parts[path.parts.index("jobs") + 1] for path in self.user.folder.rglob("h0/work/result")}
        return {job: (state, job in results) for job, state in states.items()}


class Consent(unittest.TestCase):
    def test_each_command_does_what_the_page_says(self):
        cells = table()
        self.assertEqual(len(cells), len(ROWS) * len(COLUMNS))
        for column, (named, running, over) in COLUMNS.items():
            situation = None
            for row in [row for row in ROWS if row not in KEEPING] + [row for row in ROWS if row in KEEPING]:
                if row in KEEPING:
                    situation = self.situation(running, over, keeping=True)
                if cells[row, column] == "-" or (row, column) in IMPOSSIBLE:
                    continue
                if situation is None:
                    situation = self.situation(running, over)
                with self.subTest(row=row, column=column):
                    before = situation.seen()
                    self.walk(row, named, cells[row, column], situation, before)
                    if situation.seen() != before:
                        situation = None

    def situation(self, running, over, keeping=False):
        situation = Situation(running, over, keeping)
        self.addCleanup(situation.user.close)
        return situation

    def walk(self, row, named, cell, situation, before):
        command, rest = ROWS[row]
        is_by_file = row in ("`up --replace`", "`clean`")
        job = [situation.jobs[situation.newest()] if is_by_file else "job"] if named else []
        words = [*command, *job, *rest]
        result = situation.user.run(*words)
        if cell == "does":
            return self.assert_done(row, named, situation, before, result)
        if row == "`clean`" and all(state == "running" for state, _ in before.values()):
            self.assertEqual(result.code, 0, result)
            self.assertIn("nothing to remove\n", result.out)
        elif cell == "asks":
            if row == "`prune`" and not named:
                self.assertEqual(result.code, 0, result)
                self.assertEqual(sorted(re.findall(r"(?m)^kept (\S+):", result.out)),
                                 sorted(job for job, (state, _) in before.items() if state != "running"), result)
            else:
                self.assertEqual(result.code, 2, result)
                self.assertIn("nothing was forgotten: " if row == "`prune`" else "nothing was removed: ", result.err)
            terminal = situation.user.start_on_terminal(*words)
            terminal.wait_for_text("[y/N]")
            os.write(terminal.fd, b"n\n")
            terminal.wait()
        else:
            self.assertEqual(cell, "refuses")
            self.assertEqual(result.code, 2, result)
        self.assertEqual(situation.seen(), before, result)

    def assert_done(self, row, named, situation, before, result):
        newest, runs = situation.newest(), before[situation.newest()][0] == "running"
        self.assertIn(result.code, (0, NOTHING_RUNS) if row == "`restart`" and not runs else (0,), result)
        after = situation.seen()
        expected = dict(before)
        if row in ("`down`", "`up --replace`") and runs:
            expected[newest] = ("stopped", True)
        if row == "`down --purge`":
            del expected[newest]
        if row == "`up --replace`":
            [new] = [job for job in after if job not in before]
            if runs:
                self.assertEqual(after[new][0], "running", result)
            else:  # its tasks have written their file and end, as it does then
                self.assertEqual(situation.user.wait_until_ended(new)["state"], "succeeded", result)
        self.assertEqual({job: after[job] for job in after if job in before}, expected, result)


if __name__ == "__main__":
    unittest.main()
