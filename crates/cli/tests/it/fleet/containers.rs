//! A Docker engine of a fleet's own, by `scripts/test-engine.sh`: it can be killed under its
//! containers, and whatever it holds is this fleet's.

use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::objects::cache;
use crate::engine::{Engine, repository};

/// How long after a death something may still be on its way out.
const LEAVING: Duration = Duration::from_secs(15);

pub struct Containers {
    pub engine: Engine,
    directory: TempDir,
}

impl Containers {
    pub fn start() -> Containers {
        let directory =
            tempfile::Builder::new().prefix("skillbox-engine-").tempdir().expect("a directory");
        let engine = Engine { host: String::new() };
        let mut containers = Containers { engine, directory };
        let said = containers.script("start");
        let host = said
            .lines()
            .find_map(|line| line.strip_prefix("DOCKER_HOST="))
            .expect("where it listens");
        containers.engine.host = host.to_owned();
        containers
    }

    /// Its dockerd is killed and another one started.
    pub fn restart(&self) {
        self.script("restart");
    }

    /// The containers there are, running or not; `filter` as in `docker ps --filter`.
    pub fn list(&self, filter: &str) -> Vec<String> {
        let printed =
            self.engine.docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", filter]);
        printed.lines().map(str::to_owned).collect()
    }

    /// Waits until none of these, or none at all, is left.
    pub async fn gone(&self, these: Option<&[String]>) {
        let deadline = Instant::now() + LEAVING;
        loop {
            let mut left = self.list("label=skillbox.owner");
            left.retain(|id| these.is_none_or(|these| these.contains(id)));
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left on the engine: {left:#?}");
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
