"""transport = "openssh": hosts that the user's ssh program reaches, against real sshd."""

import base64
import glob
import os
import pathlib
import socket
import struct
import subprocess
import unittest
import unittest.mock

from tests.hosts import probe as probes
from tests.hosts.hosts import Hosts, check_possible, make_key
from tests.hosts.probe import client_config, probe, probe_all
from tests.hosts.test_slow import with_slow_logins
from tests.hosts.test_ssh import RELAY, Listener, SharedHosts, probe_port
from tests.support import processes
from tests.support.waiting import wait_for

POST_QUANTUM = "KexAlgorithms sntrup761x25519-sha512@openssh.com"


def setUpModule():
    check_possible()


def by_openssh(config, action, host, **options):
    return probe(config, action, host, transport="openssh", **options)


def logins(host):
    """How many the host has let in."""
    return host.sshd_log.read_text().count("Accepted ")


def only_file(hosts, name, key):
    """A config without the hosts' own key."""
    config = client_config(hosts, name)
    config.write_text(config.read_text().replace(str(hosts.key), str(key)))
    return config


class OpensshTest(SharedHosts):
    def tearDown(self):
        """Each run of the probe has ended its connections. Their command lines have the config's path. A jump's ssh is
        told by its master, and ends a moment later."""
        wait_for(lambda: not self.programs(), lambda: f"the end of {self.programs()}", 30)

    def programs(self):
        return [command for command in processes.matching(f"{self.hosts.folder}/").values() if command.startswith("ssh ")]

    def assert_accepts(self, host, count):
        """`count` logins since the last call."""
        before = getattr(host, "seen_logins", 0)
        wait_for(lambda: logins(host) >= before + count, f"{count} logins")
        self.assertEqual(logins(host), before + count, host.sshd_log.read_text())
        host.seen_logins = logins(host)

    def setUp(self):
        for host in self.hosts:
            host.seen_logins = logins(host)

    def test_two_channels_one_after_the_other_have_one_connection(self):
        self.assert_works(by_openssh(self.hosts.ssh_config, "again", "h1"))
        self.assert_accepts(self.host, 1)

    def test_many_at_once_to_one_host_have_one_connection(self):
        results = probe_all(self.hosts.ssh_config, "open", *["h1"] * 8, transport="openssh")
        for result in results:
            self.assert_works(result)
        self.assert_accepts(self.host, 1)

    def test_much_in_both_directions_at_once(self):
        self.assertEqual(by_openssh(self.hosts.ssh_config, "bulk", "h1"), {"ok": True, "equal": True})

    def test_agent_is_brought_there(self):
        result = by_openssh(self.hosts.ssh_config, "boot//home/trainer/openssh", "h2")
        self.assertEqual((result["ok"], result["first_line"]), (True, "agent start\n"), result)

    def test_through_a_jump_host_and_a_proxy_command(self):
        self.assert_works(by_openssh(self.config("Host h2", "ProxyJump h1", "Host *"), "open", "h2"))
        relay = self.hosts.folder / "relay.py"
        relay.write_text(RELAY)
        self.assert_works(by_openssh(self.config(f"ProxyCommand python3 {relay} %h %p"), "open", "h1"))

    def test_a_way_that_fails_is_named_before_a_busy_host(self):
        """A login that stays in the background keeps back what its ProxyCommand says."""
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # taken, so that nobody else listens there either
            port = held.getsockname()[1]
            result = by_openssh(self.config("Host h2", f"ProxyJump 127.0.0.1:{port}", "Host *"), "open", "h2")
            self.assertEqual(result["phase"], "connect", result)
            self.assertRegex(result["cause"], fr"its jump host \[?127.0.0.1\]?:{port}: .*Connection refused")
            way = "ProxyCommand sh -c 'echo no way >&2; exit 1'"
            result = by_openssh(self.config("Host h2", way, "Host *"), "open", "h2", busy_ms=500)
            self.assertEqual(result["phase"], "connect", result)
            self.assertIn("the jump host or ProxyCommand gave no way to it; ssh says: ", result["cause"])
            self.assertRegex(result["remedy"], r"ssh to it by hand, .*\(MaxStartups\)")

    def test_what_the_configuration_adds_has_no_effect(self):
        """Neither forwarding nor commands nor an environment: what libssh2's transport asks for, and no more."""
        config = self.config("ForwardAgent yes", "ForwardX11 yes", "LocalForward 127.0.0.1:1 127.0.0.1:1",
                             "RemoteForward 127.0.0.1:45 127.0.0.1:1", "PermitLocalCommand yes",
                             "LocalCommand touch /tmp/local-command-of-the-test", "RemoteCommand echo no", "RequestTTY yes",
                             "SendEnv *", "LogLevel QUIET")
        with Hosts(1, sshd_lines=("LogLevel DEBUG1", "AcceptEnv *")) as hosts:
            config.write_text("\n".join(config.read_text().splitlines()[:10]) + "\n" + hosts.ssh_config.read_text())
            self.assert_works(by_openssh(config, "open", "h1"))
            log = wait_for(lambda: (text := hosts[0].sshd_log.read_text()).count("request exec") and text, "log line")
            requests = [line for line in log.splitlines() if "server_input_channel_req" in line]
            self.assertEqual(len(requests), 1, requests)
            self.assertIn("request exec", requests[0])
            self.assertNotIn("tcpip-forward", log)
        self.assertFalse(os.path.exists("/tmp/local-command-of-the-test"))

    def test_logins_delegate_no_credentials(self):
        """What ssh makes of the login's command line, whatever the configuration says."""
        config = self.config("GSSAPIAuthentication yes", "GSSAPIDelegateCredentials yes", "ForwardAgent yes")
        self.host.freeze()
        try:
            seen = subprocess.Popen([probes.BIN / "ssh_probe", "--config", config, "--transport", "openssh", "--tcp-ms",
                                     "600000", "open", "h1"], stdout=subprocess.DEVNULL)
            login = wait_for(lambda: [pid for pid, command in processes.matching(str(config)).items()
                                      if command.startswith("ssh -M ")], "a login")[0]
            words = pathlib.Path(f"/proc/{login}/cmdline").read_text().split("\0")[1:-1]
            meant = subprocess.run(["ssh", "-G", *words], capture_output=True, text=True, check=True, timeout=60).stdout
        finally:
            self.host.thaw()
            seen.wait(60)
        self.assertIn("\ngssapiauthentication yes\n", meant)
        self.assertIn("\ngssapidelegatecredentials no\n", meant)
        self.assertIn("\nforwardagent no\n", meant)

    def test_host_that_opens_no_session_is_named_with_the_remedy(self):
        with Hosts(1, sshd_lines=("MaxSessions 0",)) as hosts:
            for transport in ("ssh", "openssh", "auto"):
                result = probe(hosts.ssh_config, "open", "h1", transport=transport)
                self.assertIn("opens no session", result.get("cause", ""), result)
                self.assertIn("MaxSessions 10 (the default) or more", result["remedy"])

    def test_a_host_that_opens_few_sessions_gets_as_many_connections_as_it_needs(self):
        for most in (1, 2, 4):
            with self.subTest(most=most), Hosts(1, sshd_lines=(f"MaxSessions {most}",)) as hosts:
                for transport in ("auto", "openssh"):
                    before = logins(hosts[0])
                    result = probe(hosts.ssh_config, "both", "h1", transport=transport)
                    self.assertEqual(result.get("out"), "first\nsecond\n", result)
                    self.assertEqual(logins(hosts[0]) - before, 2 if most == 1 else 1)

    def test_a_further_login_does_not_count_against_what_follows(self):
        """A host whose logins take longer than an answer may."""
        with Hosts(1, sshd_lines=("MaxSessions 1",)) as hosts:
            with_slow_logins(hosts[0], 4)
            result = probe(hosts.ssh_config, "both", "h1", transport="openssh", answer_ms=3000)
            self.assertEqual(result.get("out"), "first\nsecond\n", result)
            self.assertEqual(logins(hosts[0]), 2)

    def test_the_users_own_connection_without_room_is_left_for_another(self):
        """MaxSessions lets it have one session, which is the user's."""
        with Hosts(1, sshd_lines=("MaxSessions 1",)) as hosts:
            config = client_config(hosts, "own_config", f"ControlPath {hosts.folder}/own.sock")
            options = ["ssh", "-F", config, "-o", "ControlMaster=yes", "-o", "ControlPersist=600"]
            with subprocess.Popen([*options, "h1", "echo here; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as own:
                try:
                    self.assertEqual(own.stdout.readline(), b"here\n")
                    self.assert_works(by_openssh(config, "open", "h1"))
                    self.assertEqual(logins(hosts[0]), 2)
                    hosts[0].refuse_key()
                    result = by_openssh(config, "open", "h1")
                    self.assertIn("no further session on the connection, and a new one fails: the host does not let",
                                  result.get("cause", ""), result)
                    self.assertIn("your own connection (ControlPath)", result["remedy"])
                finally:
                    subprocess.run(["ssh", "-F", config, "-O", "exit", "h1"], check=True, capture_output=True, timeout=60)

    def test_the_users_own_connection_is_used_where_one_is_open(self):
        """Also where no new login would be let in; it stays open afterwards."""
        own = self.hosts.folder / "own.sock"
        config = self.config(f"ControlPath {own}")
        self.assert_works(by_openssh(config, "open", "h1"))
        self.assertFalse(own.exists())
        self.assert_accepts(self.host, 1)
        options = ["ssh", "-F", config, "-o", "ControlMaster=yes", "-o", "ControlPersist=600", "-N"]
        subprocess.run([*options, "h1"], check=True, capture_output=True, timeout=60)
        try:
            self.assert_accepts(self.host, 1)
            self.host.refuse_key()
            self.assert_works(by_openssh(config, "again", "h1"))
            before = self.host.sshd_log.read_text().count("Connection ")
            by_default = probe(config, "again", "h1", transport="auto")
            self.assert_works(by_default)
            self.assertEqual(by_default["notes"], ["by your own ssh: your own connection is open (ControlPath)"])
            self.assertEqual(self.host.sshd_log.read_text().count("Connection "), before)  # none was tried
            self.assert_accepts(self.host, 0)
            check = subprocess.run(["ssh", "-F", config, "-O", "check", "h1"], capture_output=True, timeout=60)
            self.assertEqual(check.returncode, 0, check)
            # A path that two hosts do not share: h2 gets one of its own.
            path_by_host = client_config(self.hosts, "by_host_config", f"ControlPath {self.hosts.folder}/%h.sock")
            self.assert_works(by_openssh(path_by_host, "open", "h2"))
            self.assert_accepts(self.hosts[1], 1)
        finally:
            self.host.accept_key()
            subprocess.run(["ssh", "-F", config, "-O", "exit", "h1"], check=True, capture_output=True, timeout=60)

    def test_the_users_own_connection_that_has_died_is_left_for_another(self):
        """As after a night, or on another network: its ssh does not know yet, and its session never opens."""
        own = self.hosts.folder / "dead.sock"
        config = self.config(f"ControlPath {own}")
        with socket.socket(socket.AF_UNIX) as nobody:
            nobody.bind(str(own))
            nobody.listen()
            for transport in ("openssh", "auto"):
                result = probe(config, "open", "h1", transport=transport)
                self.assert_works(result)
                self.assertIn(f"your own connection ({own}) does not answer", "; ".join(result["notes"]), result)
        own.unlink()

    def test_hosts_with_control_paths_of_their_own_are_not_mixed_up(self):
        """ssh -G names the path with the host's hash in it: what it says of one host does not hold for another, though no
        pattern of the configuration tells them apart."""
        config = self.config(f"ControlPath {self.hosts.folder}/%C")
        config.write_text("\n".join(line for line in config.read_text().splitlines()
                                    if not line.startswith(("Host h", "  HostName"))))
        first, second = (host.address for host in self.hosts)
        options = ["ssh", "-F", config, "-o", "ControlMaster=yes", "-o", "ControlPersist=600", "-N"]
        subprocess.run([*options, first], check=True, capture_output=True, timeout=60)
        try:
            self.assert_accepts(self.host, 1)
            for transport in ("openssh", "auto"):
                for result in probe_all(config, "open", first, second, transport=transport):
                    self.assert_works(result)
                self.assert_accepts(self.host, 0)
                self.assert_accepts(self.hosts[1], 1)
        finally:
            subprocess.run(["ssh", "-F", config, "-O", "exit", first], check=True, capture_output=True, timeout=60)

    # --- errors -------------------------------------------------------------------------------------

    def test_changed_key(self):
        config = self.config("UserKnownHostsFile " + str(self.hosts.folder / "changed"))
        other = self.hosts[1].host_key()
        (self.hosts.folder / "changed").write_text(f"[{self.host.address}]:{self.host.port} {other}\n")
        for rule in ("strict", "accept-new"):
            result = by_openssh(config, "open", "h1", host_keys=rule)
            self.assertEqual((result["host"], result["phase"]), ("h1", "host key"), result)
            self.assertIn(f"differs from {self.hosts.folder}/changed:1; it shows ssh-ed25519 SHA256:", result["cause"])
            self.assertIn("ask who runs the host", result["remedy"])
        self.assert_accepts(self.host, 0)

    def test_unknown_key(self):
        known = self.hosts.folder / "unknown"
        config = self.config(f"UserKnownHostsFile {known}", "StrictHostKeyChecking no")
        result = by_openssh(config, "open", "h1")
        self.assertEqual(result["phase"], "host key", result)
        self.assertIn("key is known for", result["cause"])
        self.assertIn('host_keys = "accept-new"', result["remedy"])
        self.assertFalse(known.exists())
        self.assert_works(by_openssh(config, "open", "h1", host_keys="accept-new"))
        self.assertIn(self.host.host_key(), known.read_text())

    def test_unknown_key_of_a_jump_host(self):
        """Nobody is asked about it, on a display either, and no setting of the configuration takes it unseen."""
        known, mark, askpass = (self.hosts.folder / name for name in ("jump_unknown", "jump_asked", "askpass"))
        target = self.hosts[1]
        askpass.write_text(f"#!/bin/sh\ntouch {mark}\necho yes\n")
        askpass.chmod(0o755)
        display = {"DISPLAY": ":77", "SSH_ASKPASS": str(askpass)}
        for jumps in ("h1", f"trainer@{self.host.address}:{self.host.port},h1"):
            for setting in ("ask", "no"):
                for transport in ("openssh", "ssh"):
                    with self.subTest(jumps=jumps, setting=setting, transport=transport):
                        known.write_text(f"[{target.address}]:{target.port} {target.host_key()}\n")
                        config = self.config("Host h2", f"ProxyJump {jumps}", "Host *", f"UserKnownHostsFile {known}",
                                             f"StrictHostKeyChecking {setting}", "BatchMode no")
                        with unittest.mock.patch.dict(os.environ, display):
                            result = probe(config, "open", "h2", transport=transport)
                            self.assertFalse(mark.exists(), "asked on the display")
                            self.assertFalse(result["ok"], result)
                            self.assertNotIn(self.host.host_key(), known.read_text())
                            self.assert_works(probe(config, "open", "h2", transport=transport, host_keys="accept-new"))
                        self.assertIn(self.host.host_key(), known.read_text())

    def test_revoked_key(self):
        known = self.hosts.folder / "revoked"
        known.write_text(f"@revoked * {self.host.host_key()}\n")
        result = by_openssh(self.config(f"UserKnownHostsFile {known}"), "open", "h1")
        self.assertEqual((result["phase"], "revoked" in result["cause"]), ("host key", True), result)

    def test_refused_key_is_tried_once(self):
        host = self.hosts[1]
        host.refuse_key()
        self.addCleanup(host.accept_key)
        before = host.sshd_log.read_text().count("Connection ")
        result = by_openssh(self.hosts.ssh_config, "open", "h2")
        self.assertEqual((result["host"], result["phase"]), ("h2", "authentication"))
        self.assertIn(f"trainer@{host.address}: Permission denied (publickey)", result["cause"])
        self.assertIn("without a question", result["remedy"])
        log = wait_for(lambda: (text := host.sshd_log.read_text()).count("Connection ") > before and text, "log line")
        self.assertEqual(log.count("Connection ") - before, 1, log)

    def test_unknown_name(self):
        self.assertEqual(by_openssh(self.hosts.ssh_config, "open", "no-such-host.invalid")["phase"], "name lookup")

    def test_host_name_is_never_an_option(self):
        mark = self.hosts.folder / "mark"
        for name in (f"-oProxyCommand=touch {mark}", "-V", "--"):
            self.assertIn("is not a host's name", by_openssh(self.hosts.ssh_config, "open", name)["cause"])
        self.assertFalse(mark.exists())

    def test_host_that_hangs(self):
        """Its system takes the connection, and nobody answers."""
        self.hosts[1].freeze()
        try:
            result = by_openssh(self.hosts.ssh_config, "open", "h2", tcp_ms=500, banner_ms=500, key_exchange_ms=500,
                                authentication_ms=500)
        finally:
            self.hosts[1].thaw()
        self.assertEqual(result["phase"], "connect", result)
        self.assertRegex(result["cause"], "timed out|no answer within|did not log in within")


class BadPeersTest(unittest.TestCase):
    def test_nobody_listens(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # taken, so that nobody else listens there either
            port = held.getsockname()[1]
            result = probe_port(port, transport="openssh")
            self.assertEqual(result["phase"], "connect")
            self.assertIn(f"port {port}: Connection refused", result["cause"])
            self.assertIn("is it up", result["remedy"])

    def test_silent_host(self):
        result = Listener().probe(transport="openssh", tcp_ms=500, banner_ms=500)
        self.assertEqual(result["phase"], "connect")
        self.assertIn("timed out", result["cause"])

    def test_host_that_stops_after_its_version(self):
        result = Listener(b"SSH-2.0-tarpit\r\n").probe(transport="openssh", tcp_ms=500, banner_ms=500, key_exchange_ms=500,
                                                       authentication_ms=500)
        self.assertEqual(result["phase"], "connect")
        self.assertRegex(result["cause"], "no answer within 2 s|did not log in within 2 s|timed out")

    def test_silent_host_with_many_slots_is_tried_once_for_all(self):
        listener = Listener()
        results = listener.probe_all(6, transport="openssh", tcp_ms=1000, banner_ms=1000)
        for result in results:
            self.assertEqual(result["phase"], "connect", result)
            self.assertIn("timed out", result["cause"])
        self.assertLess(len(listener.connections), 6, "one answers all that wait")

    def test_host_that_hangs_up_is_tried_again_and_given_up(self):
        listener = Listener(b"Exceeded MaxStartups\r\n", b"", b"Not allowed at this time\r\n", hang_up=True)
        result = listener.probe(transport="openssh", busy_ms=3000)
        self.assertGreater(len(listener.connections), 2)
        self.assertEqual(result["phase"], "connect")
        self.assertIn("PerSourcePenalties", result["remedy"])


class RemedyTest(unittest.TestCase):
    """What libssh2 cannot, ssh can: the default goes that way."""

    def assert_ssh_works(self, config, why):
        """Also where nothing is said of the transport."""
        for transport in ("openssh", "auto"):
            result = probe(config, "open", "h1", transport=transport)
            self.assertEqual((result["ok"], result.get("out")), (True, "out\n"), result)
        self.assertRegex(result["notes"][0], f"^by your own ssh: .*{why}")

    def test_post_quantum_key_exchange_alone(self):
        with Hosts(1, sshd_lines=(POST_QUANTUM,)) as hosts:
            self.assert_ssh_works(hosts.ssh_config, "no agreement on algorithms")

    def test_certificate_of_the_user(self):
        authority_lines = ("TrustedUserCAKeys /etc/ssh/user_ca.pub", "AuthorizedKeysFile none")
        with Hosts(1, sshd_lines=authority_lines) as hosts:
            # The first value of a keyword counts: the hosts' own AuthorizedKeysFile goes.
            sshd = hosts[0].folder / "etc/ssh/sshd_config"
            sshd.write_text(sshd.read_text().replace("AuthorizedKeysFile /etc/ssh/authorized_keys\n", ""))
            authority, key = hosts.folder / "ca", hosts.folder / "with_certificate"
            make_key(authority, "ed25519", "ca")
            make_key(key, "ed25519", "user")
            (hosts[0].folder / "etc/ssh/user_ca.pub").write_text(authority.with_name("ca.pub").read_text())
            hosts[0]._reload()
            config = only_file(hosts, "certificate_config", key)
            self.assertFalse(probe(config, "open", "h1")["ok"])  # there is no certificate yet
            subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "user", "-n", "trainer", f"{key}.pub"], check=True)
            self.assert_ssh_works(config, "-cert.pub is a certificate")

    def test_certificate_of_the_host(self):
        with Hosts(1, sshd_lines=("HostCertificate /etc/ssh/ssh_host_ed25519_key-cert.pub",)) as hosts:
            authority, key = hosts.folder / "ca", hosts[0].folder / "etc/ssh/ssh_host_ed25519_key.pub"
            make_key(authority, "ed25519", "ca")
            subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "host", "-h", "-n", hosts[0].address, key], check=True)
            hosts[0]._reload()
            for pattern in ("*", hosts[0].address):  # ssh looks for the name without its port, too
                hosts.known_hosts.write_text(f"@cert-authority {pattern} " + authority.with_name("ca.pub").read_text())
                self.assert_ssh_works(hosts.ssh_config, "known_hosts line 1 is for ssh to judge|known_hosts has it without its port")

    def test_any_umask(self):
        with Hosts(1) as hosts:
            before = set(glob.glob("/tmp/tfdist-masters-*"))
            umask = os.umask(0o777)
            try:
                result = probe(hosts.ssh_config, "boot/", "h1", transport="openssh")
            finally:
                os.umask(umask)
            self.assertTrue(result["ok"], result)
            left = {path for path in set(glob.glob("/tmp/tfdist-masters-*")) - before if os.stat(path).st_mode & 0o700 != 0o700}
            self.assertEqual(left, set())

    def test_security_key(self):
        """Such a key is made up here: without the device nobody can log in with it."""
        def text(data):
            return struct.pack(">I", len(data)) + data

        blob = text(b"sk-ssh-ed25519@openssh.com") + text(bytes(32)) + text(b"ssh:")
        private = (b"openssh-key-v1\0" + text(b"none") + text(b"none") + text(b"") + struct.pack(">I", 1) + text(blob) +
                   text(bytes(64)))
        with Hosts(1) as hosts:
            key = hosts.folder / "id_ed25519_sk"
            body = base64.encodebytes(private).decode()
            key.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}-----END OPENSSH PRIVATE KEY-----\n")
            key.chmod(0o600)
            result = probe(only_file(hosts, "sk_config", key), "open", "h1")
            self.assertEqual((result["ok"], result["phase"]), (False, "authentication"), result)
            self.assertIn("ssh says: ", result["cause"])

    def test_host_that_takes_no_keys(self):
        with Hosts(1, sshd_lines=("PubkeyAuthentication no", "GSSAPIAuthentication yes")) as hosts:
            result = probe(hosts.ssh_config, "open", "h1")
            self.assertEqual((result["ok"], result["phase"]), (False, "authentication"), result)
            self.assertIn("it takes no keys", result["cause"])

    def test_settings_that_tfdist_cannot_follow_itself(self):
        with Hosts(1) as hosts:
            revoked = hosts.folder / "revoked_keys"
            revoked.write_text("")
            config = client_config(hosts, "revoked_config", f"RevokedHostKeys {revoked}")
            self.assert_ssh_works(config, "RevokedHostKeys")
            revoked.write_text(hosts[0].host_key() + "\n")
            result = by_openssh(config, "open", "h1")
            self.assertEqual((result["phase"], "revoked" in result["cause"]), ("host key", True), result)


if __name__ == "__main__":
    unittest.main()
