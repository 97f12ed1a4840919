//! Clients that are slow, silent or odd, over bare sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Server;

const HASTY: [(&str, &str); 2] = [("header_timeout", "500ms"), ("body_timeout", "500ms")];

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.addr).await.unwrap()
}

/// Everything the server says until it hangs up.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is a way of hanging up, too.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_silent_client_is_sent_away() {
    let server = Server::with(&HASTY).await;
    for said in ["", "P", "PRI * HTTP/2.0\r\n", "GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
        let mut stream = connect(&server).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        // The test ends only because the server hangs up.
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{said:?}: {answer}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_answer() {
    let server = Server::with(&HASTY).await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"status":"ok"}"#),
        "{answer}"
    );
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let server = Server::with(&HASTY).await;
    for (path, kind) in [("/v1/executions", "application/json"), ("/v1/skills", "application/zip")]
    {
        let mut stream = connect(&server).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\nContent-Length: 100\r\n\r\n{{",
            server.key
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains(r#"{"error":"request_timeout","#), "{answer}");
    }
}

#[tokio::test]
async fn smuggled_and_broken_requests_are_refused() {
    let server = Server::with(&HASTY).await;
    let requests = [
        "POST /v1/executions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        "GET /health HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
        "NONSENSE\r\n\r\n",
        "GET /health HTTP/9.9\r\n\r\n",
    ];
    for request in requests {
        let mut stream = connect(&server).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{request:?}: {answer}");
    }
    // Both framings at once: the chunked one counts, and nothing after it is read as another
    // request.
    let mut stream = connect(&server).await;
    let both = "POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /ready HTTP/1.1\r\nX: y\r\n\r\n";
    stream.write_all(both.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(!answer.contains("\"ready\""), "{answer}");
}

#[tokio::test]
async fn too_many_headers_are_refused() {
    let server = Server::with(&HASTY).await;
    for headers in ["X-A: 1\r\n".repeat(5000), format!("X-A: {}\r\n", "a".repeat(200_000))] {
        let mut stream = connect(&server).await;
        // The server may hang up before it has read everything.
        let _ = stream
            .write_all(format!("GET /health HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())
            .await;
        let answer = rest(&mut stream).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
            "{}",
            &answer[..answer.len().min(200)]
        );
    }
}

#[tokio::test]
async fn the_number_of_connections_is_bounded() {
    let server = Server::with(&[("max_connections", "2"), ("max_connections_per_peer", "2")]).await;
    let held = [connect(&server).await, connect(&server).await];
    let mut third = connect(&server).await;
    third.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut first = [0; 1];
    let early =
        tokio::time::timeout(std::time::Duration::from_millis(300), third.read(&mut first)).await;
    assert!(early.is_err(), "a third connection was served beside two");
    drop(held);
    assert!(rest(&mut third).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let server = Server::start().await;
    let mut stream = connect(&server).await;
    let head = format!(
        "POST /v1/skills HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/zip\r\n\
         Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n",
        server.key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}
