//! The removal of a pod, after finding out how it ended.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::client::ClusterClient;
use super::pod_state::{EndCause, PodEnd, PodState};
use super::sweep::ActivePodGuard;
use super::watch::PodSubscription;

/// How long the cluster may take to report why a guest disconnected.
const END_CAUSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a pod is requested by name during that time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Delay between attempts to delete a pod.
const REMOVAL_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Attempts to delete a pod whose creation was never confirmed. The creation may still be under way
/// in the API server, so a response "not found" does not mean that the pod will not appear.
const MAX_UNCONFIRMED_DELETES: u32 = 10;

/// The progress of a pod's removal.
pub(super) enum PodRemoval {
    NotStarted,
    Running(JoinHandle<Option<PodEnd>>),
    /// With the end that the cluster reported, if the pod ended by itself.
    Done(Option<PodEnd>),
}

/// What the removal of one pod needs.
pub(super) struct RemovalTask {
    pub client: ClusterClient,
    pub name: String,
    pub subscription: Option<PodSubscription>,
    pub active_guard: Option<ActivePodGuard>,
    pub guest_disconnected: bool,
    pub creation_confirmed: bool,
    /// How long the deletion is retried while the API server does not respond.
    pub timeout: Duration,
}

/// Determines how the pod ended, and deletes it.
pub(super) async fn run(mut task: RemovalTask) -> Option<PodEnd> {
    // Before the deletion: afterwards the API server reports only that the pod was deleted.
    let end = match task.subscription.take() {
        Some(subscription) => find_end(&task, subscription).await,
        None => None,
    };
    if let Some(end) = end.as_ref().filter(|end| end.cause != EndCause::Exited) {
        tracing::warn!(pod = %task.name, cause = ?end.cause, said = %end.message, "a pod was ended from outside");
    }
    delete_with_retries(&task).await;
    // From here on a sweep may remove what is left.
    drop(task.active_guard);
    end
}

/// How the pod ended, if it ended by itself. If the guest disconnected, the cluster gets some time
/// to report the reason; otherwise we end the pod, and there is nothing to wait for.
async fn find_end(task: &RemovalTask, mut subscription: PodSubscription) -> Option<PodEnd> {
    let limit = if task.guest_disconnected { END_CAUSE_TIMEOUT } else { Duration::ZERO };
    let started = Instant::now();
    loop {
        if let PodState::Ended(end) = subscription.state() {
            return Some(end);
        }
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            return None;
        }
        if timeout(left.min(POLL_INTERVAL), subscription.changed()).await.is_err()
            && let Ok(Ok(found)) = timeout(left, task.client.get(&task.name)).await
        {
            subscription.update(found.as_ref());
        }
    }
}

async fn delete_with_retries(task: &RemovalTask) {
    let until = Instant::now() + task.timeout;
    let mut attempt = 0;
    loop {
        attempt += 1;
        match task.client.delete(&task.name).await {
            Ok(true) => return,
            Ok(false) if task.creation_confirmed || attempt >= MAX_UNCONFIRMED_DELETES => return,
            Err(error) if Instant::now() >= until => {
                tracing::error!(%error, pod = %task.name, "a pod could not be removed; a sweep will try again");
                return;
            }
            // Either its creation may still be under way, or the API server is away.
            Ok(false) | Err(_) => sleep(REMOVAL_RETRY_DELAY).await,
        }
    }
}
