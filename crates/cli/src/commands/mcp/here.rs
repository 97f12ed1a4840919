//! Skills below a directory of this machine, run as `skillbox run DIR` runs them.

mod caught;
mod files;

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
use crate::local::{self, Facts, LocalArgs};
use caught::Caught;
use files::Files;

pub struct Here {
    dir: PathBuf,
    args: LocalArgs,
    files: Files,
    /// A model that asks for everything at once gets it one after the other.
    slots: Semaphore,
}

impl Here {
    /// `files` is where the user wants the files of runs, if anywhere.
    pub fn new(dir: PathBuf, args: LocalArgs, files: Option<PathBuf>) -> Result<Here> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Here { dir, args, files: Files::new(files)?, slots: Semaphore::new(2 * cores) })
    }

    /// Every skill there is at this moment; of two with one name, the first.
    fn skills(&self) -> Vec<(PathBuf, Package)> {
        let mut skills: Vec<(PathBuf, Package)> = Vec::new();
        for (path, package) in tokio::task::block_in_place(|| list::valid_below(&self.dir)) {
            if !skills.iter().any(|(_, known)| known.manifest.name == package.manifest.name) {
                skills.push((path, package));
            }
        }
        skills.sort_by(|(_, one), (_, other)| one.manifest.name.cmp(&other.manifest.name));
        skills
    }

    fn find(&self, name: &str) -> Result<(PathBuf, Package), ProviderError> {
        let found = self.skills().into_iter().find(|(_, package)| package.manifest.name == name);
        found.ok_or_else(|| ProviderError::SkillNotFound(name.to_owned()))
    }
}

#[async_trait]
impl SkillProvider for Here {
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
            .is_some_and(|wanted| wanted != "latest" && wanted != package.manifest.version)
        {
            let message = format!(
                "Here the skill `{}` has the version {} only.",
                run.skill, package.manifest.version
            );
            return Err(ProviderError::InvalidRequest(message));
        }
        let request = request(run)?;
        let _slot = tokio::select! {
            slot = self.slots.acquire() => slot.map_err(|_| ProviderError::Internal("This program is ending.".to_owned()))?,
            () = stop.cancelled() => return Err(ProviderError::Internal("It was cancelled before it began.".to_owned())),
        };
        let id = Uuid::now_v7().to_string();
        let streams = if request.script.is_some() { StreamMode::Split } else { StreamMode::Merged };
        let mut caught = Caught::new(progress, streams, self.files.place(&id));
        let mut facts = Facts::default();
        let ended =
            local::run_into(&path, &request, &self.args, streams, &mut facts, stop, &mut caught)
                .await;
        self.files.add(&id, &caught.files);
        match ended {
            Ok(ended) => Ok(caught.ended(id, &ended, facts, &self.files)),
            // What a server would refuse is a failed run there, too.
            Err(error) => Ok(refused(id, &error, facts)),
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
    let invalid = |error: String| {
        ProviderError::InvalidRequest(format!("These arguments cannot be used: {error}."))
    };
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

fn refused(id: String, error: &anyhow::Error, facts: Facts) -> RunResult {
    RunResult {
        execution_id: id,
        status: "failed".to_owned(),
        outcome: Some("refused".to_owned()),
        error: Some(format!("{error:#}")),
        skill_version: facts.version,
        digest: facts.digest,
        ..RunResult::default()
    }
}
