//! What a caller is told when a call fails.

use client::{Client, ClientError, PageSelector};
use tokio::net::TcpListener;

use crate::support::Scripted;

fn client(url: &str) -> Client {
    Client::new(url, None, None).expect("a client")
}

#[tokio::test]
async fn a_closed_port_says_how_to_start_the_server() {
    // Bound and dropped: for this moment nobody listens there.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let error = client(&format!("http://{address}")).health().await.expect_err("nobody listens");
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains("skillbox serve"), "{error}");
}

#[tokio::test]
async fn a_refusal_keeps_status_slug_and_request_id() {
    let server =
        Scripted::json("401 Unauthorized", r#"{"error":"unauthorized","message":"Send a key."}"#)
            .await;
    let error =
        client(&server.url()).skills(&PageSelector::default()).await.expect_err("a refusal");
    let ClientError::Api { status, slug, message, request_id } = error else { panic!("{error:?}") };
    assert_eq!((status, slug.as_str(), message.as_str()), (401, "unauthorized", "Send a key."));
    assert_eq!(request_id.as_deref(), Some("req-1"));
}

#[tokio::test]
async fn another_programs_page_is_not_taken_for_an_answer() {
    let server = Scripted::answer("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>").await;
    let error = client(&server.url()).health().await.expect_err("not JSON");
    assert!(matches!(error, ClientError::InvalidResponse { .. }), "{error:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = Scripted::answer(
        "HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let error = client(&server.url()).health().await.expect_err("a redirect");
    assert_eq!(error.status(), Some(301), "{error:?}");
}

#[tokio::test]
async fn a_body_cut_short_is_an_error() {
    let server = Scripted::answer("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
    let download = client(&server.url()).execution_file("x", "a").await.expect("a head");
    let error = download.bytes(100).await.expect_err("seven bytes are missing");
    assert!(matches!(error, ClientError::ConnectionLost { .. }), "{error:?}");
}

#[tokio::test]
async fn a_connection_dropped_before_the_answer_is_told_apart_from_no_connection() {
    let server = Scripted::answer("").await;
    let error = client(&server.url()).health().await.expect_err("no answer");
    assert!(matches!(error, ClientError::ConnectionLost { .. }), "{error:?}");
}
