"""Tasks in containers: docker with a daemon on each host, podman without root."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from tests.chaos.links import Link
from tests.hosts.hosts import Hosts, check_possible, read_process
from tests.smoke.test_local import shell
from tests.support import clusters, engines, processes
from tests.support.json_schema import Schema
from tests.support.tfdist import Tfdist
from tests.support.waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_RESTARTS = '[restart]\nworker = "never"\n'
GROUP = 54321  # of the hosts' accounts, beside their own
hosts = None  # two, for all tests
# Goes on until it is told to end; says when.
WAITS = shell("trap 'echo told; exit 3' TERM; echo on; sleep 7777 & wait")


def setUpModule():
    global hosts
    check_possible()
    engines.check_possible()
    hosts = Hosts(2)
    hosts.start()
    unittest.addModuleCleanup(hosts.stop)
    for host in hosts:
        with open(host.folder / "etc/group", "a") as accounts:
            accounts.write(f"data:x:{GROUP}:{host.user}\n")
        engines.prepare(host)
        engines.start_docker(host)
    engines.bring_image(hosts)


def of_tfdist(role):
    return min(process.pid for process in hosts[0].processes() if process.argv[:2] == ["tfdist-agent", role])


class OfAnEngine:
    engine = None

    def setUp(self):
        self.user = Tfdist("containers")
        self.addCleanup(self.user.close)
        self.addCleanup(self.end_what_is_left)

    def end_what_is_left(self):
        """After a test that failed."""
        if self.user.job_id():
            self.user.run("down", "--force", self.user.job_id())

    def write(self, command, count=1, task_extra="", extra=NO_RESTARTS, image=engines.IMAGE, top=""):
        settings = f'image = "{image}"\nengine = "{self.engine}"\n' + task_extra
        return self.user.write("cluster.toml", clusters.over_ssh(
            "job", command, hosts[:count], layout="mirrored", task_extra=settings, extra=top,
            ssh_config=hosts.ssh_config) + extra)

    def up(self, *args, **kwargs):
        return self.user.run("up", self.write(*args, **kwargs))

    def start(self, command=WAITS, **kwargs):
        """Runs on the first host until it is ended; waits until the task itself has begun."""
        up = self.user.start("up", self.write(command, **kwargs))
        self.user.wait_for_output(up, b"on\n")
        return up

    def assert_nothing_left(self):
        """An agent may still be on its way out. A container would not go by itself."""
        for host in hosts:
            self.assertEqual(engines.containers(host), [])
            wait_for(lambda: engines.processes(host) == [], lambda: f"end of {engines.processes(host)}")

    def down(self, *args):
        down = self.user.run("down", *args).expect(0)
        self.assertIn("nothing is left", down.err)
        return down

    # --- what a task finds in its container ---

    def test_files_and_environment_are_those_of_a_task_without_one(self):
        task = shell('echo "$(pwd) $TFDIST_TASK $WORDS"; echo made >made; cat given; echo aside >&2')
        self.user.write("work/given", "brought\n")
        up = self.up(task, count=2, task_extra='workdir = "work"\noutput = "separate"\nenv = { WORDS = "a\\n\\"b\\" $c" }\n')
        up.expect(0)
        self.assertIn('run/work worker:1 a\nworker:1 | "b" $c\nworker:1 | brought\n', up.out)
        self.assertIn("worker:1 | aside\n", up.err)
        for host in hosts:
            made = list(host.home.glob(f".cache/tfdist/jobs/{self.user.job_id()}/run/work/made"))
            self.assertEqual([(path.read_text(), path.stat().st_uid) for path in made], [("made\n", host.uid)])
        self.assert_nothing_left()

    def test_what_a_set_up_has_made_is_seen(self):
        set_up = f"[setup]\ncommand = {clusters.toml_list(['sh', '-c', 'echo from the host >made'])}\n"
        up = self.up(shell("cat {setup}/made; (echo new >{setup}/new) 2>/dev/null || echo read-only"), extra=NO_RESTARTS + set_up)
        up.expect(0)
        self.assertIn("worker:0 | from the host\n", up.out)
        self.assertIn("worker:0 | read-only\n", up.out)
        self.assert_nothing_left()

    def test_its_exit_code_is_the_tasks(self):
        self.assertIn("worker:0 on {}: exit code 7".format(hosts[0].address), self.up(shell("exit 7")).expect(1).err)
        self.assert_nothing_left()

    def test_each_mounted_path_and_no_other_is_seen(self):
        folder = hosts[0].home / "data"
        folder.mkdir(exist_ok=True)
        (folder / "set").write_text("numbers\n")
        task = shell("cat /data/set; ls /home/trainer; touch /data/new || echo kept; ls -d /proc/self/fd/9")
        up = self.up(task, task_extra='mounts = ["/home/trainer/data:/data:ro"]\n')
        self.assertIn("worker:0 | numbers\n", up.out)
        self.assertIn("worker:0 | kept\n", up.out)
        self.assertNotIn("| data\n", up.out)

    def test_limits_are_as_large_as_the_host_allows(self):
        """Those of a task without a container, its hard limits; and /dev/shm as the file says."""
        task = shell("cat /proc/self/limits /proc/mounts")
        inside = self.up(task, task_extra='shm_size = "96MiB"\n').expect(0).out
        plain = self.user.run("up", self.user.write("plain.toml", clusters.over_ssh("plain", task, hosts[:1], ssh_config=hosts.ssh_config)))
        for limit in ("Max open files", "Max locked memory"):
            [allowed] = re.findall(rf"{limit} +\S+ +(\S+)", plain.expect(0).out)
            self.assertEqual(re.findall(rf"{limit} +(\S+) +(\S+)", inside), [(allowed, allowed)])
        self.assertRegex(inside, r" /dev/shm tmpfs \S*\bsize=98304k\b")
        self.assert_nothing_left()

    def test_a_signal_that_ends_it_is_named(self):
        """The engine tells it as a shell does; "too large a file" and "out of memory" have words of their own."""
        for name, code in (("SIGKILL", 137), ("SIGSEGV", 139), ("SIGABRT", 134)):
            with self.subTest(name):
                self.assertIn(f"exit code {code} ({name})\n", self.up(shell(f"sh -c 'kill -{name[3:]} $$'; exit $?")).expect(1).err)
        self.assertIn("exit code 255\n", self.up(shell("exit 255")).expect(1).err)

    def test_files_for_a_group_of_the_accounts_can_be_read(self):
        if self.engine == "podman":
            self.skipTest("runc, which runs here, drops the groups of a rootless container")
        folder = hosts[0].home / "group"
        folder.mkdir(mode=0o750)
        os.chown(folder, 0, GROUP)
        (folder / "set").write_text("for the group\n")
        up = self.up(shell("cat /data/set"), task_extra='mounts = ["/home/trainer/group:/data:ro"]\n').expect(0)
        self.assertIn("worker:0 | for the group\n", up.out)

    def test_no_value_of_a_variable_stands_in_a_command_line(self):
        self.start(shell('test "$WORD" = "hid$0" && echo on; sleep 7777') + ["den"],
                   task_extra='grace = "0s"\nenv = { WORD = "hidden" }\n')
        seen = [process.argv for process in hosts[0].processes() if "hidden" in " ".join(process.argv)]
        self.assertEqual(seen, [])
        self.down()

    def test_variables_that_the_engines_client_would_heed_are_the_tasks_alone(self):
        said = ("DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR",
                "HOME", "LD_PRELOAD", "GODEBUG")
        handed_on = ("DOCKER_HOST", "CONTAINER_HOST")  # by env_from, which tells nobody their values
        self.user.env.update({name: "/absent" for name in handed_on}, GIVEN=" 'a' #b ")
        env = ", ".join(f'{name} = "/absent"' for name in said)
        shown = " ".join(f"${name}" for name in said + handed_on)
        up = self.up(shell(f'echo "{shown} $GIVEN"'), task_extra=f'env = {{ {env} }}\nenv_from = {clusters.toml_list([*handed_on, "GIVEN"])}\n')
        up.expect(0)
        self.assertIn("worker:0 | " + "/absent " * len(said + handed_on) + " 'a' #b \n", up.out)
        self.assert_nothing_left()

    def test_every_byte_of_its_output_is_kept(self):
        task = shell("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo -n end")
        self.up(task).expect(0)
        logs = self.user.run_bytes("logs", "--raw", "job", "worker:0")
        self.assertEqual(logs, b"".join(b"line %d\n" % i for i in range(3000)) + b"end")

    # --- how it ends ---

    def test_down_gives_it_its_grace_and_leaves_nothing(self):
        up = self.start()
        self.down()
        up.wait(60)
        self.assertIn(b"| told\n", up.out.read_bytes())
        self.assert_nothing_left()

    def test_a_stopped_task_is_told_to_end(self):
        up = self.start()
        [task] = [process for process in hosts[0].processes() if process.argv == WAITS]
        processes.kill(task.pid, signal.SIGSTOP)
        wait_for(lambda: read_process(task.pid).state == "T", "the stop of the task")
        self.down()
        up.wait(60)
        self.assertIn(b"| told\n", up.out.read_bytes())
        self.assert_nothing_left()

    def test_one_that_does_not_end_is_killed(self):
        self.start(shell("trap '' TERM; echo on; while true; do sleep 7777; done"), task_extra='grace = "1s"\n')
        self.down()
        self.assert_nothing_left()

    def test_the_warning_signal_comes_to_those_that_handle_it(self):
        """The first process of the container does not."""
        up = self.start(shell("(trap 'echo saved; exit 0' USR1; echo on; sleep 7777 & wait); echo over"), top='deadline = "1h"\ndeadline_warning = "1m"\n')
        os.kill(of_tfdist("holder"), signal.SIGUSR1)  # as the keeper does
        self.assertEqual(up.wait(60), 0)
        self.assertIn(b"| saved\nworker:0 | over\n", up.out.read_bytes())
        self.assert_nothing_left()

    def test_a_container_of_the_users_that_has_its_labels_stays(self):
        """From an image that `docker commit` has made."""
        self.start()
        labels = (f"tfdist.job={self.user.job_id()}", "tfdist.slot=0", "tfdist.task=worker:0")
        engines.ask(hosts[0], self.engine, "create", "--network", "host", "--name", "mine", *(f"--label={label}" for label in labels), engines.IMAGE, "true")
        self.addCleanup(engines.ask, hosts[0], self.engine, "rm", "mine")
        self.down()
        self.assertEqual(engines.containers(hosts[0]), ["mine"])

    def test_a_container_of_the_users_that_has_its_cookie_goes_on(self):
        """As one of an image that `docker commit` has made of a task's container."""
        self.start()
        account = hosts[0].uid if self.engine == "docker" else 0
        engines.ask(hosts[0], self.engine, "run", "--detach", "--network", "host", "--name", "mine", "--user", str(account),
                    "--env", f"TFDIST_COOKIE={self.user.job_id()}/h0", engines.IMAGE, "sleep", "8888")
        self.addCleanup(engines.ask, hosts[0], self.engine, "rm", "--force", "mine")
        self.down()
        self.user.run("clean", "--yes", "cluster.toml").expect(0)
        self.assertEqual(engines.ask(hosts[0], self.engine, "ps", "--format", "{{.Names}}").split(), ["mine"])

    def test_down_force_ends_it_at_once(self):
        """A task that would take its time."""
        self.start(shell("trap 'sleep 7778' TERM; echo on; while true; do sleep 7777; done"), task_extra='grace = "1h"\n')
        self.down("--force", "job")
        self.assert_nothing_left()

    def test_down_force_keeps_what_it_has_written(self):
        """Its client was stopped, and has not handed on all of it."""
        up = self.start(shell("echo on; until [ -e go ]; do sleep 0.1; done; echo late; touch said; sleep 7777"))
        processes.kill(engines.client(hosts[0], self.engine), signal.SIGSTOP)
        [work] = hosts[0].home.glob(f".cache/tfdist/jobs/{self.user.job_id()}/run/work")
        (work / "go").touch()
        wait_for((work / "said").exists, "the last line of the task")
        self.down("--force", "job")
        up.wait(60)
        self.assertEqual(self.user.run_bytes("logs", "--raw", "job", "worker:0"), b"on\nlate\n")
        self.assert_nothing_left()

    def test_ctrl_c_gives_it_its_grace_and_a_second_one_none(self):
        for grace, ended in (("10s", (3, 0)), ("1h", (0, 9))):
            with self.subTest(grace=grace):
                task = WAITS if grace == "10s" else shell("trap '' TERM; echo on; while true; do sleep 7777; done")
                self.user.env["NO_COLOR"] = "1"
                up = self.user.start_on_terminal("up", self.write(task, task_extra=f'grace = "{grace}"\n'))
                up.wait_for_text("| on")
                up.ctrl_c()
                if grace == "1h":
                    up.wait_for_text("Ctrl-C again")
                    up.ctrl_c()
                self.assertEqual(up.wait(), 130, up.text)
                self.assertEqual("| told" in up.text, grace == "10s", up.text)
                [task] = self.user.status("job")["tasks"]
                self.assertEqual((task["exit"]["code"], task["exit"]["signal"]), ended, task)
                self.assert_nothing_left()

    def test_a_time_limit_ends_a_command_in_a_container(self):
        """Also what has left its session, and its environment; the latter is named at least."""
        self.start()
        inside = lambda text: engines.ask(hosts[0], self.engine, "top", engines.containers(hosts[0])[0]).count(text)
        for begin in ("sleep 8888", "env -i sleep 8888"):
            with self.subTest(begin=begin):
                done = self.user.run("exec", "--timeout", "6s", "worker:0", "--", "sh", "-c", f"{begin} & echo begun; sleep 9999")
                self.assertIn("| begun\n", done.out)
                if inside("8888"):
                    self.assertNotIn("and was ended\n", done.err)
                    self.assertIn("(sleep)", done.err)
                self.assertEqual(inside("9999"), 0, done)
        self.down()
        self.assert_nothing_left()

    def test_a_lost_note_of_the_engines_is_said(self):
        up = self.start()
        job = hosts[0].home / ".cache/tfdist/jobs" / self.user.job_id()
        self.addCleanup(shutil.rmtree, job)  # `clean` keeps it, also that of the next test
        (job / "h0/engines").unlink()
        self.assertIn("containers of this job: the note of their engines is missing", self.user.run("down").expect(1).err)
        up.wait(60)
        self.assert_nothing_left()

    def test_nothing_is_left_whoever_is_killed(self):
        for role in ("client", "holder", "keeper", "agent"):
            with self.subTest(role=role):
                up = self.start()
                pid = engines.client(hosts[0], self.engine) if role == "client" else of_tfdist(role)
                processes.kill(pid)
                if role == "agent":
                    self.down()
                up.wait(60)
                self.down()
                self.assert_nothing_left()

    def test_a_task_that_starts_again_has_a_new_container_alone(self):
        task = shell("echo on; test -e again && exec sleep 7777; touch again; sleep 1; exit 9")
        extra = '[restart]\nworker = { policy = "task", backoff = "100ms" }\n'
        up = self.start(task, extra=extra, task_extra='grace = "0s"\n')
        wait_for(lambda: up.out.read_bytes().count(b"| on\n") == 2, lambda: up.out.read_text() + up.err.read_text())
        self.assertEqual(len(engines.containers(hosts[0])), 1)
        self.down()
        self.assert_nothing_left()

    # --- what keeps it from starting ---

    def assert_refused(self, up, *words):
        self.assertEqual(up.code, 3, up)
        for word in words:
            self.assertIn(word, up.err)
        self.assertIn("nothing was started", up.err)
        self.assert_nothing_left()

    def test_what_is_missing_is_named_before_anything_starts(self):
        self.assert_refused(self.up(["nothing-here"]), "command 'nothing-here' of worker:0: not found in PATH=",
                            f"in image {engines.IMAGE}")
        for rank in ("1", "2"):
            self.assert_refused(self.up(["env", "A=1", "sh", "-c", f"exec nothing-within --rank {rank}"]),
                                "command 'nothing-within' of worker:0: not found in PATH=", f"in image {engines.IMAGE}")
        self.assert_refused(self.up(["true"], image="127.0.0.1:9/absent:1"),
                            f"{self.engine} cannot pull image 127.0.0.1:9/absent:1: ", "connection refused",
                            f"try: does `{self.engine} pull 127.0.0.1:9/absent:1` work there?")
        self.assert_refused(self.up(["true"], task_extra='mounts = ["/absent:/data"]\n'),
                            "worker:0 mounts /absent: No such file or directory")

    def test_check_tells_engines_images_and_room(self):
        file = self.write(["true"])
        checked = self.user.run("check", file).expect(0)
        self.assertRegex(checked.out, rf"(?m)^image: {engines.IMAGE}\n  on {hosts[0].address}: {self.engine} \d[^ ]*, there already$")
        absent = self.write(["true"], image="127.0.0.1:9/absent:1")
        self.assertRegex(self.user.run("check", absent).expect(0).out,
                         rf"(?m)^image: 127.0.0.1:9/absent:1\n  on {hosts[0].address}: {self.engine} \d[^ ]*, up will pull it; [\d.]+ GiB free$")
        said = json.loads(self.user.run("check", "--json", absent).expect(0).out)
        document = json.loads((ROOT / "docs/json.schema.json").read_text())
        self.assertEqual(Schema({"$ref": "#/$defs/check", "$defs": document["$defs"]}).problems(said), [])
        [image] = said["hosts"][0]["images"]
        self.assertEqual((image["image"], image["is_there"]), ("127.0.0.1:9/absent:1", False))
        self.assertGreater(image["disk_free_bytes"], 0)

    def test_each_kind_of_container_of_a_host_is_tried(self):
        """Two roles that differ in a mount only, which the engine refuses."""
        text = pathlib.Path(self.write(["true"])).read_text().replace('layout = "mirrored"', 'layout = "roles"')
        text = "".join(line for line in text.splitlines(True) if not line.startswith("ports"))
        roles = '[roles.ps]\ncount = 1\n[roles.worker]\ncount = 1\nmounts = ["/home/trainer:/proc"]\n'
        self.assert_refused(self.user.run("up", self.user.write("roles.toml", text + roles)),
                            "cannot start a container", "for worker:0: ")

    def start_registry(self, **kwargs):
        """Its address. Engines of the hosts take it without TLS."""
        folder = tempfile.TemporaryDirectory(prefix="tfdist-registry-")
        self.addCleanup(folder.cleanup)
        registry, address = engines.start_registry(hosts[0], pathlib.Path(folder.name), **kwargs)
        self.addCleanup(registry.wait)
        self.addCleanup(registry.kill)
        return address

    def push(self, image, archived=None):
        """What `archived` makes an archive of; else the tests' own image. No host has it afterwards."""
        if archived:
            path = pathlib.Path(self.user.folder, "pushed.tar")
            engines.write_archive(path, name=image, **archived)
            engines.docker(hosts[0], "load", "--quiet", "--input", engines.handed_over(hosts[0], path, "pushed.tar"))
        else:
            engines.docker(hosts[0], "tag", engines.IMAGE, image)
        engines.docker(hosts[0], "push", "--quiet", image)
        engines.docker(hosts[0], "rmi", image)

    def test_an_image_that_hosts_lack_is_pulled(self):
        image = f"{self.start_registry()}/{self.engine}:1"
        self.push(image)
        up = self.up(shell("echo brought"), count=2, image=image).expect(0)
        self.assertIn("worker:1 | brought\n", up.out)

    def test_an_image_that_its_registry_lacks_is_named_once_for_all_hosts(self):
        image = f"{self.start_registry()}/absent:1"
        self.assert_refused(self.up(["true"], count=2, image=image), "\n  the same on 1 more host: 127.", f"{self.engine} cannot pull image {image}: ",
                            f"try: does `{self.engine} pull {image}` work there?")

    def test_an_image_of_a_registry_for_another_architecture_is_named(self):
        image = f"{self.start_registry()}/other-{self.engine}:1"
        self.push(image, {"layers": [engines.layer({"a": b"b"})], "architecture": "arm64"})
        self.assert_refused(self.up(["true"], image=image), f"image {image} of worker:0 is for arm64, and this host is amd64")

    def test_a_registry_that_asks_for_a_login_is_pulled_from_with_the_accounts_own(self):
        address = self.start_registry(asks_for_login=True)
        image = f"{address}/{self.engine}:2"
        login = ("login", "--username", engines.REGISTRY_USER, "--password", engines.REGISTRY_PASSWORD, address)
        pushing = ("--config", "/tmp/docker")  # root's own is this machine's
        engines.docker(hosts[0], *pushing, *login)
        engines.docker(hosts[0], "tag", engines.IMAGE, image)
        engines.docker(hosts[0], *pushing, "push", "--quiet", image)
        engines.docker(hosts[0], "rmi", image)
        self.assert_refused(self.up(["true"], image=image), f"{self.engine} cannot pull image {image}: ",
                            f"try: is its name right? `{self.engine} login` there, as this account, where it needs one")
        hosts[0].run_as(hosts[0].user, [self.engine, *login])
        self.addCleanup(hosts[0].run_as, hosts[0].user, [self.engine, "logout", address])  # podman knows docker's logins, too
        self.assertIn("worker:0 | brought\n", self.up(shell("echo brought"), image=image).expect(0).out)

    def test_pull_brings_what_it_wrote(self):
        self.user.write("work/given", "")
        self.up(shell("echo trained >model"), task_extra='workdir = "work"\n').expect(0)
        self.user.run("pull", "job").expect(0)
        [model] = pathlib.Path(self.user.folder).rglob("model")
        self.assertEqual(model.read_text(), "trained\n")

    def test_an_entry_point_of_the_file_takes_the_command_as_its_words(self):
        up = self.up(["two", "words"], task_extra='entrypoint = "/bin/echo"\n').expect(0)
        self.assertIn("worker:0 | two words\n", up.out)
        self.assert_refused(self.up(["true"], task_extra='entrypoint = "/absent"\n'), "command '/absent'")

    # --- visitors ---

    def test_top_counts_what_runs_in_it(self):
        self.start(shell("sleep 7776 & echo on; sleep 7777 & wait"))
        [look] = map(json.loads, self.user.run("top", "--json", "-n", "1").out.splitlines())
        [task] = look["tasks"]
        self.assertGreaterEqual(task["processes"], 3, task)  # an init may be one more
        self.down()

    def test_its_peak_of_memory_is_its_own(self):
        """A shell needs a megabyte, the engine's client tens of them."""
        self.up(shell("sleep 8")).expect(0)
        [task] = self.user.status("job")["tasks"]
        self.assertTrue(50_000 < task["exit"]["peak_bytes"] < 8_000_000, task)

    def test_exec_runs_in_the_container(self):
        self.start()
        inside = self.user.run("exec", "job", "worker:0", "--", "sh", "-c", "ls /usr 2>&1; echo $TFDIST_TASK; exit 4")
        self.assertEqual(inside.code, 4, inside)
        self.assertIn("worker:0\n", inside.out)
        self.assertNotIn("share", inside.out)  # of the host
        self.down()

    def test_a_shell_of_a_task_opens_in_the_container(self):
        self.start()
        self.user.env["TERM"] = "xterm"
        terminal = self.user.start_on_terminal("shell", "worker:0")
        os.write(terminal.fd, b"ls /usr; echo task=$TFDIST_TASK in=$(pwd); exit 6\n")
        self.assertEqual(terminal.wait(), 6)
        self.assertRegex(terminal.text, r"task=worker:0 in=/\S+/run/work")
        self.assertNotIn("share", terminal.text)  # of the host
        self.down()


class Docker(OfAnEngine, unittest.TestCase):
    engine = "docker"

    def test_what_was_pulled_so_far_is_said(self):
        """On a disk of its own: bytes that other programs write there count, too."""
        registry = self.start_registry()
        self.push(f"{registry}/large:1", {"layers": [engines.layer({"ballast": os.urandom(16 << 20)})]})
        address, port = registry.split(":")
        slow = (address.rsplit(".", 1)[0] + ".252", int(port))
        with Hosts(1) as fresh, engines.slow_way(slow, (address, int(port)), 1 << 20):
            subprocess.run(["nsenter", f"--target={fresh[0].pid}", "--mount", "sh", "-c",
                            "mkdir /home/docker && mount -t tmpfs -o size=256m tmpfs /home/docker"], check=True)
            engines.start_docker(fresh[0])
            up = self.user.run("up", self.user.write("cluster.toml", clusters.over_ssh(
                "job", ["/ballast"], fresh[:1], layout="mirrored", ssh_config=fresh.ssh_config,
                task_extra=f'image = "{slow[0]}:{slow[1]}/large:1"\nengine = "docker"\n')))
        self.assertRegex(up.err, rf"waiting for {fresh[0].address}: pulling the image; about [\d.]+ [kM]B written there so far\n")

    def test_a_host_that_has_another_image_of_that_name_is_named(self):
        other = hosts[1]
        engines.docker(other, "tag", engines.IMAGE, "localhost/mixed:1")
        engines.docker(hosts[0], "import", "/tmp/base.tar", "localhost/mixed:1")
        refused = self.up(["true"], count=2, image="localhost/mixed:1")
        self.assert_refused(refused, "image localhost/mixed:1 is not the same on all hosts: ", f" on {other.address}")

    def test_one_that_the_kernel_kills_for_memory_is_told_apart(self):
        """A limit of the container's own: docker tells of it. Podman without root has none where cgroups are of version 1."""
        up = self.start(shell("echo on; until [ -e go ]; do sleep 0.1; done; x=0123456789abcdef; while true; do x=$x$x; done"))
        [name] = engines.containers(hosts[0])
        engines.docker(hosts[0], "update", "--memory", "32m", "--memory-swap", "32m", name)
        [work] = hosts[0].home.glob(f".cache/tfdist/jobs/{self.user.job_id()}/run/work")
        (work / "go").touch()
        self.assertEqual(up.wait(60), 1)
        self.assertRegex(up.err.read_text(), r"worker:0 on \S+: out of memory: the kernel killed it( at \d+ MiB)?: exit code 137 \(SIGKILL\)\n")
        self.assert_nothing_left()


class Podman(OfAnEngine, unittest.TestCase):
    engine = "podman"

    def test_an_account_without_a_range_of_ids_is_told_how_to_get_one(self):
        """Test hosts have none. Their other images need none, as all of their files have one owner."""
        image = f"{self.start_registry()}/owners:1"
        self.push(image, {"layers": [engines.layer({"a": b"b"}, owner=42)]})
        self.assert_refused(self.up(["true"], image=image), f"podman cannot pull image {image}: ",
                            "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER")

    def test_its_client_adds_nothing_to_the_output(self):
        """The task ends, podman does not know it yet, and the client is told to go on, as what is to end is."""
        self.start(shell("echo on; until [ -e go ]; do sleep 0.1; done"))
        running = lambda name: [process.pid for process in hosts[0].processes() if os.path.basename(process.argv[0]) == name]
        calls = lambda: {process.pid for process in hosts[0].processes() if process.argv[:2] == ["podman", "kill"]}
        [monitor] = running("conmon")
        processes.kill(monitor, signal.SIGSTOP)
        [work] = hosts[0].home.glob(f".cache/tfdist/jobs/{self.user.job_id()}/run/work")
        (work / "go").touch()
        wait_for(lambda: not running("sh"), "the end of the task")
        down = self.user.start("down", "job")
        first = wait_for(calls, "a call of podman with the signal")
        wait_for(lambda: calls() - first, "another one")
        processes.kill(monitor, signal.SIGCONT)
        self.assertEqual(down.wait(60), 0)
        self.assertEqual(self.user.run_bytes("logs", "--raw", "job", "worker:0"), b"on\n")
        self.assert_nothing_left()


class HandedOn(unittest.TestCase):
    """A task without an image that runs docker itself, where no script tells."""

    def test_a_container_that_a_task_starts_is_named_at_the_end(self):
        started = ["dock" + "er", "run", "-d", "--rm", "--name", "handed", engines.IMAGE, "sleep", "7777"]
        program = f"import subprocess as s; s.run({started!r}".replace("'docker'", "'dock' + 'er'") + ", check=True)"
        with Tfdist("handed") as user:
            user.write("work/a.sh", 'sh "$(dirname "$0")/b.sh"\n')
            user.write("work/b.sh", f'python3 -c "{program}"\n')
            file = user.write("cluster.toml", clusters.over_ssh(
                "job", ["sh", "a.sh"], hosts[:1], layout="mirrored", ssh_config=hosts.ssh_config, task_extra='workdir = "work"\n')
                + NO_RESTARTS)
            up = user.run("up", file).expect(0)
            self.addCleanup(engines.docker, hosts[0], "rm", "-f", "handed")
            self.assertEqual(engines.containers(hosts[0]), ["handed"])
            host = re.escape(hosts[0].address)
            call = r"docker run \(pid \d+\) of worker:0"
            left = rf"may be left: what {call} began; it belongs to a daemon, and docker ps shows it\n"
            self.assertRegex(up.err, rf"tfdist: {host}: {left}")
            self.assertRegex(user.run("status").out, rf"on {host}: {left}")
            self.assertRegex(user.run("events").out, rf"census {host}: 0 killed, 0 left; may be left: what these began: {call}\n")
            down = user.run("down").expect(0)
            self.assertRegex(down.err, rf"ended; no process of its tasks is left on 1 host\n  {host}: {left}")


class Refused(unittest.TestCase):
    def test_a_host_without_a_right_to_its_engine_says_so(self):
        with Hosts(1) as fresh, Tfdist("refused") as user:
            engines.start_docker(fresh[0], group="root")
            file = user.write("cluster.toml", clusters.over_ssh(
                "job", ["true"], fresh[:1], layout="mirrored", ssh_config=fresh.ssh_config,
                task_extra=f'image = "{engines.IMAGE}"\nengine = "docker"\n'))
            up = user.run("up", file).expect(3)
            self.assertIn("no container engine answers (docker: ", up.err)
            self.assertIn("permission denied", up.err)
            self.assertIn("try: put the account into the group docker there", up.err)


    def test_hosts_without_an_engine_are_told_which_to_install(self):
        with tempfile.TemporaryDirectory(prefix="tfdist-programs-") as folder:
            for program in pathlib.Path("/usr/bin").iterdir():
                if program.name not in ("docker", "podman"):
                    pathlib.Path(folder, program.name).symlink_to(program)
            pathlib.Path(folder).chmod(0o755)
            with Hosts(2, seen={"programs": folder}, sshd_lines=("SetEnv PATH=/run/programs",)) as fresh, Tfdist("refused") as user:
                up = user.run("up", user.write("cluster.toml", clusters.over_ssh(
                    "job", ["true"], fresh, layout="mirrored", ssh_config=fresh.ssh_config,
                    task_extra=f'image = "{engines.IMAGE}"\n'))).expect(3)
                self.assertRegex(up.err, r"\n  the same on 1 more host: 127\.")
                self.assertIn("no container engine answers (docker: ", up.err)
                self.assertIn("try: install docker or podman on that host", up.err)

    def test_a_host_without_room_for_an_image_of_a_registry_says_so(self):
        with Hosts(1) as fresh, Tfdist("refused") as user:
            subprocess.run(["nsenter", f"--target={fresh[0].pid}", "--mount", "sh", "-c",
                            "mkdir /home/docker && mount -t tmpfs -o size=12m tmpfs /home/docker"], check=True)
            engines.start_docker(fresh[0])
            with tempfile.TemporaryDirectory(prefix="tfdist-registry-") as folder:
                registry, address = engines.start_registry(hosts[0], pathlib.Path(folder))
                self.addCleanup(registry.wait)
                self.addCleanup(registry.kill)
                image, archive = f"{address}/large:1", pathlib.Path(folder, "image.tar")
                engines.write_archive(archive, [engines.layer({"ballast": os.urandom(16 << 20)})], name=image)
                engines.docker(hosts[0], "load", "--quiet", "--input", engines.handed_over(hosts[0], archive, "large.tar"))
                engines.docker(hosts[0], "push", "--quiet", image)
                up = user.run("up", user.write("cluster.toml", clusters.over_ssh(
                    "job", ["true"], fresh, layout="mirrored", ssh_config=fresh.ssh_config,
                    task_extra=f'image = "{image}"\nengine = "docker"\n'))).expect(3)
            self.assertIn(f"docker cannot pull image {image}: ", up.err)
            self.assertIn("no space left on device", up.err)
            self.assertIn("try: make room there where docker keeps its images", up.err)


class LostHost(unittest.TestCase):
    """The second of three hosts is cut off for a while; the third one is a spare, or none of the job's."""

    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3, own_network=True)
        cls.hosts.start()
        cls.addClassCleanup(cls.hosts.stop)
        for host in cls.hosts:
            engines.prepare(host)
            engines.start_docker(host)
        engines.bring_image(cls.hosts)

    def start(self, engine, command, orphan_timeout="5m", with_spare=False):
        """Until the job knows that the host is lost."""
        self.user = Tfdist("lost")
        self.addCleanup(self.user.close)
        self.link = Link(self.hosts[1])
        self.addCleanup(self.user.run, "down", "--force", "job")
        self.addCleanup(self.link.heal)
        rules = f'[restart]\nhost_lost = "5s"\norphan_timeout = "{orphan_timeout}"\n'
        text = clusters.over_ssh("job", command, self.hosts[:2], layout="mirrored", extra=rules, ssh_config=self.hosts.ssh_config,
                                 task_extra=f'image = "{engines.IMAGE}"\nengine = "{engine}"\ngrace = "1s"\n')
        if with_spare:
            spare = f'{{ address = "{self.hosts[2].address}", ssh = "{self.hosts[2].name}", spare = true }}'
            text = text.replace("hosts = [", f"hosts = [{spare}, ", 1)
        self.user.run("up", "-d", self.user.write("cluster.toml", text)).expect(0)
        self.user.wait_until_tasks_run("job")
        wait_for(lambda: len(self.containers(1)) == 1, "the container on the second host")
        self.link.cut()
        wait_for(lambda: ": lost: " in self.user.run("events", "job").out, "the loss of the host")

    def containers(self, number):
        return engines.containers(self.hosts[number])

    def down(self):
        self.assertRegex(self.user.run("down", "job").expect(0).err, r"nothing is left on (\d) of \1 hosts")
        self.assertEqual([self.containers(number) for number in range(3)], [[], [], []])

    def test_that_is_back_goes_on_with_its_container_and_its_output_is_whole(self):
        lines = 150
        for engine in ("docker", "podman"):
            with self.subTest(engine=engine):
                self.start(engine, shell(f"i=0; while [ $i -lt {lines} ]; do echo $i; i=$((i+1)); sleep 0.1; done"))
                self.link.heal()
                self.user.run("wait", "job").expect(0)
                for task in ("worker:0", "worker:1"):
                    self.assertEqual(self.user.run_bytes("logs", "--raw", "job", task), b"".join(b"%d\n" % i for i in range(lines)))
                self.down()

    def test_that_is_back_after_a_spare_host_took_its_place_ends_its_container(self):
        for engine in ("docker", "podman"):
            with self.subTest(engine=engine):
                self.start(engine, WAITS, with_spare=True)
                wait_for(lambda: len(self.containers(2)) == 1, "the container on the spare host")
                self.assertEqual(len(self.containers(1)), 1)
                self.link.heal()
                wait_for(lambda: self.containers(1) == [], "the end of the old container")
                self.assertEqual(len(self.containers(2)), 1)
                self.down()

    def test_that_stays_away_ends_its_container_by_itself(self):
        for engine in ("docker", "podman"):
            with self.subTest(engine=engine):
                self.start(engine, WAITS, orphan_timeout="10s")
                wait_for(lambda: self.containers(1) == [], "the end of the lost host's container")
                self.link.heal()
                self.down()


class DeadEngine(unittest.TestCase):
    @staticmethod
    def running(user):
        """Of the job's tasks. Host.processes() has none that is in a container."""
        return [command for command in processes.matching(user.job_id()).values() if "7777" in command]

    def test_down_does_not_claim_what_a_dead_engine_does_not_tell(self):
        with Hosts(1) as fresh, Tfdist("dead") as user:
            engines.start_docker(fresh[0])
            engines.bring_image(fresh, with_podman=False)
            file = user.write("cluster.toml", clusters.over_ssh(
                "job", WAITS, fresh[:1], layout="mirrored", ssh_config=fresh.ssh_config,
                task_extra=f'image = "{engines.IMAGE}"\nengine = "docker"\n') + NO_RESTARTS)
            up = user.start("up", file)
            user.wait_for_output(up, b"on\n")
            engines.kill_docker(fresh[0])
            down = user.run("down").expect(1)
            self.assertIn("containers of this job, as docker does not tell of them: ", down.err)
            clean = user.run("clean", "--yes", file).expect(3)
            self.assertIn("docker does not tell whether containers of it are left: ", clean.out + clean.err)
            self.assertIn("as docker does not tell of them: ", user.run("down").expect(1).err)
            self.assertEqual(self.running(user), [])
            engines.start_docker(fresh[0], name="other")  # as with another DOCKER_HOST, or context
            self.assertRegex(user.run("down").expect(1).err, "as docker does not tell of them: they are in .*, and its client asks .* now")
            # An engine whose data has moved for good has no other way to be forgotten.
            way = re.search(r"`mv (\S+) (\S+)` there tells `down` so", user.run("down").expect(1).err)
            note, told = (fresh[0].home / pathlib.Path(path).relative_to("/home/trainer") for path in way.groups())
            note.rename(told)
            user.run("down").expect(0)
            told.rename(note)
            engines.kill_docker(fresh[0])
            engines.start_docker(fresh[0])
            user.run("down").expect(0)
            self.assertEqual(engines.containers(fresh[0]), [])

    def test_each_wait_for_an_engine_that_hangs_ends_and_names_it(self):
        with Hosts(1) as fresh, Tfdist("hanging") as user:
            engines.start_docker(fresh[0])
            engines.bring_image(fresh, with_podman=False)
            file = user.write("cluster.toml", clusters.over_ssh(
                "job", WAITS, fresh[:1], layout="mirrored", ssh_config=fresh.ssh_config,
                task_extra=f'image = "{engines.IMAGE}"\nengine = "docker"\ngrace = "0s"\n') + NO_RESTARTS)
            up = user.start("up", file)
            user.wait_for_output(up, b"on\n")
            with engines.docker_hangs(fresh[0]):
                self.assertIn("no container engine answers (docker: it does not answer)", user.run("check", file).out)
                down = user.run("down").expect(1)
                self.assertIn("containers of this job, as docker does not tell of them: it does not answer", down.err)
                self.assertEqual(self.running(user), [])
            user.run("down").expect(0)
            self.assertEqual(engines.containers(fresh[0]), [])
            with engines.docker_hangs(fresh[0]):  # it has told, and is not asked again
                user.run("clean", "--yes", file).expect(0)
            self.assertFalse((fresh[0].home / ".cache/tfdist").exists())


if __name__ == "__main__":
    unittest.main()
