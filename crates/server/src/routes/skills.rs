//! `/v1/skills`: publish, read and delete skills.

use admission::Permit;
use axum::extract::State;
use axum::response::Response;
use catalogue::CatalogueError;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use skill::Profile;
use store::{
    ListedSkill, PageRequest, PutSkillResult, ScanPolicy, SkillMetadata, SkillRow, SkillStatus,
};
use utoipa::{IntoParams, ToSchema};

use super::skill_view::{Published, SkillDetail, SkillFinding, SkillSummary};
use super::upload::{Incoming, Upload};
use crate::app::{App, SharedApp};
use crate::audit::{self, actor};
use crate::auth::{Allowed, Caller, Publish, Read};
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::paging::{PageQuery, Paging};
use crate::http::permit_body::with_permit;
use crate::routes::openapi::Binary;

/// The version that stands for the newest available upload.
const LATEST: &str = "latest";

/// Versions per query.
const PAGE: i64 = 100;

/// Documents of a skill are trees of small values, which take several times the memory of their
/// text.
const DOCUMENT_COPIES: u64 = 5;

/// Publish a skill
///
/// Publishing the same content again changes nothing and responds with 200.
#[utoipa::path(
    post, path = "/v1/skills", tag = "skills", operation_id = "publish_skill",
    request_body(
        description = "A zip, a form with the zip as part `file`, or a form with a directory as parts `files[]`.",
        content((inline(Binary) = "application/zip"), (inline(Binary) = "application/octet-stream"), (UploadForm = "multipart/form-data"))
    ),
    responses(
        (status = 201, description = "Stored", body = Published),
        (status = 200, description = "This version already has exactly this content", body = Published),
        (status = 202, description = "Stored and held for review; it can run once it is approved", body = Published),
        (status = 409, description = "`version_exists`: different content, and the tenant's versions are immutable", body = crate::error::ErrorBody),
        (status = 422, description = "A hostile archive, a skill that the tenant does not trust, or `scan_refused`; see the slug", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn create(
    caller: Allowed<Publish>,
    State(app): State<SharedApp>,
    upload: Upload,
) -> Result<Response, ApiError> {
    let tenant = app.store.get_tenant(&caller.tenant).await?;
    let tenant = tenant.ok_or_else(|| ApiError::not_found("Tenant", caller.tenant.as_str()))?;
    let Incoming { package, scanned, permit } =
        upload.read(&app, tenant.policy.scan != ScanPolicy::Off).await??;
    let name = package.manifest.name.clone();
    if !caller.may_use(&name) {
        return Err(ApiError::forbidden("This key may not publish this skill."));
    }
    let object = format!("{name}@{}", package.manifest.version);
    let (digest, mut findings) =
        (package.digest.clone(), [package.findings.clone(), scanned.clone()].concat());
    let published = match app
        .catalogue
        .publish(Some(&actor(&caller)), &caller.tenant, package, &scanned, &tenant.policy)
        .await
    {
        Err(
            refusal @ (CatalogueError::Untrusted(_)
            | CatalogueError::ScanRefused(_)
            | CatalogueError::Rejected),
        ) => {
            let detail = json!({ "digest": digest, "reason": reason(&refusal) });
            audit::record(&app, &caller, "skill.refused", object, detail).await?;
            return Err(refusal.into());
        }
        published => published?,
    };
    findings.extend(published.findings);
    let (status, row) = match published.put {
        PutSkillResult::Created(row) | PutSkillResult::Replaced { row, .. } => {
            (StatusCode::CREATED, row)
        }
        PutSkillResult::Unchanged(row) => (StatusCode::OK, row),
    };
    // Stored but not usable yet: 202 tells the client to check again later.
    let status = if row.status == SkillStatus::Review { StatusCode::ACCEPTED } else { status };
    let response = (status, axum::Json(Published::new(row, findings)?));
    Ok(with_permit(response, permit))
}

/// Why a skill was refused, for the audit log.
fn reason(refusal: &CatalogueError) -> &'static str {
    match refusal {
        CatalogueError::Untrusted(problem) => problem.code(),
        CatalogueError::Rejected => "rejected",
        _ => "scan",
    }
}

/// The parts of an upload by form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct UploadForm {
    /// The zip.
    #[schema(inline)]
    file: Option<Binary>,
    /// The files of a directory, each with its relative path as file name.
    #[schema(rename = "files[]", inline)]
    files: Option<Vec<Binary>>,
}

/// The result of validating a skill.
#[derive(Serialize, ToSchema)]
pub(crate) struct Validation {
    /// Whether no finding is an error.
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    findings: Vec<SkillFinding>,
}

/// Which rules apply.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ValidateQuery {
    /// `default`, `strict` (the open specification), `anthropic` or `openai`.
    profile: Option<String>,
}

/// Validate a skill without storing it
#[utoipa::path(
    post, path = "/v1/skills/validate", tag = "skills", operation_id = "validate_skill", params(ValidateQuery),
    request_body(
        description = "The same as for publishing.",
        content((inline(Binary) = "application/zip"), (inline(Binary) = "application/octet-stream"), (UploadForm = "multipart/form-data"))
    ),
    responses((status = 200, body = Validation))
)]
pub(crate) async fn validate(
    caller: Allowed<Publish>,
    State(app): State<SharedApp>,
    Query(query): Query<ValidateQuery>,
    upload: Upload,
) -> Result<axum::Json<Validation>, ApiError> {
    let profile = query.profile.as_deref().unwrap_or("default").parse::<Profile>();
    let profile = profile.map_err(|message| ApiError::bad_request(format!("{message}.")))?;
    let (findings, about) = match upload.read(&app, true).await? {
        Ok(Incoming { package, scanned, permit: _permit }) => {
            let mut findings = package.findings_for(profile);
            findings.extend(scanned);
            let (package, unusable) =
                app.catalogue.find_unusable_schemas(&caller.tenant, package).await?;
            findings.extend(unusable);
            (findings, Some((package.manifest, package.digest)))
        }
        Err(error) => (error.findings(), None),
    };
    let findings: Vec<SkillFinding> = findings.into_iter().map(SkillFinding::from).collect();
    let valid = !findings.iter().any(SkillFinding::is_error);
    let (manifest, digest) = about.unzip();
    let (name, version) = manifest.map(|manifest| (manifest.name, manifest.version)).unzip();
    Ok(axum::Json(Validation { valid, name, version, digest, findings }))
}

/// List skills
///
/// The newest version of each, by name.
#[utoipa::path(
    get, path = "/v1/skills", tag = "skills", operation_id = "list_skills", params(PageQuery),
    responses((status = 200, body = Vec<SkillSummary>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let page = paging.page(&caller.tenant)?;
    let permit = reserve_page(&app, &caller, &page).await?;
    let rows = app.store.list_skills(&caller.tenant, &page).await?;
    // Skills that the key may not use are left out, so a page can have fewer rows than the limit
    // and still be followed by another.
    let visible =
        |row: ListedSkill| caller.may_use(&row.head.name).then(|| SkillSummary::from(row));
    let answer = paging.respond(&caller.tenant, rows, |row| row.head.cursor(), visible);
    Ok(with_permit(answer, permit))
}

/// Read a skill
#[utoipa::path(
    get, path = "/v1/skills/{name}/{version}", tag = "skills", operation_id = "get_skill",
    params(("name" = String, Path), ("version" = String, Path, description = "`latest` is the newest upload that is available")),
    responses((status = 200, body = SkillDetail))
)]
pub(crate) async fn get(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path((name, version)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let (row, permit) = read(&app, &caller, &name, &version).await?;
    let signature = app.catalogue.signature_status(&row).await?;
    Ok(with_permit(axum::Json(SkillDetail::new(row, signature)?), permit))
}

/// List a skill's versions
///
/// The newest upload first.
#[utoipa::path(
    get, path = "/v1/skills/{name}/versions", tag = "skills", operation_id = "list_skill_versions", params(("name" = String, Path)),
    responses((status = 200, body = Vec<SkillSummary>))
)]
pub(crate) async fn versions(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    if !caller.may_use(&name) {
        return Err(skill_not_found(&name, LATEST));
    }
    let mut permit = app.memory.reserve(&caller.tenant, 0).await?;
    let mut versions = Vec::new();
    loop {
        let page = PageRequest { offset: versions.len() as i64, ..PageRequest::first(PAGE) };
        app.memory.reserve_more(&mut permit, page_bytes(&page)).await?;
        let rows = app.store.list_versions(&caller.tenant, &name, &page).await?;
        let last = (rows.len() as i64) < PAGE;
        versions.extend(rows.into_iter().map(SkillSummary::from));
        if last {
            break;
        }
    }
    match versions.is_empty() {
        true => Err(skill_not_found(&name, LATEST)),
        false => Ok(with_permit(axum::Json(versions), permit)),
    }
}

/// Delete a version of a skill
///
/// Its executions stay readable.
#[utoipa::path(
    delete, path = "/v1/skills/{name}/{version}", tag = "skills", operation_id = "delete_skill",
    params(("name" = String, Path), ("version" = String, Path)),
    responses((status = 204, description = "Deleted"))
)]
pub(crate) async fn delete(
    caller: Allowed<Publish>,
    State(app): State<SharedApp>,
    Path((name, version)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    if !caller.may_use(&name)
        || !app.catalogue.unpublish(Some(&actor(&caller)), &caller.tenant, &name, &version).await?
    {
        return Err(skill_not_found(&name, &version));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A skill that the caller may see. Any other is reported as missing.
pub(crate) async fn find(
    app: &App,
    caller: &Caller,
    name: &str,
    version: &str,
) -> Result<SkillMetadata, ApiError> {
    if !caller.may_use(name) {
        return Err(skill_not_found(name, version));
    }
    let head = app.store.find_skill(&caller.tenant, name, version).await?;
    head.ok_or_else(|| skill_not_found(name, version))
}

/// The response for a skill that the caller may not see is the one for a missing skill.
pub(crate) fn skill_not_found(name: &str, version: &str) -> ApiError {
    match version {
        LATEST => ApiError::not_found("Skill", name),
        _ => ApiError::not_found("Skill", &format!("{name}@{version}")),
    }
}

/// The skill with its documents, and the memory that they take as text, as values and in a
/// response.
pub(crate) async fn read(
    app: &App,
    caller: &Caller,
    name: &str,
    version: &str,
) -> Result<(SkillRow, Permit), ApiError> {
    let head = find(app, caller, name, version).await?;
    let permit = app
        .memory
        .reserve(&caller.tenant, head.documents_bytes.saturating_mul(DOCUMENT_COPIES))
        .await?;
    let row = app.store.get_skill(&caller.tenant, &head.name, &head.version).await?;
    Ok((row.ok_or_else(|| skill_not_found(name, version))?, permit))
}

/// Memory for a page of skills, and for the response made from it.
pub(crate) async fn reserve_page(
    app: &App,
    caller: &Caller,
    page: &PageRequest,
) -> Result<Permit, ApiError> {
    Ok(app.memory.reserve(&caller.tenant, page_bytes(page)).await?)
}

pub(crate) fn page_bytes(page: &PageRequest) -> u64 {
    u64::try_from(page.limit).unwrap_or(0) * SkillMetadata::MAX_BYTES * 2
}
