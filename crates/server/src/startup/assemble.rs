//! Builds every part of the server from the configuration.

use std::sync::Arc;
use std::time::Duration;

use admission::{DiskReserve, SharedResources};
use blobs::{Blobs, DownloadTokenSigner, S3Config};
use catalogue::{Catalogue, CatalogueConfig};
use runner::{EnvKey, Room, Runner, RunnerConfig, RunnerParts};
use sandbox::{
    DockerConfig, DockerLauncher, Isolation, KubernetesConfig, KubernetesLauncher, LaunchError,
    Launcher, NativeConfig, NativeLauncher, Owner,
};
use store::Store;
use uuid::Uuid;

use crate::app::{App, RequestLimits, SharedApp};
use crate::audit::ReceiptHeadSigner;
use crate::auth::{AuthFailures, Keyring, TokenVerifier};
use crate::config::{
    Config, DockerSettings, KubernetesSettings, Role, S3Settings, SandboxSettings,
};
use crate::http::paging::Cursors;
use crate::metrics::Metrics;
use crate::routes::mcp;
use crate::routes::readiness::ReadyCache;
use crate::secrets::Secret;
use crate::secrets::receipt_keys::ReceiptKeys;
use crate::startup::bootstrap;
use crate::startup::data_dir::DataDir;
use crate::startup::serve::ServeError;
use crate::webhooks::WebhookSigner;

/// How long the first sandbox may take. Without a timeout, a kernel that cannot kill a guest would
/// block the start forever.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long sending a job and collecting its results may take, besides the run itself.
const MAX_RUN_OVERHEAD: Duration = Duration::from_secs(600);

/// How long the removal of a pod is retried: about as long as the restart of an API server takes.
const POD_REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Builds every part of the server, including the first key. Without a data directory all state is in
/// external services.
pub(crate) async fn assemble(
    config: &Config,
    data: Option<&DataDir>,
) -> Result<(SharedApp, Option<String>), ServeError> {
    let secret = secret(config, data)?;
    let tokens = config.jwt.clone().map(TokenVerifier::new).transpose()?;
    let store = match config.migrate_on_start {
        true => Store::open(&config.dsn()).await,
        false => Store::open_unmigrated(&config.dsn()).await,
    };
    let receipt_keys = ReceiptKeys::derive(&secret, config.receipt_key_generation)?;
    let heads = ReceiptHeadSigner::new(receipt_keys.signing.clone(), receipt_keys.accepted);
    let store = store.map_err(ServeError::Store)?.with_head_signer(Arc::new(heads));
    let store = store.with_storage_limit(config.max_stored_bytes);
    if !store.check_secret(&secret.fingerprint()).await.map_err(ServeError::Store)? {
        return Err(ServeError::Secret);
    }
    let blobs = blobs(config, data).await?;
    let keyring = Keyring::new(secret.derive("key hash"));
    let first_key = match config.role {
        Role::Worker => None,
        Role::All | Role::Api => bootstrap::first_key(config, data, &store, &keyring).await?,
    };
    let owner = Uuid::now_v7().to_string();
    let launcher = match config.role {
        Role::Api => None,
        Role::All | Role::Worker => Some(launcher(config, &owner).await?),
    };
    let (launcher, room) = launcher.unzip();
    let mut runner_config = runner_config(config, owner);
    runner_config.receipt_key = Some(receipt_keys.signing);
    runner_config.env_key = EnvKey::new(secret.derive("queued env"));
    let resources = SharedResources::new(config.max_buffer_bytes, disk_reserve(config, data));
    let catalogue = Arc::new(Catalogue::new(
        CatalogueConfig {
            max_file_bytes: config.max_file_bytes,
            skill_cache_bytes: config.skill_cache_bytes,
        },
        store.clone(),
        blobs.clone(),
        resources.clone(),
    ));
    let memory = resources.memory.clone();
    let parts = RunnerParts {
        store: store.clone(),
        blobs: blobs.clone(),
        catalogue: Arc::clone(&catalogue),
        resources,
        launcher,
    };
    let runner = Runner::start(runner_config, parts).await.map_err(ServeError::Runner)?;
    if let Some(room) = room {
        runner.note_sandbox(room);
    }
    let app = App {
        store,
        blobs,
        catalogue,
        runner,
        memory,
        keyring,
        auth_failures: AuthFailures::new(config.auth_failures),
        trusted_proxies: config.trusted_proxies.clone(),
        tokens,
        signer: DownloadTokenSigner::new(secret.derive("url signing")),
        cursors: Cursors::new(secret.derive("page cursor")),
        receipt_keys: receipt_keys.public,
        signatures: Arc::new(WebhookSigner::new(secret.derive("webhook"))),
        webhook_private_hosts: config.webhook_private_hosts.clone(),
        mcp: mcp::endpoint(config),
        metrics: Metrics::new(config.metrics_token.clone()),
        ready: ReadyCache::new(config.ready_age),
        limits: RequestLimits::from(config),
        public_url: config.public_url.clone(),
    };
    Ok((Arc::new(app), first_key))
}

/// Only the data directory grows with what is stored; without one, state is elsewhere.
fn disk_reserve(config: &Config, data: Option<&DataDir>) -> DiskReserve {
    let directories = data.map(|data| vec![data.path().to_owned()]).unwrap_or_default();
    DiskReserve { directories, bytes: config.min_free_disk_bytes }
}

fn secret(config: &Config, data: Option<&DataDir>) -> Result<Secret, ServeError> {
    match (&config.secret, data) {
        (Some(text), _) => Ok(Secret::from_text(text)),
        (None, Some(data)) => Ok(data.secret()?),
        (None, None) => unreachable!("a server without a data directory was given a secret"),
    }
}

async fn blobs(config: &Config, data: Option<&DataDir>) -> Result<Blobs, ServeError> {
    match (&config.s3, data) {
        (Some(s3), _) => Blobs::s3(s3_config(s3, config.role)).await.map_err(ServeError::S3),
        (None, Some(data)) => Blobs::directory(data.blobs()).map_err(ServeError::Blobs),
        (None, None) => unreachable!("a server without a data directory was given an object store"),
    }
}

pub(crate) fn s3_config(s3: &S3Settings, role: Role) -> S3Config {
    let S3Settings {
        endpoint,
        access_key,
        secret_key,
        bucket_skills,
        bucket_executions,
        region,
        public_url,
    } = s3.clone();
    // A worker publishes nothing, so its S3 key may have fewer rights.
    let skills_read_only = role == Role::Worker;
    S3Config {
        endpoint,
        region,
        access_key,
        secret_key,
        bucket_skills,
        bucket_executions,
        skills_read_only,
        public_url,
    }
}

async fn launcher(config: &Config, owner: &str) -> Result<(Arc<dyn Launcher>, Room), ServeError> {
    let mut limit = PROBE_TIMEOUT;
    let launcher: Arc<dyn Launcher> = match &config.sandbox {
        SandboxSettings::Native => Arc::new(native(config, owner)?),
        SandboxSettings::Docker(docker) => Arc::new(
            DockerLauncher::start(docker_launcher_config(config, docker, owner))
                .await
                .map_err(ServeError::Docker)?,
        ),
        SandboxSettings::Kubernetes(kubernetes) => {
            let kubernetes = kubernetes_launcher_config(config, kubernetes, owner);
            // The first pod may have to wait for a node, and the node for its images.
            limit += kubernetes.launch_timeout();
            Arc::new(KubernetesLauncher::start(kubernetes).await.map_err(ServeError::Kubernetes)?)
        }
    };
    // A server whose sandbox does not work is useless, so it fails at the start and not at the first
    // run.
    let Some(isolation) = probe_isolation(&launcher, limit).await? else {
        return Ok((launcher, Room::Full));
    };
    isolation.check(&config.require).map_err(refused)?;
    let missing: Vec<String> = isolation.missing().iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        tracing::warn!(
            missing = missing.join(","),
            "some isolation controls do not hold on this machine"
        );
    }
    Ok((launcher, Room::Free))
}

/// The isolation of a first sandbox; `None` when there is no capacity for one now. That does not
/// prevent the start: executions wait for capacity, and each launch checks the required controls
/// itself. A probe that hangs is leaked, because waiting for its end could take forever too.
async fn probe_isolation(
    launcher: &Arc<dyn Launcher>,
    limit: Duration,
) -> Result<Option<Isolation>, ServeError> {
    let probe = tokio::spawn({
        let launcher = Arc::clone(launcher);
        async move { launcher.probe().await }
    });
    match tokio::time::timeout(limit, probe).await {
        Ok(Ok(Err(LaunchError::NoRoom(said)))) => {
            tracing::warn!(
                said,
                "there is no capacity for a sandbox now; its isolation is not known yet"
            );
            Ok(None)
        }
        Ok(Ok(probed)) => probed.map(Some).map_err(refused),
        Ok(Err(_)) | Err(_) => {
            std::mem::forget(Arc::clone(launcher));
            Err(ServeError::Probe(limit))
        }
    }
}

fn native(config: &Config, owner: &str) -> Result<NativeLauncher, ServeError> {
    let native = NativeConfig {
        owner: Owner(owner.to_owned()),
        processes: config.launchers,
        require: config.require.clone(),
        search_path: config.runtime_path.clone(),
    };
    NativeLauncher::start(native).map_err(ServeError::Sandbox)
}

pub(crate) fn docker_launcher_config(
    config: &Config,
    docker: &DockerSettings,
    owner: &str,
) -> DockerConfig {
    DockerConfig {
        owner: Owner(owner.to_owned()),
        host: docker.host.clone(),
        runtime: docker.runtime.clone(),
        lifetime: config.run_policy.max_timeout + MAX_RUN_OVERHEAD,
        images: docker.images.clone(),
        allowlist: config.image_allowlist.clone(),
        require: config.require.clone(),
    }
}

pub(crate) fn kubernetes_launcher_config(
    config: &Config,
    kubernetes: &KubernetesSettings,
    owner: &str,
) -> KubernetesConfig {
    let limits = config.run_policy.output_limits;
    KubernetesConfig {
        owner: Owner(owner.to_owned()),
        kubeconfig: None,
        namespace: kubernetes.namespace.clone(),
        runtime_class: kubernetes.runtime_class.clone(),
        guest_image: kubernetes.guest_image.clone(),
        seccomp_profile: kubernetes.seccomp_profile.clone(),
        user_namespaces: kubernetes.user_namespaces,
        schedule_timeout: kubernetes.schedule_timeout,
        lifetime: config.run_policy.max_timeout + MAX_RUN_OVERHEAD,
        removal_timeout: POD_REMOVAL_TIMEOUT,
        max_output_bytes: limits.log_bytes + limits.output_bytes + limits.artifact_bytes,
        images: kubernetes.images.clone(),
        allowlist: config.image_allowlist.clone(),
        require: config.require.clone(),
    }
}

fn refused(error: LaunchError) -> ServeError {
    match error {
        LaunchError::Missing(_) => ServeError::Require(error),
        _ => ServeError::Sandbox(error),
    }
}

/// How often an idle server starts a sandbox only to check that it can. A container costs an engine
/// about a second; a pod costs work of the scheduler and a node, and a part of the quota, which many
/// workers would take from the runs.
fn probe_every(sandbox: &SandboxSettings) -> Duration {
    Duration::from_secs(match sandbox {
        SandboxSettings::Native => 10,
        SandboxSettings::Docker(_) => 60,
        SandboxSettings::Kubernetes(_) => 300,
    })
}

fn runner_config(config: &Config, owner: String) -> RunnerConfig {
    let Config { max_concurrent_execs, lease, .. } = *config;
    let fixed = RunnerConfig::new(owner, max_concurrent_execs, lease, config.run_policy.clone());
    RunnerConfig {
        probe_every: probe_every(&config.sandbox),
        retention: config.retention.into(),
        #[cfg(debug_assertions)]
        failpoint: config.failpoint,
        // The lock of the data directory proves that no other process uses the database in it.
        exclusive_store: config.db_dsn.is_none(),
        archives_read_only: config.role == Role::Worker,
        ..fixed
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use sandbox::{Guest, Shape};

    use super::*;

    /// Launchers whose probe hangs, finds no capacity, or fails.
    enum FakeLauncher {
        Stuck,
        Full,
        Broken,
    }

    #[async_trait]
    impl Launcher for FakeLauncher {
        async fn launch(&self, _: &Shape) -> Result<Guest, LaunchError> {
            std::future::pending().await
        }

        async fn sweep(&self, _: &Owner) -> Result<usize, LaunchError> {
            std::future::pending().await
        }

        async fn probe(&self) -> Result<Isolation, LaunchError> {
            match self {
                FakeLauncher::Stuck => std::future::pending().await,
                FakeLauncher::Full => {
                    Err(LaunchError::NoRoom("exceeded quota: compute".to_owned()))
                }
                FakeLauncher::Broken => Err(LaunchError::LauncherGone),
            }
        }
    }

    async fn probe_of(
        played: FakeLauncher,
        limit: Duration,
    ) -> Result<Option<Isolation>, ServeError> {
        let launcher: Arc<dyn Launcher> = Arc::new(played);
        probe_isolation(&launcher, limit).await
    }

    #[tokio::test]
    async fn a_hanging_probe_does_not_block_the_start() {
        let refused = probe_of(FakeLauncher::Stuck, Duration::from_millis(20)).await;
        assert!(matches!(refused, Err(ServeError::Probe(_))));
    }

    #[tokio::test]
    async fn a_failed_probe_prevents_the_start_and_missing_capacity_does_not() {
        assert!(matches!(probe_of(FakeLauncher::Full, PROBE_TIMEOUT).await, Ok(None)));
        assert!(matches!(
            probe_of(FakeLauncher::Broken, PROBE_TIMEOUT).await,
            Err(ServeError::Sandbox(_))
        ));
    }
}
