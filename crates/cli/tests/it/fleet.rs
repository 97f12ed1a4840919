//! Several Skillbox processes over one Postgres and one S3 server, all of which can be taken away
//! for a while.

mod containers;
mod database;
mod objects;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use containers::Containers;
use database::Database;
use objects::Objects;

use crate::api::{Answer, Api, text, until};
use crate::support::Server;

/// The lease of these fleets: what a dead worker held is taken up again soon after.
const LEASE: &str = "3s";

const KEY: &str = "sk-fleet-0123456789abcdef";
const SECRET: &str = "a master secret that all of the fleet share";

/// What every process of a fleet is told; each has a data directory of its own.
pub struct Fleet {
    pub database: Database,
    pub objects: Objects,
    settings: Vec<(String, String)>,
}

/// An execution that was accepted, and what it was given.
pub struct Accepted {
    pub id: String,
    pub number: usize,
}

impl Fleet {
    /// Where `make test` could not start an S3 server, a fleet cannot either, and says so for the
    /// summary to repeat.
    #[expect(
        clippy::disallowed_methods,
        reason = "how scripts/test.sh says what there is to test with"
    )]
    pub fn can_be_had(test: &str) -> bool {
        let here = std::env::var_os("SKILLBOX_TEST_S3_ENDPOINT").is_some();
        if !here {
            println!("NEEDS S3: {test} was not tried: SKILLBOX_TEST_S3_ENDPOINT names no server");
        }
        here
    }

    pub fn new() -> Fleet {
        let (database, objects) = (Database::start(), Objects::start());
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

    /// The same with containers of this engine for sandboxes.
    pub fn on(mut self, containers: &Containers) -> Fleet {
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

    /// The same with further settings.
    pub fn with(mut self, settings: &[(String, String)]) -> Fleet {
        self.settings.extend_from_slice(settings);
        self
    }

    pub fn api(&self) -> Server {
        self.process("api", &[])
    }

    pub fn worker(&self) -> Server {
        self.process("worker", &[])
    }

    /// A worker that does something to itself at a named point.
    pub fn doomed_worker(&self, failpoint: &str) -> Server {
        self.process("worker", &[("SKILLBOX_FAILPOINT", failpoint)])
    }

    /// The same fleet on another database.
    pub fn on_database(&self, dsn: &str, role: &str) -> Server {
        self.process(role, &[("SKILLBOX_DB_DSN", dsn)])
    }

    /// One that is told to start and may refuse.
    pub fn begin(&self, role: &str) -> Server {
        let mut settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        settings.push(("SKILLBOX_ROLE", role));
        let mut server = Server::prepared(&settings);
        server.begin_to_start();
        server
    }

    pub fn process(&self, role: &str, extra: &[(&str, &str)]) -> Server {
        let mut settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        settings.push(("SKILLBOX_ROLE", role));
        settings.extend_from_slice(extra);
        Server::with_key(KEY, &settings)
    }
}

/// Sends `count` asynchronous runs under idempotency keys, and goes on asking until each of them is
/// accepted: a broken connection or a server in trouble says nothing about whether it was.
pub async fn submit(api: &Api, skill: &str, numbers: std::ops::Range<usize>) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    for number in numbers {
        let body = json!({ "skill": skill, "mode": "async", "input": { "number": number } });
        let key = format!("{skill}-{number}");
        let answer = until("a run is accepted", async || {
            api.run(&body, Some(&key)).await.ok().filter(|answer| answer.status < 500)
        })
        .await;
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        accepted.push(Accepted { id: answer.id(), number });
    }
    accepted
}

/// Waits until each has ended, and holds them to what they were given: a success has its own output
/// and its own file. Gives back how many ended how.
pub async fn settle(api: &Api, accepted: &[Accepted]) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    for Accepted { id, number } in accepted {
        let row = until("an execution ends", async || ended(api, id).await).await;
        let end = format!("{} {}", text(&row["status"]), text(&row["outcome"]));
        if end == "success exited" {
            assert_eq!(row["output"], json!({ "number": number }), "{row}");
            let path = format!("/v1/executions/{id}/files/note.txt");
            // An object store that has just come back may still refuse; the server then says to ask
            // again.
            let file = until("a file can be read", async || {
                Some(api.get(&path).await).filter(|file| file.status() != 503)
            });
            assert_eq!(file.await.text().await.expect("a file"), format!("{number}\n"));
        }
        *ends.entry(end).or_default() += 1;
    }
    ends
}

/// The execution, when it has ended and the server says so.
async fn ended(api: &Api, id: &str) -> Option<Value> {
    let Answer { status, body } = api.try_get(&format!("/v1/executions/{id}")).await.ok()?;
    (status == 200 && !matches!(body["status"].as_str(), Some("queued" | "running")))
        .then_some(body)
}
