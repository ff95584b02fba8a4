"""64 hosts of which ten are ill, each in another way: `check` and `up` name all ten in one report."""

import json
import time
import unittest

from tests.smoke.test_check import Checked
from tests.support.tfdist import without_waiting

COUNT = 64
# The slowest deadline is that of a host that drops packets; the rest is this machine's work for 64 hosts.
SECONDS = 60


class TenOfSixtyFour(Checked):
    def setUp(self):
        super().setUp()
        self.hosts = self.start_hosts(COUNT)
        # What is wrong with which host: the check that finds it, and what `up` says of it.
        self.ill = {}
        for host, (check, said, break_it) in zip(list(self.hosts)[7::5], (
                ("authentication", "authentication: ", lambda host: host.refuse_key()),
                ("host key", "host key: ", lambda host: host.replace_host_key()),
                ("connect", "connect: ", lambda host: host.crash()),
                ("connect", "connect: ", lambda host: host.drop_all()),
                ("ports", "port 2223 of ", lambda host: self.take_port(host, 2223)),
                ("agent start", "programs cannot be run there", lambda host: self.mount(host, "noexec")),
                ("upload", "No space left", lambda host: self.mount(host, "size=64k")),
                ("remote shell", "This account is currently not available", self.take_shell),
                ("command", "command 'python3' of ", self.mask_python),
                ("names", "is 127.0.1.1", self.name_loopback))):
            break_it(host)
            self.ill[host.name] = (check, said)

    @staticmethod
    def mount(host, options):
        host.run_as("root", ["mount", "-t", "tmpfs", "-o", f"uid={host.uid},mode=700,{options}", "tmpfs", "/home/trainer"])

    @staticmethod
    def take_shell(host):
        passwd = host.folder / "etc/passwd"
        passwd.write_text(passwd.read_text().replace(":/bin/bash\n", ":/usr/sbin/nologin\n"))

    @staticmethod
    def mask_python(host):
        host.run_as("root", ["sh", "-c", "mount --bind /dev/null $(readlink -f /usr/bin/python3)"])

    def name_loopback(self, host):
        self.edit(host, lambda text: text.replace(f"{host.address} {host.name}\n", f"127.0.1.1 {host.name}\n"))

    def assert_hosts_are_as_before(self):
        self.assert_nothing_left([host for host in self.hosts if self.ill.get(host.name, ("",))[0] not in ("ports", "connect")])
        for host in self.hosts:
            self.assertEqual([str(path) for path in host.home.rglob("h[0-9]*")], [], host.name)

    def test_check_names_all_ten(self):
        begin = time.monotonic()
        result = self.user.run("check", "--json", self.write(self.hosts))
        self.assertLess(time.monotonic() - begin, SECONDS)
        self.assertEqual(result.code, 3, result)
        findings = json.loads(result.out)["findings"]
        found = {finding["host"]: finding["check"] for finding in findings if finding["host"]}
        self.assertEqual(found, {name: check for name, (check, _) in self.ill.items() if check != "names"})
        self.assertEqual([finding["check"] for finding in findings if not finding["host"]], ["names"])
        self.assertEqual(len({finding["what"] for finding in findings}), 10)
        self.assertTrue(all(finding["remedy"] for finding in findings if finding["check"] != "remote shell"), findings)
        self.assert_hosts_are_as_before()

    def test_up_names_all_ten_and_starts_nothing(self):
        begin = time.monotonic()
        result = self.user.run("up", self.write(self.hosts))
        self.assertLess(time.monotonic() - begin, SECONDS)
        self.assertEqual(result.code, 3, result)
        report = without_waiting(result.err)  # the host that drops packets is waited for as long as `up` is silent
        for name, (_, said) in self.ill.items():
            lines = [line for line in report.splitlines() if f" {name}: " in line or f" {name} is 127" in line]
            self.assertEqual([said in line for line in lines], [True], f"{name}: {lines} in {report}")
        self.assertIn("9 of 64 hosts could not be brought up; nothing was started", result.err)
        self.assert_hosts_are_as_before()


if __name__ == "__main__":
    unittest.main()
