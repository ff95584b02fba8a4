"""A TensorFlow job that hangs: `tfdist why` says who waits for whom, with their Python stacks."""

import os
import re
import signal

from tests.support.waiting import wait_for
from tests.tensorflow import jobs
from tests.tensorflow.jobs import setUpModule  # noqa: F401


class Silent(jobs.TensorFlowJobs):
    def test_workers_wait_for_a_ps_that_is_stopped_and_go_on_once_it_does(self):
        hosts = self.start_hosts(2)
        path = self.put_on(hosts, "tf1/async.toml", ('name = "tf1"', 'name = "tf1"\nsilent_after = "3s"'),
                           ('"--checkpoint_dir={shared}/tf1"', '"--checkpoint_dir={shared}/tf1", "--steps=8000"'))
        up = self.user.start("up", path)
        wait_for(lambda: re.search(r"worker:1 \| step [1-9]\d{2,}", up.out.read_text()),
                 lambda: f"training: {up.out.read_text()}{up.err.read_text()}", jobs.SECONDS)
        _, pid = jobs.task_process(hosts, "ps:1")
        os.kill(pid, signal.SIGSTOP)
        why = wait_for(self.said, lambda: f"the sentence: {self.user.run('why')}", 120)
        # Where each worker stands in its program.
        self.assertEqual(len(re.findall(r"train \(trainer\.py:\d+\)", why)), 2, why)
        print(f"\n{why}", flush=True)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(up.wait(jobs.SECONDS), 0, up.err.read_text())
        self.assert_learned(up.out.read_text())
        self.assert_nothing_left(hosts)

    def said(self):
        why = self.user.run("why").out
        return why if "\n  worker:[0-1] wait for ps:1, which is stopped\n" in why else None
