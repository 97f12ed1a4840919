//! From a configuration to a running server, and its graceful shutdown.

use std::net::SocketAddr;
use std::time::Duration;

use blobs::BlobError;
use runner::RunError;
use sandbox::LaunchError;
use skill::signature::SignatureError;
use store::StoreError;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::SharedApp;
use crate::auth::TokenConfigError;
use crate::config::Config;
use crate::error::error_chain;
use crate::http::listen::HttpConnections;
use crate::router;
use crate::startup::assemble::assemble;
use crate::startup::bootstrap::BootstrapError;
use crate::startup::data_dir::{DataDir, DataDirError};
use crate::startup::{logging, migration_wait};
use crate::webhooks::WebhookDelivery;

/// After the drain, for responses that are still being sent.
const RESPONSE_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The address of a server that accepts connections.
pub struct Bound {
    pub addr: SocketAddr,
    /// The first key, when this start generated it. It is not shown again.
    pub first_key: Option<String>,
}

/// Why the server did not start. Every message names what to change.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "port {port} on {addr} is taken. Stop what uses it, or set SKILLBOX_API_PORT to another."
    )]
    PortTaken { addr: std::net::IpAddr, port: u16 },
    #[error("cannot listen on {addr} (SKILLBOX_BIND, SKILLBOX_API_PORT): {source}")]
    Listen { addr: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    #[error(transparent)]
    TokenVerifier(#[from] TokenConfigError),
    #[error("cannot open the database (SKILLBOX_DB_DSN): {}", error_chain(.0))]
    Store(#[source] StoreError),
    #[error(
        "this database belongs to servers with another secret. Set SKILLBOX_SECRET to theirs (without it, to what made \
         the data directory's file `secret`): no key, URL or webhook of theirs would be valid here."
    )]
    Secret,
    #[error("cannot use the blob directory (SKILLBOX_DATA_DIR): {}", error_chain(.0))]
    Blobs(#[source] BlobError),
    #[error("cannot use the object store (SKILLBOX_S3_ENDPOINT and the other S3 settings): {}", error_chain(.0))]
    S3(#[source] BlobError),
    #[error("the sandbox does not work here: {}. `skillbox doctor` says more.", error_chain(.0))]
    Sandbox(#[source] LaunchError),
    #[error("cannot use the Docker engine (SKILLBOX_DOCKER_HOST): {}. `skillbox doctor` says more.", error_chain(.0))]
    Docker(#[source] LaunchError),
    #[error("cannot use Kubernetes: {}. `skillbox doctor` says more.", error_chain(.0))]
    Kubernetes(#[source] LaunchError),
    #[error(
        "the first sandbox was not made and removed within {}s, so none will be. `skillbox doctor` says more.",
        .0.as_secs()
    )]
    Probe(std::time::Duration),
    #[error("SKILLBOX_REQUIRE: {0}")]
    Require(#[source] LaunchError),
    #[error("the secret gives no key for receipts: {0}. Raise SKILLBOX_RECEIPT_KEY_GENERATION.")]
    ReceiptKey(#[source] SignatureError),
    #[error("cannot call webhooks: {}", error_chain(.0))]
    WebhookDelivery(#[source] reqwest::Error),
    #[error("cannot start the runner: {}", error_chain(.0))]
    Runner(#[source] RunError),
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once.
pub async fn serve(config: Config, ready: impl FnOnce(Bound)) -> Result<(), ServeError> {
    logging::start(&config);
    let stop = stop_on_signal().map_err(ServeError::Signals)?;
    serve_until(config, ready, stop).await
}

/// Serves until `stop` is cancelled, then drains.
pub async fn serve_until(
    config: Config,
    ready: impl FnOnce(Bound),
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let data = match config.is_stateless() {
        true => None,
        false => Some(DataDir::open(&config.data_dir)?),
    };
    let listener = listen(&config).await?;
    let addr = listener
        .local_addr()
        .map_err(|source| ServeError::Listen { addr: address(&config), source })?;
    // `stop` also ends a start that waits, for example for the database.
    if !config.migrate_on_start {
        tokio::select! {
            migrated = migration_wait::wait_for_migrations(&config, &listener) => migrated?,
            () = stop.cancelled() => return Ok(()),
        }
    }
    let (app, first_key) = tokio::select! {
        assembled = assemble(&config, data.as_ref()) => assembled?,
        () = stop.cancelled() => return Ok(()),
    };
    let webhooks = WebhookDelivery::start(&config, &app)?;
    let connections = HttpConnections::new(
        router::build(app.clone(), config.role),
        &config,
        app.metrics.connections.clone(),
    );
    let data_dir = data.as_ref().map(|_| config.data_dir.display());
    tracing::info!(%addr, role = %config.role, data_dir = data_dir.map(tracing::field::display), "serving");
    ready(Bound { addr, first_key });
    connections.accept(&listener, &stop).await;
    // New connections are refused from here on, so that a load balancer uses another server at once.
    drop(listener);
    drain(&config, app, connections, webhooks).await;
    Ok(())
}

async fn listen(config: &Config) -> Result<TcpListener, ServeError> {
    let addr = address(config);
    TcpListener::bind(addr).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            ServeError::PortTaken { addr: config.bind, port: config.api_port }
        }
        _ => ServeError::Listen { addr, source },
    })
}

fn address(config: &Config) -> SocketAddr {
    SocketAddr::new(config.bind, config.api_port)
}

/// Waits until running executions and their responses are finished, within limits.
async fn drain(
    config: &Config,
    app: SharedApp,
    connections: HttpConnections,
    webhooks: WebhookDelivery,
) {
    tracing::info!("draining");
    let finish =
        tokio::time::timeout(config.drain_timeout + RESPONSE_GRACE_PERIOD, connections.finish());
    let runs = async {
        app.runner.drain(config.drain_timeout).await;
        // All results are reported now, so MCP sessions that are still open get nothing more.
        app.mcp.shut_down(RESPONSE_GRACE_PERIOD).await;
    };
    let ((), finished) = tokio::join!(runs, finish);
    if finished.is_err() {
        tracing::warn!("some connections did not end in time and were closed");
    }
    // After the runs, because those that just ended have webhooks too. Any other server delivers
    // what is left.
    webhooks.finish().await;
    app.store.close().await;
    tracing::info!("stopped");
}

fn stop_on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let signalled = stop.clone();
    tokio::task::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        signalled.cancel();
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        // The executions that still run are recovered by their leases, their sandboxes by the sweep of
        // the next start.
        std::process::exit(130);
    });
    Ok(stop)
}
