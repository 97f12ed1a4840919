//! `skillbox doctor` where services are configured.

use crate::engine::Engine;
use crate::postgres::cluster;
use crate::support::{run_command, skillbox};

#[test]
fn doctor_reports_the_engine_and_its_isolation() {
    let Some(engine) = Engine::here("doctor_reports_the_engine_and_its_isolation") else {
        return;
    };
    let home = tempfile::tempdir().expect("a directory");
    let doctor = |more: &[(&str, &str)], args: &[&str]| {
        let mut command = skillbox(home.path());
        command.env("SKILLBOX_SANDBOX", "docker").env("SKILLBOX_DOCKER_HOST", &engine.host);
        for image in ["PYTHON", "NODE", "BASH"] {
            command.env(
                format!("SKILLBOX_IMAGE_{image}"),
                format!("skillbox/{}:test", image.to_lowercase()),
            );
        }
        command.env(
            "SKILLBOX_IMAGE_ALLOWLIST",
            "skillbox/python:test,skillbox/node:test,skillbox/bash:test",
        );
        command.envs(more.iter().copied()).arg("doctor").args(args);
        run_command(command)
    };
    let report = doctor(&[], &["-o", "json"]).ok().json();
    for part in ["engine", "containerd", "runc"] {
        assert!(report["versions"][part].is_string(), "{report}");
    }
    assert_eq!(
        (&report["isolation"]["backend"], &report["runtime"]),
        (&"docker".into(), &"runc".into()),
        "{report}"
    );
    let text = doctor(&[], &[]).ok().stdout;
    assert!(
        text.contains("skills can run here") && text.contains("warning: containers share"),
        "{text}"
    );
    // Whichever gVisor Debian has; only the program itself tells its version, which is a day.
    let gvisor = doctor(&[("SKILLBOX_DOCKER_RUNTIME", "runsc")], &["-o", "json"]).ok().json();
    let version =
        gvisor["versions"]["gvisor"].as_str().unwrap_or_else(|| panic!("no version: {gvisor}"));
    let day = version.split(|c: char| !c.is_ascii_digit()).find(|digits| digits.len() == 8);
    let day: u32 =
        day.and_then(|day| day.parse().ok()).unwrap_or_else(|| panic!("no day: {version}"));
    let warned = gvisor["warnings"].as_array().expect("warnings");
    let is_old = warned
        .iter()
        .any(|warning| warning.as_str().is_some_and(|text| text.starts_with("gvisor ")));
    assert_eq!(is_old, day < 20240101, "{gvisor}");
    assert!(
        !warned.iter().any(|warning| warning.as_str().is_some_and(|text| text.contains("share"))),
        "{gvisor}"
    );
    let none = doctor(&[("SKILLBOX_DOCKER_RUNTIME", "no-such-runtime")], &[]).failed(1).stdout;
    assert!(none.contains("problem: "), "{none}");
}

#[test]
fn doctor_reports_whether_services_respond() {
    let home = tempfile::tempdir().expect("a directory");
    let doctor = |settings: &[(&str, &str)]| {
        let mut command = skillbox(home.path());
        command.envs(settings.iter().copied()).args(["doctor", "-o", "json"]);
        run_command(command)
    };
    let report = doctor(&[("SKILLBOX_DB_DSN", &cluster::database())]).ok().json();
    let postgres = &report["services"][0];
    assert_eq!(
        (&postgres["name"], &postgres["ok"]),
        (&"postgres".into(), &true.into()),
        "{report}"
    );
    assert!(
        postgres["detail"]
            .as_str()
            .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    );
    let report = doctor(&[
        ("SKILLBOX_DB_DSN", "postgres://nobody:hush@127.0.0.1:1/none"),
        ("SKILLBOX_S3_ENDPOINT", "http://127.0.0.1:1"),
        ("SKILLBOX_S3_ACCESS_KEY", "a"),
        ("SKILLBOX_S3_SECRET_KEY", "hush"),
    ])
    .failed(1);
    assert!(!report.stdout.contains("hush"), "{}", report.stdout);
    let report = report.json();
    assert_eq!(
        (&report["services"][0]["ok"], &report["services"][1]["ok"]),
        (&false.into(), &false.into()),
        "{report}"
    );
}
