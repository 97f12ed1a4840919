//! Serves the skills below a directory of this machine, run as `skillbox run DIR` runs them.

mod run_capture;
mod run_files;

use std::path::PathBuf;

use anyhow::Result;
use async_trait::async_trait;
use mcp::{
    FileContents, LoadedSkill, ProviderError, RunProgress, RunResult, SkillOverview, SkillPage,
    SkillProvider, SkillRunRequest,
};
use runner::Request;
use sandbox::StreamMode;
use serde_json::value::to_raw_value;
use skill::Package;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::commands::list;
use crate::local_run::{self, LocalArgs, RunMetadata};
use run_capture::RunCapture;
use run_files::RunFiles;

pub(super) struct DirectorySkills {
    dir: PathBuf,
    args: LocalArgs,
    files: RunFiles,
    /// Limits how many runs are active at once, because a model may request many in one turn.
    slots: Semaphore,
}

impl DirectorySkills {
    /// `files` is the user's directory for the files of runs, if one was given.
    pub(super) fn new(
        dir: PathBuf,
        args: LocalArgs,
        files: Option<PathBuf>,
    ) -> Result<DirectorySkills> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(DirectorySkills {
            dir,
            args,
            files: RunFiles::new(files)?,
            slots: Semaphore::new(2 * cores),
        })
    }

    /// All skills at this moment. Of several skills with the same name, the first one wins.
    fn skills(&self) -> Vec<(PathBuf, Package)> {
        let mut skills: Vec<(PathBuf, Package)> = Vec::new();
        for (path, package) in tokio::task::block_in_place(|| list::valid_below(&self.dir)) {
            if !skills.iter().any(|(_, other)| other.manifest.name == package.manifest.name) {
                skills.push((path, package));
            }
        }
        skills.sort_by(|(_, one), (_, other)| one.manifest.name.cmp(&other.manifest.name));
        skills
    }

    fn find(&self, name: &str) -> Result<(PathBuf, Package), ProviderError> {
        let skill = self.skills().into_iter().find(|(_, package)| package.manifest.name == name);
        skill.ok_or_else(|| ProviderError::SkillNotFound(name.to_owned()))
    }
}

#[async_trait]
impl SkillProvider for DirectorySkills {
    async fn list(&self, _: Option<&str>) -> Result<SkillPage, ProviderError> {
        let listed = |(_, package): (PathBuf, Package)| SkillOverview {
            name: package.manifest.name,
            version: package.manifest.version,
            description: package.manifest.description,
            entrypoint: package.entrypoint.map(|script| script.path),
            input_schema: package.manifest.input_schema,
        };
        Ok(SkillPage { skills: self.skills().into_iter().map(listed).collect(), next: None })
    }

    async fn load(&self, name: &str) -> Result<LoadedSkill, ProviderError> {
        let (_, package) = self.find(name)?;
        Ok(package.into())
    }

    async fn read_file(
        &self,
        skill: &str,
        path: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        let (_, package) = self.find(skill)?;
        mcp::read_package_file(&package, path, max_bytes)
    }

    async fn run(
        &self,
        run: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError> {
        let (path, package) = self.find(&run.skill)?;
        if run
            .version
            .as_deref()
            .is_some_and(|version| version != "latest" && version != package.manifest.version)
        {
            let message = format!(
                "The skill `{}` is available only in version {}.",
                run.skill, package.manifest.version
            );
            return Err(ProviderError::InvalidRequest(message));
        }
        let request = request(run)?;
        let _slot = tokio::select! {
            slot = self.slots.acquire() => slot.map_err(|_| ProviderError::Internal("This program is shutting down.".to_owned()))?,
            () = stop.cancelled() => return Err(ProviderError::Internal("The run was cancelled before it started.".to_owned())),
        };
        let id = Uuid::now_v7().to_string();
        let streams = if request.script.is_some() { StreamMode::Split } else { StreamMode::Merged };
        let mut capture = RunCapture::new(progress, streams, self.files.directory(&id));
        let mut metadata = RunMetadata::default();
        let result = local_run::run_into(
            &path, &request, &self.args, streams, &mut metadata, stop, &mut capture,
        )
        .await;
        self.files.add(&id, &capture.files);
        match result {
            Ok(result) => Ok(capture.into_ended(id, &result, metadata, &self.files)),
            // Not an MCP error: a server also reports a run that it refuses as a failed execution.
            Err(error) => Ok(refused_run(id, &error, metadata)),
        }
    }

    async fn read_artifact(
        &self,
        execution: &str,
        name: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        self.files.read(execution, name, max_bytes)
    }
}

fn request(run: SkillRunRequest) -> Result<Request, ProviderError> {
    let invalid =
        |error: String| ProviderError::InvalidRequest(format!("Invalid arguments: {error}."));
    let input = run
        .input
        .map(|input| to_raw_value(&input))
        .transpose()
        .map_err(|error| invalid(error.to_string()))?;
    let timeout_ms = run.timeout.map(|text| skill::parse_duration(&text)).transpose();
    Ok(Request {
        input,
        script: run.script,
        args: run.args,
        stdin: run.stdin,
        env: run.env,
        timeout_ms: timeout_ms.map_err(|error| invalid(format!("timeout: {error}")))?,
        ..Request::new(run.skill)
    })
}

fn refused_run(id: String, error: &anyhow::Error, metadata: RunMetadata) -> RunResult {
    RunResult {
        execution_id: id,
        status: "failed".to_owned(),
        outcome: Some("refused".to_owned()),
        error: Some(format!("{error:#}")),
        skill_version: metadata.version,
        digest: metadata.digest,
        ..RunResult::default()
    }
}
