//! Clients of HTTP/2 that sit idle, do not read, take their requests back, or never end their
//! headers. Every attack is made on two servers at once: when it has ended at the one, it must
//! still go on at the other, whose limits are off.

use bytes::Bytes;
use server::config::{Config, Rate};

use super::wire::{
    CONTINUATION, Client, END_HEADERS, END_STREAM, RST_STREAM, WINDOW_UPDATE, connect_from, literal,
};
use super::{answer, rest};
use crate::support::Server;

const LONG: [(&str, &str); 2] = [("header_timeout", "1h"), ("write_timeout", "1h")];
const SLOTS: usize = 4;

/// Takes every slot of a server: each client has asked for something, and then only answers pings.
async fn take_all_slots(server: &Server) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..SLOTS {
        let mut client = Client::connect(server).await;
        let stream = client.get("/health").await.unwrap();
        assert_eq!(client.body(stream).await.unwrap(), br#"{"status":"ok"}"#);
        clients.push(client);
    }
    clients
}

#[tokio::test]
async fn idle_connections_are_closed_and_do_not_starve_others() {
    let slots = [("max_connections", "4"), ("max_connections_per_peer", "4")];
    let defended = Server::with(&[&slots[..], &[("header_timeout", "500ms")]].concat()).await;
    let open = Server::with(&[&slots[..], &LONG].concat()).await;
    let (attack, mut control) = (take_all_slots(&defended).await, take_all_slots(&open).await);
    for client in attack {
        // The test goes on only because the server hangs up.
        client.until_closed().await;
    }
    assert!(answer(&defended, "127.0.0.1").await.starts_with("HTTP/1.1 200"));

    for client in &mut control {
        client.sync().await.expect("without the limit an idle connection stays");
    }
    let mut starved = connect_from(&open, "127.0.0.1").await;
    super::ask(&mut starved).await;
    let early =
        tokio::time::timeout(std::time::Duration::from_millis(300), rest(&mut starved)).await;
    assert!(early.is_err(), "and takes the place of another client");
    drop(control);
    assert!(rest(&mut starved).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_connection_with_a_request_in_flight_is_not_idle() {
    let server = Server::with(&[("header_timeout", "500ms"), ("body_timeout", "1h")]).await;
    let mut busy = Client::connect(&server).await;
    // Its body does not come, and the body of a rejected request is drained for seconds.
    let stream = busy.request("POST", "/v1/executions", END_HEADERS).await.unwrap();
    let mut idle = Client::connect(&server).await;
    let other = idle.get("/health").await.unwrap();
    idle.body(other).await.unwrap();
    idle.until_closed().await;
    busy.sync().await.expect("the connection of a request in flight stays");
    busy.send(super::wire::DATA, END_STREAM, stream, b"{}").await.unwrap();
    let body = String::from_utf8(busy.body(stream).await.unwrap()).unwrap();
    assert!(body.contains("unauthorized"), "{body}");
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

/// A response that no key is needed for, and larger than what is let go without a look.
const LARGE: &str = "/openapi.json";

#[tokio::test]
async fn a_response_that_is_not_read_is_reset() {
    // A window of nothing holds the response in hyper, a small one most of it in the HTTP/2 layer
    // below.
    for window in [0, 1, 5000] {
        let defended = Server::with(&[("write_timeout", "500ms"), ("header_timeout", "1h")]).await;
        let open = Server::with(&LONG).await;
        let mut attack = Client::with_window(&defended, window).await;
        let mut control = Client::with_window(&open, window).await;
        let streams = [attack.get(LARGE).await.unwrap(), attack.get(LARGE).await.unwrap()];
        let held = control.get(LARGE).await.unwrap();
        for stream in streams {
            let reset = attack
                .until(RST_STREAM, stream)
                .await
                .expect("the stream is reset, not the connection");
            assert_eq!(reset.payload, 8_u32.to_be_bytes(), "CANCEL");
        }
        let other = attack.get("/health").await.unwrap();
        attack.grant(other, 1000).await;
        assert_eq!(
            attack.body(other).await.unwrap(),
            br#"{"status":"ok"}"#,
            "the connection goes on"
        );

        control.grant(held, 1 << 24).await;
        control.grant(0, 1 << 24).await;
        let body = control.body(held).await.expect("without the limit the response is held");
        assert_eq!(json(&body), json(server::openapi_json().as_bytes()));
    }
}

#[tokio::test]
async fn a_connection_that_takes_no_bytes_is_closed() {
    let defended = Server::with(&[("write_timeout", "500ms"), ("header_timeout", "1h")]).await;
    let open = Server::with(&LONG).await;
    let (attack, control) = (ask_and_not_read(&defended).await, ask_and_not_read(&open).await);
    // The connection of this question is one of them.
    crate::support::until(async || (connections(&defended).await == 1).then_some(())).await;
    assert_eq!(connections(&open).await, 2, "without the limit it stays");
    drop((attack, control));
}

/// All the windows that HTTP/2 has are open, and nobody reads from the socket.
async fn ask_and_not_read(server: &Server) -> Client {
    let mut client = Client::with_window(server, i32::MAX as u32).await;
    client.grant(0, 1 << 30).await;
    for _ in 0..60 {
        client.get(LARGE).await.unwrap();
    }
    client
}

async fn connections(server: &Server) -> usize {
    let page = server.get("/metrics").send().await.unwrap().text().await.unwrap();
    page.lines()
        .find_map(|line| line.strip_prefix("skillbox_http_connections "))
        .unwrap()
        .parse()
        .unwrap()
}

/// A burst and no more, so that how fast the machine is does not matter.
fn few_resets(config: &mut Config) {
    config.http2.resets = Rate { burst: 50, per_second: 0.001 };
}

fn no_limits(config: &mut Config) {
    config.http2.resets = Rate { burst: u32::MAX, per_second: 1e6 };
    config.http2.max_pending_resets = usize::MAX;
    config.http2.max_error_resets = usize::MAX;
    config.http2.max_header_bytes = 64 << 20;
}

const MANY: usize = 400;

/// How many requests a client gets to take back, one way or another.
async fn reset_many(server: &Server, kind: u8, payload: &[u8]) -> usize {
    let mut client = Client::connect(server).await;
    for count in 0..MANY {
        // The body never comes, so the request is being served when it is reset.
        let Ok(stream) = client.request("POST", "/v1/executions", END_HEADERS).await else {
            return count;
        };
        if client.sync().await.is_none() || client.send(kind, 0, stream, payload).await.is_err() {
            return count;
        }
    }
    MANY
}

#[tokio::test]
async fn requests_cannot_be_taken_back_without_end() {
    let defended = Server::with_config(&[], few_resets).await;
    let open = Server::with_config(&[], no_limits).await;
    // By the client itself, and by making the server do it: a window that overflows is an error of
    // that stream.
    for (kind, payload) in
        [(RST_STREAM, 8_u32.to_be_bytes()), (WINDOW_UPDATE, i32::MAX.to_be_bytes())]
    {
        assert!(reset_many(&defended, kind, &payload).await < MANY, "the connection is closed");
        assert_eq!(reset_many(&open, kind, &payload).await, MANY, "without the limit it goes on");
    }
    assert!(answer(&defended, "127.0.0.1").await.starts_with("HTTP/1.1 200"));
}

/// Whether a connection outlives so many requests that are taken back in the same breath.
async fn outlives_rapid_resets(server: &Server) -> bool {
    let mut client = Client::connect(server).await;
    for _ in 0..MANY {
        let Ok(stream) = client.get("/health").await else { return false };
        if client.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes()).await.is_err() {
            return false;
        }
    }
    client.sync().await.is_some()
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let defended = Server::with_config(&[], few_resets).await;
    let open = Server::with_config(&[], no_limits).await;
    assert!(!outlives_rapid_resets(&defended).await);
    assert!(outlives_rapid_resets(&open).await, "without the limits it goes on");
}

/// Whether a request is answered whose headers go on for a thousand frames.
async fn outlives_continuations(server: &Server) -> bool {
    let mut client = Client::connect(server).await;
    let Ok(stream) = client.request("GET", "/health", END_STREAM).await else { return false };
    let block = literal("x-filler", &"a".repeat(100));
    for _ in 0..1000 {
        if client.send(CONTINUATION, 0, stream, &block).await.is_err() {
            return false;
        }
    }
    let ended = client.send(CONTINUATION, END_HEADERS, stream, &[]).await;
    ended.is_ok() && client.body(stream).await.is_some()
}

#[tokio::test]
async fn headers_without_end_end_the_connection() {
    let defended = Server::start().await;
    let open = Server::with_config(&[], no_limits).await;
    assert!(!outlives_continuations(&defended).await);
    assert!(outlives_continuations(&open).await, "without the limit they are all taken");
}

#[tokio::test]
async fn an_ordinary_client_gets_everything() {
    let server = Server::with(&[("write_timeout", "10s")]).await;
    let socket = connect_from(&server, "127.0.0.1").await;
    let (send, connection) = h2::client::handshake(socket).await.unwrap();
    let driven = tokio::spawn(connection);
    let expected = json(server::openapi_json().as_bytes());
    let asked = (0..20).map(|number| {
        let mut send = send.clone();
        let path = if number % 2 == 0 { LARGE } else { "/health" };
        let request = http::Request::get(format!("http://x{path}")).body(()).unwrap();
        async move {
            let (response, _) = send.send_request(request, true).unwrap();
            let mut body = response.await.unwrap().into_body();
            let mut bytes = Vec::new();
            while let Some(chunk) = body.data().await {
                let chunk: Bytes = chunk.unwrap();
                body.flow_control().release_capacity(chunk.len()).unwrap();
                bytes.extend_from_slice(&chunk);
            }
            (path, json(&bytes))
        }
    });
    for (path, body) in futures_util::future::join_all(asked).await {
        assert_eq!(
            body,
            if path == LARGE { expected.clone() } else { json(br#"{"status":"ok"}"#) }
        );
    }
    drop(send);
    driven.await.unwrap().unwrap();
}
