//! The users of the object store in `docker-compose.yml`: who has which keys, and what these may
//! do.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::Value;

use super::file::Compose;
use super::made;
use crate::api::text;
use crate::engine::repository;

/// Only MinIO and what makes its users know the root user, and the API and the worker have one
/// each.
#[test]
fn every_process_signs_in_to_the_object_store_as_its_own_user() {
    let (_directory, variables) = made();
    let compose = Compose::read(&variables);
    let knows =
        |name: &str, secret: &str| compose.service(name).to_string().contains(&variables[secret]);
    for (name, _) in compose.services() {
        assert_eq!(knows(name, "MINIO_ROOT_PASSWORD"), name.starts_with("objects"), "{name}");
        assert_eq!(
            knows(name, "S3_SECRET_KEY"),
            matches!(name, "api-1" | "api-2" | "objects-setup"),
            "{name}"
        );
        assert_eq!(
            knows(name, "S3_WORKER_SECRET_KEY"),
            matches!(name, "worker" | "objects-setup"),
            "{name}"
        );
    }
    assert_eq!(
        compose.environment("worker")["SKILLBOX_S3_ACCESS_KEY"],
        variables["S3_WORKER_ACCESS_KEY"]
    );
}

/// The rights in the file, as the tests' object store spells them.
fn rights(file: &str) -> BTreeSet<String> {
    let policy =
        std::fs::read(repository().join("deploy/docker/objects").join(file)).expect("a policy");
    let policy: Value = serde_json::from_slice(&policy).expect("JSON");
    let mut rights = BTreeSet::new();
    let list =
        |value: &Value| value.as_array().expect("a list").iter().map(text).collect::<Vec<_>>();
    for statement in policy["Statement"].as_array().expect("statements") {
        assert_eq!(statement["Effect"], "Allow");
        for resource in list(&statement["Resource"]) {
            let resource = resource.strip_prefix("arn:aws:s3:::").expect("a bucket").to_owned();
            for action in list(&statement["Action"]) {
                let (right, of_objects) = match action.as_str() {
                    "s3:ListBucket" | "s3:ListBucketMultipartUploads" => ("List", false),
                    "s3:GetObject" => ("Read", true),
                    "s3:PutObject" | "s3:DeleteObject" | "s3:AbortMultipartUpload" => {
                        ("Write", true)
                    }
                    other => panic!("{file} has {other}, which no test knows"),
                };
                assert_eq!(resource.ends_with("/*"), of_objects, "{action} on {resource}");
                rights.insert(format!("{right}:{}", resource.trim_end_matches("/*")));
            }
        }
    }
    rights
}

#[test]
fn a_worker_may_read_skills_and_write_results() {
    let all = |rights: &[&str]| rights.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let worker = rights("worker.json");
    assert_eq!(
        worker,
        all(&[
            "List:skills", "Read:skills", "List:executions", "Read:executions", "Write:executions"
        ])
    );
    let mut api = worker.clone();
    api.insert("Write:skills".to_owned());
    assert_eq!(rights("api.json"), api);
    // The tests' object store gives its worker the same, so that the tests with its key are about
    // this file.
    let script =
        std::fs::read_to_string(repository().join("scripts/test-s3.sh")).expect("the script");
    let (_, identity) =
        script.split_once("\"name\": \"skillbox-test-worker\"").expect("a worker's identity");
    let (_, list) = identity.split_once("\"actions\": [").expect("its rights");
    let (list, _) = list.split_once(']').expect("an end");
    let own = list
        .split(',')
        .map(|right| right.trim().trim_matches('"'))
        .filter(|right| !right.contains("skillbox-test"));
    assert_eq!(own.map(str::to_owned).collect::<BTreeSet<_>>(), worker);
}

/// The script that makes MinIO's users, with an `mc` that notes how it is called.
fn set_up(mc: &str) -> (Output, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let notes = directory.path().join("notes");
    let program = directory.path().join("mc");
    std::fs::write(&program, format!("#!/bin/sh\n{mc}\n")).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let output = Command::new("/bin/sh")
        .arg(repository().join("deploy/docker/objects/setup.sh"))
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", directory.path().display()))
        .env("NOTES", &notes)
        .envs([("S3_ACCESS_KEY", "api"), ("S3_SECRET_KEY", "api-secret")])
        .envs([("S3_WORKER_ACCESS_KEY", "worker"), ("S3_WORKER_SECRET_KEY", "worker-secret")])
        .output()
        .expect("a shell");
    (output, std::fs::read_to_string(notes).unwrap_or_default())
}

#[test]
fn the_users_of_the_object_store_are_made_again_without_harm() {
    let note = r#"echo "$*" >>"$NOTES"; case "$*" in *"user add"*) cat >>"$NOTES" ;; esac"#;
    let (output, notes) = set_up(note);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls = [
        "mb --ignore-existing objects/skills objects/executions",
        "admin policy create objects skillbox-api api.json",
        "admin policy create objects skillbox-worker worker.json",
        "admin user add objects\napi\napi-secret",
        "admin user add objects\nworker\nworker-secret",
        "admin policy attach objects skillbox-api --user api",
        "admin policy attach objects skillbox-worker --user worker",
    ];
    assert_eq!(notes.trim_end(), calls.join("\n"));

    let attach = |words: &str| {
        format!(r#"case "$*" in *attach*) echo "mc: <ERROR> {words}" >&2; exit 1 ;; esac"#)
    };
    let again = "Unable to make user/group policy association. The specified policy change is already in effect.";
    assert!(set_up(&attach(again)).0.status.success());
    let (failed, _) = set_up(&attach("Access Denied."));
    assert!(
        !failed.status.success()
            && String::from_utf8_lossy(&failed.stderr).contains("Access Denied.")
    );
    assert!(!set_up("exit 1").0.status.success());
}
