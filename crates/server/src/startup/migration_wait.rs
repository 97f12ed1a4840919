//! Before the start: a process that may not change the tables waits until somebody has. Meanwhile
//! it lives, is not ready, and says why.

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

/// How often to look.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// For responses that are on their way when the waiting is over.
const RESPONSE_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Returns when the tables are there. An error when waiting does not help: they are too new, or
/// cannot be read.
pub async fn wait_for_migrations(
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
    let over = CancellationToken::new();
    let looked = async {
        let looked = poll_schema(&dsn).await;
        over.cancel();
        looked
    };
    let (looked, ()) = tokio::join!(looked, connections.accept(listener, &over));
    let _ = tokio::time::timeout(RESPONSE_GRACE_PERIOD, connections.finish()).await;
    looked
}

async fn poll_schema(dsn: &str) -> Result<(), ServeError> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match Store::check_schema(dsn).await {
            Ok(()) => return Ok(()),
            Err(StoreError::SchemaTooOld { .. }) => {}
            Err(error) if error.is_outage() => {
                tracing::warn!(%error, "the tables could not be looked at")
            }
            Err(error) => return Err(ServeError::Store(error)),
        }
    }
}

/// Alive, and nothing else.
fn not_ready_router(why: String) -> Router {
    let not_ready = async move || health::not_ready(why.clone());
    let refused = async || {
        ApiError::new(Slug::NotReady, "The server waits for its database. Try again shortly.")
    };
    let routes = Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(not_ready))
        .route("/", any(refused))
        .route("/{*path}", any(refused));
    layered(routes)
}
