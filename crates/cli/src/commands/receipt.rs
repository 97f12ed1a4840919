//! `skillbox receipt`: what a server signed about an execution, checked without it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use data_encoding::HEXLOWER;
use runner::RECEIPT_KIND;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use skill::signature::seal;

use super::skill::public_keys;
use crate::args::Global;
use crate::output::Output;
use crate::{connection, terminal};

#[derive(Subcommand)]
pub enum ReceiptCommand {
    /// Check a receipt, and what you have against it. Exit code 1 says that something does not fit.
    Verify(VerifyArgs),
    /// Print the public key that the server signs receipts with.
    Key,
}

#[derive(Args)]
pub struct VerifyArgs {
    /// The receipt as `exec receipt` printed it; - for standard input.
    #[arg(value_name = "FILE")]
    receipt: PathBuf,
    /// The server's public key: a file, or its line of base64. May be given several times.
    #[arg(long = "key", required = true, value_name = "PUBKEY")]
    keys: Vec<String>,
    /// The input document; how it is laid out does not matter.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The output document.
    #[arg(long = "result", value_name = "FILE")]
    result: Option<PathBuf>,
    /// A file the run left, as PATH, or NAME=PATH when it has another name here. May be given
    /// several times.
    #[arg(long = "file", value_name = "[NAME=]PATH")]
    files: Vec<String>,
    /// Write the signed text here and its signature beside it, ending in .minisig, for minisign to
    /// check.
    #[arg(long, value_name = "FILE")]
    extract: Option<PathBuf>,
}

pub async fn run(global: &Global, command: ReceiptCommand, output: Output) -> Result<ExitCode> {
    match command {
        ReceiptCommand::Verify(args) => verify(&args, output),
        ReceiptCommand::Key => {
            let keys = connection::open(global)?.receipt_keys().await?;
            output.line(if output.is_json() { &keys.raw } else { &keys.current.public_key })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn verify(args: &VerifyArgs, output: Output) -> Result<ExitCode> {
    let keys = public_keys(&args.keys)?;
    let opened = match seal::open(&read(&args.receipt)?, RECEIPT_KIND, &keys) {
        Ok(opened) => opened,
        Err(error) => {
            let report = json!({"verified": false, "problems": [error.to_string()]});
            say(output, &report, &format!("the receipt is not genuine: {error}"))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let payload: Value = serde_json::from_str(&opened.payload)
        .context("the receipt is signed, but not one we know")?;
    if let Some(path) = &args.extract {
        let write = |path: &Path, text: &str| {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(path, &opened.payload)?;
        write(&PathBuf::from(format!("{}.minisig", path.display())), &opened.signature)?;
    }
    let problems = compare(args, &payload)?;
    let report = json!({"verified": problems.is_empty(), "problems": problems, "receipt": payload});
    let words = match problems.is_empty() {
        true => format!("genuine, signed with {}\n{}", opened.verified.key_id, told(&payload)),
        false => format!("genuine, but {}", problems.join("; ")),
    };
    say(output, &report, &words)?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What of the things at hand is not what the receipt tells of.
fn compare(args: &VerifyArgs, payload: &Value) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (what, path, key) in
        [("input", &args.input, "input_sha256"), ("result", &args.result, "output_sha256")]
    {
        let Some(path) = path else { continue };
        if payload[key] != sha256(compact(&read(path)?).as_bytes()) {
            problems.push(format!("{} is not its {what}", path.display()));
        }
    }
    for file in &args.files {
        let (name, path) = file.split_once('=').unwrap_or((file, file));
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {path}"))?;
        let hash = sha256(&bytes);
        let files = payload["files"].as_array();
        if !files.into_iter().flatten().any(|left| left["path"] == name && left["sha256"] == hash) {
            problems.push(format!("{path} is not the file {name} that it left"));
        }
    }
    Ok(problems)
}

/// The lines that a person looks for.
fn told(payload: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let skill = &payload["skill"];
    let facts = [
        ("execution", word(&payload["execution_id"])),
        ("tenant", word(&payload["tenant_id"])),
        (
            "skill",
            format!(
                "{}@{} {}",
                word(&skill["name"]),
                word(&skill["version"]),
                word(&skill["digest"])
            ),
        ),
        ("script", word(&skill["script"])),
        ("status", format!("{} ({})", word(&payload["status"]), word(&payload["outcome"]))),
        ("recorded", word(&payload["recorded_at"])),
    ];
    facts.map(|(name, value)| format!("{name:<10} {value}")).join("\n")
}

fn say(output: Output, report: &Value, words: &str) -> Result<()> {
    let line = if output.is_json() { report.to_string() } else { terminal::sanitize(words) };
    Ok(output.line(&line)?)
}

fn read(path: &Path) -> Result<String> {
    let context = || format!("cannot read {} as UTF-8 text", path.display());
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).with_context(context)?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(context)
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// JSON without the blanks between its parts, as the server keeps documents; spelling and order
/// stay.
fn compact(json: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let mut keep = |c: char| {
        let was_inside = inside;
        match c {
            '"' if !escaped => inside = !inside,
            _ => {}
        }
        escaped = inside && c == '\\' && !escaped;
        was_inside || !matches!(c, ' ' | '\t' | '\r' | '\n')
    };
    json.chars().filter(|c| keep(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_go_and_strings_stay() {
        for (json, expected) in [
            ("{ \"b\" : 1.0 ,\t\"a\":[ 1 , 2 ] }\n", r#"{"b":1.0,"a":[1,2]}"#),
            (r#"" a \" b \\" "#, r#"" a \" b \\""#),
            (" null\n", "null"),
            (r#"{"k": "\\", "l": " "}"#, r#"{"k":"\\","l":" "}"#),
        ] {
            assert_eq!(compact(json), expected, "{json}");
        }
    }
}
