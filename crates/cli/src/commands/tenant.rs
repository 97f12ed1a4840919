//! `skillbox tenant`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{NewTenant, Tenant, TenantPolicy};
use serde_json::json;

use super::listing::{ListArgs, collect};
use crate::args::Global;
use crate::output::Output;
use crate::{connection, text};

#[derive(Subcommand)]
pub enum TenantCommand {
    /// Make a tenant.
    Create(CreateArgs),
    /// Change what a tenant may do; what is not named stays as it is.
    Update(UpdateArgs),
    /// List tenants.
    List(ListArgs),
    /// Show one tenant.
    Get {
        /// The tenant's id.
        id: String,
    },
    /// Remove a tenant that holds nothing any more.
    Delete {
        /// The tenant's id.
        id: String,
    },
}

#[derive(Args)]
pub struct CreateArgs {
    /// Letters, digits, dots, dashes and underscores.
    id: String,
    /// Refuse to replace a version of a skill that is already published.
    #[arg(long)]
    immutable: bool,
    /// How many executions may run at the same time.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,
}

#[derive(Args)]
pub struct UpdateArgs {
    /// The tenant's id.
    id: String,
    /// Whether a published version of a skill may be replaced.
    #[arg(long, value_parser = ["mutable", "immutable"])]
    versions: Option<String>,
    /// How many executions may run at the same time.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,
}

pub async fn run(global: &Global, command: TenantCommand, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        TenantCommand::Create(args) => {
            let versions = args.immutable.then(|| "immutable".to_owned());
            let policy = TenantPolicy { versions, max_concurrent: args.max_concurrent };
            let tenant = client.create_tenant(&NewTenant { id: args.id, policy: Some(policy) }).await?;
            show(output, &tenant.raw, &tenant)?;
        }
        TenantCommand::Update(args) => {
            let now = client.tenant(&args.id).await?;
            let versions = args.versions.or_else(|| now.policy.versions.clone());
            let max_concurrent = args.max_concurrent.or(now.policy.max_concurrent);
            let tenant = client.update_tenant(&args.id, &TenantPolicy { versions, max_concurrent }).await?;
            show(output, &tenant.raw, &tenant)?;
        }
        TenantCommand::List(args) => {
            let rows = collect(args, async |page| client.tenants(&page).await).await?;
            if output.is_json() {
                output.array(&rows.raw)?;
            } else {
                output.table(HEADER, rows.items.iter().map(row))?;
            }
        }
        TenantCommand::Get { id } => {
            let tenant = client.tenant(&id).await?;
            show(output, &tenant.raw, &tenant)?;
        }
        TenantCommand::Delete { id } => {
            client.delete_tenant(&id).await?;
            output.done(&format!("deleted tenant {id}"), &json!({"id": id, "deleted": true}))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

const HEADER: &[&str] = &["tenant", "versions", "max concurrent", "created"];

fn show(output: Output, raw: &str, tenant: &Tenant) -> std::io::Result<()> {
    if output.is_json() { output.line(raw) } else { output.table(HEADER, [row(tenant)]) }
}

fn row(tenant: &Tenant) -> Vec<String> {
    vec![
        tenant.id.clone(),
        text::or_dash(tenant.policy.versions.as_deref()),
        text::or_dash(tenant.policy.max_concurrent.map(|max| max.to_string()).as_deref()),
        text::or_dash(tenant.created_at.as_deref().map(text::time).as_deref()),
    ]
}
