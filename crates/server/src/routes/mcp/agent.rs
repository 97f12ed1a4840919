//! What an agent may do through MCP: the same as its key or token may do through the API, by the
//! same code.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use admission::{Permit, WithPermit};
use async_trait::async_trait;
use bytes::Bytes;
use mcp::{
    FileContents, LoadedSkill, ProviderError, RunProgress, RunResult, SkillFileInfo, SkillOverview,
    SkillPage, SkillProvider, SkillRunRequest,
};
use runner::EventKind;
use serde_json::{Map, Value, json};
use store::{CallableSkill, Execution, Scope, SkillFileRow, SkillMetadata, SkillStatus};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::SharedApp;
use crate::auth::Caller;
use crate::error::{ApiError, Slug};
use crate::http::extract;
use crate::http::links::DownloadLinks;
use crate::routes::execution_request::ExecutionRequest;
use crate::routes::execution_view::ExecutionResult;
use crate::routes::{executions, file_view, skills};

/// SkillProvider on a page of a list.
const PAGE: usize = 50;
/// What its cursors are sealed for, so that those of other lists do not open here.
const LIST: &str = "/mcp";
/// No upload has a longer `SKILL.md`.
const MAX_SKILL_MD_BYTES: usize = 1 << 20;
/// A file as it is read, as text or base64, and in the answer.
const CONTENT_COPIES: u64 = 4;

/// An authenticated caller of `/mcp`.
pub struct Agent {
    pub app: SharedApp,
    pub caller: Caller,
    pub links: DownloadLinks,
    /// For everything that the answer to this request is made of.
    pub memory: Mutex<Vec<Permit>>,
}

#[async_trait]
impl SkillProvider for Agent {
    async fn list(&self, cursor: Option<&str>) -> Result<SkillPage, ProviderError> {
        self.demand(Scope::Read)?;
        let tenant = &self.caller.tenant;
        let after = cursor.map(|token| self.app.cursors.verify(tenant, LIST, token)).map(|after| {
            after.ok_or_else(|| {
                ProviderError::InvalidRequest(
                    "The cursor is not one this list gave out.".to_owned(),
                )
            })
        });
        // One more than the page, to know whether another follows.
        let page =
            store::PageRequest { limit: PAGE as i64 + 1, offset: 0, after: after.transpose()? };
        let mut permit = self.reserve(page.limit as u64 * CallableSkill::MAX_BYTES).await?;
        let mut rows = self.app.store.list_callable_skills(tenant, &page).await.map_err(refusal)?;
        permit.shrink_to(rows.iter().map(callable_bytes).sum());
        self.hold(permit);
        let more = rows.len() > PAGE;
        rows.truncate(PAGE);
        let next = rows
            .last()
            .filter(|_| more)
            .map(|row| self.app.cursors.sign(tenant, LIST, &row.head.cursor()));
        // A skill that waits for a review, or was rejected, is none to offer.
        let usable = |row: &CallableSkill| {
            row.head.status == SkillStatus::Available && self.caller.may_use(&row.head.name)
        };
        let visible = rows.into_iter().filter(usable);
        Ok(SkillPage { skills: visible.map(listed).collect(), next })
    }

    async fn load(&self, name: &str) -> Result<LoadedSkill, ProviderError> {
        self.demand(Scope::Read)?;
        let told = |error: ApiError| about(name, error);
        let head = skills::find(&self.app, &self.caller, name, "latest").await.map_err(told)?;
        let (row, permit) =
            skills::read(&self.app, &self.caller, name, &head.version).await.map_err(told)?;
        self.hold(permit);
        let (files, permit) =
            self.app.catalogue.list_skill_files(&head).await.map_err(refusal)?.into_parts();
        permit.into_iter().for_each(|permit| self.hold(permit));
        let skill_md = files.iter().find(|file| file.path.eq_ignore_ascii_case("SKILL.md"));
        let frontmatter = match skill_md {
            Some(file) => {
                mcp::parse_frontmatter(&self.contents(&head, &file.path, MAX_SKILL_MD_BYTES).await?)
            }
            None => Map::new(),
        };
        let entry = |file: SkillFileRow| SkillFileInfo {
            path: file.path,
            size: file.size_bytes,
            sha256: file.sha256,
        };
        let stored = |error: serde_json::Error| refusal(ApiError::internal(error));
        Ok(LoadedSkill {
            manifest: serde_json::from_value(row.manifest).map_err(stored)?,
            scripts: serde_json::from_value(row.scripts).map_err(stored)?,
            entrypoint: row.entrypoint,
            frontmatter,
            files: files.into_iter().map(entry).collect(),
            digest: row.digest,
        })
    }

    async fn read_file(
        &self,
        skill: &str,
        path: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        self.demand(Scope::Read)?;
        let told = |error: ApiError| about(skill, error);
        let head = skills::find(&self.app, &self.caller, skill, "latest").await.map_err(told)?;
        let bytes = self.contents(&head, path, max_bytes).await?;
        Ok(FileContents { bytes: bytes.into(), content_type: None })
    }

    async fn run(
        &self,
        run: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError> {
        self.demand(Scope::Execute)?;
        let name = run.skill.clone();
        if !self.caller.may_use(&name) {
            return Err(ProviderError::SkillNotFound(name));
        }
        let request: ExecutionRequest = serde_json::from_value(body(run)).map_err(|error| {
            ProviderError::InvalidRequest(format!("These arguments cannot be used: {error}."))
        })?;
        let request = request.into_request(true, &[]).map_err(refusal)?;
        // Held until the end is known: an agent waits as any other caller does.
        let _waiter_slot = self.app.runner.waiter_slot(&self.caller.tenant).map_err(refusal)?;
        let accepted = self.app.runner.submit(&self.caller.to_runner_caller(), request, None).await;
        let id = accepted.map_err(|error| about(&name, error.into()))?;
        let (execution, permit) =
            self.follow(id, progress, stop).await.map_err(refusal)?.into_parts();
        permit.into_iter().for_each(|permit| self.hold(permit));
        self.ended(execution).await.map_err(refusal)
    }

    async fn read_artifact(
        &self,
        execution: &str,
        name: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        self.demand(Scope::Read)?;
        let missing = || ProviderError::ArtifactNotFound {
            execution: execution.to_owned(),
            name: name.to_owned(),
        };
        let told = |error: ApiError| match error.slug() {
            Slug::NotFound => missing(),
            _ => refusal(error),
        };
        let id = extract::parse_id("Execution", execution).map_err(told)?;
        let id = executions::find(&self.app, &self.caller, id).await.map_err(told)?.id;
        let row = self
            .app
            .store
            .get_execution_file(&self.caller.tenant, id, name)
            .await
            .map_err(refusal)?;
        let row = row.ok_or_else(missing)?;
        let size = u64::try_from(row.size_bytes).unwrap_or(u64::MAX);
        if size > max_bytes as u64 {
            return Err(ProviderError::TooLarge { size, max_bytes });
        }
        let permit = self.reserve(size.saturating_mul(CONTENT_COPIES)).await?;
        self.hold(permit);
        let bytes = self
            .app
            .blobs
            .get(&file_view::key_of(&row).map_err(refusal)?, size)
            .await
            .map_err(refusal)?;
        Ok(FileContents {
            bytes: bytes.ok_or_else(missing)?.into(),
            content_type: Some(row.content_type),
        })
    }
}

impl Agent {
    fn demand(&self, scope: Scope) -> Result<(), ProviderError> {
        match self.caller.identity.has(scope) {
            true => Ok(()),
            false => Err(ProviderError::Forbidden(format!(
                "This key or token lacks the scope `{scope}`."
            ))),
        }
    }

    async fn reserve(&self, bytes: u64) -> Result<Permit, ProviderError> {
        self.app.memory.reserve(&self.caller.tenant, bytes).await.map_err(refusal)
    }

    /// Until the request is answered.
    fn hold(&self, permit: Permit) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).push(permit);
    }

    /// The bytes of a skill's file.
    async fn contents(
        &self,
        head: &SkillMetadata,
        path: &str,
        max_bytes: usize,
    ) -> Result<Bytes, ProviderError> {
        let no_file =
            || ProviderError::FileNotFound { skill: head.name.clone(), path: path.to_owned() };
        let opened = self.app.catalogue.open_skill_file(head, path).await.map_err(refusal)?;
        let (_, reader) = opened.ok_or_else(no_file)?;
        let size = reader.size;
        if size > max_bytes as u64 {
            return Err(ProviderError::TooLarge { size, max_bytes });
        }
        let permit = self.reserve(size.saturating_mul(CONTENT_COPIES)).await?;
        self.hold(permit);
        reader.into_bytes(size).await.map_err(refusal)
    }

    /// Waits for the end, tells of the log meanwhile, and stops the run when nobody wants it any
    /// more.
    async fn follow(
        &self,
        id: Uuid,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<WithPermit<Execution>, ApiError> {
        let (runner, tenant) = (&self.app.runner, &self.caller.tenant);
        let mut ended = pin!(runner.wait(tenant, id));
        let mut telling = pin!(self.tell(id, progress));
        let (mut told, mut stopped) = (false, false);
        loop {
            tokio::select! {
                ended = &mut ended => return Ok(ended?),
                () = &mut telling, if !told => told = true,
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    runner.cancel(tenant, id).await?;
                }
            }
        }
    }

    async fn tell(&self, id: Uuid, progress: RunProgress) {
        if !progress.is_requested() {
            return;
        }
        let Ok(Some(mut events)) = self.app.runner.events(&self.caller.tenant, id, None).await
        else {
            return;
        };
        while let Some(Ok(event)) = events.next().await {
            if let EventKind::Log { text, .. } = event.kind {
                progress.report(&text);
            }
        }
    }

    async fn ended(&self, execution: Execution) -> Result<RunResult, ApiError> {
        let files = executions::files_of(&self.app, &execution).await?;
        let result = ExecutionResult::new(execution, files, &self.links)?;
        let document = serde_json::to_value(result).map_err(ApiError::internal)?;
        serde_json::from_value(document).map_err(ApiError::internal)
    }
}

fn listed(row: CallableSkill) -> SkillOverview {
    let CallableSkill {
        head: SkillMetadata { name, version, description, entrypoint, .. },
        input_schema,
    } = row;
    SkillOverview { name, version, description, entrypoint, input_schema }
}

/// What a skill of a list takes, as a value and in the answer.
fn callable_bytes(row: &CallableSkill) -> u64 {
    let schema = row.input_schema.as_ref().map_or(0, |schema| schema.to_string().len());
    2048 + 2 * row.head.description.len() as u64 + 8 * schema as u64
}

/// The body that says the same to the API.
fn body(run: SkillRunRequest) -> Value {
    let SkillRunRequest { skill, version, input, script, args, stdin, env, timeout } = run;
    let mut body = json!({
        "skill": skill, "version": version, "script": script, "args": args, "stdin": stdin, "env": env,
        "timeout": timeout,
    });
    if let Some(input) = input {
        body["input"] = input;
    }
    body
}

fn about(skill: &str, error: ApiError) -> ProviderError {
    match error.slug() {
        Slug::NotFound => ProviderError::SkillNotFound(skill.to_owned()),
        _ => refusal(error),
    }
}

fn refusal(error: impl Into<ApiError>) -> ProviderError {
    let (slug, message) = error.into().into_logged_parts();
    match slug.status().as_u16() {
        403 => ProviderError::Forbidden(message),
        500.. => ProviderError::Internal(message),
        _ => ProviderError::InvalidRequest(message),
    }
}
