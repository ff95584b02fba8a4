"""Holds JSON against a JSON Schema (2020-12), as far as docs/json.schema.json uses it. A keyword that is not known here
fails the test, and so does a key of an object that its schema does not name: readers may pass over such keys, the
documentation may not."""

import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}
ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description"}


def is_of_type(value, name):
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


class Schema:
    def __init__(self, document):
        self.document = document

    def problems(self, value, schema=None, place="$"):
        """What is wrong with `value`, each with its place; an empty list: nothing."""
        schema = self.document if schema is None else schema
        unknown = set(schema) - ANNOTATIONS - {name[6:] for name in dir(self) if name.startswith("_test_")} - {"$ref", "required"}
        assert not unknown, f"{place}: the test does not know {unknown}"
        found = []
        for keyword, argument in schema.items():
            if keyword == "$ref":
                found += self.problems(value, self._definition(argument), place)
            elif keyword == "required":
                found += [f"{place}: {key} is missing" for key in argument if isinstance(value, dict) and key not in value]
            elif keyword not in ANNOTATIONS:
                found += getattr(self, f"_test_{keyword}")(value, argument, schema, place)
        return found

    def _definition(self, pointer):
        assert pointer.startswith("#/$defs/"), pointer
        return self.document["$defs"][pointer.removeprefix("#/$defs/")]

    @staticmethod
    def _test_type(value, names, _schema, place):
        names = [names] if isinstance(names, str) else names
        return [] if any(is_of_type(value, name) for name in names) else [f"{place}: {value!r} is no {' or '.join(names)}"]

    @staticmethod
    def _test_enum(value, values, _schema, place):
        return [] if value in values else [f"{place}: {value!r} is none of {values}"]

    @staticmethod
    def _test_const(value, only, _schema, place):
        return [] if value == only else [f"{place}: {value!r} is not {only!r}"]

    @staticmethod
    def _test_pattern(value, pattern, _schema, place):
        return [] if not isinstance(value, str) or re.search(pattern, value) else [f"{place}: {value!r} does not match {pattern}"]

    def _test_items(self, value, items, _schema, place):
        # As in JSON Schema: a keyword says nothing of values of another type.
        return [problem for at, item in enumerate(value if isinstance(value, list) else []) for problem in self.problems(item, items, f"{place}[{at}]")]

    def _test_properties(self, value, properties, schema, place):
        if not isinstance(value, dict):
            return []
        found = []
        for key, below in value.items():
            if key in properties:
                found += self.problems(below, properties[key], f"{place}.{key}")
            elif "additionalProperties" not in schema:
                found.append(f"{place}.{key} is not in the schema")
        return found

    def _test_additionalProperties(self, value, schema_of_others, schema, place):  # pylint: disable=invalid-name
        return [problem for key, below in (value if isinstance(value, dict) else {}).items()
                if key not in schema.get("properties", {})
                for problem in self.problems(below, schema_of_others, f"{place}.{key}")]

    def _test_anyOf(self, value, schemas, _schema, place):  # pylint: disable=invalid-name
        tried = [self.problems(value, schema, place) for schema in schemas]
        return [] if not all(tried) else min(tried, key=len)
