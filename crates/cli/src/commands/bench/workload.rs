//! The measured workload: a ten-line skill, the same script for the bare interpreter, and a server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use client::Client;
use serde_json::value::RawValue;
use server::Bound;
use server::config::Config;
use skill::PackageLimits;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::commands::serve;
use crate::connection;

pub(super) const NAME: &str = "bench";
const INPUT: &str = r#"{"numbers":[1,2,3,4,5,6,7,8,9,10]}"#;

const MANIFEST: &str = "---
name: bench
description: Sums numbers. Made by `skillbox bench`.
version: 1.0.0
lang: python
---
";

/// Reads its input and writes its output according to the contract, and does nothing else.
const SCRIPT: &str = r#"import json
import os

request = json.loads(os.environ["SANDBOX_INPUT"])
numbers = request["numbers"]
result = {"count": len(numbers), "sum": sum(numbers)}
result["mean"] = result["sum"] / result["count"]
print("summed", result["count"], "numbers")
with open(os.environ["SANDBOX_OUTPUT"], "w") as output:
    json.dump(result, output)
"#;

/// The input document of every run.
pub(super) fn input() -> Box<RawValue> {
    RawValue::from_string(INPUT.to_owned()).expect("the constant is JSON")
}

/// A temporary directory with the skill, the server's data and the bare script's output.
pub(super) struct Workload {
    directory: TempDir,
    /// The interpreter that the sandbox uses.
    pub python: PathBuf,
}

impl Workload {
    pub(super) async fn new() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("skillbox-bench-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let skill = directory.path().join(NAME);
        std::fs::create_dir(&skill)?;
        std::fs::write(skill.join("SKILL.md"), MANIFEST)?;
        std::fs::write(skill.join("main.py"), SCRIPT)?;
        let config = Config::load(&server::config::Args::default())?;
        let report = sandbox::native_doctor(config.runtime_path).await;
        let python = report.interpreters.0.get(&language::Language::Python);
        let python = python
            .context("no python3 on the PATH; install it with `apt install python3`")?
            .program
            .clone();
        Ok(Self { directory, python })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The script without Skillbox: same interpreter, same input, same work.
    pub(super) fn bare_command(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(self.path(NAME).join("main.py"));
        command.env("SANDBOX_INPUT", INPUT).env("SANDBOX_OUTPUT", self.path("bare-output.json"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    /// Starts an embedded server with the skill, runs `work`, and then drains the server, so that
    /// nothing uses the temporary directory when it is deleted.
    pub(super) async fn serve_while<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T>,
    ) -> Result<T> {
        let (bound_sender, bound_receiver) = oneshot::channel::<Bound>();
        let stop = CancellationToken::new();
        let serving = server::serve_until(
            self.config()?,
            move |bound| drop(bound_sender.send(bound)),
            stop.clone(),
        );
        let working = async {
            // Stops the server on every exit, also on errors. Otherwise `join!` would wait for ever.
            let _stop_server = stop.drop_guard();
            let bound = bound_receiver.await.context("the server ended before it was ready")?;
            let client = connection::with_key(&serve::local_url(&bound), bound.first_key, None)?;
            publish(&client, &self.skill()).await?;
            work(&client).await
        };
        let (served, result) = tokio::join!(serving, working);
        served?;
        result
    }

    fn config(&self) -> Result<Config> {
        let data = self.path("data").display().to_string();
        let pairs =
            [("data_dir", data), ("api_port", "0".to_owned()), ("log_level", "warn".to_owned())];
        Ok(Config::from_pairs(pairs)?)
    }

    fn skill(&self) -> PathBuf {
        self.path(NAME)
    }
}

async fn publish(client: &Client, directory: &Path) -> Result<()> {
    let package = skill::read_directory(directory, &PackageLimits::default())?;
    client.publish_skill(package.archive, |_| ()).await?;
    Ok(())
}
