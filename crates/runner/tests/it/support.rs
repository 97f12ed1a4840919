//! One runner on a store and blobs of its own, with a launcher that can be watched and held back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use admission::{DiskReserve, SharedResources};
use async_trait::async_trait;
use blobs::{Blobs, S3Config};
use catalogue::{Catalogue, CatalogueConfig};
use runner::{
    Caller, Detail, EnvKey, Request, RunError, RunPolicy, Runner, RunnerConfig, RunnerParts,
};
use sandbox::{
    Guest, Isolation, LaunchError, Launcher, NativeConfig, NativeLauncher, OutputLimits, Owner,
    Shape,
};
use store::{
    Execution, ExecutionFilter, Idempotency, PageRequest, PutSkillResult, Status, Store, TenantId,
    TenantPolicy,
};
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

pub(crate) struct Bench {
    pub runner: Arc<Runner>,
    pub catalogue: Arc<Catalogue>,
    pub store: Store,
    pub blobs: Blobs,
    pub launcher: Arc<Watched>,
    pub data: TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Bench {
        Bench::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut RunnerConfig)) -> Bench {
        let data = TempDir::new().expect("a temporary directory");
        let (store, blobs) = open(data.path()).await;
        store.ensure_tenant(&acme()).await.expect("a tenant");
        Bench::on(data, store, blobs, change).await
    }

    /// A runner on what another one left.
    pub(crate) async fn on(
        data: TempDir,
        store: Store,
        blobs: Blobs,
        change: impl FnOnce(&mut RunnerConfig),
    ) -> Bench {
        let owner = format!("test-{}", Uuid::new_v4());
        let launcher = Arc::new(Watched::new(&owner));
        let mut config = runner_config(owner);
        config.slots = 2;
        config.env_key = EnvKey::new([7; 32]);
        // A test that waits for the tick instead of an event would hang rather than pass slowly.
        config.queue_tick = Duration::from_secs(600);
        change(&mut config);
        let parts = parts(store.clone(), blobs.clone(), Some(launcher.clone()));
        let catalogue = Arc::clone(&parts.catalogue);
        let runner = Runner::start(config, parts).await.expect("a runner");
        Bench { runner, catalogue, store, blobs, launcher, data }
    }

    pub(crate) async fn publish(&self, files: &[(&str, &str)]) -> PutSkillResult {
        let policy = TenantPolicy::default();
        self.catalogue
            .publish(None, &acme(), package(files), &[], &policy)
            .await
            .expect("published")
            .put
    }

    /// A skill called `demo` with this one script.
    pub(crate) async fn script(&self, name: &str, content: &str) {
        self.publish(&[("SKILL.md", SKILL_MD), (name, content)]).await;
    }

    pub(crate) async fn run(&self, json: &str) -> Execution {
        self.try_run(json).await.expect("an execution")
    }

    pub(crate) async fn try_run(&self, json: &str) -> Result<Execution, RunError> {
        self.runner
            .execute(&caller(), request(json), None)
            .await
            .map(|completed| completed.into_parts().0.execution)
    }

    /// A run whose caller waits in a task of its own.
    pub(crate) fn spawn(
        &self,
        json: &str,
        key: Option<&str>,
    ) -> JoinHandle<Result<Execution, RunError>> {
        let (runner, request, key) =
            (Arc::clone(&self.runner), request(json), key.map(idempotency));
        tokio::spawn(async move {
            runner
                .execute(&caller(), request, key)
                .await
                .map(|completed| completed.into_parts().0.execution)
        })
    }

    pub(crate) async fn with_status(&self, status: Status) -> Vec<Execution> {
        let filter = ExecutionFilter { status: Some(status), ..ExecutionFilter::default() };
        let page = PageRequest { limit: 100, offset: 0, after: None };
        self.store.list_executions(&acme(), &filter, &page).await.expect("a list")
    }

    /// The one execution in this state, as soon as there is one.
    pub(crate) async fn one(&self, status: Status) -> Execution {
        until(async || self.with_status(status).await.pop()).await
    }

    pub(crate) async fn stored(&self, id: Uuid) -> Execution {
        self.store.get_execution(&acme(), id).await.expect("answered").expect("stored")
    }

    /// Every file below the blobs' directory that belongs to executions.
    pub(crate) fn execution_blobs(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![self.data.path().join("blobs").join("acme").join("executions")];
        while let Some(dir) = left.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                if path.is_dir() { left.push(path) } else { found.push(path.display().to_string()) }
            }
        }
        found
    }
}

/// What `look` finds, as soon as it finds something. For changes that nothing announces to a test;
/// the bound only keeps a broken build from hanging.
pub(crate) async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("what was awaited never came")
}

pub(crate) fn runner_config(owner: String) -> RunnerConfig {
    RunnerConfig::new(owner, 4, Duration::from_secs(30), run_policy())
}

pub(crate) fn run_policy() -> RunPolicy {
    RunPolicy {
        default_timeout: Duration::from_secs(120),
        max_timeout: Duration::from_secs(600),
        default_memory_bytes: 256 << 20,
        max_memory_bytes: 1 << 30,
        default_cpu_millis: 500,
        max_cpu_millis: 4000,
        pids: RunPolicy::PIDS,
        disk_inodes: RunPolicy::DISK_INODES,
        output_limits: OutputLimits {
            log_bytes: 1 << 20,
            output_bytes: 1 << 20,
            artifact_bytes: 256 << 20,
            artifact_files: 1000,
        },
        image_allowlist: None,
    }
}

pub(crate) const SKILL_MD: &str = "---\nname: demo\ndescription: A demonstration.\n---\nDo it.\n";

pub(crate) async fn open(data: &Path) -> (Store, Blobs) {
    let store =
        Store::open(&format!("sqlite:{}", data.join("db").display())).await.expect("a store");
    let blobs = Blobs::directory(data.join("blobs")).expect("blobs");
    (store, blobs)
}

/// The parts of a runner, with a catalogue of its own.
pub(crate) fn parts(
    store: Store,
    blobs: Blobs,
    launcher: Option<Arc<dyn Launcher>>,
) -> RunnerParts {
    let resources = SharedResources::new(400 << 20, DiskReserve::default());
    let (config, resources_too) = (CatalogueConfig::default(), resources.clone());
    let catalogue = Arc::new(Catalogue::new(config, store.clone(), blobs.clone(), resources_too));
    RunnerParts { store, blobs, catalogue, resources, launcher }
}

/// The tests' S3 server, shared with others: a test stores only what is its own and removes it.
/// Without a server the test says so and is not run.
pub(crate) async fn s3(test: &str) -> Option<Blobs> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test harness has no configuration to take it from"
    )]
    let set = |name: &str| std::env::var(format!("SKILLBOX_TEST_S3_{name}")).ok();
    let (Some(endpoint), Some(access_key), Some(secret_key)) =
        (set("ENDPOINT"), set("ACCESS_KEY"), set("SECRET_KEY"))
    else {
        println!("NEEDS S3: {test} was not run, because SKILLBOX_TEST_S3_ENDPOINT is not set");
        return None;
    };
    let config = S3Config {
        endpoint,
        region: "us-east-1".to_owned(),
        access_key,
        secret_key,
        bucket_skills: "skillbox-test-skills".to_owned(),
        bucket_executions: "skillbox-test-executions".to_owned(),
        skills_read_only: false,
        public_url: None,
    };
    Some(Blobs::s3(config).await.expect("an S3 server"))
}

pub(crate) fn package(files: &[(&str, &str)]) -> skill::Package {
    let parts = files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec()))
        .collect();
    skill::read_parts(parts, &skill::PackageLimits::default()).expect("a skill")
}

pub(crate) fn acme() -> TenantId {
    TenantId::try_from("acme").expect("a tenant's name")
}

pub(crate) fn caller() -> Caller {
    Caller { tenant: acme(), key_id: None, skills: None }
}

pub(crate) fn request(json: &str) -> Request {
    serde_json::from_str(json).expect("a request")
}

pub(crate) fn idempotency(key: &str) -> Idempotency {
    Idempotency { key: key.to_owned(), body_sha256: "same".to_owned() }
}

pub(crate) fn detail(execution: &Execution) -> Detail {
    serde_json::from_str(execution.detail.as_deref().expect("detail")).expect("a detail")
}

/// The native launcher, counting what it launches and waiting at a gate.
pub(crate) struct Watched {
    native: NativeLauncher,
    launches: watch::Sender<usize>,
    gate: Semaphore,
    /// So many launches fail before the next succeeds.
    failures: AtomicUsize,
    /// Neither launches nor probes succeed.
    away: AtomicBool,
    probes: watch::Sender<usize>,
}

impl Watched {
    fn new(owner: &str) -> Watched {
        let config = NativeConfig {
            owner: Owner(owner.to_owned()),
            processes: 1,
            require: Vec::new(),
            search_path: None,
        };
        let native = NativeLauncher::start(config).expect("a launcher");
        Watched {
            native,
            launches: watch::Sender::new(0),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            failures: AtomicUsize::new(0),
            away: AtomicBool::new(false),
            probes: watch::Sender::new(0),
        }
    }

    /// As an engine that is stopped, and started again.
    pub(crate) fn be_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// Waits until so many probes were asked for.
    pub(crate) async fn probed(&self, count: usize) {
        self.probes
            .subscribe()
            .wait_for(|probes| *probes >= count)
            .await
            .expect("the sender lives");
    }

    /// The next launches fail, as they do while an engine is away.
    pub(crate) fn fail(&self, launches: usize) {
        self.failures.store(launches, Ordering::SeqCst);
    }

    pub(crate) fn launches(&self) -> usize {
        *self.launches.borrow()
    }

    /// Waits until so many launches were asked for.
    pub(crate) async fn launched(&self, count: usize) {
        self.launches
            .subscribe()
            .wait_for(|launches| *launches >= count)
            .await
            .expect("the sender lives");
    }

    /// From now on launches wait.
    pub(crate) fn close(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }
}

#[async_trait]
impl Launcher for Watched {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        self.launches.send_modify(|launches| *launches += 1);
        let _open = self.gate.acquire().await.expect("the gate is never closed for good");
        let failing = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if failing.is_ok() || self.away.load(Ordering::SeqCst) {
            return Err(LaunchError::LauncherGone);
        }
        self.native.launch(shape).await
    }

    async fn sweep(&self, owner: &Owner) -> Result<usize, LaunchError> {
        self.native.sweep(owner).await
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        self.probes.send_modify(|probes| *probes += 1);
        if self.away.load(Ordering::SeqCst) {
            return Err(LaunchError::LauncherGone);
        }
        self.native.probe().await
    }
}
