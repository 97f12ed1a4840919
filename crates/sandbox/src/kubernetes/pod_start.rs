//! The wait for a created pod: until its guest runs, or until it is clear that it will not.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::client::{ClusterClient, setup_error};
use super::image_pins::RunningImages;
use super::pod_state::{EndCause, PendingPod, PodState, StartProblem};
use super::watch::PodSubscription;
use crate::launcher::LaunchError;

/// From being scheduled to a running guest. Images are pulled within this time.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How often a pod is requested by name while it is waited for, in addition to the watch.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Waits for a node until `until`, and then for the start on that node.
pub(super) async fn wait_until_running(
    client: &ClusterClient,
    name: &str,
    subscription: &mut PodSubscription,
    image: &str,
    until: Instant,
) -> Result<RunningImages, LaunchError> {
    let mut start_deadline = None;
    loop {
        let state = subscription.state();
        let scheduled = matches!(&state, PodState::Pending(pending) if pending.scheduled);
        // The time to start counts from the first state on a node: a pod that waited long for
        // quota must not have less time to pull its image.
        let deadline = match start_deadline {
            None if scheduled => *start_deadline.insert(Instant::now() + START_TIMEOUT),
            None => until,
            Some(deadline) => deadline,
        };
        if let Some(result) = start_result(&state, image, Instant::now() >= deadline) {
            return result;
        }
        tokio::select! {
            () = subscription.changed() => {}
            () = sleep_until(deadline.min(Instant::now() + POLL_INTERVAL)) => {
                // An error is ignored: the API server may respond again before the deadline.
                if let Ok(found) = client.get(name).await {
                    subscription.update(found.as_ref());
                }
            }
        }
    }
}

/// What a state means for the launch; `None` while the pod can still start in time.
fn start_result(
    state: &PodState,
    image: &str,
    is_overdue: bool,
) -> Option<Result<RunningImages, LaunchError>> {
    let unfit = |message: &str| {
        Err(LaunchError::ImageUnfit { image: image.to_owned(), why: message.to_owned() })
    };
    Some(match state {
        PodState::Running(images) => Ok(images.clone()),
        PodState::Ended(end) => Err(match end.cause {
            EndCause::Rejected | EndCause::Preempted | EndCause::Evicted => {
                LaunchError::NoRoom(end.message.clone())
            }
            EndCause::Exited
            | EndCause::OutOfMemory
            | EndCause::StorageExceeded
            | EndCause::NodeLost
            | EndCause::Deadline
            | EndCause::Deleted
            | EndCause::NotStarted => {
                setup_error("start a pod", format!("{:?}: {}", end.cause, end.message))
            }
        }),
        PodState::Pending(PendingPod { problem: StartProblem::ImageNotFound, message, .. }) => {
            unfit(message)
        }
        PodState::Pending(PendingPod { problem: StartProblem::Unrecoverable, message, .. }) => {
            Err(setup_error("start a pod", message.clone()))
        }
        // The other problems may be temporary, so they fail the launch only at the deadline.
        PodState::Pending(_) | PodState::Unknown | PodState::Missing if !is_overdue => {
            return None;
        }
        PodState::Pending(PendingPod { problem: StartProblem::Image, message, .. }) => {
            unfit(message)
        }
        PodState::Pending(PendingPod { scheduled: false, message, .. }) => {
            Err(LaunchError::NoRoom(message.clone()))
        }
        PodState::Pending(PendingPod { message, .. }) => {
            let message =
                if message.is_empty() { "its node did not start it in time" } else { message };
            Err(setup_error("start a pod", message.to_owned()))
        }
        PodState::Unknown | PodState::Missing => {
            Err(setup_error("start a pod", "the API server reported no state of it in time"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::pod_state::PodEnd;

    fn pending(scheduled: bool, problem: StartProblem) -> PodState {
        PodState::Pending(PendingPod { scheduled, problem, message: "why".to_owned() })
    }

    #[test]
    fn a_launch_fails_at_once_only_for_permanent_problems() {
        use LaunchError::{ImageUnfit, NoRoom, Setup};
        let ended = |cause| PodState::Ended(PodEnd { cause, message: "why".to_owned() });
        for (state, is_overdue) in [
            (pending(false, StartProblem::None), false),
            (pending(true, StartProblem::Image), false),
            (PodState::Unknown, false),
        ] {
            assert!(start_result(&state, "i", is_overdue).is_none(), "{state:?}");
        }
        let error = |state: PodState, is_overdue| match start_result(&state, "i", is_overdue) {
            Some(Err(error)) => error,
            other => panic!("{state:?}: {other:?}"),
        };
        assert!(matches!(
            start_result(&PodState::Running(RunningImages::default()), "i", true),
            Some(Ok(_))
        ));
        assert!(
            matches!(error(pending(false, StartProblem::None), true), NoRoom(text) if text == "why")
        );
        assert!(
            matches!(error(pending(true, StartProblem::Image), true), ImageUnfit { image, .. } if image == "i")
        );
        assert!(matches!(
            error(pending(true, StartProblem::ImageNotFound), false),
            ImageUnfit { .. }
        ));
        assert!(matches!(error(pending(true, StartProblem::Unrecoverable), false), Setup { .. }));
        assert!(matches!(error(pending(true, StartProblem::None), true), Setup { .. }));
        assert!(matches!(error(ended(EndCause::Rejected), false), NoRoom(_)));
        assert!(matches!(error(ended(EndCause::NotStarted), false), Setup { .. }));
    }
}
