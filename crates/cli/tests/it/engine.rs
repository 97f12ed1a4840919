//! The private Docker engine that scripts/test-engine.sh started for the tests, used through
//! Docker's own client.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Builds are serialized: the intermediate containers of a build have no name, and look like leftovers
/// of another one.
static BUILDS: Mutex<()> = Mutex::new(());

fn building() -> MutexGuard<'static, ()> {
    BUILDS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
pub(crate) struct Engine {
    pub host: String,
}

impl Engine {
    /// `None` without an engine, with a line for the summary of skipped tests.
    pub(crate) fn here(what: &str) -> Option<Self> {
        let host = variable("SKILLBOX_TEST_ENGINE");
        if host.is_none() {
            println!("NEEDS ENGINE: {what}");
        }
        Some(Self { host: host? })
    }

    /// Runs `docker` with these arguments, and returns its output. It must succeed.
    #[track_caller]
    pub(crate) fn docker(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("the docker client runs");
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(
            output.status.success(),
            "docker {args:?}: {printed}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        printed
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        // The builder of the engine itself: the newer one is a program of its own, which Debian
        // does not have.
        command.args(args).env("DOCKER_HOST", &self.host).env("DOCKER_BUILDKIT", "0");
        command
    }

    /// Builds an image from a Dockerfile and its directory, without a network. Dropping the value removes
    /// the image.
    #[track_caller]
    pub(crate) fn build(&self, dockerfile: &Path, context: &Path, tag: &str) -> Image {
        let dockerfile = dockerfile.display().to_string();
        let context = context.display().to_string();
        let _alone = building();
        self.docker(&[
            "build", "--quiet", "--network", "none", "--force-rm", "--file", &dockerfile, "--tag",
            tag, &context,
        ]);
        Image { engine: self.clone(), tag: tag.to_owned() }
    }

    /// Adds a second name to an image. Dropping the value removes the name.
    #[track_caller]
    pub(crate) fn tag(&self, image: &str, tag: &str) -> Image {
        self.docker(&["tag", image, tag]);
        Image { engine: self.clone(), tag: tag.to_owned() }
    }

    /// The configuration of an image.
    #[track_caller]
    pub(crate) fn configuration(&self, image: &str) -> Value {
        serde_json::from_str(
            &self.docker(&["image", "inspect", "--format", "{{json .Config}}", image]),
        )
        .expect("JSON")
    }
}

/// The name of an image that a test created.
pub(crate) struct Image {
    engine: Engine,
    pub tag: String,
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.engine.command(&["rmi", "--force", &self.tag]).output();
        // Stages of a build have no name, and nothing else on this engine has none.
        let _alone = building();
        let _ = self.engine.command(&["image", "prune", "--force"]).output();
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A variable of the scripts that start tests.
#[expect(
    clippy::disallowed_methods,
    reason = "a test harness has no configuration to take it from"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
