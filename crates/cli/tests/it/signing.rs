//! Signing on the command line, from a new key to a receipt, with minisign as a second verifier.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{CommandResult, Server, run_command, skillbox, write_skill};

/// Runs `skillbox` in its own directory, without a server.
fn local(home: &Path, args: &[&str]) -> CommandResult {
    let mut command = skillbox(home);
    command.current_dir(home).args(args);
    run_command(command)
}

#[track_caller]
fn minisign(dir: &Path, args: &[&str]) {
    let output = Command::new("minisign").args(args).current_dir(dir).output();
    let output = output.expect("minisign, which scripts/setup-tests.sh installs");
    assert!(output.status.success(), "{output:?}");
}

fn signed_skill(home: &Path) {
    write_skill(
        &home.join("code"),
        "demo",
        "main.sh",
        "echo '{\"n\": 1}' > $SANDBOX_OUTPUT; echo x > ${SANDBOX_FILES_DIR}a.txt\n",
    );
    local(home, &["skill", "keygen", "--key", "my.key", "--no-password"]).ok();
    local(home, &["skill", "sign", "code", "--key", "my.key"]).ok();
}

#[test]
fn a_skill_is_signed_and_verified_without_a_server() {
    let home = TempDir::new().expect("a directory");
    let home = home.path();
    signed_skill(home);
    let verified =
        local(home, &["-o", "json", "skill", "verify", "code", "--key", "my.pub"]).ok().json();
    assert_eq!((&verified["name"], &verified["verified"]), (&"demo".into(), &true.into()));
    // The same by minisign itself, in both directions.
    let statement = local(home, &["skill", "statement", "code"]).ok().stdout;
    fs::write(home.join("statement"), statement).expect("written");
    minisign(home, &["-V", "-m", "statement", "-x", "code/SKILL.md.minisig", "-p", "my.pub"]);
    minisign(home, &["-S", "-s", "my.key", "-m", "statement", "-x", "code/SKILL.md.minisig"]);
    local(home, &["skill", "verify", "code", "--key", "my.pub"]).ok();

    // The signature travels in a package.
    local(home, &["skill", "package", "code", "-O", "demo.zip"]).ok();
    local(home, &["skill", "verify", "demo.zip", "--key", "my.pub"]).ok();
    // Another key, other content, no signature: exit code 1. A missing key file: exit code 2.
    local(home, &["skill", "keygen", "--key", "other.key", "--no-password"]).ok();
    let refused = local(home, &["skill", "verify", "code", "--key", "other.pub"]).failed(1);
    assert!(refused.stdout.contains("not one of the given keys"), "{}", refused.stdout);
    fs::write(home.join("code/main.sh"), "echo changed\n").expect("written");
    let refused = local(home, &["skill", "verify", "code", "--key", "my.pub"]).failed(1);
    assert!(refused.stdout.contains("does not match"), "{}", refused.stdout);
    fs::remove_file(home.join("code/SKILL.md.minisig")).expect("removed");
    let refused = local(home, &["skill", "verify", "code", "--key", "my.pub"]).failed(1);
    assert!(refused.stdout.contains("not signed"), "{}", refused.stdout);
    local(home, &["skill", "verify", "code", "--key", "missing.pub"]).failed(2);
}

#[test]
fn a_file_is_signed_and_verified_as_minisign_does() {
    let home = TempDir::new().expect("a directory");
    let home = home.path();
    signed_skill(home);
    fs::write(home.join("SHA256SUMS"), "0123  a.tar.gz\n").expect("written");
    let verify =
        |key: &str| local(home, &["skill", "verify", "--file", "SHA256SUMS", "--key", key]);
    let missing = verify("my.pub").failed(1);
    assert!(missing.stdout.contains("SHA256SUMS.minisig cannot be read"), "{}", missing.stdout);
    local(home, &["skill", "sign", "--file", "SHA256SUMS", "--key", "my.key"]).ok();
    minisign(home, &["-V", "-m", "SHA256SUMS", "-p", "my.pub"]);
    assert!(verify("my.pub").ok().stdout.contains("file:SHA256SUMS"));
    // A signature of minisign itself verifies as well.
    minisign(home, &["-S", "-s", "my.key", "-m", "SHA256SUMS"]);
    verify("my.pub").ok();

    local(home, &["skill", "keygen", "--key", "other.key", "--no-password"]).ok();
    verify("other.pub").failed(1);
    fs::write(home.join("SHA256SUMS"), "4567  a.tar.gz\n").expect("written");
    assert!(verify("my.pub").failed(1).stdout.contains("does not fit"));
    fs::remove_file(home.join("SHA256SUMS")).expect("removed");
    verify("my.pub").failed(2);
}

#[test]
fn the_statement_of_a_skill_is_not_signed_as_a_file() {
    let home = TempDir::new().expect("a directory");
    let home = home.path();
    signed_skill(home);
    let statement = local(home, &["skill", "statement", "code"]).ok().stdout;
    fs::write(home.join("statement"), statement).expect("written");
    let refused =
        local(home, &["skill", "sign", "--file", "statement", "--key", "my.key"]).failed(2);
    assert!(refused.stderr.contains("is the statement of a skill"), "{}", refused.stderr);
    assert!(!home.join("statement.minisig").exists());
}

#[test]
fn keys_are_private_encrypted_and_never_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let home = TempDir::new().expect("a directory");
    let home = home.path();
    fs::write(home.join("password"), "correct horse\n").expect("written");
    fs::write(home.join("wrong"), "battery staple\n").expect("written");
    local(home, &["skill", "keygen", "--password-file", "password"]).ok();
    let mode = fs::metadata(home.join("skillbox.key")).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = local(home, &["skill", "keygen", "--no-password"]).failed(2);
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);

    write_skill(&home.join("code"), "demo", "main.sh", "true\n");
    let sign = |password: &str| {
        local(
            home,
            &["skill", "sign", "code", "--key", "skillbox.key", "--password-file", password],
        )
    };
    let refused = sign("wrong").failed(2);
    assert!(refused.stderr.contains("password is wrong"), "{}", refused.stderr);
    sign("password").ok();
    local(home, &["skill", "verify", "code", "--key", "skillbox.pub"]).ok();
    let elsewhere = local(home, &["skill", "sign", ".", "--key", "skillbox.key"]).failed(2);
    assert!(elsewhere.stderr.contains("SKILL.md"), "{}", elsewhere.stderr);
}

#[test]
fn a_tenant_trusts_revokes_and_gets_receipts() {
    let server = Server::start();
    let home = server.home();
    signed_skill(home);
    server.run(&["tenant", "update", "default", "--signatures", "require"]).ok();
    let refused = server.run(&["skill", "push", "code"]).failed(2);
    assert!(refused.stderr.contains("does not trust"), "{}", refused.stderr);
    let key = server.json(&["trust", "key", "add", "my.pub", "--comment", "ci"]);
    let id = key["key_id"].as_str().expect("an id");
    assert!(server.run(&["trust", "key", "list"]).ok().stdout.contains(id));
    let digest = server.json(&["skill", "push", "code"])["digest"].clone();
    assert!(server.run(&["skill", "get", "demo"]).ok().stdout.contains("trusted"));
    server.run(&["skill", "verify", "demo@1.0.0", "--key", "my.pub"]).ok();
    assert!(server.run(&["trust", "version", "list"]).ok().stdout.contains("1.0.0"));
    server.run(&["skill", "pull", "demo", "-O", "copy"]).ok();
    server.run(&["skill", "verify", "copy", "--key", "my.pub"]).ok();

    let run = server.json(&["run", "demo", "--input", "{ \"a\": [1, 2] }", "--download", "out"]);
    let execution = run["execution_id"].as_str().expect("an id");
    check_receipt(&server, execution);

    server
        .run(&["trust", "digest", "revoke", digest.as_str().expect("a digest"), "--reason", "test"])
        .ok();
    assert!(server.run(&["trust", "digest", "list"]).ok().stdout.contains("test"));
    let refused = server.run(&["run", "demo"]).failed(1);
    assert!(refused.stderr.contains("digest_revoked"), "{}", refused.stderr);
    server.run(&["trust", "digest", "unrevoke", digest.as_str().expect("a digest")]).ok();
    server.run(&["trust", "key", "revoke", id]).ok();
    let refused = server.run(&["run", "demo"]).failed(1);
    assert!(refused.stderr.contains("key_revoked"), "{}", refused.stderr);
}

/// A receipt is verified with only the public key, by `skillbox` and by minisign.
fn check_receipt(server: &Server, execution: &str) {
    let home = server.home();
    let receipt = server.run(&["exec", "receipt", execution]).ok().stdout;
    fs::write(home.join("r.json"), &receipt).expect("written");
    let key = server.run(&["receipt", "key"]).ok().stdout;
    let key = key.trim();
    for (name, text) in
        [("input.json", "{\"a\":\n  [1, 2]}"), ("output.json", "{\"n\":1}"), ("other.json", "{}")]
    {
        fs::write(home.join(name), text).expect("written");
    }
    let verify = |more: &[&str]| {
        local(home, &[&["receipt", "verify", "r.json", "--key", key], more].concat())
    };
    let whole = verify(&[
        "--input", "input.json", "--result", "output.json", "--file", "a.txt=out/a.txt",
        "--extract", "p",
    ]);
    assert!(whole.ok().stdout.contains(execution));
    minisign(home, &["-V", "-m", "p", "-P", key]);
    let told: Value =
        serde_json::from_slice(&fs::read(home.join("p")).expect("a payload")).expect("JSON");
    assert_eq!(told["skill"]["script"], "main.sh");

    for wrong in
        [["--input", "other.json"], ["--result", "other.json"], ["--file", "a.txt=other.json"]]
    {
        assert!(verify(&wrong).failed(1).stdout.contains("genuine, but"), "{wrong:?}");
    }
    fs::write(home.join("r.json"), receipt.replacen("success", "suckess", 1)).expect("written");
    assert!(verify(&[]).failed(1).stdout.contains("not genuine"));
}
