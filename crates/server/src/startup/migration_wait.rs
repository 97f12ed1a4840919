//! Waits for migrations: a process that must not migrate the database itself waits before its start
//! until another process has. Meanwhile it is alive, not ready, and reports why.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{any, get};
use store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::error::{ApiError, Slug};
use crate::http::listen::HttpConnections;
use crate::router::layered;
use crate::routes::health;
use crate::startup::serve::ServeError;

/// How often the schema is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// For responses that are still being sent when the wait is over.
const RESPONSE_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Returns when the schema is up to date. Fails when waiting does not help: the schema is too new, or
/// cannot be read.
pub(crate) async fn wait_for_migrations(
    config: &Config,
    listener: &TcpListener,
) -> Result<(), ServeError> {
    let dsn = config.dsn();
    let why = match Store::check_schema(&dsn).await {
        Ok(()) => return Ok(()),
        Err(why @ StoreError::SchemaTooOld { .. }) => why.to_string(),
        Err(error) => return Err(ServeError::Store(error)),
    };
    let addr = listener.local_addr().ok();
    tracing::warn!(addr = addr.map(tracing::field::display), "waiting: {why}");
    let connections = HttpConnections::new(not_ready_router(why), config, Arc::default());
    let migrated = CancellationToken::new();
    let polling = async {
        let result = poll_schema(&dsn).await;
        migrated.cancel();
        result
    };
    let (result, ()) = tokio::join!(polling, connections.accept(listener, &migrated));
    let _ = tokio::time::timeout(RESPONSE_GRACE_PERIOD, connections.finish()).await;
    result
}

async fn poll_schema(dsn: &str) -> Result<(), ServeError> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match Store::check_schema(dsn).await {
            Ok(()) => return Ok(()),
            Err(StoreError::SchemaTooOld { .. }) => {}
            Err(error) if error.is_outage() => {
                tracing::warn!(%error, "the schema could not be checked")
            }
            Err(error) => return Err(ServeError::Store(error)),
        }
    }
}

/// `/health` succeeds; `/ready` and everything else fail with the reason.
fn not_ready_router(why: String) -> Router {
    let not_ready = async move || health::not_ready(why.clone());
    let unavailable = async || {
        ApiError::new(
            Slug::NotReady,
            "The server waits for the migration of its database. Try again shortly.",
        )
    };
    let routes = Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(not_ready))
        .route("/", any(unavailable))
        .route("/{*path}", any(unavailable));
    layered(routes)
}
