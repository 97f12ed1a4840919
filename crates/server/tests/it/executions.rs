//! Running a skill: the exact shape of the answer, and the ways to ask.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, keys, manifest, refused};

const WRITER: &str = r#"
printf 'one\n'
printf 'two\n' >&2
printf ' { "b" : 1.50 ,\n "a" : [ 12345678901234567890123 , "x  y" ] } ' > "$SANDBOX_OUTPUT"
mkdir -p "$SANDBOX_FILES_DIR/sub"
printf 'hello' > "$SANDBOX_FILES_DIR/sub/hello.txt"
"#;

#[tokio::test]
async fn the_answer_is_compact_and_in_order() {
    let server = Server::start().await;
    server.publish_bash("writer", WRITER).await;
    let answer = server.post("/v1/executions", &json!({ "skill": "writer" })).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    let text = answer.text().await.unwrap();
    // What the skill wrote stays as it was spelled, only compact: `curl | grep` finds it.
    assert!(
        text.contains(
            r#","output":{"b":1.50,"a":[12345678901234567890123,"x  y"]},"files_url":"http://"#
        ),
        "{text}"
    );
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        keys(&body),
        [
            "execution_id", "status", "output", "files_url", "files_list", "logs", "duration_ms",
            "error", "exit_code", "outcome", "files", "usage", "isolation", "skill_version",
            "digest", "attempt", "timings",
        ]
    );
    assert_eq!(body["status"], "success");
    assert!(body["error"].is_null());
    assert_eq!(body["logs"], "one\ntwo\n");
    assert_eq!(body["files_list"], json!(["sub/hello.txt"]));
    assert_eq!((&body["exit_code"], &body["outcome"]), (&json!(0), &json!("exited")));
    assert_eq!(body["isolation"]["backend"], "native");
    let file = &body["files"][0];
    assert_eq!((&file["name"], &file["size_bytes"]), (&json!("sub/hello.txt"), &json!(5)));
    assert_eq!(file["sha256"], "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    assert!(body["digest"].as_str().unwrap().starts_with("sha256:"));
}

#[tokio::test]
async fn a_failed_run_is_200_with_its_error() {
    let server = Server::start().await;
    server
        .publish_bash("fails", "echo oh >&2; echo '{\"a\":1}' > \"$SANDBOX_OUTPUT\"; exit 3\n")
        .await;
    let body = server.run(json!({ "skill": "fails" })).await;
    assert_eq!((&body["status"], &body["exit_code"]), (&json!("failed"), &json!(3)));
    assert!(body["error"].is_string());
    assert_eq!(body["output"], json!({ "a": 1 }));
    assert!(!keys(&body).contains(&"files_url"));

    let body = server.run(json!({ "skill": "fails", "version": "9.9.9" })).await;
    assert_eq!((&body["status"], &body["outcome"]), (&json!("failed"), &json!("refused")));
    let body = server.run(json!({ "skill": "fails", "env": { "LD_PRELOAD": "x" } })).await;
    assert_eq!((&body["status"], &body["outcome"]), (&json!("failed"), &json!("refused")));
    let file = "0190c0de-0000-7000-8000-000000000000";
    let body = server.run(json!({ "skill": "fails", "input_files": [file] })).await;
    assert_eq!((&body["status"], &body["outcome"]), (&json!("failed"), &json!("refused")));
    assert!(body["error"].as_str().unwrap().contains(file), "{body}");
    let answer =
        server.post("/v1/executions", &json!({ "skill": "nothing" })).send().await.unwrap();
    refused(answer, 404, "not_found").await;
}

#[tokio::test]
async fn only_listed_images_may_be_named() {
    let server = Server::with(&[("image_allowlist", "python:3.12-slim, bash:5")]).await;
    for (name, image) in [("listed", "bash:5"), ("stranger", "evil.example/bash:5")] {
        let text = manifest(name, &format!("image: {image}\n"));
        server.publish(&[("SKILL.md", &text), ("main.sh", "true\n")]).await;
    }
    assert_eq!(server.run(json!({ "skill": "listed" })).await["status"], "success");
    let body = server.run(json!({ "skill": "stranger" })).await;
    assert_eq!((&body["status"], &body["outcome"]), (&json!("failed"), &json!("refused")));
    assert!(body["error"].as_str().unwrap().contains("evil.example/bash:5"), "{body}");
}

#[tokio::test]
async fn a_stored_execution_reads_back_the_same() {
    let server = Server::start().await;
    server.publish_bash("writer", WRITER).await;
    let run = server.run(json!({ "skill": "writer", "input": { "z": 1, "a": null } })).await;
    let id = run["execution_id"].as_str().unwrap();
    let answer = server.get(&format!("/v1/executions/{id}")).send().await.unwrap();
    let text = answer.text().await.unwrap();
    assert!(text.contains(r#""input":{"z":1,"a":null},"output":{"b":1.50,"#), "{text}");
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        keys(&stored)[..14],
        [
            "execution_id", "skill_name", "skill_version", "tenant_id", "status", "input",
            "output", "logs", "files_url", "files_list", "duration_ms", "error", "created_at",
            "finished_at",
        ]
    );
    for key in
        ["execution_id", "status", "output", "logs", "files_list", "duration_ms", "usage", "digest"]
    {
        assert_eq!(stored[key], run[key], "{key}");
    }
    assert_eq!(
        (&stored["skill_name"], &stored["tenant_id"]),
        (&json!("writer"), &json!("default"))
    );
    for key in ["created_at", "finished_at"] {
        let time = stored[key].as_str().unwrap();
        assert!(
            time.ends_with('Z') && chrono::DateTime::parse_from_rfc3339(time).is_ok(),
            "{time}"
        );
    }
    let logs = server.get(&format!("/v1/executions/{id}/logs")).send().await.unwrap();
    assert_eq!(logs.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(logs.text().await.unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn input_reaches_the_skill_as_it_was_sent() {
    let server = Server::start().await;
    server.publish_bash("echo", "cat /sandbox/input.json > \"$SANDBOX_OUTPUT\"\n").await;
    let echoed = async |body: &str| {
        let request = server
            .request(Method::POST, "/v1/executions")
            .header("content-type", "application/json");
        let answer = request.body(body.to_owned()).send().await.unwrap().text().await.unwrap();
        let output = answer.split_once(r#""output":"#).unwrap_or_else(|| panic!("{answer}")).1;
        output.split_once(r#","duration_ms""#).unwrap().0.to_owned()
    };
    assert_eq!(echoed(r#"{"skill":"echo"}"#).await, "{}");
    assert_eq!(echoed(r#"{"skill":"echo","input":null}"#).await, "null");
    assert_eq!(
        echoed(r#"{"skill":"echo","version":"","input": [1, 2.0, "é"]}"#).await,
        r#"[1,2.0,"é"]"#
    );
    assert_eq!(echoed(r#"{"skill":"echo","version":null,"input":"text"}"#).await, r#""text""#);
}

#[tokio::test]
async fn a_script_runs_with_arguments_and_standard_input() {
    let server = Server::start().await;
    let script = "read -r line; echo \"$1|$2|$line|$PWD|$COLOUR\"; echo problem >&2\n";
    server.publish(&[("SKILL.md", &manifest("tools", "")), ("bin/say.sh", script)]).await;
    let body = server
        .run(json!({
            "skill": "tools", "script": "bin/say.sh", "args": ["a b", "c"], "stdin": "in\n", "cwd": "workspace",
            "env": { "COLOUR": "blue" },
        }))
        .await;
    assert_eq!(body["stdout"], "a b|c|in|/workspace|blue\n", "{body}");
    assert_eq!(body["stderr"], "problem\n");
}

#[tokio::test]
async fn limits_can_be_tightened() {
    let server = Server::start().await;
    server.publish_bash("sleeper", "sleep 60\n").await;
    let body = server.run(json!({ "skill": "sleeper", "timeout": "200ms" })).await;
    assert_eq!((&body["status"], &body["outcome"]), (&json!("timeout"), &json!("timed_out")));
    let body = server
        .run(json!({ "skill": "sleeper", "timeout": "200ms", "limits": { "memory": "64Mi", "cpu": "0.2" } }))
        .await;
    assert_eq!(body["status"], "timeout");
}

/// Reads an execution until it has ended.
async fn ended(server: &Server, id: &str) -> Value {
    for _ in 0..600 {
        let body: Value =
            server.get(&format!("/v1/executions/{id}")).send().await.unwrap().json().await.unwrap();
        if !matches!(body["status"].as_str(), Some("queued" | "running")) {
            return body;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{id} does not end");
}

#[tokio::test]
async fn asynchronous_runs_answer_at_once() {
    let server = Server::start().await;
    server.publish_bash("quick", "echo '{\"ok\":true}' > \"$SANDBOX_OUTPUT\"\n").await;
    let by_body = server.post("/v1/executions", &json!({ "skill": "quick", "mode": "async" }));
    let by_header = server
        .post("/v1/executions", &json!({ "skill": "quick" }))
        .header("prefer", "wait=1, respond-async");
    for (request, preferred) in [(by_body, false), (by_header, true)] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 202);
        assert_eq!(answer.headers().contains_key("preference-applied"), preferred);
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        let body: Value = answer.json().await.unwrap();
        let id = body["execution_id"].as_str().unwrap();
        assert_eq!(location, format!("/v1/executions/{id}"));
        assert!(body["error"].is_null());
        assert_eq!(ended(&server, id).await["output"], json!({ "ok": true }));
    }
    let unknown = server
        .post("/v1/executions", &json!({ "skill": "nothing", "mode": "async" }))
        .send()
        .await
        .unwrap();
    refused(unknown, 404, "not_found").await;
}

#[tokio::test]
async fn one_idempotency_key_is_one_execution() {
    let server = Server::start().await;
    server.publish_bash("random", "echo \"$RANDOM$RANDOM$RANDOM\" > \"$SANDBOX_OUTPUT\"\n").await;
    let other = server.tenant("other").await;
    server
        .publish_as(&other, &[("SKILL.md", &manifest("random", "")), ("main.sh", "true\n")])
        .await;
    let ask = |key: &str, body: Value| {
        let request = server.request_as(key, Method::POST, "/v1/executions").json(&body);
        request.header("idempotency-key", "order-1").send()
    };
    let body = || json!({ "skill": "random" });
    let together = futures_util::future::join_all((0..6).map(|_| ask(&server.key, body()))).await;
    let mut ids = Vec::new();
    for answer in together {
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 200);
        let body: Value = answer.json().await.unwrap();
        ids.push((body["execution_id"].clone(), body["output"].clone()));
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let mismatch = ask(&server.key, json!({ "skill": "random", "input": 1 })).await.unwrap();
    refused(mismatch, 422, "idempotency_mismatch").await;
    let unknown = ask(&server.key, json!({ "skill": "nothing-of-the-kind" })).await.unwrap();
    refused(unknown, 422, "idempotency_mismatch").await;
    // Another tenant's key of the same name is another key.
    let theirs: Value = ask(&other, body()).await.unwrap().json().await.unwrap();
    assert_ne!(theirs["execution_id"], ids[0].0);
}

#[tokio::test]
async fn a_run_can_be_cancelled() {
    let server = Server::with(&[("max_concurrent_execs", "1")]).await;
    server.publish_bash("sleeper", "sleep 60\n").await;
    let submit = async || {
        let answer = server
            .post("/v1/executions", &json!({ "skill": "sleeper", "mode": "async" }))
            .send()
            .await
            .unwrap();
        answer.json::<Value>().await.unwrap()["execution_id"].as_str().unwrap().to_owned()
    };
    let cancel =
        |id: &str| server.request(Method::POST, &format!("/v1/executions/{id}/cancel")).send();
    let (running, waiting) = (submit().await, submit().await);
    let answer = cancel(&waiting).await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    assert_eq!(ended(&server, &waiting).await["status"], "cancelled");
    let answer = cancel(&running).await.unwrap();
    assert!(matches!(answer.status().as_u16(), 200 | 202), "{}", answer.text().await.unwrap());
    let body = ended(&server, &running).await;
    assert_eq!((&body["status"], &body["outcome"]), (&json!("cancelled"), &json!("cancelled")));
    let late = refused(cancel(&running).await.unwrap(), 409, "conflict").await;
    assert_eq!(late["details"]["status"], "cancelled");
}

#[tokio::test]
async fn a_caller_who_leaves_does_not_stop_the_run() {
    let server = Server::start().await;
    server.publish_bash("slow", "sleep 1; echo '\"done\"' > \"$SANDBOX_OUTPUT\"\n").await;
    let impatient = tokio::spawn(server.post("/v1/executions", &json!({ "skill": "slow" })).send());
    let accepted = async {
        loop {
            let rows: Vec<Value> =
                server.get("/v1/executions").send().await.unwrap().json().await.unwrap();
            if let [row] = rows.as_slice() {
                break row["execution_id"].as_str().unwrap().to_owned();
            }
        }
    };
    let id = tokio::time::timeout(std::time::Duration::from_secs(60), accepted)
        .await
        .expect("it is accepted");
    impatient.abort();
    assert!(impatient.await.unwrap_err().is_cancelled(), "nobody waits for the answer");
    let body = ended(&server, &id).await;
    assert_eq!((&body["status"], &body["output"]), (&json!("success"), &json!("done")));
}

#[tokio::test]
async fn a_key_limited_to_skills_sees_only_those() {
    let server = Server::start().await;
    for name in ["allowed", "hidden"] {
        server.publish_bash(name, "true\n").await;
    }
    let hidden =
        server.run(json!({ "skill": "hidden" })).await["execution_id"].as_str().unwrap().to_owned();
    let scopes = json!(["execute", "read", "publish", "admin"]);
    let (key, _) =
        server.key(json!({ "name": "narrow", "scopes": scopes, "skills": ["allowed"] })).await;
    let run = |skill: &str| {
        server
            .request_as(&key, Method::POST, "/v1/executions")
            .json(&json!({ "skill": skill }))
            .send()
    };
    assert_eq!(run("allowed").await.unwrap().status(), 200);
    refused(run("hidden").await.unwrap(), 403, "forbidden").await;
    for path in [
        format!("/v1/executions/{hidden}"),
        "/v1/skills/hidden/latest".into(),
        "/v1/skills/hidden/versions".into(),
    ] {
        let answer = server.request_as(&key, Method::GET, &path).send().await.unwrap();
        refused(answer, 404, "not_found").await;
    }
    for (path, name) in [("/v1/executions", "skill_name"), ("/v1/skills", "name")] {
        let rows: Vec<Value> =
            server.request_as(&key, Method::GET, path).send().await.unwrap().json().await.unwrap();
        assert_eq!(
            rows.iter().map(|row| row[name].as_str().unwrap()).collect::<Vec<_>>(),
            ["allowed"]
        );
    }
    let upload = server
        .request_as(&key, Method::POST, "/v1/skills")
        .header("content-type", "application/zip");
    let upload = upload.body(crate::support::zip(&[("SKILL.md", &manifest("hidden", ""))]));
    refused(upload.send().await.unwrap(), 403, "forbidden").await;
    let delete =
        server.request_as(&key, Method::DELETE, "/v1/skills/hidden/1.0.0").send().await.unwrap();
    refused(delete, 404, "not_found").await;
    let wider = server
        .request_as(&key, Method::POST, "/v1/keys")
        .json(&json!({ "name": "wide", "skills": ["hidden"] }));
    refused(wider.send().await.unwrap(), 403, "forbidden").await;
}
