"""--help and the manual page: both show every command and option, from one description."""

import re
import subprocess
import unittest

from tests.support.tfdist import Tfdist


class Help(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("help")
        self.addCleanup(self.user.close)
        top = self.help()
        self.commands = re.findall(r"(?m)^  ([a-z]+) ", top.split("Subcommands:")[1])
        self.assertIn("up", self.commands)

    def help(self, *words):
        result = self.user.run("help", *words)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result.out

    def test_help_fits_into_a_hundred_columns(self):
        for words in ([], *([command] for command in self.commands)):
            too_long = [line for line in self.help(*words).splitlines() if len(line) > 100]
            self.assertEqual(too_long, [])

    def test_usage_names_every_form(self):
        self.assertIn("Usage: tfdist up [OPTIONS] [FILE] [-- WORDS]\n       tfdist up [OPTIONS] -H HOST,... -- COMMAND\n", self.help("up"))
        self.assertIn("Usage: tfdist exec [OPTIONS] [JOB] [TASK|HOST...] -- COMMAND\n", self.help("exec"))
        self.assertIn("Usage: tfdist completion [OPTIONS] SHELL\n", self.help("completion"))
        self.assertIn("Usage: tfdist down [OPTIONS] [JOB...]\n", self.help("down"))

    def test_the_manual_page_shows_what_help_shows(self):
        page = self.user.run("__man")
        self.assertEqual(page.code, 0, page)
        read = subprocess.run(["man", "-l", "--warnings=w", "-"], input=page.out, capture_output=True, text=True,
                              env=dict(self.user.env, MANWIDTH="100", LC_ALL="C.UTF-8", MAN_KEEP_FORMATTING=""))
        self.assertEqual((read.returncode, read.stderr), (0, ""))
        shown = " ".join(read.stdout.split())
        for command in self.commands:
            self.assertIn(f"tfdist {command} [OPTIONS]", shown)
            options = re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", self.help(command))
            self.assertEqual([option for option in options if option not in shown and option != "--help"], [])
        self.assertIn("EXIT STATUS", shown)


if __name__ == "__main__":
    unittest.main()
