//! `skill push`.

use std::path::PathBuf;

use anyhow::Result;
use bytes::Bytes;
use client::{Client, ClientError, PublishedSkill, Reply};
use serde_json::json;
use skill::Package;

use super::lint;
use crate::output::Output;
use crate::{progress, skill_reader, terminal, text};

/// Publishes the skills one by one, and stops at the first failure.
pub(crate) async fn run(
    client: &Client,
    paths: &[PathBuf],
    if_changed: bool,
    output: Output,
) -> Result<()> {
    for path in paths {
        let package = skill_reader::read_valid(path)?;
        lint::print_findings(&package.findings);
        if if_changed && is_published(client, &package).await? {
            let Package { manifest, digest, .. } = &package;
            let line = format!(
                "{}@{} unchanged {}",
                manifest.name,
                manifest.version,
                text::digest(digest)
            );
            let report = json!({ "name": manifest.name, "version": manifest.version, "digest": digest, "unchanged": true });
            output.line(&if output.is_json() { report.to_string() } else { line })?;
            continue;
        }
        let label = format!("pushing {}", package.manifest.name);
        let pushed = upload(client, &label, package.to_upload_archive()?).await?;
        if output.is_json() {
            output.line(&pushed.raw)?;
        } else {
            let digest = pushed.digest.as_deref().map(text::digest).unwrap_or_default();
            output.line(&terminal::sanitize(&format!(
                "{}@{} {} {digest}",
                pushed.name,
                pushed.version,
                outcome(&pushed)
            )))?;
        }
    }
    Ok(())
}

/// Whether the server has this version with this content.
async fn is_published(client: &Client, package: &Package) -> Result<bool, ClientError> {
    match client.skill(&package.manifest.name, &package.manifest.version).await {
        Ok(skill) => Ok(skill.digest.as_ref() == Some(&package.digest)),
        Err(ClientError::Api { status: 404, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Uploads an archive with a progress bar.
pub(crate) async fn upload(
    client: &Client,
    label: &str,
    archive: Bytes,
) -> Result<Reply<PublishedSkill>, ClientError> {
    let bar = progress::byte_bar(label, archive.len() as u64);
    let position = bar.clone();
    let pushed = client.publish_skill(archive, move |sent| position.set_position(sent)).await;
    bar.finish_and_clear();
    pushed
}

/// The result of an upload as text. The server responds with 200 if it already had exactly this
/// content.
pub(crate) fn outcome(pushed: &Reply<PublishedSkill>) -> &'static str {
    match pushed.status.as_deref() {
        Some("review") => "held for review",
        _ if pushed.http_status == 200 => "unchanged",
        _ => "published",
    }
}
