//! `skill approve` and `skill reject`: somebody's word on what the scanner held.

use anyhow::{Context, Result, bail};
use client::{Client, SkillDetail, SkillFinding};

use super::NameArgs;
use crate::output::{Output, note};
use crate::{input, terminal};

pub async fn approve(client: &Client, args: &NameArgs, output: Output) -> Result<()> {
    let skill = look(client, args).await?;
    let reviewed = client.approve_skill(&skill.name, &skill.version, digest(&skill)?).await?;
    done(
        output,
        &reviewed.raw,
        &format!("{}@{} is approved and runs from now on", skill.name, skill.version),
    )
}

pub async fn reject(client: &Client, args: &NameArgs, output: Output) -> Result<()> {
    let skill = look(client, args).await?;
    let reviewed = client.reject_skill(&skill.name, &skill.version, digest(&skill)?).await?;
    done(
        output,
        &reviewed.raw,
        &format!("{}@{} is rejected and does not run", skill.name, skill.version),
    )
}

/// The version that is meant, with its findings printed: the verdict is on exactly what was shown.
async fn look(client: &Client, args: &NameArgs) -> Result<SkillDetail> {
    let (name, version) = input::name_and_version(&args.name);
    if version == "latest" {
        bail!("say which version, as in {name}@1.0.0; `skillbox skill versions {name}` lists them");
    }
    let skill = client.skill(name, version).await?;
    for finding in &skill.findings {
        note(&words(finding));
    }
    Ok((*skill).clone())
}

fn digest(skill: &SkillDetail) -> Result<&str> {
    skill.digest.as_deref().context("the server does not say what the skill's content is")
}

fn done(output: Output, raw: &str, sentence: &str) -> Result<()> {
    if output.is_json() {
        output.line(raw)?
    } else {
        output.line(&terminal::sanitize(sentence))?
    }
    Ok(())
}

/// `error[miner] main.sh:2: this mines cryptocurrency`
pub fn words(finding: &SkillFinding) -> String {
    let place = match (&finding.path, finding.line) {
        (Some(path), Some(line)) => format!(" {path}:{line}:"),
        (Some(path), None) => format!(" {path}:"),
        (None, _) => String::new(),
    };
    terminal::sanitize(&format!(
        "{}[{}]{place} {}",
        finding.severity, finding.code, finding.message
    ))
}
