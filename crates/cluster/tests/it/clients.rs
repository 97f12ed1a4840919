//! A client that is not ours and knows the real one: `kubectl`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{NAMESPACE, admin, body, phase, start};

/// `kubectl` with nothing of the user's own.
fn kubectl(kubeconfig: &Path, arguments: &[&str], input: &str) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new("kubectl")
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn kubectl_finds_what_it_expects() {
    let Some(cluster) = start("kubectl") else { return };
    if Command::new("kubectl").args(["version", "--client"]).stdout(Stdio::null()).status().is_err() {
        println!("NEEDS ROOT: kubectl was not run, because it is not here; scripts/setup-tests.sh kubectl installs it");
        return;
    }
    let config = admin(&cluster);
    let run = |arguments: &[&str], input: &str| kubectl(&config, arguments, input);
    let made = run(&["create", "--validate=false", "-f", "-"], &body("by-kubectl", "read x").to_string());
    assert_eq!(said(&made), "pod/by-kubectl created\n");
    let twice = run(&["create", "--validate=false", "-f", "-"], &body("by-kubectl", "read x").to_string());
    assert_eq!(
        said(&twice),
        "Error from server (AlreadyExists): error when creating \"STDIN\": pods \"by-kubectl\" already exists\n"
    );
    assert!(cluster.until(|pods| phase(pods) == "Running").await);
    let path = "jsonpath={.items[*].status.phase}";
    assert_eq!(said(&run(&["get", "pods", "-l", "app=test", "-o", path], "")), "Running");
    let node = run(&["get", "po", "by-kubectl", "-o", "jsonpath={.spec.nodeName}"], "");
    assert_eq!(said(&node), "node-1");
    let missing = run(&["get", "pod", "nothing"], "");
    assert_eq!(said(&missing), "Error from server (NotFound): pods \"nothing\" not found\n");
    // It deletes, and watches until it is gone.
    let gone = run(&["delete", "pod", "by-kubectl"], "");
    assert_eq!(said(&gone), "pod \"by-kubectl\" deleted\n");
    assert!(cluster.until_empty().await);
    let nobody = cluster.kubeconfig("nobody", NAMESPACE, vec![]).unwrap();
    let words = "Error from server (Forbidden): pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" in the namespace \"boxes\"\n";
    assert_eq!(said(&kubectl(&nobody, &["get", "pods"], "")), words);
}
