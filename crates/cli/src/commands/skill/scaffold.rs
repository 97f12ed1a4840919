//! `skill new`: the smallest skill that shows the whole contract.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::output::{Output, note};

#[derive(Args)]
pub struct NewArgs {
    /// The skill's name: lower case letters, digits and dashes.
    name: String,
    /// Language of the script.
    #[arg(long, value_enum, default_value = "python")]
    lang: Lang,
}

#[derive(Clone, Copy, ValueEnum)]
enum Lang {
    Python,
    Node,
    Bash,
}

pub fn run(args: &NewArgs, output: Output) -> Result<ExitCode> {
    check(&args.name)?;
    let directory = PathBuf::from(&args.name);
    if directory.exists() {
        bail!("{} exists already; choose another name", directory.display());
    }
    let (lang, file, script) = match args.lang {
        Lang::Python => ("python", "main.py", PYTHON),
        Lang::Node => ("node", "main.js", NODE),
        Lang::Bash => ("bash", "main.sh", BASH),
    };
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    std::fs::create_dir(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    write("SKILL.md", &MANIFEST.replace("{name}", &args.name).replace("{lang}", lang))?;
    write(file, script)?;
    if output.is_json() {
        output.line(&serde_json::json!({"name": args.name, "path": directory}).to_string())?;
    } else {
        output.line(&directory.display().to_string())?;
        note(&format!(
            "next: skillbox skill push {0} && skillbox run {0} --input '{{\"name\": \"Ada\"}}'",
            args.name
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The spec's rule for names, which is narrower than what the server takes.
fn check(name: &str) -> Result<()> {
    let letters =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let dashes = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    if name.is_empty() || name.len() > 64 || !letters || dashes {
        bail!(
            "`{name}` cannot be a skill's name; use 1 to 64 lower case letters, digits and single dashes, such as word-counter"
        );
    }
    Ok(())
}

const MANIFEST: &str = r#"---
name: {name}
description: Greets someone. Say here what the skill does and when an agent should use it.
version: 1.0.0
lang: {lang}
timeout: 30s
---
# {name}

Input: `{"name": "Ada"}`. Output: `{"greeting": "Hello, Ada!"}`.
"#;

const PYTHON: &str = r#"import json
import os

with open("/sandbox/input.json") as file:
    request = json.load(file)

print("logs go to standard output and standard error")
with open(os.environ["SANDBOX_OUTPUT"], "w") as file:
    json.dump({"greeting": f"Hello, {request.get('name', 'world')}!"}, file)
"#;

const NODE: &str = r#"const fs = require("fs");

const request = JSON.parse(fs.readFileSync("/sandbox/input.json", "utf8"));

console.log("logs go to standard output and standard error");
const greeting = `Hello, ${request.name ?? "world"}!`;
fs.writeFileSync(process.env.SANDBOX_OUTPUT, JSON.stringify({ greeting }));
"#;

const BASH: &str = r#"#!/usr/bin/env bash
set -euo pipefail

echo "logs go to standard output and standard error"
name=$(sed -n 's/.*"name" *: *"\([^"\\]*\)".*/\1/p' /sandbox/input.json)
printf '{"greeting": "Hello, %s!"}' "${name:-world}" > "$SANDBOX_OUTPUT"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_spec() {
        for good in ["a", "word-counter", "a1-2b"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a--b", "../x", &"a".repeat(65)] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
