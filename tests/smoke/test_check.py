"""`tfdist check`: what would stop a job on its hosts, found without starting anything."""

import json
import pathlib
import subprocess
import time
import unittest

from tests.hosts.probe import client_config
from tests.smoke.test_ssh import OverSsh
from tests.support import clusters, processes
from tests.support.waiting import PATIENCE, wait_for

PYTHON = ["python3", "-c", "pass"]
LISTEN = "import socket, sys, time; s = socket.socket(); s.bind(('', int(sys.argv[1]))); s.listen(); print('up', flush=True); time.sleep(600)"


class Checked(OverSsh):
    def start_hosts(self, count, **options):
        return super().start_hosts(count, own_network=True, **options)

    def write(self, hosts, ssh_config=None, listed=None, command=None, extra="", layout="uai"):
        listed = listed or [host.name for host in hosts]
        return self.user.write("cluster.toml", f"""
name = "job"
[cluster]
hosts = {clusters.toml_list(listed)}
layout = "{layout}"
[task]
command = {clusters.toml_list(command or PYTHON)}
gpus = 0
[ssh]
config = "{ssh_config or hosts.ssh_config}"
{extra}
""")

    def check(self, *args):
        """The exit code and what --json prints. No longer than the promise: 10 s, whatever packets are dropped."""
        begin = time.monotonic()
        result = self.user.run("check", "--json", *args)
        self.assertLess(time.monotonic() - begin, 10 * PATIENCE, result)
        self.assertIn(result.code, (0, 3), result)
        return result.code, json.loads(result.out)

    def findings(self, *args):
        """The exit code, and the findings as "severity check host"."""
        code, said = self.check(*args)
        return code, [f"{f['severity']} {f['check']} {f['host']}".strip() for f in said["findings"]], said["findings"]

    def assert_clean(self, hosts):
        """Not a file, not a process; what the hosts had before they still have."""
        left = {host.name: [str(p.relative_to(host.home)) for p in host.home.rglob("*")] for host in hosts}
        self.assertEqual({name: paths for name, paths in left.items() if paths}, {})
        self.assert_nothing_left(hosts)

    def take_port(self, host, port):
        """Somebody's server, under the account of the job."""
        server = subprocess.Popen(
            ["nsenter", f"--target={host.pid}", "--mount", "--pid", "--net", "setpriv", "--reuid=trainer",
             "--regid=trainer", "--init-groups", "python3", "-c", LISTEN, str(port)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)

        def end():
            for pid in processes.children(server.pid):  # nsenter itself stays outside
                processes.kill(pid)
            server.wait()
        self.addCleanup(end)
        self.assertEqual(server.stdout.readline(), "up\n")
        return end

    @staticmethod
    def listens(host, port):
        """proc_net_tcp(5): state 0A is listening."""
        table = pathlib.Path(f"/proc/{host.pid}/net/tcp").read_text().splitlines()[1:]
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in table)

    @staticmethod
    def edit(host, change):
        """/etc/hosts of the host, in place: the file is mounted there."""
        file = host.folder / "etc/hosts"
        file.write_text(change(file.read_text()))


class FourHosts(Checked):
    def test_a_clean_cluster_has_no_finding_and_keeps_nothing(self):
        hosts = self.start_hosts(4)
        result = self.user.run("check", self.write(hosts, extra='[check]\npython = ["pip"]'))
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"(?m)^HOST +SSH +DISK +PORTS +REACHES +GPUS +CLOCK +PYTHON$")
        self.assertRegex(result.out, r"(?m)^h1 +ok +\d+ GiB +3 of 3 free +8 of 8 +0 +[+-]0\.\d+ s +3\.\d+\S*, pip \S+$")
        self.assertRegex(result.out, r"(?m)^h4 +ok +\d+ GiB +2 of 2 free +9 of 9 +0 ")
        self.assertIn("\n4 hosts: nothing found that would stop the job\n", result.out)
        self.assert_clean(hosts)
        self.take_port(hosts[2], 2223)  # by a server that does not even set SO_REUSEADDR
        self.assertEqual(list((self.user.folder / ".local/state/tfdist/jobs").glob("*")), [])

    def test_each_of_four_faults_is_found_and_nothing_else(self):
        hosts = self.start_hosts(4)
        hosts[1].drop(hosts[0], 2222)
        end_server = self.take_port(hosts[2], 2223)
        self.edit(hosts[3], lambda text: text.replace(f"{hosts[3].address} h4", "127.0.1.1 h4"))
        for host in hosts:
            self.edit(host, lambda text: text + f"{hosts[0].address} twin\n")
        hosts.ssh_config.write_text(f"Host twin\n  HostName {hosts[0].address}\n" + hosts.ssh_config.read_text())
        file = self.write(hosts, listed=["h1", "h2", "h3", "h4", "twin"])
        code, kinds, findings = self.findings(file)
        self.assertEqual((code, kinds), (3, ["error machines", "error reach h2", "warning ports h3", "warning names"]),
                         findings)
        machines, reach, ports, names = findings
        self.assertRegex(ports["what"], r"port 2223 of ps:2 is in use by pid \d+ \(python3")
        self.assertEqual(machines["what"],
                         "h1, twin are one machine, and more than one task is to listen on ports 2222, 2223")
        self.assertEqual(reach["what"], "h1, twin cannot connect to port 2222 at h2: no answer: packets are dropped on the way")
        self.assertIn(f"ip saddr {{ {hosts[0].address} }} tcp dport {{ 2222 }} accept", reach["remedy"])
        self.assertIn("h4 is 127.0.1.1", names["what"])
        self.assertTrue(all(finding["remedy"] for finding in findings))
        end_server()
        self.assert_clean(hosts)

    def test_up_after_a_check_finds_ports_and_name_free(self):
        hosts = self.start_hosts(2)
        file = self.write(hosts, command=["sh", "-c", "echo hello"])
        self.assertEqual(self.findings(file)[:2], (0, []))
        up = self.user.run("up", file)
        self.assertEqual(up.code, 0, up)
        self.assertEqual(self.findings(file)[:2], (0, []))
        # The agent that `up` has brought is not the check's to remove.
        self.assertTrue(list((hosts[0].home / ".cache/tfdist/bin").iterdir()))


    def test_two_checks_at_once_are_no_strangers_to_each_other(self):
        hosts = self.start_hosts(4)
        file = self.write(hosts)
        checks = [self.user.start("check", file) for _ in range(3)]
        for check in checks:
            self.assertEqual(check.wait(timeout=60 * PATIENCE), 0, check.out.read_text() + check.err.read_text())
        self.assert_clean(hosts)

    def test_what_fits_on_no_disk_is_an_error(self):
        hosts = self.start_hosts(1)
        with open(self.user.folder / "holes", "wb") as file:
            file.truncate(1 << 40)
        code, kinds, findings = self.findings(self.write(hosts, layout="mirrored"), "--set", "task.workdir=.")
        self.assertEqual((code, kinds), (3, ["error disk h1"]), findings)
        self.assertRegex(findings[0]["what"], r"^the job's files need 20971\d\d MiB at /home/trainer/\.cache/tfdist, where \d+ MiB are free$")

    def test_a_killed_check_leaves_nothing(self):
        hosts = self.start_hosts(2)
        hosts[1].drop(hosts[0], 2222)  # so that it waits for the answer
        check = self.user.start("check", self.write(hosts))
        wait_for(lambda: all(self.listens(host, 2222) for host in hosts), "the ports are held")
        check.kill()
        wait_for(lambda: not any(host.processes() for host in hosts), "the agents' end")
        self.assert_clean(hosts)


class IllHosts(Checked):
    def test_a_host_that_drops_every_packet_delays_the_others_by_seconds(self):
        hosts = self.start_hosts(3)
        hosts[2].drop_all()
        code, kinds, findings = self.findings(self.write(hosts))
        self.assertEqual((code, kinds), (3, ["error connect h3"]), findings)
        self.assert_clean(hosts[:2])

    def test_a_host_that_reaches_nobody_is_told_once(self):
        hosts = self.start_hosts(4)
        for other in hosts[:3]:
            other.drop(hosts[3], "2222-2224")
        code, kinds, findings = self.findings(self.write(hosts, extra="[control]\nport = 2224\n"))
        self.assertEqual((code, kinds), (3, ["error reach h4"]), findings)
        self.assertIn("cannot connect to any of 3 other hosts", findings[0]["what"])

    def test_a_port_that_nobody_reaches_is_told_with_the_line_for_its_firewall(self):
        hosts = self.start_hosts(3)
        for other in hosts[:2]:
            hosts[2].drop(other, 2223)
        code, kinds, findings = self.findings(self.write(hosts))
        self.assertEqual((code, kinds), (3, ["error reach h3"]), findings)
        self.assertEqual(findings[0]["what"],
                         "no other host can connect to port 2223 at h3: no answer: packets are dropped on the way")
        self.assertIn("sudo ufw allow proto tcp from any to any port 2223; "
                      "or sudo nft insert rule inet filter input tcp dport { 2223 } accept", findings[0]["remedy"])

    def test_a_stranger_behind_the_address_of_a_host_is_told_apart(self):
        """The name leads to a machine outside of the job, where something listens on the port."""
        hosts = self.start_hosts(3)
        self.take_port(hosts[2], 2222)
        self.edit(hosts[0], lambda text: text.replace(f"{hosts[1].address} h2", f"{hosts[2].address} h2"))
        # Where "h2" is an alias, its HostName would be taken.
        config = client_config(hosts, "second", "Host second", f"  HostName {hosts[1].address}")
        file = pathlib.Path(self.write(hosts[:2], config, layout="mirrored"))
        file.write_text(file.read_text().replace('"h2"', '{ address = "h2", ssh = "second" }'))
        code, kinds, findings = self.findings(str(file))
        self.assertEqual((code, kinds), (3, ["error reach h2", "warning names"]), findings)
        self.assertRegex(findings[0]["what"], "port 2222 at h2: h1 reaches something else there: it takes the connection")
        self.assertIn(f"h2 is {hosts[2].address} on h1, and {hosts[1].address} on h2", findings[1]["what"])

    def test_commands_and_packages_that_are_missing_are_named(self):
        hosts = self.start_hosts(2)
        code, kinds, findings = self.findings(self.write(hosts, command=["no-such-program"],
                                                         extra='[check]\npython = ["no-such-package"]'))
        self.assertEqual(code, 3)
        self.assertEqual(sorted(set(kinds)), ["error command h1", "error command h2", "error python h1", "error python h2"])
        said = {finding["what"] for finding in findings if finding["check"] == "python"}
        self.assertEqual(len(said), 1)
        self.assertRegex(said.pop(), r"^python3 3\.\S+ has no package no-such-package$")


if __name__ == "__main__":
    unittest.main()
