//! Receipts: what the server signs about an execution, made once, together with its result. They
//! contain hashes instead of inputs and outputs, so a receipt can be shown to people who may not
//! see either.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use skill::signature::{SecretKey, seal};
use store::{Lease, Micros};

use super::AttemptResult;
use crate::execution::accept::AcceptedRequest;

/// The kind of document that a receipt declares itself to be.
pub const RECEIPT_KIND: &str = "skillbox receipt 1";

/// The order of the fields is the order in the text.
#[derive(Serialize)]
struct ReceiptPayload<'a> {
    execution_id: String,
    tenant_id: &'a str,
    attempt: i64,
    skill: ReceiptSkill<'a>,
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
    files: Vec<ReceiptFile<'a>>,
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
struct ReceiptSkill<'a> {
    name: &'a str,
    version: &'a str,
    digest: &'a str,
    script: Option<&'a str>,
    /// The key of the signature that was checked before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<&'a str>,
}

#[derive(Serialize)]
struct ReceiptFile<'a> {
    path: &'a str,
    size_bytes: i64,
    sha256: &'a str,
}

/// The receipt for a result that is about to be recorded at `now`.
pub(crate) fn receipt(
    key: &SecretKey,
    accepted: &AcceptedRequest,
    lease: &Lease,
    result: &AttemptResult,
    now: Micros,
) -> String {
    let request = &accepted.request;
    let AttemptResult { row: finished, detail, script, signed_by } = result;
    let files = finished.files.iter();
    let payload = ReceiptPayload {
        execution_id: accepted.id.to_string(),
        tenant_id: accepted.tenant.as_str(),
        attempt: lease.token,
        skill: ReceiptSkill {
            name: &accepted.skill_name,
            version: &accepted.skill_version,
            digest: &accepted.digest,
            script: script.as_deref(),
            signed_by: signed_by.as_deref(),
        },
        input_sha256: sha256(accepted.input().unwrap_or("{}")),
        args_sha256: (!request.args.is_empty())
            .then(|| sha256(&serde_json::json!(request.args).to_string())),
        stdin_sha256: request.stdin.as_deref().map(sha256),
        env: request.env.keys().map(String::as_str).collect(),
        input_files: &request.input_files,
        output_sha256: finished.output.as_deref().map(sha256),
        logs_sha256: sha256(&as_stored(&finished.logs)),
        files: files
            .map(|file| ReceiptFile {
                path: &file.name,
                size_bytes: file.size_bytes,
                sha256: &file.sha256,
            })
            .collect(),
        status: finished.status.as_str(),
        outcome: &finished.outcome,
        exit_code: finished.exit_code,
        error: finished.error.as_deref(),
        isolation: detail.isolation.as_ref(),
        duration_ms: finished.duration_ms,
        accepted_at: rfc3339(accepted.accepted_at),
        recorded_at: rfc3339(now),
        key_id: key.public().id().to_string(),
    };
    let payload = serde_json::to_string(&payload).expect("a payload has only string keys");
    let comment = format!("timestamp:{}\texecution:{}", now / 1_000_000, accepted.id);
    seal::seal(key, RECEIPT_KIND, payload, &comment)
}

/// Logs as they can be read back: the databases store no NUL.
fn as_stored(logs: &str) -> Cow<'_, str> {
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
