"""docs/commands/: a page for each command, with the options of its --help, and examples that print what the page shows.

When an option changes: python3 -B -m tests.smoke.test_pages --write writes the tables of options anew. When an output
changes: python3 -B -m tests.smoke.test_pages --print shows all of it, to copy.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import unittest

from tests.hosts.hosts import check_possible
from tests.smoke.test_check import Checked
from tests.smoke.test_tensorboard import EVENTS, SERVER
from tests.support.shown import difference, shown_commands
from tests.support.tfdist import BIN, ROOT, Tfdist, without_waiting
from tests.support.waiting import PATIENCE, wait_for

FOLDER = ROOT / "docs/commands"
PRINT, WRITE = "--print" in sys.argv, "--write" in sys.argv
OPTIONS = "## Options\n"
TRAIN = f"""import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
rank = os.environ["RANK"]
for epoch in range(1, parser.parse_args().epochs + 1):
    time.sleep(0.1)
    print(f"epoch {{epoch}}, loss {{1 / (epoch + 1):.3f}}", flush=True)
    for name in (f"model-{{rank}}.npz", "{EVENTS}"):
        open(name, "wb").write(b"x" * 4096)
"""
TFJOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: tensorflow
              image: registry.lan/mnist:3
              command: [python3, train.py]
              resources: {limits: {nvidia.com/gpu: 1}}
              volumeMounts: [{name: data, mountPath: /data}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: digits}}]
"""
# In this order, on two hosts; the other pages need none.
SCENARIO = ["init", "check", "render", "export", "up", "describe", "status", "top", "logs", "exec", "shell", "tensorboard", "restart",
            "events", "why", "wait", "list", "down", "pull", "clean", "prune"]
WITHOUT_HOSTS = ["import", "schema", "completion", "version"]
EXIT_CODES = {"wait --timeout 1s": 124}
UNORDERED = {"up cluster.toml", "restart train worker:1", "logs -n 1 train"}  # lines of two tasks


def commands():
    with Tfdist("pages") as user:
        return re.findall(r"(?m)^  ([a-z]+) ", user.run("--help").out.split("Subcommands:")[1])


def options_in_help(command):
    """Of --help: (name, text) of each row, those of positionals among them."""
    with Tfdist("pages") as user:
        text = user.run(command, "--help").expect(0).out
    rows = []
    for line in re.split(r"\n\n(?=\S.*\.|Exit codes)", text)[0].splitlines():
        if re.match(r"  \S", line):
            name, _, said = line.strip().partition("  ") if "  " in line.strip() else (line.strip(), "", "")
            rows.append([name, said.strip()])
        elif line.startswith(" " * 30):
            rows[-1][1] += f" {line.strip()}"
    return [(name, said.strip()) for name, said in rows if name != "-h,--help"]


def options_as_table(command):
    rows = [(name.replace("|", "\\|"), said.replace("|", "\\|")) for name, said in options_in_help(command)]
    if not rows:
        return "\nNone.\n\n"
    return "\n| option | effect |\n| --- | --- |\n" + "".join(f"| `{name}` | {said} |\n" for name, said in rows) + "\n"


def page(command):
    return (FOLDER / f"{command}.md").read_text()


class Pages(unittest.TestCase):
    def test_each_command_has_its_page_and_each_page_is_listed(self):
        self.assertEqual(sorted(commands()), sorted(path.stem for path in FOLDER.glob("[a-z]*.md")))
        listed = re.findall(r"\(docs/commands/([a-z]+)\.md\)", (ROOT / "README.md").read_text())
        self.assertEqual(sorted(set(listed)), sorted(commands()))

    def test_each_page_has_the_options_of_its_help(self):
        for command in commands():
            before, _, after = page(command).partition(OPTIONS)
            rest = after[after.index("## "):]
            whole = before + OPTIONS + options_as_table(command) + rest
            if WRITE:
                (FOLDER / f"{command}.md").write_text(whole)
            self.assertEqual(page(command), whole)

    def test_each_page_shows_an_example(self):
        self.assertEqual(sorted(SCENARIO + WITHOUT_HOSTS), sorted(commands()))
        for command in commands():
            shown = shown_commands(page(command))
            self.assertTrue(shown and all(words.split()[0] == command for words in shown), command)

    def test_links_lead_somewhere(self):
        for path in [*FOLDER.glob("*.md"), ROOT / "README.md"]:
            for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", path.read_text()):
                file = (path.parent / target) if target else path
                self.assertTrue(file.exists(), f"{path}: {target}")
                headings = [re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                            for line in file.read_text().splitlines() if line.startswith("#")] if anchor else []
                self.assertIn(anchor or "", [*headings, ""], f"{path}: {target}#{anchor}")


class NamesOfTests(unittest.TestCase):
    """docs/faults.md, docs/findings.md and others say which test shows what."""

    def test_each_test_that_a_page_names_is_there(self):
        sources = [path.read_text() for folder in ("tests", "agent", "base", "cli", "job", "runtime", "wire")
                   for path in (ROOT / folder).rglob("*") if re.fullmatch(r"test_.*\.py|.*_test\.cc|.*_bench\.cc", path.name)]
        known = {name for text in sources for name in re.findall(r"(?:def|class) (\w+)", text)}
        known |= {path.stem for path in ROOT.glob("tests/**/*.py")}
        suites = {}
        for text in sources:
            for suite, name in re.findall(r"TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", text):
                suites.setdefault(suite, set()).add(name)
        missing = []
        for path in [path for path in ROOT.glob("docs/*.md") if path.stem != "json"]:
            for code in re.findall(r"`([^`\n]+)`", path.read_text()):
                for name in re.findall(r"\btest_\w+", code):
                    missing += [] if name in known or code.endswith("...") else [f"{path.name}: {name}"]
                if unit := re.fullmatch(r"(?:\w+/)*(\w+)\.([A-Z]\w+)", code):
                    if code != "Suite.Name" and unit[2] not in suites.get(unit[1], set()):
                        missing.append(f"{path.name}: {code}")
        self.assertEqual(missing, [])


class Examples(Checked):
    def run_as_shown(self, words):
        """What a user's terminal shows. Hosts are reached by -F, in the place of the user's own configuration; lines
        about that, and those of a slow machine, are left out."""
        argv = shlex.split(words)
        if argv[0] == "init" or ("-H" in argv and argv[0] != "import"):
            argv[1:1] = ["-F", str(self.hosts.ssh_config)]
        done = subprocess.run([str(BIN / "tfdist"), *argv], env=self.user.env, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE * 120)
        self.assertEqual(done.returncode, EXIT_CODES.get(words, 0), done.stdout)
        text = re.sub(r"(?m)^\n?\[ssh\]\nconfig = .*\n|^ssh: .*\n|^tfdist: asking .*\n", "", done.stdout.decode())
        return without_waiting(text).replace(str(self.user.folder), "/home/u")

    def assert_shown(self, words, text, lines):
        if PRINT:
            print(f"$ tfdist {words}\n{text}", flush=True)
            return
        wrong = difference(text.rstrip("\n").splitlines(), lines, in_order=words not in UNORDERED)
        self.assertFalse(wrong, wrong)

    def run_page(self, command):
        for words, lines in shown_commands(page(command)).items():
            with self.subTest(words):
                special = getattr(self, f"run_{command}", self.run_as_shown)
                self.assert_shown(words, special(words), lines)

    def run_shell(self, words):
        self.user.env["TERM"] = "dumb"
        terminal = self.user.start_on_terminal(*words.split())
        os.write(terminal.fd, b"pwd\nexit\n")
        self.assertEqual(terminal.wait(), 0)
        [path] = set(re.findall(r"(?m)^/home/\S+", terminal.text))
        return f"$ pwd\n{path}\n$ exit\n"

    def run_tensorboard(self, words):
        process = self.user.start(*words.split())
        wait_for(lambda: b"ends it" in process.err.read_bytes(), "the line about the address")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 0)
        return process.out.read_text() + process.err.read_text()

    def test_pages_show_what_their_commands_print(self):
        check_possible()
        programs = self.user.folder / "programs"
        self.user.folder.chmod(0o755)
        self.user.write("programs/tensorboard", SERVER)
        (programs / "tensorboard").chmod(0o755)
        self.hosts = self.start_hosts(2, seen={"programs": programs},
                                      sshd_lines=("SetEnv PATH=/run/programs:/usr/local/bin:/usr/bin:/bin",))
        self.folder = self.user.folder / "train"
        self.user.write("train/train.py", TRAIN)
        for command in SCENARIO:
            self.run_page(command)
            if command == "up":
                self.user.wait_until_tasks_run()
                wait_for(lambda: self.user.run("logs", "--grep", "epoch 2,", "train").out.count("epoch 2,") == 2, "two epochs of each")

    def test_pages_of_commands_without_hosts(self):
        self.folder = self.user.folder
        self.user.write("tfjob.yaml", TFJOB)
        for command in WITHOUT_HOSTS:
            self.run_page(command)


if __name__ == "__main__":
    sys.argv = [word for word in sys.argv if word not in ("--print", "--write")]
    unittest.main()
