//! `skillbox key`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use client::{ApiKey, NewApiKey};
use serde_json::json;

use super::listing::{ListArgs, collect};
use crate::args::Global;
use crate::output::{Output, note};
use crate::{connection, text};

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key. It is printed only once.
    Create(CreateArgs),
    /// List keys, without their secrets.
    List(ListArgs),
    /// Revoke a key. It stops working at once.
    Revoke {
        /// The key's id, as `key list` prints it.
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Name of the key, such as its purpose.
    #[arg(long, default_value = "cli")]
    name: String,
    /// Scope of the key. May be given several times or separated by commas.
    #[arg(
        long = "scope",
        value_enum,
        value_delimiter = ',',
        default_value = "execute,read",
        value_name = "SCOPE"
    )]
    scopes: Vec<ScopeArg>,
    /// Let the key act for any tenant.
    #[arg(long)]
    service: bool,
    /// Restrict the key to this skill. May be given several times.
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,
    /// Expiry time of the key, such as 2027-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScopeArg {
    Execute,
    Read,
    Publish,
    Admin,
}

impl ScopeArg {
    fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Admin => "admin",
        }
    }
}

pub(crate) async fn run(global: &Global, command: KeyCommand, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        KeyCommand::Create(args) => {
            let key = client.create_key(&new_key(args)).await?;
            if output.is_json() {
                output.line(&key.raw)?;
            } else {
                note(&format!(
                    "key {} ({}); store it now, it is not printed again:",
                    key.id,
                    key.scopes.join(", ")
                ));
                output.line(key.key.as_deref().unwrap_or_default())?;
            }
        }
        KeyCommand::List(args) => {
            let rows = collect(args, async |page| client.keys(&page).await).await?;
            if output.is_json() {
                output.array(&rows.raw)?;
            } else {
                output.table(
                    &["id", "name", "key", "scopes", "state", "created"],
                    rows.items.iter().map(row),
                )?;
            }
        }
        KeyCommand::Revoke { id } => {
            client.revoke_key(&id).await?;
            output.confirm(&format!("revoked key {id}"), &json!({"id": id, "revoked": true}))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn new_key(args: CreateArgs) -> NewApiKey {
    NewApiKey {
        name: args.name,
        scopes: args.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        service: args.service,
        skills: (!args.skills.is_empty()).then_some(args.skills),
        expires_at: args.expires_at,
    }
}

fn row(key: &ApiKey) -> Vec<String> {
    let state = match (&key.revoked_at, &key.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(expires)) => format!("until {}", text::time(expires)),
        (None, None) => "valid".to_owned(),
    };
    let service = if key.service { ",service" } else { "" };
    vec![
        key.id.to_string(),
        key.name.clone(),
        format!("{}…", key.prefix),
        format!("{}{service}", key.scopes.join(",")),
        state,
        text::or_dash(key.created_at.as_deref().map(text::time).as_deref()),
    ]
}
