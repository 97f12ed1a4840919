//! The skills of one authenticated caller of `/mcp`: what its key or token allows through the API,
//! by the same code.

use std::sync::{Mutex, PoisonError};

use admission::Permit;
use async_trait::async_trait;
use bytes::Bytes;
use mcp::{
    FileContents, LoadedSkill, ProviderError, RunProgress, RunResult, SkillFileInfo, SkillOverview,
    SkillPage, SkillProvider, SkillRunRequest,
};
use serde_json::Map;
use store::{CallableSkill, PageRequest, Scope, SkillFileRow, SkillMetadata, SkillStatus};
use tokio_util::sync::CancellationToken;

use crate::app::SharedApp;
use crate::auth::Caller;
use crate::error::{ApiError, Slug};
use crate::http::extract;
use crate::http::links::DownloadLinks;
use crate::routes::{executions, file_view, skills};

/// Skills on a page of the list.
const PAGE_SIZE: usize = 50;
/// The path that cursors are signed with, so that cursors of other lists are rejected.
const CURSOR_PATH: &str = "/mcp";
/// No upload has a longer `SKILL.md`.
const MAX_SKILL_MD_BYTES: usize = 1 << 20;
/// The copies of a file in memory: as read, as text or base64, and in the response.
const CONTENT_COPIES: u64 = 4;

/// An authenticated caller of `/mcp`.
pub(super) struct ApiSkillProvider {
    pub app: SharedApp,
    pub caller: Caller,
    pub links: DownloadLinks,
    /// Memory for everything in the response to this request; released when it is sent.
    pub memory: Mutex<Vec<Permit>>,
}

#[async_trait]
impl SkillProvider for ApiSkillProvider {
    async fn list(&self, cursor: Option<&str>) -> Result<SkillPage, ProviderError> {
        self.require_scope(Scope::Read)?;
        let tenant = &self.caller.tenant;
        let verify = |token| {
            let invalid =
                || ProviderError::InvalidRequest("The cursor is not from this list.".to_owned());
            self.app.cursors.verify(tenant, CURSOR_PATH, token).ok_or_else(invalid)
        };
        let after = cursor.map(verify).transpose()?;
        // One row more than the page tells whether another page follows.
        let page = PageRequest { limit: PAGE_SIZE as i64 + 1, offset: 0, after };
        // Memory is reserved for the largest possible page before the query, and returned as soon
        // as the real size is known.
        let mut permit = self.reserve(page.limit as u64 * CallableSkill::MAX_BYTES).await?;
        let mut rows =
            self.app.store.list_callable_skills(tenant, &page).await.map_err(provider_error)?;
        permit.shrink_to(rows.iter().map(overview_bytes).sum());
        self.hold_until_sent(permit);
        let has_next = rows.len() > PAGE_SIZE;
        rows.truncate(PAGE_SIZE);
        let next = rows
            .last()
            .filter(|_| has_next)
            .map(|row| self.app.cursors.sign(tenant, CURSOR_PATH, &row.head.cursor()));
        // Skills that are held for review or rejected cannot run, so an agent does not see them.
        let is_usable = |row: &CallableSkill| {
            row.head.status == SkillStatus::Available && self.caller.may_use(&row.head.name)
        };
        Ok(SkillPage { skills: rows.into_iter().filter(is_usable).map(overview).collect(), next })
    }

    async fn load(&self, name: &str) -> Result<LoadedSkill, ProviderError> {
        self.require_scope(Scope::Read)?;
        let failed = |error: ApiError| skill_error(name, error);
        let metadata =
            skills::find(&self.app, &self.caller, name, "latest").await.map_err(failed)?;
        let (row, permit) =
            skills::read(&self.app, &self.caller, name, &metadata.version).await.map_err(failed)?;
        self.hold_until_sent(permit);
        let files = self.app.catalogue.list_skill_files(&metadata).await.map_err(provider_error)?;
        let (files, permit) = files.into_parts();
        permit.into_iter().for_each(|permit| self.hold_until_sent(permit));
        let skill_md = files.iter().find(|file| file.path.eq_ignore_ascii_case("SKILL.md"));
        let frontmatter = match skill_md {
            Some(file) => {
                let text = self.skill_file(&metadata, &file.path, MAX_SKILL_MD_BYTES).await?;
                mcp::parse_frontmatter(&text)
            }
            None => Map::new(),
        };
        let info = |file: SkillFileRow| SkillFileInfo {
            path: file.path,
            size: file.size_bytes,
            sha256: file.sha256,
        };
        let invalid_row = |error: serde_json::Error| provider_error(ApiError::internal(error));
        Ok(LoadedSkill {
            manifest: serde_json::from_value(row.manifest).map_err(invalid_row)?,
            scripts: serde_json::from_value(row.scripts).map_err(invalid_row)?,
            entrypoint: row.entrypoint,
            frontmatter,
            files: files.into_iter().map(info).collect(),
            digest: row.digest,
        })
    }

    async fn read_file(
        &self,
        skill: &str,
        path: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        self.require_scope(Scope::Read)?;
        let metadata = skills::find(&self.app, &self.caller, skill, "latest")
            .await
            .map_err(|error| skill_error(skill, error))?;
        let bytes = self.skill_file(&metadata, path, max_bytes).await?;
        Ok(FileContents { bytes: bytes.into(), content_type: None })
    }

    async fn run(
        &self,
        run: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError> {
        self.require_scope(Scope::Execute)?;
        self.run_skill(run, progress, stop).await
    }

    async fn read_artifact(
        &self,
        execution: &str,
        name: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        self.require_scope(Scope::Read)?;
        let not_found = || ProviderError::ArtifactNotFound {
            execution: execution.to_owned(),
            name: name.to_owned(),
        };
        let failed = |error: ApiError| match error.slug() {
            Slug::NotFound => not_found(),
            _ => provider_error(error),
        };
        let id = extract::parse_id("Execution", execution).map_err(failed)?;
        let id = executions::find(&self.app, &self.caller, id).await.map_err(failed)?.id;
        let row = self.app.store.get_execution_file(&self.caller.tenant, id, name).await;
        let row = row.map_err(provider_error)?.ok_or_else(not_found)?;
        let size = u64::try_from(row.size_bytes).unwrap_or(u64::MAX);
        self.reserve_for_file(size, max_bytes).await?;
        let key = file_view::key_of(&row).map_err(provider_error)?;
        let bytes = self.app.blobs.get(&key, size).await.map_err(provider_error)?;
        Ok(FileContents {
            bytes: bytes.ok_or_else(not_found)?.into(),
            content_type: Some(row.content_type),
        })
    }
}

impl ApiSkillProvider {
    fn require_scope(&self, scope: Scope) -> Result<(), ProviderError> {
        match self.caller.identity.has(scope) {
            true => Ok(()),
            false => Err(ProviderError::Forbidden(format!(
                "This key or token lacks the scope `{scope}`."
            ))),
        }
    }

    async fn reserve(&self, bytes: u64) -> Result<Permit, ProviderError> {
        self.app.memory.reserve(&self.caller.tenant, bytes).await.map_err(provider_error)
    }

    /// Keeps the memory reserved until the response to this request is sent.
    pub(super) fn hold_until_sent(&self, permit: Permit) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).push(permit);
    }

    /// Reserves memory for a file that will be read whole, if it is not too large.
    async fn reserve_for_file(&self, size: u64, max_bytes: usize) -> Result<(), ProviderError> {
        if size > max_bytes as u64 {
            return Err(ProviderError::TooLarge { size, max_bytes });
        }
        let permit = self.reserve(size.saturating_mul(CONTENT_COPIES)).await?;
        self.hold_until_sent(permit);
        Ok(())
    }

    async fn skill_file(
        &self,
        skill: &SkillMetadata,
        path: &str,
        max_bytes: usize,
    ) -> Result<Bytes, ProviderError> {
        let not_found =
            || ProviderError::FileNotFound { skill: skill.name.clone(), path: path.to_owned() };
        let opened =
            self.app.catalogue.open_skill_file(skill, path).await.map_err(provider_error)?;
        let (_, reader) = opened.ok_or_else(not_found)?;
        let size = reader.size;
        self.reserve_for_file(size, max_bytes).await?;
        reader.into_bytes(size).await.map_err(provider_error)
    }
}

fn overview(row: CallableSkill) -> SkillOverview {
    let CallableSkill {
        head: SkillMetadata { name, version, description, entrypoint, .. },
        input_schema,
    } = row;
    SkillOverview { name, version, description, entrypoint, input_schema }
}

/// The memory for a skill of a list, as a value and in the response.
fn overview_bytes(row: &CallableSkill) -> u64 {
    let schema = row.input_schema.as_ref().map_or(0, |schema| schema.to_string().len());
    2048 + 2 * row.head.description.len() as u64 + 8 * schema as u64
}

/// The error of an operation on one skill.
pub(super) fn skill_error(skill: &str, error: ApiError) -> ProviderError {
    match error.slug() {
        Slug::NotFound => ProviderError::SkillNotFound(skill.to_owned()),
        _ => provider_error(error),
    }
}

pub(super) fn provider_error(error: impl Into<ApiError>) -> ProviderError {
    let (slug, message) = error.into().into_logged_parts();
    match slug.status().as_u16() {
        403 => ProviderError::Forbidden(message),
        500.. => ProviderError::Internal(message),
        _ => ProviderError::InvalidRequest(message),
    }
}
