"""The default transport: `ssh HOST true` succeeds, if and only if tfdist gets in. A table of ssh configurations against one
sshd: each case is tried by ssh and by tfdist. docs/ssh.md has the same table in words."""

import concurrent.futures
import contextlib
import dataclasses
import os
import shutil
import socket
import subprocess
import unittest
import unittest.mock

from tests.hosts.hosts import KEY_TYPES, Hosts, check_possible, make_key
from tests.hosts.probe import probe
from tests.hosts.test_ssh import RELAY, ssh_agent

LIBRARY = "by libssh2"  # and no word of it
FAILS = "neither gets in"


def setUpModule():
    check_possible()


@dataclasses.dataclass
class Case:
    """`lines` come first in the configuration, so they win. `way`: LIBRARY, or why the user's ssh connects, or FAILS."""

    lines: tuple
    way: str = LIBRARY
    key: str = ""        # IdentityFile instead of the hosts' own: none where it is "none"
    cause: str = ""      # words of the error
    remedy: str = ""
    differs: bool = False  # ssh gets in, and tfdist does not
    needs: str = ""      # a keyword that some builds of ssh lack


def case(*lines, **options):
    return Case(lines, **options)


def by_ssh(why, *lines, **options):
    return Case(lines, way=why, **options)


def fails(cause, *lines, **options):
    return Case(lines, way=FAILS, cause=cause, **options)


# {} stands for the folder of the hosts.
KEYWORDS = [
    case(),
    # Addresses and ways
    by_ssh("AddressFamily inet", "AddressFamily inet"),
    by_ssh("BindAddress 127.9.9.9", "BindAddress 127.9.9.9"),
    by_ssh("BindInterface lo", "BindInterface lo"),
    fails("none", "BindAddress none"),  # a name, as for a host key's
    fails("known for none", "HostKeyAlias none"),
    by_ssh("CanonicalizeHostname", "CanonicalizeHostname always"),
    case("CanonicalizeHostname no", "CanonicalDomains example.org", "CanonicalizeMaxDots 0"),
    case("ConnectTimeout 20", "ConnectionAttempts 2", "TCPKeepAlive no"),
    case("ServerAliveInterval 7", "ServerAliveCountMax 2"),
    case("IPQoS throughput"),
    case("ForkAfterAuthentication yes"),
    case("Host h1", "ProxyJump h2", "Host *"),
    case("Host h1", "ProxyJump trainer@h2:2200", "Host *"),
    by_ssh("ProxyJump %r@h2", "Host h1", "ProxyJump %r@h2", "Host *"),
    by_ssh("ProxyCommand", "Host h1", "ProxyCommand ssh -F {}/ssh_config -W [%h]:%p h2", "Host *"),
    by_ssh("ProxyCommand", "Host h1", "ProxyCommand python3 {}/relay.py %h %p", "Host *"),
    by_ssh("ProxyCommand", "Host h1", "ProxyCommand python3 {}/relay.py %h %p 2>/dev/null", "Host *"),
    case("Host h1", "ProxyCommand none", "ProxyJump none", "Host *"),
    by_ssh("ProxyUseFdpass yes", "ProxyUseFdpass yes"),
    case("CanonicalizeFallbackLocal no", "CanonicalizePermittedCNAMEs *.a.example:*.b.example"),
    # Algorithms
    case("Ciphers aes256-ctr"),
    case("Ciphers chacha20-poly1305@openssh.com"),
    case("Ciphers -aes*"),
    case("MACs hmac-sha2-512-etm@openssh.com", "Ciphers aes128-ctr"),
    by_ssh("MACs umac-128-etm@openssh.com", "MACs umac-128-etm@openssh.com"),
    case("KexAlgorithms curve25519-sha256"),
    by_ssh("KexAlgorithms sntrup761x25519-sha512@openssh.com", "KexAlgorithms sntrup761x25519-sha512@openssh.com"),
    case("HostKeyAlgorithms ssh-ed25519"),
    fails("no matching host key type", "HostKeyAlgorithms rsa-sha2-512"),
    fails("no matching key exchange method", "KexAlgorithms diffie-hellman-group14-sha1"),
    by_ssh("PubkeyAcceptedAlgorithms ssh-ed25519", "PubkeyAcceptedAlgorithms ssh-ed25519"),
    fails("Permission denied", "PubkeyAcceptedAlgorithms rsa-sha2-512"),
    case("CASignatureAlgorithms ssh-ed25519", "RequiredRSASize 3072"),
    by_ssh("Compression yes", "Compression yes"),
    by_ssh("RekeyLimit", "RekeyLimit 1M"),
    by_ssh("GSSAPIKeyExchange yes", "GSSAPIKeyExchange yes", "GSSAPIKexAlgorithms gss-curve25519-sha256-", needs="gssapikeyexchange"),
    # How to log in
    case("PreferredAuthentications publickey"),
    fails("Permission denied", "PreferredAuthentications password"),
    fails("Permission denied", "PubkeyAuthentication no"),
    case("PubkeyAuthentication unbound"),
    by_ssh("PubkeyAuthentication host-bound", "PubkeyAuthentication host-bound"),
    case("GSSAPIAuthentication yes", "GSSAPIDelegateCredentials yes"),
    case("GSSAPITrustDns yes", "GSSAPIRenewalForcesRekey yes", "GSSAPIClientIdentity a", "GSSAPIServerIdentity b",
         needs="gssapikeyexchange"),
    case("HostbasedAcceptedAlgorithms ssh-ed25519", "EnableSSHKeysign no", "KbdInteractiveDevices pam", "BatchMode no"),
    case("HostbasedAuthentication yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
         "NumberOfPasswordPrompts 1"),
    case("User trainer"),
    fails("Permission denied", "User nobody"),
    by_ssh("PKCS11Provider", "PKCS11Provider /usr/lib/none.so"),
    case("SecurityKeyProvider internal", "AddKeysToAgent yes", "FingerprintHash md5"),
    # Keys of hosts
    case("CheckHostIP yes", "HashKnownHosts yes", "UpdateHostKeys yes", "VisualHostKey yes"),
    case("UserKnownHostsFile {}/nothing {}/known_hosts"),
    case("UserKnownHostsFile none", "GlobalKnownHostsFile {}/known_hosts"),
    by_ssh("UserKnownHostsFile", 'UserKnownHostsFile "{}/my hosts"'),
    case("UserKnownHostsFile {}/by", "GlobalKnownHostsFile {}/known_hosts"),  # a folder
    by_ssh("UserKnownHostsFile", 'UserKnownHostsFile "{}/their hosts "'),
    case("UserKnownHostsFile ${{KNOWN}}"),
    by_ssh("HostKeyAlias boxh1", "HostKeyAlias boxh1", "UserKnownHostsFile {}/alias_hosts"),
    fails("Host key verification failed; it shows ssh-ed25519 SHA256:", "UserKnownHostsFile none", "StrictHostKeyChecking ask", remedy="compare the fingerprint"),
    case("UserKnownHostsFile {}/new_hosts", "StrictHostKeyChecking accept-new"),
    case("UserKnownHostsFile /dev/null", "StrictHostKeyChecking accept-new"),
    fails("names no file to add it to", "UserKnownHostsFile none", "StrictHostKeyChecking accept-new", remedy="a file, and not none"),
    by_ssh("cannot add to /dev/null/known", "UserKnownHostsFile /dev/null/known", "StrictHostKeyChecking accept-new"),
    fails("differs from", "UserKnownHostsFile {}/changed_hosts", "StrictHostKeyChecking accept-new", remedy="ask who runs the host"),
    Case(("UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"), way=FAILS, differs=True,
         cause="turns the check off (StrictHostKeyChecking no)", remedy="StrictHostKeyChecking accept-new"),
    by_ssh("KnownHostsCommand /usr/bin/cat", "UserKnownHostsFile none", "KnownHostsCommand /usr/bin/cat {}/known_hosts"),
    by_ssh("NoHostAuthenticationForLocalhost yes", "NoHostAuthenticationForLocalhost yes"),
    by_ssh("VerifyHostKeyDNS true", "VerifyHostKeyDNS yes"),
    by_ssh("RevokedHostKeys", "RevokedHostKeys {}/empty"),
    fails("revoked", "RevokedHostKeys {}/h1.pub"),
    # What tfdist never does, whatever is written
    case("ForwardAgent yes", "ForwardX11 yes", "ForwardX11Trusted yes", "ClearAllForwardings yes"),
    case("LocalForward 127.0.0.1:34571 127.0.0.1:1", "ExitOnForwardFailure no", "GatewayPorts yes"),
    case("DynamicForward 127.0.0.1:34572", "RemoteForward 127.0.0.1:34573 127.0.0.1:1", "PermitRemoteOpen none",
         "ForwardX11Timeout 20m", "ExitOnForwardFailure no"),
    case("EnableEscapeCommandline yes", "TunnelDevice any:any", "LogVerbose none", "SyslogFacility USER"),
    case("SendEnv LANG LC_*", "SetEnv A=b", "RequestTTY no", "EscapeChar none", "StdinNull no", "SessionType default"),
    case("PermitLocalCommand yes", "LocalCommand true", "LogLevel DEBUG"),
    case("ControlMaster no", "ControlPath {}/%C", "ControlPersist 1"),
    case("Tunnel no", "XAuthLocation /none", "StreamLocalBindMask 0177", "StreamLocalBindUnlink yes"),
    case("IgnoreUnknown Foo", "Foo bar"),
    # Forms
    case("Match host 127.*", "Ciphers aes128-ctr", "Match all"),
    case('Match exec "test %n = h1"', "Ciphers aes128-ctr", "Match all"),
    by_ssh("Compression yes", "Match originalhost h1", "Compression yes", "Match all"),
    case("Match user nobody", "Compression yes", "Match all"),
    case("Include {}/included"),
    case("Host h*", "Ciphers aes128-ctr", "Host *"),
    case("Host !h1 *", "Compression yes", "Host *"),
]

# A path to the key, as it is written. Those with % and $ are for ssh.
PATHS = [
    "{}/keys/id_ed25519", '"{}/my key"', "${{KEYS}}/id_ed25519", "{}/by/%u", "{}/by/%k", "{}/by/%n", "{}/by/%L", "{}/by/%l",
    "{}/by/%h", "{}/by/%p", "{}/by/%r", "{}/by/%i", "{}/by/100%%",
]


def with_key(path, folder):
    """The case of a key at a path of PATHS."""
    way = "IdentityFile " if set(path) & set("%$") else LIBRARY
    return Case((), way=way, key=path.replace("{{", "{").replace("}}", "}").replace("{}", str(folder)))


class Configured(unittest.TestCase):
    """Hosts, and all that the cases name."""

    @classmethod
    def setUpClass(cls):
        cls.use(cls.enterClassContext(Hosts(2, key_types=KEY_TYPES)))

    @classmethod
    def use(cls, hosts):
        """From now on the cases are about these."""
        cls.hosts = hosts
        cls.base_config = hosts.ssh_config
        folder = cls.folder = hosts.folder
        (folder / "relay.py").write_text(RELAY)
        (folder / "empty").write_text("")
        (folder / "h1.pub").write_text(cls.hosts[0].host_key() + "\n")
        (folder / "included").write_text("Ciphers aes128-ctr\n")
        for name in ("my hosts", "their hosts "):
            shutil.copy(cls.hosts.known_hosts, folder / name)
        (folder / "alias_hosts").write_text(f"boxh1 {cls.hosts[0].host_key()}\n")
        host = cls.hosts[0]
        (folder / "changed_hosts").write_text(f"[{host.address}]:{host.port} {cls.hosts[1].host_key()}\n")
        # Until OpenSSH has agreed on a short host name, each form of it is there.
        shutil.copy(cls.hosts.key, folder / "my key")
        (folder / "by").mkdir()
        name = socket.gethostname()
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        for by in {user, "h1", name, name.split(".")[0], host.address, str(host.port), "trainer", str(os.getuid()), "100%"}:
            shutil.copy(cls.hosts.key, folder / "by" / by)

    def setUp(self):
        changed = {"KEYS": str(self.folder / "keys"), "KNOWN": str(self.hosts.known_hosts)}
        patch = unittest.mock.patch.dict(os.environ, changed)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("SSH_AUTH_SOCK", None)

    @staticmethod
    def is_known(one):
        if not one.needs:
            return True
        known = subprocess.run(["ssh", "-G", "-F", "/dev/null", "h1"], capture_output=True, text=True, check=True, timeout=60).stdout
        return f"\n{one.needs}" in known

    def config(self, number, one):
        """Its own copy of the hosts' configuration."""
        base = self.base_config.read_text()
        if one.key:
            base = base.replace(f"IdentityFile {self.hosts.key}", f"IdentityFile {one.key}")
        path = self.folder / f"case_{number}"
        path.write_text("\n".join(line.replace("{{", "{").replace("}}", "}").replace("{}", str(self.folder))
                                  for line in one.lines) + "\n" + base)
        return path

    @contextlib.contextmanager
    def new_hosts(self):
        """A key that one program accepts is new for the next."""
        try:
            yield
        finally:
            (self.folder / "new_hosts").unlink(missing_ok=True)

    def run_ssh(self, config):
        with self.new_hosts():
            return subprocess.run(["ssh", "-n", "-F", config, "h1", "true"], capture_output=True, text=True, timeout=100)

    def check(self, cases):
        """`look` says what is wrong with one; empty: nothing."""
        cases = [one for one in cases if self.is_known(one)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = [text for text in pool.map(self.look, range(len(cases)), cases) if text]
        self.assertEqual(wrong, [], "\n\n".join(wrong))


class ConfigurationsTest(Configured):
    def look(self, number, one):
        config = self.config(number, one)
        with self.new_hosts():
            ours = probe(config, "open", "h1", transport="auto")
        ssh = self.run_ssh(config)
        said = f"{one}\nssh: {ssh.returncode} {ssh.stderr}\ntfdist: {ours}"
        if (ssh.returncode == 0) != (ours["ok"] or one.differs):
            return f"one gets in, the other does not: {said}"
        if ours["ok"] != (one.way != FAILS):
            return f"not as meant: {said}"
        if not ours["ok"]:
            good = one.cause in ours["cause"] and one.remedy in ours["remedy"]
            return "" if good else f"not the words: {said}"
        notes = ours.get("notes", [])
        if one.way == LIBRARY:
            return f"not by libssh2: {said}" if notes else ""
        return "" if len(notes) == 1 and notes[0].startswith("by your own ssh: ") and one.way in notes[0] else f"not the note: {said}"

    def test_every_keyword_that_touches_a_login(self):
        self.check(KEYWORDS)

    def test_paths_of_keys(self):
        self.check([with_key(path, self.folder) for path in PATHS])

    def test_kinds_of_keys(self):
        folder = self.folder
        public = folder / "work.pub"
        shutil.copy(f"{self.hosts.key}.pub", public)
        public.chmod(0o644)
        encrypted = folder / "encrypted"
        shutil.copy(self.hosts.key, encrypted)
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", encrypted], check=True, capture_output=True)
        open_to_all = folder / "open_to_all"
        shutil.copy(self.hosts.key, open_to_all)
        open_to_all.chmod(0o644)
        pem = folder / "pem"
        shutil.copy(self.hosts.keys["rsa"], pem)
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "", "-m", "PEM", "-f", pem], check=True, capture_output=True)
        old = folder / "old"
        shutil.copy(self.hosts.keys["rsa"], old)
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-m", "PEM", "-f", old], check=True, capture_output=True)
        garbage = folder / "garbage"
        garbage.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nYWJj\n-----END OPENSSH PRIVATE KEY-----\n")
        garbage.chmod(0o600)
        certified = folder / "certified"
        shutil.copy(self.hosts.key, certified)
        shutil.copy(f"{self.hosts.key}.pub", f"{certified}.pub")
        make_key(folder / "ca", "ed25519", "ca")
        subprocess.run(["ssh-keygen", "-q", "-s", folder / "ca", "-I", "user", "-n", "trainer", f"{certified}.pub"], check=True)
        other = folder / "other"
        make_key(other, "ed25519", "other")
        text = self.hosts.key.read_bytes()
        odd = {"returns": text.replace(b"\n", b"\r\n"), "blank line first": b"\n" + text, "words first": b"my key\n" + text,
               "no newline at the end": text.rstrip(b"\n")}
        for name, changed in odd.items():
            (folder / name).write_bytes(changed)
            (folder / name).chmod(0o600)
        mixed = folder / "mixed"
        shutil.copy(self.hosts.key, mixed)
        shutil.copy(f"{other}.pub", f"{mixed}.pub")
        with ssh_agent(folder, self.hosts.key) as agent:
            held = f"IdentityAgent {agent}"
            os.environ["OUR_AGENT"] = str(agent)
            self.check([
                by_ssh("IdentityFile names a public key", held, key=str(public)),
                by_ssh("IdentityFile names a public key", held, key=str(folder / "work")),
                fails("ssh cannot use it", key=str(public), remedy="ssh-add its private key"),
                case(held, "IdentitiesOnly no", key="none"),
                case("IdentityAgent $OUR_AGENT", "IdentitiesOnly no", key="none"),
                case("IdentityAgent ${{OUR_AGENT}}", "IdentitiesOnly no", key="none"),
                fails("ssh has no key to offer", held, key=str(folder / "nothing"), remedy="ssh-copy-id"),
                case(held, key=str(encrypted)),
                fails("ssh cannot use it", key=str(encrypted), remedy="ssh-add"),
                fails("bad permissions", key=str(open_to_all), remedy=f"chmod 600 {open_to_all}"),
                fails("error in libcrypto", key=str(garbage), remedy=f"{garbage} is no key"),
                fails("ssh has no key to offer", held, key=str(old), remedy=f"ssh-keygen -y -f {old} >{old}.pub"),
                fails("IdentityAgent names $NOT_SET", "IdentityAgent $NOT_SET", "IdentitiesOnly no", key="none", remedy="set NOT_SET"),
                fails("Permission denied", key=str(other), remedy="ssh-copy-id"),
                fails("ssh's configuration leaves out keys", "PreferredAuthentications none", remedy="must allow publickey"),
                fails("ssh's configuration leaves out keys", "PubkeyAuthentication no", remedy="must allow publickey"),
                *(fails("Load key", key=f'"{folder / name}"') for name in odd),
                fails("Permission denied", key=str(mixed)),
                case(f"IdentityFile {other}"),
                case(key=str(pem)),
                fails("Permission denied", "RequiredRSASize 4096", key=str(self.hosts.keys["rsa"])),
                fails("Permission denied", "RequiredRSASize 4096", key=str(pem)),
                case(key=str(self.hosts.keys["ecdsa"])),
                by_ssh("certified-cert.pub is a certificate", key=str(certified)),
                by_ssh("is a certificate", f"CertificateFile {certified}-cert.pub"),
                fails("nobody answers at ssh-agent's socket: ", f"IdentityAgent {folder}/nobody", "IdentitiesOnly no",
                      key="none", remedy="start ssh-agent"),
                case(f"IdentityAgent {folder}/nobody"),
            ])


if __name__ == "__main__":
    unittest.main()
