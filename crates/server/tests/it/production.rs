//! Several servers over one Postgres and one object store; and a server whose skills run in Docker.

#[path = "../../../store/tests/it/postgres.rs"]
mod cluster;

use std::time::Duration;

use blobs::{BlobPrefix, Blobs, S3Config};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Server, launch, manifest};

const SECRET: &str = "a secret that all servers of a test share";
const OPERATOR: &str = "sk-operator-of-the-test";

#[expect(
    clippy::disallowed_methods,
    reason = "a test harness has no configuration to take it from"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The tests' object store. Without one the test says so and is not run.
fn object_store(test: &str) -> Option<S3Config> {
    let set = |name: &str| variable(&format!("SKILLBOX_TEST_S3_{name}"));
    let (Some(endpoint), Some(access_key), Some(secret_key)) =
        (set("ENDPOINT"), set("ACCESS_KEY"), set("SECRET_KEY"))
    else {
        println!("NEEDS S3: {test} was not run, because SKILLBOX_TEST_S3_ENDPOINT is not set");
        return None;
    };
    Some(S3Config {
        endpoint,
        region: "us-east-1".into(),
        access_key,
        secret_key,
        bucket_skills: "skillbox-test-skills".into(),
        bucket_executions: "skillbox-test-executions".into(),
        skills_read_only: false,
        public_url: None,
    })
}

/// An installation whose state is elsewhere, and a tenant in it that only this test has.
struct Installation {
    dsn: String,
    s3: S3Config,
    tenant: String,
}

impl Installation {
    fn settings(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("db_dsn", &self.dsn),
            ("secret", SECRET),
            ("bootstrap_key", OPERATOR),
            ("s3_endpoint", &self.s3.endpoint),
            ("s3_access_key", &self.s3.access_key),
            ("s3_secret_key", &self.s3.secret_key),
            ("s3_bucket_skills", &self.s3.bucket_skills),
            ("s3_bucket_executions", &self.s3.bucket_executions),
        ]
    }

    async fn server(&self, role: &'static str) -> Server {
        let mut server = Server::with(&[&self.settings()[..], &[("role", role)]].concat()).await;
        assert!(!server.data.exists(), "such a server keeps nothing in a directory");
        server.key = OPERATOR.into();
        server
    }

    /// Runs the test and removes what it stored, however it ends.
    async fn with<F: Future<Output = ()> + Send + 'static>(
        s3: S3Config,
        test: impl FnOnce(Installation) -> F,
    ) {
        let tenant = format!("test-{}", Uuid::new_v4());
        let installation =
            Installation { dsn: cluster::database(), s3: s3.clone(), tenant: tenant.clone() };
        let ended = tokio::spawn(test(installation)).await;
        let blobs = Blobs::s3(s3).await.unwrap();
        blobs.delete_prefix(&BlobPrefix::tenant(&tenant)).await.unwrap();
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
}

const WRITER: &str = "echo one; sleep 0.3; echo two; echo data > \"$SANDBOX_FILES_DIR/a.txt\"; echo '{\"n\":1}' > \"$SANDBOX_OUTPUT\"\n";

#[tokio::test]
async fn what_one_server_takes_another_runs_and_a_third_shows() {
    let Some(s3) = object_store("what_one_server_takes_another_runs_and_a_third_shows") else {
        return;
    };
    Installation::with(s3, async |it: Installation| {
        let (one, two, worker) =
            (it.server("api").await, it.server("api").await, it.server("worker").await);
        let key = one.tenant(&it.tenant).await;
        one.publish_as(&key, &[("SKILL.md", &manifest("writer", "")), ("main.sh", WRITER)]).await;
        one.publish_as(&key, &[("SKILL.md", &manifest("sleeper", "")), ("main.sh", "sleep 600\n")])
            .await;

        // Waited for at one, run by the worker, read at two.
        let run = one
            .request_as(&key, Method::POST, "/v1/executions")
            .json(&json!({ "skill": "writer" }));
        let run: Value = run.send().await.unwrap().json().await.unwrap();
        assert_eq!(
            (&run["status"], &run["output"]),
            (&json!("success"), &json!({ "n": 1 })),
            "{run}"
        );
        let id = run["execution_id"].as_str().unwrap();
        let read = two
            .request_as(&key, Method::GET, &format!("/v1/executions/{id}"))
            .send()
            .await
            .unwrap();
        let read: Value = read.json().await.unwrap();
        assert_eq!(read["logs"], "one\ntwo\n");

        // Downloads come from the object store itself, and need no key.
        let url = read["files"][0]["url"].as_str().unwrap();
        assert!(url.starts_with(&it.s3.endpoint), "{url}");
        assert_eq!(one.http.get(url).send().await.unwrap().text().await.unwrap(), "data\n");
        let archive = one.http.get(read["files_url"].as_str().unwrap()).send().await.unwrap();
        assert_eq!(archive.status(), 200);
        assert!(archive.bytes().await.unwrap().starts_with(&[0x1f, 0x8b]), "a gzip archive");
        let altered = url.replace("a.txt", "b.txt");
        assert_eq!(one.http.get(&altered).send().await.unwrap().status(), 403);

        // Followed through the server that did not take it.
        let started = one.request_as(&key, Method::POST, "/v1/executions");
        let started =
            started.json(&json!({ "skill": "writer", "mode": "async" })).send().await.unwrap();
        let id =
            started.json::<Value>().await.unwrap()["execution_id"].as_str().unwrap().to_owned();
        let events = two
            .request_as(&key, Method::GET, &format!("/v1/executions/{id}/events"))
            .send()
            .await
            .unwrap();
        let events = events.text().await.unwrap();
        assert!(events.contains("event: log") && events.contains("event: result"), "{events}");

        // Cancelled through the server that did not take it.
        let asleep = one.request_as(&key, Method::POST, "/v1/executions");
        let asleep =
            asleep.json(&json!({ "skill": "sleeper", "mode": "async" })).send().await.unwrap();
        let id = asleep.json::<Value>().await.unwrap()["execution_id"].as_str().unwrap().to_owned();
        state(&one, &key, &id, |state| state == "running").await;
        let cancel = two
            .request_as(&key, Method::POST, &format!("/v1/executions/{id}/cancel"))
            .send()
            .await
            .unwrap();
        assert_eq!(cancel.status(), 202);
        assert_eq!(state(&one, &key, &id, |state| state != "running").await, "cancelled");

        roles(&one, &worker).await;
    })
    .await;
}

/// The state of an execution, as soon as it is a wanted one.
async fn state(server: &Server, key: &str, id: &str, wanted: fn(&str) -> bool) -> String {
    let found = async {
        loop {
            let read = server
                .request_as(key, Method::GET, &format!("/v1/executions/{id}"))
                .send()
                .await
                .unwrap();
            let state = read.json::<Value>().await.unwrap()["status"].as_str().unwrap().to_owned();
            if wanted(&state) {
                return state;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), found).await.expect("what was awaited never came")
}

/// What the parts of a service answer, and what not.
async fn roles(api: &Server, worker: &Server) {
    let ready = async |server: &Server| -> Value {
        server.http.get(format!("{}/ready", server.url)).send().await.unwrap().json().await.unwrap()
    };
    let checks = ready(worker).await["checks"].clone();
    assert_eq!(checks, json!({ "postgres": "ok", "blobs": "ok", "sandbox": "ok" }));
    assert_eq!(
        ready(api).await["checks"],
        json!({ "postgres": "ok", "blobs": "ok" }),
        "nothing runs there"
    );
    assert_eq!(
        worker.http.get(format!("{}/health", worker.url)).send().await.unwrap().status(),
        200
    );
    for server in [api, worker] {
        assert_eq!(
            server.http.get(format!("{}/metrics", server.url)).send().await.unwrap().status(),
            401
        );
        let page = server.get("/metrics").send().await.unwrap().text().await.unwrap();
        assert!(page.contains("\nskillbox_queue_depth 0\n"), "{page}");
    }
    for path in
        ["/v1/skills", "/v1/executions", "/v1/keys", "/openapi.json", "/docs", "/v1/blobs/x"]
    {
        assert_eq!(worker.get(path).send().await.unwrap().status(), 404, "{path}");
        assert_ne!(api.get(path).send().await.unwrap().status(), 404, "{path}");
    }
}

#[tokio::test]
async fn an_object_store_that_cannot_be_used_is_named() {
    let home = tempfile::tempdir().unwrap();
    let settings = [
        ("s3_endpoint", "http://127.0.0.1:1"),
        ("s3_access_key", "a"),
        ("s3_secret_key", "very-secret-key"),
    ];
    let error = launch(&home.path().join("data"), &settings).await.err().unwrap().to_string();
    assert!(
        error.contains("SKILLBOX_S3_ENDPOINT") && !error.contains("very-secret-key"),
        "{error}"
    );
}

#[tokio::test]
async fn an_engine_that_cannot_be_used_is_named() {
    let home = tempfile::tempdir().unwrap();
    let settings = [("sandbox", "docker"), ("docker_host", "tcp://127.0.0.1:1")];
    let error = launch(&home.path().join("data"), &settings).await.err().unwrap().to_string();
    assert!(error.contains("SKILLBOX_DOCKER_HOST"), "{error}");
}

#[tokio::test]
async fn skills_run_in_docker() {
    let Some(host) = variable("SKILLBOX_TEST_ENGINE") else {
        println!(
            "NEEDS ENGINE: skills_run_in_docker was not run: SKILLBOX_TEST_ENGINE names no engine"
        );
        return;
    };
    let server = Server::with(&[
        ("sandbox", "docker"),
        ("docker_host", &host),
        ("image_python", "skillbox/python:test"),
        ("image_node", "skillbox/node:test"),
        ("image_bash", "skillbox/bash:test"),
        ("image_allowlist", "skillbox/python:test,skillbox/node:test,skillbox/bash:test"),
    ])
    .await;
    server.publish_bash("writer", WRITER).await;
    let run = server.run(json!({ "skill": "writer" })).await;
    assert_eq!(
        (&run["status"], &run["output"], &run["files_list"]),
        (&json!("success"), &json!({ "n": 1 }), &json!(["a.txt"])),
        "{run}"
    );
    assert_eq!(run["isolation"]["backend"], "docker", "{run}");
    let ready = server.http.get(format!("{}/ready", server.url)).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
}
