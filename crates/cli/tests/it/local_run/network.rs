//! The network of the machine: closed unless the person at it opens it, and out of reach of
//! everybody else.

use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use serde_json::json;

use super::Home;
use crate::support::{Server, ended, skillbox, write_skill};

/// Says something to a port of this machine, and what came of it.
const KNOCK: &str = r#"
import json, os, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).sendall(b"knock")
    got = "through"
except OSError as error:
    got = type(error).__name__
print(got)
"#;

/// A port of the host that hears one caller.
fn listener() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let heard = std::thread::spawn(move || {
        let mut said = String::new();
        let (mut caller, _) = listener.accept().expect("a caller");
        caller.read_to_string(&mut said).expect("text");
        said
    });
    (port, heard)
}

#[test]
fn the_network_is_closed_until_it_is_opened_loudly() {
    let home = Home::with("knock.py", KNOCK);
    let (port, heard) = listener();
    let closed = home.run(&["run", "./skill", "knock.py", "--", &port]).ok();
    assert_eq!(closed.stdout, "ConnectionRefusedError\n");
    assert!(!closed.stderr.contains("NETWORK"), "{}", closed.stderr);

    let (ended, record) = home.audit(&["./skill", "knock.py", "--allow-network", "--", &port]);
    assert_eq!(ended.stdout, "through\n");
    assert_eq!(heard.join().expect("a listener"), "knock");
    assert_eq!(
        (&record["network_allowed"], &record["isolation"]["network"]),
        (&true.into(), &"host".into())
    );
    let missing = record["isolation"]["missing"].as_array().expect("a list");
    assert!(missing.contains(&json!("network_namespace")), "{record}");
    // Everything else holds as ever.
    assert_eq!(record["isolation"]["controls"]["seccomp"], "filter");

    let (port, heard) = listener();
    let open = home.run(&["run", "./skill", "knock.py", "--allow-network", "--", &port]).ok();
    assert!(open.stderr.starts_with("warning: NETWORK OPEN"), "{}", open.stderr);
    assert_eq!(heard.join().expect("a listener"), "knock");
}

#[test]
fn an_open_network_opens_no_abstract_socket_of_the_host() {
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0' + sys.argv[1])\nprint('through')\n";
    let home = Home::with("abstract.py", script);
    let name = format!("skillbox-test-{}", std::process::id());
    let _listener =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name"))
            .expect("a socket");
    let ended =
        home.run(&["run", "./skill", "abstract.py", "--allow-network", "--", &name]).failed(1);
    assert!(ended.stderr.contains("PermissionError"), "{}", ended.stderr);
    // The same script outside of a sandbox gets through, so it is the sandbox that kept it from it.
    let bare = Command::new("python3")
        .arg(home.path().join("skill/abstract.py"))
        .arg(&name)
        .output()
        .expect("python");
    assert_eq!(String::from_utf8_lossy(&bare.stdout), "through\n");
}

#[test]
fn a_skill_that_asks_for_the_network_waits_for_the_user_to_open_it() {
    let home = Home::with("main.sh", "echo ran\n");
    let manifest = "---\nname: skill\ndescription: d\npermissions:\n  network:\n    egress:\n      - domain: api.example.com\n        ports: [443]\n---\n";
    home.write("skill/SKILL.md", manifest);
    let refused = home.run(&["run", "./skill", "main.sh"]).failed(2);
    assert!(
        refused.stderr.contains("api.example.com") && refused.stderr.contains("--allow-network"),
        "{}",
        refused.stderr
    );
    assert_eq!(home.run(&["run", "./skill", "main.sh", "--allow-network"]).ok().stdout, "ran\n");
    // The network is all that was opened.
    home.write(
        "skill/SKILL.md",
        &manifest.replace("  network:", "  filesystem:\n    read: [/etc/shadow]\n  network:"),
    );
    let refused = home.run(&["run", "./skill", "main.sh", "--allow-network"]).failed(2);
    assert!(refused.stderr.contains("/etc/shadow"), "{}", refused.stderr);
    assert_eq!(
        home.run(&["run", "./skill", "main.sh", "--trust-remote-code"]).ok().stdout,
        "ran\n"
    );
}

#[test]
fn names_are_resolved_as_the_host_does() {
    let script = "cat /etc/resolv.conf; ls /etc/ssl; ls /etc/ssl/private 2>&1 | head -1\n";
    let home = Home::with("names.sh", script);
    let resolv = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let ended = home.run(&["run", "./skill", "names.sh", "--allow-network"]).ok();
    assert!(ended.stdout.starts_with(&resolv), "{}", ended.stdout);
    assert!(ended.stdout.contains("No such file"), "no private key of the host: {}", ended.stdout);
    assert!(!home.run(&["run", "./skill", "names.sh"]).stdout.contains("nameserver"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_and_no_skill_opens_the_network_of_a_server() {
    let server = Server::start();
    let mut opened = skillbox(server.home());
    opened.args(["serve", "--api-port", "0"]).env("SKILLBOX_ALLOW_NETWORK", "true");
    assert!(ended(opened).failed(2).stderr.contains("SKILLBOX_ALLOW_NETWORK: is not a setting"));
    std::fs::create_dir_all(server.home().join(".config/skillbox")).expect("a directory");
    let skill = server.home().join("knock");
    let policy = format!("allow_network = [{skill:?}]\n");
    std::fs::write(server.home().join(".config/skillbox/skillbox.toml"), policy).expect("a file");
    write_skill(&skill, "knock", "knock.py", KNOCK);
    std::fs::write(skill.join("skillbox.toml"), "network = true\nallow_network = [\"knock\"]\n")
        .expect("a file");
    server.run(&["skill", "push", &skill.display().to_string()]).ok();

    let (port, heard) = listener();
    let http = reqwest::Client::new();
    let plain = json!({"skill": "knock", "script": "knock.py", "args": [port]});
    let asked = [
        ("allow_network", json!(true)),
        ("network", json!("host")),
        ("network_allowed", json!(true)),
        ("trust_remote_code", json!(true)),
        ("sandbox", json!("none")),
        ("limits", json!({"network": "host", "memory": "64Mi"})),
    ];
    for body in asked.map(|(key, value)| {
        let mut body = plain.clone();
        body[key] = value;
        body
    }) {
        let answer =
            http.post(format!("{}/v1/executions", server.url)).bearer_auth(&server.key).json(&body);
        let answer = answer.send().await.expect("an answer");
        if answer.status() == 400 {
            continue;
        }
        let answer: serde_json::Value = answer.json().await.expect("JSON");
        assert_eq!(answer["stdout"], "ConnectionRefusedError\n", "{body}: {answer}");
        assert_eq!(
            answer["isolation"]["controls"]["network_namespace"], "own, loopback only",
            "{answer}"
        );
        assert_eq!(answer["isolation"]["network"], serde_json::Value::Null);
    }
    assert!(!heard.is_finished(), "somebody got through");
    // The listener is not deaf.
    std::net::TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    heard.join().expect("it hears");
}

/// The files of the product that make the permissions no server may hand out.
fn makers(of: &str) -> Vec<PathBuf> {
    fn look(directory: &Path, of: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                look(&path, of, found);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && std::fs::read_to_string(&path).expect("a source").contains(of)
            {
                found.push(path);
            }
        }
    }
    let crates =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the crates");
    let mut found = Vec::new();
    for name in [
        "cli", "client", "docker-proxy", "guest", "runner", "sandbox", "server", "skill", "store",
        "blobs",
    ] {
        look(&crates.join(name).join("src"), of, &mut found);
    }
    found.into_iter().map(|path| path.strip_prefix(&crates).expect("inside").to_owned()).collect()
}

#[test]
fn only_the_command_line_makes_the_permissions_for_network_and_trust() {
    for (of, defined) in [
        ("granted_by_user", "sandbox/src/network.rs"),
        ("for_directory(", "sandbox/src/unconfined/permit.rs"),
    ] {
        assert_eq!(makers(of), [Path::new("cli/src/local_run/run.rs"), Path::new(defined)], "{of}");
    }
}
