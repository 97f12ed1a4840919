//! `skillbox receipt`: verifies the signed receipt of an execution, without the server.

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
pub(crate) enum ReceiptCommand {
    /// Verify a receipt, and compare files with it. Exit code 1 means that something does not match.
    Verify(VerifyArgs),
    /// Print the public key with which the server signs receipts.
    Key,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The receipt as `exec receipt` printed it, or - for standard input.
    #[arg(value_name = "FILE")]
    receipt: PathBuf,
    /// The server's public key: a file, or its base64 line. May be given several times.
    #[arg(long = "key", required = true, value_name = "PUBKEY")]
    keys: Vec<String>,
    /// The input document. White space between its values does not matter.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The output document.
    #[arg(long = "result", value_name = "FILE")]
    result: Option<PathBuf>,
    /// A file that the run left, as PATH, or NAME=PATH if it has another name here. May be given
    /// several times.
    #[arg(long = "file", value_name = "[NAME=]PATH")]
    files: Vec<String>,
    /// Write the signed text to this file, and its signature to FILE.minisig, for minisign.
    #[arg(long, value_name = "FILE")]
    extract: Option<PathBuf>,
}

pub(crate) async fn run(
    global: &Global,
    command: ReceiptCommand,
    output: Output,
) -> Result<ExitCode> {
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
            print_report(output, &report, &format!("the receipt is not genuine: {error}"))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let payload: Value = serde_json::from_str(&opened.payload)
        .context("the receipt is genuine, but its content cannot be read by this version")?;
    if let Some(path) = &args.extract {
        let write = |path: &Path, text: &str| {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(path, &opened.payload)?;
        write(&PathBuf::from(format!("{}.minisig", path.display())), &opened.signature)?;
    }
    let problems = compare(args, &payload)?;
    let report = json!({"verified": problems.is_empty(), "problems": problems, "receipt": payload});
    let text = match problems.is_empty() {
        true => format!("genuine, signed with {}\n{}", opened.verified.key_id, describe(&payload)),
        false => format!("genuine, but {}", problems.join("; ")),
    };
    print_report(output, &report, &text)?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares the given files with the receipt, and returns one sentence per mismatch.
fn compare(args: &VerifyArgs, payload: &Value) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (name, path, key) in
        [("input", &args.input, "input_sha256"), ("result", &args.result, "output_sha256")]
    {
        let Some(path) = path else { continue };
        if payload[key] != sha256(compact(&read(path)?).as_bytes()) {
            problems.push(format!("{} is not its {name}", path.display()));
        }
    }
    for file in &args.files {
        let (name, path) = file.split_once('=').unwrap_or((file, file));
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {path}"))?;
        let hash = sha256(&bytes);
        let files = payload["files"].as_array();
        if !files
            .into_iter()
            .flatten()
            .any(|entry| entry["path"] == name && entry["sha256"] == hash)
        {
            problems.push(format!("{path} is not the file {name} of this execution"));
        }
    }
    Ok(problems)
}

/// The main properties of the receipt, one per line.
fn describe(payload: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let skill = &payload["skill"];
    let properties = [
        ("execution", text(&payload["execution_id"])),
        ("tenant", text(&payload["tenant_id"])),
        (
            "skill",
            format!(
                "{}@{} {}",
                text(&skill["name"]),
                text(&skill["version"]),
                text(&skill["digest"])
            ),
        ),
        ("script", text(&skill["script"])),
        ("status", format!("{} ({})", text(&payload["status"]), text(&payload["outcome"]))),
        ("recorded", text(&payload["recorded_at"])),
    ];
    properties.map(|(name, value)| format!("{name:<10} {value}")).join("\n")
}

fn print_report(output: Output, report: &Value, text: &str) -> Result<()> {
    let line = if output.is_json() { report.to_string() } else { terminal::sanitize(text) };
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

/// Removes white space between JSON values, as the server does before it hashes a document. The
/// spelling of values and the order of keys are kept, so parsing and printing would not do.
fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut keep = |c: char| {
        let was_in_string = in_string;
        match c {
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
        was_in_string || !matches!(c, ' ' | '\t' | '\r' | '\n')
    };
    json.chars().filter(|c| keep(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_outside_of_strings_is_removed() {
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
