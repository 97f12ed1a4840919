//! Migrations: of an empty database, of the first schema, concurrently, and next to programs of
//! another version.
//!
//! There is no older program to test with. This one plays it: on a database with a migration that
//! it does not know, it is the older program.

use std::time::Duration;

use sqlx::migrate::{Migrate, Migration, MigrationType};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqlSafeStr, SqliteConnection};
use store::{InitialState, InsertResult, PageRequest, StaleLeases, Status, Store, StoreError, now};
use tempfile::TempDir;

use crate::support::{LEASE_MS, acme, finished, new_execution, reap};

/// The last migration of this program.
const NEWEST: i64 = 9;

/// Empty databases, one of each kind.
struct Empty {
    dsns: [String; 2],
    _dir: TempDir,
}

impl Empty {
    async fn make() -> Empty {
        let dir = tempfile::tempdir().expect("a directory");
        let sqlite = format!("sqlite:{}", dir.path().join("skillbox.db").display());
        let postgres =
            tokio::task::spawn_blocking(crate::postgres::database).await.expect("a database");
        Empty { dsns: [sqlite, postgres], _dir: dir }
    }
}

/// Runs a statement that the store has no function for.
pub(crate) async fn execute(dsn: &str, statements: &str) {
    let statements = AssertSqlSafe(statements.to_owned());
    match dsn.starts_with("sqlite") {
        true => {
            let mut connection = SqliteConnection::connect(dsn).await.expect("open");
            connection.execute(statements).await.expect("executed");
            connection.close().await.expect("closed");
        }
        false => {
            let mut connection = PgConnection::connect(dsn).await.expect("open");
            connection.execute(statements).await.expect("executed");
            connection.close().await.expect("closed");
        }
    }
}

/// Applies the first migrations as a program of that version did.
async fn apply_first(dsn: &str, steps: &[(i64, &'static str, &'static str)]) {
    const TABLE: &str = "_sqlx_migrations";
    async fn apply(connection: &mut impl Migrate, steps: &[(i64, &'static str, &'static str)]) {
        connection.ensure_migrations_table(TABLE).await.expect("a table");
        for &(version, name, text) in steps {
            let step = Migration::new(
                version,
                name.into(),
                MigrationType::Simple,
                text.into_sql_str(),
                false,
            );
            connection.apply(TABLE, &step).await.expect("taken");
        }
    }
    match dsn.starts_with("sqlite") {
        true => {
            apply(
                &mut SqliteConnection::connect(&format!("{dsn}?mode=rwc")).await.expect("open"),
                steps,
            )
            .await
        }
        false => apply(&mut PgConnection::connect(dsn).await.expect("open"), steps).await,
    }
}

const INITIAL: (i64, &str, &str) =
    (1, "initial", include_str!("../../../../migrations/0001_initial.sql"));

/// A migration that a later version may have: a column, a table, an index.
const LATER: &str = "ALTER TABLE executions ADD COLUMN later TEXT NOT NULL DEFAULT 'x'; \
    CREATE TABLE later (id TEXT PRIMARY KEY REFERENCES executions (id)); \
    CREATE INDEX executions_later ON executions (tenant, later); \
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
        VALUES (9001, 'later', TRUE, '', 0)";

#[tokio::test]
async fn every_migration_is_applied_once_and_reported() {
    for dsn in &Empty::make().await.dsns {
        let first = Store::migrate(dsn).await.expect("migrated");
        assert_eq!((first.from, first.to), (0, NEWEST));
        assert!(first.applied.iter().map(|(step, _)| *step).eq(1..=NEWEST), "{first:?}");
        let second = Store::migrate(dsn).await.expect("migrated");
        assert_eq!((second.from, second.applied.len(), second.to), (NEWEST, 0, NEWEST));
    }
}

#[tokio::test]
async fn parallel_migrations_apply_each_once() {
    for dsn in Empty::make().await.dsns {
        let all: Vec<_> = (0..6)
            .map(|_| {
                let dsn = dsn.clone();
                tokio::spawn(async move { Store::migrate(&dsn).await.expect("migrated").applied })
            })
            .collect();
        let mut taken = Vec::new();
        for one in all {
            taken.extend(one.await.expect("no panic"));
        }
        assert!(taken.iter().map(|(step, _)| *step).eq(1..=NEWEST), "{taken:?}");
    }
}

#[tokio::test]
async fn unmigrated_schema_is_reported() {
    for dsn in &Empty::make().await.dsns {
        let behind = Store::open_unmigrated(dsn).await.expect_err("there are no tables");
        assert!(
            matches!(behind, StoreError::SchemaTooOld { current: 0, required: NEWEST }),
            "{behind}"
        );
        apply_first(dsn, &[INITIAL]).await;
        let behind = Store::check_schema(dsn).await.expect_err("most of the tables are missing");
        assert!(
            behind.to_string().contains("migration 1")
                && behind.to_string().contains("skillbox migrate"),
            "{behind}"
        );
        Store::migrate(dsn).await.expect("migrated");
        Store::open_unmigrated(dsn).await.expect("open").ping().await.expect("alive");
    }
}

#[tokio::test]
async fn older_program_accepts_an_additive_migration() {
    for dsn in &Empty::make().await.dsns {
        let store = Store::open(dsn).await.expect("open");
        store.ensure_tenant(&acme()).await.expect("a tenant");
        let initial_state =
            InitialState::Running { owner: "old".into(), lease_ms: LEASE_MS, started: false };
        let inserted =
            store.insert_execution(&new_execution(&acme(), initial_state)).await.expect("stored");
        let InsertResult::New(Some(lease)) = inserted else { panic!("not new") };
        store
            .insert_execution(&new_execution(&acme(), InitialState::Queued))
            .await
            .expect("stored");

        execute(dsn, LATER).await;

        // The process that ran before: its prepared statements are for the old schema.
        assert!(store.finish(&lease, &finished(Status::Success)).await.expect("recorded"));
        let (_, lease) =
            store.claim_next("old", LEASE_MS).await.expect("claimed").expect("one waits");
        assert!(store.mark_started(&lease).await.expect("started").is_some());
        // A process that starts now.
        let started = Store::open(dsn).await.expect("an older program may start");
        assert_eq!(Store::migrate(dsn).await.expect("nothing to do").to, 9001);
        assert_eq!(
            started
                .heartbeat(std::slice::from_ref(&lease), LEASE_MS)
                .await
                .expect("alive")
                .held
                .len(),
            1
        );
        assert!(started.finish(&lease, &finished(Status::Success)).await.expect("recorded"));
        assert_eq!(started.queue_load().await.expect("counted"), store::QueueLoad::default());
    }
}

#[tokio::test]
async fn older_program_rejects_an_incompatible_migration() {
    for dsn in &Empty::make().await.dsns {
        Store::open(dsn).await.expect("open").close().await;
        execute(dsn, LATER).await;
        execute(
            dsn,
            "INSERT INTO settings (name, value, held_until) VALUES ('oldest schema', '9001', 0)",
        )
        .await;
        for refused in [
            Store::open(dsn).await.map(drop),
            Store::open_unmigrated(dsn).await.map(drop),
            Store::migrate(dsn).await.map(drop),
        ] {
            let error = refused.expect_err("it must not touch these tables");
            assert!(
                matches!(error, StoreError::SchemaTooNew { required: 9001, known: NEWEST }),
                "{error}"
            );
            assert!(error.to_string().contains("restore the backup"), "{error}");
        }
        // A program that knows the required migration is accepted: it may be an earlier one.
        execute(dsn, "UPDATE settings SET value = '6' WHERE name = 'oldest schema'").await;
        Store::open(dsn).await.expect("open");
    }
}

#[tokio::test]
async fn changed_migration_is_rejected() {
    for dsn in &Empty::make().await.dsns {
        Store::open(dsn).await.expect("open").close().await;
        execute(dsn, "UPDATE _sqlx_migrations SET checksum = '' WHERE version = 3").await;
        let error = Store::open(dsn).await.expect_err("the tables of another program");
        assert!(matches!(error, StoreError::Migration(_)), "{error}");
    }
}

/// The data of a program of the first migration: a queued, a running and an ended execution.
const LEFT: &str = "INSERT INTO tenants (id, versions, served_at, created_at) VALUES ('acme', 'mutable', 0, 1); \
    INSERT INTO executions (id, tenant, skill_name, skill_version, digest, status, attempt, token, created_at, input, \
            request) \
        VALUES ('0198c0de-0000-7000-8000-000000000001', 'acme', 'echo', '1.0.0', 'd', 'queued', 0, 0, 2, '{}', '{}'); \
    INSERT INTO executions (id, tenant, skill_name, skill_version, digest, status, attempt, token, created_at, owner, \
            lease_until, started, started_at, request) \
        VALUES ('0198c0de-0000-7000-8000-000000000002', 'acme', 'echo', '1.0.0', 'd', 'running', 1, 1, 3, 'gone', 4, \
            TRUE, 3, '{}'); \
    INSERT INTO executions (id, tenant, skill_name, skill_version, digest, status, attempt, token, created_at, \
            started_at, finished_at, outcome, exit_code, output, logs, request) \
        VALUES ('0198c0de-0000-7000-8000-000000000003', 'acme', 'echo', '1.0.0', 'd', 'success', 1, 1, 4, 4, 5, \
            'exited', 0, '{\"n\":1}', 'said', ''); \
    INSERT INTO skills (tenant, name, version, digest, description, mode, status, size_bytes, created_at, updated_at, \
            scripts, manifest) \
        VALUES ('acme', 'echo', '1.0.0', 'd', 'Says it again.', 'executable', 'available', 1, 1, 1, '[]', \
            '{\"idempotent\":true,\"input_schema\":{\"type\":\"object\"}}')";

#[tokio::test]
async fn data_of_the_first_schema_survives_all_migrations() {
    for dsn in &Empty::make().await.dsns {
        apply_first(dsn, &[INITIAL]).await;
        execute(dsn, LEFT).await;
        let migrated = Store::migrate(dsn).await.expect("migrated");
        assert_eq!((migrated.from, migrated.applied.len() as i64), (1, NEWEST - 1));

        let store = Store::open_unmigrated(dsn).await.expect("open");
        let id =
            |number| format!("0198c0de-0000-7000-8000-00000000000{number}").parse().expect("an id");
        for _ in 0..2 {
            // The first read fills in the columns that the second one uses.
            let callable =
                store.list_callable_skills(&acme(), &PageRequest::default()).await.expect("listed");
            assert_eq!(callable[0].input_schema, Some(serde_json::json!({ "type": "object" })));
            let head =
                store.find_skill(&acme(), "echo", "latest").await.expect("read").expect("kept");
            assert!(head.idempotent);
        }
        let ended = store.get_execution(&acme(), id(3)).await.expect("read").expect("kept");
        assert_eq!(
            (ended.status, ended.output.as_deref(), ended.logs.as_str()),
            (Status::Success, Some(r#"{"n":1}"#), "said")
        );
        let (claimed, lease) =
            store.claim_next("new", LEASE_MS).await.expect("claimed").expect("it still waits");
        assert_eq!(claimed.id, id(1));
        assert!(store.finish(&lease, &finished(Status::Success)).await.expect("recorded"));
        let reaped = reap(&store, StaleLeases::ExpiredAt(now()), 3).await;
        assert_eq!(
            reaped.iter().map(|it| (it.execution_id, it.requeued)).collect::<Vec<_>>(),
            [(id(2), false)]
        );
        let lost = store.get_execution(&acme(), id(2)).await.expect("read").expect("kept");
        assert_eq!(lost.outcome.as_deref(), Some("lost"));
    }
}

/// The schema from before the storage count.
const UNCOUNTED: [(i64, &str, &str); 6] = [
    INITIAL,
    (2, "production", include_str!("../../../../migrations/0002_production.sql")),
    (3, "scanning", include_str!("../../../../migrations/0003_scanning.sql")),
    (4, "trust", include_str!("../../../../migrations/0004_trust.sql")),
    (5, "files", include_str!("../../../../migrations/0005_files.sql")),
    (6, "capacity", include_str!("../../../../migrations/0006_capacity.sql")),
];

/// In addition to `LEFT`: an artifact with its archive, an uploaded file, a skill, a log segment,
/// and a tenant without any objects.
const MORE_LEFT: &str = "INSERT INTO tenants (id, versions, served_at, created_at) VALUES ('other', 'mutable', 0, 1); \
    UPDATE executions SET has_archive = TRUE WHERE status = 'success'; \
    INSERT INTO files (id, tenant, execution_id, name, content_type, size_bytes, sha256, blob_key, version, created_at, \
            updated_at) \
        VALUES ('f1', 'acme', '0198c0de-0000-7000-8000-000000000003', 'a', 't', 500, 's', 'b1', 1, 5, 5), \
            ('f2', 'acme', NULL, 'b', 't', 7000, 's', 'b2', 1, 5, 5); \
    INSERT INTO skills (tenant, name, version, digest, description, mode, status, size_bytes, created_at, updated_at, \
            scripts, manifest) \
        VALUES ('acme', 's', '1', 'd', 'äh', 'executable', 'available', 90000, 1, 1, '[]', '{}'); \
    INSERT INTO log_segments (execution_id, attempt, ends_at, stream, written_at, text) \
        VALUES ('0198c0de-0000-7000-8000-000000000003', 1, 4, 'stdout', 5, 'säid')";

#[tokio::test]
async fn existing_rows_are_counted_by_the_storage_migration() {
    for dsn in &Empty::make().await.dsns {
        apply_first(dsn, &UNCOUNTED).await;
        execute(dsn, LEFT).await;
        execute(dsn, MORE_LEFT).await;
        let store = Store::open(dsn).await.expect("migrated");
        let skill = [
            "Says it again.",
            "[]",
            r#"{"idempotent":true,"input_schema":{"type":"object"}}"#,
            "[]",
            "äh",
            "[]",
            "{}",
            "[]",
        ];
        let texts = ["{}", "{}", "{}", "säid"].into_iter().chain(skill);
        let results = 3 * store::MIN_RESULT_BYTES;
        let expected =
            500 + 7000 + 1 + 90000 + results + texts.map(|text| text.len() as i64).sum::<i64>();
        let used = async || store.storage_usage(&acme()).await.expect("read").used_bytes;
        assert_eq!(used().await, expected);
        assert_eq!(store.recount_storage(&acme()).await.expect("counted"), expected);
        let other = crate::support::other();
        assert_eq!(store.storage_usage(&other).await.expect("read").used_bytes, 0);
        // The database does not have the size of an archive: the first server to start measures it.
        let archives = store.unmeasured_archives(10).await.expect("listed");
        assert_eq!(archives.len(), 1);
        store.set_archive_bytes(&archives[0], 11).await.expect("measured");
        assert_eq!(used().await, expected + 11);
    }
}

/// A backup or a long query may hold a lock for hours. A migration that waits for it must not block
/// other queries.
#[tokio::test]
async fn blocked_migration_lets_other_queries_pass() {
    let dsn = tokio::task::spawn_blocking(crate::postgres::database).await.expect("a database");
    Store::migrate(&dsn).await.expect("migrated");
    execute(&dsn, "DROP INDEX files_of_execution; DELETE FROM _sqlx_migrations WHERE version = 6")
        .await;
    let mut holder = PgConnection::connect(&dsn).await.expect("open");
    holder.execute("BEGIN; LOCK TABLE files IN ROW EXCLUSIVE MODE").await.expect("held");

    let migrating = tokio::spawn({
        let dsn = dsn.clone();
        async move { Store::migrate(&dsn).await }
    });
    let mut other = PgConnection::connect(&dsn).await.expect("open");
    let waiting = "SELECT COUNT(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation \
        WHERE relname = 'files' AND NOT granted";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut other).await.expect("locks") == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Queued behind the migration for the lock, and still served while the lock is held.
    other.execute("BEGIN; LOCK TABLE files IN ROW EXCLUSIVE MODE; ROLLBACK").await.expect("served");
    assert!(!migrating.is_finished());
    holder.execute("ROLLBACK").await.expect("given up");
    assert_eq!(migrating.await.expect("no panic").expect("migrated").applied, [(6, "capacity")]);
}

/// If a job migrates, the database user of the servers needs no DDL privileges.
#[tokio::test]
async fn user_without_ddl_rights_can_serve() {
    let dsn = tokio::task::spawn_blocking(crate::postgres::database).await.expect("a database");
    Store::migrate(&dsn).await.expect("migrated");
    let database = dsn.rsplit('/').next().expect("a name");
    let user = format!("server_{database}");
    execute(
        &dsn,
        &format!(
            "CREATE ROLE {user} LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {user}"
        ),
    )
    .await;
    let theirs = dsn.replacen("postgres@", &format!("{user}@"), 1);
    assert!(Store::open(&theirs).await.is_err(), "it must not be able to create a table");
    let store = Store::open_unmigrated(&theirs).await.expect("open");
    store.ensure_tenant(&acme()).await.expect("a tenant");
    store.insert_execution(&new_execution(&acme(), InitialState::Queued)).await.expect("stored");
    let (_, lease) =
        store.claim_next("worker", LEASE_MS).await.expect("claimed").expect("one waits");
    assert!(store.finish(&lease, &finished(Status::Success)).await.expect("recorded"));
}
