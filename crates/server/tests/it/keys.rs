//! Administration of keys, and what it leaves in the audit trail.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, keys, refused};

#[tokio::test]
async fn a_key_is_shown_once() {
    let server = Server::start().await;
    let answer = server.post("/v1/keys", &json!({ "name": "ci" })).send().await.unwrap();
    assert_eq!(answer.status(), 201);
    let made: Value = answer.json().await.unwrap();
    let secret = made["key"].as_str().unwrap();
    assert!(secret.starts_with("sk-"));
    assert_eq!(made["scopes"], json!(["execute", "read"]));
    assert_eq!((&made["service"], &made["tenant_id"]), (&json!(false), &json!("default")));
    let text = server.get("/v1/keys").send().await.unwrap().text().await.unwrap();
    assert!(!text.contains(secret));
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(secret.starts_with(rows[0]["prefix"].as_str().unwrap()));
    assert!(!keys(&rows[0]).contains(&"key"));
}

#[tokio::test]
async fn bad_keys_are_refused() {
    let server = Server::start().await;
    let bodies = [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "x".repeat(129) }),
        json!({ "name": "a\nb" }),
        json!({ "name": "a", "scopes": [] }),
        json!({ "name": "a", "scopes": ["root"] }),
        json!({ "name": "a", "skills": [] }),
        json!({ "name": "a", "expires_at": "tomorrow" }),
        json!({ "name": "a", "expires_at": "2001-01-01T00:00:00Z" }),
        json!({ "name": "a", "key": "" }),
        json!({ "name": "a", "key": "with blanks in the middle" }),
        json!({ "name": "a", "key": "é" }),
        json!({ "name": "a", "key": "k".repeat(513) }),
    ];
    for body in bodies {
        let answer = server.post("/v1/keys", &body).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        refused(answer, 400, "bad_request").await;
    }
}

#[tokio::test]
async fn a_tenants_admin_cannot_climb() {
    let server = Server::start().await;
    let admin = server.tenant("acme").await;
    let make = |body: Value| server.request_as(&admin, Method::POST, "/v1/keys").json(&body).send();
    refused(make(json!({ "name": "a", "service": true })).await.unwrap(), 403, "forbidden").await;
    refused(
        make(json!({ "name": "a", "key": "sk-imported-0123456789" })).await.unwrap(),
        403,
        "forbidden",
    )
    .await;
    let at = chrono::Utc::now() + chrono::Duration::hours(1);
    let brief = json!({ "name": "brief", "scopes": ["admin"], "expires_at": at.to_rfc3339() });
    let brief: Value = make(brief).await.unwrap().json().await.unwrap();
    let child = server.request_as(brief["key"].as_str().unwrap(), Method::POST, "/v1/keys");
    let child: Value =
        child.json(&json!({ "name": "child" })).send().await.unwrap().json().await.unwrap();
    assert_eq!(child["expires_at"], brief["expires_at"]);
}

#[tokio::test]
async fn an_operator_imports_any_key() {
    let server = Server::start().await;
    let body = json!({ "name": "old", "key": "legacy-key-0123456789", "scopes": ["read"] });
    let make = || server.post("/v1/keys", &body).send();
    assert_eq!(make().await.unwrap().status(), 201);
    refused(make().await.unwrap(), 409, "conflict").await;
    server.key(json!({ "name": "short", "key": "dev", "scopes": ["read"] })).await;
    for key in ["legacy-key-0123456789", "dev"] {
        let answer = server.request_as(key, Method::GET, "/v1/skills").send().await.unwrap();
        assert_eq!(answer.status(), 200, "{key}");
    }
}

#[tokio::test]
async fn changes_are_audited() {
    let server = Server::start().await;
    let (_, id) = server.key(json!({ "name": "ci" })).await;
    server.request(Method::DELETE, &format!("/v1/keys/{id}")).send().await.unwrap();
    server.publish_bash("noted", "true\n").await;
    let delete = server
        .request(Method::DELETE, "/v1/skills/noted/1.0.0")
        .header("x-request-id", "my-delete");
    assert_eq!(delete.send().await.unwrap().status(), 204);
    server.tenant("acme").await;
    let rows: Vec<Value> = server.get("/v1/audit").send().await.unwrap().json().await.unwrap();
    let actions: Vec<_> = rows.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        ["tenant.create", "skill.delete", "skill.publish", "key.revoke", "key.create"]
    );
    assert_eq!(
        (&rows[1]["object"], &rows[1]["request_id"]),
        (&json!("noted@1.0.0"), &json!("my-delete"))
    );
    assert!(rows[1]["actor"].is_string());
    // What was done in the other tenant stands in its own trail.
    let theirs = server.get("/v1/audit").header("x-tenant-id", "acme").send().await.unwrap();
    let rows: Vec<Value> = theirs.json().await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row["action"].as_str().unwrap()).collect::<Vec<_>>(),
        ["key.create"]
    );
}
