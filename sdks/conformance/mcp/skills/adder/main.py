"""Adds a and b."""

import json
import os

with open("/sandbox/input.json", encoding="utf-8") as file:
    numbers = json.load(file)
with open(os.environ["SANDBOX_OUTPUT"], "w", encoding="utf-8") as file:
    json.dump({"sum": numbers["a"] + numbers["b"]}, file)
