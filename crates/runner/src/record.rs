//! Step six, record: the result in one transaction, guarded by the lease. Whoever lost the lease
//! changes nothing and takes its blobs away again.

use std::time::Duration;

use blobs::Blobs;
use catalogue::StorageQuota;
use serde_json::Value;
use store::{Execution, FinishedExecution, Lease, Status, Store, StoreError};

use crate::accept::Order;
use crate::artifacts;
use crate::collect::Collected;
use crate::ending;
use crate::patience::{Tried, patiently};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    Committed,
    /// The lease was gone; this result is not the execution's.
    Fenced,
}

/// After an error it is unknown what is stored, so the blobs stay: if the result did not get
/// through, the reaper gives the execution up and removes them.
///
/// `limited` says that the tenant may store only so much; `StorageFull` when this is more, and then
/// nothing is recorded.
pub async fn record(
    store: &Store,
    blobs: &Blobs,
    lease: &Lease,
    finished: &FinishedExecution,
    limited: bool,
) -> Result<Recorded, StoreError> {
    let tried = match limited {
        true => {
            patiently("recording a result", || store.finish_within_limit(lease, finished)).await?
        }
        false => patiently("recording a result", || store.finish(lease, finished)).await?,
    };
    let Tried { answer: taken, unsure } = tried;
    // A try whose answer was lost may have been committed, and the next one then looks like a
    // fenced one.
    if taken || (unsure && is_recorded(store, lease, finished).await?) {
        return Ok(Recorded::Committed);
    }
    tracing::warn!(execution_id = %lease.execution_id, "a late result was refused");
    artifacts::discard(blobs, &lease.tenant, lease.execution_id, lease.token).await;
    Ok(Recorded::Fenced)
}

async fn is_recorded(
    store: &Store,
    lease: &Lease,
    finished: &FinishedExecution,
) -> Result<bool, StoreError> {
    let stored = store.get_execution(&lease.tenant, lease.execution_id).await?;
    // The detail has this run's timings in it, to the microsecond: no other run's is equal.
    Ok(stored.is_some_and(|stored| stored.detail.as_deref() == Some(finished.detail.as_str())))
}

/// The collected result as it is stored.
pub fn finished(collected: Collected, duration: Duration) -> FinishedExecution {
    let Collected { outcome, exit_code, error, output, logs, files, archive_bytes, detail, .. } =
        collected;
    FinishedExecution {
        status: ending::status(outcome, exit_code, error.as_deref()),
        output,
        logs,
        // Postgres cannot store a NUL, and names from a skill may be quoted in here.
        error: error.map(|error| error.replace('\0', "?")),
        outcome: outcome.to_string(),
        exit_code,
        detail: serde_json::to_string(&detail).expect("detail has only string keys"),
        duration_ms: i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
        has_archive: !files.is_empty(),
        files,
        archive_bytes,
        receipt: None,
    }
}

/// The end of an execution whose tenant has no room for its result: what happened, without what
/// came out.
pub fn without_results(finished: &FinishedExecution, quota: StorageQuota) -> FinishedExecution {
    let error = format!(
        "The result was not kept: {quota}. Delete files or skills, or ask for a larger limit."
    );
    FinishedExecution {
        status: if finished.status == Status::Success { Status::Failed } else { finished.status },
        output: None,
        logs: String::new(),
        error: Some(error),
        detail: without_lists(&finished.detail),
        files: Vec::new(),
        has_archive: false,
        archive_bytes: None,
        receipt: None,
        ..finished.clone()
    }
}

/// Without what may be long: the record must fit into what is counted for it from the start.
fn without_lists(detail: &str) -> String {
    let mut detail: Value = serde_json::from_str(detail).unwrap_or_default();
    if let Some(fields) = detail.as_object_mut() {
        for long in ["stdout", "stderr", "skipped", "network_attempts", "clamped"] {
            fields.remove(long);
        }
    }
    detail.to_string()
}

/// What the store now holds, put together without asking it. The times are ours and may differ from
/// the stored ones by the length of a write.
pub fn executed(order: Order, finished: FinishedExecution) -> Execution {
    Execution {
        id: order.id,
        input: order.input().map(str::to_owned),
        tenant: order.tenant,
        key_id: order.key_id,
        skill_name: order.skill_name,
        skill_version: order.skill_version,
        digest: order.digest,
        status: finished.status,
        request: String::new(),
        output: finished.output,
        logs: finished.logs,
        error: finished.error,
        outcome: Some(finished.outcome),
        exit_code: finished.exit_code,
        detail: Some(finished.detail),
        attempt: 1,
        started: true,
        cancel_requested: false,
        created_at: order.accepted_at,
        started_at: Some(order.accepted_at),
        finished_at: Some(store::now()),
        duration_ms: finished.duration_ms,
        has_archive: finished.has_archive,
        archive_removed: false,
        webhook: order.request.webhook,
    }
}
