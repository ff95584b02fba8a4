"""Where tasks wait until the test lets them go on: a FIFO, so that nobody asks again and again."""

import os
import shlex


class Gate:
    def __init__(self, test):
        """In the folder of the test's user."""
        self._test = test
        self.path = test.user.folder / "gate"
        os.mkfifo(self.path)
        # For a shell: to open it is to wait for a writer (fifo(7)).
        self.wait = f": <{shlex.quote(str(self.path))}"

    def open(self):
        """Lets those through who wait, and those who come later."""
        writer = os.open(self.path, os.O_RDWR)  # never waits on Linux
        self._test.addCleanup(os.close, writer)
