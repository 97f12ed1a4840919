//! Every route of openapi.json against every kind of caller: a route that is added is tested
//! without anyone remembering to add it.

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{Server, manifest, refused, zip};

/// An operation of the API.
pub(crate) struct Operation {
    pub method: Method,
    pub path: String,
    /// The content type of its body, if it has one.
    body: Option<String>,
    open: bool,
}

pub(crate) fn operations() -> Vec<Operation> {
    let api: Value = serde_json::from_str(&server::openapi_json()).unwrap();
    let mut all = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for (verb, operation) in item.as_object().unwrap() {
            let content = operation["requestBody"]["content"].as_object();
            all.push(Operation {
                method: verb.to_uppercase().parse().unwrap(),
                path: path.clone(),
                body: content.and_then(|content| content.keys().next().cloned()),
                open: operation["security"].is_array(),
            });
        }
    }
    assert!(all.len() > 25, "the description is read");
    all
}

impl Operation {
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn path(&self, values: &BTreeMap<&str, String>) -> String {
        let values = values.iter().map(|(name, value)| (*name, value.as_str()));
        let file =
            values.clone().find_map(|(name, value)| (name == "file").then_some(("id", value)));
        // An id is a file's where files are.
        let first = file.filter(|_| self.path.starts_with("/v1/files"));
        let named = first.into_iter().chain(values);
        named.fold(self.path.clone(), |path, (name, value)| {
            path.replace(&format!("{{{name}}}"), value)
        })
    }

    /// The request with a body that a permitted caller could send.
    fn request(&self, server: &Server, key: &str, path: &str) -> RequestBuilder {
        let request = server.request_as(key, self.method.clone(), path);
        match self.body.as_deref() {
            Some("application/json") => {
                request.json(&json!({ "skill": "probe", "name": "k", "id": "made", "policy": {} }))
            }
            Some(kind) => request
                .header("content-type", kind)
                .body(zip(&[("SKILL.md", &manifest("made", ""))])),
            None => request,
        }
    }
}

/// One execution with a file, and the values that name it and its skill.
async fn objects(server: &Server, key: &str) -> BTreeMap<&'static str, String> {
    let script =
        "echo hello; echo data > \"$SANDBOX_FILES_DIR/a.txt\"; echo '{}' > \"$SANDBOX_OUTPUT\"\n";
    server.publish_as(key, &[("SKILL.md", &manifest("probe", "")), ("main.sh", script)]).await;
    let run =
        server.request_as(key, Method::POST, "/v1/executions").json(&json!({ "skill": "probe" }));
    let run: Value = run.send().await.unwrap().json().await.unwrap();
    assert_eq!(run["files_list"], json!(["a.txt"]), "{run}");
    trust_something(server, key).await;
    BTreeMap::from([
        ("id", run["execution_id"].as_str().unwrap().to_owned()),
        ("name", "probe".into()),
        ("version", "1.0.0".into()),
        ("path", "a.txt".into()),
        ("file", run["files"][0]["id"].as_str().unwrap().to_owned()),
        ("token", "AAAA".into()),
        ("digest", format!("sha256:{}", "a".repeat(64))),
    ])
}

/// What `minisign -G` once made.
const TRUSTED_KEY: &str = "RWSKRqZwrE9uQKIPkWgqVkiXUcXFBSfpivlTxHZtjGOiXqKXZy+S/OXe";
const TRUSTED_KEY_ID: &str = "406E4FAC70A6468A";

/// A trusted key and some revoked content.
async fn trust_something(server: &Server, key: &str) {
    let digest = format!("sha256:{}", "a".repeat(64));
    for (path, body) in [
        ("/v1/trust/keys", json!({ "public_key": TRUSTED_KEY })),
        ("/v1/trust/digests", json!({ "digest": digest })),
    ] {
        let answer = server.request_as(key, Method::POST, path).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{path}");
    }
}

#[tokio::test]
async fn without_a_key_every_route_but_the_open_ones_is_401() {
    let server = Server::start().await;
    let values: BTreeMap<_, _> = ["id", "name", "version", "path", "token"]
        .into_iter()
        .map(|name| (name, "x".to_owned()))
        .collect();
    for operation in operations() {
        let path = operation.path(&values);
        let request = operation.request(&server, "", &path).build().unwrap();
        let mut request = request;
        request.headers_mut().remove("authorization");
        let answer = server.http.execute(request).await.unwrap();
        match operation.open {
            true => assert_ne!(answer.status(), 401, "{}", operation.name()),
            false => drop(refused(answer, 401, "unauthorized").await),
        }
    }
}

/// The scope each operation needs, written out: the code must agree with this table, and the table
/// with the description.
fn scope(operation: &Operation) -> &'static str {
    match (operation.method.as_str(), operation.path.as_str()) {
        ("POST", "/v1/executions" | "/v1/executions/{id}/cancel") => "execute",
        ("POST", "/v1/skills" | "/v1/skills/validate") => "publish",
        ("DELETE", "/v1/skills/{name}/{version}") => "publish",
        ("POST", "/v1/skills/{name}/{version}/approve" | "/v1/skills/{name}/{version}/reject") => {
            "admin"
        }
        (
            _,
            "/v1/keys" | "/v1/keys/{id}" | "/v1/audit" | "/v1/audit/head" | "/v1/webhooks/secret",
        ) => "admin",
        (_, path) if path.starts_with("/v1/trust/") => "admin",
        (_, "/v1/tenants" | "/v1/tenants/{id}") => "service",
        ("POST" | "PUT" | "DELETE", "/v1/files" | "/v1/files/{id}") => "execute",
        ("GET", "/.well-known/agent-skills/index.json" | "/v1/usage") => "read",
        ("GET", path)
            if ["/v1/executions", "/v1/skills", "/v1/files"]
                .iter()
                .any(|kind| path.starts_with(kind)) =>
        {
            "read"
        }
        _ => panic!("{} is not in the table of scopes", operation.name()),
    }
}

#[tokio::test]
async fn each_scope_opens_exactly_its_routes() {
    let server = Server::start().await;
    let values = objects(&server, &server.key).await;
    for held in ["execute", "read", "publish", "admin"] {
        let (key, _) = server.key(json!({ "name": held, "scopes": [held] })).await;
        for operation in operations().iter().filter(|operation| !operation.open) {
            // Nothing must change under the other cases, so deletions aim at what is not there.
            let mut values = values.clone();
            if operation.method == Method::DELETE {
                values.insert("version", "9.9.9".into());
                values.insert("id", "x".into());
                values.insert("file", "x".into());
                values.insert("digest", "x".into());
                values.insert("name", "x".into());
            }
            let answer =
                operation.request(&server, &key, &operation.path(&values)).send().await.unwrap();
            if scope(operation) == held {
                let status = answer.status().as_u16();
                assert!(
                    !matches!(status, 401 | 403 | 500..),
                    "{held}: {} is {status}",
                    operation.name()
                );
            } else {
                let body = refused(answer, 403, "forbidden").await;
                assert!(body["details"].is_null(), "{held}: {}", operation.name());
            }
        }
    }
}

#[tokio::test]
async fn another_tenants_objects_are_404_with_the_body_of_missing_ones() {
    let server = Server::start().await;
    let mine = server.tenant("mine").await;
    let other = server.tenant("other").await;
    let values = objects(&server, &mine).await;
    let missing = BTreeMap::from([
        ("id", "0190c0de-0000-7000-8000-000000000000".to_owned()),
        ("name", "nothing".into()),
        ("version", "1.0.0".into()),
        ("path", "a.txt".into()),
        ("file", "0190c0de-0000-7000-8000-000000000001".into()),
        ("digest", format!("sha256:{}", "b".repeat(64))),
    ]);
    let mut compared = 0;
    for operation in
        operations().iter().filter(|operation| !operation.open && operation.path.contains('{'))
    {
        if scope(operation) == "service" {
            continue;
        }
        let mut values = values.clone();
        if operation.path.starts_with("/v1/keys") {
            values.insert("id", first_key_id(&server, &mine).await);
        }
        if operation.path.starts_with("/v1/trust/keys") {
            values.insert("id", TRUSTED_KEY_ID.into());
        }
        let body = async |values: &BTreeMap<&str, String>| {
            let answer =
                operation.request(&server, &other, &operation.path(values)).send().await.unwrap();
            without_values(refused(answer, 404, "not_found").await, values.values())
        };
        assert_eq!(body(&values).await, body(&missing).await, "{}", operation.name());
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} routes were compared");
    // Nothing happened to what is mine, and nothing of it is in the other's lists.
    for path in ["/v1/executions/{id}", "/v1/skills/{name}/{version}", "/v1/files/{file}/download"]
    {
        let path = values.iter().fold(path.to_owned(), |path, (name, value)| {
            path.replace(&format!("{{{name}}}"), value)
        });
        assert_eq!(
            server.request_as(&mine, Method::GET, &path).send().await.unwrap().status(),
            200
        );
    }
    for path in ["/v1/executions", "/v1/skills", "/v1/files"] {
        let rows: Vec<Value> = server
            .request_as(&other, Method::GET, path)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert!(rows.is_empty(), "{path}");
    }
    assert_eq!(
        server.request_as(&mine, Method::GET, "/v1/keys").send().await.unwrap().status(),
        200
    );
}

/// The body with the names that the client sent cut out of its message: everything else must be the
/// same for a missing object and for another tenant's.
fn without_values<'a>(mut body: Value, sent: impl Iterator<Item = &'a String>) -> Value {
    let message = body["message"].as_str().unwrap().to_owned();
    let message = sent.fold(message, |message, value| message.replace(value.as_str(), "…"));
    body["message"] = message.into();
    body
}

async fn first_key_id(server: &Server, key: &str) -> String {
    let rows: Vec<Value> =
        server.request_as(key, Method::GET, "/v1/keys").send().await.unwrap().json().await.unwrap();
    rows[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_request_cannot_choose_its_tenant_state_or_limits_by_other_means() {
    let server = Server::start().await;
    let mine = server.tenant("mine").await;
    server.publish_as(&mine, &[("SKILL.md", &manifest("probe", "")), ("main.sh", "true\n")]).await;
    let body = json!({
        "skill": "probe", "tenant": "default", "tenant_id": "default", "status": "failed", "key_id": "x",
        "quota": 1_000_000, "attempt": 7, "owner": "me",
    });
    let request =
        server.request_as(&mine, Method::POST, "/v1/executions?tenant_id=default&tenant=default");
    let run: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "success", "{run}");
    let path = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
    let stored: Value =
        server.request_as(&mine, Method::GET, &path).send().await.unwrap().json().await.unwrap();
    assert_eq!((&stored["tenant_id"], &stored["attempt"]), (&json!("mine"), &json!(1)));
    refused(server.get(&path).send().await.unwrap(), 404, "not_found").await;
}
