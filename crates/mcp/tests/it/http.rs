//! Over HTTP, without any: requests in, answers out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use mcp::{
    McpCaller, McpEndpoint, McpEndpointConfig, McpResponse, ServedSkills, SessionError,
    SessionLimits,
};
use serde_json::{Value, json};

use crate::support::{News, waiting};

const LONG: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(10);
const LIMITS: SessionLimits = SessionLimits { total: 3, of_tenant: 2, of_identity: 2 };

fn endpoint(patience: Duration) -> McpEndpoint {
    McpEndpoint::new(McpEndpointConfig {
        allowed_hosts: vec!["localhost".into()],
        allowed_origins: vec![],
        max_body_bytes: 1 << 20,
        idle: LONG,
        patience,
        sessions: LIMITS,
    })
}

fn caller(offer: &ServedSkills, tenant: &str, identity: &str) -> McpCaller {
    McpCaller { offer: offer.clone(), tenant: tenant.into(), identity: identity.into() }
}

fn request(method: Method, session: Option<&str>, message: &Value) -> Request<Bytes> {
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

/// The first message of a session and its answer.
async fn begin_only(http: &McpEndpoint, caller: McpCaller) -> Result<String, SessionError> {
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = http.answer(caller, request(Method::POST, None, &message)).await?;
    let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    answer.into_body().collect().await.unwrap();
    Ok(id)
}

async fn begin(http: &McpEndpoint, caller: McpCaller) -> Result<String, SessionError> {
    let id = begin_only(http, caller.clone()).await?;
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let answer = http.answer(caller, request(Method::POST, Some(&id), &ready)).await?;
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    answer.into_body().collect().await.unwrap();
    Ok(id)
}

async fn run(http: &McpEndpoint, caller: McpCaller, session: &str) -> McpResponse {
    let meta = json!({ "progressToken": "p" });
    let params =
        json!({ "name": "run_skill_script", "arguments": { "skill": "wait" }, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    http.answer(caller, request(Method::POST, Some(session), &message)).await.unwrap()
}

#[tokio::test]
async fn a_client_that_does_not_come_back_stops_its_run() {
    let (offer, mut news) = waiting();
    let http = endpoint(Duration::from_millis(10));
    let caller = caller(&offer, "t", "k");
    let session = begin(&http, caller.clone()).await.unwrap();
    let answer = run(&http, caller, &session).await;
    assert_eq!(news.recv().await, Some(News::Began));
    drop(answer);
    assert_eq!(news.recv().await, Some(News::Stopped));
}

/// The id of the first event of an answer, which is what a client goes on behind.
async fn first_event(answer: &mut McpResponse) -> String {
    loop {
        let frame = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        if let Some(id) = text.lines().find_map(|line| line.strip_prefix("id:")) {
            return id.trim().to_owned();
        }
    }
}

async fn come_back(
    http: &McpEndpoint,
    caller: McpCaller,
    session: &str,
    after: &str,
) -> McpResponse {
    let mut request = request(Method::GET, Some(session), &Value::Null);
    request.headers_mut().insert("last-event-id", after.parse().unwrap());
    let answer = http.answer(caller, request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer
}

/// The clock stands still and jumps when everything waits, so that all patience is over here.
async fn lose_patience() {
    tokio::time::sleep(PATIENCE * 10).await;
}

async fn end(http: &McpEndpoint, caller: McpCaller, session: &str) {
    let ended =
        http.answer(caller, request(Method::DELETE, Some(session), &Value::Null)).await.unwrap();
    assert!(ended.status().is_success());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_after_its_connection_was_found_dead_keeps_its_run() {
    let (offer, mut news) = waiting();
    let http = endpoint(PATIENCE);
    let caller = caller(&offer, "t", "k");
    let session = begin(&http, caller.clone()).await.unwrap();
    let mut answer = run(&http, caller.clone(), &session).await;
    let seen = first_event(&mut answer).await;
    assert_eq!(news.recv().await, Some(News::Began));
    drop(answer);
    let _resumed = come_back(&http, caller.clone(), &session, &seen).await;
    lose_patience().await;
    assert_eq!(news.try_recv().ok(), None, "it still runs");
    end(&http, caller, &session).await;
    assert_eq!(news.recv().await, Some(News::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_before_its_connection_is_found_dead_keeps_its_run() {
    let (offer, mut news) = waiting();
    let http = endpoint(PATIENCE);
    let caller = caller(&offer, "t", "k");
    let session = begin(&http, caller.clone()).await.unwrap();
    let mut answer = run(&http, caller.clone(), &session).await;
    let seen = first_event(&mut answer).await;
    assert_eq!(news.recv().await, Some(News::Began));
    let _resumed = come_back(&http, caller.clone(), &session, &seen).await;
    drop(answer);
    lose_patience().await;
    assert_eq!(news.try_recv().ok(), None, "it still runs");
    end(&http, caller, &session).await;
    assert_eq!(news.recv().await, Some(News::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_came_back_for_another_run_before_loses_this_one() {
    let (offer, mut news) = waiting();
    let http = endpoint(PATIENCE);
    let caller = caller(&offer, "t", "k");
    let session = begin(&http, caller.clone()).await.unwrap();
    let mut first = run(&http, caller.clone(), &session).await;
    let seen = first_event(&mut first).await;
    assert_eq!(news.recv().await, Some(News::Began));
    let _resumed = come_back(&http, caller.clone(), &session, &seen).await;
    let second = run(&http, caller, &session).await;
    assert_eq!(news.recv().await, Some(News::Began));
    drop(second);
    assert_eq!(news.recv().await, Some(News::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_only_listens_for_news_again_does_not_keep_its_run() {
    let (offer, mut news) = waiting();
    let http = endpoint(PATIENCE);
    let caller = caller(&offer, "t", "k");
    let session = begin(&http, caller.clone()).await.unwrap();
    let answer = run(&http, caller.clone(), &session).await;
    assert_eq!(news.recv().await, Some(News::Began));
    let _listening = come_back(&http, caller, &session, "0").await;
    drop(answer);
    assert_eq!(news.recv().await, Some(News::Stopped));
}

#[tokio::test]
async fn the_end_of_a_session_stops_its_run_at_once() {
    let (offer, mut news) = waiting();
    let http = endpoint(LONG);
    let caller = caller(&offer, "t", "k");
    let session = begin(&http, caller.clone()).await.unwrap();
    let _answer = run(&http, caller.clone(), &session).await;
    assert_eq!(news.recv().await, Some(News::Began));
    let ended =
        http.answer(caller, request(Method::DELETE, Some(&session), &Value::Null)).await.unwrap();
    assert!(ended.status().is_success());
    assert_eq!(news.recv().await, Some(News::Stopped));
}

#[tokio::test]
async fn a_tenant_has_only_so_many_sessions_and_the_oldest_unused_makes_room() {
    let (offer, mut news) = waiting();
    let http = endpoint(LONG);
    let own = caller(&offer, "t", "k");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let ask = async |id: &str| {
        http.answer(own.clone(), request(Method::POST, Some(id), &ping)).await.map(|_| ())
    };
    let first = begin(&http, own.clone()).await.unwrap();
    let second = begin(&http, own.clone()).await.unwrap();
    ask(&first).await.unwrap();
    let third = begin(&http, own.clone()).await.unwrap();
    assert_eq!(ask(&second).await, Err(SessionError::NotFound), "the one unused for longest");

    let (one, other) =
        (run(&http, own.clone(), &first).await, run(&http, own.clone(), &third).await);
    assert_eq!((news.recv().await, news.recv().await), (Some(News::Began), Some(News::Began)));
    assert_eq!(
        begin(&http, own.clone()).await,
        Err(SessionError::TooManySessions),
        "none of a busy client is ended"
    );
    begin(&http, caller(&offer, "another tenant", "k")).await.unwrap();
    assert_eq!(
        begin(&http, caller(&offer, "a third", "k")).await,
        Err(SessionError::TooManySessions)
    );
    drop((one, other));
}

#[tokio::test]
async fn a_session_is_no_other_callers() {
    let (offer, _news) = waiting();
    let http = endpoint(LONG);
    let session = begin(&http, caller(&offer, "t", "k")).await.unwrap();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (tenant, identity) in [("t", "other"), ("other", "k")] {
        let asked = http
            .answer(caller(&offer, tenant, identity), request(Method::POST, Some(&session), &ping))
            .await;
        assert_eq!(asked.map(|_| ()), Err(SessionError::NotFound));
    }
}

fn endpoint_with(sessions: SessionLimits) -> McpEndpoint {
    let config = McpEndpointConfig {
        allowed_hosts: vec!["localhost".into()],
        allowed_origins: vec![],
        max_body_bytes: 1 << 20,
        idle: LONG,
        patience: LONG,
        sessions,
    };
    McpEndpoint::new(config)
}

/// Which of these sessions still live.
async fn alive(http: &McpEndpoint, sessions: &[(McpCaller, String)]) -> usize {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut alive = 0;
    for (caller, id) in sessions {
        let asked = http.answer(caller.clone(), request(Method::POST, Some(id), &ping)).await;
        alive += usize::from(asked.is_ok_and(|answer| answer.status() == StatusCode::OK));
    }
    alive
}

/// Begins so many sessions at once, each in a task of its own, as a server's requests are.
async fn begin_at_once(
    http: &Arc<McpEndpoint>,
    callers: Vec<McpCaller>,
) -> Vec<(McpCaller, String)> {
    let begun = callers.into_iter().map(|caller| {
        let http = Arc::clone(http);
        tokio::spawn(async move { begin_only(&http, caller.clone()).await.map(|id| (caller, id)) })
    });
    let begun: Vec<_> = begun.collect();
    let mut sessions = Vec::new();
    for begun in begun {
        sessions.extend(begun.await.unwrap().ok());
    }
    sessions
}

const OFF: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_begun_at_once_stay_within_their_limit() {
    let (offer, _news) = waiting();
    let callers = || (0..600).map(|_| caller(&offer, "t", "k")).collect::<Vec<_>>();
    for limits in [
        SessionLimits { total: OFF, of_tenant: OFF, of_identity: 16 },
        SessionLimits { total: OFF, of_tenant: 16, of_identity: OFF },
        SessionLimits { total: 16, of_tenant: OFF, of_identity: OFF },
    ] {
        let http = Arc::new(endpoint_with(limits));
        let sessions = begin_at_once(&http, callers()).await;
        assert_eq!(alive(&http, &sessions).await, 16, "of {} begun", sessions.len());
    }
    let open =
        Arc::new(endpoint_with(SessionLimits { total: OFF, of_tenant: OFF, of_identity: OFF }));
    let sessions = begin_at_once(&open, callers()).await;
    assert_eq!(alive(&open, &sessions).await, 600, "without the limits all of them live");
}

#[tokio::test]
async fn a_client_that_goes_away_while_its_session_is_made_leaves_no_uncounted_one() {
    let (offer, _news) = waiting();
    let http = endpoint_with(SessionLimits { total: 4, of_tenant: 4, of_identity: 4 });
    for _ in 0..50 {
        let begun = begin_only(&http, caller(&offer, "t", "k"));
        // Polled once, it has been begun, and nobody waits for it.
        let _ = tokio::time::timeout(Duration::ZERO, begun).await;
        tokio::task::yield_now().await;
    }
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push((
            caller(&offer, "t", "k"),
            begin_only(&http, caller(&offer, "t", "k")).await.unwrap(),
        ));
    }
    assert_eq!(alive(&http, &held).await, 4, "what was left behind makes room");
    assert!(http.live_sessions().await <= 4, "{} sessions live", http.live_sessions().await);
}

#[tokio::test]
async fn one_key_leaves_slots_to_the_others_of_its_tenant_and_one_tenant_to_others() {
    let (offer, mut news) = waiting();
    let http = endpoint_with(SessionLimits { total: 7, of_tenant: 4, of_identity: 2 });
    let mut busy = Vec::new();
    for identity in ["greedy", "greedy"] {
        let own = caller(&offer, "t", identity);
        let session = begin(&http, own.clone()).await.unwrap();
        busy.push(run(&http, own, &session).await);
        assert_eq!(news.recv().await, Some(News::Began));
    }
    assert_eq!(
        begin(&http, caller(&offer, "t", "greedy")).await,
        Err(SessionError::TooManySessions)
    );
    let modest = caller(&offer, "t", "modest");
    let kept = begin(&http, modest.clone()).await.expect("another key has slots of its own");

    // A tenant that has filled the rest ends its own idle sessions, or those of the largest, for a
    // newcomer.
    for identity in ["a", "b", "c", "d"] {
        begin(&http, caller(&offer, "other", identity)).await.unwrap();
    }
    let newcomer = caller(&offer, "new", "k");
    let first = begin(&http, newcomer.clone()).await.expect("a tenant without a session gets one");
    assert_eq!(alive(&http, &[(modest, kept), (newcomer, first)]).await, 2);
    drop(busy);
}
