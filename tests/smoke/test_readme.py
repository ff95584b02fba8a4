"""README's commands, run on test hosts: what README shows is what they print (tests/support/shown.py).

When an output changes: python3 -B -m tests.smoke.test_readme --print, and copy.
"""

import re
import shlex
import shutil
import sys
import unittest

from tests.hosts.hosts import check_possible
from tests.smoke.test_check import Checked
from tests.support import clusters
from tests.support.shown import blocks, difference, shown_commands
from tests.support.tfdist import ROOT, without_waiting
from tests.support.waiting import wait_for

README = (ROOT / "README.md").read_text()
PRINT = "--print" in sys.argv

def tables():
    """Those among the shown lines: the cells of each line, and the line."""
    for lines in shown_commands(README).values():
        rows = []
        for line in [*lines, ""]:
            cells = re.split(r" {2,}", line)
            if rows and len(cells) == len(rows[0][0]):
                rows.append((cells, line))
            elif rows:
                yield rows
                rows = []
            elif len(cells) > 1 and re.fullmatch(r"[A-Z ]+", line):
                rows = [(cells, line)]


class Tables(unittest.TestCase):
    def test_columns_stand_as_they_are_printed(self):
        """Two blanks behind the widest cell: outputs are compared without their blanks, which differ with what they show."""
        self.assertGreaterEqual(len(list(tables())), 3)
        for rows in tables():
            widths = [max(map(len, column)) for column in zip(*(cells for cells, _ in rows))]
            for cells, line in rows:
                self.assertEqual("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip(), line)


class Readme(Checked):
    compared = set()  # commands

    @classmethod
    def setUpClass(cls):
        check_possible()
        cls.commands = shown_commands(README)

    @classmethod
    def tearDownClass(cls):
        left = set(cls.commands) - cls.compared
        assert not left, f"README shows the output of commands that no test here runs: {left}"

    def setUp(self):
        super().setUp()
        (self.user.folder / ".ssh").mkdir(mode=0o700)

    def assert_shown(self, words, exit_code=0, ready=lambda text: True):
        """`tfdist WORDS` prints what README shows below it; once it is `ready`, where what is asked for may not be there
        yet. With the user's own home and files in the place of the test's."""
        self.assertIn(words, self.commands)
        self.compared.add(words)

        def run():
            result = self.user.run(*words.split())
            return result if ready(result.out) else None

        result = wait_for(run, f"what `tfdist {words}` is to show")
        self.assertEqual(result.code, exit_code, result)
        text = self.as_the_users(result.out or result.err)
        if PRINT:
            print(f"$ tfdist {words}\n{text}", flush=True)
            return
        wrong = difference(without_waiting(text).splitlines(), self.commands[words])
        self.assertFalse(wrong, wrong)

    def as_the_users(self, text):
        for hosts in getattr(self, "started", []):
            text = text.replace(str(hosts.known_hosts), "/home/u/.ssh/known_hosts")
            text = text.replace(str(hosts.key), "/home/u/.ssh/id_ed25519")
        return text.replace(str(self.user.folder), "/home/u")

    def start_hosts(self, count, **options):
        hosts = super().start_hosts(count, **options)
        self.started = [*getattr(self, "started", []), hosts]
        return hosts

    def write_job(self, name, command, hosts, extra="", task_extra=""):
        addresses = clusters.toml_list([host.address for host in hosts])
        self.user.write("cluster.toml", f"""
name = "{name}"
[cluster]
hosts = {addresses}
layout = "uai"
[task]
command = {clusters.toml_list(command)}
gpus = 0
{task_extra}
{extra}
[ssh]
config = "{hosts.ssh_config}"
""")

    def test_render(self):
        [file] = blocks(README, "toml")
        self.user.write("cluster.toml", file)
        self.assert_shown("render cluster.toml")
        self.assert_shown("render --env worker:1 cluster.toml")

    def test_the_commands_of_the_text_run(self):
        """On hosts h1 and h2 in the place of gpu1 and gpu2, with an ssh configuration of their own."""
        hosts = self.start_hosts(2)
        for host in hosts:
            (host.home / "venv/bin").mkdir(parents=True)
            (host.home / "venv/bin/python").symlink_to("/usr/bin/python3")
        self.user.write("train/train.py", "import os\nprint(os.environ['RANK'])\nopen('model', 'w').close()\n")
        self.user.env["WANDB_API_KEY"] = "secret"
        commands = [line for block in blocks(README, "sh") for line in block.splitlines()]
        self.assertGreater(len(commands), 20)
        for line in commands:
            program, command, *words = shlex.split(line.replace("gpu", "h"))
            self.assertEqual(program, "tfdist")
            if command == "init" or "-H" in words:
                words = ["-F", str(hosts.ssh_config), *words]
            with self.subTest(line):
                result = self.user.run(command, *words, cwd=self.user.folder / "train")
                self.assertEqual(result.code, 0, result)
                if command == "up" and "-d" not in words:
                    self.assertEqual(sorted(re.findall(r"(?m)^worker:\d \| (.*)$", result.out)), ["0", "1"], result)

    # In an order in which each has what it needs: the command, what it prints, and what is answered on a terminal where it asks.
    IN_SENTENCES = (
        ("up --hostfile nodes.txt -- python3 train.py", "worker:1 | 1", ""),
        ("logs -H gpu1,gpu2 train", "worker:1 | 1", ""),
        ("up -H gpu1:4,gpu2:4 -- python3 train.py", "worker:7 | 7", ""),
        ("pull", "worker-7: 1 file", ""),
        ("init gpu1 gpu2 --name JOB -o cluster.toml", "wrote cluster.toml", ""),
        ("status cluster.toml", "succeeded", ""),
        ("render", "worker:1", ""),
        ("check", "2 hosts: nothing found", ""),
        ("up", "succeeded", ""),
        ("up -d", "started", ""),
        ("logs -f", "worker:1 | 1", ""),
        ("shell worker:0", "/work", "pwd; exit\n"),
        ("why", "running", ""),
        ("list", "train-", ""),
        ("up --replace", "nothing is left", ""),
        ("down", "nothing is left", ""),
        ("down --purge", "removed", "y\n"),
        ("clean --purge", "removed", "y\n"),
    )

    def test_the_commands_inside_sentences_run(self):
        text = re.sub(r"(?ms)^```.*?^```$", "", README)
        shown = {" ".join(command.split()) for command in re.findall(r"`tfdist ([^`]+)`", text)}
        self.assertEqual(shown, {command for command, _, _ in self.IN_SENTENCES})
        hosts = self.start_hosts(2)
        work = self.user.folder / "work"
        self.user.env["NO_COLOR"] = "1"
        program = "import os, time\nprint(os.environ['RANK'], flush=True)\nopen('model', 'w').close()\n"
        self.user.write("work/train.py", program)
        self.user.write("work/nodes.txt", "h1 slots=1\nh2 slots=1\n")
        for command, printed, answer in self.IN_SENTENCES:
            if command in ("up -d", "up --replace"):  # a job that is looked at runs on
                self.user.write("work/train.py", program + f"# {command}\ntime.sleep(1000)\n")
            words = shlex.split(command.replace("gpu", "h").replace("JOB", "train"))
            if words[0] == "init" or "-H" in words or "--hostfile" in words:
                words[1:1] = ["-F", str(hosts.ssh_config)]
            with self.subTest(command):
                self.assertIn(printed, self.on_terminal(work, words, answer, command in ("logs -f", "up --replace")))

    def on_terminal(self, folder, words, answer, goes_on):
        """What it prints; of one that goes on, until Ctrl-C."""
        terminal = self.user.start_on_terminal(*words, cwd=folder)
        if answer:
            terminal.wait_for_text("$ " if words[0] == "shell" else "[y/N]")
            terminal.type(answer)
        if goes_on:
            terminal.wait_for_text("worker:1 | 1")
            terminal.ctrl_c()
        code = terminal.wait(60)
        self.assertIn(code, (0, 130) if goes_on else (0,), terminal.text)
        return terminal.text

    def test_it_is_read_on_a_screen_of_100_columns(self):
        """Tables are for a browser, commands for a terminal that breaks them."""
        is_block = False
        for line in (ROOT / "README.md").read_text().splitlines():
            if line.startswith("```"):
                is_block = not is_block
            elif not is_block and not line.startswith(("|", "    ")):
                self.assertLessEqual(len(line), 100, line)
            for cell in line.split("|") if line.startswith("|") else []:
                self.assertLessEqual(len(cell), 200, cell)

    def test_a_plain_readers_questions_have_headings(self):
        headings = [line.lstrip("# ") for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("#")]
        for question in ("virtual environment", "PyTorch", "arguments", "tomorrow", "two jobs", "colleague", "host dies",
                         "What ends my job", "another machine", "have changed", "user, port or key", "bring results home"):
            self.assertTrue(any(question in heading for heading in headings), question)

    def test_mistakes(self):
        shutil.copy(ROOT / "cli/plan/testdata/ten_mistakes.toml", self.user.folder)
        self.assert_shown("up ten_mistakes.toml", exit_code=2)

    def test_a_job_from_its_start_to_its_end(self):
        hosts = self.start_hosts(4)
        self.write_job("digits", ["{runtime}", "--data", "digits", "--model", "mlp", "--steps", "1000000"], hosts,
                       task_extra=f'workdir = "{ROOT / "configs/data"}"')
        self.assert_shown("up -d cluster.toml")
        self.user.wait_until_tasks_run()
        self.assert_shown("status")
        self.assert_shown("logs --tail 2 digits master:0", ready=lambda text: text.count("test accuracy") == 2)
        self.assert_shown("down")

    def test_check(self):
        hosts = self.start_hosts(4)
        hosts[1].drop(hosts[0], 2222)
        self.take_port(hosts[2], 2223)
        self.edit(hosts[3], lambda text: text.replace(f"{hosts[3].address} h4", "127.0.1.1 h4"))
        self.write(hosts)
        self.assert_shown("check cluster.toml", exit_code=3)

    def test_hosts_that_cannot_be_brought_up(self):
        hosts = self.start_hosts(4)
        hosts[1].refuse_key()
        hosts[2].replace_host_key()
        self.write_job("digits", ["true"], hosts)
        self.assert_shown("up cluster.toml", exit_code=3)

    def test_why(self):
        hosts = self.start_hosts(2)
        script = ('case $TFDIST_TASK.$TFDIST_ATTEMPT in worker:0.1) echo "Traceback: no data in /data"; exit 7;; '
                  'worker:0.2) echo step 200; kill -9 $$;; esac; sleep 1000')
        self.write_job("digits", ["sh", "-c", script], hosts,
                       extra='[restart]\nworker = { policy = "gang", limit = 1 }\n')
        self.user.run("up", "-d", "cluster.toml").expect(0)
        self.user.wait_until_ended()
        self.assert_shown("why")


if __name__ == "__main__":
    sys.argv = [word for word in sys.argv if word != "--print"]
    unittest.main()
