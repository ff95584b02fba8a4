#!/usr/bin/env python3
"""Prints tfdist/types.py: docs/json.schema.json as types of Python. --write writes it; a test compares them."""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SCHEMA = HERE.parent / "docs/json.schema.json"
TYPES = HERE / "tfdist/types.py"

PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
# What one element of a command's output is; else the command's own name, `Status`.
NAMES = {"exec": "ExecResult", "list": "Listed", "logs": "LogLine", "events": "Event"}
HEAD = '''"""What `tfdist COMMAND --json` prints, as types. Made from docs/json.schema.json by make_types.py.

docs/json.md says what each key means. Keys may be added later.
"""

from typing import Any, Literal, Optional, TypedDict, Union
'''


def camel(key):
    return "".join(part.capitalize() for part in re.split(r"[_-]", key))


def one_of(key):
    """The name of an element of a list: `hosts` -> Host."""
    return camel(re.sub(r"(?<=[^s])s$", "", key))


def constants(schema):
    """Which tell the objects of a union apart: task, started."""
    for key, below in schema.get("properties", {}).items():
        if "const" in below:
            yield below["const"]
        yield from constants(below)


class Types:
    def __init__(self, definitions):
        self.definitions = definitions
        self.texts = []  # of classes and unions, those that others use first
        self.made = {}  # definition -> its type

    def of(self, schema, name):
        """The type's text. `name` is that of a class, should the schema need one."""
        if "$ref" in schema:
            return self.defined(schema["$ref"].rsplit("/", 1)[1])
        if "const" in schema:
            return f"Literal[{json.dumps(schema['const'])}]"
        if "enum" in schema:
            words = ", ".join(json.dumps(word) for word in schema["enum"] if word is not None)
            return self.union([f"Literal[{words}]", *["None"] * (None in schema["enum"])])
        if "anyOf" in schema:
            names = [name if "$ref" in each else name + "".join(map(camel, constants(each))) for each in schema["anyOf"]]
            return self.union([self.of(each, one) for each, one in zip(schema["anyOf"], names)])
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return self.union([self.of_kind(kind, schema, name) for kind in kinds])

    @staticmethod
    def union(types):
        some = [each for each in types if each != "None"] or ["None"]
        text = some[0] if len(some) == 1 else f"Union[{', '.join(some)}]"
        return text if len(some) == len(types) else f"Optional[{text}]"

    def of_kind(self, kind, schema, name):
        if kind == "array":
            return f"list[{self.of(schema['items'], name)}]"
        if kind != "object":
            return PLAIN[kind]
        if "properties" in schema:
            return self.typed_dict(schema, name)
        more = schema.get("additionalProperties")
        return f"dict[str, {self.of(more, name + 'Value') if isinstance(more, dict) else 'Any'}]"

    def typed_dict(self, schema, name):
        required, optional = [], []
        for key, below in schema["properties"].items():
            is_list = below.get("type") == "array"
            line = f"    {key}: {self.of(below, name + (one_of(key) if is_list else camel(key)))}"
            if "description" in below:
                line += f"  # {below['description']}"
            (required if key in schema.get("required", []) else optional).append(line)
        about = f'    """{schema["description"]}"""\n\n' if "description" in schema else ""
        # NotRequired is of Python 3.11: a base has the keys that are always there.
        base = "TypedDict"
        if required and optional:
            base = "_" + name
            self.texts.append("\n".join([f"class {base}(TypedDict):", *required]))
        total = ", total=False" if optional else ""
        self.texts.append(f"class {name}({base}{total}):\n{about}" + "\n".join(optional or required))
        return name

    def defined(self, key):
        if key not in self.made:
            name = NAMES.get(key, camel(key) if key.islower() else key)
            schema = self.definitions[key]
            kind = self.of(schema["items"] if schema.get("type") == "array" else schema, name)
            if kind.startswith(("Literal", "Union")):
                self.texts.append(f"{name} = {kind}")
                kind = name
            self.made[key] = kind
        return self.made[key]


def text():
    definitions = json.loads(SCHEMA.read_text())["$defs"]
    types = Types(definitions)
    for key in definitions:
        if key.islower():
            types.defined(key)
    return HEAD + "".join(f"\n\n{each}\n" for each in types.texts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        TYPES.write_text(text())
    else:
        print(text(), end="")
