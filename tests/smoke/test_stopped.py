"""Agents, keepers and holders that are stopped (SIGSTOP): their hosts answer, and they do not."""

import pathlib
import re
import signal
import time
import unittest

from tests.hosts.hosts import Hosts, check_possible
from tests.smoke.test_local import shell
from tests.smoke.test_ssh import hosts_told_of
from tests.support import clusters, processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import PATIENCE, wait_for

# Its end by SIGTERM is in its log.
TRAINER = 'trap "echo bye; exit 3" TERM; echo begun; sleep infinity & wait'
# Before, each of these commands waited for 40 s at least.
SOON = 30 * PATIENCE


def setUpModule():
    check_possible()


class Stopped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3)
        cls.hosts.start()
        cls.addClassCleanup(cls.hosts.stop)

    def setUp(self):
        self.user = Tfdist("stopped")
        self.addCleanup(self.user.close)
        self.file = self.user.write("cluster.toml", clusters.over_ssh("job", shell(TRAINER), self.hosts, layout="mirrored"))
        self.addCleanup(self.let_all_go_on)

    def let_all_go_on(self):
        for host in self.hosts:
            host.thaw()
        self.user.run("down", "--force", "--purge", "--yes", "job")

    def start(self):
        self.user.run("up", "-d", self.file).expect(0)
        self.user.wait_until_tasks_run()

    def stop(self, slot, *roles):
        """Their pids, as the host has them."""
        mine = [process for process in self.hosts[slot].processes() if processes.name_of(process.pid).startswith(roles)]
        self.assertEqual(len(mine), len(roles), mine)
        for process in mine:
            processes.kill(process.pid, signal.SIGSTOP)
        return [process.pid_there for process in mine]

    def run_soon(self, *words):
        begun = time.monotonic()
        result = self.user.run(*words)
        self.assertLess(time.monotonic() - begun, SOON, result)
        return result

    def assert_ended_gracefully(self, down, slots=(0, 1, 2)):
        self.assertEqual(down.code, 0, down)
        self.assertIn("ended; nothing is left on 3 of 3 hosts\n", down.err)
        logs = self.user.run("logs", "job")
        self.assertEqual(sorted(logs.out.splitlines()),
                         sorted(f"worker:{slot} | {line}" for slot in range(3) for line in ("begun", *(["bye"] if slot in slots else []))))

        def left():
            return {host.name: [p.argv for p in host.processes()] for host in self.hosts if host.processes()}
        wait_for(lambda: not left(), lambda: f"nothing left on the hosts; there is {left()}")

    def assert_goes_on(self, down, slot):
        self.assertIn(f"tfdist: {self.hosts[slot].address}: its agent was stopped, and goes on (SIGCONT)\n", down.err)

    def test_down_lets_the_agent_of_the_first_host_go_on(self):
        self.start()
        self.stop(0, "tfdist-agent")
        down = self.run_soon("down", "job")
        self.assert_goes_on(down, 0)
        self.assert_ended_gracefully(down)
        self.assertEqual(self.user.status("job")["state"], "stopped")

    def test_down_lets_the_agent_of_a_further_host_go_on(self):
        self.start()
        self.stop(2, "tfdist-agent")
        down = self.run_soon("down", "job")
        self.assert_goes_on(down, 2)
        self.assert_ended_gracefully(down)
        events = self.user.run("events", "job").expect(0)
        self.assertIn(f"host {self.hosts[2].address}: slow: ", events.out)
        self.assertNotIn(": lost: ", events.out)

    def test_down_of_a_frozen_first_host_ends_the_others_meanwhile(self):
        self.start()
        self.hosts[0].freeze()
        down = self.user.start("down", "job")
        awaited = f"tfdist: waiting for {self.hosts[0].address}; 2 other hosts have answered\n"
        wait_for(lambda: awaited in down.err.read_text(), lambda: down.err.read_text(), 30)
        self.assertEqual([self.hosts[slot].processes() for slot in (1, 2)], [[], []])
        self.hosts[0].thaw()
        self.assertEqual(down.wait(60), 0, down.err.read_text())
        self.assertIn("ended; nothing is left on 3 of 3 hosts\n", down.err.read_text())

    def test_who_looks_is_told_of_an_agent_that_was_just_stopped_on_a_further_host(self):
        self.file = self.user.write("cluster.toml", clusters.over_ssh("job", shell(TRAINER), self.hosts, layout="mirrored",
                                                                      extra='[restart]\nhost_lost = "60s"\n'))
        self.start()
        [pid] = self.stop(1, "tfdist-agent")
        host = self.hosts[1].address
        said = f"its agent is stopped (state T): kill -CONT {pid} there lets it go on"
        line = f"host {host}, asked just now: {said}\n"
        self.assertIn(line, self.run_soon("status", "job").expect(0).out)
        slot = self.user.status("job")["hosts"][1]
        self.assertEqual((slot["state"], slot["why"]), ("silent", said), slot)
        self.assertIn(line, self.run_soon("why", "job").expect(0).out)

    def test_down_force_lets_all_agents_go_on(self):
        self.start()
        for slot in range(3):
            self.stop(slot, "tfdist-agent")
        down = self.run_soon("down", "--force", "job")
        for slot in range(3):
            self.assert_goes_on(down, slot)
        self.assert_ended_gracefully(down, slots=())

    def test_who_looks_reads_the_files_of_the_first_host_and_is_told_why(self):
        self.start()
        [pid] = self.stop(0, "tfdist-agent")
        host = self.hosts[0].address
        said = f"its agent is stopped (state T): kill -CONT {pid} there lets it go on\n"
        status = self.run_soon("status", "job").expect(0)
        self.assertIn("job job-", status.out)
        self.assertIn(f"  its agent on {host} is stopped (state T): kill -CONT {pid} there lets it go on; tfdist down ", status.out)
        self.assertIn(f"waits for its agent on {host}, which is stopped (state T): kill -CONT {pid} ", self.run_soon("why", "job").expect(0).out)
        logs = self.run_soon("logs", "job").expect(0)
        self.assertEqual(sorted(logs.out.splitlines()), [f"worker:{slot} | begun" for slot in range(3)])
        for told in (status, logs, self.run_soon("events", "job").expect(0), self.run_soon("list")):
            self.assertEqual(told.err.count(f"tfdist: {host}: {said}"), 1, told)
        seen = self.user.status("job")
        self.assertEqual((seen["state"], seen["hosts"][0]["state"]), ("unwatched", "silent"))
        self.assertEqual(seen["hosts"][0]["why"] + "\n", said)

    def with_slots(self, count):
        text = clusters.over_ssh("job", shell(TRAINER), self.hosts, layout="mirrored")
        text = re.sub("(?m)^ports = .*$", 'ports = "auto"', text).replace('" }', f'", slots = {count} }}')
        return self.user.write("slots.toml", text)

    def test_a_frozen_host_with_several_slots_is_tried_once(self):
        self.user.run("up", "-d", self.with_slots(4)).expect(0)
        self.user.wait_until_tasks_run()
        self.user.run("down", "job").expect(0)
        self.hosts[1].freeze()
        logs = self.run_soon("logs", "job").expect(3)
        self.assertEqual(len(set(logs.out.splitlines())), 8 * 2, logs)
        self.assertEqual(logs.err.count("output is missing"), 1, logs)

    def test_a_host_with_several_slots_is_told_of_once(self):
        up = self.user.start("up", self.with_slots(3))
        self.user.wait_until_tasks_run()
        name = self.hosts[1].address
        pids = [process.pid for process in self.hosts[1].processes() if processes.name_of(process.pid).startswith("tfdist-agent")]
        self.assertEqual(len(pids), 3, up.err.read_text())
        for pid in pids:
            processes.kill(pid, signal.SIGSTOP)
        lost = f"tfdist: {name}: lost: "
        wait_for(lambda: lost in up.err.read_text(), "the host is lost")
        wait_for(lambda: [host["state"] for host in self.user.status("job")["hosts"]].count("lost") == 3, "all of its slots are lost")
        status = self.user.run("status", "job")
        self.assertEqual(len(re.findall(rf"(?m)^host {name}: lost since ", status.out)), 1, status.out)
        self.assertEqual(status.out.count("starts its agent there"), 1, status.out)
        why = self.user.run("why", "job")
        self.assertEqual(why.out.count(f"waits for host {name}, which has been lost for "), 1, why.out)
        self.assertEqual(why.out.count("asked just now"), 1, why.out)
        for pid in pids:
            processes.kill(pid, signal.SIGCONT)
        wait_for(lambda: f"tfdist: {name}: connected again\n" in up.err.read_text(), "up says that the host is back")
        for words in (f"{name}: slow: ", lost, f"{name}: connected again"):
            self.assertEqual(up.err.read_text().count(words), 1, up.err.read_text())
        events = self.user.run("events", "job").out
        for word in ("clock of {}: ", "host {}: slow: ", "host {}: lost: "):
            self.assertEqual(events.count(word.format(name)), 1, events)
        self.user.run("down", "job").expect(0)
        self.assertEqual(up.wait(), 1, up.err.read_text())

    def test_the_other_hosts_say_that_theirs_are_stopped(self):
        self.start()
        for slot in (0, 1):
            self.stop(slot, "tfdist-agent")
        status = self.run_soon("status", "job").expect(0)
        self.assertRegex(status.out, rf"worker:1 .* {self.hosts[1].address} .* unknown \(its agent does not answer\)\n")
        self.assertRegex(status.out, rf"worker:2 .* {self.hosts[2].address} .* running, as its host's agent says\n")
        # The backlog of a stopped agent's socket has room for 64.
        for _ in range(70):
            self.user.run("status", "job").expect(0)
        self.assert_ended_gracefully(self.run_soon("down", "job"))

    def test_an_attached_up_waits_for_it_and_sees_the_end(self):
        up = self.user.start("up", self.file)
        self.user.wait_for_output(up, b"begun")
        self.user.wait_until_tasks_run()
        self.stop(0, "tfdist-agent")
        wait_for(lambda: "connection lost (" in up.err.read_text(), lambda: up.err.read_text())
        self.assertIsNone(up.poll())
        self.assert_ended_gracefully(self.run_soon("down", "job"))
        self.assertEqual(up.wait(60), 1, up.err.read_text())
        self.assertIn("tfdist: connected again\n", up.err.read_text())

    def test_keeper_and_holder_that_are_stopped_go_on_to_end_their_task(self):
        for roles in (["tfdist-keeper"], ["tfdist-holder"], ["tfdist-keeper", "tfdist-holder", "tfdist-agent"]):
            for slot in (0, 2):
                with self.subTest(roles=roles, slot=slot):
                    self.start()
                    self.stop(slot, *roles)
                    self.assert_ended_gracefully(self.run_soon("down", "job"))

    def asking(self):
        return f"tfdist: {self.hosts[0].address}: does not answer; asking the other hosts of the job\n"

    def test_of_a_frozen_first_host_the_others_are_asked_within_seconds(self):
        self.start()
        self.hosts[0].freeze()
        for words in (["status", "job"], ["why", "job"], ["events", "job"]):
            said = self.run_soon(*words).expect(3)
            self.assertEqual(said.err.count(self.asking()), 1, said)
            self.assertEqual(hosts_told_of(said.out, ": its agent has not heard the coordinator for "), 2, said)
        logs = self.run_soon("logs", "job").expect(3)
        self.assertEqual(sorted(logs.out.splitlines()), ["worker:1 | begun", "worker:2 | begun"])
        pull = self.run_soon("pull", "job").expect(3)
        for said in (logs, pull):
            self.assertEqual(said.err.count(self.asking()), 1, said)
            self.assertIn(f"{self.hosts[0].address}: connect: it took the connection and then said nothing", said.err)

    def test_a_first_host_that_lets_one_log_in_and_then_hangs_is_given_up_as_soon(self):
        self.start()
        self.stop(0, "tfdist-agent", "tfdist-keeper")
        start_up = self.hosts[0].home / ".bashrc"

        def let_in():  # sshd leaves running what the logins have begun
            start_up.unlink()
            for process in self.hosts[0].processes():
                if process.argv == ["sleep", "86399"]:
                    processes.kill(process.pid)
        self.addCleanup(let_in)
        start_up.write_text("exec sleep 86399\n")
        # Before, 5 minutes each.
        for words in (["status", "job"], ["logs", "job"], ["wait", "job"]):
            said = self.run_soon(*words).expect(3)
            self.assertEqual(said.err.count(self.asking()), 1, said)
            self.assertIn("it lets one log in, and then says nothing", said.err)

    def test_an_up_that_was_stopped_while_it_sets_up_starts_again(self):
        self.file = self.user.write("cluster.toml", pathlib.Path(self.file).read_text() + '[setup]\ncommand = ["sleep", "15"]\n')
        up = self.user.start("up", "-d", self.file)
        wait_for(lambda: "tfdist: set-up: " in up.err.read_text() or "waiting for" in up.err.read_text(), lambda: up.err.read_text(), 30)
        up.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        wait_for(lambda: time.monotonic() - begun > 40, "the hosts give it up after 30 s", 60)
        up.send_signal(signal.SIGCONT)
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.assertRegex(up.err.read_text(), r"tfdist: `up` itself stood still for 4\d s \(Ctrl-Z\?\), and its hosts have given it up; starting again\n")
        self.assertNotIn("hung up", up.err.read_text())

    def seconds_of(self, process, limit):
        """When each line came, on stdout and stderr, counted from now."""
        begun = time.monotonic()
        seen = {}

        def look():
            for path in (process.out, process.err):
                for line in path.read_text().splitlines():
                    seen.setdefault(line, time.monotonic() - begun)

        def ended():
            look()
            return process.poll() is not None
        wait_for(ended, lambda: f"the end; there is {seen}", limit)
        look()
        return seen

    def test_where_no_host_answers_the_network_of_this_machine_is_named(self):
        self.start()
        for host in self.hosts:
            host.freeze()
        status = self.user.run("status", "job").expect(3)
        self.assertRegex(status.err, r"; nor does any other host of the job answer\n  try: see whether this machine's network ")

    def test_a_frozen_further_host_is_given_up_and_holds_up_no_other(self):
        self.start()
        self.hosts[1].freeze()
        host = self.hosts[1].address
        silent = f"tfdist: {host}: connect: it took the connection and then said nothing"
        for words, healthy in ((["logs", "job"], {f"worker:{slot} | begun" for slot in (0, 2)}),
                               (["exec", "job", "--", "hostname"], {f"{self.hosts[slot].address} | {self.hosts[slot].name}" for slot in (0, 2)})):
            with self.subTest(words):
                command = self.user.start(*words)
                seen = self.seconds_of(command, SOON)
                self.assertEqual(command.returncode, 3, seen)
                self.assertLessEqual(healthy, seen.keys())
                self.assertLess(max(seen[line] for line in healthy), 5 * PATIENCE, seen)
                self.assertIn(f"tfdist: waiting for {'output from ' if words[0] == 'logs' else ''}{host}{'' if words[0] == 'logs' else ' to answer'}", seen)
                self.assertEqual(sum(silent.removeprefix("tfdist: ") in line for line in seen), 1, seen)
                self.assertIn("  try: is it an sshd that listens on that port? Its machine may be too busy", seen)
        for words in (["pull", "job"], ["list", self.file]):
            with self.subTest(words):
                said = self.run_soon(*words).expect(3)
                self.assertEqual(said.err.count(silent), 1, said)
        down = self.user.start("down", "job")
        wait_for(lambda: f"tfdist: {host}: connected; waits for its SSH version, up to " in down.err.read_text(), "a word", 30)
        self.hosts[1].thaw()
        self.assertEqual(down.wait(60), 0, down.err.read_text())
        # The job is over, so each log is read from its host.
        self.hosts[1].freeze()
        logs = self.user.start("logs", "job")
        seen = self.seconds_of(logs, SOON)
        self.assertLess(max(seen[f"worker:{slot} | begun"] for slot in (0, 2)), 10 * PATIENCE, seen)
        logs = self.user.start("logs", "job")
        wait_for(lambda: f"tfdist: {host}: connected; waits for its SSH version, up to " in logs.err.read_text(), "a word", 30)
        interrupted = time.monotonic()
        logs.send_signal(signal.SIGINT)
        self.assertEqual(logs.wait(30), 130, logs.err.read_text())
        self.assertLess(time.monotonic() - interrupted, 3 * PATIENCE)
        self.assertIn(f"tfdist: worker:1: output is missing: {silent.removeprefix('tfdist: ')}", seen)

    def test_a_first_host_that_is_slow_and_lives_is_waited_for(self):
        self.start()
        sshd = [p.pid for p in self.hosts[0].processes(with_sshd=True) if processes.name_of(p.pid) == "sshd"]
        for pid in sshd:
            processes.kill(pid, signal.SIGSTOP)
        status = self.user.start("status", "job")
        wait_for(lambda: self.asking() in status.err.read_text(), "a word", 25)
        self.assertIn(f"tfdist: waiting for {self.hosts[0].address} to answer\n", status.err.read_text())
        # Had they said that it is off, nothing would be waited for any more.
        for pid in sshd:
            processes.kill(pid, signal.SIGCONT)
        self.assertEqual(status.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
