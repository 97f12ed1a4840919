//! Keys, tenants, health and access rules.

use crate::support::{Server, run_command};

#[test]
fn keys_are_created_used_and_revoked() {
    let server = Server::start();
    let made = server.json(&["key", "create", "--name", "reader", "--scope", "read"]);
    let key = made["key"].as_str().expect("the key itself, this once");
    let id = made["id"].as_str().expect("an id");
    server.run(&["skill", "list", "-k", key]).ok();
    let refused = server.run(&["key", "list", "-k", key]).failed(2);
    assert!(refused.stderr.contains("scope"), "{}", refused.stderr);

    let listed = server.run(&["key", "list", "-o", "json"]).ok();
    assert!(
        listed.stdout.contains(id) && !listed.stdout.contains(key),
        "the list shows keys without their secrets"
    );
    assert!(server.run(&["key", "list"]).ok().stdout.contains("reader"));
    server.run(&["key", "revoke", id]).ok();
    let refused = server.run(&["skill", "list", "-k", key]).failed(2);
    assert!(refused.stderr.contains("SKILLBOX_API_KEY"), "{}", refused.stderr);

    let words = server.run(&["key", "create"]).ok();
    assert!(
        words.stdout.starts_with("sk-") && words.stdout.lines().count() == 1,
        "{}",
        words.stdout
    );
}

#[test]
fn tenants_are_created_used_and_deleted() {
    let server = Server::start();
    let made = server.json(&[
        "tenant", "create", "acme", "--immutable", "--scan", "review", "--max-concurrent", "3",
    ]);
    assert_eq!(made["policy"]["versions"], "immutable", "{made}");
    assert!(server.run(&["tenant", "list"]).ok().stdout.contains("acme"));
    assert!(server.run(&["tenant", "get", "acme"]).ok().stdout.contains("immutable"));
    let changed = server.json(&["tenant", "update", "acme", "--max-concurrent", "5"]);
    assert_eq!(
        changed["policy"],
        serde_json::json!({"versions": "immutable", "scan": "review", "max_concurrent": 5, "weight": 1, "signatures": "off"}),
        "{changed}"
    );

    // The first key is a service key: it may act for another tenant, whose skills are its own.
    server.push("mine", "main.sh", "true\n");
    assert_eq!(server.json(&["skill", "list", "-t", "acme"]).as_array().map(Vec::len), Some(0));
    let conflict = server.run(&["tenant", "create", "acme"]).failed(2);
    assert!(conflict.stderr.contains("error:"), "{}", conflict.stderr);
    server.run(&["tenant", "delete", "acme"]).ok();
    server.run(&["tenant", "get", "acme"]).failed(2);
}

#[test]
fn health_prints_the_readiness_checks() {
    let server = Server::start();
    let ready = server.json(&["health"]);
    assert_eq!(ready["status"], "ready");
    assert!(server.run(&["health"]).ok().stdout.contains("is ready"));
}

#[test]
fn a_wrong_key_gets_advice_on_keys() {
    let server = Server::start();
    let refused = server.run(&["skill", "list", "-k", "sk-wrong"]).failed(2);
    assert!(
        refused.stderr.contains("SKILLBOX_API_KEY") && refused.stderr.contains("request "),
        "{}",
        refused.stderr
    );
    // A user without access to the key file has no key.
    let stranger = tempfile::tempdir().expect("a directory");
    let mut command = server.command(&["skill", "list"]);
    command.env("HOME", stranger.path());
    assert!(run_command(command).failed(2).stderr.contains("hint:"));
}

#[test]
fn a_held_skill_is_reviewed_and_approved_or_rejected() {
    let server = Server::start();
    server.run(&["tenant", "update", "default", "--scan", "review"]).ok();
    let home = tempfile::tempdir().expect("a directory");
    let skill = home.path().join("held");
    std::fs::create_dir(&skill).expect("a directory");
    std::fs::write(skill.join("SKILL.md"), "---\nname: held\ndescription: x\n---\n# Held\n")
        .expect("a file");
    std::fs::write(skill.join("main.sh"), "echo ran\n: stratum+tcp://pool.example:3333\n")
        .expect("a file");
    let pushed = server.run(&["skill", "push", &skill.display().to_string()]).ok();
    assert!(
        pushed.stdout.contains("held for review")
            && pushed.stderr.contains("error[miner] main.sh:2:"),
        "{pushed:?}"
    );
    server.run(&["run", "held"]).failed(2);
    assert!(server.run(&["skill", "versions", "held"]).ok().stdout.contains("review"));
    let vague = server.run(&["skill", "approve", "held"]).failed(2);
    assert!(vague.stderr.contains("held@1.0.0"), "{}", vague.stderr);
    let approved = server.run(&["skill", "approve", "held@1.0.0"]).ok();
    assert!(
        approved.stdout.contains("approved") && approved.stderr.contains("error[miner]"),
        "{approved:?}"
    );
    server.run(&["run", "held"]).ok();
    let rejected = server.json(&["skill", "reject", "held@1.0.0"]);
    assert_eq!(rejected["status"], "rejected", "{rejected}");
    assert!(server.run(&["skill", "get", "held@1.0.0"]).ok().stdout.contains("error[miner]"));
    server.run(&["run", "held"]).failed(2);
}
