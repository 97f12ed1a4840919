//! The worker of this process: claims queued executions whenever a slot is free.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::execution;
use crate::failpoint::{Point, reach};
use crate::runner::Runner;

/// Sleeps until an execution is queued or a tick passes, then claims until nothing is queued.
pub(crate) async fn work(runner: Arc<Runner>) {
    let queued_or_tick = || async {
        let _ = tokio::time::timeout(runner.config.queue_tick, runner.queued.notified()).await;
    };
    loop {
        // The slot is acquired before the claim, in line with all other requests for one: while
        // work is queued, the next free slot goes to the queue and not to a new request.
        while let Some(slot) = runner.closing.run_until_cancelled(acquire_slot(&runner)).await {
            if !claim(&runner, slot).await {
                break;
            }
        }
        if runner.closing.run_until_cancelled(queued_or_tick()).await.is_none() {
            return;
        }
    }
}

async fn acquire_slot(runner: &Runner) -> OwnedSemaphorePermit {
    Arc::clone(&runner.slots).acquire_owned().await.expect("the semaphore is never closed")
}

/// Starts one queued execution; false when there is none.
async fn claim(runner: &Arc<Runner>, slot: OwnedSemaphorePermit) -> bool {
    match runner.store.claim_next(&runner.config.owner, runner.lease_ms()).await {
        Ok(Some((execution, lease))) => {
            reach(Point::Claim);
            let runner = Arc::clone(runner);
            runner.tasks.clone().spawn(execution::run_claimed(runner, execution, lease, slot));
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(%error, "claiming a queued execution failed");
            false
        }
    }
}
