//! The proxy together with a URL-filtering socket proxy, and attacks that such a filter misses.

use serde_json::json;

use crate::bodies::{sandbox, with};
use crate::streams::{attached, converse};
use crate::support::engine::{FakeEngine, OURS};
use crate::support::filter::UrlFilter;
use crate::support::{RunningProxy, mutating_requests, request, with_timeout};

#[tokio::test]
async fn the_proxy_works_behind_a_url_filter() {
    let engine = FakeEngine::start().await;
    let filter = UrlFilter::start(engine.address()).await;
    let proxy = RunningProxy::start(filter.address(), |_| {}).await;
    assert_eq!(proxy.ask("GET", "/v1.44/info", "").await.status, 200);
    assert_eq!(proxy.create(&sandbox()).await.status, 201);
    assert_eq!(proxy.ask("POST", &format!("/containers/{OURS}/start"), "").await.status, 204);
    let (stream, _) = attached(proxy.connect().await).await;
    converse(stream).await;
    assert_eq!(
        proxy
            .ask("POST", &format!("/containers/{OURS}/wait?condition=not-running"), "")
            .await
            .json()["StatusCode"],
        0
    );
    assert_eq!(
        proxy.ask("DELETE", &format!("/containers/{OURS}?force=true"), "").await.status,
        204
    );
}

#[tokio::test]
async fn the_proxy_works_in_front_of_a_url_filter() {
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), |_| {}).await;
    let filter = UrlFilter::start(proxy.address.clone()).await;
    let docker_proxy::Address::Unix(path) = filter.address() else { panic!("a unix socket") };
    let (stream, _) =
        attached(tokio::net::UnixStream::connect(path).await.expect("a connection")).await;
    converse(stream).await;
}

#[tokio::test]
async fn rejects_a_hostile_body_that_a_url_filter_accepts() {
    let engine = FakeEngine::start().await;
    let filter = UrlFilter::start(engine.address()).await;
    let hostile = with(sandbox(), "HostConfig.Privileged", json!(true)).to_string();

    // The control: without us, the engine gets it.
    let docker_proxy::Address::Unix(path) = filter.address() else { panic!("a unix socket") };
    let mut stream = tokio::net::UnixStream::connect(path).await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(
        &mut stream,
        request("POST", "/containers/create", &hostile).as_bytes(),
    )
    .await
    .expect("written");
    let mut status = [0; 12];
    with_timeout("an answer", tokio::io::AsyncReadExt::read_exact(&mut stream, &mut status))
        .await
        .expect("read");
    assert_eq!(&status, b"HTTP/1.1 201");
    assert_eq!(mutating_requests(&engine.requests()).len(), 1);

    let proxy = RunningProxy::start(filter.address(), |_| {}).await;
    assert_eq!(proxy.ask("POST", "/containers/create", &hostile).await.status, 403);
    assert_eq!(mutating_requests(&engine.requests()).len(), 1);
}
