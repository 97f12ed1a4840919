//! `/health`: liveness. `/ready`: readiness.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use runner::Room;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::error::{ApiError, Slug};

#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// The process is alive
#[utoipa::path(get, path = "/health", tag = "health", operation_id = "health", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn health() -> axum::Json<Health> {
    axum::Json(Health { status: "ok" })
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Ready {
    /// `ready` or `not_ready`.
    status: &'static str,
    checks: Checks,
    /// `not_ready`, when a check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Slug>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// `ok`, or the problem. The order is part of the contract.
#[derive(Serialize, ToSchema)]
struct Checks {
    /// The metadata store, on whichever database.
    #[schema(example = "ok")]
    postgres: String,
    #[schema(example = "ok")]
    blobs: String,
    #[schema(example = "ok")]
    /// Absent on servers that run nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// Present only when less than the reserve is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<String>,
}

/// The server is ready
#[utoipa::path(
    get, path = "/ready", tag = "health", operation_id = "ready", security(()),
    responses((status = 200, body = Ready), (status = 503, description = "`not_ready`", body = Ready))
)]
pub(crate) async fn ready(State(app): State<SharedApp>) -> Response {
    let Some(readiness) = app.ready.get(&app).await else {
        return ApiError::internal("the check of readiness panicked").into_response();
    };
    let ok = readiness.ok();
    let word = |check: Result<(), &String>| check.err().cloned().unwrap_or_else(|| "ok".into());
    // One that is full works: what is queued waits for room, and another process would find none
    // either.
    let sandbox = readiness.sandbox.as_ref().map(|sandbox| match sandbox.as_ref() {
        Ok(Room::Full) => "full".into(),
        sandbox => word(sandbox.map(|_| ())),
    });
    let checks = Checks {
        postgres: word(readiness.store.as_ref().copied()),
        blobs: word(readiness.blobs.as_ref().copied()),
        sandbox,
        disk: readiness.disk.as_ref().err().cloned(),
    };
    if ok {
        let body = Ready { status: "ready", checks, error: None, message: None };
        return axum::Json(body).into_response();
    }
    refusal(checks)
}

/// The response of a server that still waits for its database.
pub(crate) fn not_ready(postgres: String) -> Response {
    refusal(Checks {
        postgres,
        blobs: "not asked before the database is there".into(),
        sandbox: None,
        disk: None,
    })
}

fn refusal(checks: Checks) -> Response {
    let body = Ready {
        status: "not_ready",
        checks,
        error: Some(Slug::NotReady),
        message: Some("A dependency of this server does not respond; see `checks`."),
    };
    (StatusCode::SERVICE_UNAVAILABLE, axum::Json(body)).into_response()
}
