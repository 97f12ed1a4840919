//! Pods from their creation to their end.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::support::{body, phase, pod, pods, start, status};

/// Creates a pod and waits until it is over.
async fn run(cluster: &cluster::TestCluster, body: Value) -> Value {
    let api = pods(cluster).await;
    let made = api.create(&PostParams::default(), &pod(body)).await.unwrap();
    let name = made.metadata.name.clone().unwrap();
    assert!(
        cluster.wait_until(|pods| matches!(phase(pods), "Succeeded" | "Failed")).await,
        "{:?}",
        cluster.pods()
    );
    let over = api.get(&name).await.unwrap();
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    assert!(cluster.wait_until_empty().await);
    status(&over)
}

#[tokio::test]
async fn a_pod_ends_as_its_container_does() {
    let Some(cluster) = start("the end of a pod") else { return };
    let ended = run(&cluster, body("good", "exit 0")).await;
    assert_eq!(ended["phase"], "Succeeded");
    assert_eq!(ended["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    assert_eq!(ended["qosClass"], "Guaranteed");
    let ended = run(&cluster, body("bad", "exit 7")).await;
    let terminated = &ended["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["phase"], &terminated["exitCode"], &terminated["reason"]),
        (&json!("Failed"), &json!(7), &json!("Error"))
    );
    let script = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";
    let ended = run(&cluster, body("greedy", script)).await;
    let terminated = &ended["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&terminated["exitCode"], &terminated["reason"]),
        (&json!(137), &json!("OOMKilled"))
    );
    let mut nothing = body("nothing", "");
    nothing["spec"]["containers"][0]["command"] = json!(["/no/such"]);
    let ended = run(&cluster, nothing).await;
    assert_eq!(ended["containerStatuses"][0]["state"]["terminated"]["reason"], "StartError");
    let mut late = body("late", "sleep 1000");
    late["spec"]["activeDeadlineSeconds"] = json!(1);
    let ended = run(&cluster, late).await;
    assert_eq!((&ended["phase"], &ended["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
}

#[tokio::test]
async fn a_container_has_exactly_the_restrictions_of_its_pod() {
    let Some(cluster) = start("what a container has") else { return };
    // Every line that is false makes another exit code.
    let script = r#"
        [ "$(id -u):$(id -g)" = 65534:65534 ] || exit 10
        grep -q '^CapBnd:.0000000000000000$' /proc/self/status || exit 11
        grep -q '^NoNewPrivs:.1$' /proc/self/status || exit 12
        grep -q '^Seccomp:.2$' /proc/self/status || exit 13
        touch /usr/x /x 2>/dev/null && exit 14
        [ "$(cat /data/from-init)" = here ] || exit 15
        head -c 3M /dev/zero > /data/full 2>/dev/null && exit 16
        [ "$(ls /sys/class/net)" = lo ] || exit 17
        unshare -U true 2>/dev/null && exit 18
        [ -e /var/run/secrets ] && exit 19
        [ "$KUBERNETES_SERVICE_PORT" = 443 ] || exit 20
        exit 0"#;
    let mut both = body("walls", script);
    both["spec"]["volumes"] =
        json!([{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}}]);
    both["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let mut init = both["spec"]["containers"][0].clone();
    init["name"] = "init".into();
    init["command"] = json!(["sh", "-c", "echo here > /data/from-init"]);
    both["spec"]["initContainers"] = json!([init]);
    let ended = run(&cluster, both.clone()).await;
    assert_eq!(ended["phase"], "Succeeded", "{ended}");
    assert_eq!(ended["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    both["spec"]["initContainers"][0]["command"] = json!(["false"]);
    let ended = run(&cluster, both).await;
    assert_eq!(ended["phase"], "Failed");
    assert_eq!(ended["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
}

#[tokio::test]
async fn the_reason_of_a_pending_pod_is_reported() {
    let Some(cluster) = start("pods that wait") else { return };
    let api = pods(&cluster).await;
    cluster.set_node_full(true);
    cluster.set_image_missing(crate::support::IMAGE, true);
    api.create(&PostParams::default(), &pod(body("waits", "read x"))).await.unwrap();
    let says = |pods: &[Pod], what: &str| {
        pods.first().is_some_and(|pod| status(pod).to_string().contains(what))
    };
    assert!(cluster.wait_until(|pods| says(pods, "Unschedulable")).await);
    cluster.set_node_full(false);
    assert!(cluster.wait_until(|pods| says(pods, "ImagePullBackOff")).await);
    cluster.set_image_missing(crate::support::IMAGE, false);
    assert!(cluster.wait_until(|pods| phase(pods) == "Running").await);
    cluster.evict(&cluster.pods()[0], "The node was low on resource: memory.");
    assert!(cluster.wait_until(|pods| says(pods, "Evicted")).await);
    api.delete("waits", &DeleteParams::default()).await.unwrap();
    assert!(cluster.wait_until_empty().await);
}

#[tokio::test]
async fn a_pod_of_a_lost_node_is_removed_only_by_force() {
    let Some(cluster) = start("a lost node") else { return };
    let api = pods(&cluster).await;
    api.create(&PostParams::default(), &pod(body("lost", "read x"))).await.unwrap();
    assert!(cluster.wait_until(|pods| phase(pods) == "Running").await);
    cluster.lose_node(&cluster.pods()[0]);
    cluster.mark_node_lost(&cluster.pods()[0]);
    let lost = api.get("lost").await.unwrap();
    assert!(lost.metadata.deletion_timestamp.is_some() && phase(&[lost]) == "Running");
    api.delete("lost", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(cluster.wait_until_empty().await);
}

#[tokio::test]
async fn a_pod_with_a_finalizer_is_not_removed() {
    let Some(cluster) = start("a finalizer") else { return };
    let api = pods(&cluster).await;
    let mut held = body("held", "exit 0");
    held["metadata"]["finalizers"] = json!(["tests/hold"]);
    api.create(&PostParams::default(), &pod(held)).await.unwrap();
    assert!(cluster.wait_until(|pods| phase(pods) == "Succeeded").await);
    api.delete("held", &DeleteParams::default()).await.unwrap();
    let held = api.get("held").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    cluster.remove_finalizers(&held);
    assert!(cluster.wait_until_empty().await);
}
