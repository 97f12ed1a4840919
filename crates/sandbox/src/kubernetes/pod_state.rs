//! Translates a pod's status from the API server into its meaning for a run. Pure; it does not
//! depend on time.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus,
};

use super::body::{GUEST, SKILL};
use super::image_pins::{ImageIdentity, RunningImages};
use crate::outcome::Outcome;

/// The longest message of the cluster that we pass on, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// The state of a pod of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PodState {
    /// No event has been received yet.
    Unknown,
    Pending(PendingPod),
    /// The guest runs and waits for its first frame.
    Running(RunningImages),
    Ended(PodEnd),
    /// A list did not have it. Whether it was deleted needs a request by name.
    Missing,
}

/// Why the guest does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingPod {
    /// The scheduler has chosen a node.
    pub scheduled: bool,
    pub problem: StartProblem,
    /// The cluster's own message, or empty.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartProblem {
    None,
    /// The image of the guest could not be pulled, which is not the skill's fault.
    GuestImage,
    /// The image of the skill could not be pulled; another attempt may succeed.
    Image,
    /// The image of the skill cannot be pulled; another attempt would fail too.
    ImageNotFound,
    /// The pod can never start with its configuration.
    Unrecoverable,
}

/// How a pod ended, with the cluster's message about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodEnd {
    pub cause: EndCause,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndCause {
    /// The guest exited.
    Exited,
    OutOfMemory,
    /// It was evicted because of its own disk usage.
    StorageExceeded,
    /// It was evicted because its node was short of resources.
    Evicted,
    Preempted,
    NodeLost,
    /// It reached its own deadline, which is later than that of every run.
    Deadline,
    /// A client deleted it.
    Deleted,
    /// Its node did not have enough resources when it arrived.
    Rejected,
    /// The guest program could not be copied or started.
    NotStarted,
}

impl EndCause {
    /// The outcome of a run that was interrupted by this end.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            EndCause::OutOfMemory => Outcome::OutOfMemory,
            EndCause::StorageExceeded => Outcome::DiskFull,
            EndCause::Exited
            | EndCause::Evicted
            | EndCause::Preempted
            | EndCause::NodeLost
            | EndCause::Deadline
            | EndCause::Deleted
            | EndCause::Rejected
            | EndCause::NotStarted => Outcome::Lost,
        }
    }

    /// A clause for the caller of a run, where it adds to the outcome.
    pub(super) fn because(self) -> Option<&'static str> {
        match self {
            EndCause::Exited
            | EndCause::OutOfMemory
            | EndCause::StorageExceeded
            | EndCause::NotStarted => None,
            EndCause::Evicted => Some("its pod was evicted"),
            EndCause::Preempted => Some("its pod was preempted by another"),
            EndCause::NodeLost => Some("its node was lost"),
            EndCause::Deadline => Some("its pod reached its own deadline"),
            EndCause::Deleted => Some("its pod was deleted"),
            EndCause::Rejected => Some("its node had no resources for its pod"),
        }
    }
}

impl PodState {
    pub(super) fn from_pod(pod: &Pod) -> PodState {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let skill =
            status.and_then(|status| container_state(status.container_statuses.as_deref(), SKILL));
        let terminated = skill.and_then(|state| state.terminated.as_ref());
        let deleted = pod.metadata.deletion_timestamp.is_some();
        // The container's end is reported before the phase changes, and a pod that is being
        // deleted gets no grace period, so neither has to wait for the phase.
        if matches!(phase, "Failed" | "Succeeded") || terminated.is_some() || deleted {
            return PodState::Ended(pod_end(status, terminated, deleted));
        }
        match skill {
            Some(state) if state.running.is_some() => PodState::Running(running_images(status)),
            _ => PodState::Pending(pending_pod(pod, status)),
        }
    }

    /// The state of a pod that no longer exists in the API.
    pub(super) fn deleted() -> PodState {
        PodState::Ended(PodEnd { cause: EndCause::Deleted, message: String::new() })
    }
}

fn container_state<'a>(
    statuses: Option<&'a [ContainerStatus]>,
    name: &str,
) -> Option<&'a ContainerState> {
    statuses?.iter().find(|status| status.name == name)?.state.as_ref()
}

fn running_images(status: Option<&PodStatus>) -> RunningImages {
    let identity = |statuses: Option<&[ContainerStatus]>, name: &str| {
        let status = statuses?.iter().find(|status| status.name == name)?;
        ImageIdentity::parse(&status.image_id)
    };
    RunningImages {
        skill: identity(status.and_then(|status| status.container_statuses.as_deref()), SKILL),
        guest: identity(status.and_then(|status| status.init_container_statuses.as_deref()), GUEST),
    }
}

/// Chooses the most specific cause: the reason on the whole pod, then the disruption condition,
/// then the init container, then the container itself. An evicted pod, for example, also has a
/// terminated container, whose exit code alone would look like the guest's own failure.
fn pod_end(
    status: Option<&PodStatus>,
    terminated: Option<&ContainerStateTerminated>,
    deleted: bool,
) -> PodEnd {
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let message = status.and_then(|status| status.message.as_deref()).unwrap_or_default();
    let pod_message = || one_line(Some(reason), Some(message));
    let guest =
        status.and_then(|status| container_state(status.init_container_statuses.as_deref(), GUEST));
    let guest_failure =
        guest.and_then(|state| state.terminated.as_ref()).filter(|guest| guest.exit_code != 0);
    let (cause, message) = if let Some(cause) = cause_from_reason(reason, message) {
        (cause, pod_message())
    } else if let Some(cause) = status.and_then(cause_from_disruption) {
        (cause, pod_message())
    } else if let Some(guest) = guest_failure {
        (EndCause::NotStarted, one_line(guest.reason.as_deref(), guest.message.as_deref()))
    } else {
        match terminated {
            Some(end) => {
                (cause_from_exit(end), one_line(end.reason.as_deref(), end.message.as_deref()))
            }
            // A node that responds terminates a deleted pod. A lost node leaves the pod in its old
            // state, except that the control plane marks it as not ready.
            None if deleted && status.is_some_and(is_unready) => {
                (EndCause::NodeLost, String::new())
            }
            None if deleted => (EndCause::Deleted, String::new()),
            None => (EndCause::Exited, pod_message()),
        }
    };
    PodEnd { cause, message }
}

fn cause_from_exit(terminated: &ContainerStateTerminated) -> EndCause {
    match terminated.reason.as_deref() {
        Some("OOMKilled") => EndCause::OutOfMemory,
        Some("ContainerCannotRun" | "StartError") => EndCause::NotStarted,
        _ => EndCause::Exited,
    }
}

/// The reasons that the kubelet and the node controller write to the status of a whole pod.
fn cause_from_reason(reason: &str, message: &str) -> Option<EndCause> {
    // The reason is the same for a pod that exceeded its own limits and for a node that is short of
    // resources. Only the kubelet's message distinguishes them.
    const OWN_LIMIT: [&str; 3] =
        ["exceeds the limit", "exceeded its local", "exceeds the total limit"];
    match reason {
        "Evicted" if OWN_LIMIT.iter().any(|text| message.contains(text)) => {
            Some(EndCause::StorageExceeded)
        }
        "Evicted" => Some(EndCause::Evicted),
        "DeadlineExceeded" => Some(EndCause::Deadline),
        "NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated" => Some(EndCause::NodeLost),
        "Preempting" | "Preempted" => Some(EndCause::Preempted),
        "UnexpectedAdmissionError" | "NodeAffinity" => Some(EndCause::Rejected),
        _ if reason.starts_with("OutOf") => Some(EndCause::Rejected),
        _ => None,
    }
}

/// Whether the pod was running and its node has stopped responding since.
fn is_unready(status: &PodStatus) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    status.phase.as_deref() == Some("Running")
        && conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "False")
}

/// Newer clusters report in a condition which component removed a pod.
fn cause_from_disruption(status: &PodStatus) -> Option<EndCause> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let target = conditions
        .iter()
        .find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")?;
    match target.reason.as_deref()? {
        "PreemptionByScheduler" => Some(EndCause::Preempted),
        "DeletionByTaintManager" | "DeletionByPodGC" => Some(EndCause::NodeLost),
        _ => Some(EndCause::Evicted),
    }
}

fn pending_pod(pod: &Pod, status: Option<&PodStatus>) -> PendingPod {
    let scheduled = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.as_ref().is_some_and(|name| !name.is_empty()));
    if let Some((problem, message)) = container_problem(status) {
        return PendingPod { scheduled, problem, message };
    }
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let unscheduled = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    let message = unscheduled
        .map(|condition| one_line(condition.reason.as_deref(), condition.message.as_deref()));
    PendingPod { scheduled, problem: StartProblem::None, message: message.unwrap_or_default() }
}

/// The problem of a container that waits, the guest's before the skill's.
fn container_problem(status: Option<&PodStatus>) -> Option<(StartProblem, String)> {
    let guest =
        status.and_then(|status| container_state(status.init_container_statuses.as_deref(), GUEST));
    let skill =
        status.and_then(|status| container_state(status.container_statuses.as_deref(), SKILL));
    let problem_of = |state: Option<&ContainerState>| {
        let waiting = state.and_then(|state| state.waiting.as_ref())?;
        let (reason, message) = (waiting.reason.as_deref(), waiting.message.as_deref());
        let problem = start_problem(reason.unwrap_or_default(), message.unwrap_or_default());
        (problem != StartProblem::None).then(|| (problem, one_line(reason, message)))
    };
    // A missing guest image is an error of the installation. It must not be reported as the image
    // of the skill, which the caller has chosen.
    let guest_problem = problem_of(guest).map(|(problem, message)| match problem {
        StartProblem::Image => (StartProblem::GuestImage, message),
        StartProblem::None
        | StartProblem::GuestImage
        | StartProblem::ImageNotFound
        | StartProblem::Unrecoverable => (StartProblem::Unrecoverable, message),
    });
    guest_problem.or_else(|| problem_of(skill))
}

fn start_problem(reason: &str, message: &str) -> StartProblem {
    // Registries have no common error code, so permanent errors are recognized by their text.
    const PERMANENT_ERRORS: [&str; 6] = [
        "not found", "manifest unknown", "does not exist", "access denied", "unauthorized",
        "insufficient_scope",
    ];
    match reason {
        "InvalidImageName" | "ErrImageNeverPull" => StartProblem::ImageNotFound,
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "ImageInspectError" => {
            let message = message.to_lowercase();
            if PERMANENT_ERRORS.iter().any(|error| message.contains(error)) {
                StartProblem::ImageNotFound
            } else {
                StartProblem::Image
            }
        }
        "CreateContainerConfigError" => StartProblem::Unrecoverable,
        _ => StartProblem::None,
    }
}

/// The cluster's text as one line of limited length, without control characters: it goes into logs
/// and error messages.
fn one_line(reason: Option<&str>, message: Option<&str>) -> String {
    let text = match (reason.unwrap_or_default(), message.unwrap_or_default()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
#[path = "pod_state_tests.rs"]
mod tests;
