//! `skillbox skill`.

pub(crate) mod lint;
mod package;
mod pull;
pub(super) mod push;
mod review;
mod sarif;
mod scaffold;
mod signed_file;
mod signing;
mod verify;

pub(super) use verify::public_keys;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{Client, SkillDetail, SkillScript, SkillSignature, SkillSummary};
use serde_json::json;

use super::listing::{ListArgs, collect};
use crate::args::Global;
use crate::output::Output;
use crate::{connection, input, text};

#[derive(Subcommand)]
pub(crate) enum SkillCommand {
    /// Publish skills.
    Push {
        /// Skill directories or zip files.
        #[arg(required = true, value_name = "DIR|ZIP")]
        paths: Vec<PathBuf>,
        /// Upload only if the server does not have this version with exactly this content. Needs a key
        /// with the scope read.
        #[arg(long)]
        if_changed: bool,
    },
    /// Pack a directory into the zip that the server would store.
    Package(package::PackageArgs),
    /// Check skills. Needs no server.
    Lint(lint::LintArgs),
    /// List the newest version of every skill.
    List(ListArgs),
    /// Show a skill and its instructions.
    Get(NameArgs),
    /// Delete one version of a skill. Its executions stay.
    Delete(NameArgs),
    /// List the versions of a skill.
    Versions {
        /// The skill's name.
        name: String,
    },
    /// Approve a skill that is held for review.
    Approve(NameArgs),
    /// Reject a skill, so that it cannot run.
    Reject(NameArgs),
    /// Download a skill into a directory.
    Pull(pull::PullArgs),
    /// Create a new skill from a template.
    New(scaffold::NewArgs),
    /// Create a key pair for signing skills, in the format of minisign.
    Keygen(signing::KeygenArgs),
    /// Sign a skill: writes SKILL.md.minisig into its directory. With --file, sign any file.
    Sign(signing::SignArgs),
    /// Print the statement that a skill signature covers, to sign or verify it with minisign.
    Statement(signing::StatementArgs),
    /// Verify a skill's signature. Exit code 1 means that it is not trusted.
    Verify(verify::VerifyArgs),
}

#[derive(Args)]
pub(crate) struct NameArgs {
    /// The skill's name, or name@version.
    name: String,
}

pub(crate) async fn run(
    global: &Global,
    command: SkillCommand,
    output: Output,
) -> Result<ExitCode> {
    // Opened by each command that needs a server, so that the others work without a key.
    let connect = || connection::open(global);
    match command {
        SkillCommand::Package(args) => return package::run(&args, output),
        SkillCommand::Lint(args) => return lint::run(&args, output),
        SkillCommand::New(args) => return scaffold::run(&args, output),
        SkillCommand::Keygen(args) => return signing::keygen(&args, output),
        SkillCommand::Sign(args) => return signing::sign(&args, output),
        SkillCommand::Statement(args) => return signing::statement(&args, output),
        SkillCommand::Verify(args) => return verify::run(global, &args, output).await,
        SkillCommand::Push { paths, if_changed } => {
            push::run(&connect()?, &paths, if_changed, output).await?;
        }
        SkillCommand::List(args) => list(&connect()?, args, output).await?,
        SkillCommand::Get(args) => get(&connect()?, &args, output).await?,
        SkillCommand::Delete(args) => delete(&connect()?, &args, output).await?,
        SkillCommand::Versions { name } => versions(&connect()?, &name, output).await?,
        SkillCommand::Approve(args) => review::approve(&connect()?, &args, output).await?,
        SkillCommand::Reject(args) => review::reject(&connect()?, &args, output).await?,
        SkillCommand::Pull(args) => pull::run(&connect()?, &args, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &Client, args: ListArgs, output: Output) -> Result<()> {
    let rows = collect(args, async |page| client.skills(&page).await).await?;
    if output.is_json() {
        output.array(&rows.raw)?;
    } else {
        let header = ["name", "version", "lang", "status", "description"];
        output.table(&header, rows.items.iter().map(row))?;
    }
    Ok(())
}

async fn versions(client: &Client, name: &str, output: Output) -> Result<()> {
    let versions = client.skill_versions(name).await?;
    if output.is_json() {
        output.array(&versions.raw)?;
    } else {
        let header = ["version", "status", "digest", "updated"];
        output.table(&header, versions.items.iter().map(version_row))?;
    }
    Ok(())
}

async fn get(client: &Client, args: &NameArgs, output: Output) -> Result<()> {
    let (name, version) = input::name_and_version(&args.name);
    let skill = client.skill(name, version).await?;
    if output.is_json() {
        output.line(&skill.raw)?;
        return Ok(());
    }
    output.table(&[], details(&skill))?;
    if !skill.instructions.is_empty() {
        output.line("")?;
        output.untrusted(&format!("{}\n", skill.instructions.trim()))?;
    }
    Ok(())
}

/// Deletes exactly one version. A name alone means the newest version; the message says which one
/// that was.
async fn delete(client: &Client, args: &NameArgs, output: Output) -> Result<()> {
    let (name, version) = input::name_and_version(&args.name);
    let version = match version {
        "latest" => client.skill(name, version).await?.version.clone(),
        exact => exact.to_owned(),
    };
    client.delete_skill(name, &version).await?;
    output.confirm(
        &format!("deleted {name}@{version}"),
        &json!({"name": name, "version": version, "deleted": true}),
    )?;
    Ok(())
}

fn row(skill: &SkillSummary) -> Vec<String> {
    vec![
        skill.name.clone(),
        skill.version.clone(),
        text::or_dash(skill.lang.as_deref()),
        text::or_dash(skill.status.as_deref()),
        text::brief(&skill.description, 80),
    ]
}

fn version_row(skill: &SkillSummary) -> Vec<String> {
    let when = skill.updated_at.as_deref().or(skill.created_at.as_deref()).map(text::time);
    vec![
        skill.version.clone(),
        text::or_dash(skill.status.as_deref()),
        text::or_dash(skill.digest.as_deref().map(text::digest).as_deref()),
        text::or_dash(when.as_deref()),
    ]
}

/// The path of a script and its description.
fn format_script(script: &SkillScript) -> String {
    match &script.description {
        Some(description) => format!("{}  {}", script.path, text::brief(description, 80)),
        None => script.path.clone(),
    }
}

/// `406E4FAC70A6468A, trusted, 2026-11-16 19:00:00`
fn format_signature(signature: &SkillSignature) -> String {
    let trust = if signature.trusted {
        "trusted"
    } else {
        signature.problem.as_deref().unwrap_or("not trusted")
    };
    let when = signature.signed_at.as_deref().map(|at| format!(", {}", text::time(at)));
    format!("{}, {trust}{}", signature.key_id, when.unwrap_or_default())
}

fn details(skill: &SkillDetail) -> Vec<Vec<String>> {
    let scripts: Vec<String> = skill.scripts.iter().map(format_script).collect();
    let properties = [
        ("name", Some(skill.name.clone())),
        ("version", Some(skill.version.clone())),
        ("description", Some(skill.description.clone())),
        ("lang", skill.lang.clone()),
        ("mode", skill.mode.clone()),
        ("image", skill.image.clone()),
        ("timeout", skill.timeout.clone()),
        ("memory", skill.resources.memory.clone()),
        ("cpu", skill.resources.cpu.clone()),
        ("entrypoint", skill.entrypoint.clone()),
        ("scripts", (!scripts.is_empty()).then(|| scripts.join("\n"))),
        ("input schema", skill.input_schema.as_ref().map(|schema| schema.to_string())),
        ("output schema", skill.output_schema.as_ref().map(|schema| schema.to_string())),
        ("digest", skill.digest.clone()),
        ("signature", skill.signature.as_ref().map(format_signature)),
        ("status", skill.status.clone()),
        (
            "findings",
            (!skill.findings.is_empty()).then(|| {
                skill.findings.iter().map(review::format_finding).collect::<Vec<_>>().join("\n")
            }),
        ),
    ];
    properties.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}
