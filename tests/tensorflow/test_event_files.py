"""What the built-in runtime's chief writes with --summary-dir, read by the real TensorBoard."""

import json
import subprocess
import unittest

from tests.support import clusters, environments
from tests.support.tfdist import ROOT, Tfdist

# Prints {tag: [[step, value], ...]} of a folder of event files.
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


class EventFiles(unittest.TestCase):
    def setUp(self):
        environment = environments.tensorflow()
        if not environment.installed():
            raise unittest.SkipTest(f"no {environment.folder.name} here; scripts/test --tensorflow installs it")
        self.python = environment.folder / "bin/python"
        self.user = Tfdist("event_files")
        self.addCleanup(self.user.close)

    def scalars(self, folder):
        out = subprocess.run([self.python, "-c", READER, folder], check=True, capture_output=True, timeout=300).stdout
        return json.loads(out.splitlines()[-1])

    def test_tensorboard_reads_what_the_chief_writes(self):
        folder = self.user.folder / "logs"
        command = ["{runtime}", "--data", "digits", "--steps", "500", "--eval-every", "100", "--summary-dir", str(folder)]
        text = clusters.local("digits", command, task_extra=f'workdir = "{ROOT / "configs/data"}"')
        result = self.user.run("up", self.user.write("digits.toml", text))
        self.assertEqual(result.code, 0, result)
        scalars = self.scalars(folder)
        accuracy = scalars["accuracy/test"]
        self.assertGreaterEqual(len(accuracy), 5)
        self.assertGreaterEqual(accuracy[-1][0], 500)
        self.assertGreater(accuracy[-1][1], 0.8)
        self.assertEqual([step for step, _ in accuracy], sorted(step for step, _ in accuracy))
        for tag in ("loss/train", "loss/test", "learning_rate", "speed/steps_per_second", "speed/bytes_per_second",
                    "speed/staleness", "speed/waiting", "server_bytes_per_second/ps:0", "server_bytes_per_second/ps:1",
                    "server_queue/ps:0", "server_held/ps:0", "server_load/ps:0", "server_load/ps:1"):
            self.assertIn(tag, scalars)
