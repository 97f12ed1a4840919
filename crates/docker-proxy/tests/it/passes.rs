//! The requests of a launcher are accepted, and forwarded as the proxy serializes them.

use docker_proxy::PROXY_LABEL;
use serde_json::{Value, json};

use crate::bodies::{filler, sandbox, volume, with};
use crate::support::engine::{IMAGE_ID, MADE, OURS, VOLUME};
use crate::support::{IMAGE, INSTANCE, RunningProxy, mutating_requests, pair};

/// The body as the engine should have got it: marked as ours, and otherwise the same.
fn with_label(mut body: Value) -> Value {
    body["Labels"][PROXY_LABEL] = json!(INSTANCE);
    body
}

#[tokio::test]
async fn launcher_bodies_are_forwarded_with_our_label() {
    let (engine, proxy) = pair().await;
    for body in [
        sandbox(),
        filler(),
        with(sandbox(), "Image", json!(IMAGE)),
        with(sandbox(), "HostConfig.Runtime", json!("runsc")),
    ] {
        let answer = proxy.create(&body).await;
        assert_eq!((answer.status, answer.json()["Id"].as_str()), (201, Some(MADE)), "{answer:?}");
        let requests = engine.last();
        assert_eq!(
            (requests.method.as_str(), requests.target.as_str()),
            ("POST", "/v1.44/containers/create")
        );
        assert_eq!(requests.json(), with_label(body));
    }
    let answer = proxy.ask("POST", "/volumes/create", &volume().to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(engine.last().json(), with_label(volume()));
}

#[tokio::test]
async fn bodies_are_serialized_again() {
    let (engine, proxy) = pair().await;
    let odd = sandbox()
        .to_string()
        .replace(r#""Privileged":false"#, " \"Privil\\u0065ged\" :\n false, \"Sysctls\": null");
    assert_eq!(
        proxy.ask("POST", "/containers/create", &odd).await.status,
        403,
        "an unknown name, though it says nothing"
    );
    let odd = odd.replace(", \"Sysctls\": null", "").replace(r#""CapAdd":[]"#, r#""CapAdd":null"#);
    assert_eq!(proxy.ask("POST", "/containers/create", &odd).await.status, 201);
    let requests = engine.last();
    assert!(
        requests.body.contains(r#""Privileged":false"#) && !requests.body.contains("CapAdd"),
        "{}",
        requests.body
    );
}

#[tokio::test]
async fn every_route_is_forwarded() {
    let (engine, proxy) = pair().await;
    for (method, target, sent) in [
        ("GET", "/_ping", "/_ping"),
        ("HEAD", "/_ping", "/_ping"),
        ("GET", "/v1.44/version", "/v1.44/version"),
        ("GET", "/info", "/info"),
        ("GET", "/images/python:3.12-slim/json", "/images/python:3.12-slim/json"),
        (
            "GET",
            &format!("/containers/{OURS}/json?size=false"),
            &format!("/containers/{OURS}/json?size=false"),
        ),
        ("GET", "/containers/skillbox-mine/json", &format!("/containers/{OURS}/json")),
        (
            "GET",
            &format!("/containers/{OURS}/stats?stream=false&one-shot=true"),
            &format!("/containers/{OURS}/stats?stream=false&one-shot=true"),
        ),
        (
            "POST",
            &format!("/v1.44/containers/{OURS}/start"),
            &format!("/v1.44/containers/{OURS}/start"),
        ),
        (
            "POST",
            &format!("/containers/{OURS}/kill?signal=SIGKILL"),
            &format!("/containers/{OURS}/kill?signal=SIGKILL"),
        ),
        (
            "POST",
            &format!("/containers/{OURS}/wait?condition=not-running"),
            &format!("/containers/{OURS}/wait?condition=not%2Drunning"),
        ),
        (
            "DELETE",
            &format!("/containers/{OURS}?force=true&v=true&link=false"),
            &format!("/containers/{OURS}?force=true&v=true&link=false"),
        ),
        ("GET", &format!("/volumes/{VOLUME}"), &format!("/volumes/{VOLUME}")),
    ] {
        let answer = proxy.ask(method, target, "").await;
        assert!((200..300).contains(&answer.status), "{method} {target}: {answer:?}");
        let requests = engine.last();
        assert_eq!((requests.method.as_str(), requests.target.as_str()), (method, sent));
        let head = answer.head.to_lowercase();
        assert!(head.contains("api-version: 1.44") && !head.contains("x-hop"), "{head}");
    }
}

#[tokio::test]
async fn request_headers_are_not_forwarded() {
    let (engine, proxy) = pair().await;
    let request = "GET /info HTTP/1.1\r\nHost: evil\r\nX-Registry-Auth: x\r\nX-Forwarded-For: y\r\nAuthorization: z\r\n\r\n";
    assert_eq!(proxy.raw(request.as_bytes()).await.status, 200);
    assert_eq!(engine.last().headers, [("host".to_owned(), "docker".to_owned())]);
}

#[tokio::test]
async fn container_lists_are_filtered_by_our_label() {
    let (engine, proxy) = pair().await;
    for (target, filters) in [
        ("/containers/json?all=true", json!({"label": [format!("{PROXY_LABEL}={INSTANCE}")]})),
        (
            "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22skillbox.owner%3Da%22%5D%7D",
            json!({"label": ["skillbox.owner=a", format!("{PROXY_LABEL}={INSTANCE}")]}),
        ),
    ] {
        assert_eq!(proxy.ask("GET", target, "").await.status, 200);
        let sent = engine.last().target;
        let (_, sent) = sent.split_once("filters=").expect("filters");
        let sent = percent_encoding::percent_decode_str(sent).decode_utf8_lossy().into_owned();
        assert_eq!(serde_json::from_str::<Value>(&sent).expect("JSON"), filters);
    }
}

#[tokio::test]
async fn an_image_id_is_accepted_after_a_restart() {
    let (engine, first) = pair().await;
    assert_eq!(first.ask("GET", &format!("/images/{IMAGE}/json"), "").await.json()["Id"], IMAGE_ID);
    assert_eq!(first.create(&sandbox()).await.status, 201);
    drop(first);
    let second = RunningProxy::start(engine.address(), |_| {}).await;
    assert_eq!(second.create(&sandbox()).await.status, 201);
    assert_eq!(mutating_requests(&engine.requests()).len(), 2);
}
