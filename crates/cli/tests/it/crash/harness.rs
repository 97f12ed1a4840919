//! Kills and restarts a server, and checks its executions, files and leftovers.

use super::{HEAVY, QUICK, SETTINGS, SLEEPER, SLOTS};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use store::{Execution, ExecutionFilter, PageRequest, Status, Store, TenantId};

use crate::api::{Api, text, wait_until};
use crate::leftovers::{ServerLeftovers, can_inspect_all_processes, descendants, mounts};
use crate::load::{ExecutionEnd, Request, RequestLoad, SendMode};
use crate::support::Server;

/// One data directory, and the servers that are started and killed on it.
pub(super) struct CrashTest {
    pub server: Server,
    mounts: BTreeSet<String>,
    requests: usize,
    /// The recorded ends by execution id. They must never change again.
    pub ended: BTreeMap<String, ExecutionEnd>,
}

/// The state right after a server was killed.
pub(super) struct Crash {
    pub leftovers: ServerLeftovers,
    pub rows: Vec<Execution>,
    load: RequestLoad,
}

impl CrashTest {
    pub(super) fn start() -> Self {
        if !can_inspect_all_processes() {
            println!(
                "NEEDS ROOT: crash: that no cgroup and no sandbox user outlives a server (the rest of it ran)"
            );
        }
        let mounts = mounts();
        let server = Server::start_with(SETTINGS);
        server.push("quick", "main.sh", QUICK);
        server.push("sleeper", "main.sh", SLEEPER);
        server.push("heavy", "main.sh", HEAVY);
        CrashTest { server, mounts, requests: 0, ended: BTreeMap::new() }
    }

    pub(super) fn send(&mut self, kinds: &[(&str, SendMode, usize)]) -> RequestLoad {
        let mut load = RequestLoad::new();
        self.send_with(&mut load, kinds);
        load
    }

    pub(super) fn send_with(&mut self, load: &mut RequestLoad, kinds: &[(&str, SendMode, usize)]) {
        let api = Api::for_server(&self.server);
        for (skill, wait, count) in kinds {
            for _ in 0..*count {
                self.requests += 1;
                load.send(api.clone(), Request::new(skill, *wait, self.requests));
            }
        }
    }

    /// The number of processes with this name in the server's sandboxes.
    pub(super) fn count_processes(&self, name: &str) -> usize {
        descendants(self.server.pid()).iter().filter(|process| process.name == name).count()
    }

    /// Kills the server and reads the state that it left.
    pub(super) async fn crash(&mut self, mut load: RequestLoad) -> Crash {
        let leftovers = ServerLeftovers::record(self.server.pid(), &self.mounts);
        self.server.kill();
        load.collect_remaining().await;
        let rows = read_rows(&self.server.data_dir()).await;
        let running = rows.iter().filter(|row| row.status == Status::Running).count();
        assert!(running <= SLOTS, "more executions run than there are slots");
        Crash { leftovers, rows, load }
    }

    /// Restarts the server and checks that every execution gets the expected end.
    pub(super) async fn recover(&mut self, crash: Crash) {
        self.server.restart();
        let api = Api::for_server(&self.server);
        let listed = api.wait_until_all_ended().await;
        let now: BTreeMap<String, ExecutionEnd> = listed
            .iter()
            .map(|row| (text(&row["execution_id"]), ExecutionEnd::from_json(row)))
            .collect();
        let expected: BTreeMap<String, ExecutionEnd> = crash
            .rows
            .iter()
            .map(|row| (row.id.to_string(), ExecutionEnd::expected_after_crash(row)))
            .collect();
        assert_eq!(now, expected, "{}", self.server.log());
        for (id, end) in &self.ended {
            assert_eq!(now.get(id), Some(end), "a recorded end has changed");
        }
        self.ended = now;
        for response in &crash.load.responses {
            let end =
                self.ended.get(&response.id()).expect("an execution with a response must exist");
            assert!(
                response.status == 202 || *end == ExecutionEnd::from_json(&response.body),
                "{end:?}, but the response was {}",
                response.body
            );
        }
        crash.leftovers.wait_until_removed().await;
        self.repeat_keyed(&api, &crash.load).await;
        self.assert_files_match_rows(&api).await;
    }

    /// Repeating an accepted idempotency key must return the same execution, whatever its end.
    async fn repeat_keyed(&self, api: &Api, load: &RequestLoad) {
        let mut by_number = BTreeMap::new();
        for id in self.ended.keys() {
            by_number.insert(api.execution(id).await["input"]["number"].as_u64(), id.clone());
        }
        assert_eq!(by_number.len(), self.ended.len(), "a request was accepted twice");
        for request in load.sent.iter().filter(|request| request.key.is_some()) {
            let Some(accepted) = by_number.get(&Some(request.number as u64)) else { continue };
            let again = request.post(api).await.expect("an answer");
            assert_eq!(
                (again.id(), ExecutionEnd::from_json(&again.body)),
                (accepted.clone(), self.ended[accepted].clone())
            );
        }
        assert_eq!(
            api.executions(None).await.len(),
            self.ended.len(),
            "a repeated request created another execution"
        );
    }

    /// Every file has a row and every row has a file. No partial file is left.
    async fn assert_files_match_rows(&self, api: &Api) {
        let mut expected = BTreeSet::from([PathBuf::from(".unfinished")]);
        for id in self.ended.keys() {
            let execution = api.execution(id).await;
            let names = execution["files_list"].as_array().cloned().unwrap_or_default();
            // Each attempt has its own prefix, so that a late attempt cannot change the files of a later
            // one.
            let directory = match execution["attempt"].as_u64() {
                Some(attempt @ 2..) => format!("default/executions/{id}-{attempt}"),
                _ => format!("default/executions/{id}"),
            };
            let directory = Path::new(&directory);
            expected.extend(names.iter().map(|name| directory.join("files").join(text(name))));
            expected.extend((!names.is_empty()).then(|| directory.join("archive.tar.gz")));
        }
        let blobs = self.server.data_dir().join("blobs");
        let (skills, found): (BTreeSet<_>, BTreeSet<_>) =
            files_below(&blobs).into_iter().partition(|path| path.starts_with("default/skills"));
        assert_eq!(found, expected);
        assert_eq!(skills.len(), 3, "{skills:?}");
        let mut state: Vec<_> = entry_names(&self.server.data_dir());
        state.retain(|name| !name.starts_with("skillbox.db"));
        assert_eq!(state, ["blobs", "key", "lock", "secret"]);
        assert_eq!(entry_names(&self.server.temp_dir()), [""; 0]);
    }

    /// Waits until so many active executions have blobs, and then stops the server with SIGSTOP, so
    /// that it is killed in that state.
    pub(super) async fn stop_while_storing_files(&self, count: usize) {
        let api = Api::for_server(&self.server);
        let storing = async || {
            let running = api.executions(Some("running")).await;
            let storing =
                running.iter().filter(|row| !self.blobs(&text(&row["execution_id"])).is_empty());
            (storing.count() >= count).then_some(())
        };
        wait_until("files are stored", storing).await;
        self.server.signal(Signal::STOP);
    }

    /// Whether executions that were active when the server was killed have blobs.
    pub(super) fn has_blobs_of_active(&self, rows: &[Execution]) -> bool {
        rows.iter()
            .any(|row| !row.status.is_terminal() && !self.blobs(&row.id.to_string()).is_empty())
    }

    /// The blobs of all attempts of an execution.
    fn blobs(&self, id: &str) -> BTreeSet<PathBuf> {
        let executions = self.server.data_dir().join("blobs/default/executions");
        let attempts = entry_names(&executions).into_iter().filter(|name| name.starts_with(id));
        attempts.flat_map(|attempt| files_below(&executions.join(attempt))).collect()
    }
}

/// The executions in the database of a killed server, oldest first. They are read from a copy, so that
/// the database itself stays as it was for the next server.
async fn read_rows(data: &Path) -> Vec<Execution> {
    let copy = tempfile::tempdir().expect("a directory");
    for name in ["skillbox.db", "skillbox.db-wal"] {
        std::fs::copy(data.join(name), copy.path().join(name)).expect("a copy");
    }
    let store = Store::open(&format!("sqlite:{}", copy.path().join("skillbox.db").display()))
        .await
        .expect("a database");
    let tenant = TenantId::try_from("default").expect("a tenant");
    let rows = store
        .list_executions(&tenant, &ExecutionFilter::default(), &PageRequest::first(1000))
        .await;
    store.close().await;
    let mut rows = rows.expect("the executions");
    rows.reverse();
    rows
}

/// All files and empty directories below a directory, as relative paths.
fn files_below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for name in entry_names(directory) {
        let path = directory.join(&name);
        let below = if path.is_dir() { files_below(&path) } else { BTreeSet::new() };
        match below.is_empty() {
            true => found.insert(PathBuf::from(name)),
            false => {
                found.extend(below.into_iter().map(|path| Path::new(&name).join(path)));
                true
            }
        };
    }
    found
}

/// The sorted names in a directory; none if it does not exist.
fn entry_names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
