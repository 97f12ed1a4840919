//! `docker-compose.yml`: checks its text, and runs its processes with its environment on this machine.

mod balancer;
mod file;
mod machine;
mod objects;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::{text, wait_until};
use crate::engine::repository;
use file::{Compose, Variables, make_secrets, secrets};
use machine::Machine;

/// Secrets of a machine whose Docker socket belongs to a group of its own.
fn made() -> (TempDir, Variables) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("env");
    assert!(make_secrets(&file).status.success());
    let mut variables = secrets(&file);
    variables.insert("DOCKER_GID".to_owned(), "999".to_owned());
    let lines: String = variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    std::fs::write(&file, lines).expect("the secrets");
    (directory, variables)
}

#[test]
fn secrets_are_random_private_and_created_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    assert!(make_secrets(&one).status.success() && make_secrets(&two).status.success());
    assert_eq!(one.metadata().expect("the file").permissions().mode() & 0o777, 0o600);
    let (first, second) = (secrets(&one), secrets(&two));
    let keys = ["MINIO_ROOT_PASSWORD", "S3_SECRET_KEY", "S3_WORKER_SECRET_KEY"];
    for name in
        ["SKILLBOX_SECRET", "SKILLBOX_BOOTSTRAP_KEY", "POSTGRES_PASSWORD"].into_iter().chain(keys)
    {
        assert!(first[name].len() >= 48 && first[name] != second[name], "{name}");
    }
    assert!(
        first["SKILLBOX_BOOTSTRAP_KEY"].starts_with("sk-"),
        "keys are spelled like those that the server makes"
    );
    assert!(!make_secrets(&one).status.success(), "a second run would lock every client out");
    assert_eq!(secrets(&one), first);

    // A file from an older version with fewer secrets gets the missing ones and keeps the others, with
    // and without a newline at its end.
    let old = directory.path().join("old");
    std::fs::write(&old, "POSTGRES_PASSWORD=kept\nS3_ACCESS_KEY=kept-too").expect("a file");
    assert!(make_secrets(&old).status.success());
    let upgraded = secrets(&old);
    assert_eq!(
        (&*upgraded["POSTGRES_PASSWORD"], &*upgraded["S3_ACCESS_KEY"]),
        ("kept", "kept-too")
    );
    assert!(upgraded.keys().eq(first.keys()), "{upgraded:?}");
}

/// The output of `docker compose config` with this env file.
fn config(env_file: &Path) -> Option<Output> {
    let newer = Command::new("docker")
        .args(["compose", "version"])
        .output()
        .is_ok_and(|output| output.status.success());
    let mut command = if newer { Command::new("docker") } else { Command::new("docker-compose") };
    if newer {
        command.arg("compose");
    }
    command
        .arg("--env-file")
        .arg(env_file)
        .args(["--file", "docker-compose.yml", "config"])
        .current_dir(repository());
    command.output().ok()
}

#[test]
fn compose_accepts_the_file_and_reads_the_same_settings() {
    let (directory, variables) = made();
    let Some(output) = config(&directory.path().join("env")) else {
        return println!(
            "NEEDS ENGINE: docker-compose, to read docker-compose.yml (scripts/setup-tests.sh compose)"
        );
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs = Compose { document: serde_saphyr::from_slice(&output.stdout).expect("YAML") };
    let ours = Compose::read(&variables);
    for (name, _) in ours.services() {
        assert_eq!(ours.environment(name), theirs.environment(name), "{name}");
    }
    assert_eq!(ours.services().len(), theirs.services().len());

    let nothing = directory.path().join("nothing");
    std::fs::write(&nothing, "").expect("an empty file");
    let refused = config(&nothing).expect("it ran before");
    assert!(!refused.status.success(), "it starts with secrets that nobody made");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("run deploy/docker/make-secrets.sh first"), "{said}");
}

#[test]
fn every_service_is_locked_down() {
    let (_directory, variables) = made();
    let compose = Compose::read(&variables);
    for (name, service) in compose.services() {
        assert_eq!(service["read_only"], json!(true), "{name}");
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]), "{name}");
        assert_eq!(service["privileged"], Value::Null, "{name}");
        let image = text(&service["image"]);
        assert!(
            image.split_once(':').is_some_and(|(_, tag)| !tag.starts_with("latest")),
            "{name}: {image}"
        );
        // The image of Skillbox brings a health check, which asks the API's port.
        let ends = service["restart"] == json!("no");
        assert!(
            service["healthcheck"]["test"].is_array() || image.starts_with("skillbox:") || ends,
            "{name}"
        );
        let sees_engine = service["volumes"].to_string().contains("docker.sock");
        assert_eq!(sees_engine, name == "docker-proxy", "{name}: one holds the engine's socket");
        assert_eq!(
            service["ports"].is_array(),
            name == "balancer",
            "{name}: one is reached from outside"
        );
    }
    let networks = |name: &str| compose.service(name)["networks"].clone();
    assert_eq!(networks("docker-proxy"), json!(["engine"]));
    assert_eq!(networks("postgres"), json!(["data"]));
    assert_eq!(networks("balancer"), json!(["edge", "front"]));
    for name in ["front", "data", "engine"] {
        assert_eq!(compose.document["networks"][name]["internal"], json!(true), "{name}");
    }
    // Only the balancer (for its clients) and the API (for webhooks) are on a network with external
    // access. The worker is not.
    let is_internal =
        |network: &Value| compose.document["networks"][text(network)]["internal"] == json!(true);
    let leads_out = |service: &Value| {
        !service["networks"].as_array().expect("networks").iter().all(is_internal)
    };
    let services = compose.services();
    let outside: Vec<&str> =
        services.iter().filter(|(_, service)| leads_out(service)).map(|(name, _)| *name).collect();
    assert_eq!(outside, ["api-1", "api-2", "balancer"]);
}

/// nginx rejects the same sizes as the server, and no others.
#[test]
fn the_balancer_accepts_the_largest_upload() {
    let page =
        std::fs::read_to_string(repository().join("docs/configuration.md")).expect("the settings");
    let default = |name: &str| -> u64 {
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")))
            .expect("a setting");
        line.split('|').nth(2).expect("a default").trim().parse().expect("a number")
    };
    let largest = ["SKILLBOX_MAX_FILE_SIZE", "SKILLBOX_MAX_SKILL_SIZE", "SKILLBOX_MAX_BODY_SIZE"]
        .map(default);
    let largest_mib = largest.into_iter().max().expect("three").div_ceil(1 << 20);
    let nginx = std::fs::read_to_string(repository().join("deploy/docker/nginx.conf"))
        .expect("its configuration");
    assert!(
        nginx.contains(&format!("client_max_body_size {}m;", largest_mib + 1)),
        "{largest_mib} MiB and a form"
    );
}

#[test]
fn the_file_contains_no_secret() {
    let text = std::fs::read_to_string(repository().join("docker-compose.yml")).expect("the file");
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((name, value)) = line.trim().split_once(": ") else { continue };
        if ["PASSWORD", "SECRET", "_KEY", "ROOT_USER"].iter().any(|word| name.contains(word)) {
            assert!(
                value.starts_with("${")
                    && value.contains(":?run deploy/docker/make-secrets.sh first}"),
                "{line}"
            );
        }
    }
}

/// Two replicas, one worker and one database: every replica gives the same responses.
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_and_a_worker_act_as_one_service() {
    for runtime in ["runc", "runsc"] {
        let (_directory, mut variables) = made();
        variables.insert("SKILLBOX_DOCKER_RUNTIME".to_owned(), runtime.to_owned());
        let Some(machine) = Machine::start(variables) else { return };
        run_through_another_replica(&machine, runtime).await;
        cancel_through_another_replica(&machine).await;
        upload_large_file(&machine).await;
    }
}

/// A skill is published through one replica and run through the other, on a worker that has not cached
/// it.
async fn run_through_another_replica(machine: &Machine, runtime: &str) {
    let [first, second] = machine.replicas();
    machine.push("writer", "main.py", WRITER);
    let body = json!({ "skill": "writer", "input": { "name": "Zoë" } });
    let ran = second.run(&body, None).await.expect("an answer");
    assert_eq!((ran.status, &ran.body["status"]), (200, &json!("success")), "{}", ran.body);
    assert_eq!(ran.body["output"], json!({ "name": "Zoë" }));
    let isolation = &ran.body["isolation"];
    assert_eq!(
        (&isolation["backend"], &isolation["runtime"]),
        (&json!("docker"), &json!(runtime)),
        "{isolation}"
    );
    let read = first.execution(&ran.id()).await;
    assert_eq!((&read["status"], &read["output"]), (&json!("success"), &ran.body["output"]));
    let logs = first
        .get(&format!("/v1/executions/{}/logs", ran.id()))
        .await
        .text()
        .await
        .expect("the logs");
    assert_eq!(logs, "wrote it\n");
    let balanced = machine.balanced().execution(&ran.id()).await;
    assert_eq!(balanced["output"], ran.body["output"]);

    // The URL goes through the balancer to the object store and needs no key. It gives access to
    // nothing else.
    let link = text(&balanced["files"][0]["url"]);
    assert!(link.starts_with(&machine.balancer.objects), "{link}");
    let file = reqwest::get(&link).await.expect("an answer").text().await.expect("the file");
    assert_eq!(file, "a note", "{link}");
    let (unsigned, _) = link.split_once('?').expect("a signature");
    assert_eq!(reqwest::get(unsigned).await.expect("an answer").status(), 403);
    let written =
        reqwest::Client::new().put(&link).body("another note").send().await.expect("an answer");
    assert_eq!(written.status(), 403);
}

/// A run is submitted to one replica, and followed and cancelled through the other.
async fn cancel_through_another_replica(machine: &Machine) {
    let [first, second] = machine.replicas();
    machine.push("sleeper", "main.sh", "echo asleep\nsleep 300\n");
    let queued =
        first.run(&json!({ "skill": "sleeper", "mode": "async" }), None).await.expect("an answer");
    assert_eq!(queued.status, 202, "{}", queued.body);
    wait_until("it runs", async || {
        (second.execution(&queued.id()).await["status"] == "running").then_some(())
    })
    .await;
    let events = second.get(&format!("/v1/executions/{}/events", queued.id())).await;
    let cancelled = second.post(&format!("/v1/executions/{}/cancel", queued.id())).await;
    assert!(cancelled.status().is_success(), "{cancelled:?}");
    let result = wait_until("it ends", async || {
        let row = first.execution(&queued.id()).await;
        (row["status"] != "running").then_some(row)
    })
    .await;
    assert_eq!(result["status"], json!("cancelled"), "{result}");
    // The stream ends with the result.
    let events = events.text().await.expect("the events");
    let last = events.rfind("event: result").unwrap_or_else(|| panic!("no result: {events}"));
    assert!(events[last..].contains("cancelled"), "{events}");
    wait_until("its container is gone", async || machine.containers().is_empty().then_some(()))
        .await;
}

/// The file is larger than any skill. The server accepts it, so the balancer must, too.
async fn upload_large_file(machine: &Machine) {
    let size = 65 << 20;
    let boundary = "a-boundary-of-the-tests";
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"large\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    let mut body = head.into_bytes();
    body.resize(body.len() + size, 0);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    let answer =
        machine.balanced().upload(&format!("multipart/form-data; boundary={boundary}"), body).await;
    assert_eq!((answer.status, &answer.body["size_bytes"]), (201, &json!(size)), "{}", answer.body);
}

const WRITER: &str = r#"
import json, os
with open(os.environ["SANDBOX_OUTPUT"], "w") as output:
    json.dump(json.loads(os.environ["SANDBOX_INPUT"]), output)
with open(os.environ["SANDBOX_FILES_DIR"] + "note.txt", "w") as note:
    note.write("a note")
print("wrote it")
"#;
