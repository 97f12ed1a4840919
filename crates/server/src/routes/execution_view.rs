//! An execution in responses. The order of the keys is part of the contract.

use runner::{CompletedExecution, Detail};
use sandbox::{ConnectAttempt, ConnectCall};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use store::{Execution, FileRow};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::links::DownloadLinks;
use crate::http::timestamp::rfc3339;

use super::file_view::FileView;

/// The result of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExecutionResult {
    #[schema(format = "uuid")]
    execution_id: String,
    /// `success`, `failed` or `timeout`; `queued`, `running` or `cancelled` when the run did not
    /// end.
    #[schema(example = "success")]
    status: &'static str,
    /// The output document of the skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Box<RawValue>>,
    /// A gzip tar of all files; the URL needs no key and expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    files_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files_list: Option<Vec<String>>,
    /// Standard output and error, interleaved as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<String>,
    duration_ms: i64,
    /// Always present; `null` on success.
    #[schema(required = true)]
    error: Option<String>,
    #[serde(flatten)]
    facts: Facts,
    skill_version: String,
    digest: String,
    attempt: i32,
    timings: Timings,
}

/// A stored execution, also while it is queued or running.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoredExecution {
    #[schema(format = "uuid")]
    execution_id: String,
    skill_name: String,
    skill_version: String,
    tenant_id: String,
    /// `queued`, `running`, `success`, `failed`, `timeout` or `cancelled`.
    #[schema(example = "success")]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files_list: Option<Vec<String>>,
    duration_ms: i64,
    /// Always present; `null` unless the run failed.
    #[schema(required = true)]
    error: Option<String>,
    #[schema(format = "date-time")]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    started_at: Option<String>,
    #[serde(flatten)]
    facts: Facts,
    digest: String,
    attempt: i32,
    timings: Timings,
}

/// A row of the list of executions.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExecutionSummary {
    #[schema(format = "uuid")]
    execution_id: String,
    skill_name: String,
    skill_version: String,
    tenant_id: String,
    #[schema(example = "success")]
    status: &'static str,
    duration_ms: i64,
    #[schema(required = true)]
    error: Option<String>,
    #[schema(format = "date-time")]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    started_at: Option<String>,
    exit_code: Option<i32>,
    outcome: Option<String>,
    digest: String,
    attempt: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    key_id: Option<String>,
}

/// Details of a run.
#[derive(Serialize, ToSchema)]
struct Facts {
    /// The exit code of the script; 128 plus the signal number when a signal killed it.
    exit_code: Option<i32>,
    /// Why the run ended: `exited`, `timed_out`, `out_of_memory`, `too_many_processes`,
    /// `disk_full`, `output_too_large`, `cancelled`, `refused` or `lost`.
    outcome: Option<String>,
    /// Only when the caller named a `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    files: Vec<FileView>,
    /// Files in the output directory that were not collected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedFile>,
    /// Limits that were lowered to the allowed maximum, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clamped: Vec<String>,
    /// Why the tenant does not trust the skill. The run was refused for it, or, with the policy
    /// `warn`, took place nevertheless.
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<Doubt>,
    /// Outbound connection attempts of the script. Without a network all were blocked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    network_attempts: Vec<NetworkAttempt>,
    usage: Usage,
    /// The isolation measured for this run: `backend`, `controls` and `missing`.
    isolation: Option<Value>,
}

#[derive(Serialize, ToSchema)]
struct Doubt {
    #[schema(example = "signature_missing")]
    code: String,
    message: String,
}

#[derive(Serialize, ToSchema)]
struct SkippedFile {
    path: String,
    why: String,
}

#[derive(Serialize, ToSchema)]
struct NetworkAttempt {
    /// `connect` or `sendto`.
    #[schema(value_type = String, example = "connect")]
    call: ConnectCall,
    /// Address and port.
    #[schema(example = "203.0.113.7:443")]
    to: String,
}

impl From<&ConnectAttempt> for NetworkAttempt {
    fn from(attempt: &ConnectAttempt) -> NetworkAttempt {
        NetworkAttempt { call: attempt.call, to: attempt.to.to_string() }
    }
}

#[derive(Serialize, ToSchema)]
struct Usage {
    wall_ms: u64,
    cpu_ms: u64,
    peak_memory_bytes: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// The duration of each step on the server, in milliseconds.
#[derive(Serialize, ToSchema)]
struct Timings {
    accept_ms: f64,
    load_ms: f64,
    launch_ms: f64,
    run_ms: f64,
    collect_ms: f64,
}

/// Everything that is made from the stored texts, before it is put in order.
struct Pieces {
    output: Option<Box<RawValue>>,
    files_url: Option<String>,
    files_list: Option<Vec<String>>,
    facts: Facts,
    timings: Timings,
}

impl Pieces {
    fn new(
        completed: &mut CompletedExecution,
        rows: Vec<FileRow>,
        links: &DownloadLinks,
    ) -> Result<Pieces, ApiError> {
        let detail = completed.take_detail().map_err(ApiError::internal)?;
        let execution = &mut completed.execution;
        let output = execution.output.take().map(RawValue::from_string);
        let files_url = runner::archive_key(execution)
            .map(|archive| {
                links.url(archive, &format!("{}.tar.gz", execution.id), "application/gzip")
            })
            .transpose()?;
        let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
        let files: Result<_, _> = rows.into_iter().map(|row| FileView::new(row, links)).collect();
        Ok(Pieces {
            output: output.transpose().map_err(ApiError::internal)?,
            files_url,
            files_list: Some(names).filter(|names| !names.is_empty()),
            timings: Timings::from(detail.timings),
            facts: Facts::new(execution, files?, detail),
        })
    }
}

impl Facts {
    fn new(execution: &mut Execution, files: Vec<FileView>, detail: Detail) -> Facts {
        let skipped = detail.skipped.into_iter();
        Facts {
            exit_code: execution.exit_code,
            outcome: execution.outcome.take(),
            stdout: detail.stdout,
            stderr: detail.stderr,
            files,
            skipped: skipped
                .map(|file| SkippedFile { path: file.path, why: file.reason })
                .collect(),
            clamped: detail.clamped,
            trust: detail
                .trust
                .map(|runner::TrustProblemDetail { code, message }| Doubt { code, message }),
            network_attempts: detail
                .network_attempts
                .iter()
                .flatten()
                .map(NetworkAttempt::from)
                .collect(),
            usage: Usage::from(detail.usage),
            isolation: detail.isolation,
        }
    }
}

impl ExecutionResult {
    pub(crate) fn new(
        mut completed: CompletedExecution,
        files: Vec<FileRow>,
        links: &DownloadLinks,
    ) -> Result<Self, ApiError> {
        let pieces = Pieces::new(&mut completed, files, links)?;
        let execution = completed.execution;
        Ok(ExecutionResult {
            execution_id: execution.id.to_string(),
            status: execution.status.as_str(),
            output: pieces.output,
            files_url: pieces.files_url,
            files_list: pieces.files_list,
            logs: Some(execution.logs).filter(|logs| !logs.is_empty()),
            duration_ms: execution.duration_ms,
            error: execution.error,
            facts: pieces.facts,
            skill_version: execution.skill_version,
            digest: execution.digest,
            attempt: execution.attempt,
            timings: pieces.timings,
        })
    }
}

impl StoredExecution {
    pub(crate) fn new(
        execution: Execution,
        files: Vec<FileRow>,
        links: &DownloadLinks,
    ) -> Result<Self, ApiError> {
        let mut completed = CompletedExecution::from(execution);
        let pieces = Pieces::new(&mut completed, files, links)?;
        let execution = completed.execution;
        let input = execution.input.map(RawValue::from_string);
        Ok(StoredExecution {
            execution_id: execution.id.to_string(),
            skill_name: execution.skill_name,
            skill_version: execution.skill_version,
            tenant_id: execution.tenant.to_string(),
            status: execution.status.as_str(),
            input: input.transpose().map_err(ApiError::internal)?,
            output: pieces.output,
            logs: Some(execution.logs).filter(|logs| !logs.is_empty()),
            files_url: pieces.files_url,
            files_list: pieces.files_list,
            duration_ms: execution.duration_ms,
            error: execution.error,
            created_at: rfc3339(execution.created_at),
            finished_at: execution.finished_at.map(rfc3339),
            started_at: execution.started_at.map(rfc3339),
            facts: pieces.facts,
            digest: execution.digest,
            attempt: execution.attempt,
            timings: pieces.timings,
        })
    }
}

impl From<Execution> for ExecutionSummary {
    fn from(execution: Execution) -> ExecutionSummary {
        ExecutionSummary {
            execution_id: execution.id.to_string(),
            skill_name: execution.skill_name,
            skill_version: execution.skill_version,
            tenant_id: execution.tenant.to_string(),
            status: execution.status.as_str(),
            duration_ms: execution.duration_ms,
            error: execution.error,
            created_at: rfc3339(execution.created_at),
            finished_at: execution.finished_at.map(rfc3339),
            started_at: execution.started_at.map(rfc3339),
            exit_code: execution.exit_code,
            outcome: execution.outcome,
            digest: execution.digest,
            attempt: execution.attempt,
            key_id: execution.key_id.map(|id| id.to_string()),
        }
    }
}

impl From<sandbox::RunUsage> for Usage {
    fn from(usage: sandbox::RunUsage) -> Usage {
        let sandbox::RunUsage { wall_ms, cpu_ms, peak_memory_bytes, bytes_in, bytes_out } = usage;
        Usage { wall_ms, cpu_ms, peak_memory_bytes, bytes_in, bytes_out }
    }
}

impl From<runner::Timings> for Timings {
    fn from(timings: runner::Timings) -> Timings {
        let runner::Timings { accept_ms, load_ms, launch_ms, run_ms, collect_ms } = timings;
        Timings { accept_ms, load_ms, launch_ms, run_ms, collect_ms }
    }
}
