use serde_json::{Value, json};

use super::*;

fn standing(status: Value) -> Standing {
    placed(status, Some("node-1"))
}

fn placed(status: Value, node: Option<&str>) -> Standing {
    let pod = json!({ "spec": { "containers": [], "nodeName": node }, "status": status });
    Standing::of(&serde_json::from_value(pod).expect("a pod"))
}

fn cause(status: Value) -> Cause {
    match standing(status) {
        Standing::Over(end) => end.cause,
        other => panic!("not over: {other:?}"),
    }
}

fn skill(state: Value) -> Value {
    json!([{ "name": "skill", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state }])
}

fn guest(state: Value) -> Value {
    json!([{ "name": "guest", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state }])
}

#[test]
fn a_pod_on_its_way() {
    let unplaced = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available:\n 3 Insufficient memory." }] });
    let said = "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.".to_owned();
    let expected = Waiting { placed: false, trouble: Trouble::None, said };
    assert_eq!(placed(unplaced, None), Standing::Waiting(expected));
    let creating = json!({ "phase": "Pending", "containerStatuses": skill(json!({ "waiting": { "reason": "PodInitializing" } })) });
    assert!(matches!(
        standing(creating),
        Standing::Waiting(Waiting { placed: true, trouble: Trouble::None, .. })
    ));
    let running =
        json!({ "phase": "Running", "containerStatuses": skill(json!({ "running": {} })) });
    assert_eq!(standing(running), Standing::Running(RanImages::default()));
    assert!(matches!(placed(json!({}), None), Standing::Waiting(_)));
}

#[test]
fn images_and_starts_that_fail() {
    let table = [
        ("ErrImagePull", "dial tcp: i/o timeout", Trouble::Image),
        ("ImagePullBackOff", "Back-off pulling image \"x\"", Trouble::Image),
        ("ErrImagePull", "rpc error: code = NotFound desc = x: not found", Trouble::NoSuchImage),
        ("ErrImagePull", "pull access denied for x", Trouble::NoSuchImage),
        ("InvalidImageName", "couldn't parse image", Trouble::NoSuchImage),
        ("ErrImageNeverPull", "", Trouble::NoSuchImage),
        ("CreateContainerConfigError", "container has runAsNonRoot", Trouble::Hopeless),
        ("ContainerCreating", "", Trouble::None),
        ("CreateContainerError", "context deadline exceeded", Trouble::None),
    ];
    for (reason, message, expected) in table {
        let state = json!({ "waiting": { "reason": reason, "message": message } });
        // What is wrong with the image of the guest is never said of the skill's.
        let of_guest = match expected {
            Trouble::None => Trouble::None,
            Trouble::Image => Trouble::GuestImage,
            _ => Trouble::Hopeless,
        };
        for (status, expected) in [
            (json!({ "containerStatuses": skill(state.clone()) }), expected),
            (json!({ "initContainerStatuses": guest(state.clone()) }), of_guest),
        ] {
            match standing(status) {
                Standing::Waiting(waiting) => {
                    assert_eq!(waiting.trouble, expected, "{reason} {message}")
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
            Cause::OutOfMemory,
        ),
        (json!({ "phase": "Running", "containerStatuses": ended("Error", 1) }), Cause::Exited),
        (
            json!({ "phase": "Succeeded", "containerStatuses": ended("Completed", 0) }),
            Cause::Exited,
        ),
        (
            json!({ "phase": "Failed", "containerStatuses": ended("StartError", 128) }),
            Cause::NotStarted,
        ),
        (failed("Evicted", "The node was low on resource: memory."), Cause::Evicted),
        (
            failed("Evicted", "Usage of EmptyDir volume \"tmp\" exceeds the limit \"1Mi\"."),
            Cause::Storage,
        ),
        (
            failed(
                "Evicted",
                "Container skill exceeded its local ephemeral storage limit \"1Mi\".",
            ),
            Cause::Storage,
        ),
        (failed("DeadlineExceeded", ""), Cause::Deadline),
        (failed("NodeLost", ""), Cause::NodeLost),
        (
            failed("Terminated", "Pod was terminated in response to imminent node shutdown."),
            Cause::NodeLost,
        ),
        (failed("OutOfmemory", "Node didn't have enough resource"), Cause::Rejected),
        (failed("", ""), Cause::Exited),
        (target("PreemptionByScheduler"), Cause::Preempted),
        (target("DeletionByTaintManager"), Cause::NodeLost),
        (target("EvictionByEvictionAPI"), Cause::Evicted),
    ];
    for (status, expected) in table {
        assert_eq!(cause(status.clone()), expected, "{status}");
    }
}

#[test]
fn a_guest_that_was_not_brought_says_why() {
    let state =
        json!({ "terminated": { "reason": "Error", "exitCode": 1, "message": "another guest\n" } });
    let status = json!({ "phase": "Failed", "initContainerStatuses": guest(state) });
    let expected = End { cause: Cause::NotStarted, said: "Error: another guest".to_owned() };
    assert_eq!(standing(status), Standing::Over(expected));
    let done = json!({ "phase": "Pending", "initContainerStatuses": guest(json!({ "terminated": { "exitCode": 0 } })) });
    assert!(matches!(standing(done), Standing::Waiting(_)));
}

#[test]
fn one_that_somebody_deletes_is_over() {
    let pod = json!({
        "metadata": { "deletionTimestamp": "2026-11-16T22:00:00Z" },
        "spec": { "containers": [] },
        "status": { "phase": "Running", "containerStatuses": skill(json!({ "running": {} })) },
    });
    let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
    assert_eq!(
        Standing::of(&pod),
        Standing::Over(End { cause: Cause::Deleted, said: String::new() })
    );
    // As a node controller leaves it.
    let unready = json!([{ "type": "Ready", "status": "False" }]);
    let status = pod.status.as_mut().expect("a status");
    status.conditions = serde_json::from_value(unready).expect("conditions");
    assert_eq!(
        Standing::of(&pod),
        Standing::Over(End { cause: Cause::NodeLost, said: String::new() })
    );
}

#[test]
fn what_the_cluster_says_is_cut_to_a_line() {
    assert_eq!(words(Some("A"), Some("b\n\tc\u{7}")), "A: b c");
    assert_eq!(words(None, Some(&"x".repeat(1000))).len(), 300);
}

#[test]
fn the_images_of_what_runs_are_those_that_the_node_reports() {
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let mut skill = skill(json!({ "running": {} }));
    skill[0]["imageID"] = json!(format!("docker.io/library/bash@{}", digest("1")));
    let mut guest = guest(json!({ "terminated": { "exitCode": 0 } }));
    guest[0]["imageID"] = json!(digest("2"));
    let status =
        json!({ "phase": "Running", "containerStatuses": skill, "initContainerStatuses": guest });
    let images = RanImages {
        skill: Some(Identity::Digest(digest("1"))),
        guest: Some(Identity::Id(digest("2"))),
    };
    assert_eq!(standing(status), Standing::Running(images));
}
