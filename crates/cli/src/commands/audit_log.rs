//! `skillbox audit-log`: who changed what on a server, and whether somebody tampered with that
//! record.
//!
//! (`skillbox audit` is another thing: it runs a script without a server and writes one record of
//! it.)

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use chrono::DateTime;
use clap::{Args, Subcommand};
use client::{AuditEntry, Client, ClientError};
use serde_json::{Value, json};
use server::{AUDIT_HEAD_KIND, AuditHead, AuditRecord, TenantId, verify_audit};
use skill::signature::{PublicKey, seal};

use super::listing::{ListArgs, collect};
use super::skill::public_keys;
use crate::args::Global;
use crate::output::Output;
use crate::{connection, terminal};

#[derive(Subcommand)]
pub enum AuditLogCommand {
    /// List changes, the newest first.
    List(ListArgs),
    /// Print the signed head. Keep it elsewhere: it proves later that nothing before it was changed
    /// or removed.
    Head,
    /// Check that no entry was modified, moved or removed. Exit code 1 says that something does not
    /// fit.
    Verify(VerifyArgs),
}

#[derive(Args)]
pub struct VerifyArgs {
    /// The server's public key, as `receipt key` prints it: a file, or its line of base64. May be
    /// given several times. Without it, the keys that the server names are trusted.
    #[arg(long = "key", value_name = "PUBKEY")]
    keys: Vec<String>,
    /// A head that was saved earlier, which the log must contain. May be given several times.
    #[arg(long = "head", value_name = "FILE")]
    heads: Vec<PathBuf>,
    /// Check this log without a server, as `-o json audit-log list --all` printed it.
    #[arg(long, value_name = "FILE", requires = "keys", requires = "heads")]
    log: Option<PathBuf>,
    /// Entries outside the chain that are known, besides those that the head counts: what servers
    /// of an earlier version added while they were replaced.
    #[arg(long, value_name = "N", default_value_t = 0)]
    unchained: u32,
}

/// What there is to check.
struct Evidence {
    entries: Vec<AuditRecord>,
    /// Authentic heads of this log, the current one among them.
    heads: Vec<AuditHead>,
    problems: Vec<String>,
}

pub async fn run(global: &Global, command: AuditLogCommand, output: Output) -> Result<ExitCode> {
    match command {
        AuditLogCommand::List(args) => {
            let client = connection::open(global)?;
            let rows = collect(args, async |page| client.audit_entries(&page).await).await?;
            match output.is_json() {
                true => output.array(&rows.raw)?,
                false => output.table(
                    &["seq", "time", "actor", "action", "object"],
                    rows.items.iter().map(row),
                )?,
            }
            Ok(ExitCode::SUCCESS)
        }
        AuditLogCommand::Head => {
            output.line(&connection::open(global)?.audit_head().await?.raw)?;
            Ok(ExitCode::SUCCESS)
        }
        AuditLogCommand::Verify(args) => verify(global, &args, output).await,
    }
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let seq = entry.seq.map(|seq| seq.to_string());
    let actor = entry.actor.map(|id| id.to_string());
    let [object, action] = [&entry.object, &entry.action].map(|word| terminal::sanitize(word));
    vec![
        seq.unwrap_or_default(),
        entry.created_at.clone(),
        actor.unwrap_or_default(),
        action,
        object,
    ]
}

async fn verify(global: &Global, args: &VerifyArgs, output: Output) -> Result<ExitCode> {
    let mut keys = public_keys(&args.keys)?;
    let mut evidence = match &args.log {
        Some(path) => {
            let rows: Vec<AuditEntry> =
                serde_json::from_str(&read(path)?).context("this is not a list of entries")?;
            Evidence { entries: chain(rows)?, heads: Vec::new(), problems: Vec::new() }
        }
        None => {
            let client = connection::open(global)?;
            if keys.is_empty() {
                keys = servers_keys(&client).await?;
            }
            fetch(&client, &keys).await?
        }
    };
    for path in &args.heads {
        match open_head(&read(path)?, &keys) {
            Ok(head) => evidence.heads.push(head),
            Err(problem) => evidence.problems.push(format!("{}: {problem}", path.display())),
        }
    }
    for head in &mut evidence.heads {
        head.unchained += i64::from(args.unchained);
    }
    report(evidence, output)
}

async fn servers_keys(client: &Client) -> Result<Vec<PublicKey>> {
    let keys = client.receipt_keys().await?;
    let lines: Vec<_> = [&keys.current]
        .into_iter()
        .chain(&keys.previous)
        .map(|key| key.public_key.clone())
        .collect();
    public_keys(&lines)
}

/// The log and its head. Others write meanwhile, so entries behind the first look at the head are
/// left out, and the second look tells whether somebody else than the server has added them.
async fn fetch(client: &Client, keys: &[PublicKey]) -> Result<Evidence> {
    let (mut problems, mut heads) = (Vec::new(), Vec::new());
    let first = current_head(client, keys, &mut problems).await?;
    let rows = collect(ListArgs::all(), async |page| client.audit_entries(&page).await).await?;
    let last = current_head(client, keys, &mut Vec::new()).await?;
    let mut entries = chain(rows.items)?;
    let (first_seq, last_seq) =
        (first.as_ref().map_or(0, |head| head.seq), last.map_or(0, |head| head.seq));
    let beyond = entries.iter().filter_map(|entry| entry.seq).filter(|seq| *seq > last_seq).min();
    problems.extend(beyond.map(|seq| format!("entry {seq} is behind the signed head")));
    if first.is_some() {
        entries.retain(|entry| entry.seq.is_none_or(|seq| seq <= first_seq));
    }
    heads.extend(first);
    Ok(Evidence { entries, heads, problems })
}

/// The head that the server has now. None before the first entry, and when it is not authentic,
/// which is a problem.
async fn current_head(
    client: &Client,
    keys: &[PublicKey],
    problems: &mut Vec<String>,
) -> Result<Option<AuditHead>> {
    match client.audit_head().await {
        Ok(reply) => match open_head(&reply.raw, keys) {
            Ok(head) => return Ok(Some(head)),
            Err(problem) => problems.push(problem),
        },
        Err(ClientError::Api { status: 404, .. }) => {}
        Err(ClientError::Api { status: 409, message, .. }) => problems.push(message),
        Err(error) => return Err(error.into()),
    }
    Ok(None)
}

fn open_head(document: &str, keys: &[PublicKey]) -> Result<AuditHead, String> {
    let opened = seal::open(document, AUDIT_HEAD_KIND, keys)
        .map_err(|error| format!("the head is not genuine: {error}"))?;
    serde_json::from_str(&opened.payload)
        .map_err(|error| format!("the head is signed, but not one we know: {error}"))
}

fn report(evidence: Evidence, output: Output) -> Result<ExitCode> {
    let Evidence { entries, heads, mut problems } = evidence;
    let tenant = heads
        .first()
        .map(|head| &head.tenant_id)
        .or(entries.first().map(|entry| &entry.tenant))
        .cloned();
    if let Some(tenant) = &tenant {
        problems.extend(problems_of(tenant, &entries, &heads));
    }
    let seq = heads.iter().map(|head| head.seq).max();
    let unchained = entries.iter().filter(|entry| entry.seq.is_none()).count();
    let verified = problems.is_empty();
    let report = json!({
        "verified": verified, "problems": problems, "tenant_id": tenant, "entries": entries.len(), "seq": seq,
        "unchained": unchained,
    });
    output.line(&match output.is_json() {
        true => report.to_string(),
        false => terminal::sanitize(&words(&report, verified)),
    })?;
    Ok(if verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn problems_of(tenant: &TenantId, entries: &[AuditRecord], heads: &[AuditHead]) -> Vec<String> {
    let mut problems: Vec<String> = Vec::new();
    let mut add = |problem: String| {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    };
    for head in heads.iter().filter(|head| head.tenant_id != *tenant) {
        add(format!("a head is of tenant {}", head.tenant_id));
    }
    if heads.is_empty() && entries.iter().any(|entry| entry.seq.is_some()) {
        add("there is no authentic head, so it is not known where the log ends".to_owned());
    }
    let heads: Vec<_> = heads.iter().map(Some).collect();
    for head in if heads.is_empty() { vec![None] } else { heads } {
        verify_audit(tenant, entries, head).iter().for_each(|problem| add(problem.to_string()));
    }
    problems
}

fn words(report: &Value, verified: bool) -> String {
    if !verified {
        let problems =
            report["problems"].as_array().into_iter().flatten().filter_map(Value::as_str);
        return format!(
            "the audit log was tampered with: {}",
            problems.collect::<Vec<_>>().join("; ")
        );
    }
    let noun = if report["entries"] == 1 { "entry" } else { "entries" };
    let mut words = format!("genuine: {} {noun} up to {}", report["entries"], report["seq"]);
    if report["unchained"] != 0 {
        words += &format!(
            "; {} from before the chain are counted, and not protected",
            report["unchained"]
        );
    }
    words
}

/// Entries as the server hashed them.
fn chain(rows: Vec<AuditEntry>) -> Result<Vec<AuditRecord>> {
    rows.into_iter().map(entry).collect()
}

fn entry(row: AuditEntry) -> Result<AuditRecord> {
    let Ok(time) = DateTime::parse_from_rfc3339(&row.created_at) else {
        bail!("{} is not the time of an entry", row.created_at);
    };
    Ok(AuditRecord {
        id: row.id,
        tenant: TenantId::try_from(row.tenant_id)?,
        actor: row.actor,
        action: row.action,
        object: row.object,
        detail: row.detail,
        request_id: row.request_id,
        created_at: time.timestamp_micros(),
        seq: row.seq,
        hash: row.hash,
    })
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
