use serde_json::{Value, json};

use super::*;

fn state_on_node(status: Value) -> PodState {
    state_with_node(status, Some("node-1"))
}

fn state_with_node(status: Value, node: Option<&str>) -> PodState {
    let pod = json!({ "spec": { "containers": [], "nodeName": node }, "status": status });
    PodState::from_pod(&serde_json::from_value(pod).expect("a pod"))
}

fn cause(status: Value) -> EndCause {
    match state_on_node(status) {
        PodState::Ended(end) => end.cause,
        other => panic!("not ended: {other:?}"),
    }
}

fn skill(state: Value) -> Value {
    json!([{ "name": "skill", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state }])
}

fn guest(state: Value) -> Value {
    json!([{ "name": "guest", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state }])
}

#[test]
fn pending_and_running_pods() {
    let unscheduled = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available:\n 3 Insufficient memory." }] });
    let message = "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.".to_owned();
    let expected = PendingPod { scheduled: false, problem: StartProblem::None, message };
    assert_eq!(state_with_node(unscheduled, None), PodState::Pending(expected));
    let creating = json!({ "phase": "Pending", "containerStatuses": skill(json!({ "waiting": { "reason": "PodInitializing" } })) });
    assert!(matches!(
        state_on_node(creating),
        PodState::Pending(PendingPod { scheduled: true, problem: StartProblem::None, .. })
    ));
    let running =
        json!({ "phase": "Running", "containerStatuses": skill(json!({ "running": {} })) });
    assert_eq!(state_on_node(running), PodState::Running(RunningImages::default()));
    assert!(matches!(state_with_node(json!({}), None), PodState::Pending(_)));
}

#[test]
fn image_and_start_problems() {
    let table = [
        ("ErrImagePull", "dial tcp: i/o timeout", StartProblem::Image),
        ("ImagePullBackOff", "Back-off pulling image \"x\"", StartProblem::Image),
        (
            "ErrImagePull",
            "rpc error: code = NotFound desc = x: not found",
            StartProblem::ImageNotFound,
        ),
        ("ErrImagePull", "pull access denied for x", StartProblem::ImageNotFound),
        ("InvalidImageName", "couldn't parse image", StartProblem::ImageNotFound),
        ("ErrImageNeverPull", "", StartProblem::ImageNotFound),
        ("CreateContainerConfigError", "container has runAsNonRoot", StartProblem::Unrecoverable),
        ("ContainerCreating", "", StartProblem::None),
        ("CreateContainerError", "context deadline exceeded", StartProblem::None),
    ];
    for (reason, message, expected) in table {
        let state = json!({ "waiting": { "reason": reason, "message": message } });
        // A problem of the guest image is never reported as one of the skill's image.
        let of_guest = match expected {
            StartProblem::None => StartProblem::None,
            StartProblem::Image => StartProblem::GuestImage,
            _ => StartProblem::Unrecoverable,
        };
        for (status, expected) in [
            (json!({ "containerStatuses": skill(state.clone()) }), expected),
            (json!({ "initContainerStatuses": guest(state.clone()) }), of_guest),
        ] {
            match state_on_node(status) {
                PodState::Pending(waiting) => {
                    assert_eq!(waiting.problem, expected, "{reason} {message}")
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn every_end_has_its_cause() {
    let ended = |reason: &str, code: i32| {
        skill(json!({ "terminated": { "reason": reason, "exitCode": code } }))
    };
    let failed = |reason: &str, message: &str| json!({ "phase": "Failed", "reason": reason, "message": message });
    let target = |reason: &str| json!({ "phase": "Failed", "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": reason }] });
    let table = [
        (
            json!({ "phase": "Failed", "containerStatuses": ended("OOMKilled", 137) }),
            EndCause::OutOfMemory,
        ),
        (json!({ "phase": "Running", "containerStatuses": ended("Error", 1) }), EndCause::Exited),
        (
            json!({ "phase": "Succeeded", "containerStatuses": ended("Completed", 0) }),
            EndCause::Exited,
        ),
        (
            json!({ "phase": "Failed", "containerStatuses": ended("StartError", 128) }),
            EndCause::NotStarted,
        ),
        (failed("Evicted", "The node was low on resource: memory."), EndCause::Evicted),
        (
            failed("Evicted", "Usage of EmptyDir volume \"tmp\" exceeds the limit \"1Mi\"."),
            EndCause::StorageExceeded,
        ),
        (
            failed(
                "Evicted",
                "Container skill exceeded its local ephemeral storage limit \"1Mi\".",
            ),
            EndCause::StorageExceeded,
        ),
        (failed("DeadlineExceeded", ""), EndCause::Deadline),
        (failed("NodeLost", ""), EndCause::NodeLost),
        (
            failed("Terminated", "Pod was terminated in response to imminent node shutdown."),
            EndCause::NodeLost,
        ),
        (failed("OutOfmemory", "Node didn't have enough resource"), EndCause::Rejected),
        (failed("", ""), EndCause::Exited),
        (target("PreemptionByScheduler"), EndCause::Preempted),
        (target("DeletionByTaintManager"), EndCause::NodeLost),
        (target("EvictionByEvictionAPI"), EndCause::Evicted),
    ];
    for (status, expected) in table {
        assert_eq!(cause(status.clone()), expected, "{status}");
    }
}

#[test]
fn a_failed_guest_copy_reports_its_message() {
    let state =
        json!({ "terminated": { "reason": "Error", "exitCode": 1, "message": "another guest\n" } });
    let status = json!({ "phase": "Failed", "initContainerStatuses": guest(state) });
    let expected =
        PodEnd { cause: EndCause::NotStarted, message: "Error: another guest".to_owned() };
    assert_eq!(state_on_node(status), PodState::Ended(expected));
    let done = json!({ "phase": "Pending", "initContainerStatuses": guest(json!({ "terminated": { "exitCode": 0 } })) });
    assert!(matches!(state_on_node(done), PodState::Pending(_)));
}

#[test]
fn a_pod_being_deleted_has_ended() {
    let pod = json!({
        "metadata": { "deletionTimestamp": "2026-11-16T22:00:00Z" },
        "spec": { "containers": [] },
        "status": { "phase": "Running", "containerStatuses": skill(json!({ "running": {} })) },
    });
    let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
    assert_eq!(
        PodState::from_pod(&pod),
        PodState::Ended(PodEnd { cause: EndCause::Deleted, message: String::new() })
    );
    // The state that the node controller leaves behind.
    let unready = json!([{ "type": "Ready", "status": "False" }]);
    let status = pod.status.as_mut().expect("a status");
    status.conditions = serde_json::from_value(unready).expect("conditions");
    assert_eq!(
        PodState::from_pod(&pod),
        PodState::Ended(PodEnd { cause: EndCause::NodeLost, message: String::new() })
    );
}

#[test]
fn cluster_messages_become_one_short_line() {
    assert_eq!(one_line(Some("A"), Some("b\n\tc\u{7}")), "A: b c");
    assert_eq!(one_line(None, Some(&"x".repeat(1000))).len(), 300);
}

#[test]
fn running_images_are_those_that_the_node_reports() {
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let mut skill = skill(json!({ "running": {} }));
    skill[0]["imageID"] = json!(format!("docker.io/library/bash@{}", digest("1")));
    let mut guest = guest(json!({ "terminated": { "exitCode": 0 } }));
    guest[0]["imageID"] = json!(digest("2"));
    let status =
        json!({ "phase": "Running", "containerStatuses": skill, "initContainerStatuses": guest });
    let images = RunningImages {
        skill: Some(ImageIdentity::Digest(digest("1"))),
        guest: Some(ImageIdentity::Id(digest("2"))),
    };
    assert_eq!(state_on_node(status), PodState::Running(images));
}
