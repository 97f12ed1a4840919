//! Administration of tenants.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, refused};

#[tokio::test]
async fn tenants_live_and_end() {
    let server = Server::start().await;
    let policy = json!({
        "versions": "immutable", "scan": "block", "max_concurrent": 3, "max_queued": 10, "rate_per_minute": 60,
        "weight": 5, "signatures": "warn",
    });
    let body = json!({ "id": "acme", "policy": policy });
    let made = server.post("/v1/tenants", &body).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let made: Value = made.json().await.unwrap();
    assert_eq!((&made["id"], &made["policy"]), (&body["id"], &body["policy"]));
    refused(server.post("/v1/tenants", &body).send().await.unwrap(), 409, "conflict").await;
    let read: Value = server.get("/v1/tenants/acme").send().await.unwrap().json().await.unwrap();
    assert_eq!(read, made);
    let change = server
        .request(Method::PUT, "/v1/tenants/acme")
        .json(&json!({ "policy": { "max_concurrent": 5 } }));
    let changed: Value = change.send().await.unwrap().json().await.unwrap();
    let expected = json!({
        "versions": "mutable", "scan": "report", "max_concurrent": 5, "weight": 1, "signatures": "off",
    });
    assert_eq!(changed["policy"], expected);
    let rows: Vec<Value> = server.get("/v1/tenants").send().await.unwrap().json().await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["acme", "default"]
    );
    let gone = server.request(Method::DELETE, "/v1/tenants/acme").send().await.unwrap();
    assert_eq!(gone.status(), 204);
    refused(server.get("/v1/tenants/acme").send().await.unwrap(), 404, "not_found").await;
    // A tenant with a live key is not empty.
    let own = server.request(Method::DELETE, "/v1/tenants/default").send().await.unwrap();
    refused(own, 409, "conflict").await;
}

#[tokio::test]
async fn bad_tenants_are_refused() {
    let server = Server::start().await;
    let bodies = [
        json!({}),
        json!({ "id": "" }),
        json!({ "id": "-a" }),
        json!({ "id": "a/b" }),
        json!({ "id": "../x" }),
        json!({ "id": "x".repeat(65) }),
        json!({ "id": "ok", "policy": { "versions": "sometimes" } }),
        json!({ "id": "ok", "policy": { "scan": "" } }),
        json!({ "id": "ok", "policy": { "scan": null } }),
        json!({ "id": "ok", "policy": { "max_concurrent": 0 } }),
        json!({ "id": "ok", "policy": { "max_concurrent": -1 } }),
        json!({ "id": "ok", "policy": { "max_queued": 0 } }),
        json!({ "id": "ok", "policy": { "rate_per_minute": 0 } }),
        json!({ "id": "ok", "policy": { "weight": 0 } }),
        json!({ "id": "ok", "policy": { "weight": 1001 } }),
        json!({ "id": "ok", "policy": { "weight": null } }),
    ];
    for body in bodies {
        let answer = server.post("/v1/tenants", &body).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        refused(answer, 400, "bad_request").await;
    }
    for body in [json!({}), json!({ "policy": null })] {
        let change =
            server.request(Method::PUT, "/v1/tenants/default").json(&body).send().await.unwrap();
        refused(change, 400, "bad_request").await;
    }
}

#[tokio::test]
async fn a_tenant_that_asks_too_often_is_told_when_to_come_back() {
    let server = Server::start().await;
    server.publish_bash("quick", "true\n").await;
    let limit = json!({ "policy": { "rate_per_minute": 2 } });
    let set = server.request(Method::PUT, "/v1/tenants/default").json(&limit).send().await.unwrap();
    assert_eq!(set.status(), 200);
    let ask = || server.post("/v1/executions", &json!({ "skill": "quick" })).send();
    assert_eq!(
        (ask().await.unwrap().status(), ask().await.unwrap().status()),
        (200.try_into().unwrap(), 200.try_into().unwrap())
    );
    let third = ask().await.unwrap();
    let seconds: u64 = third.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    refused(third, 429, "rate_limited").await;
}

#[tokio::test]
async fn a_tenants_queue_has_an_end() {
    let server = Server::start().await;
    server.publish_bash("slow", "sleep 600\n").await;
    let limit = json!({ "policy": { "max_concurrent": 1, "max_queued": 1 } });
    server.request(Method::PUT, "/v1/tenants/default").json(&limit).send().await.unwrap();
    let ask = || server.post("/v1/executions", &json!({ "skill": "slow", "mode": "async" })).send();
    // The first waits until it is claimed, so the second may have to wait for a place in the queue.
    let mut accepted = Vec::new();
    while accepted.len() < 2 {
        let answer = ask().await.unwrap();
        match answer.status().as_u16() {
            202 => accepted.push(answer.json::<Value>().await.unwrap()),
            429 => tokio::task::yield_now().await,
            other => panic!("{other}"),
        }
    }
    let full = ask().await.unwrap();
    assert!(full.headers().contains_key("retry-after"));
    refused(full, 429, "too_busy").await;
    for run in accepted {
        let path = format!("/v1/executions/{}/cancel", run["execution_id"].as_str().unwrap());
        assert!(server.request(Method::POST, &path).send().await.unwrap().status().is_success());
    }
}
