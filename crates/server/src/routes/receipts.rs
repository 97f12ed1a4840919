//! Receipts, which this server signs for executions, and the keys that verify them.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use serde::Serialize;
use utoipa::ToSchema;

use super::executions::find;
use crate::app::SharedApp;
use crate::auth::{Allowed, Read};
use crate::error::{ApiError, Slug};
use crate::http::extract::{self, Path};

/// A signed receipt. The signature covers the exact bytes: store them unchanged.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; a receipt is stored as it was signed")]
pub(crate) struct Receipt {
    #[schema(rename = "type", example = "skillbox receipt 1")]
    kind: String,
    /// JSON text, exactly as it was signed: the skill, hashes of inputs and outputs, isolation,
    /// outcome, times.
    payload: String,
    /// A minisign signature over `payload`.
    signature: String,
}

/// Read an execution's receipt
///
/// Signed when the result was recorded, and the same on every read. An execution that ended without
/// a worker (cancelled while queued, or lost) has none.
#[utoipa::path(
    get, path = "/v1/executions/{id}/receipt", tag = "executions", operation_id = "get_execution_receipt",
    params(("id" = String, Path, format = "uuid")),
    responses(
        (status = 200, body = Receipt),
        (status = 409, description = "`conflict`: the execution has not ended yet", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn get(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let id = extract::parse_id("Execution", &id)?;
    let execution = find(&app, &caller, id).await?;
    if !execution.status.is_terminal() {
        return Err(ApiError::new(Slug::Conflict, "This execution has not ended yet."));
    }
    let receipt = app
        .store
        .get_receipt(&caller.tenant, id)
        .await?
        .ok_or_else(|| ApiError::not_found("Receipt of execution", &id.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], receipt).into_response())
}

/// The keys that receipts are signed with.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReceiptKeys {
    #[serde(flatten)]
    current: ReceiptKey,
    /// Earlier keys, the latest first.
    previous: Vec<ReceiptKey>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ReceiptKey {
    #[schema(example = "406E4FAC70A6468A")]
    key_id: String,
    /// One line of base64, as `minisign -P` takes it.
    public_key: String,
}

/// Read the key that receipts are signed with
///
/// Public: needs no API key. Store it on first use, and compare it later.
#[utoipa::path(
    get, path = "/v1/receipts/key", tag = "executions", operation_id = "get_receipt_key", security(()),
    responses((status = 200, body = ReceiptKeys))
)]
pub(crate) async fn key(State(app): State<SharedApp>) -> Result<axum::Json<ReceiptKeys>, ApiError> {
    let mut keys = app
        .receipt_keys
        .iter()
        .rev()
        .map(|key| ReceiptKey { key_id: key.id().to_string(), public_key: key.to_string() });
    let current = keys.next().ok_or_else(|| ApiError::internal("there is no key for receipts"))?;
    let previous = keys.collect();
    Ok(axum::Json(ReceiptKeys { current, previous }))
}
