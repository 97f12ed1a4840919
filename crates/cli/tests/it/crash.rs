//! The server dies in the middle of runs, by `kill -9` or in good order.
//!
//! What an execution must become is read from a copy of the database, made between the death and
//! the restart; whether it became that, from the API; and what is left on the machine, from the
//! machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;
use store::{Execution, ExecutionFilter, PageRequest, Status, Store, TenantId};

use crate::api::{Api, text, until};
use crate::load::{End, Load, Request, Wait};
use crate::support::Server;
use crate::traces::{Traces, cgroup_prefix, cgroups, descendants, mounts, sees_all};

/// Executions that run at once; everything beyond waits.
const SLOTS: usize = 3;

const SETTINGS: &[(&str, &str)] =
    &[("SKILLBOX_MAX_CONCURRENT_EXECS", "3"), ("SKILLBOX_LAUNCHERS", "2")];

/// Gives its input back, and leaves a file.
const QUICK: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo note > "${SANDBOX_FILES_DIR}note.txt"
"#;

/// Longer than any of these tests.
const SLEEPER: &str = "sleep 300\n";

/// Leaves enough files that storing them takes a while.
const HEAVY: &str =
    r#"for part in $(seq 48); do head -c 2M /dev/urandom > "${SANDBOX_FILES_DIR}part-$part"; done"#;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_moment_every_accepted_execution_ends_once_and_nothing_is_left() {
    let mut life = Life::begin();
    life.killed_while_requests_come_in().await;
    life.killed_while_scripts_run().await;
    life.killed_while_files_are_stored().await;
    life.killed_between_records().await;
    life.killed_while_it_recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_delivers_the_answer_that_is_due_and_leaves_nothing() {
    let mounts = mounts();
    let mut server = Server::with(SETTINGS);
    server.push("nap", "main.sh", "sleep 3; echo '\"rested\"' > \"$SANDBOX_OUTPUT\"\n");
    let api = Api::of(&server);
    let run = api.begin("nap");
    let asleep = || descendants(server.pid()).iter().any(|process| process.name == "sleep");
    until("it sleeps", async || asleep().then_some(())).await;
    let (pid, traces) = (server.pid(), Traces::of(server.pid(), &mounts));
    server.terminate();
    let answer = run.await.expect("an answer");
    assert_eq!(
        (End::of(&answer), &answer["output"]),
        (End::new("success", "exited"), &json!("rested"))
    );
    assert_eq!(server.wait().code(), Some(0));
    // Nothing had to be swept for this.
    assert_eq!(cgroups(&cgroup_prefix(pid)), Vec::<PathBuf>::new());
    traces.gone().await;
    server.start_again();
    assert!(!server.log().contains("worker is gone"), "{}", server.log());
}

/// One data directory, and the servers that live and die on it.
struct Life {
    server: Server,
    mounts: BTreeSet<String>,
    requests: usize,
    /// How everything ended that has ended, by its id. It must never change again.
    ended: BTreeMap<String, End>,
}

/// What is known when a server has just died.
struct Crash {
    traces: Traces,
    rows: Vec<Execution>,
    load: Load,
}

impl Life {
    fn begin() -> Self {
        if !sees_all() {
            println!(
                "NEEDS ROOT: crash: that no cgroup and no sandbox user outlives a server (the rest of it ran)"
            );
        }
        let mounts = mounts();
        let server = Server::with(SETTINGS);
        server.push("quick", "main.sh", QUICK);
        server.push("sleeper", "main.sh", SLEEPER);
        server.push("heavy", "main.sh", HEAVY);
        Life { server, mounts, requests: 0, ended: BTreeMap::new() }
    }

    async fn killed_while_requests_come_in(&mut self) {
        let mut load = self.send(&[
            ("quick", Wait::Async, 8),
            ("quick", Wait::Sync, 4),
            ("quick", Wait::Keyed, 8),
        ]);
        load.answered(5).await;
        let crash = self.crash(load).await;
        self.recover(crash).await;
    }

    /// All slots are held by sleepers, so nothing behind them has started.
    async fn killed_while_scripts_run(&mut self) {
        let mut load = self.send(&[
            ("sleeper", Wait::Sync, 1),
            ("sleeper", Wait::Async, 1),
            ("sleeper", Wait::Keyed, 1),
        ]);
        until("the sleepers sleep", async || (self.programs("sleep") == SLOTS).then_some(())).await;
        self.send_with(
            &mut load,
            &[("quick", Wait::Async, 6), ("quick", Wait::Sync, 2), ("quick", Wait::Keyed, 2)],
        );
        let api = Api::of(&self.server);
        until("the others wait", async || (api.count("queued").await == 10).then_some(())).await;
        let crash = self.crash(load).await;
        let ids = |rows: &[Execution], skill: &str| -> BTreeSet<String> {
            let unended =
                rows.iter().filter(|row| row.skill_name == skill && !row.status.is_terminal());
            unended.map(|row| row.id.to_string()).collect()
        };
        let (lost, queued) = (ids(&crash.rows, "sleeper"), ids(&crash.rows, "quick"));
        assert_eq!((lost.len(), queued.len()), (SLOTS, 10));
        self.recover(crash).await;
        assert!(
            lost.iter().all(|id| self.ended[id] == End::new("failed", "lost")),
            "{:?}",
            self.ended
        );
        assert!(
            queued.iter().all(|id| self.ended[id] == End::new("success", "exited")),
            "{:?}",
            self.ended
        );
    }

    async fn killed_while_files_are_stored(&mut self) {
        let load = self.send(&[
            ("heavy", Wait::Sync, 1),
            ("heavy", Wait::Async, 1),
            ("quick", Wait::Async, 4),
        ]);
        self.files_are_stored_by(2).await;
        let crash = self.crash(load).await;
        assert!(self.has_blobs_of_the_unended(&crash.rows), "it died too late");
        self.recover(crash).await;
    }

    async fn killed_between_records(&mut self) {
        let api = Api::of(&self.server);
        let before = api.count("success").await;
        let load = self.send(&[
            ("quick", Wait::Async, 12),
            ("quick", Wait::Sync, 2),
            ("quick", Wait::Keyed, 4),
        ]);
        until("some have ended", async || (api.count("success").await >= before + 4).then_some(()))
            .await;
        let crash = self.crash(load).await;
        self.recover(crash).await;
    }

    /// Start after start is killed as soon as it has begun to clear away what the crash left.
    async fn killed_while_it_recovers(&mut self) {
        let load = self.send(&[("heavy", Wait::Async, 3), ("quick", Wait::Async, 4)]);
        self.files_are_stored_by(3).await;
        let mut crash = self.crash(load).await;
        assert!(self.has_blobs_of_the_unended(&crash.rows), "it died too late");
        let mut traces = Vec::new();
        for _ in 0..4 {
            let said = self.server.log().len();
            self.server.begin_to_start();
            let recovers = |log: &str| log.contains("worker is gone") || log.contains("serving");
            until("it recovers", async || recovers(&self.server.log()[said..]).then_some(())).await;
            let again = self.crash(Load::new()).await;
            assert_eq!(crash.rows.len(), again.rows.len());
            for (before, after) in crash.rows.iter().zip(&again.rows) {
                // Only what was never started may have been started since.
                assert!(
                    !before.started || End::owed(before) == End::owed(after),
                    "{before:?} {after:?}"
                );
            }
            crash.rows = again.rows;
            traces.push(again.traces);
        }
        self.recover(crash).await;
        for traces in traces {
            traces.gone().await;
        }
    }

    fn send(&mut self, kinds: &[(&str, Wait, usize)]) -> Load {
        let mut load = Load::new();
        self.send_with(&mut load, kinds);
        load
    }

    fn send_with(&mut self, load: &mut Load, kinds: &[(&str, Wait, usize)]) {
        let api = Api::of(&self.server);
        for (skill, wait, count) in kinds {
            for _ in 0..*count {
                self.requests += 1;
                load.send(api.clone(), Request::new(skill, *wait, self.requests));
            }
        }
    }

    /// How many programs of this name run in the server's sandboxes.
    fn programs(&self, name: &str) -> usize {
        descendants(self.server.pid()).iter().filter(|process| process.name == name).count()
    }

    /// Kills the server and looks at what it left.
    async fn crash(&mut self, mut load: Load) -> Crash {
        let traces = Traces::of(self.server.pid(), &self.mounts);
        self.server.kill();
        load.cut_off().await;
        let rows = rows(&self.server.data()).await;
        let running = rows.iter().filter(|row| row.status == Status::Running).count();
        assert!(running <= SLOTS, "more run than may");
        Crash { traces, rows, load }
    }

    /// Starts a server again and holds it to what it owes for the crash.
    async fn recover(&mut self, crash: Crash) {
        self.server.start_again();
        let api = Api::of(&self.server);
        let listed = api.ended().await;
        let now: BTreeMap<String, End> =
            listed.iter().map(|row| (text(&row["execution_id"]), End::of(row))).collect();
        let owed: BTreeMap<String, End> =
            crash.rows.iter().map(|row| (row.id.to_string(), End::owed(row))).collect();
        assert_eq!(now, owed, "{}", self.server.log());
        for (id, end) in &self.ended {
            assert_eq!(now.get(id), Some(end), "an end has changed");
        }
        self.ended = now;
        for answer in &crash.load.answers {
            let end = self.ended.get(&answer.id()).expect("what was answered exists");
            assert!(
                answer.status == 202 || *end == End::of(&answer.body),
                "{end:?}, but answered was {}",
                answer.body
            );
        }
        crash.traces.gone().await;
        self.repeat_keyed(&api, &crash.load).await;
        self.assert_nothing_is_left_in_files(&api).await;
    }

    /// A key that was accepted gives its one execution again, whatever became of it.
    async fn repeat_keyed(&self, api: &Api, load: &Load) {
        let mut by_number = BTreeMap::new();
        for id in self.ended.keys() {
            by_number.insert(api.execution(id).await["input"]["number"].as_u64(), id.clone());
        }
        assert_eq!(by_number.len(), self.ended.len(), "a request was accepted twice");
        for request in load.sent.iter().filter(|request| request.key.is_some()) {
            let Some(accepted) = by_number.get(&Some(request.number as u64)) else { continue };
            let again = request.post(api).await.expect("an answer");
            assert_eq!(
                (again.id(), End::of(&again.body)),
                (accepted.clone(), self.ended[accepted].clone())
            );
        }
        assert_eq!(
            api.executions(None).await.len(),
            self.ended.len(),
            "a repetition made another execution"
        );
    }

    /// Every file has its row and every row its file; nothing is half written.
    async fn assert_nothing_is_left_in_files(&self, api: &Api) {
        let mut owed = BTreeSet::from([PathBuf::from(".unfinished")]);
        for id in self.ended.keys() {
            let execution = api.execution(id).await;
            let names = execution["files_list"].as_array().cloned().unwrap_or_default();
            // Each attempt has a place of its own, so that a late one cannot touch what a later one
            // stored.
            let directory = match execution["attempt"].as_u64() {
                Some(attempt @ 2..) => format!("default/executions/{id}-{attempt}"),
                _ => format!("default/executions/{id}"),
            };
            let directory = Path::new(&directory);
            owed.extend(names.iter().map(|name| directory.join("files").join(text(name))));
            owed.extend((!names.is_empty()).then(|| directory.join("archive.tar.gz")));
        }
        let blobs = self.server.data().join("blobs");
        let (skills, found): (BTreeSet<_>, BTreeSet<_>) =
            leaves(&blobs).into_iter().partition(|path| path.starts_with("default/skills"));
        assert_eq!(found, owed);
        assert_eq!(skills.len(), 3, "{skills:?}");
        let mut state: Vec<_> = names(&self.server.data());
        state.retain(|name| !name.starts_with("skillbox.db"));
        assert_eq!(state, ["blobs", "key", "lock", "secret"]);
        assert_eq!(names(&self.server.temporary()), [""; 0]);
    }

    /// Waits until so many executions have blobs and have not ended, and lets the server stand
    /// still there.
    async fn files_are_stored_by(&self, count: usize) {
        let api = Api::of(&self.server);
        let storing = async || {
            let running = api.executions(Some("running")).await;
            let storing =
                running.iter().filter(|row| !self.blobs(&text(&row["execution_id"])).is_empty());
            (storing.count() >= count).then_some(())
        };
        until("files are stored", storing).await;
        self.server.signal(Signal::STOP);
    }

    /// Whether there are blobs of executions that had not ended when the server died.
    fn has_blobs_of_the_unended(&self, rows: &[Execution]) -> bool {
        rows.iter()
            .any(|row| !row.status.is_terminal() && !self.blobs(&row.id.to_string()).is_empty())
    }

    /// Of all its attempts.
    fn blobs(&self, id: &str) -> BTreeSet<PathBuf> {
        let executions = self.server.data().join("blobs/default/executions");
        let attempts = names(&executions).into_iter().filter(|name| name.starts_with(id));
        attempts.flat_map(|attempt| leaves(&executions.join(attempt))).collect()
    }
}

/// The executions as a dead server left them, oldest first. Read from a copy, so that what the next
/// server finds is what the dead one left.
async fn rows(data: &Path) -> Vec<Execution> {
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

/// Every file and every empty directory below a directory, by its path from there.
fn leaves(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for name in names(directory) {
        let path = directory.join(&name);
        let below = if path.is_dir() { leaves(&path) } else { BTreeSet::new() };
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

/// What is in a directory, sorted; nothing when there is none.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
