"""What a shell offers while a user types a command line of tfdist."""

import os
import subprocess
import unittest

from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist


class Completion(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("completion")
        self.addCleanup(self.user.close)
        self.user.env["PATH"] = f"{BIN}{os.pathsep}{self.user.env['PATH']}"

    def bash(self, line):
        """What bash puts in place of the last word, as Tab would."""
        script = ('eval "$(tfdist completion bash)"; COMP_LINE=$1; COMP_POINT=${#1}; _tfdist; '
                  'for reply in "${COMPREPLY[@]}"; do printf "%s\\n" "$reply"; done')
        done = subprocess.run(["bash", "-c", script, "bash", line], env=self.user.env, cwd=self.user.folder,
                              capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1]

    def test_commands_and_options_are_those_of_help(self):
        self.assertEqual(self.bash("tfdist ex"), ["exec", "export"])
        self.assertEqual(self.bash("tfdist help pu"), ["pull"])
        self.assertEqual(self.bash("tfdist logs --ti"), ["--timestamps"])
        self.assertEqual(sorted(self.bash("tfdist wait --")), ["--help", "--hosts", "--json", "--ssh-config", "--timeout", "--transport"])
        self.assertEqual(sorted(self.bash("tfdist completion ")), ["bash", "fish", "zsh"])
        help_text = self.user.run("--help").out
        for command in self.bash("tfdist "):
            if command != "help":
                self.assertIn(f"  {command} ", help_text)

    def test_jobs_tasks_and_hosts_are_offered(self):
        self.assertEqual(self.user.run("up", self.user.write(
            "cluster.toml", clusters.local("digits", ["true"], slots=2))).code, 0)
        self.assertEqual(self.bash("tfdist status dig")[0], "digits")
        self.assertRegex(self.bash("tfdist status digits-")[0], r"^digits-\d{8}T\d{6}Z-[0-9a-f]{6}$")
        self.assertEqual(self.bash("tfdist logs digits wor"), ["worker:0", "worker"])
        self.assertEqual(self.bash("tfdist logs digits ps:"), ["0", "1"])  # a colon ends a word in bash
        self.assertEqual(self.bash("tfdist logs --tail digits @127"), ["127.0.0.1"])
        self.assertEqual(self.bash("tfdist status worker"), [])
        self.assertEqual(self.bash("tfdist logs --since "), [])
        self.user.run("up", "-d", self.user.write("long.toml", clusters.local("long", ["sleep", "1000"], slots=1))).expect(0)
        self.assertEqual(self.bash("tfdist status "), ["long", "digits"])
        self.assertEqual(self.bash("tfdist down "), ["long"])
        self.assertEqual(self.bash("tfdist prune "), ["digits"])
        self.user.run("down").expect(0)

    def test_a_shell_that_there_is_no_completion_for(self):
        result = self.user.run("completion", "csh")
        self.assertEqual(result.code, 2, result)
        self.assertIn("bash, zsh and fish", result.err)

    def test_the_scripts_are_read_by_their_shells(self):
        for shell, check in (("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])):
            script = self.user.run("completion", shell)
            self.assertEqual(script.code, 0, script)
            read = subprocess.run([shell, *check, self.user.write("script", script.out)], capture_output=True, text=True)
            self.assertEqual((read.returncode, read.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
