//! `/v1/skills/{name}/{version}/approve` and `/reject`: the review of skills that the scanner held.

use axum::extract::State;
use serde::Deserialize;
use store::ReviewDecision;
use utoipa::IntoParams;

use super::skill_view::SkillSummary;
use super::skills::skill_not_found;
use crate::app::SharedApp;
use crate::audit::actor;
use crate::auth::{Admin, Allowed};
use crate::error::ApiError;
use crate::http::extract::{Path, Query};

/// The reviewed content.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Reviewed {
    /// The digest of the reviewed content. When the version has different content now, the response
    /// is 409.
    digest: Option<String>,
}

/// Approve a skill that is held for review
///
/// It can run from now on, and exactly this content needs no other review when it is uploaded
/// again.
#[utoipa::path(
    post, path = "/v1/skills/{name}/{version}/approve", tag = "skills", operation_id = "approve_skill",
    params(("name" = String, Path), ("version" = String, Path, description = "An exact version, not `latest`"), Reviewed),
    responses(
        (status = 200, body = SkillSummary),
        (status = 409, description = "`conflict`: the version has different content now", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn approve(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    Path((name, version)): Path<(String, String)>,
    Query(reviewed): Query<Reviewed>,
) -> Result<axum::Json<SkillSummary>, ApiError> {
    decide(caller, app, &name, &version, reviewed, ReviewDecision::Approved).await
}

/// Reject a skill
///
/// It no longer runs, queued executions included, and exactly this content is refused when it is
/// uploaded again. An approval reverses this.
#[utoipa::path(
    post, path = "/v1/skills/{name}/{version}/reject", tag = "skills", operation_id = "reject_skill",
    params(("name" = String, Path), ("version" = String, Path, description = "An exact version, not `latest`"), Reviewed),
    responses(
        (status = 200, body = SkillSummary),
        (status = 409, description = "`conflict`: the version has different content now", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn reject(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    Path((name, version)): Path<(String, String)>,
    Query(reviewed): Query<Reviewed>,
) -> Result<axum::Json<SkillSummary>, ApiError> {
    decide(caller, app, &name, &version, reviewed, ReviewDecision::Rejected).await
}

async fn decide(
    caller: Allowed<Admin>,
    app: SharedApp,
    name: &str,
    version: &str,
    reviewed: Reviewed,
    verdict: ReviewDecision,
) -> Result<axum::Json<SkillSummary>, ApiError> {
    if !caller.may_use(name) {
        return Err(skill_not_found(name, version));
    }
    let store = app.store.with_actor(actor(&caller));
    let row = store
        .review_skill(&caller.tenant, name, version, reviewed.digest.as_deref(), verdict)
        .await?;
    let row = row.ok_or_else(|| skill_not_found(name, version))?;
    Ok(axum::Json(row.into()))
}
