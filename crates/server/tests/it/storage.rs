//! What a tenant stores is counted and limited, whichever way it comes in; and nothing new comes in
//! when the disk is almost full.

use std::path::Path;

use futures_util::future::join_all;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Server, manifest, refused, zip};

const MEGABYTE: u64 = 1 << 20;
const LEAVES_A_MEGABYTE: &str = "head -c 1048576 /dev/urandom > \"$SANDBOX_FILES_DIR/a.bin\"; echo said; echo '{\"n\":1}' > \"$SANDBOX_OUTPUT\"\n";

/// A tenant with a skill that leaves a megabyte at each run; its key.
async fn tenant_with_skill(server: &Server) -> String {
    let key = server.tenant("mine").await;
    server
        .publish_as(&key, &[("SKILL.md", &manifest("leaves", "")), ("main.sh", LEAVES_A_MEGABYTE)])
        .await;
    key
}

async fn usage(server: &Server, key: &str) -> Value {
    let answer = server.request_as(key, Method::GET, "/v1/usage").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

async fn used(server: &Server, key: &str) -> u64 {
    usage(server, key).await["stored_bytes"].as_u64().unwrap()
}

async fn limit(server: &Server, bytes: u64) {
    let policy = json!({ "policy": { "max_stored_bytes": bytes } });
    let limited =
        server.request(Method::PUT, "/v1/tenants/mine").json(&policy).send().await.unwrap();
    assert_eq!(limited.json::<Value>().await.unwrap()["policy"]["max_stored_bytes"], bytes);
}

async fn run(server: &Server, key: &str, input: Value) -> Response {
    let body = json!({ "skill": "leaves", "input": input });
    server.request_as(key, Method::POST, "/v1/executions").json(&body).send().await.unwrap()
}

async fn upload(server: &Server, key: &str, bytes: usize) -> Response {
    let form = Form::new().part("file", Part::bytes(vec![0; bytes]).file_name("a.bin"));
    server.request_as(key, Method::POST, "/v1/files").multipart(form).send().await.unwrap()
}

async fn publish(server: &Server, key: &str, script: &str) -> Response {
    let body = zip(&[("SKILL.md", &manifest("other", "")), ("main.sh", script)]);
    let request = server
        .request_as(key, Method::POST, "/v1/skills")
        .header("content-type", "application/zip");
    request.body(body).send().await.unwrap()
}

/// Bytes of all files below a directory.
fn on_disk(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => on_disk(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[tokio::test]
async fn artifacts_cannot_exceed_the_limit() {
    let server = Server::start().await;
    let key = tenant_with_skill(&server).await;
    // Room for the records of all runs, and for none of their files.
    let allowed = used(&server, &key).await + 60_000;
    limit(&server, allowed).await;
    let blobs = server.data.join("blobs/mine");
    let before = on_disk(&blobs);
    for answer in join_all((0..6).map(|_| run(&server, &key, json!(1)))).await {
        let run: Value = answer.json().await.unwrap();
        assert_eq!(
            (run["status"].as_str(), &run["output"]),
            (Some("failed"), &Value::Null),
            "{run}"
        );
        let error = run["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("of at most {allowed} bytes"))
                && error.contains("max_stored_bytes"),
            "{error}"
        );
        assert_eq!(
            (&run["files"], run["logs"].as_str().unwrap_or_default()),
            (&json!([]), ""),
            "{run}"
        );
        // What is told now is what is stored.
        let path = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
        let stored: Value =
            server.request_as(&key, Method::GET, &path).send().await.unwrap().json().await.unwrap();
        assert_eq!((&stored["status"], &stored["error"]), (&run["status"], &run["error"]));
    }
    assert!(used(&server, &key).await <= allowed);
    assert_eq!(on_disk(&blobs), before, "nothing is left of the files");
}

#[tokio::test]
async fn without_a_limit_artifacts_are_kept_and_counted_twice() {
    let server = Server::start().await;
    let key = tenant_with_skill(&server).await;
    let before = used(&server, &key).await;
    for _ in 0..3 {
        let run: Value = run(&server, &key, json!(1)).await.json().await.unwrap();
        assert_eq!(
            (run["status"].as_str(), &run["output"]),
            (Some("success"), &json!({ "n": 1 })),
            "{run}"
        );
    }
    let stored = used(&server, &key).await - before;
    // Random bytes do not compress, so the archive is as large as the files.
    assert!((6 * MEGABYTE..7 * MEGABYTE).contains(&stored), "{stored}");
    assert!(on_disk(&server.data.join("blobs/mine")) >= 6 * MEGABYTE);
    assert!(usage(&server, &key).await.get("max_stored_bytes").is_none());
}

#[tokio::test]
async fn inputs_uploads_and_skills_count_too_and_errors_say_how_much_is_stored() {
    let server = Server::start().await;
    let key = tenant_with_skill(&server).await;
    let before = used(&server, &key).await;
    limit(&server, before + 3000).await;
    assert_eq!(
        usage(&server, &key).await,
        json!({ "stored_bytes": before, "max_stored_bytes": before + 3000 })
    );
    let large = "x".repeat(3001);
    let incompressible: String = (0..4000_u32)
        .map(|n| char::from(b'!' + (n.wrapping_mul(2_654_435_761) >> 25) as u8 % 90))
        .collect();
    for answer in [
        run(&server, &key, json!(large)).await,
        upload(&server, &key, 3001).await,
        publish(&server, &key, &format!("# {incompressible}\n")).await,
    ] {
        let body = refused(answer, 413, "quota_exceeded").await;
        let details = &body["details"];
        assert_eq!(
            (&details["limit"], &details["used_bytes"]),
            (&json!("max_stored_bytes"), &json!(before)),
            "{body}"
        );
        assert!(
            details["limit_bytes"] == before + 3000
                && details["needed_bytes"].as_u64() > Some(3000),
            "{body}"
        );
        assert!(
            body["message"]
                .as_str()
                .unwrap()
                .contains(&format!("{before} of at most {}", before + 3000)),
            "{body}"
        );
    }
    assert_eq!(used(&server, &key).await, before);
    let file: Value = upload(&server, &key, 3000).await.json().await.unwrap();
    assert_eq!(used(&server, &key).await, before + 3000);
    refused(upload(&server, &key, 1).await, 413, "quota_exceeded").await;
    let path = format!("/v1/files/{}", file["id"].as_str().unwrap());
    assert_eq!(server.request_as(&key, Method::DELETE, &path).send().await.unwrap().status(), 204);
    assert_eq!(upload(&server, &key, 3000).await.status(), 201, "what is deleted makes room");

    // Another tenant has room of its own.
    assert_eq!(upload(&server, &server.key, 100_000).await.status(), 201);
}

#[tokio::test]
async fn the_default_holds_for_tenants_without_a_limit_of_their_own() {
    let server = Server::with(&[("max_stored_bytes", "2000")]).await;
    let key = server.tenant("mine").await;
    assert_eq!(usage(&server, &key).await, json!({ "stored_bytes": 0, "max_stored_bytes": 2000 }));
    refused(upload(&server, &key, 2001).await, 413, "quota_exceeded").await;
    limit(&server, 5000).await;
    assert_eq!(upload(&server, &key, 2001).await.status(), 201);
    assert_eq!(
        usage(&server, &key).await,
        json!({ "stored_bytes": 2001, "max_stored_bytes": 5000 })
    );
}

#[tokio::test]
async fn a_disk_that_is_almost_full_takes_nothing_new() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let (addr, key, stop, task) = crate::support::launch(&data, &[]).await.unwrap();
    let key = key.unwrap();
    let at = |addr: std::net::SocketAddr, key: &str| AtDisk {
        url: format!("http://{addr}"),
        key: key.to_owned(),
    };
    let roomy = at(addr, &key);
    assert_eq!(
        roomy.statuses().await,
        [200, 201, 201, 200],
        "with enough free space all of it works"
    );
    stop.cancel();
    task.await.unwrap().unwrap();

    // No disk has so much free.
    let (addr, _, stop, task) =
        crate::support::launch(&data, &[("min_free_disk", "1048576Gi")]).await.unwrap();
    let full = at(addr, &key);
    assert_eq!(full.statuses().await, [503, 503, 503, 503]);
    let ready: Value =
        full.request(Method::GET, "/ready").send().await.unwrap().json().await.unwrap();
    assert_eq!(
        (ready["error"].as_str(), ready["checks"]["blobs"].as_str()),
        (Some("not_ready"), Some("ok")),
        "{ready}"
    );
    assert!(
        ready["checks"]["disk"].as_str().unwrap().contains("SKILLBOX_MIN_FREE_DISK"),
        "{ready}"
    );
    let body = refused(full.upload().await, 503, "not_ready").await;
    assert!(body["message"].as_str().unwrap().contains("disk is almost full"), "{body}");

    // What makes room works.
    let files: Value =
        full.request(Method::GET, "/v1/files").send().await.unwrap().json().await.unwrap();
    let path = format!("/v1/files/{}", files[0]["id"].as_str().unwrap());
    assert_eq!(full.request(Method::DELETE, &path).send().await.unwrap().status(), 204);
    stop.cancel();
    task.await.unwrap().unwrap();
}

/// A server whose disk is in question.
struct AtDisk {
    url: String,
    key: String,
}

impl AtDisk {
    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key)
    }

    async fn upload(&self) -> Response {
        let form = Form::new().part("file", Part::bytes(vec![0; 10]).file_name("a.bin"));
        self.request(Method::POST, "/v1/files").multipart(form).send().await.unwrap()
    }

    /// Of `/ready`, an upload, a new skill and a run.
    async fn statuses(&self) -> [u16; 4] {
        let ready = self.request(Method::GET, "/ready").send().await.unwrap();
        let uploaded = self.upload().await;
        let body = zip(&[("SKILL.md", &manifest("leaves", "")), ("main.sh", LEAVES_A_MEGABYTE)]);
        let published = self
            .request(Method::POST, "/v1/skills")
            .header("content-type", "application/zip")
            .body(body);
        let published = published.send().await.unwrap();
        let ran = self
            .request(Method::POST, "/v1/executions")
            .json(&json!({ "skill": "leaves" }))
            .send()
            .await
            .unwrap();
        [ready, uploaded, published, ran].map(|answer| answer.status().as_u16())
    }
}
