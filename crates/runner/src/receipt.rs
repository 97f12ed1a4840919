//! Receipts: what the server signs about an execution, made once, with the result it tells of.
//! Hashes stand in for what went in and came out, so a receipt can be shown to people who may not
//! see either.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use skill::signature::{SecretKey, seal};
use store::{FinishedExecution, Lease, Micros};

use crate::accept::Order;

/// What a receipt calls itself.
pub const RECEIPT_KIND: &str = "skillbox receipt 1";

/// What only the worker knows beside the result itself.
pub struct Ran {
    pub script: Option<String>,
    pub isolation: Option<Value>,
    pub signed_by: Option<String>,
}

/// The order of the fields is the order in the text.
#[derive(Serialize)]
struct Payload<'a> {
    execution_id: String,
    tenant_id: &'a str,
    attempt: i64,
    skill: SkillRan<'a>,
    /// Of the input document as the script saw it.
    input_sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    args_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin_sha256: Option<String>,
    env: Vec<&'a str>,
    /// The ids of uploaded files; each version of a file has its own.
    input_files: &'a [String],
    output_sha256: Option<String>,
    logs_sha256: String,
    files: Vec<FileLeft<'a>>,
    status: &'a str,
    outcome: &'a str,
    exit_code: Option<i32>,
    error: Option<&'a str>,
    isolation: Option<&'a Value>,
    duration_ms: i64,
    accepted_at: String,
    recorded_at: String,
    key_id: String,
}

#[derive(Serialize)]
struct SkillRan<'a> {
    name: &'a str,
    version: &'a str,
    digest: &'a str,
    script: Option<&'a str>,
    /// The key of the signature that was checked before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<&'a str>,
}

#[derive(Serialize)]
struct FileLeft<'a> {
    path: &'a str,
    size_bytes: i64,
    sha256: &'a str,
}

/// The receipt for a result that is about to be recorded at `now`.
pub fn receipt(
    key: &SecretKey,
    order: &Order,
    lease: &Lease,
    finished: &FinishedExecution,
    ran: &Ran,
    now: Micros,
) -> String {
    let request = &order.request;
    let files = finished.files.iter();
    let payload = Payload {
        execution_id: order.id.to_string(),
        tenant_id: order.tenant.as_str(),
        attempt: lease.token,
        skill: SkillRan {
            name: &order.skill_name,
            version: &order.skill_version,
            digest: &order.digest,
            script: ran.script.as_deref(),
            signed_by: ran.signed_by.as_deref(),
        },
        input_sha256: sha256(order.input().unwrap_or("{}")),
        args_sha256: (!request.args.is_empty())
            .then(|| sha256(&serde_json::json!(request.args).to_string())),
        stdin_sha256: request.stdin.as_deref().map(sha256),
        env: request.env.keys().map(String::as_str).collect(),
        input_files: &request.input_files,
        output_sha256: finished.output.as_deref().map(sha256),
        logs_sha256: sha256(&stored(&finished.logs)),
        files: files
            .map(|file| FileLeft {
                path: &file.name,
                size_bytes: file.size_bytes,
                sha256: &file.sha256,
            })
            .collect(),
        status: finished.status.as_str(),
        outcome: &finished.outcome,
        exit_code: finished.exit_code,
        error: finished.error.as_deref(),
        isolation: ran.isolation.as_ref(),
        duration_ms: finished.duration_ms,
        accepted_at: rfc3339(order.accepted_at),
        recorded_at: rfc3339(now),
        key_id: key.public().id().to_string(),
    };
    let payload = serde_json::to_string(&payload).expect("a payload has only string keys");
    let comment = format!("timestamp:{}\texecution:{}", now / 1_000_000, order.id);
    seal::seal(key, RECEIPT_KIND, payload, &comment)
}

/// Logs as they can be read back: a database keeps no NUL.
fn stored(logs: &str) -> Cow<'_, str> {
    match logs.contains('\0') {
        true => Cow::Owned(logs.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(logs),
    }
}

fn sha256(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

fn rfc3339(at: Micros) -> String {
    let time = DateTime::<Utc>::from_timestamp_micros(at).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}
