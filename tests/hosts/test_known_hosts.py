"""tfdist's verdict on host keys is OpenSSH's: both are asked about the same known_hosts files."""

import base64
import concurrent.futures
import subprocess
import unittest

from tests.hosts.hosts import Hosts, check_possible, make_key
from tests.hosts.probe import client_config, probe


def setUpModule():
    check_possible()


class KnownHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(1, host_key_types=("ed25519", "rsa"))
        cls.hosts.start()
        cls.host = cls.hosts[0]
        stranger = cls.hosts.folder / "stranger"
        for key_type in ("ed25519", "rsa"):
            make_key(stranger.with_name(f"stranger_{key_type}"), key_type, "stranger")
        cls.key, cls.rsa = cls.host.host_key("ed25519"), cls.host.host_key("rsa")
        cls.strange, cls.strange_rsa = (
            " ".join(stranger.with_name(f"stranger_{key_type}.pub").read_text().split()[:2])
            for key_type in ("ed25519", "rsa"))

    @classmethod
    def tearDownClass(cls):
        cls.hosts.stop()

    def hashed(self, text):
        file = self.hosts.folder / "hashed"
        file.write_text(text)
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
        return file.read_text()

    def cases(self):
        """Name -> text of known_hosts, or (user's file, user's second file, global file)."""
        a, p = self.host.address, self.host.port
        good, bare = f"[{a}]:{p} {self.key}\n", f"{a} {self.key}\n"
        wrong, good_rsa = f"[{a}]:{p} {self.strange}\n", f"[{a}]:{p} {self.rsa}\n"
        wrong_rsa = f"[{a}]:{p} {self.strange_rsa}\n"
        revoked, authority = f"@revoked [{a}]:{p} {self.key}\n", f"@cert-authority [{a}]:{p} {self.key}\n"
        truncated = f"[{a}]:{p} {self.key[:-20]}\n"
        network = a.rsplit(".", 1)[0]
        return {
            "empty": "",
            "known": good,
            "known without port": bare,
            "another key": wrong,
            "another key without port": f"{a} {self.strange}\n",
            "another key, then the right one": wrong + good,
            "the right one, then another key": good + wrong,
            "another key with port, the right one without": wrong + bare,
            "the right one with port, another without": good + f"{a} {self.strange}\n",
            "for another port": f"[{a}]:{p + 1} {self.key}\n",
            "for another address": f"[{a}9]:{p} {self.key}\n",
            "revoked": revoked,
            "known and revoked": good + revoked,
            "revoked and known": revoked + good,
            "revoked for all": f"@revoked * {self.key}\n" + good,
            "revoked without port": f"@revoked {a} {self.key}\n" + good,
            "revoked without port, known without port": f"@revoked {a} {self.key}\n" + bare,
            "another key revoked": f"@revoked * {self.strange}\n" + good,
            "revoked, with a line of junk before": "junk\n" + revoked + good,
            "authority": authority,
            "authority and known": authority + good,
            "known and authority for another": good + f"@cert-authority *.example.com {self.rsa}\n",
            "unknown marker": f"@trusted [{a}]:{p} {self.key}\n",
            "wildcard": f"[{network}.*]:{p} {self.key}\n",
            "wildcard for all": f"* {self.key}\n",
            "wildcard of one character": f"[{a[:-1]}?]:{p} {self.key}\n",
            "wildcard but not this": f"*,![{a}]:{p} {self.key}\n",
            "not this, then wildcard": f"![{a}]:{p},* {self.key}\n",
            "wildcard with another key": f"* {self.strange}\n" + good,
            "several names": f"example.com,[{a}]:{p},other {self.key}\n",
            "hashed": self.hashed(good),
            "hashed without port": self.hashed(bare),
            "hashed, another key": self.hashed(wrong),
            "hash that is none": f"|1|junk|junk {self.key}\n",
            "hash that is none, then known": f"|1|junk|junk {self.key}\n" + good,
            "junk before": "this is no line\n\n# a comment\n   \n" + good,
            "junk after": good + "ssh-ed25519\n\x01\x02\x03\n",
            "long junk before": "x" * 9000 + "\n" + good,
            "comment out": "#" + good,
            "blanks before": "   \t" + good,
            "tabs between": good.replace(" ", "\t"),
            "comment behind": good.rstrip("\n") + " somebody@somewhere and more\n",
            "no newline at the end": good.rstrip("\n"),
            "carriage returns": good.replace("\n", "\r\n"),
            "truncated key": truncated,
            "truncated key, then known": truncated + good,
            "type that is not the key's": f"[{a}]:{p} ssh-rsa {self.key.split()[1]}\n",
            "only the type": f"[{a}]:{p} ssh-ed25519\n",
            "base64 of nothing": f"[{a}]:{p} ssh-ed25519 {base64.b64encode(b'nothing').decode()}\n",
            "protocol 1": f"[{a}]:{p} 1024 35 123456789\n" + good,
            "another type known": good_rsa,
            "another type known, wrong": wrong_rsa,
            "both types, one wrong": good + wrong_rsa,
            "both types, the other wrong": good_rsa + wrong,
            "second file": ("", good, ""),
            "global file": ("", "", good),
            "right in the first, wrong in the second": (good, wrong, ""),
            "wrong in the first, right in the global": (wrong, "", good),
            "right in the first, revoked in the global": (good, "", revoked),
        }

    def verdicts(self, number, texts):
        """OpenSSH's run and tfdist's result."""
        folder = self.hosts.folder / f"case{number}"
        folder.mkdir()
        files = [folder / name for name in ("first", "second", "global")]
        for file, text in zip(files, texts if isinstance(texts, tuple) else (texts, "", "")):
            file.write_text(text)
        config = client_config(self.hosts, f"case{number}/config", f"UserKnownHostsFile {files[0]} {files[1]}",
                               f"GlobalKnownHostsFile {files[2]}")
        openssh = subprocess.run(["ssh", "-F", config, self.host.name, "true"], capture_output=True,
                                 stdin=subprocess.DEVNULL, text=True)
        return openssh, probe(config, "open", self.host.name)

    def test_same_verdict_as_openssh(self):
        cases = self.cases()
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            results = list(threads.map(self.verdicts, range(len(cases)), cases.values()))
        for name, (openssh, ours) in zip(cases, results):
            with self.subTest(name):
                self.assertEqual(ours["ok"], openssh.returncode == 0, f"{ours}\n{openssh.stderr}")
                if not ours["ok"]:
                    self.assertEqual(ours["phase"], "host key")

    def test_host_key_alias(self):
        file = self.hosts.folder / "alias_known"
        config = client_config(self.hosts, "alias_config", "HostKeyAlias some.name", f"UserKnownHostsFile {file}")
        file.write_text(f"some.name {self.key}\n")
        self.assertTrue(probe(config, "open", self.host.name)["ok"])
        file.write_text(f"[{self.host.address}]:{self.host.port} {self.key}\n")
        self.assertIn("host key is known for some.name", probe(config, "open", self.host.name)["cause"])

    def test_unknown_host_is_refused_with_its_fingerprint(self):
        config = client_config(self.hosts, "unknown_config", "UserKnownHostsFile /dev/null")
        result = probe(config, "open", self.host.name)
        shown = subprocess.run(["ssh-keygen", "-lf", "-"], input=self.key, capture_output=True, text=True,
                               check=True).stdout.split()[1]
        self.assertEqual((result["host"], result["phase"]), (self.host.name, "host key"))
        self.assertIn(f"host key is known for [{self.host.address}]:{self.host.port} and", result["cause"])
        self.assertIn(f"; it shows ssh-ed25519 {shown}", result["cause"])
        self.assertIn("accept-new", result["remedy"])

    def test_accept_new_adds_the_key_once(self):
        for hashed in ("no", "yes"):
            folder = self.hosts.folder / f"new_{hashed}"
            file = folder / "known_hosts"  # neither exists
            config = client_config(self.hosts, "new_config", f"UserKnownHostsFile {file}", f"HashKnownHosts {hashed}")
            self.assertTrue(probe(config, "open", self.host.name, host_keys="accept-new")["ok"])
            self.assertTrue(probe(config, "open", self.host.name, host_keys="accept-new")["ok"])
            self.assertTrue(probe(config, "open", self.host.name)["ok"])
            self.assertEqual(len(file.read_text().splitlines()), 1)
            self.assertEqual(self.host.address in file.read_text(), hashed == "no")
            self.assertEqual((file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777), (0o600, 0o700))

    def test_accept_new_keeps_a_last_line_without_newline(self):
        file = self.hosts.folder / "unended"
        file.write_text(f"example.com {self.key}")
        config = client_config(self.hosts, "unended_config", f"UserKnownHostsFile {file}")
        self.assertTrue(probe(config, "open", self.host.name, host_keys="accept-new")["ok"])
        self.assertEqual(len(file.read_text().splitlines()), 2)

    def test_changed_key_is_refused_even_by_accept_new(self):
        file = self.hosts.folder / "changed"
        file.write_text(f"# one\n[{self.host.address}]:{self.host.port} {self.strange}\n")
        config = client_config(self.hosts, "changed_config", f"UserKnownHostsFile {file}")
        before = file.read_text()
        for mode in ("strict", "accept-new"):
            result = probe(config, "open", self.host.name, host_keys=mode)
            self.assertEqual(result["phase"], "host key")
            self.assertIn(f"differs from {file}:2; it shows ssh-ed25519 SHA256:", result["cause"])
            self.assertIn(f"ssh-keygen -f '{file}' -R '[{self.host.address}]:{self.host.port}'", result["remedy"])
        self.assertEqual(file.read_text(), before)

    def test_changed_key_is_refused_where_the_path_has_a_blank(self):
        """`ssh -G` prints the path without its quotes; no key is trusted, and no file made, for a part of it."""
        folder = self.hosts.folder / "blanks"
        folder.mkdir()
        file = folder / "my hosts"
        config = client_config(self.hosts, "blank_config", f'UserKnownHostsFile "{file}"')
        self.assertTrue(probe(config, "open", self.host.name, host_keys="accept-new")["ok"])
        file.write_text(f"[{self.host.address}]:{self.host.port} {self.strange}\n")
        for transport in ("auto", "openssh"):
            self.assertIn("differs from", probe(config, "open", self.host.name, host_keys="accept-new", transport=transport)["cause"])
        file.write_text(f"[{self.host.address}]:{self.host.port} {self.key}\n")
        self.assertTrue(probe(config, "open", self.host.name)["ok"])
        self.assertEqual([entry.name for entry in folder.iterdir()], ["my hosts"])

    def test_what_may_know_more_of_a_key_is_not_passed_over(self):
        config = client_config(self.hosts, "command_config", "KnownHostsCommand /bin/true")
        self.assertEqual(probe(config, "open", self.host.name)["notes"], ["by your own ssh: KnownHostsCommand /bin/true"])

    def test_key_of_another_type_is_no_new_key(self):
        """A host that hides the key that is known of it has changed."""
        file = self.hosts.folder / "hidden"
        file.write_text(f"[{self.host.address}]:{self.host.port} {self.strange_rsa}\n")
        config = client_config(self.hosts, "hidden_config", f"UserKnownHostsFile {file}")
        self.assertIn("differs from", probe(config, "open", self.host.name, host_keys="accept-new")["cause"])

    def test_revoked_key_and_authority_are_named(self):
        file = self.hosts.folder / "revoked"
        config = client_config(self.hosts, "revoked_config", f"UserKnownHostsFile {file}")
        file.write_text(f"@revoked * {self.key}\n")
        self.assertIn("is marked as revoked", probe(config, "open", self.host.name, host_keys="accept-new")["cause"])
        file.write_text(f"@cert-authority * {self.strange}\n")
        result = probe(config, "open", self.host.name)
        self.assertIn("host key is known for", result["cause"])


if __name__ == "__main__":
    unittest.main()
