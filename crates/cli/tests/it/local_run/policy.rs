//! The two `skillbox.toml` files: the user's policy and the one inside a skill.

use super::Home;
use crate::support::write_skill;

const USER_POLICY: &str = ".config/skillbox/skillbox.toml";

#[test]
fn an_unknown_key_fails_the_run_and_is_named() {
    let home = Home::with("main.sh", "echo ran\n");
    home.write(USER_POLICY, "allow_netwrok = [\"skill\"]\n");
    let result = home.run(&["run", "./skill", "main.sh"]).failed(2);
    assert!(
        result.stderr.contains("allow_netwrok") && result.stderr.contains("skillbox.toml"),
        "{}",
        result.stderr
    );
    assert_eq!(result.stdout, "");
    home.write(USER_POLICY, "");
    home.write("skill/skillbox.toml", "allow_network = [\"skill\"]\n");
    let result = home.run(&["run", "./skill", "main.sh"]).failed(2);
    assert!(
        result.stderr.contains("allow_network") && result.stderr.contains("skill's own"),
        "{}",
        result.stderr
    );
}

#[test]
fn the_user_policy_sets_limits_and_opens_the_network_for_one_skill() {
    let home = Home::with("main.sh", "true\n");
    let directory = home.path().join("skill");
    let allow = format!("allow_network = [{directory:?}]\n");
    home.write(USER_POLICY, &format!("{allow}default_memory = \"48Mi\"\nmax_timeout = \"7s\"\n"));
    let (_, record) = home.audit(&["./skill", "main.sh", "--timeout", "1h"]);
    assert_eq!(
        (&record["network_allowed"], &record["isolation"]["network"]),
        (&true.into(), &"host".into())
    );
    assert_eq!((&record["memory_limit_mb"], &record["timeout_ms"]), (&48.into(), &7000.into()));
    assert!(
        record["clamped"][0].as_str().is_some_and(|message| message.contains("1h")),
        "{record}"
    );
    // A digest is exact: one changed byte is another skill.
    let digest = record["digest"].as_str().expect("a digest").to_owned();
    home.write(USER_POLICY, &format!("allow_network = [\"{digest}\"]\n"));
    assert_eq!(home.audit(&["./skill", "main.sh"]).1["network_allowed"], true);
    home.write("skill/main.sh", "false\n");
    assert_eq!(home.audit(&["./skill", "main.sh"]).1["network_allowed"], false);
}

#[test]
fn a_skill_with_the_name_of_an_allowed_one_gets_no_network() {
    let home = Home::with("main.sh", "true\n");
    write_skill(&home.path().join("elsewhere"), "skill", "main.sh", "false\n");
    let directory = home.path().join("skill");
    home.write(USER_POLICY, &format!("allow_network = [{directory:?}]\n"));
    // Control: the policy opens the network for the allowed skill, and both have the same name.
    let (_, own) = home.audit(&["./skill", "main.sh"]);
    let (_, impostor) = home.audit(&["./elsewhere", "main.sh"]);
    assert_eq!((&own["skill"], &own["network_allowed"]), (&"skill".into(), &true.into()));
    assert_eq!(
        (&impostor["skill"], &impostor["network_allowed"]),
        (&"skill".into(), &false.into())
    );
    assert_ne!(impostor["isolation"]["network"], "host");
    // A name in the policy is rejected, and the error explains what to use.
    home.write(USER_POLICY, "allow_network = [\"skill\"]\n");
    let result = home.run(&["run", "./skill", "main.sh"]).failed(2);
    assert!(
        result.stderr.contains("any skill can use any name") && result.stderr.contains("digest"),
        "{}",
        result.stderr
    );
}

#[test]
fn the_policy_of_a_skill_can_only_restrict() {
    let home = Home::with("main.sh", "true\n");
    home.write("skill/skillbox.toml", "timeout = \"3s\"\nmemory = \"32Mi\"\nnetwork = false\n");
    let (_, record) = home.audit(&["./skill", "main.sh"]);
    assert_eq!((&record["memory_limit_mb"], &record["timeout_ms"]), (&32.into(), &3000.into()));
    let result = home.run(&["run", "./skill", "--allow-network"]).failed(2);
    assert!(result.stderr.contains("network = false"), "{}", result.stderr);
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
fn a_missing_required_control_fails_the_run() {
    let home = Home::with("main.sh", "echo ran\n");
    home.write(USER_POLICY, "require = [\"network_namespace\", \"seccomp\"]\n");
    home.run(&["run", "./skill"]).ok();
    for flag in ["--allow-network", "--trust-remote-code"] {
        let result = home.run(&["run", "./skill", flag]).failed(2);
        assert!(
            result.stderr.contains("network_namespace") && !result.stderr.contains("ran"),
            "{}",
            result.stderr
        );
    }
}
