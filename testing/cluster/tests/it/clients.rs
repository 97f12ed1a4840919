//! Third-party clients of the real API: `kubectl` and the Python client.

use std::io::Write;
use std::path::{Path, PathBuf};
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
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[tokio::test]
async fn kubectl_works() {
    let Some(cluster) = start("kubectl") else { return };
    if Command::new("kubectl").args(["version", "--client"]).stdout(Stdio::null()).status().is_err()
    {
        println!(
            "NEEDS ROOT: kubectl was not run, because it is not here; scripts/setup-tests.sh kubectl installs it"
        );
        return;
    }
    let config = admin(&cluster);
    let run = |arguments: &[&str], input: &str| kubectl(&config, arguments, input);
    let made =
        run(&["create", "--validate=false", "-f", "-"], &body("by-kubectl", "read x").to_string());
    assert_eq!(said(&made), "pod/by-kubectl created\n");
    let twice =
        run(&["create", "--validate=false", "-f", "-"], &body("by-kubectl", "read x").to_string());
    assert_eq!(
        said(&twice),
        "Error from server (AlreadyExists): error when creating \"STDIN\": pods \"by-kubectl\" already exists\n"
    );
    assert!(cluster.wait_until(|pods| phase(pods) == "Running").await);
    let path = "jsonpath={.items[*].status.phase}";
    assert_eq!(said(&run(&["get", "pods", "-l", "app=test", "-o", path], "")), "Running");
    let node = run(&["get", "po", "by-kubectl", "-o", "jsonpath={.spec.nodeName}"], "");
    assert_eq!(said(&node), "node-1");
    let missing = run(&["get", "pod", "nothing"], "");
    assert_eq!(said(&missing), "Error from server (NotFound): pods \"nothing\" not found\n");
    // It deletes, and watches until it is gone.
    let gone = run(&["delete", "pod", "by-kubectl"], "");
    assert_eq!(said(&gone), "pod \"by-kubectl\" deleted\n");
    assert!(cluster.wait_until_empty().await);
    let nobody = cluster.kubeconfig("nobody", NAMESPACE, vec![]).unwrap();
    let words = "Error from server (Forbidden): pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" in the namespace \"boxes\"\n";
    assert_eq!(said(&kubectl(&nobody, &["get", "pods"], "")), words);
}

/// A Python with the client of Kubernetes, in a place of its own that is made once.
fn python() -> PathBuf {
    const CLIENT: &str = "kubernetes==37.0.2";
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(CLIENT);
    let python = venv.join("bin/python");
    let finished = venv.join("finished");
    if !finished.exists() {
        let run = |program: &Path, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            assert!(output.status.success(), "{program:?} {arguments:?}: {}", said(&output));
        };
        run(Path::new("python3"), &["-m", "venv", "--clear", &venv.to_string_lossy()]);
        run(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", CLIENT]);
        std::fs::write(finished, "").unwrap();
    }
    python
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_works() {
    let Some(cluster) = start("the Python client") else { return };
    let config = admin(&cluster);
    let pod = body("by-python", "read x; echo \"received $x\"; echo oops >&2; exit 4").to_string();
    let output = tokio::task::spawn_blocking(move || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client.py");
        Command::new(python()).arg(script).arg(config).args([NAMESPACE, &pod]).output().unwrap()
    });
    let output = output.await.unwrap();
    assert_eq!(said(&output), "as on a real one\n");
    assert!(cluster.wait_until_empty().await);
}
