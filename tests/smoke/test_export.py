"""`tfdist export`: the plan as a file of another engine. What the controllers of Kubernetes make of its objects is worked out here:
which pod has which name and which variables. Schemas are those of kubernetes-validate."""

import json
import re
import subprocess
import unittest

from tests.support.environments import KUBERNETES, NoEnvironment
from tests.support.tfdist import ROOT, Tfdist

VERSIONS = ("1.29.0", "1.37.0")  # the first with backoffLimitPerIndex, and the newest
READ = """
import json, sys, kubernetes_validate, yaml
documents = list(yaml.safe_load_all(sys.stdin))
for document in documents:
    for version in sys.argv[1:]:
        kubernetes_validate.validate(document, version, strict=True)
print(json.dumps(documents))
"""
TASK = """
[task]
image = "registry.lan/train:3"
command = ["python3", "train.py", "--price", "$5"]
gpus = 0
"""
HOSTS = 'hosts = ["10.0.0.[1-4]"]'
PLANS = {
    "uai": f'layout = "uai"\n{HOSTS}',
    "uai with a chief": f'layout = "uai"\nchief_name = "chief"\n{HOSTS}',
    "mirrored": f'layout = "mirrored"\n{HOSTS}',
    "mirrored with a chief": f'layout = "mirrored"\nchief_name = "chief"\n{HOSTS}',
    "two tasks on a host": 'layout = "mirrored"\nhosts = [{ address = "10.0.0.1", slots = 2 }, { address = "10.0.0.2", slots = 2 }]',
    "roles": f'layout = "roles"\n{HOSTS}\n[roles.master]\ncount = 1\n[roles.worker]\ncount = 12\n[roles.ps]\ncount = 2',
    "an evaluator": f'layout = "roles"\n{HOSTS}\n[roles.chief]\ncount = 1\n[roles.worker]\ncount = 2\n[roles.evaluator]\ncount = 1',
    "one task": 'layout = "mirrored"\nhosts = ["10.0.0.1"]\nports = { worker = 4000 }',
}


def setUpModule():
    try:
        KUBERNETES.provide()
    except NoEnvironment as error:
        raise unittest.SkipTest(f"{error}; {error.remedy}") from error


def read(text, *versions):
    """The documents of a YAML file, held against the schemas of those versions of Kubernetes."""
    python, _ = KUBERNETES.provide()
    done = subprocess.run([python, "-c", READ, *versions], input=text, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(f"{done.stderr}\n{text}")
    return json.loads(done.stdout)


def tf_config(env):
    value = json.loads(env["TF_CONFIG"])
    value.pop("environment", None)  # "cloud", beside a master
    return value


def expanded(text, variables):
    """As kubelets do: $(NAME) of what stands before it; $$ is a dollar."""
    return re.sub(r"\$\$|\$\((\w+)\)", lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]), text)


class Pod:
    """One that a controller makes. `name`: by which its service knows it."""

    def __init__(self, template, hostname, index=None):
        spec = template["spec"]
        self.labels = template["metadata"]["labels"]
        self.host = f"{spec.get('hostname', hostname)}.{spec['subdomain']}"
        [self.container] = spec["containers"]
        self.env = {}
        for variable in self.container["env"]:
            self.env[variable["name"]] = (str(index) if "fieldRef" in variable.get("valueFrom", {})
                                          else expanded(variable.get("value", "?"), self.env))
        self.words = [expanded(word, self.env) for word in self.container.get("command", []) + self.container.get("args", [])]


def pods_of(documents):
    pods = []
    for document in documents:
        spec, name = document["spec"], document["metadata"]["name"]
        if document["kind"] == "Job":
            indexed = spec.get("completionMode") == "Indexed"
            pods += [Pod(spec["template"], f"{name}-{index}" if indexed else name, index) for index in range(spec.get("completions", 1))]
        elif document["kind"] == "StatefulSet":
            pods += [Pod(spec["template"], f"{name}-{index}", index) for index in range(spec["replicas"])]
        elif document["kind"] == "Deployment":
            pods.append(Pod(spec["template"], None))
    return pods


class Exports(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("export")
        self.addCleanup(self.user.close)

    def write(self, cluster, task=TASK, top=""):
        return self.user.write("cluster.toml", f'name = "Digits_2"\n{top}\n[cluster]\n{cluster}\n{task}')

    def export(self, engine, file, *words):
        return self.user.run("export", file, "--to", engine, *words).expect(0)

    def tasks(self, file):
        return json.loads(self.user.run("render", "--json", file).expect(0).out)["tasks"]

    def expected_tf_config(self, tasks, task, host_of):
        cluster = {}
        for each in tasks:
            if each["address"]:
                cluster.setdefault(each["type"], {})[each["index"]] = f"{host_of(each)}:{2223 if each['type'] == 'ps' else 2222}"
        return {"cluster": {kind: [hosts[index] for index in sorted(hosts)] for kind, hosts in cluster.items()},
                "task": {"type": task["type"], "index": task["index"]}}

    def test_pods_of_kubernetes_have_the_tf_config_of_the_plan(self):
        for plan, cluster in PLANS.items():
            with self.subTest(plan):
                file = self.write(cluster)
                documents = read(self.export("kubernetes", file).out, *VERSIONS)
                tasks, pods = self.tasks(file), pods_of(documents)
                named = {pod.host: pod for pod in pods}
                self.assertEqual(len(named), len(tasks))
                [service] = [document for document in documents if document["kind"] == "Service"]
                self.assertEqual(service["metadata"]["name"], "digits-2")
                for task in tasks:
                    pod = named[f"digits-2-{task['type']}-{task['index']}.digits-2"]
                    wanted = self.expected_tf_config(tasks, task, lambda each: f"digits-2-{each['type']}-{each['index']}.digits-2")
                    if plan == "one task":
                        wanted["cluster"]["worker"] = ["digits-2-worker-0.digits-2:4000"]
                    self.assertEqual(tf_config(pod.env), wanted)
                    self.assertLessEqual(service["spec"]["selector"].items(), pod.labels.items())
                    self.assertEqual(pod.words, ["python3", "train.py", "--price", "$5"])

    def test_a_role_is_one_object_where_its_tasks_differ_by_their_index_only(self):
        for words, kinds in (('"{task_index}", "{worker:0.address}"', ["Job"]), ('"n{rank}"', ["Job"]), ('"x{task_index}y"', ["Job"])):
            file = self.write(PLANS["mirrored"], TASK.replace('"$5"', words))
            documents = read(self.export("kubernetes", file).out, *VERSIONS)
            self.assertEqual([document["kind"] for document in documents if document["kind"] != "Service"], kinds)
            self.assertEqual([pod.env["RANK"] for pod in pods_of(documents)], ["0", "1", "2", "3"])
        self.assertEqual([pod.words[-1] for pod in pods_of(documents)], ["x0y", "x1y", "x2y", "x3y"])

    def test_a_task_has_an_object_of_its_own_where_they_differ_otherwise(self):
        file = self.write(PLANS["uai"], TASK.replace('"$5"', '"{rank}"'))
        documents = read(self.export("kubernetes", file).out, *VERSIONS)
        named = {pod.host.split(".")[0]: pod.words[-1] for pod in pods_of(documents)}
        ranks = {f"digits-2-{task['type']}-{task['index']}": task["argv"][-1] for task in self.tasks(file)}
        self.assertEqual(named, ranks)
        self.assertEqual(sorted(document["kind"] for document in documents), ["Deployment"] * 4 + ["Job"] * 4 + ["Service"])

    def test_what_the_file_says_of_containers_restarts_and_times_is_there(self):
        file = self.write(HOSTS + '\nlayout = "mirrored"', TASK.replace("gpus = 0", """
gpus = 2
shared = "/srv/shared"
mounts = ["/data/set:/set:ro"]
shm_size = "1GiB"
entrypoint = "/init"
grace = "30s"
env = { CACHE = "{keep}/cache" }
[restart]
worker = { policy = "exit-code", limit = 5 }
"""), top='deadline = "2h"')
        documents = read(self.export("kubernetes", file).out, *VERSIONS)
        kinds = [document["kind"] for document in documents]
        self.assertEqual(kinds, ["Service", "PersistentVolumeClaim", "PersistentVolumeClaim", "Job"])
        job = documents[-1]["spec"]
        self.assertEqual((job["activeDeadlineSeconds"], job["backoffLimitPerIndex"], job["maxFailedIndexes"]), (7200, 5, 0))
        [rule] = job["podFailurePolicy"]["rules"]
        self.assertEqual(rule["onExitCodes"]["values"], list(range(1, 128)))
        pod = job["template"]["spec"]
        [container] = pod["containers"]
        self.assertEqual(pod["terminationGracePeriodSeconds"], 30)
        self.assertEqual(container["command"], ["/init"])
        self.assertEqual(container["resources"], {"limits": {"nvidia.com/gpu": 2}})
        self.assertNotIn("CUDA_VISIBLE_DEVICES", [variable["name"] for variable in container["env"]])
        self.assertEqual({mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]},
                         {"/keep": False, "/set": True, "/srv/shared": False, "/dev/shm": False})
        volumes = {volume["name"] for volume in pod["volumes"]}
        self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)

    def test_a_tfjob_has_the_replicas_of_the_plan(self):
        result = self.export("tfjob", str(ROOT / "configs/containers/tfjob.toml"))
        [job] = read(result.out)
        self.assertEqual((job["apiVersion"], job["kind"], job["metadata"]["name"]), ("kubeflow.org/v1", "TFJob", "tfjob"))
        replicas = job["spec"]["tfReplicaSpecs"]
        self.assertEqual({kind: replica["replicas"] for kind, replica in replicas.items()}, {"Master": 1, "Worker": 2, "PS": 1})
        self.assertNotIn("successPolicy", job["spec"])
        for replica in replicas.values():
            [container] = replica["template"]["spec"]["containers"]
            self.assertEqual(container["name"], "tensorflow")
            self.assertEqual(container["args"], ["--model-dir", "/training/model"])
            self.assertNotIn("TF_CONFIG", [variable["name"] for variable in container["env"]])
            as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": replica["template"]["spec"]}
            read(json.dumps(as_pod), *VERSIONS)
        [job] = read(self.export("tfjob", self.write(PLANS["uai"])).out)
        self.assertNotIn("successPolicy", job["spec"])  # its chief decides
        port = job["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"][0]["ports"]
        self.assertEqual(port, [{"containerPort": 2223, "name": "tfjob-port"}])
        [job] = read(self.export("tfjob", self.write(PLANS["mirrored"] + "\n[roles.worker]\nmore_ports = { dashboard = 8787 }")).out)
        self.assertEqual(job["spec"]["successPolicy"], "AllWorkers")
        [container] = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
        self.assertEqual(container["ports"], [{"containerPort": 2222, "name": "tfjob-port"}, {"containerPort": 8787, "name": "dashboard"}])
        self.assertNotIn("RANK", [variable["name"] for variable in container["env"]])

    def test_services_of_compose_reach_each_other_by_name(self):
        file = self.write(PLANS["uai"], TASK + 'workdir = "."\nenv_from = ["TOKEN"]\n')
        [document] = read(self.export("compose", file).out)
        services, tasks = document["services"], self.tasks_with_token(file)
        self.assertEqual(set(services), {f"{task['type']}-{task['index']}" for task in tasks})
        for task in tasks:
            service = services[f"{task['type']}-{task['index']}"]
            wanted = self.expected_tf_config(tasks, task, lambda each: f"{each['type']}-{each['index']}")
            self.assertEqual(tf_config(service["environment"]), wanted)
            self.assertEqual(service["environment"]["TOKEN"], "${TOKEN}")
            self.assertEqual(service["command"][-1], "$$5")
            self.assertEqual(service["volumes"], [f"{self.user.folder}:/workspace"])

    def tasks_with_token(self, file):
        self.user.env["TOKEN"] = "hush-hush"
        return self.tasks(file)

    def test_texts_of_any_kind_arrive_as_they_are(self):
        words = ["", " x", "=", "012", "0x10", "1e3", "yes", "2026-01-01", "a: b", "a #b", "'\"'", "$(X)", "$$", "a\nb: c\n---\n", "\t", "é😀",
                 "\u007f\u0085\u2028\ufeff\uffff", '{"a": "é"}', "[1]", "- x", "x\\"]
        file = self.write(PLANS["one task"], TASK.replace('"$5"', json.dumps(words, ensure_ascii=False).replace("\u007f", "\\u007f")[1:-1].replace("{", "{{")))
        [pod] = pods_of(read(self.export("kubernetes", file).out, *VERSIONS))
        self.assertEqual(pod.words[3:], words)

    def test_values_of_the_users_shell_stand_in_no_file(self):
        file = self.write(PLANS["uai"], TASK + 'env_from = ["TOKEN"]\n')
        self.tasks_with_token(file)
        for engine in ("kubernetes", "compose", "tfjob"):
            result = self.export(engine, file)
            self.assertNotIn("hush-hush", result.out + result.err)
        documents = read(self.export("kubernetes", file).out, *VERSIONS)
        env = documents[-1]["spec"]["template"]["spec"]["containers"][0]["env"]
        self.assertIn({"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "digits-2-env", "key": "TOKEN"}}}, env)

    def test_what_is_not_carried_over_is_said_in_the_file_and_in_warnings(self):
        file = self.write(PLANS["uai"], TASK.replace("gpus = 0", 'workdir = "."') + '[setup]\ncommand = ["true"]\n',
                          top='deadline = "2h"\ndeadline_warning = "5m"')
        result = self.export("kubernetes", file)
        head = result.out.split("---")[0]
        self.assertTrue(all(line.startswith("#") for line in head.splitlines()), head)
        for key in ("workdir", "[setup]", "deadline_warning", "gpus of worker", 'restart "gang"'):
            self.assertIn(f"# - {key}", head)
            self.assertIn(f"tfdist: warning: {key}", result.err)

    def test_what_another_engine_cannot_run_is_an_error(self):
        without_image = self.write(PLANS["uai"], TASK.replace("image =", "#"))
        refused = self.user.run("export", without_image, "--to", "kubernetes").expect(2)
        self.assertIn("ps:0 runs on the hosts themselves", refused.err)
        self.assertIn("--set task.image=", refused.err)
        self.export("kubernetes", without_image, "--set", "task.image=registry.lan/t:1")
        for cluster, task, said in (
                (PLANS["roles"].replace("roles.ps", "roles.driver"), TASK, "a TFJob has no tasks of the type driver"),
                (PLANS["uai"], TASK.replace("$5", "{task_index}"), "all replicas of a TFJob have the same"),
                (PLANS["uai"], TASK.replace('"python3"', '"{runtime}"'), "needs tfdist's agents"),
                (PLANS["uai"], TASK.replace('"$5"', '"{env:USER}"'), "ps:0 has ~ or {env:NAME}"),
                (HOSTS + '\nlayout = "roles"\n[roles.my_role]\ncount = 1\n[roles.My_role]\ncount = 1', TASK, "would both be called my-role")):
            refused = self.user.run("export", self.write(cluster, task), "--to", "tfjob").expect(2)
            self.assertIn(said, refused.err)
        self.assertIn("kubernetes", self.user.run("export", without_image, "--to", "nomad").expect(2).err)
        self.assertIn("name a file", self.user.run("export", "-", "--to", "tfjob").expect(2).err)
        long = self.user.write("long.toml", 'name = "x"\n[cluster]\nlayout = "roles"\nhosts = ["h"]\n[roles.' + "r" * 30 + "]\ncount = 1\n" + TASK)
        self.assertIn("too long a name", self.user.run("export", long, "--to", "kubernetes", "--name", "n" * 48).expect(2).err)


if __name__ == "__main__":
    unittest.main()
