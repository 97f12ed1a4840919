//! `skillbox audit-log`: an unmodified log is genuine, and changes in the database are detected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::Server;

/// Executes SQL statements on the server's database, as an attacker with access to the file could.
#[track_caller]
fn tamper(server: &Server, statements: &str) {
    let script =
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=10).executescript(sys.argv[2])";
    let database = server.data_dir().join("skillbox.db");
    let status =
        Command::new("python3").args(["-c", script]).arg(database).arg(statements).status();
    assert!(status.expect("python3").success());
}

/// A tenant with four entries in its log, which is genuine.
#[track_caller]
fn tenant_with_log(server: &Server, name: &str) {
    server.run(&["tenant", "create", name]).ok();
    for _ in 0..4 {
        server.run(&["-t", name, "key", "create", "--scope", "read"]).ok();
    }
    let verified = server.json(&["-t", name, "audit-log", "verify"]);
    assert_eq!(
        (&verified["verified"], &verified["seq"]),
        (&true.into(), &4.into()),
        "control: {verified}"
    );
}

fn save(server: &Server, name: &str, text: &str) -> PathBuf {
    let path = server.home().join(name);
    fs::write(&path, text).expect("written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn changes_to_the_log_in_the_database_are_detected() {
    let server = Server::start();
    for (name, attack, problem) in [
        (
            "modify",
            "UPDATE audit SET object = 'x' WHERE tenant = 'modify' AND seq = 2",
            "entry 2 was modified",
        ),
        (
            "reorder",
            "UPDATE audit SET seq = -1 WHERE tenant = 'reorder' AND seq = 2; \
             UPDATE audit SET seq = 2 WHERE tenant = 'reorder' AND seq = 3; \
             UPDATE audit SET seq = 3 WHERE tenant = 'reorder' AND seq = -1",
            "entry 2 was modified",
        ),
        ("remove", "DELETE FROM audit WHERE tenant = 'remove' AND seq = 2", "entry 2 is missing"),
        ("truncate", "DELETE FROM audit WHERE tenant = 'truncate' AND seq > 2", "it was truncated"),
        ("empty", "DELETE FROM audit WHERE tenant = 'empty'", "it was truncated"),
        ("headless", "DELETE FROM audit_heads WHERE tenant = 'headless'", "no authentic head"),
        (
            "head",
            "UPDATE audit_heads SET signed = replace(signed, '4,', '3,') WHERE tenant = 'head'",
            "not genuine",
        ),
        (
            "appended",
            "INSERT INTO audit (id, tenant, action, object, detail, created_at, seq, hash) \
             SELECT '0190c0de-0000-7000-8000-000000000000', tenant, action, object, detail, created_at, 5, hash FROM audit \
             WHERE tenant = 'appended' AND seq = 4",
            "entry 5 is after the signed head",
        ),
    ] {
        tenant_with_log(&server, name);
        tamper(&server, attack);
        let found = server.run(&["-t", name, "audit-log", "verify"]).failed(1);
        assert!(
            found.stdout.contains("tampered") && found.stdout.contains(problem),
            "{name}: {}",
            found.stdout
        );
    }
    // A forged head is not signed by the next change either.
    tamper(&server, "UPDATE audit_heads SET hash = 'forged' WHERE tenant = 'modify'");
    server.run(&["-t", "modify", "key", "create", "--scope", "read"]).ok();
    let found = server.run(&["-t", "modify", "audit-log", "verify"]).failed(1);
    assert!(found.stdout.contains("not signed"), "{}", found.stdout);
}

#[test]
fn a_stored_head_detects_a_rollback_of_the_log() {
    let server = Server::start();
    tenant_with_log(&server, "acme");
    let copy = "CREATE TABLE old_head AS SELECT * FROM audit_heads WHERE tenant = 'acme'";
    tamper(&server, copy);
    for _ in 0..2 {
        server.run(&["-t", "acme", "key", "create", "--scope", "read"]).ok();
    }
    let head = server.run(&["-t", "acme", "audit-log", "head"]).ok().stdout;
    let head = save(&server, "head.json", &head);
    let verify = ["-t", "acme", "audit-log", "verify"];
    let with_head = [&verify[..], &["--head", text(&head)]].concat();
    server.run(&with_head).ok();
    tamper(
        &server,
        "DELETE FROM audit WHERE tenant = 'acme' AND seq > 4; DELETE FROM audit_heads WHERE tenant = 'acme'; \
         INSERT INTO audit_heads SELECT * FROM old_head",
    );
    server.run(&verify).ok(); // Control: the old head was signed too, and nothing in the database tells.
    let found = server.run(&with_head).failed(1);
    assert!(
        found.stdout.contains("ends at entry 4, but the head names entry 6"),
        "{}",
        found.stdout
    );
}

#[test]
fn a_log_is_verified_without_a_server() {
    let server = Server::start();
    tenant_with_log(&server, "acme");
    let log = server.run(&["-t", "acme", "-o", "json", "audit-log", "list", "--all"]).ok().stdout;
    let head =
        save(&server, "head.json", &server.run(&["-t", "acme", "audit-log", "head"]).ok().stdout);
    let key = server.run(&["receipt", "key"]).ok().stdout;
    let verify = |log: &str, name: &str| {
        let log = save(&server, name, log);
        let files = ["--log", text(&log), "--head", text(&head), "--key", key.trim()];
        server.run(&[&["audit-log", "verify", "-s", "http://127.0.0.1:9"], &files[..]].concat())
    };
    assert!(verify(&log, "whole.json").ok().stdout.starts_with("genuine: 4 entries"));
    let mut entries: Vec<Value> = serde_json::from_str(&log).expect("a list");
    assert!(server.run(&["-t", "acme", "audit-log", "list"]).ok().stdout.contains("key.create"));
    entries.remove(0);
    let cut = serde_json::to_string(&entries).expect("JSON");
    assert!(verify(&cut, "cut.json").failed(1).stdout.contains("truncated"));
    let changed = log.replacen("key.create", "key.revoke", 1);
    assert!(verify(&changed, "changed.json").failed(1).stdout.contains("modified"));
}
