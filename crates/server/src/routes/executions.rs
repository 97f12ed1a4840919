//! `/v1/executions`: run skills, and read executions.

use admission::WithPermit;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use runner::RunError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use store::{CancelResult, Execution, ExecutionFilter, FileRow, Idempotency};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::execution_request::ExecutionRequest;
use super::execution_view::{ExecutionResult, ExecutionSummary, StoredExecution};
use super::skills::skill_not_found;
use crate::app::{App, SharedApp};
use crate::auth::{Allowed, Caller, Execute, Read};
use crate::error::{ApiError, Slug};
use crate::http::body::Json;
use crate::http::extract::{self, Path, Query};
use crate::http::links::DownloadLinks;
use crate::http::paging::{PageQuery, Paging};
use crate::http::permit_body::with_permit;
use crate::http::timestamp;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const MAX_IDEMPOTENCY_KEY: usize = 255;

/// Run a skill
///
/// Waits for the end of the run and responds with its result. A run that failed or timed out is
/// still 200, with the failure in `status`.
#[utoipa::path(
    post, path = "/v1/executions", tag = "executions", operation_id = "create_execution", request_body = ExecutionRequest,
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same execution."),
        ("Prefer" = Option<String>, Header, description = "`respond-async` responds with 202 at once."),
    ),
    responses(
        (status = 200, description = "The run has ended", body = ExecutionResult),
        (status = 202, description = "Accepted; `Location` is the execution's URL", body = ExecutionResult),
        (status = 422, description = "`idempotency_mismatch`", body = crate::error::ErrorBody),
        (status = 429, description = "`too_busy` or `rate_limited`; see `Retry-After`", body = crate::error::ErrorBody),
        (status = 503, description = "`shutting_down`", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn create(
    caller: Allowed<Execute>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    headers: HeaderMap,
    body: Json<ExecutionRequest>,
) -> Result<Response, ApiError> {
    let preferred = prefers_async(&headers);
    let asynchronous = preferred || body.value.is_async();
    let idempotency = idempotency(&headers, &body.bytes)?;
    let request = body.value.into_request(asynchronous, &app.webhook_private_hosts)?;
    let who = caller.to_runner_caller();
    let (skill, version) = (request.skill.clone(), request.version.clone());
    let run_error = |error: RunError| match error {
        RunError::UnknownSkill => skill_not_found(&skill, &version),
        other => other.into(),
    };
    if !asynchronous {
        let completed = app.runner.execute(&who, request, idempotency).await.map_err(run_error)?;
        let (completed, permit) = completed.into_parts();
        let files = files_of(&app, &completed.execution).await?;
        let body = axum::Json(ExecutionResult::new(completed, files, &links)?);
        return Ok(with_permit(body, permit));
    }
    let id = app.runner.submit(&who, request, idempotency).await.map_err(run_error)?;
    let (execution, permit) = read(&app, &caller, id).await?.into_parts();
    let files = files_of(&app, &execution).await?;
    let body = axum::Json(ExecutionResult::new(execution.into(), files, &links)?);
    let location = [(header::LOCATION, format!("/v1/executions/{id}"))];
    let mut response = with_permit((StatusCode::ACCEPTED, location, body), permit);
    if preferred {
        let applied = HeaderValue::from_static("respond-async");
        response.headers_mut().insert("preference-applied", applied);
    }
    Ok(response)
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case("respond-async"))
}

fn idempotency(headers: &HeaderMap, body: &[u8]) -> Result<Option<Idempotency>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let key = value.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY {
        let message =
            format!("Idempotency-Key must be 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters.");
        return Err(ApiError::bad_request(message));
    }
    let body_sha256 = HEXLOWER.encode(&Sha256::digest(body));
    Ok(Some(Idempotency { key: key.to_owned(), body_sha256 }))
}

/// Which executions to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only executions of this skill.
    skill: Option<String>,
    /// Only executions with this status.
    #[param(example = "success")]
    status: Option<String>,
    /// Only executions accepted at or after this RFC 3339 time.
    since: Option<String>,
    /// Only executions started with the key with this id.
    key: Option<String>,
}

impl Filter {
    fn parse(self) -> Result<ExecutionFilter, ApiError> {
        let status = self.status.map(|word| word.parse());
        let since =
            self.since.map(|text| timestamp::parse(&text).ok_or("since must be an RFC 3339 time."));
        let key =
            self.key.map(|text| Uuid::try_parse(&text).map_err(|_| "key must be the id of a key."));
        Ok(ExecutionFilter {
            skill: self.skill,
            status: status
                .transpose()
                .map_err(|_| ApiError::bad_request("status must be one of queued, running, success, failed, timeout and cancelled."))?,
            since: since.transpose().map_err(ApiError::bad_request)?,
            key_id: key.transpose().map_err(ApiError::bad_request)?,
        })
    }
}

/// List executions
///
/// Newest first, without documents and logs.
#[utoipa::path(
    get, path = "/v1/executions", tag = "executions", operation_id = "list_executions", params(Filter, PageQuery),
    responses((status = 200, body = Vec<ExecutionSummary>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Query(filter): Query<Filter>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let page = paging.page(&caller.tenant)?;
    let rows = app.store.list_executions(&caller.tenant, &filter.parse()?, &page).await?;
    // Executions of skills that the key may not use are left out, so a page can have fewer rows
    // than the limit and still be followed by another.
    let visible =
        |row: Execution| caller.may_use(&row.skill_name).then(|| ExecutionSummary::from(row));
    Ok(paging.respond(&caller.tenant, rows, Execution::cursor, visible))
}

/// Read an execution
///
/// Also while it is queued or running.
#[utoipa::path(
    get, path = "/v1/executions/{id}", tag = "executions", operation_id = "get_execution",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, body = StoredExecution))
)]
pub(crate) async fn get(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (execution, permit) =
        read(&app, &caller, extract::parse_id("Execution", &id)?).await?.into_parts();
    let files = files_of(&app, &execution).await?;
    Ok(with_permit(axum::Json(StoredExecution::new(execution, files, &links)?), permit))
}

/// Read an execution's logs
#[utoipa::path(
    get, path = "/v1/executions/{id}/logs", tag = "executions", operation_id = "get_execution_logs",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, body = String, content_type = "text/plain; charset=utf-8"))
)]
pub(crate) async fn logs(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (execution, permit) =
        read(&app, &caller, extract::parse_id("Execution", &id)?).await?.into_parts();
    Ok(with_permit(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], execution.logs), permit))
}

/// The result of a request to cancel an execution.
#[derive(Serialize, ToSchema)]
pub(crate) struct Cancelled {
    #[schema(format = "uuid")]
    execution_id: String,
    /// `cancelled`, or `running` until the run has stopped.
    status: &'static str,
}

/// Cancel an execution
#[utoipa::path(
    post, path = "/v1/executions/{id}/cancel", tag = "executions", operation_id = "cancel_execution",
    params(("id" = String, Path, format = "uuid")),
    responses(
        (status = 200, description = "It was queued and will not run", body = Cancelled),
        (status = 202, description = "It is running, and its run is being stopped", body = Cancelled),
        (status = 409, description = "`conflict`: the execution has already ended", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn cancel(
    caller: Allowed<Execute>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let id = extract::parse_id("Execution", &id)?;
    let execution = find(&app, &caller, id).await?;
    let answer = |code, status| {
        (code, axum::Json(Cancelled { execution_id: id.to_string(), status })).into_response()
    };
    match app.runner.cancel(&caller.tenant, id).await? {
        Some(CancelResult::Cancelled) => Ok(answer(StatusCode::OK, "cancelled")),
        Some(CancelResult::Requested) => Ok(answer(StatusCode::ACCEPTED, "running")),
        Some(CancelResult::AlreadyFinished) => {
            let details = json!({ "status": execution.status.as_str() });
            Err(ApiError::new(Slug::Conflict, "This execution has already ended.")
                .with_details(details))
        }
        None => Err(execution_not_found(id)),
    }
}

/// An execution that the caller may see, without its documents. Any other is reported as missing.
pub(crate) async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<Execution, ApiError> {
    let execution = app.store.get_execution_summary(&caller.tenant, id).await?;
    let visible = execution.filter(|execution| caller.may_use(&execution.skill_name));
    visible.ok_or_else(|| execution_not_found(id))
}

/// The execution with its documents, and the memory reserved for them.
pub(crate) async fn read(
    app: &App,
    caller: &Caller,
    id: Uuid,
) -> Result<WithPermit<Execution>, ApiError> {
    find(app, caller, id).await?;
    app.runner.read_execution(&caller.tenant, id).await?.ok_or_else(|| execution_not_found(id))
}

pub(crate) fn execution_not_found(id: Uuid) -> ApiError {
    ApiError::not_found("Execution", &id.to_string())
}

pub(crate) async fn files_of(app: &App, execution: &Execution) -> Result<Vec<FileRow>, ApiError> {
    if !execution.has_archive {
        return Ok(Vec::new());
    }
    Ok(app.store.list_execution_files(&execution.tenant, execution.id).await?)
}
