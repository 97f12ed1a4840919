//! What is left behind: leases, sandboxes and half-written blobs of workers that are gone, and archives of deleted
//! skills.

use std::sync::Arc;

use sandbox::Owner;
use store::Reaped;

use crate::RunError;
use crate::artifacts;
use crate::runner::Runner;

/// Before anything runs here: first the sandboxes of dead owners end, then their executions.
pub async fn recover(runner: &Runner) -> Result<(), RunError> {
    let config = &runner.config;
    match runner.launcher.sweep(&Owner(config.owner.clone())).await {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed sandboxes of an earlier process"),
        Err(error) => tracing::error!(%error, "removing sandboxes of an earlier process failed"),
    }
    let mut reaped = runner.store.reap(store::now(), config.max_attempts).await?;
    if config.exclusive_store {
        reaped.extend(runner.store.reap_owners_except(&config.owner, config.max_attempts).await?);
    }
    clear(runner, &reaped).await;
    Ok(())
}

/// Looks for expired leases until the runner is closed.
pub async fn reap(runner: Arc<Runner>) {
    let tick = runner.config.reap_tick;
    while runner.closed.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        match runner.store.reap(store::now(), runner.config.max_attempts).await {
            Ok(reaped) => clear(&runner, &reaped).await,
            Err(error) => tracing::warn!(%error, "looking for expired leases failed"),
        }
        runner.remove_leftovers().await;
    }
}

/// An execution reaches a guest at most once, so what it put into blobs belongs to nobody when it is given up. Its
/// worker, should it still live, is refused when it records and removes what it wrote since.
async fn clear(runner: &Runner, reaped: &[Reaped]) {
    for Reaped { execution_id, tenant, requeued } in reaped {
        tracing::warn!(%execution_id, %tenant, requeued, "an execution's worker is gone");
        artifacts::discard(&runner.blobs, tenant, *execution_id).await;
        if *requeued {
            runner.queued.notify_one();
        } else {
            runner.waiters.wake(*execution_id);
        }
    }
}
