"""Aliases of ssh's configuration as hosts of a job: what the other hosts get is what they can resolve."""

import json
import re
import resource
import unittest

from tests.hosts.probe import client_config
from tests.smoke.test_local import shell
from tests.smoke.test_ssh import DATA, OverSsh, setUpModule  # noqa: F401

SHOW = shell('echo "config $TF_CONFIG at $MASTER_ADDR"')
# A token goes from each task to each other one, by the addresses of TF_CONFIG.
TALK = """
import json, os, socket, threading
own = json.loads(os.environ["TF_CONFIG"])
workers = own["cluster"]["worker"]
server = socket.create_server(("", int(workers[own["task"]["index"]].rsplit(":", 1)[1])))
def serve():
    while True:
        server.accept()[0].sendall(b"from %d" % own["task"]["index"])
threading.Thread(target=serve, daemon=True).start()
import time
for number, worker in enumerate(workers):
    host, port = worker.rsplit(":", 1)
    while True:
        try:
            with socket.create_connection((host, int(port)), 20) as one:
                print("heard", one.recv(100).decode(), flush=True)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
time.sleep(2)
"""


class Aliases(OverSsh):
    def start(self, *more, names=("gpu1", "gpu2")):
        """Each host is called so by ssh's configuration only; `more` are lines that go before, in which {0} is the configuration of the hosts, {1} the first one's address."""
        self.hosts = self.start_hosts(len(names), own_network=True)
        more = [line.format(self.hosts.ssh_config, *self.addresses()) for line in more]
        lines = [line for name, host in zip(names, self.hosts) for line in (f"Host {name}", f"  HostName {host.address}")]
        self.config = client_config(self.hosts, "aliases", *more, *lines)

    def know(self, *lines):
        """All hosts have these lines in /etc/hosts."""
        for host in self.hosts:
            with open(host.folder / "etc/hosts", "a") as file:
                file.write("".join(line + "\n" for line in lines))

    def words(self, command, names="gpu1,gpu2"):
        return ["-F", str(self.config), "-H", names, "--no-workdir", "--name", "job", "--", *command]

    def up(self, command=SHOW, names="gpu1,gpu2"):
        return self.user.run("up", *self.words(command, names), seconds=200)

    def hosts_of(self, result):
        """As TF_CONFIG of each task has them."""
        found = re.findall(r"^\S+ +\| config (.*) at (\S+)$", result.out, re.M)
        self.assertEqual(len(found), 2, result)
        lists = {tuple(address.rsplit(":", 1)[0] for address in json.loads(text)["cluster"]["worker"]) + (master,) for text, master in found}
        self.assertEqual(len(lists), 1, result)
        return list(lists.pop())

    def addresses(self):
        return [host.address for host in self.hosts]


class AliasesTest(Aliases):
    def test_hosts_that_know_no_alias_get_the_host_names(self):
        self.start()
        first, second = self.addresses()
        said = f"gpu1 is {first}, and gpu2 is {second} for the other hosts (HostName in ssh's configuration)"
        result = self.up().expect(0)
        self.assertEqual(self.hosts_of(result), [first, second, first])
        self.assertIn(f"tfdist: {said}\n", result.err)
        file = self.user.write("cluster.toml", f"""
name = "job"
[cluster]
hosts = ["gpu[1-2]"]
layout = "mirrored"
[task]
command = {json.dumps(SHOW)}
[ssh]
config = "{self.config}"
""")
        self.assertEqual(self.hosts_of(self.user.run("up", file, seconds=200).expect(0)), [first, second, first])
        self.assertIn("gpu1 is " + first, self.user.run("render", file).expect(0).err)
        check = self.user.run("check", file, seconds=200).expect(0)
        self.assertIn(said, check.out + check.err)
        self.assertIn("nothing found that would stop the job", check.out)
        heard = self.up(["python3", "-c", TALK]).expect(0)
        for number in (0, 1):
            self.assertEqual(heard.out.count(f"heard from {number}"), 2, heard)
        self.assert_nothing_left(self.hosts)

    def test_a_job_by_aliases_trains(self):
        self.start()
        file = self.user.write("cluster.toml", f"""
name = "job"
[cluster]
hosts = ["gpu1", "gpu2"]
[task]
command = ["{{runtime}}", "--data", "digits", "--model", "mlp", "--steps", "500"]
gpus = 0
workdir = "{DATA}"
[ssh]
config = "{self.config}"
""")
        result = self.user.run("up", file, seconds=300).expect(0)
        self.assertRegex(result.out, r"final: .*test accuracy 0\.")
        self.assert_nothing_left(self.hosts)

    def test_names_that_the_hosts_know_stay(self):
        self.start()
        first, second = self.addresses()
        self.know(f"{first} gpu1", f"{second} gpu2")
        result = self.up().expect(0)
        self.assertEqual(self.hosts_of(result), ["gpu1", "gpu2", "gpu1"])
        self.assertNotIn("HostName", result.err)

    def test_a_name_that_means_another_machine_to_the_hosts_is_not_used(self):
        self.start()
        first, second = self.addresses()
        self.know(f"{first} gpu2", f"{first} gpu1")
        result = self.up().expect(0)
        self.assertEqual(self.hosts_of(result), ["gpu1", second, "gpu1"])
        self.assertIn(f"tfdist: gpu2 is {second} for the other hosts", result.err)

    def test_a_host_name_that_is_known_behind_the_jump_host_only(self):
        self.start("Host deep1", "  HostName inner1", "  ProxyJump h1", "Host deep2", "  HostName inner2", "  ProxyJump h1",
                   "Host deep*", "  StrictHostKeyChecking accept-new")
        first, second = self.addresses()
        self.know(f"{first} inner1", f"{second} inner2")
        result = self.up(names="deep1,deep2").expect(0)
        self.assertEqual(self.hosts_of(result), ["inner1", "inner2", "inner1"])
        self.assertIn("tfdist: deep1 is inner1, and deep2 is inner2 for the other hosts", result.err)

    def test_no_name_that_works_is_an_error_before_anything_starts(self):
        # As a port that ssh forwards.
        self.start("Host far2", "  HostName 127.0.0.1", "  HostKeyAlias far", "  StrictHostKeyChecking accept-new",
                   "  ProxyCommand ssh -F {0} -W {2}:%p h2")
        second = self.addresses()[1]
        for names in ("gpu1,far2", "far2,gpu1"):
            result = self.up(names=names).expect(3)
            self.assertIn("tfdist: far2: name lookup: the other hosts cannot resolve far2 (gpu1: the name is not known), and its HostName 127.0.0.1 means themselves", result.err)
            self.assertIn(f'{{ address = "{second}", ssh = "far2" }}', result.err)
            self.assertNotIn("config", result.out)
            check = self.user.run("check", *self.words(SHOW, names), seconds=200).expect(3)
            self.assertIn("far2", check.out)
            self.assertIn(f'{{ address = "{second}", ssh = "far2" }}', check.out)
        self.assert_nothing_left(self.hosts)


class TwoNamesOfOneMachine(Aliases):
    def test_ports_that_would_collide_are_an_error_before_anything_starts(self):
        self.start("Host same", "  HostName {1}")
        address = self.hosts[0].address
        for names in (f"gpu1,{address}", "gpu1,same", f"gpu1,gpu2,{address}"):
            result = self.up(names=names).expect(3)
            other = names.split(",")[-1]
            self.assertIn(f"gpu1, {other} are one machine, and more than one task is to listen on port 2222\n  try: list it once", result.err)
            self.assertNotIn("config", result.out)
            check = self.user.run("check", *self.words(SHOW, names), seconds=200).expect(3)
            self.assertIn(f"gpu1, {other} are one machine, and more than one task is to listen on port 2222", check.out)
        self.assert_nothing_left(self.hosts)

    def test_the_remedy_counts_the_machine_as_two_hosts_of_one_local_rank(self):
        self.start("Host same", "  HostName {1}")
        show = shell('echo "local rank $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR"')
        refused = self.up(show, "gpu1,same").expect(3)
        [(hosts, entry)] = re.findall(r"to count it as 2 hosts: (\S+) after -H, or (\{.*\})", refused.err)
        file = self.user.write("cluster.toml", f"""
name = "job"
[cluster]
hosts = [{entry}]
layout = "mirrored"
[task]
command = {json.dumps(show)}
[ssh]
config = "{self.config}"
""")
        for result in (self.up(show, hosts), self.user.run("up", file, seconds=200)):
            result.expect(0)
            self.assertEqual(sorted(re.findall(r"local rank (\d) of (\d)", result.out)), [("0", "2"), ("1", "2")], result)
            self.assertNotIn("are one machine", result.err)
        self.assert_nothing_left(self.hosts)

    def test_other_ports_are_a_warning_and_threads_are_counted_together(self):
        self.start("Host same3 same4 same5 same6 same7 same8", "  HostName {1}")
        names = ["gpu1", self.hosts[0].address, *(f"same{number}" for number in range(3, 9))]
        roles = "".join(f"[roles.r{number}]\nhosts = [\"{name}\"]\nports = {3000 + number}\n" for number, name in enumerate(names))
        file = self.user.write("cluster.toml", f"""
name = "job"
[cluster]
layout = "roles"
[task]
command = ["sleep", "1"]
[ssh]
config = "{self.config}"
{roles}""")
        up = self.user.run("up", file, seconds=200).expect(0)
        self.assertIn(f"warning: {', '.join(names)} are one machine\n", up.err)
        said = []
        for most in (108, 96, 84, 72):  # shells that bring the agents need processes, too
            resource.prlimit(self.hosts[0].pid, resource.RLIMIT_NPROC, (most, most))
            said.append(self.user.run("up", file, seconds=200).err)
            if "more processes and threads there, and needs" in said[-1]:
                break
        else:
            self.fail("\n".join(said))
        self.assert_nothing_left(self.hosts)


if __name__ == "__main__":
    unittest.main()
