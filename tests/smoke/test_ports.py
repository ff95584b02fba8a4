"""Ports that another job has, or that the kernel keeps for a while after a server's end."""

import unittest

from tests.support import clusters
from tests.support.tfdist import Tfdist

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
