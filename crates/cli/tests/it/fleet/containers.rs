//! A private Docker engine for a fleet, started by `scripts/test-engine.sh`. It can be killed while
//! containers run, and all of its containers belong to this fleet.

use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::objects::cache;
use crate::engine::{Engine, repository};

/// Timeout for the removal of containers after a crash.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct Containers {
    pub engine: Engine,
    directory: TempDir,
}

impl Containers {
    pub(crate) fn start() -> Containers {
        let directory =
            tempfile::Builder::new().prefix("skillbox-engine-").tempdir().expect("a directory");
        let engine = Engine { host: String::new() };
        let mut containers = Containers { engine, directory };
        let printed = containers.script("start");
        let host = printed
            .lines()
            .find_map(|line| line.strip_prefix("DOCKER_HOST="))
            .expect("the address of the engine");
        containers.engine.host = host.to_owned();
        containers
    }

    /// Kills dockerd and starts another one.
    pub(crate) fn restart(&self) {
        self.script("restart");
    }

    /// All containers, running or not; `filter` as in `docker ps --filter`.
    pub(crate) fn list(&self, filter: &str) -> Vec<String> {
        let printed =
            self.engine.docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", filter]);
        printed.lines().map(str::to_owned).collect()
    }

    /// Waits until these containers, or all of them, are removed.
    pub(crate) async fn wait_until_removed(&self, these: Option<&[String]>) {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        loop {
            let mut remaining = self.list("label=skillbox.owner");
            remaining.retain(|id| these.is_none_or(|these| these.contains(id)));
            if remaining.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left on the engine: {remaining:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn script(&self, verb: &str) -> String {
        let output = Command::new(repository().join("scripts/test-engine.sh"))
            .arg(verb)
            .env("SKILLBOX_TEST_DIR", self.directory.path())
            .env("SKILLBOX_TEST_CACHE", cache())
            .output()
            .expect("the script runs");
        assert!(
            output.status.success(),
            "test-engine.sh {verb}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        self.script("stop");
    }
}
