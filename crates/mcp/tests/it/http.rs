//! The transport over HTTP, called with requests directly and without a listener.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use mcp::{
    McpCaller, McpEndpoint, McpEndpointConfig, McpResponse, ServedSkills, SessionError,
    SessionLimits,
};
use serde_json::{Value, json};

use crate::support::{RunEvent, fake_skills};

/// Longer than any test.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const LIMITS: SessionLimits = SessionLimits { total: 3, per_tenant: 2, per_identity: 2 };

pub(crate) fn endpoint(reconnect_timeout: Duration) -> McpEndpoint {
    McpEndpoint::new(McpEndpointConfig {
        allowed_hosts: vec!["localhost".into()],
        allowed_origins: vec![],
        max_body_bytes: 1 << 20,
        session_idle_timeout: NEVER,
        reconnect_timeout,
        sessions: LIMITS,
    })
}

pub(crate) fn caller(served: &ServedSkills, tenant: &str, identity: &str) -> McpCaller {
    McpCaller { served: served.clone(), tenant: tenant.into(), identity: identity.into() }
}

pub(crate) fn request(method: Method, session: Option<&str>, message: &Value) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from(message.to_string()));
    *request.method_mut() = method;
    let headers = request.headers_mut();
    for (name, value) in [
        ("host", "localhost"),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-06-18"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    if let Some(id) = session {
        headers.insert("mcp-session-id", id.parse().unwrap());
    }
    request
}

/// Sends `initialize` and returns the id of the new session.
pub(crate) async fn initialize(
    http: &McpEndpoint,
    caller: McpCaller,
) -> Result<String, SessionError> {
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = http.handle(caller, request(Method::POST, None, &message)).await?;
    let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    answer.into_body().collect().await.unwrap();
    Ok(id)
}

/// Sends both messages that open a session and returns its id.
pub(crate) async fn open_session(
    http: &McpEndpoint,
    caller: McpCaller,
) -> Result<String, SessionError> {
    let id = initialize(http, caller.clone()).await?;
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let answer = http.handle(caller, request(Method::POST, Some(&id), &ready)).await?;
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    answer.into_body().collect().await.unwrap();
    Ok(id)
}

/// Starts a run in a session and returns its response, a stream.
pub(crate) async fn start_run(http: &McpEndpoint, caller: McpCaller, session: &str) -> McpResponse {
    let meta = json!({ "progressToken": "p" });
    let params =
        json!({ "name": "run_skill_script", "arguments": { "skill": "wait" }, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    http.handle(caller, request(Method::POST, Some(session), &message)).await.unwrap()
}

#[tokio::test]
async fn a_client_that_does_not_reconnect_cancels_its_run() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint(Duration::from_millis(10));
    let caller = caller(&skills, "t", "k");
    let session = open_session(&http, caller.clone()).await.unwrap();
    let answer = start_run(&http, caller, &session).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    drop(answer);
    assert_eq!(run_events.recv().await, Some(RunEvent::Cancelled));
}

/// The id of the first event of a response, which a client resumes after.
async fn first_event_id(answer: &mut McpResponse) -> String {
    loop {
        let frame = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        if let Some(id) = text.lines().find_map(|line| line.strip_prefix("id:")) {
            return id.trim().to_owned();
        }
    }
}

/// Resumes the stream after this event id.
async fn resume(http: &McpEndpoint, caller: McpCaller, session: &str, after: &str) -> McpResponse {
    let mut request = request(Method::GET, Some(session), &Value::Null);
    request.headers_mut().insert("last-event-id", after.parse().unwrap());
    let answer = http.handle(caller, request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer
}

/// Lets every reconnect timeout expire: the paused clock jumps ahead when all tasks wait.
async fn pass_reconnect_timeout() {
    tokio::time::sleep(RECONNECT_TIMEOUT * 10).await;
}

async fn delete_session(http: &McpEndpoint, caller: McpCaller, session: &str) {
    let ended =
        http.handle(caller, request(Method::DELETE, Some(session), &Value::Null)).await.unwrap();
    assert!(ended.status().is_success());
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_after_the_old_connection_was_dropped_keeps_the_run() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint(RECONNECT_TIMEOUT);
    let caller = caller(&skills, "t", "k");
    let session = open_session(&http, caller.clone()).await.unwrap();
    let mut answer = start_run(&http, caller.clone(), &session).await;
    let seen = first_event_id(&mut answer).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    drop(answer);
    let _resumed = resume(&http, caller.clone(), &session, &seen).await;
    pass_reconnect_timeout().await;
    assert_eq!(run_events.try_recv().ok(), None, "the run goes on");
    delete_session(&http, caller, &session).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_before_the_old_connection_was_dropped_keeps_the_run() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint(RECONNECT_TIMEOUT);
    let caller = caller(&skills, "t", "k");
    let session = open_session(&http, caller.clone()).await.unwrap();
    let mut answer = start_run(&http, caller.clone(), &session).await;
    let seen = first_event_id(&mut answer).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    let _resumed = resume(&http, caller.clone(), &session, &seen).await;
    drop(answer);
    pass_reconnect_timeout().await;
    assert_eq!(run_events.try_recv().ok(), None, "the run goes on");
    delete_session(&http, caller, &session).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_reconnect_for_another_run_does_not_keep_this_one() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint(RECONNECT_TIMEOUT);
    let caller = caller(&skills, "t", "k");
    let session = open_session(&http, caller.clone()).await.unwrap();
    let mut first = start_run(&http, caller.clone(), &session).await;
    let seen = first_event_id(&mut first).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    let _resumed = resume(&http, caller.clone(), &session, &seen).await;
    let second = start_run(&http, caller, &session).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    drop(second);
    assert_eq!(run_events.recv().await, Some(RunEvent::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn resuming_only_the_notification_stream_does_not_keep_the_run() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint(RECONNECT_TIMEOUT);
    let caller = caller(&skills, "t", "k");
    let session = open_session(&http, caller.clone()).await.unwrap();
    let answer = start_run(&http, caller.clone(), &session).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    let _listening = resume(&http, caller, &session, "0").await;
    drop(answer);
    assert_eq!(run_events.recv().await, Some(RunEvent::Cancelled));
}

#[tokio::test]
async fn deleting_a_session_cancels_its_run_at_once() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint(NEVER);
    let caller = caller(&skills, "t", "k");
    let session = open_session(&http, caller.clone()).await.unwrap();
    let _answer = start_run(&http, caller.clone(), &session).await;
    assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    let ended =
        http.handle(caller, request(Method::DELETE, Some(&session), &Value::Null)).await.unwrap();
    assert!(ended.status().is_success());
    assert_eq!(run_events.recv().await, Some(RunEvent::Cancelled));
}
