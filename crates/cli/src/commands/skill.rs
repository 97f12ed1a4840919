//! `skillbox skill`.

pub(super) mod local;
mod pull;
pub(super) mod push;
mod scaffold;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{Client, Skill, SkillDetail};
use serde_json::json;

use super::listing::{ListArgs, collect};
use crate::args::Global;
use crate::output::Output;
use crate::{connection, input, text};

#[derive(Subcommand)]
pub enum SkillCommand {
    /// Publish skills.
    Push {
        /// Skill directories or zip files.
        #[arg(required = true, value_name = "DIR|ZIP")]
        paths: Vec<PathBuf>,
    },
    /// Pack a directory into the zip the server would store.
    Package(local::PackageArgs),
    /// Check a skill without a server.
    Lint(local::LintArgs),
    /// List the newest version of every skill.
    List(ListArgs),
    /// Show a skill and its instructions.
    Get(NameArgs),
    /// Remove one version of a skill; its executions stay.
    Delete(NameArgs),
    /// List the versions of a skill.
    Versions {
        /// The skill's name.
        name: String,
    },
    /// Download a skill into a directory.
    Pull(pull::PullArgs),
    /// Make a new skill to start from.
    New(scaffold::NewArgs),
}

#[derive(Args)]
pub struct NameArgs {
    /// The skill's name, or name@version.
    name: String,
}

pub async fn run(global: &Global, command: SkillCommand, output: Output) -> Result<ExitCode> {
    match command {
        // These three need no server.
        SkillCommand::Package(args) => return local::package(&args, output),
        SkillCommand::Lint(args) => return local::lint(&args, output),
        SkillCommand::New(args) => return scaffold::run(&args, output),
        _ => {}
    }
    let client = connection::open(global)?;
    match command {
        SkillCommand::Push { paths } => push::run(&client, &paths, output).await?,
        SkillCommand::List(args) => {
            let rows = collect(args, async |page| client.skills(&page).await).await?;
            if output.is_json() {
                output.array(&rows.raw)?;
            } else {
                output.table(&["name", "version", "lang", "description"], rows.items.iter().map(row))?;
            }
        }
        SkillCommand::Get(args) => get(&client, &args, output).await?,
        SkillCommand::Delete(args) => delete(&client, &args, output).await?,
        SkillCommand::Versions { name } => {
            let versions = client.skill_versions(&name).await?;
            if output.is_json() {
                output.array(&versions.raw)?;
            } else {
                output.table(&["version", "digest", "updated"], versions.items.iter().map(version_row))?;
            }
        }
        SkillCommand::Pull(args) => pull::run(&client, &args, output).await?,
        SkillCommand::Package(_) | SkillCommand::Lint(_) | SkillCommand::New(_) => {}
    }
    Ok(ExitCode::SUCCESS)
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

/// Removes exactly one version: a name alone means the newest, and the note says which that was.
async fn delete(client: &Client, args: &NameArgs, output: Output) -> Result<()> {
    let (name, version) = input::name_and_version(&args.name);
    let version = match version {
        "latest" => client.skill(name, version).await?.version.clone(),
        exact => exact.to_owned(),
    };
    client.delete_skill(name, &version).await?;
    output.done(&format!("deleted {name}@{version}"), &json!({"name": name, "version": version, "deleted": true}))?;
    Ok(())
}

fn row(skill: &Skill) -> Vec<String> {
    vec![
        skill.name.clone(),
        skill.version.clone(),
        text::or_dash(skill.lang.as_deref()),
        text::brief(&skill.description, 80),
    ]
}

fn version_row(skill: &Skill) -> Vec<String> {
    let when = skill.updated_at.as_deref().or(skill.created_at.as_deref()).map(text::time);
    vec![
        skill.version.clone(),
        text::or_dash(skill.digest.as_deref().map(text::digest).as_deref()),
        text::or_dash(when.as_deref()),
    ]
}

fn details(skill: &SkillDetail) -> Vec<Vec<String>> {
    let scripts: Vec<&str> = skill.scripts.iter().map(|script| script.path.as_str()).collect();
    let facts = [
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
        ("scripts", (!scripts.is_empty()).then(|| scripts.join(", "))),
        ("input schema", skill.input_schema.as_ref().map(|schema| schema.to_string())),
        ("output schema", skill.output_schema.as_ref().map(|schema| schema.to_string())),
        ("digest", skill.digest.clone()),
    ];
    facts.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}
