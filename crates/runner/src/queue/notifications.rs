//! Turns notifications of the store into wake-ups in this process. A notification only says where
//! to look: every woken task reads the row itself. Lost notifications are made up for by the ticks
//! and the heartbeat.

use std::sync::Arc;

use store::{Notification, Notifications};

use crate::queue::leases::StopReason;
use crate::runner::Runner;

/// Handles notifications until the runner is closed.
pub(crate) async fn listen(runner: Arc<Runner>, mut notifications: Notifications) {
    while let Some(Some(notification)) =
        runner.closed.run_until_cancelled(notifications.next()).await
    {
        match notification {
            Notification::Queued => runner.queued.notify_one(),
            Notification::Cancel(id) => runner.leases.stop(id, StopReason::Cancelled),
            Notification::Ended(id) => runner.notify_ended(id),
            Notification::Watch(id) => runner.leases.watch(id),
            Notification::Logs(id) => runner.subscribers.notify(id),
            Notification::Missed => check_everything(&runner).await,
        }
    }
}

/// After a gap in the notifications: the heartbeat returns which executions are to be cancelled or
/// are watched, and all waiters and subscribers read their row.
async fn check_everything(runner: &Runner) {
    runner.queued.notify_one();
    runner.waiters.notify_all();
    runner.subscribers.notify_all();
    runner.leases.send_heartbeat(&runner.store, runner.lease_ms()).await;
}
