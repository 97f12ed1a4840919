//! What is left behind: leases, sandboxes and half-written blobs of workers that are gone, archives
//! of deleted skills, and blobs of deleted files.

use std::sync::Arc;

use sandbox::Owner;
use store::{FencedExecution, ReapedExecution, StaleLeases, StoreError};

use crate::RunError;
use crate::artifacts;
use crate::runner::Runner;

/// Before anything runs here: first the sandboxes of dead owners end, then their executions.
pub async fn recover(runner: &Runner) -> Result<(), RunError> {
    let config = &runner.config;
    sweep(runner).await;
    give_up(runner, StaleLeases::Expired).await?;
    if config.exclusive_store {
        give_up(runner, StaleLeases::NotOwnedBy(&config.owner)).await?;
    }
    Ok(())
}

/// Looks for expired leases until the runner is closed.
pub async fn reap(runner: Arc<Runner>) {
    let tick = runner.config.reap_tick;
    while runner.closed.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        if let Err(error) = give_up(&runner, StaleLeases::Expired).await {
            tracing::warn!(%error, "looking for expired leases failed");
            // While the database is away nobody can extend a lease. Whoever lives does so as soon
            // as it is back, and is not to be taken for dead before.
            runner.closed.run_until_cancelled(tokio::time::sleep(runner.config.lease / 2)).await;
        }
        if !runner.config.archives_read_only {
            runner.catalogue.remove_unused_archives(store::now()).await;
        }
        runner.catalogue.remove_unused_blobs(store::now()).await;
    }
}

/// Looks for sandboxes of dead owners until the runner is closed. Apart from the leases, because an
/// engine that does not answer must not keep executions from being given up.
pub async fn sweep_orphans(runner: Arc<Runner>) {
    // An orphan is seen twice before it goes: looking twice as often as for leases has it gone
    // within three ticks.
    let tick = runner.config.reap_tick / 2;
    while runner.closed.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        sweep(&runner).await;
    }
}

async fn sweep(runner: &Runner) {
    let Some(launcher) = &runner.launcher else { return };
    match launcher.sweep(&Owner(runner.config.owner.clone())).await {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed sandboxes of a dead process"),
        Err(error) => tracing::error!(%error, "removing sandboxes of dead processes failed"),
    }
}

/// What an attempt put into blobs belongs to nobody when its worker is gone. That goes first: a row
/// that has ended is never looked at again. The worker, should it still live, is refused when it
/// records and removes what it wrote since.
async fn give_up(runner: &Runner, stale: StaleLeases<'_>) -> Result<(), StoreError> {
    let reaper = format!("{}-reaper", runner.config.owner);
    for FencedExecution { execution_id, tenant, token } in
        runner.store.fence(stale, &reaper, runner.lease_ms()).await?
    {
        tracing::warn!(%execution_id, %tenant, "an execution's worker is gone");
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
