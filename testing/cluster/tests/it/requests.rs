//! Requests, errors and broken watches.

use cluster::{RbacRule, ResourceQuota};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions, WatchParams};
use kube::core::WatchEvent;
use kube::{Api, Error};
use serde_json::json;

use crate::support::{NAMESPACE, body, client, phase, pod, pods, start};

/// The code, reason and message of an error.
fn error_of<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String, String) {
    match answer.unwrap_err() {
        Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn errors_have_the_messages_of_a_real_server() {
    let Some(cluster) = start("refusals") else { return };
    let api = pods(&cluster).await;
    let parameters = PostParams::default();
    let mut loose = body("loose", "exit 0");
    loose["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    assert_eq!(
        error_of(api.create(&parameters, &pod(loose)).await),
        (403, "Forbidden".into(), "pods \"loose\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"main\" must set securityContext.allowPrivilegeEscalation=false)".into())
    );
    cluster.set_quota(Some(ResourceQuota {
        name: "q".into(),
        hard: [("pods".to_owned(), 0.0)].into(),
    }));
    assert_eq!(
        error_of(api.create(&parameters, &pod(body("q1", ""))).await),
        (
            403,
            "Forbidden".into(),
            "pods \"q1\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0".into()
        )
    );
    cluster.set_quota(None);
    let mut made = body("", "read x");
    made["metadata"] = json!({"generateName": "made-"});
    let made = api.create(&parameters, &pod(made)).await.unwrap();
    let name = made.metadata.name.clone().unwrap();
    assert!(name.starts_with("made-") && name.len() == 10, "{name}");
    let again = error_of(api.create(&parameters, &pod(body(&name, ""))).await);
    assert_eq!(again, (409, "AlreadyExists".into(), format!("pods \"{name}\" already exists")));
    assert_eq!(
        error_of(api.get("nothing").await),
        (404, "NotFound".into(), "pods \"nothing\" not found".into())
    );
    assert_eq!(error_of(api.create(&parameters, &pod(body("Bad_Name", ""))).await).0, 422);
    let other = Preconditions { uid: Some("another".into()), resource_version: None };
    let conflict = error_of(
        api.delete(&name, &DeleteParams { preconditions: Some(other), ..DeleteParams::default() })
            .await,
    );
    assert_eq!((conflict.0, conflict.1.as_str()), (409, "Conflict"));
    let selected = |labels: &str| ListParams::default().labels(labels);
    assert_eq!(api.list(&selected("app=test")).await.unwrap().items.len(), 0);
    assert_eq!(api.list(&selected("!app")).await.unwrap().items.len(), 1);
    cluster.throttle_requests(1);
    assert!(api.list(&ListParams::default()).await.is_ok(), "a client asks again after a 429");
}

#[tokio::test]
async fn every_verb_is_checked() {
    let Some(cluster) = start("access") else { return };
    let worker = cluster.kubeconfig("system:serviceaccount:a:b", NAMESPACE, vec![]).unwrap();
    let api: Api<Pod> = Api::namespaced(client(&worker).await, NAMESPACE);
    let words = |verb: &str| {
        format!(
            "pods is forbidden: User \"system:serviceaccount:a:b\" cannot {verb} resource \"pods\" in API group \"\" in the namespace \"boxes\""
        )
    };
    assert_eq!(
        error_of(api.list(&ListParams::default()).await),
        (403, "Forbidden".into(), words("list"))
    );
    assert_eq!(
        error_of(api.create(&PostParams::default(), &pod(body("a", ""))).await).2,
        words("create")
    );
    assert_eq!(error_of(api.delete("a", &DeleteParams::default()).await).0, 403);
    cluster.set_rules(&worker, vec![RbacRule::new(NAMESPACE, "pods", &["list"])]);
    assert!(api.list(&ListParams::default()).await.is_ok());
    assert_eq!(error_of(api.watch(&WatchParams::default(), "0").await.map(|_| ())).0, 403);
    let review = json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": {"namespace": NAMESPACE, "verb": "list", "resource": "pods"}}});
    let request = http::Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&review).unwrap())
        .unwrap();
    let answer: serde_json::Value = client(&worker).await.request(request).await.unwrap();
    assert_eq!(answer["status"]["allowed"], true);
    let stranger = cluster.kubeconfig("stranger", NAMESPACE, vec![]).unwrap();
    let text = std::fs::read_to_string(&stranger).unwrap().replace("\"token\":\"", "\"token\":\"x");
    std::fs::write(&stranger, text).unwrap();
    let api: Api<Pod> = Api::namespaced(client(&stranger).await, NAMESPACE);
    assert_eq!(
        error_of(api.list(&ListParams::default()).await),
        (401, "Unauthorized".into(), "Unauthorized".into())
    );
}

#[tokio::test]
async fn a_watch_resumes_until_its_revision_is_compacted() {
    let Some(cluster) = start("watches") else { return };
    let api = pods(&cluster).await;
    let list = api.list(&ListParams::default()).await.unwrap();
    let revision = list.metadata.resource_version.unwrap();
    let watched = api.watch(&WatchParams::default().labels("app=test"), &revision).await.unwrap();
    let mut watched = watched.boxed();
    api.create(&PostParams::default(), &pod(body("one", "exit 0"))).await.unwrap();
    let mut phases = Vec::new();
    let mut last = revision.clone();
    while phases.last().is_none_or(|phase| phase != "Succeeded") {
        match watched.next().await.unwrap().unwrap() {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                last = pod.metadata.resource_version.clone().unwrap();
                phases.push(phase(&[pod]).to_owned());
            }
            WatchEvent::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
    phases.dedup();
    assert!(phases.starts_with(&["Pending".to_owned()]), "{phases:?}");
    cluster.drop_watches();
    while let Some(event) = watched.next().await {
        assert!(matches!(event, Ok(WatchEvent::Bookmark(_))), "{event:?}");
    }
    api.delete("one", &DeleteParams::default()).await.unwrap();
    let mut resumed = api.watch(&WatchParams::default(), &last).await.unwrap().boxed();
    assert!(matches!(resumed.next().await.unwrap().unwrap(), WatchEvent::Deleted(_)));
    cluster.compact();
    let mut stale = api.watch(&WatchParams::default(), &last).await.unwrap().boxed();
    let Some(Ok(WatchEvent::Error(status))) = stale.next().await else { panic!("no error") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(cluster.wait_until_empty().await);
}

#[tokio::test]
async fn a_resumed_api_keeps_its_objects_and_pods_keep_running() {
    let Some(cluster) = start("an API that stops") else { return };
    let api = pods(&cluster).await;
    api.create(&PostParams::default(), &pod(body("on", "read x; exit 3"))).await.unwrap();
    assert!(cluster.wait_until(|pods| phase(pods) == "Running").await);
    let mut watched = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(watched.next().await.unwrap().is_ok());
    cluster.stop_api().await;
    while let Some(Ok(_)) = watched.next().await {}
    assert!(api.get("on").await.is_err());
    assert_eq!(phase(&cluster.pods()), "Running");
    cluster.resume_api().unwrap();
    assert_eq!(phase(&[api.get("on").await.unwrap()]), "Running");
    api.delete("on", &DeleteParams::default()).await.unwrap();
    assert!(cluster.wait_until_empty().await);
}
