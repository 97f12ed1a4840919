//! DNS rebinding: a web page under a name that resolves to this machine. Its requests have no
//! `Origin`, but a foreign `Host`.

use docker_proxy::{Address, ping};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::engine::FakeEngine;
use crate::support::{RawResponse, RunningProxy, with_timeout};

async fn listening(engine: &FakeEngine, hosts: &[&str]) -> RunningProxy {
    RunningProxy::start(engine.address(), |config| {
        config.listen = Address::Tcp("127.0.0.1:0".to_owned());
        config.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    })
    .await
}

async fn get_info(proxy: &RunningProxy, host: &str) -> RawResponse {
    let Address::Tcp(place) = &proxy.address else { panic!("a port") };
    let mut stream = TcpStream::connect(place).await.expect("a connection");
    stream
        .write_all(format!("GET /info HTTP/1.1\r\n{host}\r\n").as_bytes())
        .await
        .expect("written");
    let mut answer = Vec::new();
    with_timeout("an answer", stream.read_to_end(&mut answer)).await.expect("read");
    RawResponse::read(&answer)
}

#[tokio::test]
async fn rejects_requests_with_a_foreign_host() {
    let engine = FakeEngine::start().await;
    let proxy = listening(&engine, &["docker-proxy"]).await;
    for host in [
        "Host: rebound.example\r\n",
        "Host: rebound.example:2375\r\n",
        "",
        "Host:\r\n",
        "Host: localhost\r\nHost: rebound.example\r\n",
        "Host: localhost@rebound.example\r\n",
        "Host: docker-proxy.rebound.example\r\n",
    ] {
        let answer = get_info(&proxy, host).await;
        assert!(matches!(answer.status, 400 | 403), "{host:?}: {answer:?}");
        assert!(!answer.body.contains("engine\""), "{answer:?}");
    }
    assert!(engine.requests().is_empty(), "{:?}", engine.requests());
    assert!(get_info(&proxy, "Host: rebound.example\r\n").await.message().contains("--hosts"));

    // The control: a proxy that is called so answers the page.
    let named = listening(&engine, &["rebound.example"]).await;
    let answer = get_info(&named, "Host: rebound.example:2375\r\n").await;
    assert_eq!((answer.status, answer.json()["Name"].as_str()), (200, Some("engine")));
}

#[tokio::test]
async fn accepts_configured_and_loopback_hosts() {
    let engine = FakeEngine::start().await;
    let proxy = listening(&engine, &["docker-proxy"]).await;
    for host in ["localhost", "127.0.0.1:2375", "[::1]", "docker-proxy:2375", "DOCKER-PROXY"] {
        assert_eq!(get_info(&proxy, &format!("Host: {host}\r\n")).await.status, 200, "{host}");
    }
    ping(&proxy.address).await.expect("a health check");
    // One proxy behind another.
    let first = RunningProxy::start(proxy.address.clone(), |_| {}).await;
    assert_eq!(first.ask("GET", "/info", "").await.status, 200);
}
