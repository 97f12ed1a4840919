//! The limits of sessions over HTTP, and who may use one.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use mcp::{McpCaller, McpEndpoint, McpEndpointConfig, SessionError, SessionLimits};
use serde_json::json;

use crate::http::{NEVER, caller, endpoint, initialize, open_session, request, start_run};
use crate::support::{RunEvent, fake_skills};

#[tokio::test]
async fn at_the_tenant_limit_the_least_recently_used_session_is_evicted() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint(NEVER);
    let own = caller(&skills, "t", "k");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let ping_session = async |id: &str| {
        http.handle(own.clone(), request(Method::POST, Some(id), &ping)).await.map(|_| ())
    };
    let first = open_session(&http, own.clone()).await.unwrap();
    let second = open_session(&http, own.clone()).await.unwrap();
    ping_session(&first).await.unwrap();
    let third = open_session(&http, own.clone()).await.unwrap();
    assert_eq!(
        ping_session(&second).await,
        Err(SessionError::NotFound),
        "the least recently used session"
    );

    let (one, other) =
        (start_run(&http, own.clone(), &first).await, start_run(&http, own.clone(), &third).await);
    assert_eq!(
        (run_events.recv().await, run_events.recv().await),
        (Some(RunEvent::Started), Some(RunEvent::Started))
    );
    assert_eq!(
        open_session(&http, own.clone()).await,
        Err(SessionError::TooManySessions),
        "a session in use is not evicted"
    );
    open_session(&http, caller(&skills, "another tenant", "k")).await.unwrap();
    assert_eq!(
        open_session(&http, caller(&skills, "a third", "k")).await,
        Err(SessionError::TooManySessions)
    );
    drop((one, other));
}

#[tokio::test]
async fn another_caller_cannot_use_a_session() {
    let (skills, _run_events) = fake_skills();
    let http = endpoint(NEVER);
    let session = open_session(&http, caller(&skills, "t", "k")).await.unwrap();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (tenant, identity) in [("t", "other"), ("other", "k")] {
        let response = http
            .handle(caller(&skills, tenant, identity), request(Method::POST, Some(&session), &ping))
            .await;
        assert_eq!(response.map(|_| ()), Err(SessionError::NotFound));
    }
}

fn endpoint_with_limits(sessions: SessionLimits) -> McpEndpoint {
    let config = McpEndpointConfig {
        allowed_hosts: vec!["localhost".into()],
        allowed_origins: vec![],
        max_body_bytes: 1 << 20,
        session_idle_timeout: NEVER,
        reconnect_timeout: NEVER,
        sessions,
    };
    McpEndpoint::new(config)
}

/// How many of these sessions still exist.
async fn count_alive(http: &McpEndpoint, sessions: &[(McpCaller, String)]) -> usize {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut alive = 0;
    for (caller, id) in sessions {
        let response = http.handle(caller.clone(), request(Method::POST, Some(id), &ping)).await;
        alive += usize::from(response.is_ok_and(|answer| answer.status() == StatusCode::OK));
    }
    alive
}

/// Creates sessions concurrently, each in a separate task, as a server's requests are.
async fn initialize_concurrently(
    http: &Arc<McpEndpoint>,
    callers: Vec<McpCaller>,
) -> Vec<(McpCaller, String)> {
    let created = callers.into_iter().map(|caller| {
        let http = Arc::clone(http);
        tokio::spawn(async move { initialize(&http, caller.clone()).await.map(|id| (caller, id)) })
    });
    let created: Vec<_> = created.collect();
    let mut sessions = Vec::new();
    for created in created {
        sessions.extend(created.await.unwrap().ok());
    }
    sessions
}

const NO_LIMIT: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_created_concurrently_stay_within_their_limit() {
    let (skills, _run_events) = fake_skills();
    let callers = || (0..600).map(|_| caller(&skills, "t", "k")).collect::<Vec<_>>();
    for limits in [
        SessionLimits { total: NO_LIMIT, per_tenant: NO_LIMIT, per_identity: 16 },
        SessionLimits { total: NO_LIMIT, per_tenant: 16, per_identity: NO_LIMIT },
        SessionLimits { total: 16, per_tenant: NO_LIMIT, per_identity: NO_LIMIT },
    ] {
        let http = Arc::new(endpoint_with_limits(limits));
        let sessions = initialize_concurrently(&http, callers()).await;
        assert_eq!(count_alive(&http, &sessions).await, 16, "of {} created", sessions.len());
    }
    let open = Arc::new(endpoint_with_limits(SessionLimits {
        total: NO_LIMIT,
        per_tenant: NO_LIMIT,
        per_identity: NO_LIMIT,
    }));
    let sessions = initialize_concurrently(&open, callers()).await;
    assert_eq!(count_alive(&open, &sessions).await, 600, "without limits all of them exist");
}

#[tokio::test]
async fn a_disconnect_during_initialize_leaves_no_uncounted_session() {
    let (skills, _run_events) = fake_skills();
    let http = endpoint_with_limits(SessionLimits { total: 4, per_tenant: 4, per_identity: 4 });
    for _ in 0..50 {
        let created = initialize(&http, caller(&skills, "t", "k"));
        // Polled once: the creation has started, and then its caller disconnects.
        let _ = tokio::time::timeout(Duration::ZERO, created).await;
        tokio::task::yield_now().await;
    }
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push((
            caller(&skills, "t", "k"),
            initialize(&http, caller(&skills, "t", "k")).await.unwrap(),
        ));
    }
    assert_eq!(count_alive(&http, &held).await, 4, "abandoned sessions are evicted");
    assert!(
        http.count_live_sessions().await <= 4,
        "{} sessions live",
        http.count_live_sessions().await
    );
}

#[tokio::test]
async fn limits_leave_slots_to_other_identities_and_tenants() {
    let (skills, mut run_events) = fake_skills();
    let http = endpoint_with_limits(SessionLimits { total: 7, per_tenant: 4, per_identity: 2 });
    let mut busy = Vec::new();
    for identity in ["greedy", "greedy"] {
        let own = caller(&skills, "t", identity);
        let session = open_session(&http, own.clone()).await.unwrap();
        busy.push(start_run(&http, own, &session).await);
        assert_eq!(run_events.recv().await, Some(RunEvent::Started));
    }
    assert_eq!(
        open_session(&http, caller(&skills, "t", "greedy")).await,
        Err(SessionError::TooManySessions)
    );
    let modest = caller(&skills, "t", "modest");
    let kept = open_session(&http, modest.clone()).await.expect("another key has its own slots");

    // The other tenant takes the remaining slots, and has to give one up for a newcomer.
    for identity in ["a", "b", "c", "d"] {
        open_session(&http, caller(&skills, "other", identity)).await.unwrap();
    }
    let newcomer = caller(&skills, "new", "k");
    let first = open_session(&http, newcomer.clone())
        .await
        .expect("a tenant without a session can evict one of the largest");
    assert_eq!(count_alive(&http, &[(modest, kept), (newcomer, first)]).await, 2);
    drop(busy);
}
