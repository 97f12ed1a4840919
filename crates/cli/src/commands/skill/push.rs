//! `skill push`.

use std::path::PathBuf;

use anyhow::Result;
use bytes::Bytes;
use client::{Client, ClientError, Pushed, Reply};

use super::local;
use crate::output::Output;
use crate::{progress, text};

/// Publishes one skill after the other and stops at the first that fails.
pub async fn run(client: &Client, paths: &[PathBuf], output: Output) -> Result<()> {
    for path in paths {
        let package = local::read_valid(path)?;
        local::print_findings(&package.findings);
        let what = format!("pushing {}", package.manifest.name);
        let pushed = upload(client, &what, package.archive).await?;
        if output.is_json() {
            output.line(&pushed.raw)?;
        } else {
            let digest = pushed.digest.as_deref().map(text::digest).unwrap_or_default();
            output.line(&text::harmless(&format!(
                "{}@{} {} {digest}",
                pushed.name,
                pushed.version,
                outcome(&pushed)
            )))?;
        }
    }
    Ok(())
}

/// Sends an archive with a bar on the terminal.
pub async fn upload(client: &Client, what: &str, archive: Bytes) -> Result<Reply<Pushed>, ClientError> {
    let bar = progress::bytes(what, archive.len() as u64);
    let moving = bar.clone();
    let pushed = client.push_skill(archive, move |sent| moving.set_position(sent)).await;
    bar.finish_and_clear();
    pushed
}

/// The server answers 200 when it already had exactly this content.
pub fn outcome(pushed: &Reply<Pushed>) -> &'static str {
    if pushed.http_status == 200 { "unchanged" } else { "published" }
}
