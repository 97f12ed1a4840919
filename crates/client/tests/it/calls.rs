//! What is sent, and how answers are read.

use std::sync::{Arc, Mutex};

use client::{Client, ExecutionFilter, ExecutionStatus, PageSelector, RunRequest};

use crate::support::Scripted;

const ID: &str = "0190c0de-0000-7000-8000-000000000000";

fn client(server: &Scripted) -> Client {
    Client::new(&server.url(), Some("sk-test".into()), Some("acme".into())).expect("a client")
}

#[tokio::test]
async fn a_run_carries_credentials_tenant_and_idempotency_key() {
    let body = format!(
        r#"{{"execution_id":"{ID}","status":"success","output":{{"n":1}},"duration_ms":5,"error":null,"later":true}}"#
    );
    let server = Scripted::json("200 OK", &body).await;
    let run = RunRequest {
        skill: "word-count".into(),
        idempotency_key: Some("once".into()),
        ..RunRequest::default()
    };
    let reply = client(&server).run(&run).await.expect("an execution");
    assert_eq!(reply.status, ExecutionStatus::Success);
    assert_eq!(reply.raw, body, "unknown keys are kept in the raw answer");

    let asked = server.asked().await;
    assert_eq!(asked.line(), "POST /v1/executions HTTP/1.1");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-test"));
    assert_eq!(asked.header("x-tenant-id"), Some("acme"));
    assert_eq!(asked.header("idempotency-key"), Some("once"));
    assert_eq!(asked.body, br#"{"skill":"word-count"}"#);
}

#[tokio::test]
async fn an_upload_reports_progress_and_announces_its_length() {
    let server = Scripted::json("201 Created", r#"{"name":"a","version":"1.0.0"}"#).await;
    let zip: Vec<u8> = (0..200_000).map(|i| (i % 251) as u8).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let progress = move |sent| record.lock().expect("no panic").push(sent);
    let reply = client(&server).publish_skill(zip.clone().into(), progress).await.expect("a skill");
    assert_eq!((reply.name.as_str(), reply.http_status), ("a", 201));

    let seen = seen.lock().expect("no panic").clone();
    assert!(seen.len() > 1 && seen.is_sorted() && seen.last() == Some(&200_000), "{seen:?}");
    let asked = server.asked().await;
    assert_eq!(asked.header("content-type"), Some("application/zip"));
    assert_eq!(asked.header("content-length"), Some("200000"));
    assert_eq!(asked.body, zip);
}

#[tokio::test]
async fn a_list_sends_its_filter_and_finds_the_next_page() {
    let body = format!(
        r#"[{{"execution_id":"{ID}","skill_name":"a","skill_version":"1.0.0","status":"failed","created_at":"2026-01-01T00:00:00Z"}}]"#
    );
    let server = Scripted::answer(format!(
        "HTTP/1.1 200 OK\r\nlink: </v1/executions?limit=1&cursor=abc>; rel=\"next\"\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    let filter = ExecutionFilter { skill: Some("a b".into()), ..ExecutionFilter::default() };
    let page = PageSelector { limit: Some(1), cursor: None };
    let listing = client(&server).executions(&filter, &page).await.expect("a list");
    assert_eq!(listing.items[0].status, ExecutionStatus::Failed);
    assert_eq!(listing.next.as_deref(), Some("abc"));
    assert_eq!(server.asked().await.line(), "GET /v1/executions?skill=a+b&limit=1 HTTP/1.1");
}

#[tokio::test]
async fn a_file_path_keeps_its_slashes_and_nothing_else() {
    let server = Scripted::answer("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").await;
    let download = client(&server).execution_file(ID, "charts/a?b.svg").await.expect("a file");
    assert_eq!(download.size(), Some(3));
    assert_eq!(download.bytes(10).await.expect("bytes"), b"abc");
    let line = format!("GET /v1/executions/{ID}/files/charts/a%3Fb.svg HTTP/1.1");
    assert_eq!(server.asked().await.line(), line);
}

#[tokio::test]
async fn a_signed_url_is_fetched_without_the_key() {
    let server = Scripted::answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("{}/blobs/t?sig=x", server.url());
    client(&server).download_url(&url).await.expect("a body").bytes(0).await.expect("nothing");
    let asked = server.asked().await;
    assert_eq!(asked.line(), "GET /blobs/t?sig=x HTTP/1.1");
    assert_eq!(asked.header("authorization"), None);
}

#[tokio::test]
async fn not_ready_is_an_answer() {
    let server = Scripted::json(
        "503 Service Unavailable",
        r#"{"status":"not_ready","checks":{"postgres":"down"}}"#,
    )
    .await;
    let ready = client(&server).ready().await.expect("a readiness");
    assert_eq!((ready.http_status, ready.status.as_str()), (503, "not_ready"));
    assert_eq!(ready.checks["postgres"], "down");
}
