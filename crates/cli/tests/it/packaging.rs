//! `deploy/docker/Dockerfile`: checks its text, and builds and runs its last stages with the program of
//! this build.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::engine::{Engine, Image, repository};
use crate::support::{Server, run_command, skillbox, write_skill};

fn dockerfile() -> String {
    fs::read_to_string(repository().join("deploy/docker/Dockerfile")).expect("the Dockerfile")
}

/// Its stages, each from its FROM to the next.
fn stages(text: &str) -> Vec<String> {
    let mut stages: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("FROM ") {
            stages.push(String::new());
        }
        if let Some(stage) = stages.last_mut() {
            stage.push_str(line);
            stage.push('\n');
        }
    }
    stages
}

#[test]
fn every_dockerfile_pins_versions_uses_an_unprivileged_user_and_has_no_secret() {
    for name in ["docker", "images/python", "images/node", "images/bash"] {
        let text = fs::read_to_string(repository().join("deploy").join(name).join("Dockerfile"))
            .expect("a Dockerfile");
        let stages = stages(&text);
        for stage in &stages {
            let base = stage.split_whitespace().nth(1).expect("a base");
            let pinned = base == "scratch"
                || base.split_once(':').is_some_and(|(_, tag)| !tag.starts_with("latest"));
            assert!(pinned, "{name}: {base} is another image every day");
        }
        let last = stages.last().expect("a stage");
        let user = last.lines().rfind(|line| line.starts_with("USER ")).expect("a user");
        assert!(["USER 65532:65532", "USER 65534:65534"].contains(&user), "{name} ends as {user}");
        assert!(!text.contains("\nADD "), "{name}: ADD unpacks and fetches, COPY copies");
        for word in ["PASSWORD", "SECRET", "TOKEN", "KEY="] {
            assert!(!text.to_uppercase().contains(word), "{name} speaks of a {word}");
        }
    }
}

#[test]
fn the_build_context_contains_only_the_sources() {
    let text = fs::read_to_string(repository().join(".dockerignore")).expect("the list");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines, ["*", "!Cargo.toml", "!Cargo.lock", "!crates", "!testing", "!migrations"]);
    for line in &lines[1..] {
        assert!(repository().join(&line[1..]).exists(), "{line} lets in what is not there");
    }
}

/// The compile stage needs a registry for its base image and for crates, so it is replaced with the
/// program of this build. The later stages are used unchanged.
#[test]
fn the_image_runs_unprivileged_on_a_read_only_root() {
    let Some(engine) =
        Engine::here("that the image of Skillbox runs as nobody on a read-only root")
    else {
        return;
    };
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !release.contains("VERSION_CODENAME=bookworm") {
        return println!(
            "NEEDS ROOT: the image of Skillbox can only be tried with a program built on Debian 12"
        );
    }
    let context = tempfile::tempdir().expect("a directory");
    fs::copy(env!("CARGO_BIN_EXE_skillbox"), context.path().join("skillbox")).expect("the program");
    fs::copy("/etc/ssl/certs/ca-certificates.crt", context.path().join("certificates"))
        .expect("this machine's certificates");
    let text = dockerfile();
    let stages = stages(&text);
    let compiled = "FROM skillbox/bash:test AS build\nUSER root\nCOPY skillbox /src/target/release/skillbox\n\
                    COPY certificates /etc/ssl/certs/ca-certificates.crt\n";
    let (last, layout) =
        (&stages[2], stages[1].replace("debian:bookworm-slim", "skillbox/bash:test"));
    let file = context.path().join("Dockerfile");
    fs::write(&file, format!("{compiled}{layout}{last}")).expect("a Dockerfile");
    let image = engine.build(&file, context.path(), "skillbox-test/skillbox:built");

    let configuration = engine.configuration(&image.tag);
    assert_eq!(configuration["User"], json!("65532:65532"));
    assert_eq!(configuration["Healthcheck"]["Test"], json!(["CMD", "skillbox", "health"]));
    let run = |options: &[&str], args: &[&str]| {
        let hardened =
            ["run", "--rm", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"];
        let output = engine.command(&[&hardened, options, &[&image.tag], args].concat()).output();
        output.expect("the docker client runs")
    };
    let version = run(&["--network=none"], &["version"]);
    assert_eq!(String::from_utf8_lossy(&version.stdout), this_version(), "{version:?}");

    let server = Server::start();
    let at = format!("SKILLBOX_SERVER_URL={}", server.url);
    let healthy = run(&["--network=host", "--env", &at], &["health"]);
    assert!(healthy.status.success(), "{healthy:?}");
    let failed = run(&["--network=none"], &["health"]);
    assert!(!failed.status.success(), "where nothing serves, that is not healthy: {failed:?}");

    let shell = run(&["--network=none", "--entrypoint=/bin/sh"], &["-c", "true"]);
    assert!(!shell.status.success(), "there is a shell to talk to: {shell:?}");
    skills_run_from_inside(&engine, &image);
}

/// A server in the image creates its sandboxes on the engine that it runs on, and has no access to the
/// machine except the socket of that engine.
fn skills_run_from_inside(engine: &Engine, image: &Image) {
    let socket = engine.host.strip_prefix("unix://").expect("an engine with a socket");
    let group = fs::metadata(socket).expect("the socket").gid().to_string();
    let key = format!("sk-inside-{}", std::process::id());
    let settings = [
        "SKILLBOX_BIND=127.0.0.1".to_owned(),
        "SKILLBOX_SANDBOX=docker".to_owned(),
        "SKILLBOX_DOCKER_HOST=unix:///run/engine.sock".to_owned(),
        "SKILLBOX_IMAGE_ALLOWLIST=skillbox/python:test,skillbox/node:test,skillbox/bash:test"
            .to_owned(),
        "SKILLBOX_IMAGE_PYTHON=skillbox/python:test".to_owned(),
        "SKILLBOX_IMAGE_NODE=skillbox/node:test".to_owned(),
        "SKILLBOX_IMAGE_BASH=skillbox/bash:test".to_owned(),
        format!("SKILLBOX_BOOTSTRAP_KEY={key}"),
    ];
    let name = format!("skillbox-test-inside-{}", std::process::id());
    let mount = format!("{socket}:/run/engine.sock");
    let mut command =
        engine.command(&["run", "--rm", "--name", &name, "--read-only", "--cap-drop=ALL"]);
    command.args([
        "--security-opt=no-new-privileges", "--network=host", "--volume", &mount, "--group-add",
        &group,
    ]);
    command.args(["--tmpfs", "/var/lib/skillbox:uid=65532,gid=65532,mode=700"]);
    command.args(settings.iter().flat_map(|setting| ["--env", setting]));
    command.args([&image.tag, "-o", "json", "serve", "--api-port", "0"]);
    let mut inside = Inside {
        engine,
        name,
        child: command.stdout(Stdio::piped()).spawn().expect("the docker client runs"),
    };
    let mut line = String::new();
    BufReader::new(inside.child.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line");
    let ready: Value = serde_json::from_str(&line)
        .unwrap_or_else(|error| panic!("it is not ready: {error}: {line}"));

    let home = tempfile::tempdir().expect("a directory");
    write_skill(
        &home.path().join("echo"),
        "echo",
        "main.sh",
        "echo \"$SANDBOX_INPUT\" > \"$SANDBOX_OUTPUT\"\n",
    );
    let skillbox = |args: &[&str]| {
        let mut command = skillbox(home.path());
        command.env("SKILLBOX_SERVER_URL", ready["url"].as_str().expect("an address"));
        command.env("SKILLBOX_API_KEY", &key).args(args);
        run_command(command).ok()
    };
    skillbox(&["skill", "push", &home.path().join("echo").display().to_string()]);
    let ran = skillbox(&["-o", "json", "run", "echo", "--input", r#"{"n":1}"#]).json();
    let found = (&ran["status"], &ran["output"], &ran["isolation"]["backend"]);
    assert_eq!(found, (&json!("success"), &json!({ "n": 1 }), &json!("docker")), "{ran}");
}

/// A server in a container. Dropping it stops the server and removes the container.
struct Inside<'a> {
    engine: &'a Engine,
    name: String,
    child: Child,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // It drains, so that it leaves no sandbox behind.
        let _ = self.engine.command(&["stop", "--time", "30", &self.name]).output();
        let _ = self.child.wait();
    }
}

fn this_version() -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_skillbox")).arg("version").output().expect("it runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}
