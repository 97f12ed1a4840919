//! The server ends during runs, by `kill -9` or with a drain.
//!
//! The expected end of each execution is derived from a copy of the database, made between the crash and
//! the restart. The actual ends are read from the API, and leftovers from the machine itself.

mod harness;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;
use store::Execution;

use crate::api::{Api, wait_until};
use crate::leftovers::{ServerLeftovers, cgroup_prefix, cgroups, descendants, mounts};
use crate::load::{ExecutionEnd, RequestLoad, SendMode};
use crate::support::Server;
use harness::CrashTest;

/// Concurrent executions; all others are queued.
const SLOTS: usize = 3;

const SETTINGS: &[(&str, &str)] =
    &[("SKILLBOX_MAX_CONCURRENT_EXECS", "3"), ("SKILLBOX_LAUNCHERS", "2")];

/// Returns its input, and leaves a file.
const QUICK: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo note > "${SANDBOX_FILES_DIR}note.txt"
"#;

/// Runs longer than any of these tests.
const SLEEPER: &str = "sleep 300\n";

/// Leaves so many files that storing them takes a while.
const HEAVY: &str =
    r#"for part in $(seq 48); do head -c 2M /dev/urandom > "${SANDBOX_FILES_DIR}part-$part"; done"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_execution_ends_once_after_a_crash_at_any_moment() {
    let mut test = CrashTest::start();
    test.killed_while_requests_come_in().await;
    test.killed_while_scripts_run().await;
    test.killed_while_files_are_stored().await;
    test.killed_between_records().await;
    test.killed_while_it_recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_delivers_pending_responses_and_leaves_nothing() {
    let mounts = mounts();
    let mut server = Server::start_with(SETTINGS);
    server.push("nap", "main.sh", "sleep 3; echo '\"rested\"' > \"$SANDBOX_OUTPUT\"\n");
    let api = Api::for_server(&server);
    let run = api.begin("nap");
    let asleep = || descendants(server.pid()).iter().any(|process| process.name == "sleep");
    wait_until("it sleeps", async || asleep().then_some(())).await;
    let (pid, leftovers) = (server.pid(), ServerLeftovers::record(server.pid(), &mounts));
    server.terminate();
    let answer = run.await.expect("an answer");
    assert_eq!(
        (ExecutionEnd::from_json(&answer), &answer["output"]),
        (ExecutionEnd::new("success", "exited"), &json!("rested"))
    );
    assert_eq!(server.wait().code(), Some(0));
    // The drain itself removed them; no sweep was necessary.
    assert_eq!(cgroups(&cgroup_prefix(pid)), Vec::<PathBuf>::new());
    leftovers.wait_until_removed().await;
    server.restart();
    assert!(!server.log().contains("worker is gone"), "{}", server.log());
}

impl CrashTest {
    async fn killed_while_requests_come_in(&mut self) {
        let mut load = self.send(&[
            ("quick", SendMode::Async, 8),
            ("quick", SendMode::Sync, 4),
            ("quick", SendMode::Keyed, 8),
        ]);
        load.wait_for_answers(5).await;
        let crash = self.crash(load).await;
        self.recover(crash).await;
    }

    /// Sleepers hold all slots, so that no queued execution has started.
    async fn killed_while_scripts_run(&mut self) {
        let mut load = self.send(&[
            ("sleeper", SendMode::Sync, 1),
            ("sleeper", SendMode::Async, 1),
            ("sleeper", SendMode::Keyed, 1),
        ]);
        wait_until("the sleepers sleep", async || {
            (self.count_processes("sleep") == SLOTS).then_some(())
        })
        .await;
        self.send_with(
            &mut load,
            &[
                ("quick", SendMode::Async, 6),
                ("quick", SendMode::Sync, 2),
                ("quick", SendMode::Keyed, 2),
            ],
        );
        let api = Api::for_server(&self.server);
        wait_until("the others wait", async || (api.count("queued").await == 10).then_some(()))
            .await;
        let crash = self.crash(load).await;
        let ids = |rows: &[Execution], skill: &str| -> BTreeSet<String> {
            let active =
                rows.iter().filter(|row| row.skill_name == skill && !row.status.is_terminal());
            active.map(|row| row.id.to_string()).collect()
        };
        let (lost, queued) = (ids(&crash.rows, "sleeper"), ids(&crash.rows, "quick"));
        assert_eq!((lost.len(), queued.len()), (SLOTS, 10));
        self.recover(crash).await;
        assert!(
            lost.iter().all(|id| self.ended[id] == ExecutionEnd::new("failed", "lost")),
            "{:?}",
            self.ended
        );
        assert!(
            queued.iter().all(|id| self.ended[id] == ExecutionEnd::new("success", "exited")),
            "{:?}",
            self.ended
        );
    }

    async fn killed_while_files_are_stored(&mut self) {
        let load = self.send(&[
            ("heavy", SendMode::Sync, 1),
            ("heavy", SendMode::Async, 1),
            ("quick", SendMode::Async, 4),
        ]);
        self.stop_while_storing_files(2).await;
        let crash = self.crash(load).await;
        assert!(self.has_blobs_of_active(&crash.rows), "the server was killed too late");
        self.recover(crash).await;
    }

    async fn killed_between_records(&mut self) {
        let api = Api::for_server(&self.server);
        let before = api.count("success").await;
        let load = self.send(&[
            ("quick", SendMode::Async, 12),
            ("quick", SendMode::Sync, 2),
            ("quick", SendMode::Keyed, 4),
        ]);
        wait_until("some have ended", async || {
            (api.count("success").await >= before + 4).then_some(())
        })
        .await;
        let crash = self.crash(load).await;
        self.recover(crash).await;
    }

    /// Each of several restarts is killed as soon as it has begun to clean up after the crash.
    async fn killed_while_it_recovers(&mut self) {
        let load = self.send(&[("heavy", SendMode::Async, 3), ("quick", SendMode::Async, 4)]);
        self.stop_while_storing_files(3).await;
        let mut crash = self.crash(load).await;
        assert!(self.has_blobs_of_active(&crash.rows), "the server was killed too late");
        let mut leftovers = Vec::new();
        for _ in 0..4 {
            let log_len = self.server.log().len();
            self.server.spawn_process();
            let recovers = |log: &str| log.contains("worker is gone") || log.contains("serving");
            wait_until("it recovers", async || {
                recovers(&self.server.log()[log_len..]).then_some(())
            })
            .await;
            let again = self.crash(RequestLoad::new()).await;
            assert_eq!(crash.rows.len(), again.rows.len());
            for (before, after) in crash.rows.iter().zip(&again.rows) {
                // Only executions that had not started may have been started since.
                assert!(
                    !before.started
                        || ExecutionEnd::expected_after_crash(before)
                            == ExecutionEnd::expected_after_crash(after),
                    "{before:?} {after:?}"
                );
            }
            crash.rows = again.rows;
            leftovers.push(again.leftovers);
        }
        self.recover(crash).await;
        for leftovers in leftovers {
            leftovers.wait_until_removed().await;
        }
    }
}
