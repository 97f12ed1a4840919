//! Skills of a server elsewhere, through its API and with the caller's key.

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

/// More than any archive a server takes.
const MAX_ARCHIVE_BYTES: usize = 512 << 20;
const PAGE: u32 = 50;
const NO_KEY: &str = "The server does not take this key. Start `skillbox mcp` with a valid one, by -k or SKILLBOX_API_KEY.";
/// Details that are remembered; beyond, all are asked for again.
const MAX_DETAILS: usize = 1000;

pub struct ServerSkills {
    client: Client,
    /// The archive that was read last: agents read a skill file by file.
    last: Mutex<Option<(String, Vec<u8>)>>,
    /// What a list does not say of a skill, by its digest.
    details: Mutex<HashMap<String, SkillDetail>>,
}

impl ServerSkills {
    pub fn new(client: Client) -> ServerSkills {
        ServerSkills { client, last: Mutex::default(), details: Mutex::default() }
    }

    async fn detail(&self, row: &client::SkillSummary) -> Result<SkillDetail, ClientError> {
        let digest = row.digest.clone().unwrap_or_default();
        if let Some(known) = held(&self.details).get(&digest) {
            return Ok(known.clone());
        }
        let detail = self.client.skill(&row.name, &row.version).await?.value;
        let mut details = held(&self.details);
        if details.len() >= MAX_DETAILS {
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
        if let Some((_, archive)) = held(&self.last).as_ref().filter(|(kept, _)| kept == digest) {
            return Ok(archive.clone());
        }
        let archive =
            self.client.skill_content(name, version).await?.bytes(MAX_ARCHIVE_BYTES).await?;
        *held(&self.last) = Some((digest.to_owned(), archive.clone()));
        Ok(archive)
    }

    /// The newest version of a skill.
    async fn package(&self, name: &str) -> Result<Package, ProviderError> {
        let told = |error| about(name, error);
        let detail = self.client.skill(name, "latest").await.map_err(told)?.value;
        let digest = detail.digest.unwrap_or_default();
        let archive = self.archive(name, &detail.version, &digest).await.map_err(told)?;
        let altered = |error: SkillError| {
            ProviderError::Internal(format!("The server's archive cannot be used: {error}."))
        };
        let package = skill::read_archive(&archive, &skill::Limits::default()).map_err(altered)?;
        if package.digest == digest { Ok(package) } else { Err(altered(SkillError::Digest)) }
    }

    /// Follows to the end; a cancelled run is followed to its end too.
    async fn follow(
        &self,
        id: &str,
        mut events: ExecutionEvents,
        progress: &RunProgress,
        stop: CancellationToken,
    ) -> Result<Reply<Execution>, ClientError> {
        let mut stopped = false;
        loop {
            let event = tokio::select! {
                event = events.next() => event?,
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    match self.client.cancel(id).await {
                        // It ended by itself meanwhile.
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
        let page = PageSelector { limit: Some(PAGE), cursor: cursor.map(str::to_owned) };
        let listing = self.client.skills(&page).await.map_err(refusal)?;
        let mut skills = Vec::new();
        // A skill that waits for a review, or was rejected, is none to offer.
        for row in listing
            .items
            .into_iter()
            .filter(|row| row.status.as_deref().is_none_or(|word| word == "available"))
        {
            let detail = match self.detail(&row).await {
                Ok(detail) => detail,
                // Deleted since the list was made.
                Err(error) if error.status() == Some(404) => continue,
                Err(error) => return Err(refusal(error)),
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
            self.client.run(&request(run)?).await.map_err(|error| about(&name, error))?;
        let id = accepted.execution_id.to_string();
        let events = self.client.execution_events(&id, None).await.map_err(refusal)?;
        let reply = self.follow(&id, events, &progress, stop).await.map_err(refusal)?;
        serde_json::from_str(&reply.raw).map_err(|error| {
            ProviderError::Internal(format!("The server's answer is not understood: {error}."))
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
        // Steps that a URL would resolve could lead to another route.
        if uuid::Uuid::try_parse(execution).is_err()
            || name.split('/').any(|part| matches!(part, "" | "." | ".."))
        {
            return Err(missing());
        }
        let told = |error: ClientError| match error.status() {
            Some(404) => missing(),
            _ => refusal(error),
        };
        let download = self.client.execution_file(execution, name).await.map_err(told)?;
        if let Some(size) = download.size().filter(|size| *size > max_bytes as u64) {
            return Err(ProviderError::TooLarge { size, max_bytes });
        }
        Ok(FileContents {
            bytes: download.bytes(max_bytes).await.map_err(told)?,
            content_type: None,
        })
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
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

fn about(skill: &str, error: ClientError) -> ProviderError {
    match error.status() {
        Some(404) => ProviderError::SkillNotFound(skill.to_owned()),
        _ => refusal(error),
    }
}

fn refusal(error: ClientError) -> ProviderError {
    let text = error.to_string();
    match error.status() {
        // The server's own sentence is for programs that send headers.
        Some(401) => ProviderError::Forbidden(NO_KEY.to_owned()),
        Some(403) => ProviderError::Forbidden(text),
        Some(400..=499) => ProviderError::InvalidRequest(text),
        _ => ProviderError::Internal(text),
    }
}
