//! From a configuration to a running server, and to its orderly end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use blobs::{BlobError, Blobs, Signer};
use runner::{Policy, RunError, Runner, RunnerConfig};
use sandbox::{Caps, LaunchError, Launcher, NativeConfig, NativeLauncher, Owner};
use store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::{App, Limits, Shared};
use crate::auth::Keyring;
use crate::bootstrap::{self, BootstrapError};
use crate::config::Config;
use crate::data_dir::{DataDir, DataDirError};
use crate::error::chain;
use crate::listen::Connections;
use crate::paging::Cursors;
use crate::{router, telemetry};

/// After the drain, for answers that are still on their way to a client.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a caller learns when the server accepts connections.
pub struct Bound {
    pub addr: SocketAddr,
    /// The first key, when this start made it. It is not shown again.
    pub first_key: Option<String>,
}

/// Why the server did not start. Every message says what to change.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("port {port} on {addr} is taken. Stop what uses it, or set SKILLBOX_API_PORT to another.")]
    PortTaken { addr: std::net::IpAddr, port: u16 },
    #[error("cannot listen on {addr} (SKILLBOX_BIND, SKILLBOX_API_PORT): {source}")]
    Listen { addr: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    #[error("cannot open the database (SKILLBOX_DB_DSN): {}", chain(.0))]
    Store(#[source] StoreError),
    #[error("cannot use the blob directory (SKILLBOX_DATA_DIR): {}", chain(.0))]
    Blobs(#[source] BlobError),
    #[error("the sandbox does not work here: {}. `skillbox doctor` says more.", chain(.0))]
    Sandbox(#[source] LaunchError),
    #[error("SKILLBOX_REQUIRE: {0}")]
    Require(#[source] LaunchError),
    #[error("cannot take up work: {}", chain(.0))]
    Runner(#[source] RunError),
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once.
pub async fn serve(config: Config, ready: impl FnOnce(Bound)) -> Result<(), ServeError> {
    telemetry::start(&config);
    let stop = stop_on_signal().map_err(ServeError::Signals)?;
    serve_until(config, ready, stop).await
}

/// Serves until `stop` is cancelled, then drains.
pub async fn serve_until(config: Config, ready: impl FnOnce(Bound), stop: CancellationToken) -> Result<(), ServeError> {
    for name in &config.unknown_variables {
        tracing::warn!("{name} is not a setting of this server; is it misspelt?");
    }
    let data = DataDir::open(&config.data_dir)?;
    let listener = listen(&config).await?;
    let addr = listener.local_addr().map_err(|source| ServeError::Listen { addr: address(&config), source })?;
    // A start that waits, for a database say, can be called off too.
    let (app, first_key) = tokio::select! {
        assembled = assemble(&config, &data) => assembled?,
        () = stop.cancelled() => return Ok(()),
    };
    let connections = Connections::new(router::build(app.clone()), &config);
    tracing::info!(%addr, data_dir = %config.data_dir.display(), "serving");
    ready(Bound { addr, first_key });
    connections.accept(&listener, &stop).await;
    // New clients are refused from here on, so that a load balancer looks elsewhere at once.
    drop(listener);
    drain(&config, app, connections).await;
    Ok(())
}

async fn listen(config: &Config) -> Result<TcpListener, ServeError> {
    let addr = address(config);
    TcpListener::bind(addr).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => ServeError::PortTaken { addr: config.bind, port: config.api_port },
        _ => ServeError::Listen { addr, source },
    })
}

fn address(config: &Config) -> SocketAddr {
    SocketAddr::new(config.bind, config.api_port)
}

/// Builds every part of the server, the first key included.
async fn assemble(config: &Config, data: &DataDir) -> Result<(Shared, Option<String>), ServeError> {
    let secret = data.secret()?;
    let store = Store::open(&config.dsn()).await.map_err(ServeError::Store)?;
    let blobs = Blobs::directory(data.blobs()).map_err(ServeError::Blobs)?;
    let keyring = Keyring::new(secret.derive("key hash"));
    let first_key = bootstrap::first_key(config, data, &store, &keyring).await?;
    let owner = Uuid::now_v7().to_string();
    let launcher = launcher(config, &owner).await?;
    let runner = Runner::start(runner_config(config, owner), store.clone(), blobs.clone(), launcher)
        .await
        .map_err(ServeError::Runner)?;
    let app = App {
        store,
        blobs,
        runner,
        keyring,
        signer: Signer::new(secret.derive("url signing")),
        cursors: Cursors::new(secret.derive("page cursor")),
        limits: Limits::from(config),
        public_url: config.public_url.clone(),
    };
    Ok((Arc::new(app), first_key))
}

async fn launcher(config: &Config, owner: &str) -> Result<Arc<dyn Launcher>, ServeError> {
    let native = NativeConfig {
        owner: Owner(owner.to_owned()),
        processes: config.launchers,
        require: config.require.clone(),
        search_path: config.runtime_path.clone(),
    };
    let launcher = NativeLauncher::start(native).map_err(ServeError::Sandbox)?;
    // A server whose sandbox does not work has nothing to offer; better said now than with the first run.
    let isolation = launcher.probe().await.map_err(refused)?;
    isolation.check(&config.require).map_err(refused)?;
    let missing: Vec<String> = isolation.missing().iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        tracing::warn!(missing = missing.join(","), "some isolation controls do not hold on this machine");
    }
    Ok(Arc::new(launcher))
}

fn refused(error: LaunchError) -> ServeError {
    match error {
        LaunchError::Missing(_) => ServeError::Require(error),
        _ => ServeError::Sandbox(error),
    }
}

fn runner_config(config: &Config, owner: String) -> RunnerConfig {
    let defaults = RunnerConfig::new(owner);
    RunnerConfig {
        slots: config.max_concurrent_execs,
        // The data directory's lock proves that nobody else uses the database inside it.
        exclusive_store: config.db_dsn.is_none(),
        policy: Policy {
            default_timeout: config.default_timeout,
            max_timeout: config.max_timeout,
            default_memory_bytes: config.default_memory_bytes,
            max_memory_bytes: config.max_memory_bytes,
            default_cpu_millis: config.default_cpu_millis,
            max_cpu_millis: config.max_cpu_millis,
            caps: Caps {
                log_bytes: config.max_log_bytes,
                output_bytes: config.max_output_bytes,
                artifact_bytes: config.max_artifact_bytes,
                artifact_files: config.max_artifact_files,
            },
            image_allowlist: Some(config.image_allowlist.clone()),
            ..defaults.policy
        },
        ..defaults
    }
}

/// Lets running executions and their answers finish, within limits.
async fn drain(config: &Config, app: Shared, connections: Connections) {
    tracing::info!("draining");
    let finish = tokio::time::timeout(config.drain_timeout + LAST_WORDS, connections.finish());
    let ((), finished) = tokio::join!(app.runner.drain(config.drain_timeout), finish);
    if finished.is_err() {
        tracing::warn!("some connections did not end in time and were cut");
    }
    app.store.close().await;
    tracing::info!("stopped");
}

fn stop_on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::task::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        told.cancel();
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        // Leases and the sweep at the next start take care of what runs now.
        std::process::exit(130);
    });
    Ok(stop)
}
