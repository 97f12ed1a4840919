//! `skill approve` and `skill reject`: decisions on skills that are held for review.

use anyhow::{Context, Result, bail};
use client::{Client, SkillDetail, SkillFinding};

use super::NameArgs;
use crate::output::{Output, note};
use crate::{input, terminal};

pub(super) async fn approve(client: &Client, args: &NameArgs, output: Output) -> Result<()> {
    let skill = fetch_reviewed_version(client, args).await?;
    let reviewed = client.approve_skill(&skill.name, &skill.version, digest(&skill)?).await?;
    confirm(
        output,
        &reviewed.raw,
        &format!("{}@{} is approved and can run", skill.name, skill.version),
    )
}

pub(super) async fn reject(client: &Client, args: &NameArgs, output: Output) -> Result<()> {
    let skill = fetch_reviewed_version(client, args).await?;
    let reviewed = client.reject_skill(&skill.name, &skill.version, digest(&skill)?).await?;
    confirm(
        output,
        &reviewed.raw,
        &format!("{}@{} is rejected and cannot run", skill.name, skill.version),
    )
}

/// Fetches the version and prints its findings. The decision is then sent with the digest of this
/// content, so that a version that was replaced in between cannot be approved unseen.
async fn fetch_reviewed_version(client: &Client, args: &NameArgs) -> Result<SkillDetail> {
    let (name, version) = input::name_and_version(&args.name);
    if version == "latest" {
        bail!(
            "a version is required, such as {name}@1.0.0; `skillbox skill versions {name}` lists them"
        );
    }
    let skill = client.skill(name, version).await?;
    for finding in &skill.findings {
        note(&format_finding(finding));
    }
    Ok((*skill).clone())
}

fn digest(skill: &SkillDetail) -> Result<&str> {
    skill.digest.as_deref().context("the server did not return the skill's digest")
}

fn confirm(output: Output, raw: &str, message: &str) -> Result<()> {
    if output.is_json() {
        output.line(raw)?
    } else {
        output.line(&terminal::sanitize(message))?
    }
    Ok(())
}

/// `error[miner] main.sh:2: this mines cryptocurrency`
pub(super) fn format_finding(finding: &SkillFinding) -> String {
    let location = match (&finding.path, finding.line) {
        (Some(path), Some(line)) => format!(" {path}:{line}:"),
        (Some(path), None) => format!(" {path}:"),
        (None, _) => String::new(),
    };
    terminal::sanitize(&format!(
        "{}[{}]{location} {}",
        finding.severity, finding.code, finding.message
    ))
}
