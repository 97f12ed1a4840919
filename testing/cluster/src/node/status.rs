//! The updates of a pod's status by a kubelet.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::ContainerExit;
use super::image::ClusterImage;
use crate::defaults::now;

/// Sets a condition, with the time of its last change.
pub(crate) fn condition(pod: &mut Pod, kind: &str, holds: bool, reason: Option<(&str, &str)>) {
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    let status = if holds { "True" } else { "False" };
    let unchanged =
        conditions.iter().find(|condition| condition.type_ == kind && condition.status == status);
    let since =
        unchanged.and_then(|condition| condition.last_transition_time.clone()).unwrap_or_else(now);
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(since),
        reason: reason.map(|(reason, _)| reason.to_owned()),
        message: reason.map(|(_, message)| message.to_owned()),
        ..PodCondition::default()
    });
}

/// The scheduler has chosen a node.
pub(super) fn bound(pod: &mut Pod, node: &str) {
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    condition(pod, "PodScheduled", true, None);
}

/// The node has accepted the pod; all containers are waiting.
pub(super) fn accepted(pod: &mut Pod, ip: &str) {
    let spec = pod.spec.get_or_insert_default();
    let has_init = spec.init_containers.as_ref().is_some_and(|containers| !containers.is_empty());
    let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let statuses = |containers: &[Container], reason: &str| -> Vec<_> {
        containers.iter().map(|container| status(container, waiting(reason, None))).collect()
    };
    let init =
        spec.init_containers.as_deref().map(|containers| statuses(containers, "PodInitializing"));
    let main = statuses(&spec.containers, reason);
    condition(pod, "Initialized", !has_init, None);
    condition(pod, "Ready", false, Some(("ContainersNotReady", "containers with unready status")));
    condition(
        pod,
        "ContainersReady",
        false,
        Some(("ContainersNotReady", "containers with unready status")),
    );
    let status = pod.status.get_or_insert_default();
    status.start_time = Some(now());
    status.host_ip = Some("10.0.0.1".to_owned());
    status.pod_ip = Some(ip.to_owned());
    status.init_container_statuses = init;
    status.container_statuses = Some(main);
}

fn status(container: &Container, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        ready: false,
        started: Some(false),
        restart_count: 0,
        state: Some(state),
        ..ContainerStatus::default()
    }
}

/// The node has pulled the image of a container, and reports its digest.
pub(super) fn pulled(pod: &mut Pod, name: &str, image: &ClusterImage) {
    let status = pod.status.get_or_insert_default();
    let all = status.init_container_statuses.iter_mut().flatten();
    let all = all.chain(status.container_statuses.iter_mut().flatten());
    for container in all.filter(|container| container.name == name) {
        container.image_id = format!("docker.io/{}@{}", image.repository(), image.digest());
    }
}

/// Sets the state of one container, by its name.
pub(super) fn set(pod: &mut Pod, name: &str, id: Option<&str>, state: ContainerState) {
    let status = pod.status.get_or_insert_default();
    let is_init =
        status.init_container_statuses.iter().flatten().any(|container| container.name == name);
    let all = status.init_container_statuses.iter_mut().flatten();
    let all = all.chain(status.container_statuses.iter_mut().flatten());
    for container in all.filter(|container| container.name == name) {
        let completed = state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
        container.ready = if is_init { completed } else { state.running.is_some() };
        container.started = Some(state.running.is_some());
        container.container_id = id.map(|id| format!("containerd://{id}"));
        container.state = Some(state.clone());
    }
}

pub(super) fn waiting(reason: &str, message: Option<&str>) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: message.map(str::to_owned),
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

pub(super) fn running(since: &Time) -> ContainerState {
    let running = ContainerStateRunning { started_at: Some(since.clone()) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

pub(super) fn terminated(id: &str, since: &Time, exit: &ContainerExit) -> ContainerState {
    let reason = match exit {
        ContainerExit { not_started: Some(_), .. } => "StartError",
        ContainerExit { out_of_memory: true, .. } => "OOMKilled",
        ContainerExit { code: 0, .. } => "Completed",
        _ => "Error",
    };
    let terminated = ContainerStateTerminated {
        exit_code: exit.code,
        reason: Some(reason.to_owned()),
        message: exit.not_started.clone(),
        started_at: Some(since.clone()),
        finished_at: Some(now()),
        container_id: Some(format!("containerd://{id}")),
        signal: None,
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// All containers run.
pub(super) fn started(pod: &mut Pod) {
    condition(pod, "Ready", true, None);
    condition(pod, "ContainersReady", true, None);
    pod.status.get_or_insert_default().phase = Some("Running".to_owned());
}

/// The pod has ended, by itself or for a given reason.
pub(super) fn over(pod: &mut Pod, succeeded: bool, why: Option<(&str, &str)>) {
    let reason = if succeeded { "PodCompleted" } else { "PodFailed" };
    condition(pod, "Ready", false, Some((reason, "")));
    condition(pod, "ContainersReady", false, Some((reason, "")));
    let status: &mut PodStatus = pod.status.get_or_insert_default();
    status.phase = Some(if succeeded { "Succeeded" } else { "Failed" }.to_owned());
    if let Some((reason, message)) = why {
        status.reason = Some(reason.to_owned());
        status.message = Some(message.to_owned());
    }
}
