//! Worker processes that are killed, or stopped past their lease, at every point of an execution's
//! path.
//!
//! The worker is this test program started anew with one test of its own, so that it is a process
//! of its own. One worker lives at a time where blobs are a directory: a second one would take the
//! first one's unfinished files away.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use blobs::{BlobKey, Blobs};
use runner::Runner;
use rustix::process::{Pid, Signal, kill_process};
use sandbox::{NativeConfig, NativeLauncher, Owner};
use store::{Execution, Status, Store};
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, Command};
use uuid::Uuid;

use crate::support::{SKILL_MD, acme, caller, package, parts, request, until};

const DSN: &str = "TEST_WORKER_DSN";
const DATA: &str = "TEST_WORKER_DATA";
const FAILPOINT: &str = "TEST_WORKER_FAILPOINT";
/// How many executions the worker asks itself for.
const SUBMITS: &str = "TEST_WORKER_SUBMITS";

const LEASE: Duration = Duration::from_secs(2);
const ONCE: &str = r#"{"skill":"once"}"#;
const AGAIN: &str = r#"{"skill":"again"}"#;

#[expect(clippy::disallowed_methods, reason = "this is how a test talks to the process it starts")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Works until its standard input ends.
#[tokio::test]
#[ignore = "the process that the tests beside it start"]
async fn worker() {
    let (Some(dsn), Some(data)) = (variable(DSN), variable(DATA)) else { return };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("a parent");
    let owner = format!("worker-{}", Uuid::new_v4());
    let native = NativeConfig {
        owner: Owner(owner.clone()),
        processes: 1,
        require: Vec::new(),
        search_path: None,
    };
    let mut config = crate::support::runner_config(owner);
    (config.slots, config.lease, config.reap_tick) = (2, LEASE, Duration::from_millis(200));
    config.failpoint = variable(FAILPOINT).map(|text| text.parse().expect("a failpoint"));
    let store = Store::open(&dsn).await.expect("the store");
    let blobs = Blobs::directory(data.into()).expect("the blobs");
    let launcher = Arc::new(NativeLauncher::start(native).expect("a launcher"));
    let runner =
        Runner::start(config, parts(store, blobs, Some(launcher))).await.expect("a runner");
    for _ in 0..variable(SUBMITS).map_or(0, |count| count.parse().expect("a number")) {
        runner.submit(&caller(), request(ONCE), None).await.expect("accepted");
    }
    let closed =
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    closed.await.expect("no panic").expect("a pipe");
    runner.drain(Duration::from_secs(30)).await;
}

/// A worker process; killed when the test is done with it.
struct Worker {
    child: Child,
    /// It works as long as this is open.
    stdin: Option<ChildStdin>,
}

impl Worker {
    async fn exit(&mut self) -> ExitStatus {
        let exit = tokio::time::timeout(Duration::from_secs(60), self.child.wait());
        exit.await.expect("it ends in time").expect("a child")
    }

    /// Until it stands still.
    async fn stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.id().expect("it lives"));
        until(async || {
            let state = std::fs::read_to_string(&stat).ok()?;
            state.rsplit(')').next()?.trim_start().starts_with('T').then_some(())
        })
        .await;
    }

    fn wake(&self) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it lives");
        kill_process(pid, Signal::CONT).expect("it is there");
    }

    /// Lets it finish what it does, and end.
    async fn close(mut self) {
        drop(self.stdin.take());
        let exit = self.exit().await;
        assert!(exit.success(), "{exit:?}");
    }
}

/// A server without a sandbox, which takes the requests that the workers run.
struct Site {
    api: Arc<Runner>,
    store: Store,
    blobs: Blobs,
    data: TempDir,
    dsn: String,
}

impl Site {
    async fn new() -> Site {
        let dsn = tokio::task::spawn_blocking(crate::postgres::database).await.expect("a database");
        let data = TempDir::new().expect("a temporary directory");
        let store = Store::open(&dsn).await.expect("a store");
        store.ensure_tenant(&acme()).await.expect("a tenant");
        let blobs = Blobs::directory(data.path().to_owned()).expect("blobs");
        let mut config = crate::support::runner_config(format!("api-{}", Uuid::new_v4()));
        // The dead are found by the next worker and not by this one, so that each dies where it
        // should.
        config.reap_tick = Duration::from_secs(600);
        let parts = parts(store.clone(), blobs.clone(), None);
        let catalogue = Arc::clone(&parts.catalogue);
        let api = Runner::start(config, parts).await.expect("a runner");
        let script = "echo ran; echo x > ${SANDBOX_FILES_DIR}a.txt";
        for (name, more) in [("once", ""), ("again", "idempotent: true\n")] {
            let text = SKILL_MD.replace("name: demo", &format!("{more}name: {name}"));
            let package = package(&[("SKILL.md", &text), ("main.sh", script)]);
            catalogue
                .publish(None, &acme(), package, &[], &store::TenantPolicy::default())
                .await
                .expect("published");
        }
        Site { api, store, blobs, data, dsn }
    }

    fn worker(&self, failpoint: Option<&str>, submits: u32) -> Worker {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "killed::worker", "--ignored", "--test-threads=1"]);
        command.env(DSN, &self.dsn).env(DATA, self.data.path()).env(SUBMITS, submits.to_string());
        command.envs(failpoint.map(|failpoint| (FAILPOINT, failpoint)));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("a worker");
        // Waiting for a child closes its standard input, unless it is kept elsewhere.
        let stdin = child.stdin.take();
        Worker { child, stdin }
    }

    async fn submit(&self, count: usize) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for json in [ONCE, AGAIN].into_iter().cycle().take(count) {
            ids.push(self.api.submit(&caller(), request(json), None).await.expect("accepted"));
        }
        ids
    }

    /// All of them, when the last has ended.
    async fn ended(&self, ids: &[Uuid]) -> Vec<Execution> {
        let mut ended = Vec::new();
        for id in ids {
            ended.push(
                until(async || {
                    let found = self
                        .store
                        .get_execution(&acme(), *id)
                        .await
                        .expect("answered")
                        .expect("never forgotten");
                    found.status.is_terminal().then_some(found)
                })
                .await,
            );
        }
        ended
    }

    /// Every execution that is stored is one of these, and has what its row says and no more:
    /// files, archive, and nothing of lost attempts.
    async fn check_stored(&self, ended: &[Execution]) {
        let page = store::PageRequest { limit: 500, ..store::PageRequest::default() };
        let stored =
            self.store.list_executions(&acme(), &Default::default(), &page).await.expect("listed");
        let ids =
            |all: &[Execution]| all.iter().map(|execution| execution.id).collect::<BTreeSet<_>>();
        assert_eq!((stored.len(), ids(&stored)), (ended.len(), ids(ended)));
        let mut expected = Vec::new();
        for execution in ended {
            expected.extend(runner::archive_key(execution));
            for file in
                self.store.list_execution_files(&acme(), execution.id).await.expect("listed")
            {
                let key = BlobKey::parse(&file.blob_key).expect("a key");
                let bytes = self.blobs.get(&key, 100).await.expect("readable");
                assert_eq!(bytes.as_deref(), Some(&b"x\n"[..]), "{execution:?}");
                expected.push(key);
            }
        }
        let mut expected: Vec<String> =
            expected.iter().map(|key| key.as_str().to_owned()).collect();
        expected.sort();
        assert_eq!(
            files_below(&self.data.path().join("acme/executions"), self.data.path()),
            expected
        );
        let counted = self.store.storage_usage(&acme()).await.expect("read").used_bytes;
        assert_eq!(counted, self.store.recount_storage(&acme()).await.expect("counted"));
    }
}

fn files_below(dir: &std::path::Path, root: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files_below(&path, root)),
            false => found.push(path.strip_prefix(root).expect("below it").display().to_string()),
        }
    }
    found.sort();
    found
}

/// What is true wherever the blow fell: nothing is lost that could be run again, and only what was
/// in hand at a blow is lost or was taken up again, which is at most `in_hand`.
fn check(ended: &[Execution], in_hand: usize) {
    let mut touched = 0;
    for execution in ended {
        match (execution.status, execution.outcome.as_deref()) {
            (Status::Success, _) => {
                assert_eq!((execution.logs.as_str(), execution.has_archive), ("ran\n", true));
                assert!((1..=3).contains(&execution.attempt), "{execution:?}");
                touched += usize::from(execution.attempt > 1);
            }
            (Status::Failed, Some("lost")) => {
                assert_eq!(
                    (execution.skill_name.as_str(), execution.has_archive),
                    ("once", false),
                    "{execution:?}"
                );
                touched += 1;
            }
            _ => panic!("an odd end: {execution:?}"),
        }
    }
    assert!(touched <= in_hand, "{touched} lost or taken up again: {ended:?}");
}

#[tokio::test]
async fn a_worker_killed_anywhere_loses_and_repeats_nothing() {
    let site = Site::new().await;
    let mut all = Vec::new();
    // Two slots: what ran beside the one that struck the point may be lost too, once its job had
    // reached a guest.
    for point in ["claim", "launch", "run", "upload", "collect", "record"] {
        let mut dying = site.worker(Some(&format!("{point}:abort:2")), 0);
        let ids = site.submit(6).await;
        let exit = dying.exit().await;
        assert_eq!(exit.signal(), Some(Signal::KILL.as_raw()), "{point}: {exit:?}");
        let healthy = site.worker(None, 0);
        let ended = site.ended(&ids).await;
        check(&ended, 2);
        healthy.close().await;
        all.extend(ended);
        site.check_stored(&all).await;
    }
}

#[tokio::test]
async fn what_is_stored_is_accepted_even_if_the_server_dies_before_it_says_so() {
    let site = Site::new().await;
    let mut dying = site.worker(Some("accept:abort:3"), 9);
    assert_eq!(dying.exit().await.signal(), Some(Signal::KILL.as_raw()));
    let healthy = site.worker(None, 0);
    let page = store::PageRequest { limit: 100, ..store::PageRequest::default() };
    let list = async || {
        site.store.list_executions(&acme(), &Default::default(), &page).await.expect("listed")
    };
    let ids: Vec<Uuid> = list().await.iter().map(|execution| execution.id).collect();
    assert_eq!(ids.len(), 3);
    check(&site.ended(&ids).await, 2);
    healthy.close().await;
}

#[tokio::test]
async fn a_reaper_killed_while_it_clears_away_leaves_it_to_the_next() {
    let site = Site::new().await;
    let mut dying = site.worker(Some("collect:abort:1"), 0);
    let ids = site.submit(4).await;
    assert_eq!(dying.exit().await.signal(), Some(Signal::KILL.as_raw()));
    let mut reaping = site.worker(Some("remove:abort:1"), 0);
    assert_eq!(reaping.exit().await.signal(), Some(Signal::KILL.as_raw()));
    let healthy = site.worker(None, 0);
    let ended = site.ended(&ids).await;
    check(&ended, 4);
    healthy.close().await;
    site.check_stored(&ended).await;
}

#[tokio::test]
async fn a_worker_stopped_past_its_lease_changes_nothing_when_it_wakes() {
    let site = Site::new().await;
    let stopped = site.worker(Some("collect:stop:1"), 0);
    let ids = site.submit(4).await;
    stopped.stopped().await;
    let healthy = site.worker(None, 0);
    let ended = site.ended(&ids).await;
    check(&ended, 2);
    assert!(ended.iter().any(|execution| execution.attempt == 2 || execution.outcome.as_deref() == Some("lost")));
    stopped.wake();
    stopped.close().await;
    assert_eq!(site.ended(&ids).await, ended, "a late result is no result");
    healthy.close().await;
    site.check_stored(&ended).await;
}
