//! From a pod as the API server shows it to what that means for a run. Pure; knows nothing of time.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus,
};

use super::body::{GUEST, SKILL};
use super::pins::{Identity, RanImages};
use crate::outcome::Outcome;

/// Where a pod stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was heard of it yet.
    Unseen,
    Waiting(Waiting),
    /// The guest runs, and waits for its first word.
    Running(RanImages),
    Over(End),
    /// A list did not have it. Whoever cares asks for it by name.
    Absent,
}

/// Why the guest does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// A node was found for it.
    pub placed: bool,
    pub trouble: Trouble,
    /// In the cluster's words; empty when it says nothing.
    pub said: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// The image of the guest could not be had, which is no fault of the skill's.
    GuestImage,
    /// The image of the skill could not be had, and may be had with another try.
    Image,
    /// The same, and no other try will change it.
    NoSuchImage,
    /// It will never start as it is.
    Hopeless,
}

/// How a pod ended, and what was said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub cause: Cause,
    pub said: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The guest ended.
    Exited,
    OutOfMemory,
    /// It was evicted for what it had written itself.
    Storage,
    /// It was evicted for the sake of others.
    Evicted,
    Preempted,
    NodeLost,
    /// Its own deadline, which is later than that of every run.
    Deadline,
    /// Somebody deleted it.
    Deleted,
    /// Its node had no room when it came.
    Rejected,
    /// The guest was not brought, or could not be started.
    NotStarted,
}

impl Cause {
    /// What it makes of a run that had not come to its end.
    pub fn outcome(self) -> Outcome {
        match self {
            Cause::OutOfMemory => Outcome::OutOfMemory,
            Cause::Storage => Outcome::DiskFull,
            _ => Outcome::Lost,
        }
    }

    /// A clause for the caller of a run, when there is anything to add to the outcome.
    pub fn because(self) -> Option<&'static str> {
        match self {
            Cause::Exited | Cause::OutOfMemory | Cause::Storage | Cause::NotStarted => None,
            Cause::Evicted => Some("its pod was evicted"),
            Cause::Preempted => Some("its pod had to make room for another"),
            Cause::NodeLost => Some("its node was lost"),
            Cause::Deadline => Some("its pod reached its own deadline"),
            Cause::Deleted => Some("its pod was deleted"),
            Cause::Rejected => Some("its node had no room for its pod"),
        }
    }
}

impl Standing {
    pub fn of(pod: &Pod) -> Standing {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let skill = status.and_then(|status| state(status.container_statuses.as_deref(), SKILL));
        let ended = skill.and_then(|state| state.terminated.as_ref());
        let deleted = pod.metadata.deletion_timestamp.is_some();
        if matches!(phase, "Failed" | "Succeeded") || ended.is_some() || deleted {
            return Standing::Over(end(status, ended, deleted));
        }
        match skill {
            Some(state) if state.running.is_some() => Standing::Running(images(status)),
            _ => Standing::Waiting(waiting(pod, status)),
        }
    }
}

fn state<'a>(statuses: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerState> {
    statuses?.iter().find(|status| status.name == name)?.state.as_ref()
}

fn images(status: Option<&PodStatus>) -> RanImages {
    let identity = |statuses: Option<&[ContainerStatus]>, name: &str| {
        let status = statuses?.iter().find(|status| status.name == name)?;
        Identity::parse(&status.image_id)
    };
    RanImages {
        skill: identity(status.and_then(|status| status.container_statuses.as_deref()), SKILL),
        guest: identity(status.and_then(|status| status.init_container_statuses.as_deref()), GUEST),
    }
}

fn end(status: Option<&PodStatus>, ended: Option<&ContainerStateTerminated>, deleted: bool) -> End {
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let message = status.and_then(|status| status.message.as_deref()).unwrap_or_default();
    let guest = status.and_then(|status| state(status.init_container_statuses.as_deref(), GUEST));
    let not_brought =
        guest.and_then(|state| state.terminated.as_ref()).filter(|guest| guest.exit_code != 0);
    let (cause, said) = if let Some(cause) = by_reason(reason, message) {
        (cause, words(Some(reason), Some(message)))
    } else if let Some(cause) = status.and_then(disruption) {
        (cause, words(Some(reason), Some(message)))
    } else if let Some(guest) = not_brought {
        (Cause::NotStarted, words(guest.reason.as_deref(), guest.message.as_deref()))
    } else {
        match ended {
            Some(ended) => (exit(ended), words(ended.reason.as_deref(), ended.message.as_deref())),
            // A node that answers ends a deleted pod; one that does not leaves it as it was, and
            // not ready.
            None if deleted && status.is_some_and(is_unready) => (Cause::NodeLost, String::new()),
            None if deleted => (Cause::Deleted, String::new()),
            None => (Cause::Exited, words(Some(reason), Some(message))),
        }
    };
    End { cause, said }
}

fn exit(ended: &ContainerStateTerminated) -> Cause {
    match ended.reason.as_deref() {
        Some("OOMKilled") => Cause::OutOfMemory,
        Some("ContainerCannotRun" | "StartError") => Cause::NotStarted,
        _ => Cause::Exited,
    }
}

/// What the kubelet and the node controller write on a whole pod.
fn by_reason(reason: &str, message: &str) -> Option<Cause> {
    match reason {
        // The kubelet tells its own limits, which only this pod can have met, from a node that runs
        // short.
        "Evicted"
            if ["exceeds the limit", "exceeded its local", "exceeds the total limit"]
                .iter()
                .any(|own| message.contains(own)) =>
        {
            Some(Cause::Storage)
        }
        "Evicted" => Some(Cause::Evicted),
        "DeadlineExceeded" => Some(Cause::Deadline),
        "NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated" => Some(Cause::NodeLost),
        "Preempting" | "Preempted" => Some(Cause::Preempted),
        "UnexpectedAdmissionError" | "NodeAffinity" => Some(Cause::Rejected),
        _ if reason.starts_with("OutOf") => Some(Cause::Rejected),
        _ => None,
    }
}

/// It has run, and its node has not been heard since.
fn is_unready(status: &PodStatus) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    status.phase.as_deref() == Some("Running")
        && conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "False")
}

/// Newer clusters say on a condition who took a pod away.
fn disruption(status: &PodStatus) -> Option<Cause> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let target = conditions
        .iter()
        .find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")?;
    match target.reason.as_deref()? {
        "PreemptionByScheduler" => Some(Cause::Preempted),
        "DeletionByTaintManager" | "DeletionByPodGC" => Some(Cause::NodeLost),
        _ => Some(Cause::Evicted),
    }
}

fn waiting(pod: &Pod, status: Option<&PodStatus>) -> Waiting {
    let placed = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.as_ref().is_some_and(|name| !name.is_empty()));
    let guest = status.and_then(|status| state(status.init_container_statuses.as_deref(), GUEST));
    let skill = status.and_then(|status| state(status.container_statuses.as_deref(), SKILL));
    let said = |state: Option<&ContainerState>| {
        let waiting = state.and_then(|state| state.waiting.as_ref())?;
        let (reason, message) = (waiting.reason.as_deref(), waiting.message.as_deref());
        let trouble = trouble(reason.unwrap_or_default(), message.unwrap_or_default());
        (trouble != Trouble::None).then(|| (trouble, words(reason, message)))
    };
    let of_guest = said(guest).map(|(trouble, said)| match trouble {
        Trouble::Image => (Trouble::GuestImage, said),
        _ => (Trouble::Hopeless, said),
    });
    if let Some((trouble, said)) = of_guest.or_else(|| said(skill)) {
        return Waiting { placed, trouble, said };
    }
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let unplaced = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    let said =
        unplaced.map(|condition| words(condition.reason.as_deref(), condition.message.as_deref()));
    Waiting { placed, trouble: Trouble::None, said: said.unwrap_or_default() }
}

fn trouble(reason: &str, message: &str) -> Trouble {
    const NEVER: [&str; 6] = [
        "not found", "manifest unknown", "does not exist", "access denied", "unauthorized",
        "insufficient_scope",
    ];
    match reason {
        "InvalidImageName" | "ErrImageNeverPull" => Trouble::NoSuchImage,
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "ImageInspectError" => {
            let message = message.to_lowercase();
            if NEVER.iter().any(|never| message.contains(never)) {
                Trouble::NoSuchImage
            } else {
                Trouble::Image
            }
        }
        "CreateContainerConfigError" => Trouble::Hopeless,
        _ => Trouble::None,
    }
}

/// One line of bounded length, whatever the cluster wrote.
fn words(reason: Option<&str>, message: Option<&str>) -> String {
    let text = match (reason.unwrap_or_default(), message.unwrap_or_default()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
