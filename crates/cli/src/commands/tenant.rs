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
    /// Show how many bytes the tenant stores, and may store.
    Usage,
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
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Args)]
pub struct UpdateArgs {
    /// The tenant's id.
    id: String,
    /// Whether a published version of a skill may be replaced.
    #[arg(long, value_parser = ["mutable", "immutable"])]
    versions: Option<String>,
    #[command(flatten)]
    limits: LimitArgs,
}

/// How much of the service a tenant may use.
#[derive(Args)]
struct LimitArgs {
    /// What becomes of an upload in which the scanner finds an error.
    #[arg(long, value_parser = ["off", "report", "review", "block"])]
    scan: Option<String>,
    /// How many executions may run at the same time.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,
    /// How many executions may wait at the same time.
    #[arg(long, value_name = "N")]
    max_queued: Option<u32>,
    /// How many executions may be asked for in a minute.
    #[arg(long, value_name = "N")]
    rate_per_minute: Option<u32>,
    /// How many bytes of uploaded files it may keep.
    #[arg(long, value_name = "BYTES")]
    max_file_bytes: Option<u64>,
    /// How many bytes it may store in all: skills, files, artifacts, inputs, logs and outputs.
    #[arg(long, value_name = "BYTES")]
    max_stored_bytes: Option<u64>,
    /// Its share of the workers, compared with other tenants that wait; 1 unless it says otherwise.
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// What becomes of skills without a signature that the tenant trusts.
    #[arg(long, value_parser = ["off", "warn", "require"])]
    signatures: Option<String>,
}

impl LimitArgs {
    /// The policy with what was named here, and otherwise as it was.
    fn over(&self, versions: Option<String>, was: &TenantPolicy) -> TenantPolicy {
        TenantPolicy {
            versions: versions.or_else(|| was.versions.clone()),
            scan: self.scan.clone().or_else(|| was.scan.clone()),
            max_concurrent: self.max_concurrent.or(was.max_concurrent),
            max_queued: self.max_queued.or(was.max_queued),
            rate_per_minute: self.rate_per_minute.or(was.rate_per_minute),
            max_file_bytes: self.max_file_bytes.or(was.max_file_bytes),
            max_stored_bytes: self.max_stored_bytes.or(was.max_stored_bytes),
            weight: self.weight.or(was.weight),
            signatures: self.signatures.clone().or_else(|| was.signatures.clone()),
        }
    }
}

pub async fn run(global: &Global, command: TenantCommand, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        TenantCommand::Create(args) => {
            let versions = args.immutable.then(|| "immutable".to_owned());
            let policy = args.limits.over(versions, &TenantPolicy::default());
            let tenant =
                client.create_tenant(&NewTenant { id: args.id, policy: Some(policy) }).await?;
            show(output, &tenant.raw, &tenant)?;
        }
        TenantCommand::Update(args) => {
            let now = client.tenant(&args.id).await?;
            let policy = args.limits.over(args.versions, &now.policy);
            let tenant = client.update_tenant(&args.id, &policy).await?;
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
            output.done(&format!("deleted tenant {id}"), &json!({"id": id, "deleted": true}))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

const HEADER: &[&str] = &[
    "tenant", "versions", "scan", "max concurrent", "max queued", "rate per minute", "weight",
    "signatures", "created",
];

fn show(output: Output, raw: &str, tenant: &Tenant) -> std::io::Result<()> {
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
