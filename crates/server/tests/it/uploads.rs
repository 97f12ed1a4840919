//! `/v1/files`, and files that were uploaded as the input of runs.

use std::path::Path;

use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Server, refused};

fn form(name: &str, bytes: impl Into<Vec<u8>>) -> Form {
    Form::new().part("file", Part::bytes(bytes.into()).file_name(name.to_owned()))
}

async fn send(server: &Server, key: &str, method: Method, path: &str, form: Form) -> Response {
    server.request_as(key, method, path).multipart(form).send().await.unwrap()
}

pub(crate) async fn upload(server: &Server, name: &str, bytes: impl Into<Vec<u8>>) -> Value {
    let answer = send(server, &server.key, Method::POST, "/v1/files", form(name, bytes)).await;
    assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    answer.json().await.unwrap()
}

fn id(file: &Value) -> &str {
    file["id"].as_str().unwrap()
}

async fn json_of(server: &Server, path: &str) -> Value {
    server.get(path).send().await.unwrap().json().await.unwrap()
}

/// The names of all blobs of uploaded files.
fn blobs(server: &Server) -> Vec<String> {
    let entries = std::fs::read_dir(server.data.join("blobs/default/files"));
    entries
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn a_file_goes_in_and_comes_out_as_it_was() {
    let server = Server::start().await;
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let file = upload(&server, "ä b.bin", bytes.clone()).await;
    let keys: Vec<&String> = file.as_object().unwrap().keys().collect();
    assert_eq!(
        keys[..8],
        [
            "id", "tenant_id", "name", "content_type", "size_bytes", "version", "created_at",
            "updated_at"
        ]
    );
    assert_eq!(
        (&file["name"], &file["version"], &file["size_bytes"]),
        (&json!("ä b.bin"), &json!(1), &json!(3_000_000))
    );
    let answer = server.get(&format!("/v1/files/{}/download", id(&file))).send().await.unwrap();
    assert!(answer.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"));
    assert!(answer.bytes().await.unwrap() == bytes);
    let signed = server.http.get(file["url"].as_str().unwrap()).send().await.unwrap();
    assert!(signed.bytes().await.unwrap() == bytes);
    let read = json_of(&server, &format!("/v1/files/{}", id(&file))).await;
    assert_eq!((&read["sha256"], &read["name"]), (&file["sha256"], &file["name"]));
    let named = form("x", "1").text("name", "named.csv").text("session_id", "s1");
    let named: Value =
        send(&server, &server.key, Method::POST, "/v1/files", named).await.json().await.unwrap();
    assert_eq!(
        (&named["name"], &named["content_type"]),
        (&json!("named.csv"), &json!("text/csv; charset=utf-8"))
    );
    let rows = json_of(&server, "/v1/files?session_id=s1").await;
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(json_of(&server, "/v1/files").await.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn versions_are_kept_until_the_file_is_deleted_and_then_no_object_is_left() {
    let server = Server::start().await;
    let first = upload(&server, "a.txt", "one").await;
    let path = format!("/v1/files/{}", id(&first));
    let second: Value = send(&server, &server.key, Method::PUT, &path, form("other.txt", "two"))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!((&second["version"], &second["parent_id"]), (&json!(2), &first["id"]));
    assert_eq!(second["name"], "a.txt");
    let versions = json_of(&server, &format!("{path}/versions")).await;
    assert_eq!((&versions[0]["id"], &versions[1]["id"]), (&second["id"], &first["id"]));
    assert_eq!(blobs(&server).len(), 2);
    let old = server.get(&format!("{path}/download")).send().await.unwrap();
    assert_eq!(old.text().await.unwrap(), "one");
    let deleted = server.request(Method::DELETE, &path).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    assert!(blobs(&server).is_empty());
    for path in
        [path.clone(), format!("/v1/files/{}/download", id(&second)), format!("{path}/versions")]
    {
        refused(server.get(&path).send().await.unwrap(), 404, "not_found").await;
    }
}

#[tokio::test]
async fn what_cannot_be_a_file_is_refused_and_leaves_nothing() {
    let server = Server::with(&[("max_file_size", "1000")]).await;
    let post = async |form: Form| send(&server, &server.key, Method::POST, "/v1/files", form).await;
    for name in ["a/b", "..", "a\\b", "", &"x".repeat(256)] {
        refused(post(form(name, "1")).await, 400, "bad_request").await;
    }
    refused(post(form("x", "1").text("name", "a\u{7}b")).await, 400, "bad_request").await;
    refused(post(form("x", "1").text("session_id", "s".repeat(300))).await, 400, "bad_request")
        .await;
    refused(post(Form::new().text("name", "x")).await, 400, "bad_request").await;
    refused(post(form("x", vec![0; 1001])).await, 413, "too_large").await;
    let json = server.post("/v1/files", &json!({})).send().await.unwrap();
    refused(json, 415, "unsupported_media_type").await;
    for bad in ["?execution_id=x", "?limit=0"] {
        refused(server.get(&format!("/v1/files{bad}")).send().await.unwrap(), 400, "bad_request")
            .await;
    }
    let empty: Value = post(form("empty", "")).await.json().await.unwrap();
    assert_eq!(empty["size_bytes"], 0);
    assert_eq!(blobs(&server), [id(&empty)]);
}

#[tokio::test]
async fn a_tenant_keeps_no_more_than_its_quota() {
    let server = Server::start().await;
    let mine = server.tenant("mine").await;
    let policy = json!({ "policy": { "max_file_bytes": 1000 } });
    let limited =
        server.request(Method::PUT, "/v1/tenants/mine").json(&policy).send().await.unwrap();
    assert_eq!(limited.json::<Value>().await.unwrap()["policy"]["max_file_bytes"], 1000);
    let post = async |bytes: usize| {
        send(&server, &mine, Method::POST, "/v1/files", form("a", vec![0; bytes])).await
    };
    let first: Value = post(600).await.json().await.unwrap();
    refused(post(500).await, 413, "quota_exceeded").await;
    assert_eq!(post(400).await.status(), 201);
    let path = format!("/v1/files/{}", id(&first));
    assert_eq!(server.request_as(&mine, Method::DELETE, &path).send().await.unwrap().status(), 204);
    assert_eq!(post(500).await.status(), 201);
    assert_eq!(upload(&server, "another tenant's", vec![0; 5000]).await["size_bytes"], 5000);
}

const LISTS_ITS_INPUT: &str = r#"
cd "$SANDBOX_INPUT_DIR"
find . -type f | sort | while read -r name; do echo "$name: $(cat "$name")"; done
"#;

#[tokio::test]
async fn uploaded_files_are_placed_beside_the_input() {
    let server = Server::start().await;
    server.publish_bash("lists", LISTS_ITS_INPUT).await;
    server
        .publish_bash(
            "leaves",
            "mkdir \"$SANDBOX_FILES_DIR/out\"; echo made > \"$SANDBOX_FILES_DIR/out/made.txt\"\n",
        )
        .await;
    let one = upload(&server, "a b.txt", "one").await;
    let made = server.run(json!({ "skill": "leaves" })).await;
    // What one run left is the input of the next.
    let ids = json!([one["id"], made["files"][0]["id"]]);
    let run = server.run(json!({ "skill": "lists", "input_files": ids })).await;
    assert_eq!(run["logs"], "./a b.txt: one\n./out/made.txt: made\n", "{run}");

    // A bit that flipped in storage is noticed.
    let flipped = upload(&server, "flipped.txt", "1").await;
    std::fs::write(server.data.join("blobs/default/files").join(id(&flipped)), "0").unwrap();
    let run = server.run(json!({ "skill": "lists", "input_files": [flipped["id"]] })).await;
    assert_eq!(run["outcome"], "refused", "{run}");

    let twin = upload(&server, "a b.txt", "two").await;
    let missing = "0190c0de-0000-7000-8000-000000000000";
    for (ids, why) in [
        (json!([one["id"], twin["id"]]), "Two input files have the name \"a b.txt\"."),
        (
            json!([one["id"], missing]),
            "Input file \"0190c0de-0000-7000-8000-000000000000\" does not exist.",
        ),
        (json!([one["id"], "nonsense"]), "Input file \"nonsense\" does not exist."),
    ] {
        let run = server.run(json!({ "skill": "lists", "input_files": ids })).await;
        assert_eq!(
            (&run["status"], &run["outcome"], &run["error"]),
            (&json!("failed"), &json!("refused"), &json!(why))
        );
    }
}

#[tokio::test]
async fn the_artifact_that_is_deleted_is_nowhere_any_more() {
    let server = Server::start().await;
    server
        .publish_bash("leaves", "for n in a b; do echo $n > \"$SANDBOX_FILES_DIR/$n.txt\"; done\n")
        .await;
    let run = server.run(json!({ "skill": "leaves" })).await;
    let execution = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
    let listed = json_of(
        &server,
        &format!("/v1/files?execution_id={}", run["execution_id"].as_str().unwrap()),
    )
    .await;
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let path = format!("/v1/files/{}", id(&run["files"][0]));
    assert_eq!(server.request(Method::DELETE, &path).send().await.unwrap().status(), 204);
    let read = json_of(&server, &execution).await;
    assert_eq!(
        (&read["files_list"], &read["files_url"]),
        (&json!(["b.txt"]), &Value::Null),
        "{read}"
    );
    let archive = server.http.get(run["files_url"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(archive.status(), 404);
    let left = all_files(&server.data.join("blobs"));
    assert!(
        left.iter().any(|path| path.ends_with("b.txt"))
            && !left.iter().any(|path| path.ends_with("a.txt")),
        "{left:?}"
    );
}

fn all_files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(all_files(&path)),
            false => found.push(path.display().to_string()),
        }
    }
    found
}

#[tokio::test]
async fn a_key_for_some_skills_sees_no_artifacts_of_others() {
    let server = Server::start().await;
    server.publish_bash("secret", "echo hidden > \"$SANDBOX_FILES_DIR/a.txt\"\n").await;
    server.publish_bash("lists", LISTS_ITS_INPUT).await;
    let run = server.run(json!({ "skill": "secret" })).await;
    let own = upload(&server, "own.txt", "own").await;
    let (limited, _) = server
        .key(json!({ "name": "k", "scopes": ["read", "execute"], "skills": ["lists"] }))
        .await;
    let hidden = id(&run["files"][0]);
    let path = format!("/v1/files/{hidden}/download");
    refused(
        server.request_as(&limited, Method::GET, &path).send().await.unwrap(),
        404,
        "not_found",
    )
    .await;
    let rows: Vec<Value> = server
        .request_as(&limited, Method::GET, "/v1/files")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(rows.iter().map(id).collect::<Vec<_>>(), [id(&own)]);
    let body = json!({ "skill": "lists", "input_files": [hidden] });
    let run: Value = server
        .request_as(&limited, Method::POST, "/v1/executions")
        .json(&body)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(run["outcome"], "refused", "{run}");
}
