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
pub(crate) enum TenantCommand {
    /// Create a tenant.
    Create(CreateArgs),
    /// Change the policy of a tenant. Settings without a flag stay as they are.
    Update(UpdateArgs),
    /// List tenants.
    List(ListArgs),
    /// Show one tenant.
    Get {
        /// The tenant's id.
        id: String,
    },
    /// Show how many bytes the tenant stores, and its limit.
    Usage,
    /// Delete an empty tenant.
    Delete {
        /// The tenant's id.
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// The new tenant's id: letters, digits, dots, dashes and underscores.
    id: String,
    /// Do not allow published versions of skills to be replaced.
    #[arg(long)]
    immutable: bool,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Args)]
pub(crate) struct UpdateArgs {
    /// The tenant's id.
    id: String,
    /// Whether a published version of a skill may be replaced.
    #[arg(long, value_parser = ["mutable", "immutable"])]
    versions: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Flags for the policy of a tenant.
#[derive(Args)]
struct PolicyArgs {
    /// What to do with an upload in which the scanner finds an error.
    #[arg(long, value_parser = ["off", "report", "review", "block"])]
    scan: Option<String>,
    /// Maximum number of executions that run at the same time.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,
    /// Maximum number of queued executions.
    #[arg(long, value_name = "N")]
    max_queued: Option<u32>,
    /// Maximum number of executions that may be requested per minute.
    #[arg(long, value_name = "N")]
    rate_per_minute: Option<u32>,
    /// Maximum size of uploaded files.
    #[arg(long, value_name = "BYTES")]
    max_file_bytes: Option<u64>,
    /// Maximum size of everything stored: skills, files, artifacts, inputs, logs and outputs.
    #[arg(long, value_name = "BYTES")]
    max_stored_bytes: Option<u64>,
    /// Share of the workers, relative to other tenants with queued executions [default: 1]
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// What to do with skills without a trusted signature.
    #[arg(long, value_parser = ["off", "warn", "require"])]
    signatures: Option<String>,
}

impl PolicyArgs {
    /// The current policy with the flags that were given.
    fn merge_into(&self, versions: Option<String>, current: &TenantPolicy) -> TenantPolicy {
        TenantPolicy {
            versions: versions.or_else(|| current.versions.clone()),
            scan: self.scan.clone().or_else(|| current.scan.clone()),
            max_concurrent: self.max_concurrent.or(current.max_concurrent),
            max_queued: self.max_queued.or(current.max_queued),
            rate_per_minute: self.rate_per_minute.or(current.rate_per_minute),
            max_file_bytes: self.max_file_bytes.or(current.max_file_bytes),
            max_stored_bytes: self.max_stored_bytes.or(current.max_stored_bytes),
            weight: self.weight.or(current.weight),
            signatures: self.signatures.clone().or_else(|| current.signatures.clone()),
        }
    }
}

pub(crate) async fn run(
    global: &Global,
    command: TenantCommand,
    output: Output,
) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        TenantCommand::Create(args) => {
            let versions = args.immutable.then(|| "immutable".to_owned());
            let policy = args.policy.merge_into(versions, &TenantPolicy::default());
            let tenant =
                client.create_tenant(&NewTenant { id: args.id, policy: Some(policy) }).await?;
            print_tenant(output, &tenant.raw, &tenant)?;
        }
        TenantCommand::Update(args) => {
            let current = client.tenant(&args.id).await?;
            let policy = args.policy.merge_into(args.versions, &current.policy);
            let tenant = client.update_tenant(&args.id, &policy).await?;
            print_tenant(output, &tenant.raw, &tenant)?;
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
            print_tenant(output, &tenant.raw, &tenant)?;
        }
        TenantCommand::Usage => {
            let usage = client.usage().await?;
            if output.is_json() {
                output.line(&usage.raw)?;
            } else {
                let limit = usage.max_stored_bytes.map(|bytes| bytes.to_string());
                output.table(
                    &["stored bytes", "max stored bytes"],
                    [vec![usage.stored_bytes.to_string(), text::or_dash(limit.as_deref())]],
                )?;
            }
        }
        TenantCommand::Delete { id } => {
            client.delete_tenant(&id).await?;
            output.confirm(&format!("deleted tenant {id}"), &json!({"id": id, "deleted": true}))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

const HEADER: &[&str] = &[
    "tenant", "versions", "scan", "max concurrent", "max queued", "rate per minute", "weight",
    "signatures", "created",
];

fn print_tenant(output: Output, raw: &str, tenant: &Tenant) -> std::io::Result<()> {
    if output.is_json() { output.line(raw) } else { output.table(HEADER, [row(tenant)]) }
}

fn row(tenant: &Tenant) -> Vec<String> {
    let policy = &tenant.policy;
    let number =
        |value: Option<u32>| text::or_dash(value.map(|number| number.to_string()).as_deref());
    vec![
        tenant.id.clone(),
        text::or_dash(policy.versions.as_deref()),
        text::or_dash(policy.scan.as_deref()),
        number(policy.max_concurrent),
        number(policy.max_queued),
        number(policy.rate_per_minute),
        number(policy.weight),
        text::or_dash(policy.signatures.as_deref()),
        text::or_dash(tenant.created_at.as_deref().map(text::time).as_deref()),
    ]
}
