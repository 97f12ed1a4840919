//! `skillbox trust`: whose signatures count, what must not run, and how far versions have come.

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
pub enum TrustCommand {
    /// Keys that may sign skills.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Content that must not run.
    #[command(subcommand)]
    Digest(DigestCommand),
    /// Versions that `latest` does not go back behind.
    #[command(subcommand)]
    Version(VersionCommand),
}

#[derive(Subcommand)]
pub enum KeyCommand {
    /// Trust a key.
    Add {
        /// A minisign public key file, or its line of base64.
        #[arg(value_name = "PUBKEY")]
        key: String,
        /// Whose key it is.
        #[arg(long)]
        comment: Option<String>,
    },
    /// List keys, the revoked ones too.
    List(ListArgs),
    /// Revoke a key, for good: nothing it ever signed counts any more.
    Revoke {
        /// The key's id, as `trust key list` prints it.
        id: String,
    },
}

#[derive(Subcommand)]
pub enum DigestCommand {
    /// Revoke content: no skill with this digest is taken in or run.
    Revoke {
        /// The digest, as `skill get` prints it.
        digest: String,
        /// Why.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// List revoked content.
    List(ListArgs),
    /// Take a revocation back.
    Unrevoke {
        /// The digest.
        digest: String,
    },
}

#[derive(Subcommand)]
pub enum VersionCommand {
    /// List the newest signed version of each skill.
    List(ListArgs),
    /// Forget how far a skill has come, so that an older version can be the latest again.
    Forget {
        /// The skill's name.
        name: String,
    },
}

pub async fn run(global: &Global, command: TrustCommand, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        TrustCommand::Key(command) => key(&client, command, output).await?,
        TrustCommand::Digest(command) => digest(&client, command, output).await?,
        TrustCommand::Version(command) => version(&client, command, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn key(client: &Client, command: KeyCommand, output: Output) -> Result<()> {
    match command {
        KeyCommand::Add { key, comment } => {
            // Read here, so that a typo does not cost a call.
            for key in public_keys(&[key])? {
                let new = NewTrustedKey { public_key: key.to_string(), comment: comment.clone() };
                let added = client.trust_key(&new).await?;
                output.done(
                    &format!("trusting {}", added.key_id),
                    &serde_json::from_str(&added.raw)?,
                )?;
            }
        }
        KeyCommand::List(args) => {
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
        KeyCommand::Revoke { id } => {
            client.revoke_trusted_key(&id).await?;
            output.done(&format!("revoked {id}"), &json!({"key_id": id, "revoked": true}))?;
        }
    }
    Ok(())
}

async fn digest(client: &Client, command: DigestCommand, output: Output) -> Result<()> {
    match command {
        DigestCommand::Revoke { digest, reason } => {
            let revoked = client.revoke_digest(&digest, &reason).await?;
            output.done(&format!("revoked {digest}"), &serde_json::from_str(&revoked.raw)?)?;
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
            output.done(
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
            output
                .done(&format!("{name} may go back"), &json!({"name": name, "forgotten": true}))?;
        }
    }
    Ok(())
}

fn when(at: Option<&String>) -> String {
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
        when(key.added_at.as_ref()),
        key.public_key.clone(),
        key.comment.clone(),
    ]
}

fn digest_row(digest: &RevokedDigest) -> Vec<String> {
    vec![digest.digest.clone(), when(digest.revoked_at.as_ref()), digest.reason.clone()]
}

fn version_row(newest: &NewestVersion) -> Vec<String> {
    vec![newest.name.clone(), newest.version.clone(), when(newest.accepted_at.as_ref())]
}
