"""tfdist's SSH against real sshd: keys, errors, busy and silent hosts, what an agent's start meets on a host."""

import contextlib
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from tests.hosts.hosts import KEY_TYPES, Hosts, check_possible, make_key
from tests.hosts.probe import client_config, probe, probe_all
from tests.support import processes
from tests.support.waiting import wait_for

# What `nc HOST PORT` does, for machines that have none.
RELAY = """
import os, socket, sys, threading
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def copy(take, put):
    while data := take(65536):
        put(data)
    os._exit(0)
def put(data):
    while data:
        data = data[os.write(1, data):]
threading.Thread(target=copy, args=(lambda size: os.read(0, size), peer.sendall)).start()
copy(peer.recv, put)
"""


def setUpModule():
    check_possible()


class SharedHosts(unittest.TestCase):
    """Two plain hosts for all tests of a class."""

    count, options = 2, {}

    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(cls.count, **cls.options)
        cls.hosts.start()
        cls.host = cls.hosts[0]

    @classmethod
    def tearDownClass(cls):
        cls.hosts.stop()

    def config(self, *lines):
        return client_config(self.hosts, self.id().rsplit(".", 1)[-1] + "_config", *lines)

    def assert_works(self, result):
        self.assertEqual((result["ok"], result.get("out"), result.get("err")), (True, "out\n", "err\n"), result)


def is_listened_to(path):
    """The name of a socket is there before anybody listens."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@contextlib.contextmanager
def ssh_agent(folder, *keys):
    """An ssh-agent that holds `keys`; its socket."""
    path = folder / "agent.sock"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: is_listened_to(path), "ssh-agent")
        for key in keys:
            subprocess.run(["ssh-add", "-q", key], check=True, capture_output=True,
                           env={**os.environ, "SSH_AUTH_SOCK": str(path)})
        yield path
    finally:
        agent.terminate()
        agent.wait()
        path.unlink(missing_ok=True)


class KeysTest(SharedHosts):
    options = {"key_types": KEY_TYPES}

    def test_every_type_of_key_file(self):
        for key_type, key in self.hosts.keys.items():
            with self.subTest(key_type):
                self.assert_works(probe(self.config(f"IdentityFile {key}", "IdentitiesOnly yes"), "open", "h1"))

    def test_key_file_in_pem(self):
        key = self.hosts.folder / "pem"
        shutil.copy(self.hosts.keys["rsa"], key)
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "", "-m", "PEM", "-f", key], check=True, capture_output=True)
        config = self.only_file(key)
        self.assert_works(probe(config, "open", "h1"))

    def only_file(self, key):
        """A config without the hosts' own key."""
        config = self.config()
        config.write_text(config.read_text().replace(str(self.hosts.key), str(key)))
        return config

    def test_every_type_of_key_in_the_agent(self):
        for key_type, key in self.hosts.keys.items():
            with self.subTest(key_type), ssh_agent(self.hosts.folder, key) as agent:
                config = self.config(f"IdentityAgent {agent}", "IdentitiesOnly no", "IdentityFile none")
                config.write_text(config.read_text().replace(f"IdentityFile {self.hosts.key}\n", ""))
                self.assert_works(probe(config, "open", "h1"))

    def test_encrypted_key_needs_the_agent(self):
        key = self.hosts.folder / "encrypted"
        shutil.copy(self.hosts.key, key)
        with ssh_agent(self.hosts.folder, key) as agent:
            subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", key], check=True, capture_output=True)
            config = self.only_file(key)
            result = probe(config, "open", "h1")
            self.assertEqual(result["phase"], "authentication")
            self.assertIn(f"the host would take this key, and ssh cannot use it: {key} ", result["cause"])
            self.assertIn("ssh-add", result["remedy"])
            # IdentitiesOnly: the agent's key counts because the file names it.
            config.write_text(f"IdentityAgent {agent}\n" + config.read_text())
            self.assert_works(probe(config, "open", "h1"))

    def test_agent_that_does_not_answer_is_passed_over(self):
        path = self.hosts.folder / "mute.sock"
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(str(path))
            mute.listen()
            config = self.config(f"IdentityAgent {path}")
            self.assert_works(probe(config, "open", "h1", agent_ms=1000))

    def test_refused_key_is_named_and_offered_once_by_each_program(self):
        host = self.hosts[1]
        host.refuse_key()
        self.addCleanup(host.accept_key)
        before = host.sshd_log.read_text().count("Connection ")
        result = probe(self.hosts.ssh_config, "open", "h2")
        shown = subprocess.run(["ssh-keygen", "-lf", self.hosts.key], check=True, capture_output=True,
                               text=True).stdout.split()[1]
        self.assertEqual((result["host"], result["phase"]), ("h2", "authentication"))
        self.assertIn("the host does not let trainer in; ", result["cause"])
        self.assertIn(f"; offered: {self.hosts.key} ED25519 {shown}", result["cause"])
        self.assertIn("ssh-copy-id", result["remedy"])
        log = wait_for(lambda: (text := host.sshd_log.read_text()).count("Connection ") > before + 1 and text, "log line")
        self.assertEqual(log.count("Connection ") - before, 2, log)

    def test_no_key_at_all(self):
        result = probe(self.only_file("/nonexistent"), "open", "h1")
        self.assertIn("the host does not let trainer in; ", result["cause"])
        self.assertIn("; ssh has no key to offer", result["cause"])

    def test_user_of_the_command_line(self):
        self.assertIn("let nobody in", probe(self.hosts.ssh_config, "open", "h1", user="nobody")["cause"])

    def test_host_name_is_never_an_option(self):
        mark = self.hosts.folder / "mark"
        for name in (f"-oProxyCommand=touch {mark}", "-V", "--"):
            self.assertIn("is not a host's name", probe(self.hosts.ssh_config, "open", name)["cause"])
        self.assertFalse(mark.exists())

    def test_two_channels_one_after_the_other(self):
        self.assert_works(probe(self.hosts.ssh_config, "again", "h1"))

    def test_through_a_jump_host(self):
        self.assert_works(probe(self.config("Host h2", f"ProxyJump h1", "Host *"), "open", "h2"))
        self.assert_works(probe(self.config("Host h2", f"ProxyJump trainer@h1:{self.host.port},h1", "Host *"),
                                "open", "h2"))
        failed = probe(self.config("Host h2", "ProxyJump nowhere.invalid", "Host *"), "open", "h2")
        self.assertEqual(failed["phase"], "name lookup")
        self.assertIn("its jump host nowhere.invalid: ", failed["cause"])

    def test_through_a_proxy_command(self):
        relay = self.hosts.folder / "relay.py"
        relay.write_text(RELAY)
        config = self.config(f"ProxyCommand python3 {relay} %h %p")
        self.assert_works(probe(config, "open", "h1"))
        self.assertIs(probe(config, "bulk", "h2").get("equal"), True)
        wait_for(lambda: not processes.matching(str(relay)), "end of the proxy commands")
        ssh = f"ssh -F {self.hosts.ssh_config} -W [%h]:%p h1"
        self.assert_works(probe(self.config("Host h2", f"ProxyCommand {ssh}", "Host *"), "open", "h2"))

    def test_proxy_command_that_fails_is_quoted(self):
        result = probe(self.config('ProxyCommand sh -c "echo no way to %n >&2; exit 3"'), "open", "h1")
        self.assertEqual(result["phase"], "connect")
        self.assertIn("no way to h1", result["cause"])

    def test_proxy_command_that_does_not_end_is_hung_up_on(self):
        command = "python3 -c 'import time; time.sleep(600)' %n-of-the-test"
        result = probe(self.config(f"ProxyCommand {command}"), "open", "h1", banner_ms=1000)
        self.assertEqual(result["phase"], "connect")
        wait_for(lambda: not processes.matching("h1-of-the-test"), "end of the proxy command")

    def test_broken_ssh_configuration(self):
        result = probe(self.config("NoSuchOption yes"), "open", "h1")
        self.assertEqual(result["phase"], "connect")
        self.assertIn("nosuchoption", result["cause"].lower())
        self.assertIn("correct what it names", result["remedy"])

    def test_unknown_name(self):
        self.assertEqual(probe(self.hosts.ssh_config, "open", "no-such-host.invalid")["phase"], "name lookup")


class AlgorithmsTest(unittest.TestCase):
    """Hosts that an older libssh2 cannot reach."""

    def assert_reaches(self, action="open", **options):
        with Hosts(1, **options) as hosts:
            result = probe(hosts.ssh_config, action, "h1")
            self.assertTrue(result["ok"], result)

    def test_host_with_an_rsa_key_alone(self):
        self.assert_reaches(host_key_types=("rsa",))

    def test_host_with_an_ecdsa_key_alone(self):
        self.assert_reaches(host_key_types=("ecdsa",))

    def test_every_cipher_and_mac(self):
        for lines in (("Ciphers aes128-ctr", "MACs hmac-sha2-256-etm@openssh.com"),
                      ("Ciphers aes256-ctr", "MACs hmac-sha2-512"),
                      ("Ciphers chacha20-poly1305@openssh.com",),
                      ("Ciphers aes256-gcm@openssh.com",)):
            with self.subTest(lines):
                self.assert_reaches("bulk", sshd_lines=lines)

    def test_new_keys_in_the_middle_of_a_stream(self):
        """Both ways at once: there libssh2 stalls or drops bytes if it is called in the wrong order."""
        with Hosts(1, sshd_lines=("RekeyLimit 1M",)) as hosts:
            for _ in range(5):
                self.assertEqual(probe(hosts.ssh_config, "bulk", "h1"), {"ok": True, "equal": True})

    def test_nothing_in_common_is_said_in_words(self):
        with Hosts(1, sshd_lines=("Ciphers aes128-cbc",)) as hosts:
            result = probe(hosts.ssh_config, "open", "h1")
            self.assertEqual(result["phase"], "connect")
            self.assertIn("no matching cipher found", result["cause"])

    def test_asks_for_no_terminal_forwarding_or_environment(self):
        with Hosts(1, sshd_lines=("LogLevel DEBUG1",)) as hosts:
            self.assertTrue(probe(hosts.ssh_config, "open", "h1")["ok"])
            log = wait_for(lambda: (text := hosts[0].sshd_log.read_text()).count("request exec") and text, "log line")
            requests = [line for line in log.splitlines() if "server_input_channel_req" in line]
            self.assertEqual(len(requests), 1, requests)
            self.assertIn("request exec", requests[0])


def probe_port(port, **options):
    """What becomes of a connection to 127.0.0.1:port."""
    return probe_port_at_once(port, 1, **options)[0]


def probe_port_at_once(port, count, **options):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config"
        config.write_text(f"Host *\n HostName 127.0.0.1\n Port {port}\n UserKnownHostsFile /dev/null\n")
        return probe_all(config, "open", *["fake"] * count, host_keys="accept-new", **options)


class Listener:
    """Something that takes connections and is no sshd: to each it says the next of `texts`, to those that come after
    them the last one, then hangs up or stays silent."""

    def __init__(self, *texts, hang_up=False):
        self.texts, self.hang_up, self.connections = texts or (b"",), hang_up, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.serve)

    def serve(self):
        with contextlib.suppress(OSError):  # shutdown() ends accept()
            while True:
                connection, _ = self.socket.accept()
                self.connections.append(connection)
                connection.sendall(self.texts[min(len(self.connections), len(self.texts)) - 1])
                if self.hang_up:
                    connection.close()

    def probe(self, **options):
        return self.probe_all(1, **options)[0]

    def probe_all(self, count, **options):
        """What becomes of as many connections to it at once."""
        self.thread.start()
        try:
            return probe_port_at_once(self.socket.getsockname()[1], count, **options)
        finally:
            self.end()

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        for held in (self.socket, *self.connections):
            held.close()


class BadPeersTest(unittest.TestCase):
    def test_silent_host(self):
        result = Listener().probe(banner_ms=300)
        self.assertEqual(result["phase"], "connect")
        self.assertIn("said nothing", result["cause"])

    def test_host_that_stops_after_its_version(self):
        result = Listener(b"SSH-2.0-tarpit\r\n").probe(key_exchange_ms=300, tcp_ms=1000, banner_ms=1000)
        self.assertEqual(result["cause"], "the host fell silent during the key exchange")
        self.assertIn("the MTU of a VPN", result["remedy"])

    def test_host_that_talks_for_ever_and_is_no_sshd(self):
        result = Listener(b"HTTP/1.1 400 Bad Request\r\n\r\n").probe(banner_ms=300, busy_ms=1000)
        self.assertEqual(result["phase"], "connect")

    def test_host_that_hangs_up_is_tried_again(self):
        listener = Listener(b"Exceeded MaxStartups\r\n", b"", b"Not allowed at this time\r\n",
                            b"SSH-2.0-tarpit\r\n", hang_up=True)
        self.assertIn("ssh says: ", listener.probe(busy_ms=4000)["cause"])
        self.assertGreater(len(listener.connections), 3)

    def test_host_that_hangs_up_is_given_up_after_a_while(self):
        result = Listener(b"Not allowed at this time\r\n", hang_up=True).probe(busy_ms=1500)
        # A client that writes meanwhile may not see the text.
        self.assertRegex(result["cause"], "^ssh says: .*(Not allowed at this time|Connection (reset|closed) by)")
        self.assertIn("PerSourcePenalties", result["remedy"])

    def test_nobody_listens(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # taken, so that nobody else listens there either
            port = held.getsockname()[1]
            self.assertIn(f"127.0.0.1 port {port}: Connection refused", probe_port(port)["cause"])


class BusyHostTest(unittest.TestCase):
    def test_thirty_two_logins_where_two_are_let_in_at_a_time(self):
        with Hosts(1, max_startups="2:100:2") as hosts:
            results = probe_all(hosts.ssh_config, "open", *["h1"] * 32, busy_ms=60_000)
            self.assertEqual([result["ok"] for result in results], [True] * 32, results)


class ChattyHostTest(unittest.TestCase):
    """A host that prints for ever: a deadline that counts only while nothing comes would never be over."""

    def assert_given_up(self, command):
        with Hosts(1, sshd_lines=(f"ForceCommand {command}",)) as hosts:
            begin = time.monotonic()
            result = probe(hosts.ssh_config, "jobs", "h1", answer_ms=500)
            seconds = time.monotonic() - begin
        self.assertFalse(result["ok"], result)
        self.assertIn("did not run /bin/sh within", result["cause"])
        self.assertLess(seconds, 40)  # the login may be slow
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 200 * 1024)  # KiB

    def test_on_its_stdout(self):
        self.assert_given_up("yes")

    def test_on_its_stderr(self):
        self.assert_given_up("yes >&2")


class NoisyHostTest(SharedHosts):
    count = 1
    options = {
        "banner": "Authorized use only\n",
        "bashrc": "echo Welcome; printf '\\033]0;title\\007'; head -c 200000 /dev/zero | tr '\\0' x; echo oops >&2\n",
        "locale": "xx_YY.UTF-8",
    }

    def test_agent_starts_all_the_same(self):
        for uploaded in (True, False):
            result = probe(self.hosts.ssh_config, "boot/", "h1")
            self.assertEqual((result["first_line"], result["uploaded"]), ("agent start\n", uploaded))
            self.assertEqual(len(result["noise"]), 64 * 1024)


class HostFoldersTest(SharedHosts):
    """Where the agent can be put, and where not."""

    def tearDown(self):
        for host in self.hosts:
            # Lazily: what the test began there may end a little later.
            host.run_as("root", ["umount", "--lazy", "/home/trainer"], check=False)

    def mount(self, options):
        self.host.run_as("root", ["mount", "-t", "tmpfs", "-o", f"uid={self.host.uid},mode=700,{options}",
                                  "tmpfs", "/home/trainer"])

    def test_uploads_once_into_private_folders(self):
        host = self.hosts[1]
        self.assertTrue(probe(self.hosts.ssh_config, "boot/", "h2")["uploaded"])
        self.assertFalse(probe(self.hosts.ssh_config, "boot/", "h2")["uploaded"])
        [agent] = (host.home / ".cache/tfdist/bin").iterdir()
        self.assertEqual((agent.stat().st_uid, agent.stat().st_mode & 0o777), (host.uid, 0o500))
        self.assertNotEqual(host.run_as("other", ["ls", "/home/trainer/.cache/tfdist"], check=False).returncode, 0)

    def test_folder_where_nothing_can_be_run(self):
        self.mount("noexec")
        result = probe(self.hosts.ssh_config, "boot/", "h1")
        self.assertEqual(result["phase"], "agent start")
        for folder in (".cache/tfdist", ".tfdist"):
            self.assertIn(f"/home/trainer/{folder}: programs cannot be run there (mounted with noexec?)", result["cause"])
        self.assertIn("remote_dir", result["remedy"])
        elsewhere = probe(self.hosts.ssh_config, "boot//tmp/mine", "h1")
        self.assertEqual(elsewhere["first_line"], "agent start\n")

    def test_folder_that_cannot_be_written(self):
        self.mount("ro")
        result = probe(self.hosts.ssh_config, "boot/", "h1")
        self.assertIn("/home/trainer/.cache/tfdist: Read-only file system", result["cause"])

    def test_folder_of_somebody_else(self):
        """Who owns the parent may put another folder in the place of ours."""
        self.host.run_as("other", ["mkdir", "-m", "777", "/tmp/others"])
        result = probe(self.hosts.ssh_config, "boot//tmp/others", "h1")
        self.assertIn("/tmp/others/tfdist: /tmp/others belongs to another account (uid ", result["cause"])

    def test_full_disk(self):
        self.mount("size=64k")
        result = probe(self.hosts.ssh_config, "boot/", "h1")
        self.assertEqual(result["phase"], "upload")
        self.assertIn("No space left on device", result["cause"])
        self.assertRegex(result["cause"], r"\d+ bytes needed, \d+ KiB free")
        left = self.host.run_as("trainer", ["find", "/home/trainer", "-name", "*tfdist*"])
        self.assertEqual(left.stdout, "")


class ShellsTest(unittest.TestCase):
    def boot(self, shell, **options):
        with Hosts(1, shell=shell, **options) as hosts:
            return probe(hosts.ssh_config, "boot/", "h1")

    def test_account_without_a_shell_speaks_for_itself(self):
        result = self.boot("/usr/sbin/nologin")
        self.assertEqual(result["phase"], "remote shell")
        self.assertIn("This account is currently not available", result["cause"])

    def test_other_login_shells(self):
        for shell in ("/bin/sh", "/usr/bin/fish", "/bin/tcsh", "/usr/bin/zsh"):
            with self.subTest(shell):
                self.assertEqual(self.boot(shell)["first_line"], "agent start\n")

    def test_warnings_of_the_loader_are_no_answers(self):
        bashrc = "export LD_PRELOAD=/opt/gone/libjemalloc.so\n"
        self.assertEqual(self.boot("/bin/bash", bashrc=bashrc).get("first_line"), "agent start\n")

    def test_restricted_shell_is_named(self):
        if not os.path.exists("/bin/rbash"):
            self.skipTest("no rbash here")
        self.assertIn("restricted", self.boot("/bin/rbash")["cause"])

    def test_one_channel_at_a_time_is_enough(self):
        with Hosts(1, sshd_lines=("MaxSessions 1",)) as hosts:
            self.assertTrue(probe(hosts.ssh_config, "again", "h1")["ok"])


if __name__ == "__main__":
    unittest.main()
