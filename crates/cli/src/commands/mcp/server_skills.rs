//! Serves the skills of a Skillbox server, through its API and with the caller's key.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use client::{
    Client, ClientError, Execution, ExecutionEvent, ExecutionEvents, PageSelector, Reply,
    RunRequest, SkillDetail,
};
use mcp::{
    FileContents, LoadedSkill, ProviderError, RunProgress, RunResult, SkillOverview, SkillPage,
    SkillProvider, SkillRunRequest,
};
use serde_json::value::to_raw_value;
use skill::{Package, SkillError};
use tokio_util::sync::CancellationToken;

/// Larger than any archive that a server accepts.
const MAX_ARCHIVE_BYTES: usize = 512 << 20;
const PAGE_SIZE: u32 = 50;
const INVALID_KEY: &str = "The server rejected the API key. Start `skillbox mcp` with a valid key in -k or SKILLBOX_API_KEY.";
/// Maximum number of cached skill details. A full cache is cleared.
const MAX_CACHED_DETAILS: usize = 1000;

pub(super) struct ServerSkills {
    client: Client,
    /// The last archive with its digest, because agents read a skill file by file.
    last_archive: Mutex<Option<(String, Vec<u8>)>>,
    /// Properties of skills that a list does not contain, by digest.
    details: Mutex<HashMap<String, SkillDetail>>,
}

impl ServerSkills {
    pub(super) fn new(client: Client) -> ServerSkills {
        ServerSkills { client, last_archive: Mutex::default(), details: Mutex::default() }
    }

    async fn detail(&self, row: &client::SkillSummary) -> Result<SkillDetail, ClientError> {
        let digest = row.digest.clone().unwrap_or_default();
        if let Some(cached) = lock(&self.details).get(&digest) {
            return Ok(cached.clone());
        }
        let detail = self.client.skill(&row.name, &row.version).await?.value;
        let mut details = lock(&self.details);
        if details.len() >= MAX_CACHED_DETAILS {
            details.clear();
        }
        details.insert(digest, detail.clone());
        Ok(detail)
    }

    async fn archive(
        &self,
        name: &str,
        version: &str,
        digest: &str,
    ) -> Result<Vec<u8>, ClientError> {
        if let Some((_, archive)) =
            lock(&self.last_archive).as_ref().filter(|(cached, _)| cached == digest)
        {
            return Ok(archive.clone());
        }
        let archive =
            self.client.skill_content(name, version).await?.bytes(MAX_ARCHIVE_BYTES).await?;
        *lock(&self.last_archive) = Some((digest.to_owned(), archive.clone()));
        Ok(archive)
    }

    /// The newest version of a skill.
    async fn package(&self, name: &str) -> Result<Package, ProviderError> {
        let to_error = |error| skill_error(name, error);
        let detail = self.client.skill(name, "latest").await.map_err(to_error)?.value;
        let digest = detail.digest.unwrap_or_default();
        let archive = self.archive(name, &detail.version, &digest).await.map_err(to_error)?;
        let invalid = |error: SkillError| {
            ProviderError::Internal(format!(
                "The server returned an invalid skill archive: {error}."
            ))
        };
        let package =
            skill::read_archive(&archive, &skill::PackageLimits::default()).map_err(invalid)?;
        if package.digest == digest { Ok(package) } else { Err(invalid(SkillError::Digest)) }
    }

    /// Follows an execution to its end. A cancelled execution is also followed, because its result
    /// contains the log so far.
    async fn follow(
        &self,
        id: &str,
        mut events: ExecutionEvents,
        progress: &RunProgress,
        stop: CancellationToken,
    ) -> Result<Reply<Execution>, ClientError> {
        let mut cancelled = false;
        loop {
            let event = tokio::select! {
                event = events.next() => event?,
                () = stop.cancelled(), if !cancelled => {
                    cancelled = true;
                    match self.client.cancel(id).await {
                        // A conflict means that it has already ended; its result follows.
                        Err(error) if error.slug() != Some("conflict") => return Err(error),
                        _ => continue,
                    }
                }
            };
            match event {
                Some(ExecutionEvent::Log(line)) => progress.report(&line.text),
                Some(ExecutionEvent::Result(reply)) => return Ok(*reply),
                Some(ExecutionEvent::State(_)) => {}
                None => return self.client.execution(id).await,
            }
        }
    }
}

#[async_trait]
impl SkillProvider for ServerSkills {
    async fn list(&self, cursor: Option<&str>) -> Result<SkillPage, ProviderError> {
        let page = PageSelector { limit: Some(PAGE_SIZE), cursor: cursor.map(str::to_owned) };
        let listing = self.client.skills(&page).await.map_err(provider_error)?;
        let mut skills = Vec::new();
        // Skills that are held for review or were rejected cannot run, so they are not listed.
        for row in listing
            .items
            .into_iter()
            .filter(|row| row.status.as_deref().is_none_or(|status| status == "available"))
        {
            let detail = match self.detail(&row).await {
                Ok(detail) => detail,
                // Deleted since the list was fetched.
                Err(error) if error.status() == Some(404) => continue,
                Err(error) => return Err(provider_error(error)),
            };
            let SkillDetail { entrypoint, input_schema, .. } = detail;
            let client::SkillSummary { name, version, description, .. } = row;
            skills.push(SkillOverview { name, version, description, entrypoint, input_schema });
        }
        Ok(SkillPage { skills, next: listing.next })
    }

    async fn load(&self, name: &str) -> Result<LoadedSkill, ProviderError> {
        Ok(self.package(name).await?.into())
    }

    async fn read_file(
        &self,
        skill: &str,
        path: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        mcp::read_package_file(&self.package(skill).await?, path, max_bytes)
    }

    async fn run(
        &self,
        run: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError> {
        let name = run.skill.clone();
        let accepted =
            self.client.run(&request(run)?).await.map_err(|error| skill_error(&name, error))?;
        let id = accepted.execution_id.to_string();
        let events = self.client.execution_events(&id, None).await.map_err(provider_error)?;
        let reply = self.follow(&id, events, &progress, stop).await.map_err(provider_error)?;
        serde_json::from_str(&reply.raw).map_err(|error| {
            ProviderError::Internal(format!("The server's response cannot be read: {error}."))
        })
    }

    async fn read_artifact(
        &self,
        execution: &str,
        name: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        let missing = || ProviderError::ArtifactNotFound {
            execution: execution.to_owned(),
            name: name.to_owned(),
        };
        // The name becomes part of a URL: `..` in it would be resolved and reach another route.
        if uuid::Uuid::try_parse(execution).is_err()
            || name.split('/').any(|part| matches!(part, "" | "." | ".."))
        {
            return Err(missing());
        }
        let artifact_error = |error: ClientError| match error.status() {
            Some(404) => missing(),
            _ => provider_error(error),
        };
        let download = self.client.execution_file(execution, name).await.map_err(artifact_error)?;
        if let Some(size) = download.size().filter(|size| *size > max_bytes as u64) {
            return Err(ProviderError::TooLarge { size, max_bytes });
        }
        Ok(FileContents {
            bytes: download.bytes(max_bytes).await.map_err(artifact_error)?,
            content_type: None,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn request(run: SkillRunRequest) -> Result<RunRequest, ProviderError> {
    let SkillRunRequest { skill, version, input, script, args, stdin, env, timeout } = run;
    let input = input.map(|input| to_raw_value(&input)).transpose();
    let input = input.map_err(|error| {
        ProviderError::InvalidRequest(format!("The input cannot be sent: {error}."))
    })?;
    let mode = Some("async".to_owned());
    Ok(RunRequest {
        skill,
        version,
        input,
        env,
        script,
        args,
        stdin,
        timeout,
        mode,
        ..RunRequest::default()
    })
}

fn skill_error(skill: &str, error: ClientError) -> ProviderError {
    match error.status() {
        Some(404) => ProviderError::SkillNotFound(skill.to_owned()),
        _ => provider_error(error),
    }
}

fn provider_error(error: ClientError) -> ProviderError {
    let text = error.to_string();
    match error.status() {
        // The server's own message is about HTTP headers, which an MCP user does not set.
        Some(401) => ProviderError::Forbidden(INVALID_KEY.to_owned()),
        Some(403) => ProviderError::Forbidden(text),
        Some(400..=499) => ProviderError::InvalidRequest(text),
        _ => ProviderError::Internal(text),
    }
}
