//! `/metrics`: who may read them, what they say after known runs, and what they never say.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::support::{Server, manifest, refused};

const TOKEN: &str = "a-token-for-metrics-and-nothing-else";

/// How Prometheus' own reader for Python sees a page: every sample with its labels.
const READER: &str = r#"
import json, sys
from prometheus_client.parser import text_string_to_metric_families as read
families = {family.name: (family.type, family.documentation, family.samples) for family in read(sys.stdin.read())}
assert all(kind != "unknown" and text and samples is not None for kind, text, samples in families.values())
samples = [s for _, _, all in families.values() for s in all]
json.dump([[s.name, sorted(s.labels.items()), s.value] for s in samples], sys.stdout)
"#;

type Samples = BTreeMap<String, f64>;

/// Its name, its labels, its value.
type Sample = (String, Vec<(String, String)>, f64);

/// A sample is named as in a query: `name{label="value"}`.
fn read(page: &str) -> Samples {
    // Debian's own Python, because that is where its package is.
    let mut reader = Command::new("/usr/bin/python3");
    let reader = reader.args(["-c", READER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut reader =
        reader.expect("python3 with prometheus_client; scripts/setup-tests.sh installs it");
    reader.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = reader.wait_with_output().unwrap();
    assert!(output.status.success(), "the page cannot be read:\n{page}");
    let samples: Vec<Sample> = serde_json::from_slice(&output.stdout).unwrap();
    let named = samples.into_iter().map(|(name, labels, value)| {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
        (if labels.is_empty() { name } else { format!("{name}{{{}}}", labels.join(",")) }, value)
    });
    named.collect()
}

async fn page(server: &Server) -> String {
    let answer = server.request_as(TOKEN, Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    answer.text().await.unwrap()
}

async fn samples(server: &Server) -> Samples {
    read(&page(server).await)
}

/// Asks until the shared numbers, which are looked up every few seconds, say this.
async fn until(server: &Server, expected: &[(&str, f64)]) {
    for _ in 0..100 {
        let samples = samples(server).await;
        if expected.iter().all(|(name, value)| samples.get(*name) == Some(value)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("never {expected:?}: {:#?}", samples(server).await);
}

#[tokio::test]
async fn only_the_token_and_service_keys_read_them() {
    let server = Server::with(&[("metrics_token", TOKEN)]).await;
    let ask =
        async |key: &str| server.request_as(key, Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(ask(TOKEN).await.status(), 200);
    assert_eq!(ask(&server.key).await.status(), 200);
    refused(
        server.http.get(format!("{}/metrics", server.url)).send().await.unwrap(),
        401,
        "unauthorized",
    )
    .await;
    refused(ask(&TOKEN[1..]).await, 401, "unauthorized").await;
    // A tenant's own key is nobody's business here, whatever its scopes.
    let tenant = server.tenant("other").await;
    refused(ask(&tenant).await, 403, "forbidden").await;
    for path in ["/v1/skills", "/v1/executions", "/v1/tenants", "/v1/keys"] {
        refused(
            server.request_as(TOKEN, Method::GET, path).send().await.unwrap(),
            401,
            "unauthorized",
        )
        .await;
    }
    let closed = Server::start().await;
    refused(
        closed.request_as(TOKEN, Method::GET, "/metrics").send().await.unwrap(),
        401,
        "unauthorized",
    )
    .await;
}

#[tokio::test]
async fn known_runs_give_known_numbers() {
    let server = Server::with(&[("metrics_token", TOKEN), ("max_concurrent_execs", "1")]).await;
    server.publish_bash("good", "true\n").await;
    server.publish_bash("bad", "exit 3\n").await;
    server.publish_bash("slow", "sleep 600\n").await;
    for _ in 0..2 {
        assert_eq!(server.run(json!({ "skill": "good" })).await["status"], "success");
    }
    server.run(json!({ "skill": "bad" })).await;
    server.run(json!({ "skill": "slow", "timeout": "100ms" })).await;
    server.run(json!({ "skill": "good", "version": "9.9.9" })).await;
    let known = [
        (r#"skillbox_executions_ended_total{outcome="exited",status="success"}"#, 2.0),
        (r#"skillbox_executions_ended_total{outcome="exited",status="failed"}"#, 1.0),
        (r#"skillbox_executions_ended_total{outcome="timed_out",status="timeout"}"#, 1.0),
        (r#"skillbox_executions_ended_total{outcome="refused",status="failed"}"#, 1.0),
        ("skillbox_execution_duration_seconds_count", 5.0),
        (r#"skillbox_execution_duration_seconds_bucket{le="+Inf"}"#, 5.0),
        ("skillbox_sandbox_launch_seconds_count", 4.0),
        ("skillbox_slots", 1.0),
        ("skillbox_slots_used", 0.0),
        ("skillbox_queue_depth", 0.0),
        ("skillbox_executions_running", 0.0),
        ("skillbox_leases_lost_total", 0.0),
        ("skillbox_webhooks_pending", 0.0),
        ("skillbox_database_up", 1.0),
        (r#"skillbox_http_requests_total{class="2xx",method="POST",route="/v1/executions"}"#, 5.0),
        (r#"skillbox_http_requests_total{class="2xx",method="POST",route="/v1/skills"}"#, 3.0),
    ];
    let all = samples(&server).await;
    for (name, value) in known {
        assert_eq!(all.get(name), Some(&value), "{name}: {all:#?}");
    }

    // One runs, three wait.
    let mut ids = Vec::new();
    for _ in 0..4 {
        let answer = server
            .post("/v1/executions", &json!({ "skill": "slow", "mode": "async" }))
            .send()
            .await
            .unwrap();
        let body: serde_json::Value = answer.json().await.unwrap();
        ids.push(body["execution_id"].as_str().unwrap().to_owned());
    }
    until(
        &server,
        &[
            ("skillbox_queue_depth", 3.0),
            ("skillbox_executions_running", 1.0),
            ("skillbox_slots_used", 1.0),
        ],
    )
    .await;
    for id in ids.iter().rev() {
        server.post(&format!("/v1/executions/{id}/cancel"), &json!({})).send().await.unwrap();
    }
    let cancelled = r#"skillbox_executions_ended_total{outcome="cancelled",status="cancelled"}"#;
    until(
        &server,
        &[("skillbox_queue_depth", 0.0), ("skillbox_slots_used", 0.0), (cancelled, 4.0)],
    )
    .await;
}

#[tokio::test]
async fn they_name_nobody_and_callers_cannot_make_them_grow() {
    let server = Server::with(&[("metrics_token", TOKEN)]).await;
    let key = server.tenant("hidden-tenant").await;
    server
        .publish_as(
            &key,
            &[("SKILL.md", &manifest("hidden-skill", "")), ("main.sh", "echo hidden-log\n")],
        )
        .await;
    let run = server
        .request_as(&key, Method::POST, "/v1/executions")
        .json(&json!({ "skill": "hidden-skill" }));
    let run: serde_json::Value = run.send().await.unwrap().json().await.unwrap();
    let id = run["execution_id"].as_str().unwrap();
    let get = async |method: Method, path: &str| {
        server.request_as(&key, method, path).send().await.unwrap().status()
    };
    assert_eq!(get(Method::GET, &format!("/v1/executions/{id}")).await, 200);
    assert_eq!(get(Method::GET, "/no/such/hidden-path").await, 404);
    assert_eq!(get("HIDDEN".parse().unwrap(), "/v1/skills").await, 405);
    let before = samples(&server).await;
    for number in 0..50 {
        get(Method::GET, &format!("/no/such/{number}")).await;
        get(Method::GET, &format!("/v1/skills/none-{number}/1.0.0")).await;
        get(format!("M{number}").parse().unwrap(), "/v1/skills").await;
    }
    let text = page(&server).await;
    for secret in ["hidden", id, &key, TOKEN, "default", "sha256"] {
        assert!(!text.to_lowercase().contains(&secret.to_lowercase()), "{secret} is told:\n{text}");
    }
    let after = read(&text);
    // Two more: skills that are not there, and the first look itself.
    assert!(after.len() <= before.len() + 2, "{} and then {}", before.len(), after.len());
    assert_eq!(
        after[r#"skillbox_http_requests_total{class="4xx",method="GET",route="none"}"#],
        51.0
    );
}
