//! The cluster that scripts/test-cluster.sh started: its own tools to look at it and to break it.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

use crate::engine::variable;
use crate::support::Server;

/// How long after its run a pod may still be on its way out.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// One test at a time: its node has room for few pods, and most of them break something.
static ALONE: Mutex<()> = Mutex::const_new(());

pub(super) struct Cluster {
    admin: String,
    worker: String,
    kubectl: String,
    script: String,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    /// None without one, and then it says that `what` did not run.
    pub(super) async fn here(what: &str) -> Option<Cluster> {
        let named = |name: &str| variable(&format!("SKILLBOX_TEST_CLUSTER_{name}"));
        let (Some(admin), Some(worker), Some(kubectl), Some(script)) =
            (named("ADMIN"), named("WORKER"), named("KUBECTL"), named("SCRIPT"))
        else {
            println!("NEEDS CLUSTER: {what}");
            return None;
        };
        let cluster = Cluster { admin, worker, kubectl, script, _alone: ALONE.lock().await };
        // What a test that failed has broken.
        cluster.script(&["start"]);
        cluster.script(&["image", env!("CARGO_BIN_EXE_skillbox")]);
        Some(cluster)
    }

    /// A server whose sandboxes are pods here, with the rights of a worker and no more.
    pub(super) fn server(&self, settings: &[(&str, &str)]) -> Server {
        let mut all = vec![
            ("SKILLBOX_SANDBOX", "kubernetes"),
            ("KUBECONFIG", &self.worker),
            ("SKILLBOX_KUBE_GUEST_IMAGE", "skillbox/skillbox:test"),
            ("SKILLBOX_IMAGE_PYTHON", "skillbox/python:test"),
            ("SKILLBOX_IMAGE_NODE", "skillbox/node:test"),
            ("SKILLBOX_IMAGE_BASH", "skillbox/bash:test"),
            (
                "SKILLBOX_IMAGE_ALLOWLIST",
                "skillbox/python:test,skillbox/node:test,skillbox/bash:test,skillbox/absent:test",
            ),
            ("SKILLBOX_MAX_CONCURRENT_EXECS", "3"),
        ];
        all.retain(|(name, _)| settings.iter().all(|(other, _)| other != name));
        Server::start_with(&[&all, settings].concat())
    }

    /// What `kubectl` prints for the administrator. It must succeed.
    #[track_caller]
    pub(super) fn kubectl(&self, args: &[&str]) -> String {
        let mut command = Command::new(&self.kubectl);
        output(
            command
                .args(["--kubeconfig", &self.admin, "--namespace", "skillbox-sandboxes"])
                .args(args),
        )
    }

    /// What scripts/test-cluster.sh prints. It must succeed.
    #[track_caller]
    pub(super) fn script(&self, args: &[&str]) -> String {
        output(Command::new(&self.script).args(args))
    }

    /// The sandboxes there are, each with its phase.
    pub(super) fn pods(&self) -> Vec<String> {
        let columns = "custom-columns=NAME:.metadata.name,PHASE:.status.phase";
        let labelled = "app.kubernetes.io/managed-by=skillbox";
        let printed = self
            .kubectl(&["get", "pods", "--selector", labelled, "--no-headers", "--output", columns]);
        printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    pub(super) fn running(&self) -> usize {
        self.pods().iter().filter(|pod| pod.ends_with(" Running")).count()
    }

    /// Waits until no sandbox is left.
    pub(super) async fn nothing_is_left(&self) {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        loop {
            let left = self.pods();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left in the cluster: {left:#?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(
        output.status.success(),
        "{command:?}: {printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}
