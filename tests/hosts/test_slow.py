"""Hosts, agents and jump hosts that take their time: each is waited for, tried again, or named."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

from tests.hosts import probe as probes
from tests.hosts.hosts import Hosts, check_possible
from tests.hosts.probe import client_config, probe, probe_all
from tests.hosts.test_ssh import RELAY, Listener, ssh_agent
from tests.support import processes
from tests.support.tfdist import Tfdist
from tests.support.waiting import PATIENCE, wait_for

# slow_agent.py REAL PROXY SECONDS BACKLOG: an agent that signs one by one, as a smartcard does, and takes few connections.
SLOW_AGENT = """
import os, socket, struct, sys, threading, time
real, proxy, delay, backlog = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
card, server = threading.Lock(), socket.socket(socket.AF_UNIX)
server.bind(proxy)
server.listen(backlog)
def get(connection):
    head = connection.recv(4, socket.MSG_WAITALL)
    return head + connection.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL) if len(head) == 4 else b""
def serve(connection):
    agent = socket.socket(socket.AF_UNIX)
    agent.connect(real)
    while message := get(connection):
        with card:
            if message[4] == 13:
                time.sleep(delay)
            agent.sendall(message)
            connection.sendall(get(agent))
while True:
    if backlog < 8:
        time.sleep(0.02)
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


def setUpModule():
    check_possible()


def set_first(host, *lines):
    """The first line of a keyword is the one that sshd takes."""
    config = host.folder / "etc/ssh/sshd_config"
    config.write_text("\n".join(lines) + "\n" + config.read_text())
    host._reload()


def with_slow_logins(host, seconds):
    slow = host.folder / "etc/ssh/slow-keys"
    slow.write_text(f"#!/bin/sh\nsleep {seconds}\ncat /etc/ssh/authorized_keys\n")
    slow.chmod(0o755)
    set_first(host, "AuthorizedKeysCommand /etc/ssh/slow-keys", "AuthorizedKeysCommandUser root", "AuthorizedKeysFile none")


@contextlib.contextmanager
def slow_agent(folder, key, seconds, backlog):
    program, path = folder / "slow_agent.py", folder / "slow.sock"
    program.write_text(SLOW_AGENT)
    with ssh_agent(folder, key) as agent:
        slow = subprocess.Popen([sys.executable, program, agent, path, str(seconds), str(backlog)])
        try:
            wait_for(path.exists, "slow agent")
            yield path
        finally:
            slow.kill()
            slow.wait()
            path.unlink()


class SlowAgentTest(unittest.TestCase):
    def test_waiting_for_the_agent_does_not_count_against_the_host(self):
        """Eight signatures take longer than a host may take for a login."""
        with Hosts(4) as hosts:
            for backlog in (128, 1):
                with self.subTest(backlog=backlog), slow_agent(hosts.folder, hosts.key, 0.4, backlog) as agent:
                    config = client_config(hosts, "slow_config", f"IdentityAgent {agent}", "IdentitiesOnly no", "IdentityFile none")
                    config.write_text(config.read_text().replace(f"IdentityFile {hosts.key}\n", ""))
                    results = probe_all(config, "open", *["h1", "h2", "h3", "h4"] * 2, authentication_ms=2000)
                    self.assertEqual([result["ok"] for result in results], [True] * 8, results)


    def test_a_slow_agent_is_named_and_has_no_deadline_of_the_host(self):
        """Neither with libssh2 nor with the user's ssh: a signature takes longer than a login may."""
        limits = {"tcp_ms": 2000, "banner_ms": 1000, "key_exchange_ms": 1000, "authentication_ms": 2000}
        with Hosts(1) as hosts, slow_agent(hosts.folder, hosts.key, 7, 128) as agent:
            config = client_config(hosts, "slow_config", f"IdentityAgent {agent}", "IdentitiesOnly no", "IdentityFile none")
            config.write_text(config.read_text().replace(f"IdentityFile {hosts.key}\n", ""))
            for transport in ("auto", "openssh"):
                result = probe(config, "open", "h1", transport=transport, **limits)
                self.assertTrue(result["ok"], result)
                self.assertEqual(result["notes"], ["ssh-agent has been asked to sign, and is waited for"])


class SlowMachineTest(unittest.TestCase):
    def test_what_ssh_takes_to_read_its_configuration_is_not_the_hosts_time(self):
        """Beside hundreds of other programs it takes long. Here a program of the configuration does."""
        with Hosts(1) as hosts:
            config = client_config(hosts, "slow_config", 'Match exec "sleep 12"', "Match all")
            result = probe(config, "open", "h1")
            self.assertTrue(result["ok"], result)


# A relay that writes to stderr: 300 KB before anything else, then a line for each packet, as `ssh -vvv -W` does.
LOUD_RELAY = """
import os, socket, sys, threading
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
sys.stderr.write("loud\\n" * 60000)
def copy(take, put):
    while data := take(65536):
        sys.stderr.write("packet " + "x" * 500 + "\\n")
        put(data)
    os._exit(0)
def put(data):
    while data:
        data = data[os.write(1, data):]
threading.Thread(target=copy, args=(lambda size: os.read(0, size), peer.sendall)).start()
copy(peer.recv, put)
"""


class LoudWayTest(unittest.TestCase):
    def test_a_proxy_command_that_writes_much_to_stderr_does_not_stop(self):
        with Hosts(1) as hosts, Tfdist("loud") as user:
            relay = hosts.folder / "relay.py"
            relay.write_text(LOUD_RELAY)
            config = client_config(hosts, "loud_config", f"ProxyCommand python3 {relay} %h %p")
            script = "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i + 1)); done"
            ran = user.run("exec", "-F", str(config), "-H", "h1", "--gather", "--", "sh", "-c", script).expect(0)
            self.assertIn("\n2999\n", ran.out)
            self.assertIs(probe(config, "bulk", "h1").get("equal"), True)


class HostThatSpeaksTest(unittest.TestCase):
    def test_what_a_host_says_is_shown_and_it_is_waited_for(self):
        """As a host that wants its user to look at a page first."""
        text = "Visit https://login.example.com/a1b2 to go on"
        with Hosts(1, banner=text + "\n") as hosts:
            with_slow_logins(hosts[0], 3)
            result = probe(hosts.ssh_config, "open", "h1", authentication_ms=2000)
            self.assertTrue(result["ok"], result)
            self.assertEqual(result["notes"], [f"it says: {text}"])

    def test_a_host_that_starts_up_is_tried_again(self):
        text = "System is booting up. Come back later."
        with Hosts(1) as hosts:
            host = hosts[0]
            set_first(host, "UsePAM yes")
            nologin = ["sh", "-c", f"echo '{text}' >/run/nologin"]
            host.run_as("root", nologin)
            refused = probe(hosts.ssh_config, "open", "h1", transport="auto", busy_ms=500)
            self.assertFalse(refused["ok"], refused)
            self.assertIn(f"the host says: {text}", refused["cause"])
            self.assertNotIn("ssh-copy-id", refused["remedy"])
            before = host.sshd_log.read_text().count("Access denied")
            command = [probes.BIN / "ssh_probe", "--config", hosts.ssh_config, "--transport", "auto", "open", "h1"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as seen:
                wait_for(lambda: host.sshd_log.read_text().count("Access denied") > before + 1, "second try")
                host.run_as("root", ["rm", "/run/nologin"])
                self.assertIn('"ok":true', seen.communicate(timeout=60)[0])


class SecondFactorTest(unittest.TestCase):
    def test_a_key_that_was_accepted_is_not_blamed(self):
        for more in ("password", "keyboard-interactive"):
            with self.subTest(more=more), Hosts(1) as hosts:
                set_first(hosts[0], "UsePAM yes", "PasswordAuthentication yes", "KbdInteractiveAuthentication yes",
                          f"AuthenticationMethods publickey,{more}")
                for transport in ("auto", "openssh"):
                    result = probe(hosts.ssh_config, "open", "h1", transport=transport)
                    self.assertEqual((result["ok"], result.get("phase")), (False, "authentication"), result)
                    self.assertIn(f"Permission denied ({more}); the host has accepted the key, and asks for more", result["cause"])
                    self.assertIn("ControlMaster", result["remedy"])
                    self.assertNotIn("ssh-copy-id", result["remedy"])


class AgentThatRefusesTest(unittest.TestCase):
    def test_a_key_that_is_bound_to_a_host_and_one_that_asks(self):
        with Hosts(1) as hosts, ssh_agent(hosts.folder) as agent:
            env = {**os.environ, "SSH_AUTH_SOCK": str(agent), "SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}
            known = hosts.folder / "bound_hosts"
            name = f"[{hosts[0].address}]:{hosts[0].port}"
            known.write_text(f"{name} {hosts[0].host_key()}\n")
            config = client_config(hosts, "bound_config", f"IdentityAgent {agent}", "IdentitiesOnly no",
                                   f"UserKnownHostsFile {known}", "IdentityFile none")
            config.write_text(config.read_text().replace(f"IdentityFile {hosts.key}\n", ""))

            def add(*options):
                subprocess.run(["ssh-add", "-q", "-D"], env=env, check=True, capture_output=True)
                subprocess.run(["ssh-add", "-q", *options, hosts.key], env=env, check=True, capture_output=True)

            add("-H", known, "-h", name)
            bound = probe(config, "open", "h1", transport="auto")
            self.assertTrue(bound["ok"], bound)
            self.assertEqual(bound["notes"], ["by your own ssh: the host does not let trainer in with its 1 keys"])
            add("-c")
            asks = probe(config, "open", "h1", transport="auto")
            self.assertFalse(asks["ok"], asks)
            self.assertIn("ssh-agent refuses to sign", asks["cause"])
            self.assertIn("ssh-add -c", asks["remedy"])


class AgentThatAsksTest(unittest.TestCase):
    def setUp(self):
        self.hosts = Hosts(1)
        self.hosts.start()
        self.addCleanup(self.hosts.stop)
        self.asked = self.hosts.folder / "asked"

    @contextlib.contextmanager
    def asking_agent(self, seconds, status):
        """Starts an ssh-agent whose user answers each question with yes (0) or no (1) after `seconds`; returns its configuration."""
        self.asked.write_text("")
        program = self.hosts.folder / "askpass"
        program.write_text(f"#!/bin/sh\necho asked >>{self.asked}\nsleep {seconds}\nexit {status}\n")
        program.chmod(0o755)
        changed = {"SSH_ASKPASS": str(program), "SSH_ASKPASS_REQUIRE": "force"}
        with unittest.mock.patch.dict(os.environ, changed), ssh_agent(self.hosts.folder) as agent:
            subprocess.run(["ssh-add", "-q", "-c", self.hosts.key], check=True, capture_output=True,
                           env={**os.environ, "SSH_AUTH_SOCK": str(agent)})
            config = client_config(self.hosts, "asking_config", f"IdentityAgent {agent}", "IdentitiesOnly no", "IdentityFile none")
            config.write_text(config.read_text().replace(f"IdentityFile {self.hosts.key}\n", ""))
            yield config

    def questions(self):
        return self.asked.read_text().count("asked")

    def test_who_takes_long_to_say_yes_is_asked_once(self):
        for transport in ("auto", "openssh"):
            with self.subTest(transport), self.asking_agent(4, 0) as config:
                result = probe(config, "open", "h1", transport=transport, agent_ms=3000)
                self.assertTrue(result["ok"], result)
                self.assertEqual(self.questions(), 1)

    def test_who_says_no_is_asked_once(self):
        for transport in ("auto", "openssh"):
            with self.subTest(transport), self.asking_agent(0, 1) as config:
                result = probe(config, "open", "h1", transport=transport)
                self.assertEqual((result["ok"], result.get("phase")), (False, "authentication"), result)
                self.assertIn("ssh-agent refuses to sign", result["cause"])
                self.assertIn("ssh-add -c", result["remedy"])
                self.assertEqual(self.questions(), 1)

    def test_who_says_nothing_is_asked_once(self):
        with self.asking_agent(20, 0) as config:
            result = probe(config, "open", "h1", transport="auto", signature_ms=1000)
            self.assertEqual((result["ok"], result.get("phase")), (False, "authentication"), result)
            self.assertIn("ssh-agent has not signed within 1 s", result["cause"])
            self.assertEqual(self.questions(), 1)


class Picky:
    """A relay to an sshd that wants OpenSSH clients: it hangs up on others, or falls silent, once they have sent `bytes`."""

    def __init__(self, host, bytes, silent, family=socket.AF_INET):
        self.peer, self.bytes, self.silent = (host.address, host.port), bytes, silent
        self.socket = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)
        self.port = self.socket.getsockname()[1]
        self.held, self.threads = [], [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self):
        with contextlib.suppress(OSError):  # shutdown() ends accept()
            while True:
                near = self.socket.accept()[0]
                far = socket.create_connection(self.peer)
                self.held += [near, far]
                for copy in ((near, far, True), (far, near, False)):
                    self.threads.append(threading.Thread(target=self.copy, args=copy))
                    self.threads[-1].start()

    def copy(self, source, target, looks):
        text = b""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                text = text[:4096] + data
                if looks and len(text) > self.bytes and not text.startswith(b"SSH-2.0-OpenSSH"):
                    break
                target.sendall(data)
            if not (looks and self.silent):
                for end in (source, target):
                    end.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for held in (self.socket, *self.held):
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for held in (self.socket, *self.held):
            held.close()


class Door(Picky):
    """A port before an sshd, which a firewall closes for a while."""

    def __init__(self, host):
        super().__init__(host, 1 << 30, silent=False)
        self.close()
        self.socket.close()
        self.socket = socket.create_server(("127.0.0.1", self.port))  # one that is asked for is kept when it is closed
        self.open()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.threads[0].join()

    def open(self):
        self.socket.listen()
        self.threads[0] = threading.Thread(target=self.serve)
        self.threads[0].start()


class FirewallThatCountsTest(unittest.TestCase):
    def test_a_port_that_refuses_after_several_connections_is_tried_again(self):
        with Hosts(1) as hosts, Door(hosts[0]) as door, Tfdist("door") as user:
            known = hosts.folder / "door_hosts"
            known.write_text(f"* {hosts[0].host_key()}\n")
            config = client_config(hosts, "door_config", "Host h1", "HostName 127.0.0.1", f"Port {door.port}", "Host *",
                                   f"UserKnownHostsFile {known}")
            for transport in ("auto", "openssh"):
                command = ["exec", "-F", str(config), "--transport", transport, "-H", "h1", "--", "true"]
                if transport == "auto":  # nothing is remembered yet
                    door.close()
                    refused = user.run(*command).expect(3)
                    self.assertIn("Connection refused", refused.err)
                    self.assertNotIn("trying again", refused.err)
                    door.open()
                for _ in range(5):
                    user.run(*command).expect(0)
                door.close()
                running = user.start(*command)
                wait_for(lambda: b"h1: it takes no connection after several in a minute" in running.err.read_bytes(), "a second try")
                door.open()
                self.assertEqual(running.wait(PATIENCE * 60), 0, running.err.read_text())


class PortThatNobodyHasTest(unittest.TestCase):
    def start_job(self, user, config, transport):
        user.run("up", "-d", "-F", str(config), "--transport", transport, "-H", "h1", "--no-workdir", "--", "sleep", "600").expect(0)
        for _ in range(5):
            user.run("status").expect(0)

    def test_commands_of_a_job_end_as_soon_as_ssh(self):
        """Nothing but the host's kernel answers so."""
        with Hosts(1) as hosts, Door(hosts[0]) as door:
            known = hosts.folder / "door_hosts"
            known.write_text(f"* {hosts[0].host_key()}\n")
            config = client_config(hosts, "door_config", "Host h1", "HostName 127.0.0.1", f"Port {door.port}", "Host *",
                                   f"UserKnownHostsFile {known}")
            for transport in ("auto", "openssh"):
                with Tfdist("door") as user:
                    self.start_job(user, config, transport)
                    door.close()
                    for command in (["logs"], ["logs", "-f"], ["pull"], ["status"], ["down"]):
                        began = time.monotonic()
                        ended = user.run(*command)
                        self.assertIn("Connection refused", ended.err)
                        self.assertNotIn("trying again", ended.err)
                        self.assertNotEqual(ended.code, 0)
                        self.assertLess(time.monotonic() - began, PATIENCE * 20, ended)
                    door.open()
                    user.run("down").expect(0)

    @unittest.skipUnless(shutil.which("iptables"), "no iptables")
    def test_but_wait_for_a_firewall_that_counts(self):
        """It says so by ICMP, as `ufw limit` does."""
        with Hosts(1, own_network=True) as hosts:
            rule = ["nsenter", f"--target={hosts[0].pid}", "--net", "iptables"]
            for transport in ("auto", "openssh"):
                with Tfdist("firewall") as user:
                    self.start_job(user, hosts.ssh_config, transport)
                    subprocess.run([*rule, "-A", "INPUT", "-p", "tcp", "--dport", str(hosts[0].port), "--syn", "-j", "REJECT"], check=True)
                    running = user.start("logs")
                    wait_for(lambda: b"h1: it takes no connection after several in a minute" in running.err.read_bytes(), "a second try")
                    subprocess.run([*rule, "-F"], check=True)
                    self.assertEqual(running.wait(PATIENCE * 60), 0, running.err.read_text())
                    user.run("down").expect(0)


class KilledCommandTest(unittest.TestCase):
    def test_its_login_on_a_silent_host_ends_with_it(self):
        """ssh would wait for a minute, and a ProxyCommand for ever."""
        with Tfdist("killed") as user, socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            host = f"HostName 127.0.0.1\nPort {port}\n"
            marked = f"sleep 600.0{port}"
            for text in (f"Host h1\n{host}Compression yes\n", f"Host h1\nProxyCommand sh -c '{marked}; true'\n", f"Host jump\n{host}Host h1\nProxyJump jump\n"):
                config = user.write("config", text)
                command = user.start("exec", "-F", config, "-H", "h1", "--", "true")

                def of_command():
                    return {pid: words for pid, words in {**processes.matching(config), **processes.matching(marked)}.items() if pid != command.pid}
                wait_for(lambda: any(marked in words or "-M -S" in words for words in of_command().values()), "a login")
                command.send_signal(signal.SIGKILL)
                command.wait()
                wait_for(lambda: not of_command(), lambda: f"the end of {of_command()}", 30)


class HostThatWantsOpensshTest(unittest.TestCase):
    def test_a_login_that_breaks_off_or_stands_still_is_tried_by_ssh(self):
        """Before the keys are exchanged, and after that."""
        with Hosts(1) as hosts:
            known = hosts.folder / "picky_hosts"
            known.write_text(f"* {hosts[0].host_key()}\n")
            for sent, silent, words in ((30, False, "key exchange"), (30, True, "fell silent during the key exchange"),
                                        (1050, False, "the connection broke in the login")):
                with self.subTest(sent=sent, silent=silent), Picky(hosts[0], sent, silent) as picky:
                    config = client_config(hosts, "picky_config", "Host h1", "HostName 127.0.0.1", f"Port {picky.port}", "Host *",
                                           f"UserKnownHostsFile {known}")
                    limits = {"key_exchange_ms": 500} if silent else {}
                    result = probe(config, "open", "h1", transport="auto", **limits)
                    self.assertTrue(result["ok"], result)
                    self.assertIn("by your own ssh: ", result["notes"][0])
                    self.assertIn(words, result["notes"][0])

    def test_a_host_that_neither_reaches_has_sshs_words(self):
        listener = Listener(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7\r\n", hang_up=True)
        listener.thread.start()
        self.addCleanup(listener.end)
        with Hosts(1) as hosts:
            config = client_config(hosts, "broken_config", "Host h1", "HostName 127.0.0.1",
                                   f"Port {listener.socket.getsockname()[1]}", "Host *")
            result = probe(config, "open", "h1", transport="auto", busy_ms=500)
            self.assertEqual((result["ok"], result["phase"]), (False, "connect"), result)
            self.assertIn("ssh says: ", result["cause"])


# A relay that holds back what the host sends after its version for a while.
SLOW_EXCHANGE = RELAY.replace("copy(peer.recv, put)", """
version = b""
while not version.endswith(b"\\n"):
    version += peer.recv(1)
put(version)
time.sleep(float(sys.argv[3]))
copy(peer.recv, put)""").replace("threading\n", "threading, time\n", 1)


class SlowKeyExchangeTest(unittest.TestCase):
    def test_a_host_that_takes_long_to_exchange_keys_is_waited_for(self):
        """As ssh waits, which has no limit there. tfdist's ssh gives up after 15 s, and then has a longer try."""
        with Hosts(1) as hosts:
            relay = hosts.folder / "slow_exchange.py"
            relay.write_text(SLOW_EXCHANGE)
            config = client_config(hosts, "exchange_config", "Host h1", f"ProxyCommand python3 {relay} %h %p 25", "Host *")
            result = probe(config, "open", "h1")
            self.assertTrue(result["ok"], result)


class JumpHostTest(unittest.TestCase):
    def test_one_connection_to_the_jump_host_whatever_is_behind_it(self):
        with Hosts(7, max_startups="2:100:2") as hosts:
            jump = hosts[6]
            config = client_config(hosts, "jump_config", "Host !h7 *", f"ProxyJump {jump.name}", "Host *")
            for transport in ("auto", "openssh"):
                with self.subTest(transport):
                    before = jump.sshd_log.read_text().count("Accepted ")
                    results = probe_all(config, "open", *[f"h{n}" for n in range(1, 7)], transport=transport)
                    self.assertEqual([result["ok"] for result in results], [True] * 6, results)
                    self.assertEqual(jump.sshd_log.read_text().count("Accepted "), before + 1)

    def test_many_commands_at_once_through_a_jump_host_with_few_places(self):
        with Hosts(3, max_startups="2:100:2") as hosts:
            config = client_config(hosts, "jump_config", "Host !h3 *", "ProxyJump h3", "Host *")
            command = [probes.BIN / "ssh_probe", "--config", config, "--transport", "auto", "open", "h1", "h2"]
            running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
            for one in running:
                self.assertEqual(one.communicate(timeout=100)[0].count('"ok":true'), 2)

    def test_a_jump_host_that_hangs_up_is_tried_again_and_named(self):
        listener = Listener(b"", hang_up=True)
        listener.thread.start()
        self.addCleanup(listener.end)
        with Hosts(1) as hosts:
            port = listener.socket.getsockname()[1]
            config = client_config(hosts, "jump_config", "Host h1", f"ProxyJump 127.0.0.1:{port}", "Host *")
            for transport in ("auto", "openssh"):
                before = len(listener.connections)
                result = probe(config, "open", "h1", transport=transport, busy_ms=2000)
                self.assertRegex(result["cause"], fr"its jump host \[?127.0.0.1\]?:{port}: ")
                self.assertGreater(len(listener.connections) - before, 1)

    def test_a_connection_to_the_jump_host_that_ends_in_a_login_is_made_anew(self):
        with Hosts(2) as hosts:
            config = client_config(hosts, "jump_config", "Host h2", "ProxyJump h1", "Host *")
            for transport in ("auto", "openssh"):
                with self.subTest(transport):
                    hosts[1].freeze()
                    command = [probes.BIN / "ssh_probe", "--config", config, "--transport", transport, "open", "h2"]
                    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
                        try:
                            wait_for(lambda: processes.matching(f"-W [{hosts[1].address}]"), "a way through the jump host")
                            [jump] = [pid for pid, command in processes.matching(str(config)).items()
                                      if command.startswith("ssh -M ") and command.endswith(" ssh://h1")]
                            os.kill(jump, signal.SIGKILL)
                        finally:
                            hosts[1].thaw()
                        self.assertIn('"ok":true', running.communicate(timeout=90)[0])

    def test_a_jump_host_with_an_address_of_ipv6(self):
        with Hosts(2) as hosts, Picky(hosts[1], 1 << 30, silent=False, family=socket.AF_INET6) as jump:
            known = hosts.folder / "jump_hosts"
            known.write_text(f"* {hosts[1].host_key()}\n[{hosts[0].address}]:{hosts[0].port} {hosts[0].host_key()}\n")
            for number, name in enumerate((f"[::1]:{jump.port}", f"trainer@[::1]:{jump.port}", "[::1]")):
                config = client_config(hosts, f"jump_config{number}", "Host ::1", f"Port {jump.port}", f"UserKnownHostsFile {known}",
                                       "Host h1", f"ProxyJump {name}", "Host *")
                for transport in ("auto", "openssh"):
                    result = probe(config, "open", "h1", transport=transport)
                    self.assertTrue(result["ok"], (name, transport, result))

    def test_the_words_of_a_jump_hosts_own_proxy_command(self):
        with Hosts(2) as hosts:
            config = client_config(hosts, "jump_config", "Host h1", 'ProxyCommand sh -c "echo no badge >&2; exit 3"', "Host h2", "ProxyJump h1",
                                   "Host *")
            for transport in ("auto", "openssh"):
                result = probe(config, "open", "h2", transport=transport)
                self.assertRegex(result["cause"], "its jump host h1: .*; on the way: no badge")

    def test_a_host_that_the_jump_host_cannot_reach(self):
        with Hosts(1) as hosts, socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # taken, so that nobody else listens there either
            port = held.getsockname()[1]
            config = client_config(hosts, "jump_config", "Host lost", "HostName 127.0.0.1", f"Port {port}", "ProxyJump h1", "Host *")
            for transport in ("auto", "openssh"):
                result = probe(config, "open", "lost", transport=transport)
                self.assertEqual((result["ok"], result["phase"]), (False, "connect"), result)
                self.assertIn("Stdio forwarding request failed", result["cause"])
                self.assertIn("AllowTcpForwarding", result["remedy"])


class ReplacedShellTest(unittest.TestCase):
    def test_a_start_up_file_that_runs_another_shell(self):
        with Hosts(1, bashrc="exec /usr/bin/zsh -l\n") as hosts:
            result = probe(hosts.ssh_config, "boot/", "h1")
            self.assertEqual((result["ok"], result.get("phase")), (False, "remote shell"), result)
            self.assertRegex(result["cause"], "a start-up file of the account runs /usr/bin/zsh[^ ]* instead of /bin/sh")
            self.assertIn("case $- in *i*)", result["remedy"])
            self.assertFalse((hosts[0].home / ".cache/tfdist").exists())

    def test_a_start_up_file_that_reads_what_is_for_the_shell(self):
        with Hosts(1) as hosts:
            for reads in ("read line", "head -c 100 >/dev/null", "head -c 5000 >/dev/null"):
                (hosts[0].home / ".bashrc").write_text(reads + "\n")
                result = probe(hosts.ssh_config, "boot/", "h1")
                self.assertEqual((result["ok"], result.get("phase")), (False, "remote shell"), result)
                self.assertIn("has read a part of what was sent", result["cause"])


if __name__ == "__main__":
    unittest.main()
