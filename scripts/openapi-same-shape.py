#!/usr/bin/env python3
"""Compares two OpenAPI documents and ignores their prose.

Usage: scripts/openapi-same-shape.py OLD NEW

Removes `description` and `summary` wherever they are prose, and keeps properties, parameters and
headers with these names. Prints the first differences and exits with 1 when there are any. To
compare with a commit:

    git show COMMIT:openapi.json >/tmp/old.json
    scripts/openapi-same-shape.py /tmp/old.json openapi.json
"""

import json
import sys

PROSE = {"description", "summary"}
# Objects whose keys are names that the API defines, and not keywords of OpenAPI.
NAMED = {"properties", "patternProperties", "schemas", "parameters", "headers", "responses", "examples",
         "securitySchemes", "requestBodies", "paths", "$defs", "mapping", "variables", "callbacks"}
# Values are compared as they are: the keys in them belong to the API.
LITERAL = {"example", "default", "enum", "const"}
MAX_SHOWN = 20


def shape(node, names=False):
    """The document without prose. In a map of `names` no key is a keyword."""
    if isinstance(node, list):
        return [shape(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for key, value in node.items():
        if names:
            kept[key] = shape(value)
        elif key in PROSE and isinstance(value, str):
            continue
        elif key in LITERAL:
            kept[key] = value
        else:
            kept[key] = shape(value, names=key in NAMED)
    return kept


def differences(old, new, path=""):
    if isinstance(old, dict) and isinstance(new, dict):
        # The order of keys is part of what generators see.
        if list(old) != list(new) and sorted(old) == sorted(new):
            yield f"{path}: other order of keys"
        for key in old:
            if key not in new:
                yield f"{path}/{key}: removed"
            else:
                yield from differences(old[key], new[key], f"{path}/{key}")
        for key in new:
            if key not in old:
                yield f"{path}/{key}: added"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new)):
            yield from differences(one, other, f"{path}/{index}")
    elif old != new:
        yield f"{path}: {json.dumps(old)[:100]} is now {json.dumps(new)[:100]}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    documents = []
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            documents.append(shape(json.load(file)))
    # Every difference is counted, and the first ones are shown.
    found = list(differences(*documents))
    for line in found[:MAX_SHOWN]:
        print(line)
    if found:
        sys.exit(f"{len(found)} differences besides descriptions and summaries")
    print("the same but for descriptions and summaries")


if __name__ == "__main__":
    main()
