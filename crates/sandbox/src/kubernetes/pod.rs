//! One pod from its creation to its removal. It is always removed: on request, or when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use guest::jail::Counters;
use k8s_openapi::api::core::v1 as core;
use tokio::runtime;
use tokio::time::{Instant, sleep, timeout};

use super::check;
use super::client::{ClusterClient, PodCreateError, setup_error};
use super::image_pins::RunningImages;
use super::pod_removal::{self, PodRemoval, RemovalTask};
use super::pod_start;
use super::pod_state::{EndCause, PodEnd, PodState};
use super::stream::PodStream;
use super::sweep::ActivePodGuard;
use super::watch::{PodSubscription, PodWatch};
use crate::guest::{ExternalEnd, GuestHandle};
use crate::launcher::LaunchError;

/// Delay between attempts to create a pod while the quota is exceeded.
const QUOTA_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Attempts to attach to a container. One that is reported as running may need a moment until its
/// kubelet accepts an attach.
const MAX_ATTACH_ATTEMPTS: u32 = 10;
const ATTACH_RETRY_DELAY: Duration = Duration::from_millis(500);

/// How long a caller waits for the removal of a pod. After that the removal goes on in the
/// background, and a sweep is the last resort.
const REMOVAL_WAIT_TIMEOUT: Duration = Duration::from_secs(15);

/// The pod of one run.
pub(super) struct SandboxPod {
    client: ClusterClient,
    name: String,
    /// Runs the removal when this is dropped outside of any task.
    runtime: runtime::Handle,
    removal: PodRemoval,
    subscription: Option<PodSubscription>,
    active_guard: Option<ActivePodGuard>,
    /// How long its removal is retried while the API server does not respond.
    removal_timeout: Duration,
    /// The API server has responded to the creation, so a missing pod is really gone.
    creation_confirmed: bool,
    /// The guest's side of the stream ended before ours.
    guest_disconnected: Arc<AtomicBool>,
}

impl SandboxPod {
    /// Creates a pod, waiting for quota until `until`, and rejects one that the API server made
    /// weaker than requested. The guard marks the pod as active until its removal has ended.
    pub(super) async fn create(
        client: &ClusterClient,
        watch: &PodWatch,
        (active_guard, removal_timeout): (ActivePodGuard, Duration),
        body: &core::Pod,
        until: Instant,
    ) -> Result<SandboxPod, LaunchError> {
        let name = body.metadata.name.clone().unwrap_or_default();
        // The value exists before the request: the pod may have been created even if the response
        // is lost, and then dropping this value removes it.
        let mut pod = SandboxPod {
            client: client.clone(),
            runtime: runtime::Handle::current(),
            removal: PodRemoval::NotStarted,
            subscription: Some(watch.subscribe(&name)),
            active_guard: Some(active_guard),
            removal_timeout,
            creation_confirmed: false,
            guest_disconnected: Arc::default(),
            name,
        };
        let created = pod.create_with_retries(body, until).await?;
        pod.creation_confirmed = true;
        let weakened = check::find_weakened(body, &created);
        if !weakened.is_empty() {
            pod.wait_until_removed().await;
            return Err(LaunchError::Weakened(weakened));
        }
        if let Some(subscription) = &pod.subscription {
            subscription.update(Some(&created));
        }
        Ok(pod)
    }

    async fn create_with_retries(
        &mut self,
        body: &core::Pod,
        until: Instant,
    ) -> Result<core::Pod, LaunchError> {
        loop {
            match self.client.create(body).await {
                Ok(created) => return Ok(created),
                // An earlier attempt, whose response was lost, has created it.
                Err(PodCreateError::AlreadyExists) => {
                    let created = self.client.get(&self.name).await?;
                    return created.ok_or_else(|| {
                        setup_error("create a pod", "it was created and has been deleted since")
                    });
                }
                Err(PodCreateError::QuotaExceeded(message))
                    if Instant::now() + QUOTA_RETRY_DELAY >= until =>
                {
                    self.creation_confirmed = true;
                    return Err(LaunchError::NoRoom(message));
                }
                Err(PodCreateError::QuotaExceeded(_)) => sleep(QUOTA_RETRY_DELAY).await,
                Err(PodCreateError::Rejected(error)) => {
                    // No pod exists, so the removal does not have to wait for one to appear.
                    self.creation_confirmed = true;
                    return Err(error);
                }
                Err(PodCreateError::Unconfirmed(error)) => return Err(error),
            }
        }
    }

    /// Waits until the guest runs, and returns its images. The pod has until `until` to be
    /// scheduled, and then [`pod_start::START_TIMEOUT`] to start on its node.
    pub(super) async fn wait_until_running(
        &mut self,
        image: &str,
        until: Instant,
    ) -> Result<RunningImages, LaunchError> {
        let Some(mut subscription) = self.subscription.take() else {
            return Err(removed_error(&self.name));
        };
        let images = pod_start::wait_until_running(
            &self.client, &self.name, &mut subscription, image, until,
        )
        .await;
        self.subscription = Some(subscription);
        if images.is_err() {
            self.wait_until_removed().await;
        }
        images
    }

    /// Attaches to the standard streams of the guest, which waits for its first frame.
    pub(super) async fn attach(&mut self) -> Result<PodStream, LaunchError> {
        let mut attempt = 0;
        let attached = loop {
            attempt += 1;
            match self.client.attach(&self.name).await {
                Ok(process) => break Ok(process),
                Err(_) if attempt < MAX_ATTACH_ATTEMPTS && !self.has_ended() => {
                    sleep(ATTACH_RETRY_DELAY).await
                }
                Err(error) => break Err(error),
            }
        };
        let stream = attached.and_then(|process| {
            let subscription =
                self.subscription.as_ref().ok_or_else(|| removed_error(&self.name))?;
            let (state, guest_disconnected) =
                (subscription.receiver(), self.guest_disconnected.clone());
            PodStream::new(process, (&self.client, &self.name), state, guest_disconnected)
        });
        if stream.is_err() {
            self.wait_until_removed().await;
        }
        stream
    }

    fn has_ended(&mut self) -> bool {
        self.subscription
            .as_mut()
            .is_none_or(|subscription| matches!(subscription.state(), PodState::Ended(_)))
    }
}

fn removed_error(name: &str) -> LaunchError {
    setup_error("use a pod", format!("{name} is being removed"))
}

#[async_trait]
impl GuestHandle for SandboxPod {
    fn kill(&mut self) {
        if matches!(self.removal, PodRemoval::NotStarted) {
            let task = RemovalTask {
                client: self.client.clone(),
                name: self.name.clone(),
                subscription: self.subscription.take(),
                active_guard: self.active_guard.take(),
                guest_disconnected: self.guest_disconnected.load(Ordering::SeqCst),
                creation_confirmed: self.creation_confirmed,
                timeout: self.removal_timeout,
            };
            self.removal = PodRemoval::Running(self.runtime.spawn(pod_removal::run(task)));
        }
    }

    async fn wait_until_removed(&mut self) -> Counters {
        self.kill();
        if let PodRemoval::Running(task) = &mut self.removal {
            let result = timeout(REMOVAL_WAIT_TIMEOUT, task).await;
            if result.is_err() {
                tracing::warn!(pod = %self.name, "a pod is still being removed; not waiting any longer");
            }
            // A task that panicked, or was cancelled with its runtime, has no result.
            self.removal = PodRemoval::Done(result.unwrap_or(Ok(None)).unwrap_or_default());
        }
        let out_of_memory = matches!(
            &self.removal,
            PodRemoval::Done(Some(PodEnd { cause: EndCause::OutOfMemory, .. }))
        );
        Counters { oom_kills: u64::from(out_of_memory), ..Counters::default() }
    }

    fn external_end(&self) -> Option<ExternalEnd> {
        match &self.removal {
            PodRemoval::Done(Some(end)) => {
                Some(ExternalEnd { outcome: end.cause.outcome(), cause: end.cause.because() })
            }
            PodRemoval::Done(None) | PodRemoval::NotStarted | PodRemoval::Running(_) => None,
        }
    }
}

impl Drop for SandboxPod {
    fn drop(&mut self) {
        self.kill();
    }
}
