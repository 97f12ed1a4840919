//! Deletes executions after their retention time, by one server at a time and in batches: first an
//! execution's blobs, then its rows, so that a crash in between leaves nothing that is not found
//! again. Executions that have not ended are never touched.

use std::sync::Arc;
use std::time::Duration;

use store::{ExpiredExecution, Micros};

use crate::RunError;
use crate::artifacts;
use crate::runner::Runner;

/// Executions that are deleted in one batch.
const BATCH_SIZE: i64 = 100;
/// How long the segments of watched logs are kept after the end. Subscribers that lost their server
/// reconnect sooner; later ones read the whole log from the record.
const SEGMENT_RETENTION: Duration = Duration::from_secs(3600);
/// How long a server that died during the duty keeps the others from it.
const DUTY_LEASE_MS: i64 = 300_000;

const DUTY: &str = "retention duty";

/// The parts of an execution that can be deleted before the execution itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExecutionPart {
    Logs,
    Artifacts,
}

/// Deletes old executions at every tick until the runner is closed.
pub(crate) async fn run_retention(runner: Arc<Runner>) {
    let tick = runner.config.retention_tick;
    while runner.closed.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        if let Err(error) = runner.delete_expired(store::now()).await {
            tracing::warn!(%error, "deleting old executions failed");
        }
    }
}

impl Runner {
    /// Deletes what is past its retention at this time. False when another server has the duty.
    pub async fn delete_expired(&self, now: Micros) -> Result<bool, RunError> {
        let retention = self.config.retention;
        let before = |kept: Duration| now - i64::try_from(kept.as_micros()).unwrap_or(now);
        if !self.delete_log_segments(before(SEGMENT_RETENTION)).await? {
            return Ok(false);
        }
        for (part, kept) in
            [(ExecutionPart::Logs, retention.logs), (ExecutionPart::Artifacts, retention.artifacts)]
        {
            if let Some(kept) = kept
                && !self.delete_part(part, before(kept)).await?
            {
                return Ok(false);
            }
        }
        match retention.executions {
            Some(kept) => self.delete_whole(before(kept)).await,
            None => Ok(true),
        }
    }

    async fn delete_log_segments(&self, until: Micros) -> Result<bool, RunError> {
        loop {
            if !self.hold_duty().await? {
                return Ok(false);
            }
            if self.store.delete_log_segments(until, BATCH_SIZE).await? == 0 {
                return Ok(true);
            }
        }
    }

    async fn delete_part(&self, part: ExecutionPart, until: Micros) -> Result<bool, RunError> {
        let mut progress = self.store.get_progress(part.progress_key()).await?;
        loop {
            if !self.hold_duty().await? {
                return Ok(false);
            }
            let ended =
                self.store.list_ended_between(progress.as_deref(), until, BATCH_SIZE).await?;
            let Some(last) = ended.last().map(ExpiredExecution::cursor) else { return Ok(true) };
            match part {
                ExecutionPart::Logs => self.store.delete_logs(&ended).await?,
                ExecutionPart::Artifacts => {
                    self.remove_blobs(&ended).await?;
                    self.store.delete_artifacts(&ended).await?;
                }
            }
            self.store.set_progress(part.progress_key(), &last).await?;
            progress = Some(last);
        }
    }

    async fn delete_whole(&self, until: Micros) -> Result<bool, RunError> {
        loop {
            if !self.hold_duty().await? {
                return Ok(false);
            }
            let ended = self.store.list_ended_before(until, BATCH_SIZE).await?;
            if ended.is_empty() {
                return Ok(true);
            }
            self.remove_blobs(&ended).await?;
            self.store.delete_executions(&ended).await?;
        }
    }

    async fn hold_duty(&self) -> Result<bool, RunError> {
        Ok(!self.closed.is_cancelled()
            && self.store.acquire_or_renew_duty(DUTY, &self.config.owner, DUTY_LEASE_MS).await?)
    }

    async fn remove_blobs(&self, ended: &[ExpiredExecution]) -> Result<(), RunError> {
        for ExpiredExecution { execution_id, tenant, attempts, .. } in
            ended.iter().filter(|ended| ended.may_have_blobs)
        {
            for attempt in 1..=i64::from(*attempts) {
                artifacts::remove(&self.blobs, tenant, *execution_id, attempt).await?;
            }
        }
        Ok(())
    }
}

impl ExecutionPart {
    /// The key under which the progress is stored, so that finished executions are not read again.
    fn progress_key(self) -> &'static str {
        match self {
            ExecutionPart::Logs => "logs forgotten until",
            ExecutionPart::Artifacts => "artifacts forgotten until",
        }
    }
}
