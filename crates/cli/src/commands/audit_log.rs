//! `skillbox audit-log`: lists the changes on a server, and verifies that the log was not tampered
//! with.
//!
//! (`skillbox audit` is unrelated: it runs a script without a server and writes one record about
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
pub(crate) enum AuditLogCommand {
    /// List changes, newest first.
    List(ListArgs),
    /// Print the signed head. Stored elsewhere, it later proves that no entry before it was changed or
    /// removed.
    Head,
    /// Verify that no entry was modified, moved or removed. Exit code 1 means that one was.
    Verify(VerifyArgs),
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The server's public key, as `receipt key` prints it: a file, or its base64 line. May be given
    /// several times. By default the keys that the server itself reports are trusted.
    #[arg(long = "key", value_name = "PUBKEY")]
    keys: Vec<String>,
    /// A head that was stored earlier and that the log must contain. May be given several times.
    #[arg(long = "head", value_name = "FILE")]
    heads: Vec<PathBuf>,
    /// Verify this log without a server, as `-o json audit-log list --all` printed it.
    #[arg(long, value_name = "FILE", requires = "keys", requires = "heads")]
    log: Option<PathBuf>,
    /// Number of expected entries outside the chain, in addition to those that the head counts: servers
    /// of an earlier version added them during an upgrade.
    #[arg(long, value_name = "N", default_value_t = 0)]
    unchained: u32,
}

/// The log, and the heads to verify it against.
struct Evidence {
    entries: Vec<AuditRecord>,
    /// Authentic heads of this log, including the current one.
    heads: Vec<AuditHead>,
    problems: Vec<String>,
}

pub(crate) async fn run(
    global: &Global,
    command: AuditLogCommand,
    output: Output,
) -> Result<ExitCode> {
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
    let [object, action] = [&entry.object, &entry.action].map(|text| terminal::sanitize(text));
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
            let rows: Vec<AuditEntry> = serde_json::from_str(&read(path)?)
                .context("the log file is not a JSON array of audit entries")?;
            Evidence { entries: to_records(rows)?, heads: Vec::new(), problems: Vec::new() }
        }
        None => {
            let client = connection::open(global)?;
            if keys.is_empty() {
                keys = server_keys(&client).await?;
            }
            fetch_evidence(&client, &keys).await?
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

async fn server_keys(client: &Client) -> Result<Vec<PublicKey>> {
    let keys = client.receipt_keys().await?;
    let lines: Vec<_> = [&keys.current]
        .into_iter()
        .chain(&keys.previous)
        .map(|key| key.public_key.clone())
        .collect();
    public_keys(&lines)
}

/// Fetches the log and its head. Other clients may add entries in the meantime, so entries after the
/// first head are ignored. A second head is fetched after the entries: an entry after that one was
/// not added by the server.
async fn fetch_evidence(client: &Client, keys: &[PublicKey]) -> Result<Evidence> {
    let (mut problems, mut heads) = (Vec::new(), Vec::new());
    let first = current_head(client, keys, &mut problems).await?;
    let rows = collect(ListArgs::all(), async |page| client.audit_entries(&page).await).await?;
    let last = current_head(client, keys, &mut Vec::new()).await?;
    let mut entries = to_records(rows.items)?;
    let (first_seq, last_seq) =
        (first.as_ref().map_or(0, |head| head.seq), last.map_or(0, |head| head.seq));
    let unsigned = entries.iter().filter_map(|entry| entry.seq).filter(|seq| *seq > last_seq).min();
    problems.extend(unsigned.map(|seq| format!("entry {seq} is after the signed head")));
    if first.is_some() {
        entries.retain(|entry| entry.seq.is_none_or(|seq| seq <= first_seq));
    }
    heads.extend(first);
    Ok(Evidence { entries, heads, problems })
}

/// Fetches the current head. `None` before the first entry, and also if the head is not authentic,
/// which adds a problem.
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
        .map_err(|error| format!("the head is genuine, but its content cannot be read: {error}"))
}

fn report(evidence: Evidence, output: Output) -> Result<ExitCode> {
    let Evidence { entries, heads, mut problems } = evidence;
    let tenant = heads
        .first()
        .map(|head| &head.tenant_id)
        .or(entries.first().map(|entry| &entry.tenant))
        .cloned();
    if let Some(tenant) = &tenant {
        problems.extend(find_problems(tenant, &entries, &heads));
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
        false => terminal::sanitize(&verdict(&report, verified)),
    })?;
    Ok(if verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn find_problems(tenant: &TenantId, entries: &[AuditRecord], heads: &[AuditHead]) -> Vec<String> {
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
        add("there is no authentic head, so the end of the log cannot be verified".to_owned());
    }
    let heads: Vec<_> = heads.iter().map(Some).collect();
    for head in if heads.is_empty() { vec![None] } else { heads } {
        verify_audit(tenant, entries, head).iter().for_each(|problem| add(problem.to_string()));
    }
    problems
}

fn verdict(report: &Value, verified: bool) -> String {
    if !verified {
        let problems =
            report["problems"].as_array().into_iter().flatten().filter_map(Value::as_str);
        return format!(
            "the audit log was tampered with: {}",
            problems.collect::<Vec<_>>().join("; ")
        );
    }
    let noun = if report["entries"] == 1 { "entry" } else { "entries" };
    let mut text = format!("genuine: {} {noun} up to {}", report["entries"], report["seq"]);
    if report["unchained"] != 0 {
        text += &format!(
            "; {} from before the chain are counted but not protected",
            report["unchained"]
        );
    }
    text
}

/// Converts entries to the form in which the server hashed them.
fn to_records(rows: Vec<AuditEntry>) -> Result<Vec<AuditRecord>> {
    rows.into_iter().map(to_record).collect()
}

fn to_record(row: AuditEntry) -> Result<AuditRecord> {
    let Ok(time) = DateTime::parse_from_rfc3339(&row.created_at) else {
        bail!("the audit entry has an invalid time: {}", row.created_at);
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
