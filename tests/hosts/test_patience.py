"""Hosts, ways and networks that take as long as ssh waits for: tfdist waits as well, with either program."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock

from tests.hosts.hosts import Hosts, check_possible
from tests.hosts.probe import client_config, probe
from tests.hosts.test_slow import Picky, set_first, with_slow_logins
from tests.hosts.test_ssh import RELAY
from tests.support.tfdist import Tfdist
from tests.support.waiting import PATIENCE, wait_for


def setUpModule():
    check_possible()


class SlowLoginTest(unittest.TestCase):
    def test_a_host_that_begins_the_login_is_waited_for(self):
        """Longer than a host that has lost its power: silent, or with a banner."""
        text = "Visit https://login.example.com/a1b2 to go on"
        with Hosts(2) as hosts, concurrent.futures.ThreadPoolExecutor(4) as pool:
            for host in hosts:
                with_slow_logins(host, 17)
            (hosts[1].folder / "etc/ssh/page").write_text(text + "\n")
            set_first(hosts[1], "Banner /etc/ssh/page")
            ways = [(host, transport) for host in ("h1", "h2") for transport in ("auto", "openssh")]
            results = pool.map(lambda way: probe(hosts.ssh_config, "open", way[0], transport=way[1]), ways)
            for (host, transport), result in zip(ways, results):
                self.assertTrue(result["ok"], (host, transport, result))
                said, *slow = result["notes"] if host == "h2" else [f"it says: {text}", *result["notes"]]
                self.assertEqual(said, f"it says: {text}")
                self.assertTrue(all(re.fullmatch(r"connected; waits for the login, up to \d+ s more", note) for note in slow), result)
                self.assertTrue(slow or host == "h2", result)


class StartUpFilesTest(unittest.TestCase):
    def test_start_up_files_that_take_longer_than_a_minute(self):
        """As where they load modules from a slow file system: each command waits, and says for what."""
        with Hosts(1, bashrc="sleep 70\n") as hosts, Tfdist("start-up") as user, concurrent.futures.ThreadPoolExecutor(5) as pool:
            way = ["-F", str(hosts.ssh_config), "-H", "h1"]
            commands = [["exec", *way, "--", "true"], ["exec", "--transport", "openssh", *way, "--", "true"], ["list", *way],
                        ["up", *way, "--no-workdir", "--", "true"], ["check", *way, "--no-workdir", "--name", "checked", "--", "true"]]
            for done in pool.map(lambda words: user.run(*words, seconds=300), commands):
                done.expect(0)
                self.assertIn("tfdist: h1: logged in; waits for the start-up files of the account", done.err)


class Late(Picky):
    """A port that takes a connection and waits for a while before it hands it to an sshd."""

    def __init__(self, host, seconds):
        self.seconds = seconds
        super().__init__(host, 1 << 30, silent=False)

    def serve(self):
        with contextlib.suppress(OSError):  # shutdown() ends accept()
            while True:
                near = self.socket.accept()[0]
                self.held.append(near)
                self.threads.append(threading.Thread(target=self.begin, args=(near,)))
                self.threads[-1].start()

    def begin(self, near):
        time.sleep(self.seconds)
        far = socket.create_connection(self.peer)
        self.held.append(far)
        there = threading.Thread(target=self.copy, args=(near, far, False))
        there.start()
        self.copy(far, near, False)
        with contextlib.suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)
        there.join()


CONNECTED = "connected; waits for its SSH version"


class LateVersionTest(unittest.TestCase):
    def test_a_host_or_a_way_that_takes_long_until_the_version(self):
        with Hosts(2) as hosts, Late(hosts[0], 30) as late, concurrent.futures.ThreadPoolExecutor(8) as pool:
            known = hosts.folder / "late_hosts"
            known.write_text(f"* {hosts[0].host_key()}\n")
            relay = hosts.folder / "relay.py"
            relay.write_text(RELAY)
            port = ("Host h1", "HostName 127.0.0.1", f"Port {late.port}", f"UserKnownHostsFile {known}")
            direct, behind = (*port, "Host *"), (*port, "ProxyJump h2", "Host *")
            way = (f"ProxyCommand sh -c 'sleep 25; exec python3 {relay} %h %p'",)
            cases = [("plain", direct, "auto"), ("plain_ssh", direct, "openssh"), ("behind", behind, "auto"),
                     ("behind_ssh", behind, "openssh"), ("patient", (*direct, "ConnectTimeout 60"), "auto"), ("way", way, "auto"),
                     ("way_ssh", way, "openssh")]
            configs = [client_config(hosts, f"{name}_config", *lines) for name, lines, _ in cases]
            results = pool.map(lambda config, case: probe(config, "open", "h1", transport=case[2]), configs, cases)
            for (name, _, _), result in zip(cases, results):
                self.assertTrue(result["ok"], (name, result))
                notes = [note for note in result.get("notes", []) if not note.startswith("by your own ssh: ")]
                waits = re.escape("waits for a way to it (DNS, ProxyCommand)") if name.startswith("way") else CONNECTED
                self.assertTrue(all(re.fullmatch(rf"{waits}, up to \d+ s more", note) for note in notes), (name, notes))
                self.assertEqual(len(notes), 1, (name, notes))

    def test_behind_a_jump_host_by_an_ssh_that_says_nothing(self):
        """As a script around ssh does that drops its stderr."""
        with Hosts(2) as hosts, Late(hosts[0], 25) as late:
            known = hosts.folder / "late_hosts"
            known.write_text(f"* {hosts[0].host_key()}\n")
            config = client_config(hosts, "mute_config", "Host h1", "HostName 127.0.0.1", f"Port {late.port}", f"UserKnownHostsFile {known}",
                                   "ProxyJump h2", "Host *")
            wrapper = hosts.folder / "bin/ssh"
            wrapper.parent.mkdir()
            wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} "$@" 2>/dev/null\n')
            wrapper.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}):
                result = probe(config, "open", "h1")
            self.assertTrue(result["ok"], result)

    def test_a_host_that_says_no_version_is_an_error_after_a_minute(self):
        """Or earlier, where the user's ssh would end."""
        cases = [((), "auto", 60), ((), "openssh", 60), (("ConnectTimeout 12",), "auto", 12), (("ConnectTimeout 12",), "openssh", 12)]
        with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(4) as pool:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            socket_ = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            configs = []
            for number, (lines, _, _) in enumerate(cases):
                configs.append(folder / f"config{number}")
                configs[-1].write_text("\n".join([*lines, "Host *", "HostName 127.0.0.1", f"Port {socket_.getsockname()[1]}"]) + "\n")

            def look(config, case):
                begin = time.monotonic()
                return probe(config, "open", "h1", transport=case[1]), time.monotonic() - begin
            for (lines, transport, seconds), (result, spent) in zip(cases, pool.map(look, configs, cases)):
                self.assertFalse(result["ok"])
                self.assertRegex(result["cause"], "said nothing|timed out during banner exchange|timed out", result)
                self.assertGreater(spent, seconds - 1, (lines, transport, result))
                self.assertLess(spent, seconds + 11 + PATIENCE * 15, (lines, transport, result))


class NamedTest(unittest.TestCase):
    def test_every_command_names_a_host_that_it_waits_for(self):
        """After 5 s: which host, what for, and for how long still; one that answers is not named."""
        with Hosts(1) as hosts, Tfdist("named") as user, socket.create_server(("127.0.0.1", 0)) as silent, \
                concurrent.futures.ThreadPoolExecutor(8) as pool:
            config = client_config(hosts, "named_config", "Host mute", "HostName 127.0.0.1", f"Port {silent.getsockname()[1]}",
                                   "ConnectTimeout 10", "Host *")
            way = ["-F", str(config), "-H", "mute,h1"]
            commands = [["up", *way, "--no-workdir", "--", "true"], ["up", "-q", *way, "--no-workdir", "--name", "quiet", "--", "true"],
                        ["check", *way, "--no-workdir", "--", "true"], ["exec", *way, "--", "true"],
                        *([name, *way] for name in ("status", "logs", "list", "clean")), ["down", "job", *way]]
            for command, done in zip(commands, pool.map(lambda words: user.run(*words, seconds=60), commands)):
                named = re.findall(r"^tfdist: (\S+): (.*), up to \d+ s more$", done.err, re.MULTILINE)
                self.assertEqual(named, [("mute", CONNECTED)], (command, done.err))


class LostPacketsTest(unittest.TestCase):
    def setUp(self):
        self.hosts = Hosts(1, own_network=True)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)

    def test_the_first_packets_of_a_connection_may_be_lost(self):
        host = self.hosts[0]
        for transport in ("auto", "openssh"):
            host.drop_all()
            back = threading.Timer(8, host.take_all)
            back.start()
            result = probe(self.hosts.ssh_config, "open", "h1", transport=transport)
            back.join()
            self.assertTrue(result["ok"], result)

    def test_a_host_without_power_is_an_error_soon(self):
        """Also where a version would be waited for longer."""
        host = self.hosts[0]
        host.drop_all()
        for transport, seconds in (("auto", 11), ("openssh", 21)):
            begin = time.monotonic()
            result = probe(self.hosts.ssh_config, "open", "h1", transport=transport)
            self.assertIn("no answer", result["cause"])
            self.assertIn(host.address, result["cause"])
            self.assertLess(time.monotonic() - begin, seconds + PATIENCE * 10, transport)
            for left in re.findall(r"up to (\d+) s more", " ".join(result.get("notes", []))):
                self.assertLess(int(left), seconds, result)

    def test_a_firewall_that_counts_and_drops_is_tried_again(self):
        host = self.hosts[0]
        with Tfdist("dropping") as user:
            for transport in ("auto", "openssh"):
                command = ["exec", "-F", str(self.hosts.ssh_config), "--transport", transport, "-H", "h1", "--", "true"]
                host.drop_all()
                if transport == "auto":  # nothing is remembered yet
                    off = user.run(*command).expect(3)
                    self.assertIn("no answer", off.err)
                    self.assertNotIn("trying again", off.err)
                host.take_all()
                for _ in range(5):
                    user.run(*command).expect(0)
                host.drop_all()
                running = user.start(*command)
                wait_for(lambda: b"h1: it takes no connection after several in a minute" in running.err.read_bytes(), "a second try")
                host.take_all()
                self.assertEqual(running.wait(PATIENCE * 60), 0, running.err.read_text())


SILENT = ["--", "sh", "-c", "sleep 20; echo ended"]


class IdleConnectionsTest(unittest.TestCase):
    """sshd, or something on the way, ends connections on which nothing comes. A channel's own limit: test_exec's IdleChannels."""

    def at_once(self, user, config, commands):
        """What each of them comes to, with either program."""
        ways = [(transport, number) for number in range(len(commands)) for transport in ("auto", "openssh")]

        def run(way):
            transport, number = way
            command, *words = commands[number]
            name = ["--name", f"job{transport}", "--no-workdir"] if command == "up" else []
            return user.run(command, "-F", str(config), "--transport", transport, *name, *words, seconds=300)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return dict(zip(ways, pool.map(run, ways)))

    def test_an_sshd_that_asks_and_wants_an_answer_soon(self):
        with Hosts(1, sshd_lines=("ClientAliveInterval 2", "ClientAliveCountMax 1")) as hosts, Tfdist("alive") as user:
            for done in self.at_once(user, hosts.ssh_config, [("exec", "-H", "h1", *SILENT), ("up", "-H", "h1", *SILENT)]).values():
                self.assertRegex(done.expect(0).out, r"\| ended$")
                self.assertNotIn("connect", done.err.replace("a lost connection does not", ""))

    @unittest.skipUnless(shutil.which("iptables"), "no iptables")
    def test_a_firewall_that_forgets(self):
        """It drops what is of no connection that it knows, and knows one for 4 s after its last packet. ssh waits for ever."""
        with Hosts(1, own_network=True) as hosts, Tfdist("forgets") as user:
            subprocess.run(["nsenter", f"--target={hosts[0].pid}", "--net", "sh", "-ec", """
                iptables -A INPUT -p tcp ! --syn -m conntrack --ctstate INVALID,NEW -j DROP
                iptables -A OUTPUT -p tcp -m conntrack --ctstate INVALID,NEW -j DROP
                cd /proc/sys/net/netfilter
                echo 0 >nf_conntrack_tcp_loose
                echo 4 >nf_conntrack_tcp_timeout_established"""], check=True)
            for (transport, number), done in self.at_once(user, hosts.ssh_config, [("exec", "-H", "h1", *SILENT), ("up", "-H", "h1", *SILENT)]).items():
                if number == 0:
                    self.assertRegex(done.expect(3).err, r"the connection (of your own ssh )?broke.*\n  try: is the host up\? A firewall or a router", transport)
                else:
                    self.assertRegex(done.expect(0).out, r"\| ended$")
                    self.assertIn("connecting again", done.err)


class LargePacketsTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("iptables"), "no iptables")
    def test_a_way_that_lets_none_through(self):
        """As a VPN does whose MTU nobody knows. libssh2 sends none before the script for the host's shell, ssh in its key exchange."""
        with Hosts(1, own_network=True) as hosts, Tfdist("large") as user, concurrent.futures.ThreadPoolExecutor(4) as pool:
            subprocess.run(["nsenter", f"--target={hosts[0].pid}", "--net", "iptables", "-A", "INPUT", "-m", "length",
                            "--length", "1491:65535", "-j", "DROP"], check=True)
            way = ["-F", str(hosts.ssh_config), "-H", "h1"]
            commands = [[name, "--transport", transport, *way, *more, "--", "true"] for transport in ("auto", "openssh")
                        for name, more in (("exec", []), ("up", ["--no-workdir", "--name", transport]))]
            for words, done in zip(commands, pool.map(lambda words: user.run(*words, seconds=100), commands)):
                self.assertRegex(done.expect(3).err, r"(connection broke|the key exchange).*\n  try: .*\(the MTU of a VPN\)", words)


if __name__ == "__main__":
    unittest.main()
