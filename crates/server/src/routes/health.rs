//! `/health`: the process lives. `/ready`: it can do its work.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use runner::Room;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::error::{ApiError, Slug};

#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// The process is alive
#[utoipa::path(get, path = "/health", tag = "health", operation_id = "health", security(()), responses((status = 200, body = Health)))]
pub async fn health() -> axum::Json<Health> {
    axum::Json(Health { status: "ok" })
}

#[derive(Serialize, ToSchema)]
pub struct Ready {
    /// `ready` or `not_ready`.
    status: &'static str,
    checks: Checks,
    /// `not_ready`, when something does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Slug>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// `ok`, or what is wrong. The order is part of the contract.
#[derive(Serialize, ToSchema)]
struct Checks {
    /// The metadata store, whichever database serves it.
    #[schema(example = "ok")]
    postgres: String,
    #[schema(example = "ok")]
    blobs: String,
    #[schema(example = "ok")]
    /// Missing where nothing runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// Only when less is free than the reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<String>,
}

/// The server can do its work
#[utoipa::path(
    get, path = "/ready", tag = "health", operation_id = "ready", security(()),
    responses((status = 200, body = Ready), (status = 503, description = "`not_ready`", body = Ready))
)]
pub async fn ready(State(app): State<SharedApp>) -> Response {
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

/// The answer of a server that has not started yet, because of its database.
pub fn not_ready(postgres: String) -> Response {
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
        message: Some("Something this server needs does not answer; `checks` says what."),
    };
    (StatusCode::SERVICE_UNAVAILABLE, axum::Json(body)).into_response()
}
