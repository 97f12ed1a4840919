//! What other processes announce, turned into wake-ups here. Everybody who is woken looks for
//! himself; what was never announced is found by the ticks and the heartbeat.

use std::sync::Arc;

use store::{Announcement, Announcements};

use crate::leases::StopReason;
use crate::runner::Runner;

/// Listens until the runner is closed.
pub async fn hear(runner: Arc<Runner>, mut announcements: Announcements) {
    while let Some(Some(announcement)) =
        runner.closed.run_until_cancelled(announcements.next()).await
    {
        match announcement {
            Announcement::Queued => runner.queued.notify_one(),
            Announcement::Cancel(id) => runner.leases.stop(id, StopReason::Cancelled),
            Announcement::Ended(id) => runner.ended(id),
            Announcement::Watch(id) => runner.leases.watch(id),
            Announcement::Logs(id) => runner.readers.ring(id),
            Announcement::Missed => look_everywhere(&runner).await,
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
