//! Publishing, reading and deleting skills with the real binary against a real server.

use crate::support::{Server, examples, write_skill};

#[test]
fn a_skill_is_pushed_read_pulled_and_deleted() {
    let server = Server::start();
    let source = examples().join("word-counter").display().to_string();
    let pushed = server.json(&["skill", "push", &source]);
    assert_eq!(
        (&pushed["name"], &pushed["version"], &pushed["status"]),
        (&"word-counter".into(), &"1.0.0".into(), &"available".into())
    );
    assert!(server.run(&["skill", "push", &source]).ok().stdout.contains("unchanged"));
    // Nothing is uploaded, so a key with the scope read is enough.
    let reader = server.json(&["key", "create", "--scope", "read"])["key"]
        .as_str()
        .expect("a key")
        .to_owned();
    let kept = server.run(&["-k", &reader, "skill", "push", "--if-changed", &source]).ok();
    assert!(kept.stdout.contains("unchanged"), "{}", kept.stdout);
    server.run(&["-k", &reader, "skill", "push", &source]).failed(2);

    let list = server.json(&["skill", "list"]);
    assert_eq!(list[0]["name"], "word-counter");
    assert!(server.run(&["skill", "list"]).ok().stdout.starts_with("NAME"));
    let detail = server.json(&["skill", "get", "word-counter@1.0.0"]);
    assert_eq!(detail["digest"], pushed["digest"]);
    assert!(server.run(&["skill", "get", "word-counter"]).ok().stdout.contains("word-counter"));
    assert_eq!(server.json(&["skill", "versions", "word-counter"])[0]["version"], "1.0.0");

    let pulled = server.json(&["skill", "pull", "word-counter", "-O", "copy"]);
    assert_eq!(pulled["digest"], pushed["digest"], "what comes back is what went in");
    assert!(server.home().join("copy/SKILL.md").is_file());
    server.run(&["skill", "pull", "word-counter", "-O", "copy"]).failed(2);

    server.run(&["skill", "delete", "word-counter"]).ok();
    server.run(&["-k", &reader, "skill", "push", "--if-changed", &source]).failed(2);
    let gone = server.run(&["skill", "get", "word-counter"]).failed(2);
    assert!(gone.stderr.contains("hint:") && gone.stderr.contains("request "), "{}", gone.stderr);
}

#[test]
fn findings_are_printed_and_invalid_skills_are_not_uploaded() {
    let server = Server::start();
    let odd = server.home().join("Odd_Name");
    write_skill(&odd, "Odd_Name", "main.py", "print()\n");
    let pushed = server.run(&["skill", "push", &odd.display().to_string()]).ok();
    assert!(pushed.stderr.contains("warning["), "{}", pushed.stderr);

    let broken = server.home().join("broken");
    std::fs::create_dir(&broken).expect("a directory");
    let refused = server.run(&["skill", "push", &broken.display().to_string()]).failed(2);
    assert!(refused.stderr.contains("SKILL.md"), "{}", refused.stderr);
}
