//! The stream of an attached container: both directions with separate ends, without a time limit.

use std::time::Duration;

use docker_proxy::Address;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use crate::support::engine::{FakeEngine, OURS};
use crate::support::{RunningProxy, pair, with_timeout};

pub(crate) fn attach() -> String {
    let query = "stream=true&stdin=true&stdout=true&stderr=false&logs=false";
    format!(
        "POST /v1.44/containers/{OURS}/attach?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Sends an attach and reads the head of its answer.
pub(crate) async fn attached<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> (S, String) {
    stream.write_all(attach().as_bytes()).await.expect("written");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(with_timeout("the answer to an attach", stream.read_u8()).await.expect("a byte"));
    }
    (stream, String::from_utf8(head).expect("text"))
}

/// Sends data, reads its echo, closes its direction, and reads the final output.
pub(crate) async fn converse<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    for word in ["hello", "again"] {
        stream.write_all(word.as_bytes()).await.expect("written");
        let mut read_payloads = [0; 5];
        with_timeout("an echo", stream.read_exact(&mut read_payloads)).await.expect("echoed bytes");
        assert_eq!(read_payloads, word.to_ascii_uppercase().as_bytes());
    }
    stream.shutdown().await.expect("closed");
    let mut rest = String::new();
    with_timeout("the end", stream.read_to_string(&mut rest)).await.expect("read");
    assert_eq!(rest, "END 10");
}

#[tokio::test]
async fn a_stream_is_bidirectional_with_half_close() {
    let (_engine, proxy) = pair().await;
    let (stream, head) = attached(proxy.connect().await).await;
    assert!(
        head.starts_with("HTTP/1.1 101") && head.to_lowercase().contains("upgrade: tcp"),
        "{head}"
    );
    converse(stream).await;
}

#[tokio::test]
async fn a_stream_works_over_tcp() {
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), |config| {
        config.listen = Address::Tcp("127.0.0.1:0".into())
    })
    .await;
    let Address::Tcp(place) = &proxy.address else { panic!("tcp") };
    let (stream, _) = attached(TcpStream::connect(place).await.expect("a connection")).await;
    converse(stream).await;
}

#[tokio::test]
async fn a_stream_copies_a_megabyte_in_both_directions() {
    let (_engine, proxy) = pair().await;
    let (stream, _) = attached(proxy.connect().await).await;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sent = vec![b'a'; 1 << 20];
    let writing = async {
        writer.write_all(&sent).await.expect("written");
        writer.shutdown().await.expect("closed");
    };
    let mut read_payloads = Vec::new();
    let reading = reader.read_to_end(&mut read_payloads);
    let (_, read) = with_timeout("a megabyte", async { tokio::join!(writing, reading) }).await;
    assert_eq!(read.expect("read"), (1 << 20) + "END 1048576".len());
}

#[tokio::test]
async fn a_silent_stream_is_not_timed_out() {
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), |config| {
        for limit in [
            &mut config.limits.request_timeout, &mut config.limits.response_timeout,
            &mut config.limits.exchange_timeout,
        ] {
            *limit = Duration::from_millis(100);
        }
    })
    .await;
    let (stream, _) = attached(proxy.connect().await).await;
    // Silence is what is tested here; there is no event to await.
    tokio::time::sleep(Duration::from_millis(400)).await;
    converse(stream).await;
}

#[tokio::test]
async fn an_attach_without_upgrade_is_rejected() {
    let (engine, proxy) = pair().await;
    for upgrade in [
        "",
        "Upgrade: h2c\r\nConnection: Upgrade\r\n",
        "Upgrade: tcp\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n",
    ] {
        let request =
            format!("POST /containers/{OURS}/attach?stream=1 HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n");
        assert_eq!(proxy.raw(request.as_bytes()).await.status, 400, "{upgrade}");
    }
    assert!(engine.requests().is_empty());
}

#[tokio::test]
async fn shutdown_drains_and_then_closes_streams() {
    let engine = FakeEngine::start().await;
    let mut proxy = RunningProxy::start(engine.address(), |config| {
        config.limits.drain_timeout = Duration::from_secs(10)
    })
    .await;
    let (stream, _) = attached(proxy.connect().await).await;
    let stopping = proxy.stop();
    let talking = converse(stream);
    tokio::join!(stopping, talking);
    let Address::Unix(path) = &proxy.address else { panic!("a unix socket") };
    assert!(!path.exists(), "the socket goes away with the proxy");

    let mut proxy = RunningProxy::start(engine.address(), |config| {
        config.limits.drain_timeout = Duration::ZERO
    })
    .await;
    let (mut stream, _) = attached(proxy.connect().await).await;
    proxy.stop().await;
    let mut rest = Vec::new();
    with_timeout("the cut", stream.read_to_end(&mut rest)).await.expect("read");
    assert!(rest.is_empty());
}

/// An engine that accepts one request, responds with `head`, and ends when its connection closes.
async fn one_answer(
    head: &'static str,
) -> (RunningProxy, tokio::task::JoinHandle<()>, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("engine.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let engine = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.expect("a byte"));
            }
            if request.starts_with(b"GET /containers/") {
                let body = format!(
                    r#"{{"Id":"{OURS}","Config":{{"Labels":{{"skillbox.proxy":"test"}}}}}}"#
                );
                let answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.expect("written");
                continue;
            }
            stream.write_all(head.as_bytes()).await.expect("written");
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return;
        }
    });
    let proxy = RunningProxy::start(Address::Unix(path), |config| {
        config.limits.response_timeout = Duration::from_secs(2)
    })
    .await;
    (proxy, engine, directory)
}

async fn wait_for(proxy: &RunningProxy) -> UnixStream {
    let mut stream = proxy.connect().await;
    stream
        .write_all(
            crate::support::request("POST", &format!("/containers/{OURS}/wait"), "").as_bytes(),
        )
        .await
        .expect("written");
    stream
}

#[tokio::test]
async fn a_wait_is_streamed_and_ends_with_its_client() {
    let (proxy, engine, _directory) =
        one_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let mut stream = wait_for(&proxy).await;
    let mut head = [0; 12];
    with_timeout("the head", stream.read_exact(&mut head)).await.expect("read");
    assert_eq!(&head, b"HTTP/1.1 200");
    drop(stream);
    with_timeout("the end of the engine's connection", engine).await.expect("no panic");
}

#[tokio::test]
async fn a_silent_engine_times_out() {
    let (proxy, engine, _directory) = one_answer("").await;
    let answer = proxy.ask("POST", &format!("/containers/{OURS}/start"), "").await;
    assert_eq!(answer.status, 504, "{answer:?}");
    with_timeout("the end of the engine's connection", engine).await.expect("no panic");
}

#[tokio::test]
async fn invalid_engine_responses_are_rejected() {
    for head in [
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    ] {
        let (proxy, _engine, _directory) = one_answer(head).await;
        let answer = proxy.ask("POST", &format!("/containers/{OURS}/start"), "").await;
        assert!(matches!(answer.status, 502 | 504), "{head}: {answer:?}");
    }
    let (proxy, _engine, _directory) =
        one_answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let (_, head) = attached(proxy.connect().await).await;
    assert!(head.starts_with("HTTP/1.1 502"), "an attach without an upgrade is no stream: {head}");
}
