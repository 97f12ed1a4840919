//! The network of the machine: closed by default, and only a user of the machine can open it.

use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use serde_json::json;

use super::Home;
use crate::support::{Server, run_command, skillbox, write_skill};

/// Connects to a port of this machine, and prints the result.
const CONNECT_SCRIPT: &str = r#"
import json, os, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).sendall(b"hello")
    got = "connected"
except OSError as error:
    got = type(error).__name__
print(got)
"#;

/// A port of the host that accepts one connection and returns its data.
fn listen_once() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let received = std::thread::spawn(move || {
        let mut data = String::new();
        let (mut connection, _) = listener.accept().expect("a connection");
        connection.read_to_string(&mut data).expect("text");
        data
    });
    (port, received)
}

#[test]
fn the_network_is_closed_by_default_and_opening_it_is_announced() {
    let home = Home::with("connect.py", CONNECT_SCRIPT);
    let (port, received) = listen_once();
    let closed = home.run(&["run", "./skill", "connect.py", "--", &port]).ok();
    assert_eq!(closed.stdout, "ConnectionRefusedError\n");
    assert!(!closed.stderr.contains("NETWORK"), "{}", closed.stderr);

    let (result, record) = home.audit(&["./skill", "connect.py", "--allow-network", "--", &port]);
    assert_eq!(result.stdout, "connected\n");
    assert_eq!(received.join().expect("a listener"), "hello");
    assert_eq!(
        (&record["network_allowed"], &record["isolation"]["network"]),
        (&true.into(), &"host".into())
    );
    let missing = record["isolation"]["missing"].as_array().expect("a list");
    assert!(missing.contains(&json!("network_namespace")), "{record}");
    // All other controls still hold.
    assert_eq!(record["isolation"]["controls"]["seccomp"], "filter");

    let (port, received) = listen_once();
    let open = home.run(&["run", "./skill", "connect.py", "--allow-network", "--", &port]).ok();
    assert!(open.stderr.starts_with("warning: NETWORK OPEN"), "{}", open.stderr);
    assert_eq!(received.join().expect("a listener"), "hello");
}

#[test]
fn an_open_network_does_not_open_abstract_sockets_of_the_host() {
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0' + sys.argv[1])\nprint('connected')\n";
    let home = Home::with("abstract.py", script);
    let name = format!("skillbox-test-{}", std::process::id());
    let _listener =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name"))
            .expect("a socket");
    let result =
        home.run(&["run", "./skill", "abstract.py", "--allow-network", "--", &name]).failed(1);
    assert!(result.stderr.contains("PermissionError"), "{}", result.stderr);
    // Control: outside of a sandbox the same script connects.
    let bare = Command::new("python3")
        .arg(home.path().join("skill/abstract.py"))
        .arg(&name)
        .output()
        .expect("python");
    assert_eq!(String::from_utf8_lossy(&bare.stdout), "connected\n");
}

#[test]
fn a_skill_that_requests_the_network_is_refused_without_the_flag() {
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
    // Other permissions are still refused.
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
fn names_are_resolved_as_on_the_host() {
    let script = "cat /etc/resolv.conf; ls /etc/ssl; ls /etc/ssl/private 2>&1 | head -1\n";
    let home = Home::with("names.sh", script);
    let resolv = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let result = home.run(&["run", "./skill", "names.sh", "--allow-network"]).ok();
    assert!(result.stdout.starts_with(&resolv), "{}", result.stdout);
    assert!(
        result.stdout.contains("No such file"),
        "no private key of the host: {}",
        result.stdout
    );
    assert!(!home.run(&["run", "./skill", "names.sh"]).stdout.contains("nameserver"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_and_no_skill_can_open_the_network_of_a_server() {
    let server = Server::start();
    let mut opened = skillbox(server.home());
    opened.args(["serve", "--api-port", "0"]).env("SKILLBOX_ALLOW_NETWORK", "true");
    assert!(
        run_command(opened).failed(2).stderr.contains("SKILLBOX_ALLOW_NETWORK: is not a setting")
    );
    std::fs::create_dir_all(server.home().join(".config/skillbox")).expect("a directory");
    let skill = server.home().join("connect");
    let policy = format!("allow_network = [{skill:?}]\n");
    std::fs::write(server.home().join(".config/skillbox/skillbox.toml"), policy).expect("a file");
    write_skill(&skill, "connect", "connect.py", CONNECT_SCRIPT);
    std::fs::write(skill.join("skillbox.toml"), "network = true\nallow_network = [\"connect\"]\n")
        .expect("a file");
    server.run(&["skill", "push", &skill.display().to_string()]).ok();

    let (port, received) = listen_once();
    let http = reqwest::Client::new();
    let plain = json!({"skill": "connect", "script": "connect.py", "args": [port]});
    let fields = [
        ("allow_network", json!(true)),
        ("network", json!("host")),
        ("network_allowed", json!(true)),
        ("trust_remote_code", json!(true)),
        ("sandbox", json!("none")),
        ("limits", json!({"network": "host", "memory": "64Mi"})),
    ];
    for body in fields.map(|(key, value)| {
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
    assert!(!received.is_finished(), "a script connected to the host");
    // Control: the listener does accept connections.
    std::net::TcpStream::connect(format!("127.0.0.1:{port}")).expect("a connection");
    received.join().expect("a listener");
}

/// The source files that contain this text.
fn files_containing(text: &str) -> Vec<PathBuf> {
    fn search(directory: &Path, text: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                search(&path, text, found);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && std::fs::read_to_string(&path).expect("a source").contains(text)
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
        search(&crates.join(name).join("src"), text, &mut found);
    }
    found.into_iter().map(|path| path.strip_prefix(&crates).expect("inside").to_owned()).collect()
}

#[test]
fn only_local_runs_create_the_permits_for_network_and_no_sandbox() {
    for (function, definition) in [
        ("granted_by_user", "sandbox/src/network.rs"),
        ("for_directory(", "sandbox/src/unconfined/permit.rs"),
    ] {
        let expected = [Path::new("cli/src/local_run/run.rs"), Path::new(definition)];
        assert_eq!(files_containing(function), expected, "{function}");
    }
}
