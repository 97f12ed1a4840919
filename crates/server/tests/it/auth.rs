//! Who gets in.

use reqwest::Method;
use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

use crate::support::{Server, refused};

#[tokio::test]
async fn only_a_bearer_key_opens_the_door() {
    let server = Server::start().await;
    let url = format!("{}/v1/skills", server.url);
    refused(server.http.get(&url).send().await.unwrap(), 401, "unauthorized").await;
    let key = &server.key;
    let forms = [
        String::new(),
        "Bearer".into(),
        "Bearer ".into(),
        "Bearer wrong".into(),
        format!("Bearer {key}x"),
        format!("Bearer {}", key.to_uppercase()),
        format!("Basic {key}"),
        format!("Token {key}"),
        key.clone(),
        format!("Bearer {key} {key}"),
        format!("Bearer {}", "k".repeat(4000)),
        "Bearer ' OR 1=1 --".into(),
    ];
    for form in forms {
        let answer = server.http.get(&url).header(AUTHORIZATION, &form).send().await.unwrap();
        assert_eq!(answer.headers()["www-authenticate"], "Bearer", "{form}");
        refused(answer, 401, "unauthorized").await;
    }
    let twice =
        server.get("/v1/skills").header(AUTHORIZATION, "Bearer other").send().await.unwrap();
    refused(twice, 401, "unauthorized").await;
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        let answer = server
            .http
            .get(&url)
            .header(AUTHORIZATION, format!("{scheme} {key}"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "{scheme}");
    }
}

#[tokio::test]
async fn a_revoked_key_stops_at_once() {
    let server = Server::start().await;
    let (key, id) = server.key(json!({ "name": "short" })).await;
    let ask = || server.request_as(&key, Method::GET, "/v1/skills").send();
    assert_eq!(ask().await.unwrap().status(), 200);
    let gone = server.request(Method::DELETE, &format!("/v1/keys/{id}")).send().await.unwrap();
    assert_eq!(gone.status(), 204);
    refused(ask().await.unwrap(), 401, "unauthorized").await;
    let rows: Vec<Value> = server.get("/v1/keys").send().await.unwrap().json().await.unwrap();
    let row = rows.iter().find(|row| row["id"] == id.as_str()).unwrap();
    assert!(row["revoked_at"].is_string());
}

#[tokio::test]
async fn an_expired_key_is_no_key() {
    let server = Server::start().await;
    // Where a key can be made and used within the first of these times, the others are not needed.
    for seconds in [2, 10, 60] {
        let at = chrono::Utc::now() + chrono::Duration::seconds(seconds);
        let (key, _) = server.key(json!({ "name": "brief", "expires_at": at.to_rfc3339() })).await;
        let ask = || server.request_as(&key, Method::GET, "/v1/skills").send();
        let first = ask().await.unwrap();
        if chrono::Utc::now() >= at {
            continue;
        }
        assert_eq!(first.status(), 200);
        // The expiry is a time, so there is nothing to wait for but the time; the cached key must
        // expire too.
        tokio::time::sleep((at - chrono::Utc::now()).to_std().unwrap_or_default()).await;
        refused(ask().await.unwrap(), 401, "unauthorized").await;
        return;
    }
    panic!("a key could not be used within a minute of its making");
}

#[tokio::test]
async fn x_tenant_id_must_be_the_keys_own_unless_it_is_a_service_key() {
    let server = Server::start().await;
    let acme = server.tenant("acme").await;
    let ask = |key: &str, tenant: &str| {
        server.request_as(key, Method::GET, "/v1/skills").header("x-tenant-id", tenant).send()
    };
    assert_eq!(ask(&acme, "acme").await.unwrap().status(), 200);
    for other in ["default", "ACME", "acme ", "nobody", "", "../acme"] {
        let answer = ask(&acme, other).await.unwrap();
        match other.trim() {
            // Leading and trailing blanks are not part of a header's value.
            "acme" => assert_eq!(answer.status(), 200),
            _ => drop(refused(answer, 403, "forbidden").await),
        }
    }
    assert_eq!(ask(&server.key, "acme").await.unwrap().status(), 200);
    for unknown in ["nobody", "../acme", ""] {
        refused(ask(&server.key, unknown).await.unwrap(), 404, "not_found").await;
    }
    let twice = server.request_as(&acme, Method::GET, "/v1/skills").header("x-tenant-id", "acme");
    refused(twice.header("x-tenant-id", "default").send().await.unwrap(), 403, "forbidden").await;
}

#[tokio::test]
async fn a_service_key_acts_in_the_tenant_it_names() {
    let server = Server::start().await;
    let acme = server.tenant("acme").await;
    server.publish_as(&acme, &[("SKILL.md", &crate::support::manifest("theirs", ""))]).await;
    let names = async |tenant: &str| {
        let answer = server.get("/v1/skills").header("x-tenant-id", tenant).send().await.unwrap();
        let rows: Vec<Value> = answer.json().await.unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("acme").await, ["theirs"]);
    assert!(names("default").await.is_empty());
}

#[tokio::test]
async fn keys_are_kept_only_as_hashes() {
    let server = Server::start().await;
    let (key, _) = server.key(json!({ "name": "hidden" })).await;
    let first = server.key.clone();
    let data = server.data.clone();
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
    for name in std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(bytes) = std::fs::read(&name) else { continue };
        let holds = |key: &str| bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!holds(&key), "{} holds a key", name.display());
        assert_eq!(holds(&first), name.ends_with("key"), "{}", name.display());
    }
}
