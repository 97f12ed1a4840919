//! Opening, migrating and durability.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use sqlx::{Connection, SqliteConnection};
use store::{Status, Store, StoreError};

use crate::support::{TestStore, acme, finished, on_both};

on_both!(
    opening_twice_migrates_once, parallel_starts_migrate_once,
    finished_execution_survives_reopening, finished_execution_survives_sigkill,
    closed_store_returns_an_error,
);

async fn opening_twice_migrates_once(store: TestStore) {
    store.ping().await.expect("alive");
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    let second = store.second().await;
    let found = second.get_skill(&acme(), "echo", "1.0.0").await.expect("readable");
    assert!(found.is_some());
}

async fn parallel_starts_migrate_once(store: TestStore) {
    let starts: Vec<_> = (0..6)
        .map(|_| {
            let dsn = store.dsn.clone();
            tokio::spawn(async move { Store::open(&dsn).await.map(drop) })
        })
        .collect();
    for start in starts {
        start.await.expect("no panic").expect("opened");
    }
}

async fn finished_execution_survives_reopening(store: TestStore) {
    let lease = store.run(&acme()).await;
    assert!(store.finish(&lease, &finished(Status::Success)).await.expect("finished"));
    let before = store.execution(&acme(), lease.execution_id).await;
    store.close().await;
    let after = store.second().await.get_execution(&acme(), lease.execution_id).await;
    assert_eq!(after.expect("readable"), Some(before));
}

/// When this variable is set, this process is the one to be killed.
const VICTIM: &str = "STORE_TEST_VICTIM_DSN";

async fn finished_execution_survives_sigkill(store: TestStore) {
    #[expect(clippy::disallowed_methods, reason = "how this test starts itself")]
    if let Ok(dsn) = std::env::var(VICTIM) {
        finish_and_wait(&dsn).await;
    }
    let database = if store.dsn.starts_with("sqlite") { "sqlite" } else { "postgres" };
    let test = format!("database::{database}::finished_execution_survives_sigkill");
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args([&test, "--exact", "--nocapture"])
        .env(VICTIM, &store.dsn)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again");
    let said = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let id = said
        .map_while(Result::ok)
        .find_map(|line| line.split_once("finished ").map(|(_, id)| id.to_owned()));
    victim.kill().expect("it is running");
    victim.wait().expect("it is gone");
    let id = id.expect("the victim finished an execution").parse().expect("an id");

    let second = store.second().await;
    let found = second.get_execution(&acme(), id).await.expect("readable");
    assert_eq!(found.expect("it was finished").status, Status::Success);
}

async fn finish_and_wait(dsn: &str) {
    let store = Store::open(dsn).await.expect("the parent's database");
    let new = crate::support::new_execution(&acme(), crate::support::running());
    let inserted = store.insert_execution(&new).await.expect("stored");
    let store::InsertResult::New(Some(lease)) = inserted else { panic!("not new") };
    assert!(store.finish(&lease, &finished(Status::Success)).await.expect("finished"));
    println!("finished {}", new.id);
    std::future::pending::<()>().await;
}

async fn closed_store_returns_an_error(store: TestStore) {
    store.close().await;
    assert!(matches!(store.ping().await, Err(StoreError::Database(_))));
}

#[tokio::test]
async fn invalid_dsn_is_rejected_with_a_hint() {
    for dsn in [
        "", "skillbox.db", "mysql://x", "sqlite:", "sqlite::memory:", "postgres://[",
        "sqlite:/nowhere/at/all.db",
    ] {
        let refused = Store::open(dsn).await;
        assert!(matches!(refused, Err(StoreError::InvalidDsn(_))), "{dsn}: {refused:?}");
    }
}

#[tokio::test]
async fn error_messages_never_contain_the_password() {
    let dsn = "postgres://user:hunter2@%2Fno%2Fsocket/db";
    let error = Store::open(dsn).await.expect_err("nobody listens there");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[tokio::test]
async fn sqlite_file_is_readable_by_its_owner_only() {
    let store = TestStore::sqlite().await;
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    let file = store.dsn.strip_prefix("sqlite:").expect("a path");
    for file in [file.to_owned(), format!("{file}-wal"), format!("{file}-shm")] {
        let mode = std::fs::metadata(&file).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

/// Inserts and deletes a row with this text with `PRAGMA secure_delete` off, the default of SQLite.
async fn delete_insecurely(dsn: &str, text: &str) {
    let mut connection = SqliteConnection::connect(dsn).await.expect("the same file");
    for statement in [
        "PRAGMA secure_delete = OFF".to_owned(),
        format!(
            "INSERT INTO revoked_digests (tenant, digest, reason, revoked_at) VALUES ('acme', 'x', '{text}', 0)"
        ),
        "DELETE FROM revoked_digests WHERE digest = 'x'".to_owned(),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.expect("done");
    }
    connection.close().await.expect("closed");
}

#[tokio::test]
async fn deleted_content_of_a_sqlite_file_is_overwritten() {
    let store = TestStore::sqlite().await;
    let (deleted, control) = ("hunter2-deleted-by-the-store", "hunter2-deleted-by-others");
    store.revoke_digest(&acme(), "sha256:1", deleted).await.expect("stored");
    assert!(store.unrevoke_digest(&acme(), "sha256:1").await.expect("deleted"));
    // The last connection to close checkpoints the WAL into the file.
    store.close().await;
    let file = store.dsn.trim_start_matches("sqlite:");
    let holds = |text: &str| {
        assert!(!std::path::Path::new(&format!("{file}-wal")).exists(), "the WAL was checkpointed");
        let bytes = std::fs::read(file).expect("the file");
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    assert!(!holds(deleted));
    delete_insecurely(&store.dsn, control).await;
    assert!(holds(control), "control: without secure_delete a deleted text stays in the file");
}
