//! One pod from its creation to its removal. It is removed whatever happens: asked to, or dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use guest::jail::Counters;
use k8s_openapi::api::core::v1 as core;
use tokio::runtime;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::check;
use super::cluster::{Cluster, Refusal, setup};
use super::pins::RanImages;
use super::standing::{Cause, End, Standing, Trouble, Waiting};
use super::stream::Attached;
use super::sweep::Holding;
use super::watch::{Following, Watch};
use crate::guest::{ExternalEnd, GuestHandle};
use crate::launcher::LaunchError;

/// From a node to a guest that runs: images are pulled in this time.
pub const STARTING: Duration = Duration::from_secs(120);

/// Between two attempts to make a pod for which there is no quota.
const QUOTA_PAUSE: Duration = Duration::from_secs(1);

/// How often a pod is asked for while it is waited for, beside what the watch says.
const ASKED_AGAIN: Duration = Duration::from_secs(5);

/// A container that was said to run may need a moment until it can be attached to.
const ATTACHES: u32 = 10;
const ATTACH_PAUSE: Duration = Duration::from_millis(500);

/// How long the cluster may take to say why a guest went away.
const SETTLING: Duration = Duration::from_secs(5);

/// How long whoever waits for the end of a pod waits at most; the removal goes on behind it, and a
/// sweep comes after that.
const WAITED_FOR: Duration = Duration::from_secs(15);

/// Between two attempts to remove a pod.
const REMOVAL_PAUSE: Duration = Duration::from_secs(1);

/// A pod whose making was not answered may still come; it is removed so often.
const UNANSWERED: u32 = 10;

pub struct Pod {
    cluster: Cluster,
    name: String,
    /// Where the end is worked on when this is dropped outside of any task.
    runtime: runtime::Handle,
    ending: Ending,
    following: Option<Following>,
    holding: Option<Holding>,
    /// How long its removal is tried while the API server does not answer.
    removing: Duration,
    /// The API server has said that it made it.
    answered: bool,
    /// The guest's side of the stream ended before ours.
    hung_up: Arc<AtomicBool>,
}

enum Ending {
    NotBegun,
    Begun(JoinHandle<Option<End>>),
    /// It was waited for, and this is what the cluster said.
    Over(Option<End>),
}

impl Pod {
    /// Asks for a pod, waiting for quota until `until`, and refuses one that was made weaker than
    /// it was asked for. It is held as long as anything here works on it, and its removal is tried
    /// for so long.
    pub async fn create(
        cluster: &Cluster,
        watch: &Watch,
        (holding, removing): (Holding, Duration),
        body: &core::Pod,
        until: Instant,
    ) -> Result<Pod, LaunchError> {
        let name = body.metadata.name.clone().unwrap_or_default();
        // It may exist from here on: that the answer to a creation was lost does not mean that
        // nothing was created.
        let mut pod = Pod {
            cluster: cluster.clone(),
            runtime: runtime::Handle::current(),
            ending: Ending::NotBegun,
            following: Some(watch.follow(&name)),
            holding: Some(holding),
            removing,
            answered: false,
            hung_up: Arc::default(),
            name,
        };
        let made = pod.made(body, until).await?;
        pod.answered = true;
        let weakened = check::weakened(body, &made);
        if !weakened.is_empty() {
            pod.wait_until_removed().await;
            return Err(LaunchError::Weakened(weakened));
        }
        if let Some(following) = &pod.following {
            following.saw(Some(&made));
        }
        Ok(pod)
    }

    async fn made(&mut self, body: &core::Pod, until: Instant) -> Result<core::Pod, LaunchError> {
        loop {
            match self.cluster.create(body).await {
                Ok(made) => return Ok(made),
                Err(Refusal::Made) => {
                    let made = self.cluster.get(&self.name).await?;
                    return made
                        .ok_or_else(|| setup("create a pod", "it was made and is gone again"));
                }
                Err(Refusal::NoRoom(said)) if Instant::now() + QUOTA_PAUSE >= until => {
                    self.answered = true;
                    return Err(LaunchError::NoRoom(said));
                }
                Err(Refusal::NoRoom(_)) => sleep(QUOTA_PAUSE).await,
                Err(Refusal::Refused(error)) => {
                    self.answered = true;
                    return Err(error);
                }
                Err(Refusal::Failed(error)) => return Err(error),
            }
        }
    }

    /// Waits until the guest runs, and returns of which images: for a node until `until`, then for
    /// the node a while longer.
    pub async fn running(&mut self, image: &str, until: Instant) -> Result<RanImages, LaunchError> {
        let Some(mut following) = self.following.take() else { return Err(gone(&self.name)) };
        let ran = wait(&self.cluster, &self.name, &mut following, image, until).await;
        self.following = Some(following);
        if ran.is_err() {
            self.wait_until_removed().await;
        }
        ran
    }

    /// Takes hold of the standard streams of the guest, which waits for its first word.
    pub async fn attach(&mut self) -> Result<Attached, LaunchError> {
        let mut attempt = 0;
        let attached = loop {
            attempt += 1;
            match self.cluster.attach(&self.name).await {
                Ok(process) => break Ok(process),
                Err(_) if attempt < ATTACHES && !self.is_over() => sleep(ATTACH_PAUSE).await,
                Err(error) => break Err(error),
            }
        };
        let streams = attached.and_then(|process| {
            let standing = self.following.as_ref().ok_or_else(|| gone(&self.name))?.view();
            Attached::new(process, (&self.cluster, &self.name), standing, self.hung_up.clone())
        });
        if streams.is_err() {
            self.wait_until_removed().await;
        }
        streams
    }

    fn is_over(&mut self) -> bool {
        self.following
            .as_mut()
            .is_none_or(|following| matches!(following.standing(), Standing::Over(_)))
    }
}

fn gone(name: &str) -> LaunchError {
    setup("use a pod", format!("{name} is being removed"))
}

async fn wait(
    cluster: &Cluster,
    name: &str,
    following: &mut Following,
    image: &str,
    until: Instant,
) -> Result<RanImages, LaunchError> {
    let mut started_by = None;
    loop {
        let standing = following.standing();
        let placed = matches!(&standing, Standing::Waiting(waiting) if waiting.placed);
        let started_by = match started_by {
            None if placed => *started_by.insert(Instant::now() + STARTING),
            None => until,
            Some(started_by) => started_by,
        };
        match verdict(&standing, image, Instant::now() >= started_by) {
            Some(verdict) => return verdict,
            None => {
                tokio::select! {
                    () = following.changed() => {}
                    () = tokio::time::sleep_until(started_by.min(Instant::now() + ASKED_AGAIN)) => {
                        // An API server that is away may come back in time.
                        if let Ok(found) = cluster.get(name).await {
                            following.saw(found.as_ref());
                        }
                    }
                }
            }
        }
    }
}

/// What a standing means for a launch; none while there is hope and time.
fn verdict(standing: &Standing, image: &str, late: bool) -> Option<Result<RanImages, LaunchError>> {
    let unfit =
        |said: &str| Err(LaunchError::ImageUnfit { image: image.to_owned(), why: said.to_owned() });
    Some(match standing {
        Standing::Running(images) => Ok(images.clone()),
        Standing::Over(end) => Err(match end.cause {
            Cause::Rejected | Cause::Preempted | Cause::Evicted => {
                LaunchError::NoRoom(end.said.clone())
            }
            _ => setup("start a pod", format!("{:?}: {}", end.cause, end.said)),
        }),
        Standing::Waiting(Waiting { trouble: Trouble::NoSuchImage, said, .. }) => unfit(said),
        Standing::Waiting(Waiting { trouble: Trouble::Hopeless, said, .. }) => {
            Err(setup("start a pod", said.clone()))
        }
        _ if !late => return None,
        Standing::Waiting(Waiting { trouble: Trouble::Image, said, .. }) => unfit(said),
        Standing::Waiting(Waiting { placed: false, said, .. }) => {
            Err(LaunchError::NoRoom(said.clone()))
        }
        Standing::Waiting(Waiting { said, .. }) => {
            let said = if said.is_empty() { "its node did not start it in time" } else { said };
            Err(setup("start a pod", said.to_owned()))
        }
        Standing::Unseen | Standing::Absent => Err(setup("start a pod", "nothing was heard of it")),
    })
}

#[async_trait]
impl GuestHandle for Pod {
    fn kill(&mut self) {
        if matches!(self.ending, Ending::NotBegun) {
            let hung_up = self.hung_up.load(Ordering::SeqCst);
            let (following, holding) = (self.following.take(), self.holding.take());
            let (cluster, name) = (self.cluster.clone(), self.name.clone());
            let (answered, removing) = (self.answered, self.removing);
            self.ending = Ending::Begun(self.runtime.spawn(async move {
                let end = end(&cluster, &name, following, hung_up).await;
                remove(&cluster, &name, answered, removing).await;
                // What is left now is left to the sweep.
                drop(holding);
                end
            }));
        }
    }

    async fn wait_until_removed(&mut self) -> Counters {
        self.kill();
        if let Ending::Begun(task) = &mut self.ending {
            let ended = timeout(WAITED_FOR, task).await;
            if ended.is_err() {
                tracing::warn!(pod = %self.name, "a pod is still being removed; not waiting any longer");
            }
            // A task that panicked, or that a runtime at its end gave up, saw nothing.
            self.ending = Ending::Over(ended.unwrap_or(Ok(None)).unwrap_or_default());
        }
        let out_of_memory =
            matches!(&self.ending, Ending::Over(Some(End { cause: Cause::OutOfMemory, .. })));
        Counters { oom_kills: u64::from(out_of_memory), ..Counters::default() }
    }

    fn external_end(&self) -> Option<ExternalEnd> {
        match &self.ending {
            Ending::Over(Some(end)) => {
                Some(ExternalEnd { outcome: end.cause.outcome(), cause: end.cause.because() })
            }
            _ => None,
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Finds out how it ended, if it did so by itself.
async fn end(
    cluster: &Cluster,
    name: &str,
    following: Option<Following>,
    hung_up: bool,
) -> Option<End> {
    let end = match following {
        Some(following) => {
            ended(cluster, name, following, if hung_up { SETTLING } else { Duration::ZERO }).await
        }
        None => None,
    };
    if let Some(end) = end.as_ref().filter(|end| end.cause != Cause::Exited) {
        tracing::warn!(pod = %name, cause = ?end.cause, said = %end.said, "a pod ended from outside");
    }
    end
}

/// How the pod ended, if that is known within this time.
async fn ended(
    cluster: &Cluster,
    name: &str,
    mut following: Following,
    within: Duration,
) -> Option<End> {
    let asked = Instant::now();
    loop {
        if let Standing::Over(end) = following.standing() {
            return Some(end);
        }
        let left = within.saturating_sub(asked.elapsed());
        if left.is_zero() {
            return None;
        }
        if timeout(left.min(Duration::from_secs(1)), following.changed()).await.is_err()
            && let Ok(Ok(found)) = timeout(left, cluster.get(name)).await
        {
            following.saw(found.as_ref());
        }
    }
}

async fn remove(cluster: &Cluster, name: &str, answered: bool, within: Duration) {
    let until = Instant::now() + within;
    let mut attempt = 0;
    loop {
        attempt += 1;
        match cluster.delete(name).await {
            Ok(true) => return,
            Ok(false) if answered || attempt >= UNANSWERED => return,
            Err(error) if Instant::now() >= until => {
                tracing::error!(%error, pod = %name, "a pod could not be removed; a sweep will try again");
                return;
            }
            // It was not there, and its making may still be under way; or the API server is away.
            Ok(false) | Err(_) => sleep(REMOVAL_PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(placed: bool, trouble: Trouble) -> Standing {
        Standing::Waiting(Waiting { placed, trouble, said: "words".to_owned() })
    }

    #[test]
    fn a_launch_waits_as_long_as_there_is_hope() {
        use LaunchError::{ImageUnfit, NoRoom, Setup};
        let over = |cause| Standing::Over(End { cause, said: "words".to_owned() });
        for (standing, late) in [
            (waiting(false, Trouble::None), false),
            (waiting(true, Trouble::Image), false),
            (Standing::Unseen, false),
        ] {
            assert!(verdict(&standing, "i", late).is_none(), "{standing:?}");
        }
        let error = |standing: Standing, late| match verdict(&standing, "i", late) {
            Some(Err(error)) => error,
            other => panic!("{standing:?}: {other:?}"),
        };
        assert!(matches!(
            verdict(&Standing::Running(RanImages::default()), "i", true),
            Some(Ok(_))
        ));
        assert!(
            matches!(error(waiting(false, Trouble::None), true), NoRoom(said) if said == "words")
        );
        assert!(
            matches!(error(waiting(true, Trouble::Image), true), ImageUnfit { image, .. } if image == "i")
        );
        assert!(matches!(error(waiting(true, Trouble::NoSuchImage), false), ImageUnfit { .. }));
        assert!(matches!(error(waiting(true, Trouble::Hopeless), false), Setup { .. }));
        assert!(matches!(error(waiting(true, Trouble::None), true), Setup { .. }));
        assert!(matches!(error(over(Cause::Rejected), false), NoRoom(_)));
        assert!(matches!(error(over(Cause::NotStarted), false), Setup { .. }));
    }
}
