//! `skillbox serve --demo`: publishes a directory of skills through the API, runs one, and prints
//! the commands to repeat it.
//!
//! It is an ordinary API client: all of its calls use HTTP.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use client::{Client, Execution, ExecutionStatus, RunRequest};
use serde::Deserialize;
use serde_json::value::RawValue;
use server::Bound;
use skill::Package;

use super::run::summary;
use super::serve;
use super::skill::push;
use crate::output::{Output, note, write_untrusted_note};
use crate::{connection, progress, skill_reader, text};

/// The preferred skill for the demo, because it has JSON input and JSON and file output.
const PREFERRED_SKILL: &str = "data-analysis";

/// The test case in a skill that contains the sample input.
const SAMPLE_PATH: &str = "tests/sample.json";

pub(super) struct Demo {
    client: Client,
    key: String,
    output: Output,
}

/// The part of a skill's own test case with the request.
#[derive(Deserialize)]
struct SampleCase {
    request: SampleRequest,
}

#[derive(Deserialize)]
struct SampleRequest {
    input: Option<Box<RawValue>>,
}

impl Demo {
    pub(super) fn new(bound: &Bound, key: String, output: Output) -> Result<Self> {
        let client = connection::with_key(&serve::local_url(bound), Some(key.clone()), None)?;
        Ok(Self { client, key, output })
    }

    pub(super) async fn run(&self, directory: &Path) -> Result<()> {
        let names = self.publish_all(&skills_in(directory)?).await?;
        let name = names.iter().find(|(name, _)| name == PREFERRED_SKILL).or(names.first());
        let (name, sample) =
            name.with_context(|| format!("no skill in {}", directory.display()))?;
        let request = RunRequest {
            skill: name.clone(),
            input: Some(sample.clone()),
            ..RunRequest::default()
        };
        note(&format!("\nrunning {name}"));
        let spinner = progress::spinner(name);
        let ran = self.client.run(&request).await;
        drop(spinner);
        let ran = ran?;
        self.print(&ran, &ran.raw)?;
        note(&format!("\nrepeat it with\n  {}", self.curl(&request)?));
        note(&format!(
            "or, on this machine, with\n  {} -s {} run {name}\n",
            program(),
            self.client.base()
        ));
        if ran.status != ExecutionStatus::Success {
            bail!(
                "the run of {name} ended with status {}; run `skillbox doctor` to check this machine",
                ran.status.as_str()
            );
        }
        Ok(())
    }

    /// Publishes each skill; returns their names with their sample inputs.
    async fn publish_all(&self, paths: &[PathBuf]) -> Result<Vec<(String, Box<RawValue>)>> {
        note(&format!("\npublishing {}", text::count(paths.len(), "skill")));
        let mut names = Vec::new();
        for path in paths {
            let package = skill_reader::read_valid(path)?;
            let sample =
                sample_input(&package).with_context(|| format!("cannot use {}", path.display()))?;
            let pushed =
                push::upload(&self.client, &package.manifest.name, package.archive).await?;
            let digest = pushed.digest.as_deref().map(text::digest).unwrap_or_default();
            note(&format!(
                "  {:<20} {:<8} {:<10} {digest}",
                pushed.name,
                pushed.version,
                push::outcome(&pushed)
            ));
            names.push((pushed.name.clone(), sample));
        }
        Ok(names)
    }

    fn print(&self, ran: &Execution, raw: &str) -> Result<()> {
        if self.output.is_json() {
            self.output.line(raw)?;
            return Ok(());
        }
        write_untrusted_note(ran.logs.as_deref().unwrap_or_default());
        if let Some(document) = &ran.output {
            self.output.line(&serde_json::to_string_pretty(document)?)?;
        }
        note(&summary(ran));
        if let Some(url) = &ran.files_url {
            note(&format!("all files: {url}"));
        }
        Ok(())
    }

    /// The same call as a curl command, with key and port.
    fn curl(&self, request: &RunRequest) -> Result<String> {
        let words = [
            "curl".to_owned(),
            "-sS".to_owned(),
            "-H".to_owned(),
            format!("Authorization: Bearer {}", self.key),
            "-H".to_owned(),
            "Content-Type: application/json".to_owned(),
            "-d".to_owned(),
            serde_json::to_string(request)?,
            format!("{}v1/executions", self.client.base()),
        ];
        Ok(words.iter().map(|word| text::shell_word(word)).collect::<Vec<_>>().join(" "))
    }
}

/// This program as it was called, because a fresh build is not on the search path.
fn program() -> String {
    std::env::args().next().map_or_else(|| "skillbox".to_owned(), |name| text::shell_word(&name))
}

/// The directories with a `SKILL.md`, sorted by name.
fn skills_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        if path.join("SKILL.md").is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        bail!("{} contains no directory with a SKILL.md", directory.display());
    }
    paths.sort();
    Ok(paths)
}

/// The input of the skill's sample test case, or an empty object. It is read from the package, so that
/// it belongs to the published content.
fn sample_input(package: &Package) -> Result<Box<RawValue>> {
    let case = match package.files.iter().find(|file| file.path == SAMPLE_PATH) {
        Some(file) => {
            let case = serde_json::from_slice::<SampleCase>(&file.bytes);
            case.with_context(|| format!("{SAMPLE_PATH} is not a test case"))?.request.input
        }
        None => None,
    };
    Ok(case.unwrap_or_else(|| {
        RawValue::from_string("{}".to_owned()).expect("an empty object is JSON")
    }))
}
