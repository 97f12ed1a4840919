//! The local worker: claims queued executions whenever this process has a slot free.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::execution;
use crate::failpoint::{Point, reach};
use crate::runner::Runner;

/// Sleeps until work is announced or a tick passes, then claims until nothing is queued.
pub async fn work(runner: Arc<Runner>) {
    let announced_or_tick = || async {
        let _ = tokio::time::timeout(runner.config.queue_tick, runner.queued.notified()).await;
    };
    loop {
        // The permit is asked for before the claim and waits in line: when work is queued, the next
        // free slot goes to the queue and not to whoever comes by.
        while let Some(permit) = runner.closing.run_until_cancelled(slot(&runner)).await {
            if !claim(&runner, permit).await {
                break;
            }
        }
        if runner.closing.run_until_cancelled(announced_or_tick()).await.is_none() {
            return;
        }
    }
}

async fn slot(runner: &Runner) -> OwnedSemaphorePermit {
    Arc::clone(&runner.slots).acquire_owned().await.expect("the semaphore is never closed")
}

/// Starts one queued execution; false when there was none.
async fn claim(runner: &Arc<Runner>, permit: OwnedSemaphorePermit) -> bool {
    match runner.store.claim_next(&runner.config.owner, runner.lease_ms()).await {
        Ok(Some((execution, lease))) => {
            reach(Point::Claim);
            let runner = Arc::clone(runner);
            runner.tasks.clone().spawn(execution::claimed(runner, execution, lease, permit));
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(%error, "claiming a queued execution failed");
            false
        }
    }
}
