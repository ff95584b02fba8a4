"""`tfdist import`: TFJobs as the guides of every version write them, as cluster files that tfdist takes."""

import json
import re
import unittest

from tests.smoke.test_export import read, setUpModule  # noqa: F401: makes the environment
from tests.support.tfdist import Tfdist

V1 = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: dist-mnist
  namespace: kubeflow
spec:
  runPolicy:
    activeDeadlineSeconds: 7200
    cleanPodPolicy: None
    backoffLimit: 4
  tfReplicaSpecs:
    PS:
      replicas: 2
      restartPolicy: Never
      template: &template
        spec:
          nodeSelector: {disk: ssd}
          terminationGracePeriodSeconds: 30
          containers:
            - name: tensorflow
              image: registry.lan/dist-mnist:v1.0
              command: [python, /var/model.py]
              args: ["--data", "/data", "--price=$$5", "--as={json}"]
              env:
                - {name: EPOCHS, value: "3"}
                - {name: TOKEN, valueFrom: {secretKeyRef: {name: hush, key: token}}}
                - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
              volumeMounts:
                - {mountPath: /training, name: training}
                - {mountPath: /data, name: data, readOnly: true}
                - {mountPath: /dev/shm, name: shm}
              resources: {limits: {cpu: 4}}
          volumes:
            - {name: training, persistentVolumeClaim: {claimName: training-claim}}
            - {name: data, hostPath: {path: /srv/data}}
            - {name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}
    Worker:
      replicas: 4
      restartPolicy: ExitCode
      template:
        spec:
          containers:
            - name: tensorflow
              image: registry.lan/dist-mnist:v1.0
              command: [python, /var/model.py]
              ports: [{name: tfjob-port, containerPort: 5000}]
              resources: {limits: {nvidia.com/gpu: 2}}
"""
# As the guide of the first version has it.
V1ALPHA1 = """
apiVersion: "kubeflow.org/v1alpha1"
kind: "TFJob"
metadata:
  name: "example-job"
spec:
  replicaSpecs:
    - replicas: 1
      tfReplicaType: MASTER
      template:
        spec:
          containers:
            - image: registry.lan/tf_sample:dc944ff
              name: tensorflow
              args: [--log_dir, /training]
              volumeMounts: [{name: training, mountPath: /training}]
          restartPolicy: OnFailure
          volumes: [{name: training, hostPath: {path: /srv/training}}]
    - replicas: 1
      tfReplicaType: WORKER
      template:
        spec:
          containers:
            - {image: "registry.lan/tf_sample:dc944ff", name: tensorflow, args: [--log_dir, /training]}
          restartPolicy: OnFailure
    - replicas: 2
      tfReplicaType: PS
      template:
        spec:
          containers:
            - {image: "registry.lan/tf_sample:dc944ff", name: tensorflow, args: [--log_dir, /training]}
"""


class Imports(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("import")
        self.addCleanup(self.user.close)
        self.user.env["TOKEN"] = "hush-hush"

    def convert(self, text, hosts="gpu[1-4]"):
        """(the cluster file's path, what was said on stderr)"""
        result = self.user.run("import", self.user.write("job.yaml", text), "-H", hosts).expect(0)
        for note in re.findall(r"tfdist: warning: (.*)\n", result.err):
            self.assertIn(note, " ".join(result.out.replace("#", "").split()), result.out)
        return self.user.write("cluster.toml", result.out), result.err

    def plan(self, file):
        return json.loads(self.user.run("render", "--json", file).expect(0).out)

    def test_a_job_of_v1(self):
        file, said = self.convert(V1)
        tasks = self.plan(file)["tasks"]
        self.assertEqual(sorted(task["task"] for task in tasks), ["ps:0", "ps:1"] + [f"worker:{index}" for index in range(4)])
        ps = next(task for task in tasks if task["task"] == "ps:0")
        self.assertEqual(ps["argv"], ["python", "/var/model.py", "--data", "/data", "--price=$5", "--as={json}"])
        self.assertEqual(ps["image"], "registry.lan/dist-mnist:v1.0")
        self.assertEqual(ps["gpus"], [])
        worker = next(task for task in tasks if task["task"] == "worker:3")
        self.assertEqual(len(worker["gpus"]), 2)
        self.assertTrue(worker["address"].endswith(":5000"))
        text = self.user.folder.joinpath("cluster.toml").read_text()
        for line in ('deadline = "7200s"', 'done = "chief"', 'ps = "never"', 'worker = "exit-code"', 'env_from = ["TOKEN"]', 'grace = "30s"',
                     'mounts = ["/srv/training-claim:/training", "/srv/data:/data:ro"]', 'shm_size = "2GiB"', 'entrypoint = ""'):
            self.assertIn(line, text)
        for note in ("namespace", "runPolicy: backoffLimit", "ps: nodeSelector", "ps: POD, which Kubernetes works out", "claim training-claim",
                     "TOKEN came from a secret", "ps: resources: cpu"):
            self.assertIn(note, said)

    def test_the_guide_of_the_first_version(self):
        file, said = self.convert(V1ALPHA1)
        self.assertEqual(said, "")
        tasks = self.plan(file)["tasks"]
        self.assertEqual({task["task"] for task in tasks}, {"master:0", "worker:0", "ps:0", "ps:1"})
        self.assertEqual({tuple(task["argv"]) for task in tasks}, {("--log_dir", "/training")})
        text = self.user.folder.joinpath("cluster.toml").read_text()
        self.assertNotIn("done =", text)  # its chief decides by itself
        self.assertIn('[restart]\nmaster = "task"\nworker = "task"\nps = "never"\n', text)

    def test_what_was_imported_is_exported_again(self):
        file, _ = self.convert(V1ALPHA1)
        [job] = read(self.user.run("export", file, "--to", "tfjob").expect(0).out)
        replicas = job["spec"]["tfReplicaSpecs"]
        self.assertEqual({kind: replica["replicas"] for kind, replica in replicas.items()}, {"Master": 1, "Worker": 1, "PS": 2})
        [container] = replicas["Master"]["template"]["spec"]["containers"]
        self.assertEqual((container["image"], container["args"]), ("registry.lan/tf_sample:dc944ff", ["--log_dir", "/training"]))
        self.assertEqual(replicas["Master"]["template"]["spec"]["volumes"][0]["hostPath"], {"path": "/srv/training"})

    def test_no_text_of_the_job_becomes_a_line_of_the_file(self):
        text = "$(X)\nname = 'evil'\n[ssh]\nuser = 'root'"
        file, said = self.convert(V1ALPHA1.replace("args: [--log_dir, /training]\n", f"args: {json.dumps([text])}\n").replace(
            'name: "example-job"', 'name: "example-job"\n  labels: {}'))
        self.assertIn("a variable that Kubernetes would fill in", said)
        self.assertNotIn("\n[ssh]", self.user.folder.joinpath("cluster.toml").read_text())
        self.assertEqual(self.plan(file)["name"], "example-job")

    def test_json_is_yaml_too(self):
        file, _ = self.convert(json.dumps(read(V1)[0]))
        self.assertEqual(len(self.plan(file)["tasks"]), 6)

    def test_what_is_no_tfjob_is_an_error(self):
        for text, said in (("kind: Deployment\n", "there is no TFJob in it, but Deployment"), ("", "there is no TFJob in it"),
                           ("a: [1,\nb: 2\n", "job.yaml: line 3"), (V1 + "---" + V1, "there are two TFJobs"),
                           (V1.replace("Worker:", "Driver:"), "no tasks of the type driver"), ("kind: TFJob\n", "has no tfReplicaSpecs"),
                           ("a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n"
                                                                    for i in range(6)), "more than 100000 values")):
            refused = self.user.run("import", self.user.write("job.yaml", text), "-H", "h1").expect(2)
            self.assertIn(said, refused.err)
        self.assertIn("there is no file", self.user.run("import", "missing.yaml", "-H", "h1").expect(2).err)
        self.assertIn("--hosts", self.user.run("import", "missing.yaml").expect(2).err)


if __name__ == "__main__":
    unittest.main()
