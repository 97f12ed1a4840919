//! The scripts of `skillbox skill new`: each reads its input, prints a log line and writes a
//! result.

pub(crate) const PYTHON: &str = r#"import json
import os

with open("/sandbox/input.json") as file:
    request = json.load(file)

print("logs go to standard output and standard error")
with open(os.environ["SANDBOX_OUTPUT"], "w") as file:
    json.dump({"greeting": f"Hello, {request.get('name', 'world')}!"}, file)
"#;

pub(crate) const NODE: &str = r#"const fs = require("fs");

const request = JSON.parse(fs.readFileSync("/sandbox/input.json", "utf8"));

console.log("logs go to standard output and standard error");
const greeting = `Hello, ${request.name ?? "world"}!`;
fs.writeFileSync(process.env.SANDBOX_OUTPUT, JSON.stringify({ greeting }));
"#;

pub(crate) const BASH: &str = r#"#!/usr/bin/env bash
set -euo pipefail

echo "logs go to standard output and standard error"
name=$(sed -n 's/.*"name" *: *"\([^"\\]*\)".*/\1/p' /sandbox/input.json)
printf '{"greeting": "Hello, %s!"}' "${name:-world}" > "$SANDBOX_OUTPUT"
"#;
