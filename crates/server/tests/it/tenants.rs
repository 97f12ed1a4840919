//! Administration of tenants.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, refused};

#[tokio::test]
async fn tenants_live_and_end() {
    let server = Server::start().await;
    let body = json!({ "id": "acme", "policy": { "versions": "immutable", "max_concurrent": 3 } });
    let made = server.post("/v1/tenants", &body).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let made: Value = made.json().await.unwrap();
    assert_eq!((&made["id"], &made["policy"]), (&body["id"], &body["policy"]));
    refused(server.post("/v1/tenants", &body).send().await.unwrap(), 409, "conflict").await;
    let read: Value = server.get("/v1/tenants/acme").send().await.unwrap().json().await.unwrap();
    assert_eq!(read, made);
    let change = server.request(Method::PUT, "/v1/tenants/acme").json(&json!({ "policy": { "max_concurrent": 5 } }));
    let changed: Value = change.send().await.unwrap().json().await.unwrap();
    assert_eq!(changed["policy"], json!({ "versions": "mutable", "max_concurrent": 5 }));
    let rows: Vec<Value> = server.get("/v1/tenants").send().await.unwrap().json().await.unwrap();
    assert_eq!(rows.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(), ["acme", "default"]);
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
        json!({ "id": "ok", "policy": { "max_concurrent": 0 } }),
        json!({ "id": "ok", "policy": { "max_concurrent": -1 } }),
    ];
    for body in bodies {
        let answer = server.post("/v1/tenants", &body).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        refused(answer, 400, "bad_request").await;
    }
    for body in [json!({}), json!({ "policy": null })] {
        let change = server.request(Method::PUT, "/v1/tenants/default").json(&body).send().await.unwrap();
        refused(change, 400, "bad_request").await;
    }
}
