//! What other processes announce, turned into wake-ups here. Everybody who is woken looks for
//! himself; what was never announced is found by the ticks and the heartbeat.

use std::sync::Arc;

use store::{Notification, Notifications};

use crate::leases::StopReason;
use crate::runner::Runner;

/// Listens until the runner is closed.
pub async fn hear(runner: Arc<Runner>, mut announcements: Notifications) {
    while let Some(Some(announcement)) =
        runner.closed.run_until_cancelled(announcements.next()).await
    {
        match announcement {
            Notification::Queued => runner.queued.notify_one(),
            Notification::Cancel(id) => runner.leases.stop(id, StopReason::Cancelled),
            Notification::Ended(id) => runner.ended(id),
            Notification::Watch(id) => runner.leases.watch(id),
            Notification::Logs(id) => runner.readers.ring(id),
            Notification::Missed => look_everywhere(&runner).await,
        }
    }
}

/// After a gap: the heartbeat brings back who is to be stopped and who is watched, all others look
/// at their row.
async fn look_everywhere(runner: &Runner) {
    runner.queued.notify_one();
    runner.waiters.ring_all();
    runner.readers.ring_all();
    runner.leases.beat(&runner.store, runner.lease_ms()).await;
}
