"""A job in which no task writes: `status` and `why` look at its tasks and say who waits for whom."""

import json
import os
import signal
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_manners import documented_keys, keys_of
from tests.support import clusters
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

# A ps that listens, trainers that connect to one of them and wait for its answer for ever: nobody writes.
PROGRAM = """
import os, socket, sys
server = None
if os.environ["TFDIST_TASK"].startswith("ps:"):
    server = socket.create_server(("", int(sys.argv[1])))
    accepted = []
    while True:
        accepted.append(server.accept())
host, port = sys.argv[2].rsplit(":", 1)
while True:
    try:
        connection = socket.create_connection((host, int(port)))
        break
    except ConnectionRefusedError:
        pass
connection.recv(1)
"""
SILENT = 'silent_after = "1s"\n' + clusters.NO_RESTARTS


def command(ps):
    return ["python3", "-c", PROGRAM, "{port}", "{" + ps + ".address}"]


class Looks(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("look")
        self.addCleanup(self.user.close)

    def start(self, text):
        up = self.user.run("up", "-d", self.user.write("cluster.toml", text))
        self.assertEqual(up.code, 0, up)
        self.addCleanup(self.user.run, "down", "--force", "job")
        self.user.wait_until_tasks_run("job")

    def wait_for_sentence(self, *sentences):
        """Until `why` says them."""
        def said():
            text = self.user.run("why", "job").out
            return text if all(f"\n  {sentence}\n" in text for sentence in sentences) else None

        return wait_for(said, lambda: f"{sentences}: {self.user.run('why', 'job')}")

    def look(self, command="status"):
        """What the JSON has of it, once there is a look."""
        return wait_for(lambda: json.loads(self.user.run(command, "--json", "job").out)["look"], "a look")


class OnThisMachine(Looks):
    def test_the_stopped_ps_is_named_with_those_that_wait_for_it(self):
        self.start(clusters.local("job", command("ps:0"), extra=SILENT))
        self.wait_for_sentence("master:0, worker:0 do not listen on the ports that the cluster file gives them")
        os.kill(self.user.task_pid("ps:0", "job"), signal.SIGSTOP)
        why = self.wait_for_sentence("master:0, worker:0 wait for ps:0, which is stopped")
        self.assertRegex(why, r"\nno task has written anything for \d+s:\n")
        self.assertRegex(why, r"\n    ps:0 on 127\.0\.0\.1: stopped, 0 % of a CPU, silent for \d+s, 2 connections\n")
        status = self.user.run("status", "job")
        self.assertIn("\n  master:0, worker:0 wait for ps:0, which is stopped\n", status.out)
        look = self.look()
        tasks = {task["task"]: task for task in look["tasks"]}
        self.assertEqual(tasks["ps:0"]["state"], "T")
        self.assertEqual([c["task"] for c in tasks["worker:0"]["connections"]], ["ps:0"])
        self.assertEqual(sorted(c["task"] for c in tasks["ps:0"]["connections"]), ["master:0", "worker:0"])
        for name in ("status", "why"):
            documented = documented_keys("look")
            self.assertEqual(keys_of(self.look(name), documented), documented)

    def test_a_job_that_writes_is_not_looked_at(self):
        writer = "import time\nwhile True:\n    print('on', flush=True)\n    time.sleep(0.05)"  # starts nothing, which may take long
        self.start(clusters.local("job", ["python3", "-c", writer], slots=1, extra=SILENT))
        wait_for(lambda: "on" in self.user.run("logs", "job").out, "output")
        self.assertIsNone(self.user.status("job")["look"])
        self.assertNotIn("no task has written", self.user.run("why", "job").out)


    HANGS = """
import os, socket, time
if os.environ["TFDIST_TASK"] == "master:0" and ENDS:
    raise SystemExit
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(600)
"""

    def test_up_says_by_itself_why_a_job_stands_still(self):
        said = {"True": "master:0 has ended with exit code 0, and worker:0 still runs: where it waits for master:0, the job never ends",
                "False": "master:0, ps:[0-1], worker:0 do not listen on the ports that the cluster file gives them, but on "}
        for ends, sentence in said.items():
            with self.subTest(sentence):
                text = clusters.local(f"hangs-{ends}", ["python3", "-c", self.HANGS.replace("ENDS", ends)], extra=SILENT)
                up = self.user.start("up", self.user.write("hangs.toml", text))
                wait_for(lambda: sentence in up.err.read_text(), lambda: up.err.read_text())
                self.assertRegex(up.err.read_text(), r"tfdist: no task has written anything for \d+s; tfdist why ")
                up.send_signal(signal.SIGINT)
                self.assertEqual(up.wait(60), 130)


    def up_says(self, name, script, sentence, slots=2):
        text = clusters.local(name, ["python3", "-c", script], slots=slots, extra=SILENT)
        up = self.user.start("up", self.user.write(f"{name}.toml", text))
        wait_for(lambda: sentence in up.err.read_text(), lambda: up.err.read_text())
        up.send_signal(signal.SIGINT)
        self.assertEqual(up.wait(60), 130)
        return up.err.read_text()

    def test_up_says_once_that_the_first_task_has_ended_while_others_write_that_they_wait(self):
        said = self.up_says("writes", "import os, time\nif os.environ['TFDIST_TASK'] == 'master:0': raise SystemExit\n"
                            "for _ in range(6000):\n    print('waiting for master:0', flush=True)\n    time.sleep(0.1)",
                            "Where they wait for master:0, the job never ends: `done` says whose end is the job's\n")
        self.assertEqual(said.count("master:0 has ended with exit code 0, and the job goes on; still running: "), 1)

    def test_up_says_that_a_worker_has_ended_for_which_others_write_that_they_wait(self):
        said = self.up_says("another", "import os, time\nif os.environ['TFDIST_TASK'] == 'worker:1': raise SystemExit\n"
                            "for _ in range(6000):\n    print('waiting for worker:1', flush=True)\n    time.sleep(0.1)",
                            "worker:1 has ended with exit code 0, and master:0, worker:0 still run: where they wait for worker:1, the job never ends "
                            "(`done` says whose end is the job's)\n", slots=3)
        self.assertEqual(said.count("worker:1 has ended with exit code 0"), 1)

    def test_up_says_by_itself_that_tasks_listen_elsewhere_while_they_write_and_dial(self):
        """As TensorFlow's servers with a cluster of the program's own: they dial where nobody is, and write that they wait."""
        said = self.up_says("elsewhere", "import socket, time\nserver = socket.create_server(('127.0.0.1', 0))\n"
                            "for _ in range(6000):\n    print('CreateSession still waiting', flush=True)\n"
                            "    socket.socket().connect_ex(('127.0.0.1', 1))\n    time.sleep(0.1)",
                            "do not listen on the ports that the cluster file gives them, but on ")
        self.assertEqual(said.count("does the program set TF_CONFIG or its cluster itself?\n"), 1)

    def test_up_asks_for_a_tf_config_of_the_programs_own_where_nobody_listens(self):
        self.up_says("own", "import time\ntime.sleep(600)", "all tasks sleep, and none listens on the port that TF_CONFIG gives it: "
                     "does the program set TF_CONFIG or its cluster itself?")


class OnHosts(Looks):
    def test_a_connection_that_nobody_answers_and_a_stopped_task_on_other_hosts(self):
        check_possible()
        hosts = Hosts(3, own_network=True)
        hosts.start()
        self.addCleanup(hosts.stop)
        text = clusters.over_ssh("job", command("ps:1"), hosts, extra=SILENT + 'host_lost = "10m"\n')
        plan = self.user.run("render", "--json", self.user.write("plan.toml", text))
        address = {task["task"]: task["address"] for task in json.loads(plan.out)["tasks"]}["ps:1"]
        hosts[1].drop(hosts[2], address.rpartition(":")[2])
        self.start(text)
        half_open = (f"worker:1 waits for an answer from ps:1 at {address}: packets are dropped on the way, or the host "
                     "is off")
        self.wait_for_sentence(half_open)
        pid = {task["task"]: task["pid"] for task in self.user.status("job")["tasks"]}["ps:1"]
        hosts[1].run_as("root", ["kill", "-STOP", str(pid)])
        self.wait_for_sentence("master:0, worker:0 wait for ps:1, which is stopped", half_open)
        hosts[2].freeze()
        self.wait_for_sentence("master:0, worker:0 wait for ps:1, which is stopped",
                               "what ps:2, worker:1 do is not known, and they may write: no answer in time")
        hosts[2].thaw()


if __name__ == "__main__":
    unittest.main()
