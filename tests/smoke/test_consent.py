"""docs/consent.md, cell by cell: what each command does to which jobs without the user's word."""

import json
import os
import pty
import re
import shutil
import subprocess
import unittest

from tests.smoke.test_local import shell
from tests.support import clusters, processes
from tests.support.tfdist import BIN, ROOT, Result, Tfdist
from tests.support.waiting import PATIENCE, wait_for

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
    "`-H`, no JOB": (False, 1, 2),
    "JOB: a file, another one started it": (True, 1, 0),
}
ON_HOSTS = "`-H`, no JOB"
OF_ANOTHER = "JOB: a file, another one started it"
# Of each row: its commands, each with what it needs after the job.
ROWS = {
    "`status` `why` `top` `events` `wait` `logs` `pull` `tensorboard`": [
        (["status"], []), (["why"], []), (["top", "-n", "1"], []), (["events"], []), (["wait", "--timeout", "100ms"], []), (["logs"], []),
        (["pull", "--to", "pulled"], []), (["tensorboard"], [])],
    "`exec` `shell`": [(["exec"], ["--", "true"]), (["shell"], ["@127.0.0.1"])],
    "`restart`": [(["restart"], [])],
    "`down` `down --force`": [(["down"], []), (["down", "--force"], [])],
    "`down --purge`": [(["down", "--purge"], [])],
    "`down --purge` where `{keep}` goes": [(["down", "--purge"], [])],
    "`up --replace`": [(["up", "-d", "--replace"], [])],
    "`prune` where files of tasks are left": [(["prune"], [])],
    "`prune` where none is": [(["prune"], [])],
    "`prune ID`": [(["prune"], [])],
    "`clean` `clean --purge` `clean -H`": [(["clean"], []), (["clean", "--purge"], []), (["clean", "-H", "localhost"], [])],
}
# Rows of which another test runs the command.
ELSEWHERE = {"`up` where `{keep}` has files of another user or machine": "test_keep"}
LOOKS, ENTERS, RESTARTS, ENDS, PURGES, PURGES_KEPT, REPLACES, FORGETS, FORGETS_LOGS, FORGETS_BY_ID, CLEANS = ROWS
# What the jobs of a row have: files that they keep for each other, and only the newest one a folder; or no files at all.
KEEPING, EMPTY, USUAL = "keeping", "empty", "usual"
KINDS = {PURGES_KEPT: KEEPING, FORGETS_LOGS: EMPTY}
# A first host lets in one job of a name; test_replace_of_one_of_several_refuses has a spare host.
IMPOSSIBLE = {(REPLACES, "JOB: several run")}
# Where y is the answer, too: one cell of each row that asks.
ANSWERED = {(PURGES, "no JOB, none runs"), (PURGES, "JOB: one runs, others are over"), (PURGES_KEPT, "JOB is over"),
            (FORGETS, "no JOB, one runs"), (PURGES, "no JOB, one runs"), (CLEANS, "JOB: one runs, others are over"), (ENDS, OF_ANOTHER), (PURGES, OF_ANOTHER),
            (ENTERS, OF_ANOTHER)}
NO_TERMINAL = "its question without a terminal"
# What the last column says for `prune` without JOB, and with one.
KEEPS_OR_REFUSES = "keeps, `prune JOB` refuses"
# Where the remedy of the refusal is followed: one cell of each row that refuses.
FOLLOWED = {(PURGES, "JOB: several are over"), (PURGES_KEPT, "JOB runs"), (FORGETS, "JOB is over"), (CLEANS, "JOB is over")}
# A command that has nothing to restart or to show says so; 124: `wait` came to its --timeout.
CODES = {"restart": (0, 4), "top": (0, 4), "tensorboard": (1, 3, 4), "wait": (0, 124)}


def table():
    """(row, column) -> what stands there: of all rows and columns that the page has."""
    lines = [line.strip("| \n").split(" | ") for line in (ROOT / "docs/consent.md").read_text().splitlines() if line.startswith("| ")]
    header = [line for line in lines if line[0] == "command"][0]
    return {(line[0], column): cell for line in lines if line[0] not in ("command", "---") for column, cell in zip(header[1:], line[1:])}


class Situation:
    """Jobs of one name, of which each has written a file, unless they are to be EMPTY. The newest one runs, if any does."""

    def __init__(self, running, over, kind=USUAL):
        self.user = Tfdist("consent")
        self.script = {USUAL: "echo x >result; ", KEEPING: "echo x >result; echo x >{keep}/x; ", EMPTY: ""}[kind]
        self.jobs = {}  # id -> its file
        for number in range(over + running):
            runs = number >= over
            # Several of one name run in several folders.
            elsewhere = f'[ssh]\nremote_dir = "~/elsewhere-{number}"\n' if number > over else ""
            self.start("sleep infinity" if runs else "true", elsewhere)
        for job in list(self.jobs)[:over + running - 1] if kind == KEEPING else []:
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
        results = {path.parts[path.parts.index("jobs") + 1] for path in self.user.folder.rglob("run/work/result")}
        return {job: (state, job in results) for job, state in states.items()}


def running(seen):
    return [job for job, (state, _) in seen.items() if state == "running"]


class Consent(unittest.TestCase):
    def test_the_page_has_all_commands_and_situations(self):
        cells = table()
        self.assertEqual(list(dict.fromkeys(column for _, column in cells)), [*COLUMNS, NO_TERMINAL])
        self.assertEqual(sorted({row for row, _ in cells}), sorted([*ROWS, *ELSEWHERE]))
        self.assertEqual(len(cells), (len(ROWS) + len(ELSEWHERE)) * (len(COLUMNS) + 1))
        for row in ROWS:
            asks = {cells[row, column] for column in COLUMNS} & {"asks", "offers"}
            self.assertEqual(cells[row, NO_TERMINAL] != "-", bool(asks), row)
        self.assertEqual(sum(name.startswith("test_each_command_") for name in dir(self)), len(COLUMNS))

    def test_each_command_does_what_the_page_says(self):
        """Where no job is named and one runs; the tests below have the other columns of the page."""
        self.compare("no JOB, one runs")

    def compare(self, column):
        cells = table()
        named, runs, over = COLUMNS[column]
        situations = {}  # of each kind, until a command has changed it
        for row, commands in ROWS.items():
            for command, rest in commands if cells[row, column] != "-" and (row, column) not in IMPOSSIBLE else []:
                if column == ON_HOSTS and not self.takes_hosts(command):
                    continue
                if column == ON_HOSTS and "-H" not in command:
                    command = [*command, "-H", "localhost"]
                if (row, column) == (ENTERS, OF_ANOTHER):  # else the file's hosts are meant, and no job
                    rest = ["master:0", *rest[1:]] if command == ["shell"] else ["master:0", *rest]
                kind = KINDS.get(row, USUAL)
                situation = situations.get(kind) or self.situation(runs, over, kind)
                with self.subTest(column=column, command=command, row=row):
                    before = situation.seen()
                    self.no_terminal = cells[row, NO_TERMINAL]
                    self.walk(row, column, [*command, *self.job(row, column, command, named, situation), *rest], cells[row, column], situation)
                    situations[kind] = situation if situation.seen() == before else None

    def test_each_command_without_a_job_where_several_run(self):
        self.compare("no JOB, several run")

    def test_each_command_without_a_job_where_none_runs(self):
        self.compare("no JOB, none runs")

    def test_each_command_of_a_job_that_runs(self):
        self.compare("JOB runs")

    def test_each_command_of_a_job_that_is_over(self):
        self.compare("JOB is over")

    def test_each_command_of_a_name_of_which_one_job_runs(self):
        self.compare("JOB: one runs, others are over")

    def test_each_command_of_a_name_whose_jobs_are_over(self):
        self.compare("JOB: several are over")

    def test_each_command_of_a_name_of_which_several_run(self):
        self.compare("JOB: several run")

    def test_each_command_with_hosts_and_without_a_job(self):
        self.compare(ON_HOSTS)

    def test_each_command_with_a_file_of_another_project(self):
        self.compare(OF_ANOTHER)

    @staticmethod
    def takes_hosts(command):
        """Whether it has the option."""
        done = subprocess.run([str(BIN / "tfdist"), command[0], "--help"], capture_output=True, text=True, timeout=20 * PATIENCE, check=True)
        return "-H,--hosts" in done.stdout

    def situation(self, *args):
        situation = Situation(*args)
        self.addCleanup(situation.user.close)
        return situation

    def job(self, row, column, command, named, situation):
        if not named or "-H" in command:
            return []
        if column == OF_ANOTHER:
            (situation.user.folder / "another").mkdir(exist_ok=True)
            return [shutil.copy(situation.jobs[situation.newest()], situation.user.folder / "another/cluster.toml")]
        by_file = row in (REPLACES, CLEANS)
        return [situation.jobs[situation.newest()] if by_file else situation.newest() if row == FORGETS_BY_ID else "job"]

    def walk(self, row, column, words, cell, situation):
        before = situation.seen()
        if cell == "offers":
            self.answer(b"n\n", words, situation)
            self.assertEqual(situation.seen(), before)
        if cell in ("asks", "offers"):
            result = self.run_without_terminal(words, situation)
        else:
            result = situation.user.run(*words)
        if cell == "offers":
            self.assertEqual(self.no_terminal, "does")
        if cell in ("does", "offers"):
            return self.assert_done(row, column, words, situation, before, result)
        if row == CLEANS and len(running(before)) == len(before):
            self.assertEqual(result.code, 0, result)
            self.assertIn("nothing to remove\n", result.out)
        elif cell == "asks":
            self.assert_kept(row, words, before, result)
            self.assertEqual(situation.seen(), before, result)
            self.assert_kept(row, words, before, self.run_with_stdin_only(words, situation))
            self.assertEqual(situation.seen(), before)
            self.answer(b"n\n", words, situation)
        else:
            self.assertEqual(cell, "refuses")
            self.assertEqual(result.code, 2, result)
            if column == ON_HOSTS:
                self.assertIn("\n  try: tfdist list -H localhost shows which run there\n", result.err)
            for job in running(before) if column != ON_HOSTS else []:
                self.assertIn(job, result.err)
        self.assertEqual(situation.seen(), before, result)
        if (row, column) in FOLLOWED:
            situation.user.run(*self.remedy(row, words, result, situation)).expect(0)
            self.assertEqual(situation.seen(), self.expected(FORGETS_BY_ID if row == FORGETS else row, situation, before))
        if (row, column) in ANSWERED and words[0] != "shell":  # that would wait for a word of ours
            self.answer(b"y\n", words, situation)
            self.assertEqual(situation.seen(), self.expected(row, situation, before))

    def answer(self, answer, words, situation):
        terminal = situation.user.start_on_terminal(*words)
        terminal.wait_for_text("[y/N]")
        os.write(terminal.fd, answer)
        terminal.wait()

    def run_without_terminal(self, words, situation, stdin=None):
        """A pipe that nobody writes to or closes: a question would wait for ever."""
        ends = os.pipe() if stdin is None else ()
        try:
            done = subprocess.run([str(BIN / "tfdist"), *words], env=situation.user.env, cwd=situation.user.folder, capture_output=True, text=True,
                                  stdin=ends[0] if ends else stdin, timeout=60 * PATIENCE)
        finally:
            for end in ends:
                os.close(end)
        return Result(done.returncode, done.stdout, done.stderr)

    def run_with_stdin_only(self, words, situation):
        """A terminal to type on, of which the command's output is kept away: nobody would see the question."""
        terminal, stdin = pty.openpty()
        try:
            return self.run_without_terminal(words, situation, stdin)
        finally:
            os.close(terminal)
            os.close(stdin)

    def remedy(self, row, words, result, situation):
        """The command that the refusal names."""
        if row == CLEANS:
            self.assertIn("  try: the same with --yes removes what is listed", result.err)
            return [*words, "--yes"]
        command = {PURGES: "down --purge", PURGES_KEPT: "down --purge --yes", FORGETS: "prune"}[row]
        self.assertRegex(result.err, rf"\n  try: .*\btfdist {command} {re.escape(situation.newest())}\b")
        return [*command.split(), situation.newest()]

    def assert_kept(self, row, words, before, result):
        """Without a terminal."""
        if words == ["prune"]:
            self.assertEqual(self.no_terminal, KEEPS_OR_REFUSES)
            self.assertEqual(result.code, 0, result)
            kept = sorted(re.findall(r"(?m)^kept (\S+):", result.out))
            self.assertEqual(kept, sorted(set(before) - set(running(before))), result)
        else:
            self.assertIn(self.no_terminal, ("refuses", KEEPS_OR_REFUSES))
            self.assertEqual(result.code, 2, result)
            self.assertIn("\n  try: ", result.err)
            done = {FORGETS: "forgotten", ENTERS: "done", RESTARTS: "done", ENDS: "done", REPLACES: "started"}.get(row, "removed")
            self.assertIn(f"nothing was {done}: ", result.err)

    def expected(self, row, situation, before):
        """What is seen once a command of that row has done what it is for; it touches the running job, else the newest."""
        after, newest = dict(before), situation.newest()
        others = [job for job in before if job not in running(before)]
        if row in (ENDS, REPLACES) and newest in running(before):
            after[newest] = ("stopped", True)
        if row in (PURGES, PURGES_KEPT, FORGETS_BY_ID):
            del after[newest]
        if row in (FORGETS, FORGETS_LOGS):
            after = {job: seen for job, seen in after.items() if job not in others}
        if row == CLEANS:
            after.update({job: (before[job][0], False) for job in others})
        return after

    def assert_done(self, row, column, words, situation, before, result):
        runs = situation.newest() in running(before)
        if column == OF_ANOTHER:
            self.assertIn(f"tfdist: job {situation.newest()} was started from {situation.jobs[situation.newest()]}\n", result.err)
        codes = CODES.get(words[0], (0,)) if row == LOOKS or not runs else (0,)
        self.assertIn(result.code, codes, result)
        after = situation.seen()
        if row == REPLACES:
            [new] = [job for job in after if job not in before]
            if runs:
                self.assertEqual(after[new][0], "running", result)
            else:  # its tasks have written their file and end, as it does then
                self.assertEqual(situation.user.wait_until_ended(new)["state"], "succeeded", result)
        self.assertEqual({job: after[job] for job in after if job in before}, self.expected(row, situation, before), result)

    def test_each_of_several_words_is_decided_by_itself(self):
        situation = self.situation(2, 1)
        over, first, second = situation.jobs
        before = situation.seen()
        for words in (["down", first, "job"], ["down", "--purge", over, "job"], ["down", first, "nobody"]):
            refused = situation.user.run(*words)
            self.assertIn(refused.code, (2, 4), refused)
            self.assertEqual(situation.seen(), before, refused)
        situation.user.run("down", over, second).expect(0)
        self.assertEqual(situation.seen(), {**before, second: ("stopped", True)})

    def on(self, host, hosts):
        """A cluster file with ports of its own."""
        text = clusters.local("job", shell("sleep infinity"), slots=1)
        self.assertIn(host, text)
        return text.replace(host, hosts)

    def test_replace_of_one_of_several_refuses(self):
        """A spare host may have taken the first one's place, and has a job of the name, too."""
        user = Tfdist("consent")
        self.addCleanup(user.close)
        user.env["XDG_STATE_HOME"] = str(user.folder / "state")
        home = user.env["HOME"]
        host = '{ address = "127.0.0.1", transport = "local", slots = 1 }'
        spare = host.replace("127.0.0.1", "127.0.0.2")
        jobs = []
        for where in (host, spare):
            user.env["HOME"] = str(user.folder / f"home{len(jobs)}")
            (user.folder / f"home{len(jobs)}").mkdir()
            up = user.run("up", "-d", user.write(f"{len(jobs)}.toml", self.on(host, where))).expect(0)
            jobs.append(re.search(r"job (\S+):", up.out).group(1))
            user.wait_until_tasks_run(jobs[-1])
        user.env["HOME"] = home
        both = f"{host}, {spare.replace('slots = 1', 'slots = 1, spare = true')}"
        refused = user.run("up", "-d", "--replace", user.write("both.toml", self.on(host, both))).expect(2)
        for job in jobs:
            self.assertIn(job, refused.err)
            self.assertEqual(user.status(job)["state"], "running")
            user.run("down", job).expect(0)


if __name__ == "__main__":
    unittest.main()
