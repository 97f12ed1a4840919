use serde_json::json;

use super::*;

fn read(value: Value) -> Permissions {
    Permissions::from(value)
}

#[test]
fn permissions_of_every_sandbox_are_granted() {
    for harmless in [
        json!({}),
        json!(null),
        json!({"network": {"egress": []}, "filesystem": {"read": [], "write": []}}),
        json!({"network": {"egress": [{"domain": "localhost", "ports": [8080]}, "127.0.0.1:80", "::1"]}}),
        json!({"filesystem": {"read": ["/tmp/cache", "data/x.csv", "./", "/usr/share/zoneinfo"], "write": ["/workspace", "out", "/tmp/**"]}}),
        json!({"env_vars": {"allow": ["API_KEY", "PATH"]}, "syscalls": {"profile": "default"}}),
        json!({"gpu": false, "clipboard": null, "camera": "none", "network": {"ingress": []}}),
    ] {
        assert_eq!(read(harmless.clone()).list_refused(), Vec::<String>::new(), "{harmless}");
    }
}

#[test]
fn permissions_that_cannot_be_granted_are_listed() {
    for (requested, names) in [
        (
            json!({"network": {"egress": [{"domain": "a.example", "ports": [443, "8443"]}, "b.example"]}}),
            &["network egress to a.example:443,8443", "network egress to b.example"][..],
        ),
        (json!({"network": "all"}), &["the permission network"]),
        (json!({"network": {"egress": "*"}}), &["the permission network.egress"]),
        (
            json!({"network": {"egress": [{"domain": "a", "protocol": "udp"}]}}),
            &["the permission network.egress"],
        ),
        (
            json!({"filesystem": {"read": ["/etc/passwd", "~/.ssh", "$HOME", "/tmpfile"], "write": ["/usr/lib"]}}),
            &[
                "reading /etc/passwd", "reading ~/.ssh", "reading $HOME", "reading /tmpfile",
                "writing /usr/lib",
            ],
        ),
        (
            json!({"filesystem": {"read": ["/tmp/../etc", "../up"]}}),
            &["reading /tmp/../etc", "reading ../up"],
        ),
        (json!({"syscalls": {"profile": "unconfined"}}), &["the system call profile unconfined"]),
        (json!({"root": true}), &["the permission root"]),
        (json!(["network", "files"]), &["the permission network", "the permission files"]),
        (json!("all"), &["the permission all"]),
    ] {
        assert_eq!(read(requested.clone()).list_refused(), names, "{requested}");
    }
}

#[test]
fn permissions_survive_serialization() {
    assert_eq!(serde_json::to_value(Permissions::default()).ok(), Some(json!({})));
    for said in [
        json!({"network": {"egress": [{"domain": "a.example", "ports": [443]}]}}),
        json!({"network": {"egress": []}, "env_vars": {"allow": []}, "root": {"deep": [1]}}),
        json!({"filesystem": {"read": ["/a"], "write": ["/b"]}, "syscalls": {"profile": "x"}}),
    ] {
        let permissions = read(said.clone());
        assert_eq!(serde_json::to_value(&permissions).ok(), Some(said.clone()));
        assert_eq!(serde_json::from_value::<Permissions>(said).ok(), Some(permissions));
    }
}

#[test]
fn intersection_keeps_what_both_grant() {
    let a = json!({"network": {"egress": ["a.example:443", "b.example", "c.example:1"]}, "filesystem": {"read": ["/tmp", "/etc"]},
        "env_vars": {"allow": ["A", "B"]}, "syscalls": {"profile": "default"}});
    let b = json!({"network": {"egress": ["b.example:80", "a.example:443", "c.example:2"]}, "filesystem": {"read": ["/tmp/x", "/etc"]},
        "env_vars": {"allow": ["B", "C"]}, "syscalls": {"profile": "odd"}, "root": true});
    let expected = json!({"network": {"egress": [{"domain": "a.example", "ports": [443]}, {"domain": "b.example", "ports": [80]}]},
        "filesystem": {"read": ["/etc", "/tmp/x"]}, "env_vars": {"allow": ["B"]}, "syscalls": {"profile": "odd"}, "root": true});
    assert_eq!(
        serde_json::to_value(read(a.clone()).intersect(read(b.clone()))).ok(),
        Some(expected)
    );
    assert_eq!(read(a.clone()).intersect(Permissions::default()), read(a.clone()));
    assert_eq!(Permissions::default().intersect(read(a.clone())), read(a));
}

#[test]
fn variables_are_limited_only_by_an_allow_list() {
    assert!(read(json!({})).allows_env("ANY"));
    let limited = read(json!({"env_vars": {"allow": ["TOKEN"]}}));
    assert!(
        limited.allows_env("TOKEN") && !limited.allows_env("token") && !limited.allows_env("OTHER")
    );
    assert!(!read(json!({"env_vars": {"allow": []}})).allows_env("TOKEN"));
}
