"""Gives back the input document and the variable GREETING."""

import json
import os

with open("/sandbox/input.json", encoding="utf-8") as file:
    document = json.load(file)
print("héllo from echo")
with open(os.environ["SANDBOX_OUTPUT"], "w", encoding="utf-8") as file:
    json.dump({"input": document, "greeting": os.environ.get("GREETING")}, file, ensure_ascii=False)
