"""One cluster file, varied from the command line; variables of the user's shell, of the host, and those of other launchers."""

import re
import unittest

from tests.smoke.test_local import shell
from tests.support import clusters
from tests.support.tfdist import Tfdist


class Variations(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("vary")
        self.addCleanup(self.user.close)

    def write(self, command, name="cluster.toml", layout="mirrored", task_extra=""):
        return self.user.write(name, f"""
name = "job"
[cluster]
hosts = [{{ address = "127.0.0.1", transport = "local", slots = 2 }}]
layout = "{layout}"
ports = {{ worker = {clusters.free_ports(2)} }}
[task]
command = {clusters.toml_list(command)}
{task_extra}
""")

    def lines(self, *arguments):
        result = self.user.run("up", *arguments)
        self.assertEqual(result.code, 0, result)
        return sorted(re.findall(r"^(worker:\d +\| .*)$", result.out, re.M)), result

    def test_the_file_of_the_folder_is_taken_and_named(self):
        self.write(["echo", "here"])
        lines, result = self.lines()
        self.assertEqual(lines, ["worker:0 | here", "worker:1 | here"])
        self.assertIn("tfdist: cluster file cluster.toml\n", result.err)
        self.write(["echo", "below"], name="sub/cluster.toml")
        self.assertEqual(self.lines("sub")[0], ["worker:0 | below", "worker:1 | below"])

    def test_words_behind_dashes_follow_the_command(self):
        file = self.write(["echo", "train.py"])
        self.assertEqual(self.lines(file, "--", "--lr", "{rank}")[0],
                         ["worker:0 | train.py --lr 0", "worker:1 | train.py --lr 1"])

    def test_set_changes_one_value_for_this_once(self):
        file = self.write(shell("echo $LR $TFDIST_JOB"), task_extra='env = { LR = "1" }')
        for value, name in (("a b", "second"), ("0.2", "2026"), ("1#2", "true")):
            self.assertEqual(self.lines(file, "--set", f"task.env.LR={value}", "--name", name)[0],
                             [f"worker:{n} | {value} {name}" for n in (0, 1)])
        for setting, said in (("task.grcae=1s", "did you mean 'grace'?"), ("task.grace=5", "task.grace: expected"),
                              ("name.x=secret", "name.x: name is not a table"), ("x:secret", "got x\n")):
            with self.subTest(setting):
                refused = self.user.run("render", file, "--set", setting)
                self.assertEqual(refused.code, 2, refused)
                self.assertIn(said, refused.err)
                self.assertNotIn("secret", refused.err)

    def test_a_role_with_a_command_of_its_own_is_named(self):
        file = self.write(["echo", "train.py"], task_extra='[roles.worker]\ncommand = ["echo", "own"]')
        lines, result = self.lines(file, "--", "--lr", "1")
        self.assertEqual(lines, ["worker:0 | own", "worker:1 | own"])
        self.assertIn("[roles.worker] has a command of its own: the words behind -- do not reach it", result.err)

    def test_variables_of_the_users_shell_come_by_name_and_as_they_are(self):
        file = self.write(shell('echo "$KEY|$OTHER"'), task_extra='env_from = ["KEY"]')
        missing = self.user.run("up", file)
        self.assertEqual(missing.code, 2, missing)
        self.assertIn("env_from names what your shell does not set: KEY\n  try: export KEY=", missing.err)
        self.user.run("status", file).expect(4)  # needs no variable
        self.user.env["KEY"] = self.user.env["OTHER"] = "{rank} ~/s"
        self.assertEqual(self.lines(file, "--env", "OTHER")[0], [f"worker:{n} | {{rank}} ~/s|{{rank}} ~/s" for n in (0, 1)])
        self.assertEqual(self.lines(file, "-e", "KEY=here")[0], [f"worker:{n} | here|{{rank}} ~/s" for n in (0, 1)])
        shown = self.user.run("render", "--json", file)
        self.assertNotIn("~/s", shown.out + shown.err)
        unset = self.user.run("up", file, "--env", "NOBODY")
        self.assertEqual(unset.code, 2, unset)
        self.assertIn("NOBODY is not set in your shell", unset.err)

    def test_home_and_variables_of_the_host(self):
        program = self.user.write("bin/program", '#!/bin/sh\necho "$1 $EXTENDED"\n')
        (self.user.folder / "bin/program").chmod(0o755)
        file = self.write(["~/bin/program", "~/data"], task_extra='env = { EXTENDED = "first:{env:HOME}" }')
        home = self.user.env["HOME"]
        self.assertTrue(program.startswith(home))
        self.assertEqual(self.lines(file)[0], [f"worker:{n} | {home}/data first:{home}" for n in (0, 1)])
        gone = self.user.run("up", self.write(["echo", "{env:NOBODY_SETS_IT}"]))
        self.assertEqual(gone.code, 3, gone)
        self.assertIn("uses the variable NOBODY_SETS_IT, which this host does not set", gone.err)
        literal = self.user.run("render", self.write(["echo", "$HOME/data"]))
        self.assertIn("$HOME stays as it is written, since no shell reads it: {env:HOME} is what the host has", literal.err)
        self.assertNotIn("stays as it is", self.user.run("render", self.write(shell("echo $HOME"))).err)

    def test_every_task_has_what_torchrun_would_give_it(self):
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
        file = self.write(shell("echo " + " ".join(f"${name}" for name in names)), task_extra='env = { MASTER_PORT = "7" }')
        self.assertEqual(self.lines(file)[0], [f"worker:{n} | {n} 2 {n} 2 0 127.0.0.1 7" for n in (0, 1)])

    def test_a_script_that_is_not_sent_is_named_before_anything_starts(self):
        self.user.write("work/other.py", "")
        file = self.write(["python3", "train.py"], task_extra='workdir = "work"')
        for command in ("render", "check"):
            self.assertIn("there is no train.py in the workdir", self.user.run(command, file).err)


if __name__ == "__main__":
    unittest.main()
