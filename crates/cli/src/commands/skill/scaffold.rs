//! `skill new`: creates the smallest skill that uses the whole contract.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use language::Language;

use crate::output::{Output, note};

#[derive(Args)]
pub(crate) struct NewArgs {
    /// The skill's name: lower case letters, digits and dashes.
    name: String,
    /// Language of the script.
    #[arg(long, default_value_t = Language::Python, value_parser = language_parser())]
    lang: Language,
}

/// Accepts the names of the language table, which the help text lists.
fn language_parser() -> impl TypedValueParser<Value = Language> {
    PossibleValuesParser::new(Language::ALL.map(Language::as_str))
        .try_map(|name| name.parse::<Language>())
}

pub(super) fn run(args: &NewArgs, output: Output) -> Result<ExitCode> {
    check_name(&args.name)?;
    let directory = PathBuf::from(&args.name);
    if directory.exists() {
        bail!("{} already exists; choose another name", directory.display());
    }
    let spec = args.lang.spec();
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    std::fs::create_dir(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    write("SKILL.md", &MANIFEST.replace("{name}", &args.name).replace("{lang}", spec.name))?;
    write(spec.default_entrypoints[0], spec.starter_script)?;
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

/// Checks the name against the specification, which is stricter than the server.
fn check_name(name: &str) -> Result<()> {
    let letters =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let dashes = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    if name.is_empty() || name.len() > 64 || !letters || dashes {
        bail!(
            "`{name}` is not a valid skill name; use 1 to 64 lower case letters, digits and single dashes, such as word-counter"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_spec() {
        for good in ["a", "word-counter", "a1-2b"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a--b", "../x", &"a".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
