//! What ended long ago is forgotten, by one server at a time and bit by bit: first an execution's
//! blobs, then its rows, so that what a crash leaves is found again. Nothing that has not ended is
//! touched.

use std::sync::Arc;
use std::time::Duration;

use store::{ExpiredExecution, Micros};

use crate::RunError;
use crate::artifacts;
use crate::runner::Runner;

/// How many executions are forgotten at once.
const BATCH: i64 = 100;
/// How long followed pieces of a log are kept beside the whole one: readers that lost their server
/// come back sooner.
const SEGMENTS: Duration = Duration::from_secs(3600);
/// How long a server that fell silent keeps the others from this duty.
const DUTY_MS: i64 = 300_000;

const DUTY: &str = "retention duty";

/// The parts of an execution that may go before it goes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Logs,
    Artifacts,
}

/// Looks for what may be forgotten until the runner is closed.
pub async fn retain(runner: Arc<Runner>) {
    let tick = runner.config.retention_tick;
    while runner.closed.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        if let Err(error) = runner.forget_old(store::now()).await {
            tracing::warn!(%error, "forgetting old executions failed");
        }
    }
}

impl Runner {
    /// Forgets what is old enough at this time. False when another server is at it.
    pub async fn forget_old(&self, now: Micros) -> Result<bool, RunError> {
        let retention = self.config.retention;
        let before = |kept: Duration| now - i64::try_from(kept.as_micros()).unwrap_or(now);
        if !self.delete_log_segments(before(SEGMENTS)).await? {
            return Ok(false);
        }
        for (part, kept) in [(Part::Logs, retention.logs), (Part::Artifacts, retention.artifacts)] {
            if let Some(kept) = kept
                && !self.forget_part(part, before(kept)).await?
            {
                return Ok(false);
            }
        }
        match retention.executions {
            Some(kept) => self.forget_whole(before(kept)).await,
            None => Ok(true),
        }
    }

    async fn delete_log_segments(&self, until: Micros) -> Result<bool, RunError> {
        loop {
            if !self.on_duty().await? {
                return Ok(false);
            }
            if self.store.delete_log_segments(until, BATCH).await? == 0 {
                return Ok(true);
            }
        }
    }

    async fn forget_part(&self, part: Part, until: Micros) -> Result<bool, RunError> {
        let mut mark = self.store.get_progress(part.mark()).await?;
        loop {
            if !self.on_duty().await? {
                return Ok(false);
            }
            let ended = self.store.list_ended_between(mark.as_deref(), until, BATCH).await?;
            let Some(last) = ended.last().map(ExpiredExecution::cursor) else { return Ok(true) };
            match part {
                Part::Logs => self.store.delete_logs(&ended).await?,
                Part::Artifacts => {
                    self.remove_blobs(&ended).await?;
                    self.store.delete_artifacts(&ended).await?;
                }
            }
            self.store.set_progress(part.mark(), &last).await?;
            mark = Some(last);
        }
    }

    async fn forget_whole(&self, until: Micros) -> Result<bool, RunError> {
        loop {
            if !self.on_duty().await? {
                return Ok(false);
            }
            let ended = self.store.list_ended_before(until, BATCH).await?;
            if ended.is_empty() {
                return Ok(true);
            }
            self.remove_blobs(&ended).await?;
            self.store.delete_executions(&ended).await?;
        }
    }

    async fn on_duty(&self) -> Result<bool, RunError> {
        Ok(!self.closed.is_cancelled()
            && self.store.acquire_or_renew_duty(DUTY, &self.config.owner, DUTY_MS).await?)
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

impl Part {
    /// The name of the mark of how far this has come: what is done is not looked at again.
    fn mark(self) -> &'static str {
        match self {
            Part::Logs => "logs forgotten until",
            Part::Artifacts => "artifacts forgotten until",
        }
    }
}
