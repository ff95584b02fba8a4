"""Ports that another job has, or that the kernel keeps for a while after a server's end."""

import json
import os
import re
import subprocess
import unittest

from tests.support import clusters
from tests.support.tfdist import BIN, Tfdist
from tests.support.waiting import wait_for

# A server as some libraries have it: without SO_REUSEADDR, and it closes first. Then its port is in TIME_WAIT for a minute.
SERVER = """
import os, socket, sys
server = socket.socket()
try:
    server.bind(("127.0.0.1", int(os.environ["PORT"])))
except OSError:
    sys.exit("not free")
server.listen()
client = socket.create_connection(server.getsockname())
peer = server.accept()[0]
peer.close()
client.recv(1)
client.close()
print("served")
sys.exit(int(os.environ["TFDIST_ATTEMPT"] == "1" and os.environ["FAILS"] == "1"))
"""


class Ports(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("ports")
        self.addCleanup(self.user.close)

    def write(self, name, port, command, extra=""):
        return self.user.write(f"{name}.toml", f"""
name = "{name}"
[cluster]
hosts = ["localhost"]
layout = "mirrored"
ports = {{ worker = {port} }}
[task]
command = {clusters.toml_list(command)}
gpus = 0
{extra}
""")

    def test_a_port_that_another_job_has_names_that_job(self):
        port = clusters.free_ports(1)
        listen = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); print('there'); time.sleep(1000)"
        up = self.user.start("up", self.write("one", port, ["python3", "-c", listen]))
        self.user.wait_for_output(up, b"there")
        job = self.user.status("one")["job"]
        refused = self.user.run("up", self.write("two", port, ["true"]))
        self.assertEqual(refused.code, 3, refused)
        self.assertIn(f"port {port} of worker:0 is that of worker:0 of job {job}, which is on this host\n", refused.err)
        self.assertIn(f"tfdist wait {job}, tfdist down {job}", refused.err)
        self.assertEqual(self.user.run("down", "one").code, 0)

    @staticmethod
    def names_with_one_port():
        """FNV-1a of account and name is where its ports begin (cli/plan/ports.cc)."""
        names = {}
        for number in range(10_000):
            name, value = f"job{number}", 2_166_136_261
            for byte in f"{os.getuid()} {name}".encode():
                value = (value ^ byte) * 16_777_619 % 2**32
            other = names.setdefault(value % 20_000, name)
            if other != name:
                return other, name
        raise AssertionError("no two names with one port")

    def test_who_waits_for_a_job_that_draws_other_ports_waits_for_the_one_in_its_place(self):
        first, second = self.names_with_one_port()
        gate = self.user.folder / "gate"
        command = ("up", "-d", "-H", "localhost:2", "--no-workdir", "--set", 'cluster.ports="auto"')
        self.user.run(*command, "--name", first, "--", "sleep", "infinity", "{port}").expect(0)
        setup = f'setup.command=["sh", "-c", "until [ -e {gate} ]; do sleep 0.1; done"]'
        up = self.user.start(*command, "--set", setup, "--name", second, "--", "sleep", "infinity", "{port}")
        wait_for(lambda: "waiting for " in up.err.read_text(), "it sets hosts up")
        waits = self.user.start("wait", second)
        wait_for(lambda: "has not started it yet" in waits.err.read_text(), waits.err.read_text)
        gate.touch()
        self.assertEqual(up.wait(60), 0, up.err.read_text())
        self.assertIn("drawing other ports", up.err.read_text())
        self.user.run("down", second).expect(0)
        self.assertEqual(waits.wait(30), 1)
        self.assertIn("stopped", waits.err.read_text())
        self.user.run("down", first).expect(0)

    def test_a_second_job_on_the_same_hosts_gets_free_ports(self):
        """With -H, and with a file that names none; a restart keeps them."""
        server = ("python3", "-c", "import socket, sys, time; s = socket.create_server(('', int(sys.argv[1]))); print(sys.argv[1], flush=True); time.sleep(1000)", "{port}")
        file = self.user.write("file.toml", f'name = "third"\n[cluster]\nhosts = [{{ address = "localhost", slots = 2 }}]\nlayout = "mirrored"\n[task]\ncommand = {clusters.toml_list(list(server))}\n')
        commands = {name: ("up", "-d", "-H", "localhost:2", "--no-workdir", "--name", name, "--", *server) for name in ("one", "two")}
        commands["third"] = ("up", "-d", file)
        ports = {}
        for name, command in commands.items():
            up = self.user.run(*command).expect(0)
            self.assertEqual("drawing other ports\n" in up.err, name != "one", up.err)
            wait_for(lambda name=name: len(re.findall(r"\| \d+$", self.user.run("logs", name).out, re.MULTILINE)) == 2, f"both tasks of {name} listen")
            ports[name] = sorted(re.findall(r"\| (\d+)$", self.user.run("logs", name).out, re.MULTILINE))
        self.assertEqual(len({port for both in ports.values() for port in both}), 6, ports)
        self.assertIn("runs already, from this plan", self.user.run(*commands["two"]).expect(0).err)
        self.user.run("restart", "two").expect(0)
        wait_for(lambda: len(re.findall(r"\| \d+$", self.user.run("logs", "two").out, re.MULTILINE)) == 4, "both tasks listen again")
        self.assertEqual(sorted(set(re.findall(r"\| (\d+)$", self.user.run("logs", "two").out, re.MULTILINE))), ports["two"])
        checked = self.user.run("check", "-H", "localhost:2", "--no-workdir", "--name", "four", "--", "true").expect(0)
        self.assertIn("leave it to up, which draws other ports", checked.out)
        self.user.run("down", "--force", *commands).expect(0)

    @unittest.skipUnless(os.getuid() == 0, "root can be another account")
    def test_two_accounts_draw_different_ports_for_one_name(self):
        os.chmod(self.user.folder, 0o755)
        file = self.user.write("file.toml", 'name = "train"\n[cluster]\nhosts = ["h1"]\nports = "auto"\n[task]\ncommand = ["a"]\n')

        def drawn(*words):
            out = subprocess.run([*words, BIN / "tfdist", "render", "--json", file], env=self.user.env, capture_output=True, check=True).stdout
            return [task["address"] for task in json.loads(out)["tasks"]]

        here = drawn()
        self.assertEqual(drawn(), here)
        self.assertNotEqual(drawn("setpriv", "--reuid=12345", "--clear-groups"), here)

    def test_jobs_that_draw_one_port_both_start(self):
        """One after the other, and at once."""
        first, second = self.names_with_one_port()
        command = ("up", "-d", "-H", "localhost:2", "--no-workdir", "--set", 'cluster.ports="auto"')
        server = ("--", "python3", "-c", "import socket, sys, time; s = socket.create_server(('', int(sys.argv[1]))); print('there', flush=True); time.sleep(1000)", "{port}")
        self.user.run(*command, "--name", first, *server).expect(0)
        drawn = self.user.run(*command, "--name", second, *server).expect(0)
        self.assertRegex(drawn.err, rf"tfdist: localhost: port \d+ of worker:[01] is that of worker:[01] of job {first}-\S+, which is on this host; "
                                    r"drawing other ports\n")
        wait_for(lambda: self.user.run("logs", second).out.count("there") == 2, "both of its tasks listen")
        again = self.user.run(*command, "--name", second, *server).expect(0)
        self.assertIn("runs already, from this plan", again.err)
        self.user.run("down", "--force", first).expect(0)
        self.user.run("down", "--force", second).expect(0)
        both = [self.user.start(*command, "--name", name, *server) for name in (first, second)]
        for up in both:
            self.assertEqual(up.wait(60), 0, up.err.read_text())
        for name in (first, second):
            wait_for(lambda name=name: self.user.run("logs", name).out.count("there") == 2, f"both tasks of {name} listen")
            self.user.run("down", "--force", name).expect(0)

    def serve(self, fails):
        port = clusters.free_ports(1)
        return self.write("serve", port, ["python3", "-c", SERVER],
                          f'env = {{ PORT = "{{port}}", FAILS = "{fails}" }}\n[restart]\nworker = "gang"\n')

    def test_a_restart_waits_for_a_port_in_time_wait(self):
        up = self.user.run("up", self.serve(1))
        self.assertEqual(up.code, 0, up)
        self.assertEqual(up.out.count("served\n"), 2)
        self.assertNotIn("not free", up.out)
        self.assertEqual(up.err.count("starting all tasks again"), 1, up)

    def test_the_next_job_waits_for_a_port_in_time_wait(self):
        file = self.serve(0)
        for _ in range(2):
            up = self.user.run("up", file)
            self.assertEqual(up.code, 0, up)
            self.assertIn("served\n", up.out)


if __name__ == "__main__":
    unittest.main()
