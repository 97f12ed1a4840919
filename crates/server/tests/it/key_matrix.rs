//! Which key may manage which: every kind of manager against every kind of key, for making, listing
//! and revoking.
//!
//! The control of each refusal is the first key, which is not restricted: the same request succeeds
//! with it.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, refused};

/// The id of no key.
const MISSING: &str = "0190c0de-0000-7000-8000-000000000000";
const SCOPES: [&str; 4] = ["execute", "read", "publish", "admin"];

/// The kinds of keys, by name and the body that makes one. All have a fixed expiry in hours, or
/// none.
fn kinds() -> BTreeMap<&'static str, Value> {
    let at = |hours| (chrono::Utc::now() + chrono::Duration::hours(hours)).to_rfc3339();
    BTreeMap::from([
        ("operator", json!({ "scopes": SCOPES, "service": true })),
        ("service reader", json!({ "scopes": ["read"], "service": true })),
        ("limited operator", json!({ "scopes": SCOPES, "service": true, "skills": ["one"] })),
        ("administrator", json!({ "scopes": SCOPES })),
        ("admin only", json!({ "scopes": ["admin"] })),
        ("runner", json!({ "scopes": ["execute", "read"] })),
        ("limited", json!({ "scopes": SCOPES, "skills": ["one", "two"] })),
        ("limited runner", json!({ "scopes": ["execute", "read"], "skills": ["one"] })),
        ("limited elsewhere", json!({ "scopes": ["execute", "read"], "skills": ["one", "three"] })),
        ("brief", json!({ "scopes": SCOPES, "expires_at": at(2) })),
        ("briefer runner", json!({ "scopes": ["execute", "read"], "expires_at": at(1) })),
        ("longer runner", json!({ "scopes": ["execute", "read"], "expires_at": at(3) })),
    ])
}

/// What each kind of manager may manage, written out: the code must agree with this table.
const MAY_MANAGE: [(&str, &[&str]); 6] = [
    (
        "operator",
        &[
            "operator", "service reader", "limited operator", "administrator", "admin only",
            "runner", "limited", "limited runner", "limited elsewhere", "brief", "briefer runner",
            "longer runner",
        ],
    ),
    ("limited operator", &["limited operator", "limited runner"]),
    (
        "administrator",
        &[
            "administrator", "admin only", "runner", "limited", "limited runner",
            "limited elsewhere", "brief", "briefer runner", "longer runner",
        ],
    ),
    (
        "admin only",
        &[
            "administrator", "admin only", "runner", "limited", "limited runner",
            "limited elsewhere", "brief", "briefer runner", "longer runner",
        ],
    ),
    ("limited", &["limited", "limited runner"]),
    ("brief", &["brief", "briefer runner"]),
];

fn named(kind: &str, body: &Value) -> Value {
    let mut body = body.clone();
    body["name"] = kind.into();
    body
}

/// The names of the keys that a caller sees, sorted.
async fn listed(server: &Server, key: &str) -> Vec<String> {
    let answer = server.request_as(key, Method::GET, "/v1/keys?limit=100").send().await.unwrap();
    let rows: Vec<Value> = answer.json().await.unwrap();
    let mut names: Vec<_> =
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

async fn is_valid(server: &Server, key: &str) -> bool {
    let status =
        server.request_as(key, Method::GET, "/v1/keys").send().await.unwrap().status().as_u16();
    assert!(matches!(status, 200 | 401 | 403), "{status}");
    status != 401
}

#[tokio::test]
async fn a_key_lists_and_revokes_only_keys_within_its_own_restrictions() {
    let server = Server::start().await;
    let kinds = kinds();
    let mut keys = BTreeMap::new();
    for (kind, body) in &kinds {
        keys.insert(*kind, server.key(named(kind, body)).await);
    }
    for (manager, managed) in MAY_MANAGE {
        let (secret, _) = &keys[manager];
        let seen = listed(&server, secret).await;
        let mut expected = managed.to_vec();
        expected.extend((manager == "operator").then_some("first"));
        expected.sort_unstable();
        assert_eq!(seen, expected, "{manager}");
        for kind in kinds.keys().filter(|kind| !managed.contains(kind)) {
            let (target, id) = &keys[kind];
            let missing = format!("/v1/keys/{MISSING}");
            let missing = server.request_as(secret, Method::DELETE, &missing).send().await.unwrap();
            let attack = server
                .request_as(secret, Method::DELETE, &format!("/v1/keys/{id}"))
                .send()
                .await
                .unwrap();
            let attack = refused(attack, 404, "not_found").await.to_string();
            let missing = refused(missing, 404, "not_found").await.to_string();
            assert_eq!(attack.replace(id, MISSING), missing, "{manager} → {kind}");
            assert!(is_valid(&server, target).await, "{manager} → {kind}");
        }
    }
    // Now what may be done is done. For each kind another one is made, because a manager needs its
    // own key to go on.
    for (manager, managed) in MAY_MANAGE {
        for kind in managed {
            let (target, id) = server.key(named(kind, &kinds[kind])).await;
            let path = format!("/v1/keys/{id}");
            let answer =
                server.request_as(&keys[manager].0, Method::DELETE, &path).send().await.unwrap();
            assert_eq!(answer.status(), 204, "{manager} → {kind}");
            assert!(!is_valid(&server, &target).await, "{manager} → {kind}");
        }
    }
    // Control: the requests that were refused above succeed for the unrestricted service key.
    for (kind, (target, id)) in &keys {
        let answer = server
            .request_as(&server.key, Method::DELETE, &format!("/v1/keys/{id}"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 204, "{kind}");
        assert!(!is_valid(&server, target).await, "{kind}");
    }
}

#[tokio::test]
async fn a_key_makes_only_keys_within_its_own_restrictions() {
    let server = Server::start().await;
    let kinds = kinds();
    for (manager, managed) in MAY_MANAGE {
        let (secret, _) = server.key(named(manager, &kinds[manager])).await;
        let sees_before = listed(&server, &secret).await.len();
        let mut made = 0;
        for (kind, body) in &kinds {
            let answer = server
                .request_as(&secret, Method::POST, "/v1/keys")
                .json(&named(kind, body))
                .send()
                .await;
            let answer = answer.unwrap();
            // What is left out, skills and expiry, is taken from the maker, so such a key is made
            // and is narrower.
            let own = &kinds[manager];
            let narrowed = (body["service"] != true || own["service"] == true)
                && (body["skills"].is_null() || own["skills"].is_null() || managed.contains(kind));
            match narrowed {
                true => assert_eq!(answer.status(), 201, "{manager} → {kind}"),
                false => drop(refused(answer, 403, "forbidden").await),
            }
            made += usize::from(narrowed);
            assert!(
                narrowed || !managed.contains(kind),
                "{manager} may make what it may manage: {kind}"
            );
        }
        // A maker sees, and so may revoke, every key that it made: none can do more than the maker
        // itself.
        assert_eq!(listed(&server, &secret).await.len(), sees_before + made, "{manager}");
    }
}
