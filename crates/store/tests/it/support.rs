//! Test databases and test data.

use std::ops::Deref;

use store::{
    Execution, FinishedExecution, Idempotency, InitialState, InsertResult, Lease, NewExecution,
    NewSkill, ReapedExecution, SkillStatus, StaleLeases, Status, Store, TenantId, VersionPolicy,
};
use tempfile::TempDir;
use uuid::Uuid;

/// Makes each named function a test on either database.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::support::TestStore::sqlite().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::support::TestStore::postgres().await).await;
            })+
        }
    };
}
pub(crate) use on_both;

/// An empty store with the tenants `acme` and `other`; removed when the test ends.
pub(crate) struct TestStore {
    store: Store,
    pub dsn: String,
    _dir: Option<TempDir>,
}

impl Deref for TestStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl TestStore {
    pub(crate) async fn sqlite() -> TestStore {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let dsn = format!("sqlite:{}", dir.path().join("skillbox.db").display());
        TestStore::open(dsn, Some(dir)).await
    }

    pub(crate) async fn postgres() -> TestStore {
        let dsn = tokio::task::spawn_blocking(crate::postgres::database);
        TestStore::open(dsn.await.expect("a database"), None).await
    }

    pub(crate) async fn open(dsn: String, dir: Option<TempDir>) -> TestStore {
        let store = Store::open(&dsn).await.expect("a new database");
        for tenant in [acme(), other()] {
            store.ensure_tenant(&tenant).await.expect("a tenant");
        }
        TestStore { store, dsn, _dir: dir }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.dsn.starts_with("postgres:")
    }

    /// A second store on the same database, as another process has it.
    pub(crate) async fn second(&self) -> Store {
        Store::open(&self.dsn).await.expect("the same database")
    }

    /// Inserts a queued execution.
    pub(crate) async fn queue(&self, tenant: &TenantId) -> Uuid {
        let new = new_execution(tenant, InitialState::Queued);
        assert_eq!(self.insert_execution(&new).await.expect("stored"), InsertResult::New(None));
        new.id
    }

    /// Inserts an execution that is running, with a lease of `worker`.
    pub(crate) async fn run(&self, tenant: &TenantId) -> Lease {
        let new = new_execution(tenant, running());
        match self.insert_execution(&new).await.expect("stored") {
            InsertResult::New(Some(lease)) => lease,
            other => panic!("not inserted as running: {other:?}"),
        }
    }

    pub(crate) async fn execution(&self, tenant: &TenantId, id: Uuid) -> Execution {
        self.get_execution(tenant, id).await.expect("readable").expect("an execution")
    }

    pub(crate) async fn publish(&self, tenant: &TenantId, name: &str, version: &str, digest: &str) {
        let new = new_skill(name, version, digest);
        let put = self.put_skill(tenant, &new, VersionPolicy::Mutable).await;
        put.expect("published");
    }
}

pub(crate) const LEASE_MS: i64 = 60_000;

pub(crate) fn acme() -> TenantId {
    TenantId::try_from("acme").expect("a good name")
}

pub(crate) fn other() -> TenantId {
    TenantId::try_from("other").expect("a good name")
}

pub(crate) fn running() -> InitialState {
    InitialState::Running { owner: "worker".into(), lease_ms: LEASE_MS, started: false }
}

pub(crate) fn new_execution(tenant: &TenantId, initial_state: InitialState) -> NewExecution {
    NewExecution {
        id: Uuid::now_v7(),
        tenant: tenant.clone(),
        key_id: None,
        skill_name: "echo".into(),
        skill_version: "1.0.0".into(),
        digest: "sha256:echo".into(),
        input: Some(r#"{"n":1}"#.into()),
        request: r#"{"skill":"echo"}"#.into(),
        idempotency: None,
        idempotent: false,
        awaited: false,
        webhook: None,
        initial_state,
    }
}

pub(crate) fn idempotency(key: &str, body: &str) -> Option<Idempotency> {
    Some(Idempotency { key: key.into(), body_sha256: body.into() })
}

/// Fences and reaps, as a reaper does.
pub(crate) async fn reap(
    store: &Store,
    gone: StaleLeases<'_>,
    max_attempts: i32,
) -> Vec<ReapedExecution> {
    store.fence(gone, "reaper", LEASE_MS).await.expect("fenced");
    store.reap("reaper", max_attempts).await.expect("reaped")
}

pub(crate) fn finished(status: Status) -> FinishedExecution {
    FinishedExecution {
        status,
        output: Some(r#"{"ok":true}"#.into()),
        logs: "line one\nline two\n".into(),
        error: None,
        outcome: "exited".into(),
        exit_code: Some(0),
        detail: r#"{"usage":{}}"#.into(),
        duration_ms: 12,
        files: vec![],
        has_archive: false,
        archive_bytes: None,
        receipt: None,
    }
}

pub(crate) fn new_skill(name: &str, version: &str, digest: &str) -> NewSkill {
    NewSkill {
        name: name.into(),
        version: version.into(),
        digest: digest.into(),
        description: format!("{name} {version}"),
        lang: Some("python".into()),
        mode: "executable".into(),
        manifest: serde_json::json!({ "name": name, "unicode": "ä\u{0}" }),
        entrypoint: Some("main.py".into()),
        scripts: serde_json::json!(["main.py"]),
        findings: serde_json::json!([]),
        status: SkillStatus::Available,
        size_bytes: 123,
        signature: None,
    }
}
