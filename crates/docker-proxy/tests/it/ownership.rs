//! Only objects with this proxy's label are accessible.

use crate::bodies::sandbox;
use crate::support::engine::{FOREIGN, MADE, OURS};
use crate::support::{RunningProxy, mutating_requests, pair, request};

const USES: &[(&str, &str)] = &[
    ("GET", "/json"),
    ("GET", "/stats?stream=false"),
    ("POST", "/start"),
    ("POST", "/kill"),
    ("POST", "/wait"),
    ("DELETE", ""),
];

#[tokio::test]
async fn foreign_and_missing_containers_have_the_same_response() {
    let (engine, proxy) = pair().await;
    let missing = "00000000000000000000000000000000000000000000000000000000000000ff";
    let upper = OURS.replace('0', "A");
    let names = [
        FOREIGN,
        missing,
        "skillbox-theirs",
        "skillbox-bare",
        "skillbox-nobody",
        "postgres",
        &OURS[..12],
        &FOREIGN[..12],
        &upper,
        "json",
        "create",
        "prune",
        "self",
    ];
    let mut bodies = Vec::new();
    for name in names {
        for (method, suffix) in USES {
            let answer = proxy.ask(method, &format!("/containers/{name}{suffix}"), "").await;
            assert_eq!(answer.status, 404, "{method} {name}{suffix}: {answer:?}");
            assert!(!answer.body.contains("Secret"));
            bodies.push(answer.body);
        }
        let attach = format!(
            "POST /containers/{name}/attach?stream=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        );
        assert_eq!(proxy.raw(attach.as_bytes()).await.status, 404);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "what is there and what is not look the same");
    assert!(mutating_requests(&engine.requests()).is_empty());
    let looks =
        engine.requests().into_iter().filter(|requests| !requests.target.ends_with("/json"));
    assert_eq!(looks.count(), 0, "the engine was only asked whose they are");
}

#[tokio::test]
async fn foreign_volumes_and_images_are_not_accessible() {
    let (engine, proxy) = pair().await;
    for name in ["skillbox-theirs", "skillbox-bound", "skillbox-nobody", "postgres-data"] {
        assert_eq!(proxy.ask("GET", &format!("/volumes/{name}"), "").await.status, 404, "{name}");
    }
    for name in [
        "ubuntu", "python", "library/python:3.12-slim", "sha256:2222", "python:3.12-slim@sha256:22",
    ] {
        assert_eq!(
            proxy.ask("GET", &format!("/images/{name}/json"), "").await.status,
            403,
            "{name}"
        );
    }
    assert!(engine.requests().iter().all(|requests| !requests.target.contains("ubuntu")));
}

#[tokio::test]
async fn created_containers_are_cached_until_removal() {
    let (engine, proxy) = pair().await;
    let body = sandbox().to_string();
    assert_eq!(
        proxy.ask("POST", "/containers/create?name=skillbox-run-1", &body).await.status,
        201
    );
    let before = engine.requests().len();
    for name in [MADE, "skillbox-run-1"] {
        assert_eq!(proxy.ask("POST", &format!("/containers/{name}/start"), "").await.status, 204);
        assert_eq!(engine.last().target, format!("/containers/{MADE}/start"));
    }
    assert_eq!(engine.requests().len(), before + 2);
    assert_eq!(proxy.ask("DELETE", "/containers/skillbox-run-1?force=1", "").await.status, 204);
    // Gone, and so asked for again.
    for name in [MADE, "skillbox-run-1"] {
        assert_eq!(proxy.ask("POST", &format!("/containers/{name}/start"), "").await.status, 404);
    }
}

#[tokio::test]
async fn proxies_with_different_names_are_separated() {
    let (engine, _first) = pair().await;
    let second =
        RunningProxy::start(engine.address(), |config| config.policy.instance = "second".into())
            .await;
    assert_eq!(second.ask("POST", &format!("/containers/{OURS}/kill"), "").await.status, 404);
    assert!(mutating_requests(&engine.requests()).is_empty());
    assert_eq!(second.raw(request("GET", "/info", "").as_bytes()).await.status, 200);
}
