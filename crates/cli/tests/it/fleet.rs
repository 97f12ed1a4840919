//! A fleet: several Skillbox processes with one Postgres and one S3 server. Tests can stop and restart
//! each of them.

mod containers;
mod database;
mod objects;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(crate) use containers::Containers;
use database::FleetDatabase;
use objects::ObjectStore;

use crate::api::{Api, ApiResponse, text, wait_until};
use crate::support::Server;

/// A short lease, so that the executions of a killed worker are reaped soon.
const LEASE: &str = "3s";

const KEY: &str = "sk-fleet-0123456789abcdef";
const SECRET: &str = "a master secret that the whole fleet shares";

/// The shared settings of all processes. Each process has its own data directory.
pub(crate) struct Fleet {
    pub database: FleetDatabase,
    pub objects: ObjectStore,
    settings: Vec<(String, String)>,
}

/// An accepted execution with its input.
pub(crate) struct AcceptedRun {
    pub id: String,
    pub number: usize,
}

impl Fleet {
    /// Whether there is an S3 server to test with. Otherwise this prints a line for the summary of
    /// skipped tests.
    #[expect(clippy::disallowed_methods, reason = "set by scripts/test.sh")]
    pub(crate) fn is_available(test: &str) -> bool {
        let available = std::env::var_os("SKILLBOX_TEST_S3_ENDPOINT").is_some();
        if !available {
            println!("NEEDS S3: {test} was not tried: SKILLBOX_TEST_S3_ENDPOINT names no server");
        }
        available
    }

    pub(crate) fn new() -> Fleet {
        let (database, objects) = (FleetDatabase::start(), ObjectStore::start());
        let settings = [
            ("SKILLBOX_DB_DSN", database.address()),
            ("SKILLBOX_S3_ENDPOINT", objects.endpoint.clone()),
            ("SKILLBOX_S3_ACCESS_KEY", objects.access_key.clone()),
            ("SKILLBOX_S3_SECRET_KEY", objects.secret_key.clone()),
            ("SKILLBOX_BOOTSTRAP_KEY", KEY.to_owned()),
            ("SKILLBOX_SECRET", SECRET.to_owned()),
            ("SKILLBOX_LEASE", LEASE.to_owned()),
            ("SKILLBOX_MAX_CONCURRENT_EXECS", "3".to_owned()),
            ("SKILLBOX_LAUNCHERS", "1".to_owned()),
        ];
        let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Fleet { database, objects, settings }
    }

    /// Uses containers of this engine as sandboxes.
    pub(crate) fn with_containers(mut self, containers: &Containers) -> Fleet {
        let images = ["python", "node", "bash"].map(|runtime| format!("skillbox/{runtime}:test"));
        let settings = [
            ("SKILLBOX_SANDBOX", "docker".to_owned()),
            ("SKILLBOX_DOCKER_HOST", containers.engine.host.clone()),
            ("SKILLBOX_IMAGE_ALLOWLIST", images.join(",")),
            ("SKILLBOX_IMAGE_PYTHON", images[0].clone()),
            ("SKILLBOX_IMAGE_NODE", images[1].clone()),
            ("SKILLBOX_IMAGE_BASH", images[2].clone()),
        ];
        self.settings.extend(settings.map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// Adds settings.
    pub(crate) fn with(mut self, settings: &[(String, String)]) -> Fleet {
        self.settings.extend_from_slice(settings);
        self
    }

    pub(crate) fn api(&self) -> Server {
        self.process("api", &[])
    }

    pub(crate) fn worker(&self) -> Server {
        self.process("worker", &[])
    }

    /// A worker that kills or stops itself at a failpoint.
    pub(crate) fn failing_worker(&self, failpoint: &str) -> Server {
        self.process("worker", &[("SKILLBOX_FAILPOINT", failpoint)])
    }

    /// A process of this fleet with another database.
    pub(crate) fn process_on_database(&self, dsn: &str, role: &str) -> Server {
        self.process(role, &[("SKILLBOX_DB_DSN", dsn)])
    }

    /// Starts a process without waiting for its readiness, because it may refuse to start.
    pub(crate) fn spawn(&self, role: &str) -> Server {
        let mut settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        settings.push(("SKILLBOX_ROLE", role));
        let mut server = Server::stopped(&settings);
        server.spawn_process();
        server
    }

    pub(crate) fn process(&self, role: &str, extra: &[(&str, &str)]) -> Server {
        let mut settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        settings.push(("SKILLBOX_ROLE", role));
        settings.extend_from_slice(extra);
        Server::start_with_key(KEY, &settings)
    }
}

/// Sends asynchronous runs with idempotency keys, and retries until each is accepted. A broken
/// connection or a server error does not show whether a request was accepted.
pub(crate) async fn submit(
    api: &Api,
    skill: &str,
    numbers: std::ops::Range<usize>,
) -> Vec<AcceptedRun> {
    let mut accepted = Vec::new();
    for number in numbers {
        let body = json!({ "skill": skill, "mode": "async", "input": { "number": number } });
        let key = format!("{skill}-{number}");
        let answer = wait_until("a run is accepted", async || {
            api.run(&body, Some(&key)).await.ok().filter(|answer| answer.status < 500)
        })
        .await;
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        accepted.push(AcceptedRun { id: answer.id(), number });
    }
    accepted
}

/// Waits until each execution has ended, and checks that a success has the output and the file of its
/// own input. Returns the number of executions per end.
pub(crate) async fn wait_for_ends(api: &Api, accepted: &[AcceptedRun]) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    for AcceptedRun { id, number } in accepted {
        let row = wait_until("an execution ends", async || ended_execution(api, id).await).await;
        let end = format!("{} {}", text(&row["status"]), text(&row["outcome"]));
        if end == "success exited" {
            assert_eq!(row["output"], json!({ "number": number }), "{row}");
            let path = format!("/v1/executions/{id}/files/note.txt");
            // An object store that has just been restarted may still refuse requests. The server then
            // responds with 503.
            let file = wait_until("a file can be read", async || {
                Some(api.get(&path).await).filter(|file| file.status() != 503)
            });
            assert_eq!(file.await.text().await.expect("a file"), format!("{number}\n"));
        }
        *ends.entry(end).or_default() += 1;
    }
    ends
}

/// The execution, if it has ended.
async fn ended_execution(api: &Api, id: &str) -> Option<Value> {
    let ApiResponse { status, body } = api.try_get(&format!("/v1/executions/{id}")).await.ok()?;
    (status == 200 && !matches!(body["status"].as_str(), Some("queued" | "running")))
        .then_some(body)
}
