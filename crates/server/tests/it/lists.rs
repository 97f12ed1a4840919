//! Pages of lists.

use serde_json::{Value, json};

use crate::support::{Server, manifest, refused};

/// The rows of a page and the address of the next one.
async fn page(server: &Server, key: &str, path: &str) -> (Vec<Value>, Option<String>) {
    let answer = server.request_as(key, reqwest::Method::GET, path).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    let next = answer.headers().get("link").map(|link| {
        let link = link.to_str().unwrap();
        let url = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
        url.strip_prefix(&server.url).unwrap().to_owned()
    });
    (answer.json().await.unwrap(), next)
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_row_comes_once() {
    let server = Server::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        server.publish(&[("SKILL.md", &manifest(name, ""))]).await;
    }
    let (rows, next) = page(&server, &server.key, "/v1/skills?limit=2&colour=r%26d").await;
    assert_eq!(names(&rows), ["a", "b"]);
    let next = next.unwrap();
    assert!(next.contains("limit=2") && next.contains("colour=r%26d"), "{next}");
    // A row that appears before the cursor does not shift the pages.
    server.publish(&[("SKILL.md", &manifest("aa", ""))]).await;
    let (rows, next) = page(&server, &server.key, &next).await;
    assert_eq!(names(&rows), ["c", "d"]);
    let (rows, next) = page(&server, &server.key, &next.unwrap()).await;
    assert_eq!((names(&rows), next), (vec!["e"], None));
    let (rows, _) = page(&server, &server.key, "/v1/skills?limit=2&offset=3").await;
    assert_eq!(names(&rows), ["c", "d"]);
    let (rows, next) = page(&server, &server.key, "/v1/skills?offset=100").await;
    assert_eq!((rows.len(), next), (0, None));
}

#[tokio::test]
async fn executions_are_filtered_and_paged() {
    let server = Server::start().await;
    server.publish_bash("good", "true\n").await;
    server.publish_bash("bad", "exit 1\n").await;
    let mut ids = Vec::new();
    for skill in ["good", "bad", "good"] {
        ids.push(
            server.run(json!({ "skill": skill })).await["execution_id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let list = async |query: &str| {
        let (rows, _) = page(&server, &server.key, &format!("/v1/executions?{query}")).await;
        let place =
            |row: &Value| ids.iter().position(|id| row["execution_id"] == id.as_str()).unwrap();
        rows.iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(list("").await, [2, 1, 0]);
    assert_eq!(list("skill=good").await, [2, 0]);
    assert_eq!(list("status=failed").await, [1]);
    assert_eq!(list("skill=good&status=failed").await, [0; 0]);
    let second: Value = server
        .get(&format!("/v1/executions/{}", ids[1]))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(list(&format!("since={}", second["created_at"].as_str().unwrap())).await, [2, 1]);
    let (rows, next) = page(&server, &server.key, "/v1/executions?limit=2&skill=good").await;
    assert_eq!((rows.len(), next), (2, None));
    let (rows, next) = page(&server, &server.key, "/v1/executions?limit=2").await;
    assert!(
        rows[0].get("logs").is_none() && rows[0]["error"].is_null() && rows[1]["error"].is_string()
    );
    let (rows, _) = page(&server, &server.key, &next.unwrap()).await;
    assert_eq!(rows[0]["execution_id"], ids[0].as_str());
    let key = rows[0]["key_id"].as_str().unwrap();
    assert_eq!(list(&format!("key={key}")).await.len(), 3);
    assert_eq!(list("key=0190c0de-0000-7000-8000-000000000000").await.len(), 0);
}

#[tokio::test]
async fn a_cursor_is_worthless_to_another_tenant_or_list() {
    let server = Server::start().await;
    let other = server.tenant("other").await;
    for name in ["a", "b"] {
        server.publish(&[("SKILL.md", &manifest(name, ""))]).await;
        server.publish_as(&other, &[("SKILL.md", &manifest(name, ""))]).await;
    }
    let (_, next) = page(&server, &server.key, "/v1/skills?limit=1").await;
    let next = next.unwrap();
    let stolen = server.request_as(&other, reqwest::Method::GET, &next).send().await.unwrap();
    refused(stolen, 400, "bad_request").await;
    let elsewhere = server.get(&next.replace("/v1/skills", "/v1/keys")).send().await.unwrap();
    refused(elsewhere, 400, "bad_request").await;
}
