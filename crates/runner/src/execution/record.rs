//! Step six, record: the result in one transaction, guarded by the fencing token of the lease. A
//! worker that lost its lease changes nothing and removes its blobs.

pub(crate) mod receipt;

use std::time::Duration;

use catalogue::StorageQuota;
use store::{Execution, FinishedExecution, Lease, Status, Store, StoreError};

use super::accept::AcceptedRequest;
use super::collect::{Collected, verdict};
use super::completed::CompletedExecution;
use super::detail::Detail;
use crate::RunError;
use crate::artifacts;
use crate::retry::{Retried, retry_transient};
use crate::runner::Runner;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    Committed,
    /// The lease was lost; this result is not the execution's.
    Fenced,
}

/// A result in the form in which it is stored, and what its receipt and its caller need besides.
pub(crate) struct AttemptResult {
    row: FinishedExecution,
    /// The same as the text in the row.
    detail: Detail,
    script: Option<String>,
    signed_by: Option<String>,
}

/// Records the result. If the tenant's quota has no room for it, records without documents and
/// files what happened.
pub(crate) async fn record(
    runner: &Runner,
    lease: &Lease,
    accepted: Option<&AcceptedRequest>,
    result: &mut AttemptResult,
) -> Result<Recorded, RunError> {
    // If the policy cannot be read, the strict way is the safe one: the store checks the limit.
    let limited = runner.storage_is_limited(&lease.tenant).await.unwrap_or(true);
    match write(runner, lease, accepted, result, limited).await {
        Err(StoreError::StorageFull { used_bytes, limit_bytes, needed_bytes }) => {
            // The blobs go before the record that has no files: afterwards no row would lead to
            // them.
            let Lease { tenant, execution_id, token, .. } = lease;
            artifacts::discard(&runner.blobs, tenant, *execution_id, *token).await;
            let quota =
                StorageQuota::new(StorageQuota::STORED, used_bytes, limit_bytes, needed_bytes);
            result.drop_documents(quota);
            Ok(write(runner, lease, accepted, result, false).await?)
        }
        recorded => Ok(recorded?),
    }
}

/// Writes the result with its receipt, where receipts are made. `limited` lets the write fail with
/// `StorageFull` if the tenant may not store that much, and then nothing is recorded.
async fn write(
    runner: &Runner,
    lease: &Lease,
    accepted: Option<&AcceptedRequest>,
    result: &mut AttemptResult,
    limited: bool,
) -> Result<Recorded, StoreError> {
    if let (Some(key), Some(accepted)) = (&runner.config.receipt_key, accepted) {
        result.row.receipt = Some(receipt::receipt(key, accepted, lease, result, store::now()));
    }
    let (store, row) = (&runner.store, &result.row);
    // An error leaves open what is stored, so the blobs stay: if the result was not committed, the
    // reaper ends the execution and removes them.
    let Retried { value: accepted, maybe_committed } = match limited {
        true => {
            retry_transient("recording a result", || store.finish_within_limit(lease, row)).await?
        }
        false => retry_transient("recording a result", || store.finish(lease, row)).await?,
    };
    // After a try whose answer was lost but which was committed, the next one looks fenced.
    if accepted || (maybe_committed && is_recorded(store, lease, row).await?) {
        return Ok(Recorded::Committed);
    }
    tracing::warn!(execution_id = %lease.execution_id, "a late result was refused");
    artifacts::discard(&runner.blobs, &lease.tenant, lease.execution_id, lease.token).await;
    Ok(Recorded::Fenced)
}

async fn is_recorded(
    store: &Store,
    lease: &Lease,
    row: &FinishedExecution,
) -> Result<bool, StoreError> {
    let stored = store.get_execution(&lease.tenant, lease.execution_id).await?;
    // The detail contains this run's timings, to the microsecond: no other run's is equal.
    Ok(stored.is_some_and(|stored| stored.detail.as_deref() == Some(row.detail.as_str())))
}

impl AttemptResult {
    /// The collected result of an execution that took so long in all.
    pub(crate) fn new(collected: Collected, duration: Duration) -> AttemptResult {
        let Collected { outcome, exit_code, error, output, logs, .. } = collected;
        let Collected { files, archive_bytes, detail, script, signed_by, .. } = collected;
        let row = FinishedExecution {
            status: verdict::status(outcome, exit_code, error.as_deref()),
            output,
            logs,
            // Postgres cannot store a NUL, and the error may quote names from a skill.
            error: error.map(|error| error.replace('\0', "?")),
            outcome: outcome.to_string(),
            exit_code,
            detail: detail.to_json(),
            duration_ms: i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
            has_archive: !files.is_empty(),
            files,
            archive_bytes,
            receipt: None,
        };
        AttemptResult { row, detail, script, signed_by }
    }

    pub(crate) fn row(&self) -> &FinishedExecution {
        &self.row
    }

    /// Leaves what happened and drops what came out: the tenant's quota has no room for it. The
    /// rest must fit into what was counted for the execution when it was accepted.
    fn drop_documents(&mut self, quota: StorageQuota) {
        let error = format!(
            "The result was not kept: {quota}. Delete files or skills, or ask for a larger limit."
        );
        self.detail = Detail {
            stdout: None,
            stderr: None,
            skipped: Vec::new(),
            clamped: Vec::new(),
            network_attempts: None,
            ..std::mem::take(&mut self.detail)
        };
        let FinishedExecution { status, outcome, .. } = &self.row;
        self.row = FinishedExecution {
            status: if *status == Status::Success { Status::Failed } else { *status },
            output: None,
            logs: String::new(),
            error: Some(error),
            outcome: outcome.clone(),
            exit_code: self.row.exit_code,
            detail: self.detail.to_json(),
            duration_ms: self.row.duration_ms,
            files: Vec::new(),
            has_archive: false,
            archive_bytes: None,
            receipt: None,
        };
    }

    /// The execution as the store holds it now, without a query. The times are this process's and
    /// may differ from the stored ones by the length of a write.
    pub(crate) fn into_completed(self, accepted: AcceptedRequest) -> CompletedExecution {
        let AttemptResult { row, detail, .. } = self;
        let execution = Execution {
            id: accepted.id,
            input: accepted.input().map(str::to_owned),
            tenant: accepted.tenant,
            key_id: accepted.key_id,
            skill_name: accepted.skill_name,
            skill_version: accepted.skill_version,
            digest: accepted.digest,
            status: row.status,
            request: String::new(),
            output: row.output,
            logs: row.logs,
            error: row.error,
            outcome: Some(row.outcome),
            exit_code: row.exit_code,
            detail: Some(row.detail),
            attempt: 1,
            started: true,
            cancel_requested: false,
            created_at: accepted.accepted_at,
            started_at: Some(accepted.accepted_at),
            finished_at: Some(store::now()),
            duration_ms: row.duration_ms,
            has_archive: row.has_archive,
            archive_removed: false,
            webhook: accepted.request.webhook,
        };
        CompletedExecution { execution, detail: Some(detail) }
    }
}
