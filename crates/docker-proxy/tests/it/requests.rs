//! Ambiguous requests: none may be interpreted differently by the proxy and the engine.

use docker_proxy::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bodies::sandbox;
use crate::support::engine::OURS;
use crate::support::{RunningProxy, mutating_requests, pair, request, with_timeout};

/// Request lines.
#[rustfmt::skip] // A kind of trick a line.
const LINES: &[&str] = &[
    // Not in the table.
    "POST /containers/ID/exec", "POST /exec/ID/start", "PUT /containers/ID/archive?path=/", "GET /containers/ID/archive?path=/",
    "HEAD /containers/ID/archive?path=/", "GET /containers/ID/export", "POST /containers/ID/update", "POST /containers/ID/rename?name=x",
    "POST /containers/ID/restart", "POST /containers/ID/stop", "POST /containers/ID/pause", "POST /containers/prune", "GET /containers/ID/logs?stdout=1",
    "GET /containers/ID/top", "GET /containers/ID/changes", "POST /containers/ID/resize?h=1", "GET /containers/ID/attach/ws",
    "POST /images/create?fromImage=ubuntu", "POST /images/load", "GET /images/json", "POST /build", "POST /commit?container=ID", "DELETE /images/bash:5",
    "POST /images/bash:5/tag?repo=x", "GET /images/bash:5/get", "GET /images/get", "POST /images/bash:5/push",
    "GET /volumes", "DELETE /volumes/skillbox-guest-1", "POST /volumes/prune", "PUT /volumes/skillbox-guest-1",
    "GET /networks", "POST /networks/create", "GET /events", "GET /system/df", "POST /auth", "POST /session", "POST /grpc", "GET /plugins", "POST /plugins/pull",
    "POST /swarm/init", "GET /secrets", "GET /configs", "GET /services", "GET /nodes", "GET /distribution/bash:5/json", "GET /debug/pprof/", "GET /metrics", "GET /",
    // Other methods.
    "PUT /info", "PATCH /info", "TRACE /info", "OPTIONS /info", "get /info", "DELETE /info", "POST /_ping", "PROPFIND /info", "HEAD /info", "GETT /info",
    // Other spellings of a path.
    "GET /%69nfo", "GET //info", "GET /info/", "GET /./info", "GET /x/../info", "GET /containers/%2e%2e/info", "GET /v1.44//info", "GET /info%00", "GET /info%20",
    "GET /containers/../info", "GET /INFO", "GET /info;x=1", "GET /\\info", "GET /info\u{e9}", "GET /containers/ID%2Fjson", "GET /containers/ID/json/",
    "POST /containers/ID/start/../exec", "POST /containers//create", "POST /containers/create/", "POST /containers/Create", "POST /v1.44/../containers/create",
    // Other versions.
    "GET /v1.40/info", "GET /v1.24/info", "GET /v2.0/info", "GET /v1.100/info", "GET /v1./info", "GET /v1.4a/info", "GET /V1.44/info", "GET /v1.44/v1.44/info", "GET /v01.44/info",
    "GET /v1.44info", "GET /v1.44",
    // A host where a path should be.
    "GET http://engine/info", "GET http:///info", "GET info", "GET *", "OPTIONS *", "CONNECT engine:2375", "GET unix:///info", "GET //engine/info",
    // Parameters that are not known, come twice or say too much.
    "GET /info?x=1", "GET /_ping?x", "GET /containers/ID/json?size=true", "GET /containers/ID/json?size=false&size=true", "GET /containers/ID/json?Size=false",
    "GET /containers/ID/json?size=false&", "GET /containers/ID/json?&", "GET /containers/ID/json?size=false;size=true", "GET /containers/ID/json?siz%65=false",
    "GET /containers/ID/stats", "GET /containers/ID/stats?stream=true", "POST /containers/ID/start?detachKeys=a", "POST /containers/ID/start?checkpoint=x&checkpoint-dir=/etc",
    "POST /containers/ID/kill?signal=SIGSTOP", "POST /containers/ID/wait?condition=forever", "DELETE /containers/ID?link=true", "DELETE /containers/ID?force=yes",
    "POST /containers/create?name=postgres", "POST /containers/create?name=skillbox-a&name=skillbox-b", "POST /containers/create?platform=linux/arm64",
    "GET /containers/json?filters=%7B%7D&filters=%7B%7D", "GET /containers/json?filters={", "GET /containers/json?filters=%7B%22volume%22%3A%5B%22x%22%5D%7D",
    "GET /containers/json?size=1", "GET /containers/json?before=ID", "GET /images/bash:5/json?manifests=1", "POST /volumes/create?x=1", "GET /containers/json?limit=-1",
];

/// Headers on a request that would pass without them.
const HEADERS: &[&str] = &[
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Content-Length: 0\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Content-Length: 0\r\nContent-Length: 5",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999",
    "Content-Length: 0x5",
    "Content-Length: 0, 5",
    "Upgrade: tcp\r\nConnection: Upgrade",
    "Upgrade: h2c\r\nConnection: Upgrade",
    "Expect: 100-continue",
    "Content-Encoding: gzip",
    "Origin: http://evil",
    " folded: x",
    "No-Colon",
    "Bad\u{0}Name: x",
];

#[tokio::test]
async fn rejects_ambiguous_and_unknown_request_lines() {
    let (engine, proxy) = pair().await;
    for line in LINES {
        let line = line.replace("ID", OURS);
        let answer = proxy
            .raw(format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").as_bytes())
            .await;
        assert!(matches!(answer.status, 400 | 403 | 404), "{line}: {answer:?}");
    }
    assert!(engine.requests().is_empty(), "the engine saw {:?}", engine.requests());
}

#[tokio::test]
async fn rejects_ambiguous_headers() {
    let (engine, proxy) = pair().await;
    for header in HEADERS {
        let answer = proxy
            .raw(format!("GET /info HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n0\r\n\r\n").as_bytes())
            .await;
        assert!(matches!(answer.status, 400 | 403 | 408), "{header}: {answer:?}");
    }
    let many = "X: y\r\n".repeat(200);
    let long = format!("X: {}\r\n", "y".repeat(64 << 10));
    for headers in [many, long] {
        let answer =
            proxy.raw(format!("GET /info HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).await;
        assert!(matches!(answer.status, 0 | 400 | 431), "{answer:?}");
    }
    for line in ["GET /info HTTP/1.0", "GET /info HTTP/2.0", "GET /info", "PRI * HTTP/2.0"] {
        let answer = proxy.raw(format!("{line}\r\nHost: x\r\n\r\n").as_bytes()).await;
        assert!(matches!(answer.status, 0 | 400 | 505), "{line}: {answer:?}");
    }
    assert!(engine.requests().is_empty(), "the engine saw {:?}", engine.requests());
}

#[tokio::test]
async fn rejects_unexpected_and_untyped_bodies() {
    let (engine, proxy) = pair().await;
    let start = format!("/containers/{OURS}/start");
    assert_eq!(
        proxy.ask("POST", &start, r#"{"Binds":["/:/host"]}"#).await.status,
        400,
        "the engine once took a HostConfig here"
    );
    let body = sandbox().to_string();
    for kind in
        ["", "Content-Type: text/plain\r\n", "Content-Type: application/json; charset=utf-16\r\n"]
    {
        let head = format!(
            "POST /containers/create HTTP/1.1\r\nHost: x\r\n{kind}Content-Length: {}\r\n\r\n",
            body.len()
        );
        assert_eq!(proxy.raw(format!("{head}{body}").as_bytes()).await.status, 400, "{kind}");
    }
    assert!(mutating_requests(&engine.requests()).is_empty());
}

#[tokio::test]
async fn ignores_a_second_request_on_a_connection() {
    let (engine, proxy) = pair().await;
    let smuggled = format!(
        "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\nPOST /containers/{OURS}/kill HTTP/1.1\r\nHost: x\r\n\r\n"
    );
    let answer = proxy.raw(smuggled.as_bytes()).await;
    assert!(answer.status == 200 && !answer.body.contains("HTTP/1.1"), "{answer:?}");
    assert_eq!(engine.requests().len(), 1);
}

#[tokio::test]
async fn slow_clients_are_disconnected() {
    let (engine, _) = pair().await;
    let proxy = RunningProxy::start(engine.address(), |config| {
        config.limits.request_timeout = std::time::Duration::from_millis(50);
        config.limits.max_connections = 2;
    })
    .await;
    let slow: [&[u8]; 3] = [
        b"",
        b"GET /in",
        b"POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ];
    // More of them than there are places, so each must give its own back.
    for bytes in slow.iter().cycle().take(6) {
        let mut stream = proxy.connect().await;
        stream.write_all(bytes).await.expect("written");
        let mut answer = Vec::new();
        with_timeout("the end of the connection", stream.read_to_end(&mut answer))
            .await
            .expect("read");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.contains("408"), "{answer}");
    }
    assert!(engine.requests().is_empty());
    // Every place is free again. On a machine under load this request may be too slow as well, and
    // is then sent again.
    let ping = request("GET", "/_ping", "");
    let served = async {
        loop {
            let mut stream = proxy.connect().await;
            let mut answer = Vec::new();
            let _ = stream.write_all(ping.as_bytes()).await;
            let _ = stream.read_to_end(&mut answer).await;
            if answer.starts_with(b"HTTP/1.1 200 ") {
                break;
            }
        }
    };
    with_timeout("a request within the timeout", served).await;
}

#[tokio::test]
async fn errors_have_the_format_of_the_engine() {
    let (_engine, proxy) = pair().await;
    let answer = proxy.ask("POST", "/containers/x/exec", "").await;
    assert_eq!(answer.status, 403);
    assert!(answer.head.to_lowercase().contains("content-type: application/json"));
    assert_eq!(
        answer.message(),
        r#"skillbox docker-proxy: this proxy does not allow POST "/containers/x/exec""#
    );
}

#[tokio::test]
async fn an_unreachable_engine_is_reported() {
    let proxy = RunningProxy::start(Address::Unix("/nonexistent/engine.sock".into()), |_| {}).await;
    let answer = proxy.ask("GET", "/info", "").await;
    assert_eq!(answer.status, 502);
    assert!(answer.message().contains("cannot be reached"), "{answer:?}");
    assert!(docker_proxy::ping(&proxy.address).await.is_err());
}

#[tokio::test]
async fn a_ping_reaches_the_engine() {
    let (engine, proxy) = pair().await;
    docker_proxy::ping(&proxy.address).await.expect("an answer");
    assert_eq!(engine.last().target, "/_ping");
}
