//! The processes of `docker-compose.yml`, with the environment that stands there, on one machine.
//!
//! Only where things are is different: a throw-away Postgres instead of the file's, the tests'
//! object store instead of MinIO, the tests' engine behind the proxy, and loopback ports instead of
//! the hosts' names.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::balancer::Balancer;
use super::file::{Compose, Variables};
use crate::api::{Api, text};
use crate::engine::{Engine, Image, variable};
use crate::postgres::cluster;
use crate::support::{run_command, skillbox, write_skill};

/// Dropped from above: who asks ends before who answers.
pub(super) struct Machine {
    pub balancer: Balancer,
    replicas: [Part; 2],
    _worker: Part,
    _proxy: Part,
    _images: Vec<Image>,
    engine: Engine,
    key: String,
    home: TempDir,
}

impl Machine {
    /// None where this machine lacks a part, and then it says so.
    pub(super) fn start(mut variables: Variables) -> Option<Self> {
        let what = "docker-compose.yml's processes on one machine";
        let engine = Engine::here(what)?;
        let Some(objects) = variable("SKILLBOX_TEST_S3_ENDPOINT") else {
            println!("NEEDS S3: {what}");
            return None;
        };
        for name in ["ACCESS_KEY", "SECRET_KEY", "WORKER_ACCESS_KEY", "WORKER_SECRET_KEY"] {
            let value = variable(&format!("SKILLBOX_TEST_S3_{name}"))
                .expect("an object store comes with its keys");
            variables.insert(format!("S3_{name}"), value);
        }
        let nginx = Balancer::program(what)?;
        let [api_at, objects_at] = [free_port(), free_port()];
        variables
            .insert("SKILLBOX_S3_PUBLIC_URL".to_owned(), format!("http://127.0.0.1:{objects_at}"));
        let compose = Compose::read(&variables);
        let home = tempfile::tempdir().expect("a directory");
        let images = ["python", "node", "bash"].map(|runtime| {
            engine.tag(&format!("skillbox/{runtime}:test"), &format!("skillbox/{runtime}:1"))
        });

        let proxy_at = format!("tcp://127.0.0.1:{}", free_port());
        let moved = Moved {
            database: cluster::database(),
            places: [
                ("http://objects:9000", objects.clone()),
                ("tcp://docker-proxy:2375", proxy_at.clone()),
                ("tcp://0.0.0.0:2375", proxy_at.clone()),
                ("unix:///var/run/docker.sock", engine.host.clone()),
                ("0.0.0.0", "127.0.0.1".to_owned()),
            ],
        };
        let part = |name: &str| {
            Part::start(name, compose.command(name), moved.environment(&compose, name), home.path())
        };
        let proxy = part("docker-proxy");
        // Its health check asks another process.
        let mut check = skillbox(home.path());
        check.args(["docker-proxy", "--check", "--listen", &proxy_at]);
        run_command(check).ok();
        let replicas = [part("api-1"), part("api-2")];
        let upstreams = replicas.each_ref().map(Part::url);
        Some(Self {
            balancer: Balancer::start(
                &nginx,
                [api_at, objects_at],
                &upstreams,
                &objects,
                home.path(),
            ),
            _proxy: proxy,
            replicas,
            _worker: part("worker"),
            _images: images.into(),
            engine,
            key: variables["SKILLBOX_BOOTSTRAP_KEY"].clone(),
            home,
        })
    }

    /// The API as callers reach it.
    pub(super) fn balanced(&self) -> Api {
        Api::new(&self.balancer.api, &self.key)
    }

    pub(super) fn replicas(&self) -> [Api; 2] {
        self.replicas.each_ref().map(|part| Api::new(&part.url(), &self.key))
    }

    /// Publishes a one-script skill through the first replica.
    pub(super) fn push(&self, name: &str, script: &str, text: &str) {
        let directory = self.home.path().join(name);
        write_skill(&directory, name, script, text);
        let mut command = skillbox(self.home.path());
        command.args(["skill", "push"]).arg(&directory);
        command
            .env("SKILLBOX_SERVER_URL", self.replicas[0].url())
            .env("SKILLBOX_API_KEY", &self.key);
        run_command(command).ok();
    }

    /// Containers of running skills, and leftovers.
    pub(super) fn containers(&self) -> Vec<String> {
        let images =
            ["python", "node", "bash"].map(|runtime| format!("ancestor=skillbox/{runtime}:1"));
        let filters = images.iter().flat_map(|image| ["--filter", image]);
        let args: Vec<&str> = ["ps", "--all", "--quiet"].into_iter().chain(filters).collect();
        self.engine.docker(&args).lines().map(str::to_owned).collect()
    }
}

/// Where things are on this machine.
struct Moved {
    database: String,
    places: [(&'static str, String); 5],
}

impl Moved {
    fn environment(&self, compose: &Compose, service: &str) -> Variables {
        let mut environment = compose.environment(service);
        for (name, value) in &mut environment {
            if name == "SKILLBOX_DB_DSN" {
                value.clone_from(&self.database);
            }
            if let Some((_, place)) = self.places.iter().find(|(there, _)| there == value) {
                value.clone_from(place);
            }
        }
        environment.insert("SKILLBOX_API_PORT".to_owned(), "0".to_owned());
        environment
    }
}

/// A port that nobody has at this moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// One process. Dropped, it is told to end, and must.
struct Part {
    child: Child,
    /// The line it printed when it was ready.
    ready: Value,
    log: PathBuf,
}

impl Part {
    fn start(name: &str, command: Vec<String>, environment: Variables, home: &Path) -> Self {
        let log = home.join(format!("{name}.log"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_skillbox"))
            .args(command)
            .args(["-o", "json"])
            .env_clear()
            .envs(environment)
            // The image names a directory that cannot be written there, its root being read-only.
            .env("SKILLBOX_DATA_DIR", "/proc/skillbox")
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let ready = serde_json::from_str(&line).unwrap_or(Value::Null);
        let part = Self { child, ready, log };
        assert!(part.ready.is_object(), "{name} did not become ready: {line}\n{}", part.said());
        part
    }

    fn url(&self) -> String {
        text(&self.ready["url"])
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let status = self.child.wait().expect("it ends");
        if std::thread::panicking() {
            println!("{}:\n{}", self.log.display(), self.said());
        } else {
            assert!(status.success(), "it did not drain: {status}\n{}", self.said());
        }
    }
}
