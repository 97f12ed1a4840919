//! Every route that changes something leaves its entry in the audit log. A route that is added must
//! be named here.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::matrix::operations;
use crate::support::Server;
use crate::trust::{key, signed};
use crate::uploads;

/// Routes that change no administrative state: runs and uploads have records of their own.
const NOT_ENTERED: [&str; 5] = [
    "POST /v1/executions", "POST /v1/executions/{id}/cancel", "POST /v1/files",
    "PUT /v1/files/{id}", "POST /v1/skills/validate",
];

/// The calls that have been made, each with one entry.
struct Calls<'a> {
    server: &'a Server,
    made: BTreeSet<String>,
    entries: usize,
}

impl Calls<'_> {
    /// Makes a call; its entry must be the newest, and the only new one.
    async fn make(&mut self, route: &str, path: &str, body: Option<Value>, action: &str) -> Value {
        let method: Method = route.split(' ').next().unwrap().parse().unwrap();
        let request = self.server.request(method, path);
        let answer = match body {
            Some(body) => request.json(&body).send().await.unwrap(),
            None => request.send().await.unwrap(),
        };
        assert!(answer.status().is_success(), "{route}: {}", answer.status());
        let answer = answer.json().await.unwrap_or_default();
        self.entered(route, action).await;
        answer
    }

    async fn entered(&mut self, route: &str, action: &str) {
        let log = self.server.json("/v1/audit?limit=200").await;
        let log = log.as_array().unwrap();
        self.entries += 1;
        assert_eq!(log.len(), self.entries, "{route}");
        let newest = log.iter().max_by_key(|entry| entry["seq"].as_i64()).unwrap();
        assert_eq!(
            (&newest["action"], &newest["seq"]),
            (&json!(action), &json!(self.entries)),
            "{route}"
        );
        assert!(newest["actor"].is_string() && newest["request_id"].is_string(), "{newest}");
        self.made.insert(route.to_owned());
    }
}

#[tokio::test]
async fn every_change_has_one_entry() {
    let server = Server::start().await;
    let mut calls = Calls { server: &server, made: BTreeSet::new(), entries: 0 };
    let made =
        calls.make("POST /v1/keys", "/v1/keys", Some(json!({ "name": "a" })), "key.create").await;
    let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    calls.make("DELETE /v1/keys/{id}", &path, None, "key.revoke").await;
    calls
        .make("POST /v1/tenants", "/v1/tenants", Some(json!({ "id": "t" })), "tenant.create")
        .await;
    let policy = json!({ "policy": { "weight": 2 } });
    calls.make("PUT /v1/tenants/{id}", "/v1/tenants/t", Some(policy), "tenant.update").await;
    calls.make("DELETE /v1/tenants/{id}", "/v1/tenants/t", None, "tenant.delete").await;

    let key = key(1);
    let body = json!({ "public_key": key.public().to_string() });
    calls.make("POST /v1/trust/keys", "/v1/trust/keys", Some(body), "trust.key.add").await;
    server.require("warn").await;
    calls.entered("PUT /v1/tenants/{id}", "tenant.update").await;
    assert_eq!(server.upload(&signed("1.0.0", &key)).await.status(), 201);
    calls.entered("POST /v1/skills", "skill.publish").await;
    let version = "/v1/skills/{name}/{version}";
    for (verdict, action) in [("reject", "skill.reject"), ("approve", "skill.approve")] {
        let path = format!("/v1/skills/demo/1.0.0/{verdict}");
        calls.make(&format!("POST {version}/{verdict}"), &path, None, action).await;
    }
    calls.make(&format!("DELETE {version}"), "/v1/skills/demo/1.0.0", None, "skill.delete").await;
    let route = "DELETE /v1/trust/versions/{name}";
    calls.make(route, "/v1/trust/versions/demo", None, "trust.version.forget").await;
    let path = format!("/v1/trust/keys/{}", key.public().id());
    calls.make("DELETE /v1/trust/keys/{id}", &path, None, "trust.key.revoke").await;
    let digest = format!("sha256:{}", "a".repeat(64));
    let body = json!({ "digest": digest });
    calls
        .make("POST /v1/trust/digests", "/v1/trust/digests", Some(body), "trust.digest.revoke")
        .await;
    let path = format!("/v1/trust/digests/{digest}");
    calls.make("DELETE /v1/trust/digests/{digest}", &path, None, "trust.digest.unrevoke").await;
    let file = uploads::upload(&server, "a.txt", "x").await;
    let path = format!("/v1/files/{}", file["id"].as_str().unwrap());
    calls.make("DELETE /v1/files/{id}", &path, None, "file.delete").await;

    let changing = operations().into_iter().filter(|operation| operation.method != Method::GET);
    let expected: BTreeSet<_> = changing
        .map(|operation| operation.name())
        .filter(|name| !NOT_ENTERED.contains(&name.as_str()))
        .collect();
    assert_eq!(calls.made, expected);
    let head = server.json("/v1/audit/head").await;
    let payload: Value = serde_json::from_str(head["payload"].as_str().unwrap()).unwrap();
    assert_eq!((&payload["seq"], &payload["unchained"]), (&json!(calls.entries), &json!(0)));
}
