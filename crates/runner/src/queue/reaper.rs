//! Removes what dead workers leave: leases, sandboxes and incomplete blobs; and the archives of
//! deleted skills and the blobs of deleted files.

use std::sync::Arc;

use sandbox::Owner;
use store::{FencedExecution, ReapedExecution, StaleLeases, StoreError};

use crate::RunError;
use crate::artifacts;
use crate::runner::Runner;

/// Runs before anything else in this process: first the sandboxes of dead owners end, then their
/// executions, so that no sandbox outlives the record of its execution.
pub(crate) async fn recover(runner: &Runner) -> Result<(), RunError> {
    let config = &runner.config;
    sweep_sandboxes(runner).await;
    reap_stale(runner, StaleLeases::Expired).await?;
    if config.exclusive_store {
        reap_stale(runner, StaleLeases::NotOwnedBy(&config.owner)).await?;
    }
    Ok(())
}

/// Looks for expired leases until the runner is closed.
pub(crate) async fn reap(runner: Arc<Runner>) {
    let tick = runner.config.reap_tick;
    while runner.closed.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        if let Err(error) = reap_stale(&runner, StaleLeases::Expired).await {
            tracing::warn!(%error, "looking for expired leases failed");
            // While the database is unreachable, no worker can extend its leases. Living workers
            // get time to do so after it is back, before their leases count as expired.
            runner.closed.run_until_cancelled(tokio::time::sleep(runner.config.lease / 2)).await;
        }
        if !runner.config.archives_read_only {
            runner.catalogue.remove_unused_archives(store::now()).await;
        }
        runner.catalogue.remove_unused_blobs(store::now()).await;
    }
}

/// Looks for sandboxes of dead owners until the runner is closed. This is a loop of its own, because
/// an engine that does not answer must not delay the reaper of leases.
pub(crate) async fn sweep_orphans(runner: Arc<Runner>) {
    // A sandbox is removed when two sweeps in a row found it without an owner. With two sweeps per
    // tick an orphan is removed within three ticks.
    let tick = runner.config.reap_tick / 2;
    while runner.closed.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        sweep_sandboxes(&runner).await;
    }
}

async fn sweep_sandboxes(runner: &Runner) {
    let Some(launcher) = &runner.launcher else { return };
    match launcher.sweep(&Owner(runner.config.owner.clone())).await {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed sandboxes of a dead process"),
        Err(error) => tracing::error!(%error, "removing sandboxes of dead processes failed"),
    }
}

/// Requeues or fails the executions of stale leases. First the leases are fenced and the blobs of
/// their attempts removed: once a row has ended, no loop finds it again. A worker that is only late
/// is fenced when it records, and then removes what it wrote since.
async fn reap_stale(runner: &Runner, stale: StaleLeases<'_>) -> Result<(), StoreError> {
    let reaper = format!("{}-reaper", runner.config.owner);
    for FencedExecution { execution_id, tenant, token } in
        runner.store.fence(stale, &reaper, runner.lease_ms()).await?
    {
        tracing::warn!(%execution_id, %tenant, "an execution's worker lost its lease");
        artifacts::discard(&runner.blobs, &tenant, execution_id, token).await;
    }
    for ReapedExecution { execution_id, requeued, .. } in
        runner.store.reap(&reaper, runner.config.max_attempts).await?
    {
        match requeued {
            true => {
                runner.meters.requeued.add();
                runner.queued.notify_one();
            }
            false => {
                runner.meters.given_up.add();
                runner.notify_ended(execution_id);
            }
        }
    }
    Ok(())
}
