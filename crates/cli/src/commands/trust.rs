//! `skillbox trust`: trusted signing keys, revoked content, and the newest version of each skill.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use client::{Client, NewTrustedKey, NewestVersion, RevokedDigest, TrustedKey};
use serde_json::json;

use super::listing::{ListArgs, collect};
use super::skill::public_keys;
use crate::args::Global;
use crate::output::Output;
use crate::{connection, text};

#[derive(Subcommand)]
pub(crate) enum TrustCommand {
    /// Manage the keys that may sign skills.
    #[command(subcommand)]
    Key(TrustedKeyCommand),
    /// Manage revoked content, which cannot run.
    #[command(subcommand)]
    Digest(DigestCommand),
    /// Manage the versions that protect `latest` from a rollback.
    #[command(subcommand)]
    Version(VersionCommand),
}

#[derive(Subcommand)]
pub(crate) enum TrustedKeyCommand {
    /// Trust a key.
    Add {
        /// A minisign public key file, or its line of base64.
        #[arg(value_name = "PUBKEY")]
        key: String,
        /// A comment, such as the owner of the key.
        #[arg(long)]
        comment: Option<String>,
    },
    /// List keys, including revoked ones.
    List(ListArgs),
    /// Revoke a key permanently. None of its signatures is trusted any more.
    Revoke {
        /// The key's id, as `trust key list` prints it.
        id: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum DigestCommand {
    /// Revoke content. No skill with this digest can be published or run.
    Revoke {
        /// The digest, as `skill get` prints it.
        digest: String,
        /// The reason.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// List revoked content.
    List(ListArgs),
    /// Undo a revocation.
    Unrevoke {
        /// The digest.
        digest: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum VersionCommand {
    /// List the newest signed version of each skill.
    List(ListArgs),
    /// Forget the newest version of a skill, so that an older version can become the latest.
    Forget {
        /// The skill's name.
        name: String,
    },
}

pub(crate) async fn run(
    global: &Global,
    command: TrustCommand,
    output: Output,
) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        TrustCommand::Key(command) => key(&client, command, output).await?,
        TrustCommand::Digest(command) => digest(&client, command, output).await?,
        TrustCommand::Version(command) => version(&client, command, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn key(client: &Client, command: TrustedKeyCommand, output: Output) -> Result<()> {
    match command {
        TrustedKeyCommand::Add { key, comment } => {
            // Parsed here, so that a typo fails before any request is sent.
            for key in public_keys(&[key])? {
                let new = NewTrustedKey { public_key: key.to_string(), comment: comment.clone() };
                let added = client.trust_key(&new).await?;
                output.confirm(
                    &format!("trusting {}", added.key_id),
                    &serde_json::from_str(&added.raw)?,
                )?;
            }
        }
        TrustedKeyCommand::List(args) => {
            let rows = collect(args, async |page| client.trusted_keys(&page).await).await?;
            if output.is_json() {
                output.array(&rows.raw)?;
            } else {
                output.table(
                    &["key", "state", "added", "public key", "comment"],
                    rows.items.iter().map(key_row),
                )?;
            }
        }
        TrustedKeyCommand::Revoke { id } => {
            client.revoke_trusted_key(&id).await?;
            output.confirm(&format!("revoked {id}"), &json!({"key_id": id, "revoked": true}))?;
        }
    }
    Ok(())
}

async fn digest(client: &Client, command: DigestCommand, output: Output) -> Result<()> {
    match command {
        DigestCommand::Revoke { digest, reason } => {
            let revoked = client.revoke_digest(&digest, &reason).await?;
            output.confirm(&format!("revoked {digest}"), &serde_json::from_str(&revoked.raw)?)?;
        }
        DigestCommand::List(args) => {
            let rows = collect(args, async |page| client.revoked_digests(&page).await).await?;
            if output.is_json() {
                output.array(&rows.raw)?;
            } else {
                output
                    .table(&["digest", "revoked", "reason"], rows.items.iter().map(digest_row))?;
            }
        }
        DigestCommand::Unrevoke { digest } => {
            client.unrevoke_digest(&digest).await?;
            output.confirm(
                &format!("{digest} is no longer revoked"),
                &json!({"digest": digest, "revoked": false}),
            )?;
        }
    }
    Ok(())
}

async fn version(client: &Client, command: VersionCommand, output: Output) -> Result<()> {
    match command {
        VersionCommand::List(args) => {
            let rows = collect(args, async |page| client.newest_versions(&page).await).await?;
            if output.is_json() {
                output.array(&rows.raw)?;
            } else {
                output
                    .table(&["skill", "version", "accepted"], rows.items.iter().map(version_row))?;
            }
        }
        VersionCommand::Forget { name } => {
            client.forget_newest_version(&name).await?;
            output.confirm(
                &format!("{name} may go back to an older version"),
                &json!({"name": name, "forgotten": true}),
            )?;
        }
    }
    Ok(())
}

fn format_time(at: Option<&String>) -> String {
    text::or_dash(at.map(|at| text::time(at)).as_deref())
}

fn key_row(key: &TrustedKey) -> Vec<String> {
    let state = match &key.revoked_at {
        Some(at) => format!("revoked {}", text::time(at)),
        None => "trusted".to_owned(),
    };
    vec![
        key.key_id.clone(),
        state,
        format_time(key.added_at.as_ref()),
        key.public_key.clone(),
        key.comment.clone(),
    ]
}

fn digest_row(digest: &RevokedDigest) -> Vec<String> {
    vec![digest.digest.clone(), format_time(digest.revoked_at.as_ref()), digest.reason.clone()]
}

fn version_row(newest: &NewestVersion) -> Vec<String> {
    vec![newest.name.clone(), newest.version.clone(), format_time(newest.accepted_at.as_ref())]
}
