//! `skillbox.toml`, the user's and the skill's own.

use super::Home;
use crate::support::write_skill;

const USERS: &str = ".config/skillbox/skillbox.toml";

#[test]
fn an_unknown_key_stops_the_run_and_is_named() {
    let home = Home::with("main.sh", "echo ran\n");
    home.write(USERS, "allow_netwrok = [\"skill\"]\n");
    let ended = home.run(&["run", "./skill", "main.sh"]).failed(2);
    assert!(
        ended.stderr.contains("allow_netwrok") && ended.stderr.contains("skillbox.toml"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "");
    home.write(USERS, "");
    home.write("skill/skillbox.toml", "allow_network = [\"skill\"]\n");
    let ended = home.run(&["run", "./skill", "main.sh"]).failed(2);
    assert!(
        ended.stderr.contains("allow_network") && ended.stderr.contains("skill's own"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_user_sets_limits_and_opens_the_network_for_one_skill() {
    let home = Home::with("main.sh", "true\n");
    let directory = home.path().join("skill");
    let allow = format!("allow_network = [{directory:?}]\n");
    home.write(USERS, &format!("{allow}default_memory = \"48Mi\"\nmax_timeout = \"7s\"\n"));
    let (_, record) = home.audit(&["./skill", "main.sh", "--timeout", "1h"]);
    assert_eq!(
        (&record["network_allowed"], &record["isolation"]["network"]),
        (&true.into(), &"host".into())
    );
    assert_eq!((&record["memory_limit_mb"], &record["timeout_ms"]), (&48.into(), &7000.into()));
    assert!(record["clamped"][0].as_str().is_some_and(|words| words.contains("1h")), "{record}");
    // A digest is exact: one changed byte is another skill.
    let digest = record["digest"].as_str().expect("a digest").to_owned();
    home.write(USERS, &format!("allow_network = [\"{digest}\"]\n"));
    assert_eq!(home.audit(&["./skill", "main.sh"]).1["network_allowed"], true);
    home.write("skill/main.sh", "false\n");
    assert_eq!(home.audit(&["./skill", "main.sh"]).1["network_allowed"], false);
}

#[test]
fn a_skill_that_takes_the_name_of_an_allowed_one_gets_no_network() {
    let home = Home::with("main.sh", "true\n");
    write_skill(&home.path().join("elsewhere"), "skill", "main.sh", "false\n");
    let directory = home.path().join("skill");
    home.write(USERS, &format!("allow_network = [{directory:?}]\n"));
    // Control: the policy opens the network for the skill that it means, and the name is the same.
    let (_, own) = home.audit(&["./skill", "main.sh"]);
    let (_, impostor) = home.audit(&["./elsewhere", "main.sh"]);
    assert_eq!((&own["skill"], &own["network_allowed"]), (&"skill".into(), &true.into()));
    assert_eq!(
        (&impostor["skill"], &impostor["network_allowed"]),
        (&"skill".into(), &false.into())
    );
    assert_ne!(impostor["isolation"]["network"], "host");
    // The form that matched by name is refused with the way out.
    home.write(USERS, "allow_network = [\"skill\"]\n");
    let ended = home.run(&["run", "./skill", "main.sh"]).failed(2);
    assert!(
        ended.stderr.contains("any skill can use any name") && ended.stderr.contains("digest"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_skill_only_takes_away() {
    let home = Home::with("main.sh", "true\n");
    home.write("skill/skillbox.toml", "timeout = \"3s\"\nmemory = \"32Mi\"\nnetwork = false\n");
    let (_, record) = home.audit(&["./skill", "main.sh"]);
    assert_eq!((&record["memory_limit_mb"], &record["timeout_ms"]), (&32.into(), &3000.into()));
    let ended = home.run(&["run", "./skill", "--allow-network"]).failed(2);
    assert!(ended.stderr.contains("network = false"), "{}", ended.stderr);
    home.write("skill/skillbox.toml", "network = true\n");
    assert!(home.run(&["run", "./skill"]).failed(2).stderr.contains("--allow-network"));
    home.write("skill/skillbox.toml", "memory = \"8Ti\"\ntimeout = \"99h\"\n");
    let (_, record) = home.audit(&["./skill", "main.sh"]);
    assert_eq!(
        (&record["memory_limit_mb"], &record["timeout_ms"]),
        (&1024.into(), &600_000.into())
    );
}

#[test]
fn a_required_control_that_does_not_hold_refuses_the_run() {
    let home = Home::with("main.sh", "echo ran\n");
    home.write(USERS, "require = [\"network_namespace\", \"seccomp\"]\n");
    home.run(&["run", "./skill"]).ok();
    for flag in ["--allow-network", "--trust-remote-code"] {
        let ended = home.run(&["run", "./skill", flag]).failed(2);
        assert!(
            ended.stderr.contains("network_namespace") && !ended.stderr.contains("ran"),
            "{}",
            ended.stderr
        );
    }
}
