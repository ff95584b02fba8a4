"""What commands print with --json is what docs/json.schema.json says, and docs/json.md has the same keys."""

import copy
import datetime
import json
import pathlib
import re
import unittest

from tests.smoke.test_manners import documented_keys
from tests.support import clusters
from tests.support.json_schema import Schema
from tests.support.tfdist import ROOT, Tfdist
from tests.support.waiting import wait_for

DOCUMENT = json.loads((ROOT / "docs/json.schema.json").read_text())
COMMANDS = {name for name in DOCUMENT["$defs"] if name.islower()}
# Of the pages' tables: objects that are described elsewhere, in words or in a table of their own.
IN_WORDS = {"exit", "previous_exit", "look", "unreached[]", "images[]", "python", "plan", "collateral", "ended_before", "first", "fields", "last_known"}


def keys_in_schema(schema, prefix=""):
    """As documented_keys() writes them."""
    if "$ref" in schema:
        schema = DOCUMENT["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if schema.get("type") == "array":
        return keys_in_schema(schema["items"], prefix)
    if "anyOf" in schema:
        return set().union(*(keys_in_schema(each, prefix) for each in schema["anyOf"]))
    keys = set()
    for key, below in schema.get("properties", {}).items():
        is_list = below.get("type") == "array" and "properties" in below["items"]
        name = f"{key}[]" if is_list else key
        if key not in IN_WORDS and name not in IN_WORDS:
            keys |= {prefix + name} | (keys_in_schema(below, f"{prefix}{name}.") if is_list else set())
    return keys


class Json(unittest.TestCase):
    def setUp(self):
        self.user = Tfdist("json")
        self.addCleanup(self.user.close)

    def read(self, command, *words, code=0, by_line=False):
        """Runs it with --json and holds the output against the schema."""
        result = self.user.run(command, "--json", *words)
        self.assertEqual(result.code, code, result)
        value = [json.loads(line) for line in result.out.splitlines()] if by_line else json.loads(result.out)
        schema = Schema({"$ref": f"#/$defs/{command}", "$defs": DOCUMENT["$defs"]})
        for each in value if by_line else [value]:
            self.assertEqual(schema.problems(each), [], f"{command}: {result.out}")
        self.seen.add(command)
        return value

    def test_the_end_of_a_job_is_text_too(self):
        """JavaScript and jq keep 53 bits of a number, and nanoseconds since 1970 have 61."""
        self.seen = set()
        self.user.run("up", "-H", "localhost", "--no-workdir", "--", "true").expect(0)
        [row] = self.read("list")
        self.assertEqual(self.read("wait")["ended"], row["ended"])
        self.assertRegex(row["ended"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        seconds = datetime.datetime.fromisoformat(row["ended"].replace("Z", "+00:00")).timestamp()
        self.assertAlmostEqual(seconds, row["ended_ns"] / 1e9, places=2)

    def test_every_command_prints_what_the_schema_says(self):
        self.seen = set()
        # worker:0 fails once; then nobody writes anything.
        script = 'echo x >"${TFDIST_TASK%:*}.bin"; case $TFDIST_TASK-$TFDIST_ATTEMPT in master*) [ -e $0 ] || { touch $0; echo grün; exit 7; };; esac; exec sleep infinity'
        text = clusters.local("job", ["sh", "-c", script, str(self.user.folder / "failed")], extra='silent_after = "1s"',
                              task_extra='env = { COLOR = "red" }')
        file = self.user.write("job.toml", text + '[restart]\nmaster = "gang"\n[check]\npython = ["no-such-package"]\n')
        self.assertEqual(self.read("render", file)["tasks"][0]["env"]["COLOR"][:7], "sha256:")
        self.assertEqual({one["check"] for one in self.read("check", file)["findings"]}, {"python"})
        up = self.read("up", "-d", "--label", "lr=0.1", "--label", "note=a=b", file)
        self.assertEqual((up["job"], up["ran_already"]), (self.user.job_id(), False))
        self.assertEqual([task["port"] for task in up["tasks"] if task["port"] is None], [])
        self.assertEqual(self.read("up", "-d", file), dict(up, ran_already=True))
        self.user.wait_for_status(lambda status: status["attempt"] == 2 and status["look"], "silence in the second attempt")
        status = self.read("status")
        self.assertEqual(status["look"]["tasks"][0]["state"], "S")
        self.assertIn("previous_exit", status["tasks"][1])
        self.assertEqual([one["consequence"] for one in self.read("why")["incidents"]], ["restarted all tasks"])
        [look] = self.read("top", "-n", "1", by_line=True)
        self.assertEqual({task["state"] for task in look["tasks"]}, {"running"})
        self.assertEqual(self.read("wait", "--timeout", "2s", code=124)["state"], "running")
        [one, other] = self.read("restart", "job", "worker:0", "ps:0")["tasks"][:2]
        self.assertEqual((one["state"], other["state"]), ("running", "running"))
        ran = self.read("exec", "job", "worker:0", "ps:1", "--", "sh", "-c", "echo $TFDIST_TASK; exit 5", code=5)
        self.assertEqual([(row["task"], row["exit_code"], row["output"]) for row in ran],
                         [("ps:1", 5, "ps:1\n"), ("worker:0", 5, "worker:0\n")])  # in the plan's order
        self.assertEqual([(row["state"], row["labels"]) for row in self.read("list")], [("running", {"lr": "0.1", "note": "a=b"})])
        described = self.read("describe")
        self.assertEqual((described["file"], described["labels"]["note"]), (file, "a=b"))
        self.assertEqual({task["command"].split()[-1] for task in described["tasks"]}, {str(self.user.folder / "failed")})
        pulled = self.read("pull", "job", "master.bin", "nothing.bin", "--to", str(self.user.folder / "home"), code=1)
        self.assertEqual(pulled["not_there"], ["nothing.bin"])
        [folder] = pulled["folders"]
        self.assertEqual((folder["file_count"], folder["bytes"], folder["here_count"]), (1, 2, 0))
        self.assertEqual((pathlib.Path(folder["folder"]) / "master.bin").read_text(), "x\n")
        self.assertEqual(self.read("pull", "job", "--dry-run")["failures"], [])
        self.assertEqual(self.read("down")["unconfirmed"], [])
        self.assertEqual(self.read("status")["result"], "stopped")
        self.assertEqual(self.read("wait", code=1)["state"], "stopped")
        events = self.read("events", by_line=True)
        self.assertEqual([one["fields"].get("last_lines") for one in events if one["fields"].get("exit", {}).get("code") == 7], ["grün\n"])
        kinds = {event["kind"] for event in events}
        self.assertLessEqual({"committed", "attempt", "host", "task", "restarting", "stopping", "census", "ended"}, kinds)
        wait_for(lambda: not self.user.left(), "the agents have left", 30)
        self.assertEqual([one["job"] for one in self.read("prune")["kept"]], [up["job"]])
        listed = self.read("clean", "--dry-run", file)["items"]
        self.assertEqual({(item["kind"], item["job"], item["goes"]) for item in listed}, {("job", up["job"], True), ("caches", None, True)})
        self.user.run("clean", "--json", file).expect(2)
        self.assertIn('"text": "# Written by tfdist init.', self.user.run("init", "--json", "localhost").expect(0).out)
        self.assertEqual([host["state"] for host in self.read("init", "localhost")["hosts"]], ["ok"])
        self.assertTrue(self.read("down", "--purge", "job")["purged"])
        self.assertEqual(self.read("prune"), {"forgotten": [], "kept": []})
        self.assertNotEqual(self.read("clean", "--yes", file)["removed"], [])
        self.assertIn("libssh2", self.read("version")["libraries"])
        self.seen.add("logs")  # of a test of its own
        self.assertEqual(self.seen, COMMANDS)

    def test_lines_of_output_say_whose_they_are(self):
        self.seen = set()
        script = "echo out; printf 'err\\377\\n' >&2; printf last"
        file = self.user.write("job.toml", clusters.local("job", ["sh", "-c", script], slots=1, task_extra='output = "separate"'))
        up = self.user.run("up", file).expect(0)
        self.assertEqual(sorted(re.findall(r"master:0 +\| (.*)", up.out)), ["last", "out"])
        self.assertIn("master:0 | err", up.err)
        lines = self.read("logs", "job", "master:0", by_line=True)
        self.assertEqual([(one["stream"], one["line"]) for one in lines],
                         [("stdout", "out"), ("stderr", "err\ufffd"), ("stdout", "last")])
        self.assertEqual([one for one in lines if one["cut"] or not one["time_ns"]], [])

    def test_a_host_that_is_not_there_is_in_the_schema_too(self):
        self.seen = set()
        [row] = self.read("exec", "-H", "127.0.0.1:1", "--", "true", code=3)
        self.assertEqual(row["exit_code"], None)
        self.assertIn("onnection refused", row["error"])
        [row] = self.read("list", "-H", "127.0.0.1:1", code=3)
        self.assertEqual(row["jobs"], [])
        self.assertIn("onnection refused", row["error"])

    def test_every_option_json_has_a_schema(self):
        listed = re.findall(r"(?m)^  ([a-z]+) ", self.user.run("--help").out.split("Subcommands:")[1])
        self.assertEqual({command for command in listed if "\n  --json " in self.user.run(command, "--help").out}, COMMANDS)

    def test_the_page_has_the_keys_of_the_schema(self):
        for command in sorted(COMMANDS):
            with self.subTest(command=command):
                sections = {"list": ("list", "list -H HOSTS")}.get(command, (command,))
                documented = {key for section in sections for key in documented_keys(section)
                              if not re.match("|".join(re.escape(name) + "$" for name in IN_WORDS), key.rsplit(".", 1)[-1])}
                self.assertEqual(keys_in_schema(DOCUMENT["$defs"][command]), documented)

    def test_the_command_prints_the_schema(self):
        self.assertEqual(json.loads(self.user.run("schema").out), DOCUMENT)
        of_status = json.loads(self.user.run("schema", "status").out)
        self.assertEqual(of_status["$ref"], "#/$defs/status")
        refused = self.user.run("schema", "shell")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("'shell' is none of the commands that have --json: render, check, ", refused.err)

    def test_the_check_itself_finds_what_is_wrong(self):
        version = {"version": "1", "agent_sha256": "", "agents": {}, "openssl": "", "libraries": {}}
        schema = Schema({"$ref": "#/$defs/version", "$defs": DOCUMENT["$defs"]})
        self.assertEqual(schema.problems(version), [])
        for change in ({"more": 1}, {"version": 1}, {"libraries": {"zlib": None}}):
            self.assertEqual(len(schema.problems(dict(copy.deepcopy(version), **change))), 1, change)
        self.assertEqual(schema.problems({}), [f"$: {key} is missing" for key in version])

    def test_the_schema_is_one(self):
        try:
            import jsonschema  # not in every distribution of Python
        except ImportError:
            self.skipTest("no package jsonschema")
        jsonschema.Draft202012Validator.check_schema(DOCUMENT)
        printed = json.loads(self.user.run("version", "--json").out)
        jsonschema.validate(printed, json.loads(self.user.run("schema", "version").out), jsonschema.Draft202012Validator)


if __name__ == "__main__":
    unittest.main()
