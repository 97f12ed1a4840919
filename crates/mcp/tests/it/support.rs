//! Skills that do as they are told, and a way to see what they were told.

use async_trait::async_trait;
use mcp::{
    FileContents, LoadedSkill, ProviderError, RunProgress, RunResult, ServedSkills, SkillOverview,
    SkillPage, SkillProvider, SkillRunRequest,
};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What happened to a run.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    Began,
    Stopped,
}

/// One skill, `wait`: a run of it goes on until it is stopped.
pub struct Waiting(mpsc::UnboundedSender<News>);

pub fn waiting() -> (ServedSkills, mpsc::UnboundedReceiver<News>) {
    let (tell, told) = mpsc::unbounded_channel();
    (ServedSkills { skills: Arc::new(Waiting(tell)), skill_tools: false }, told)
}

#[async_trait]
impl SkillProvider for Waiting {
    async fn list(&self, _: Option<&str>) -> Result<SkillPage, ProviderError> {
        let name = "wait".to_owned();
        let entrypoint = Some("main.sh".to_owned());
        let listed = SkillOverview {
            name,
            version: "1".into(),
            description: "d".into(),
            entrypoint,
            input_schema: None,
        };
        Ok(SkillPage { skills: vec![listed], next: None })
    }

    async fn load(&self, name: &str) -> Result<LoadedSkill, ProviderError> {
        Err(ProviderError::SkillNotFound(name.to_owned()))
    }

    async fn read_file(
        &self,
        skill: &str,
        _: &str,
        _: usize,
    ) -> Result<FileContents, ProviderError> {
        Err(ProviderError::SkillNotFound(skill.to_owned()))
    }

    async fn run(
        &self,
        _: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError> {
        self.0.send(News::Began).unwrap();
        progress.report("began\n");
        stop.cancelled().await;
        self.0.send(News::Stopped).unwrap();
        Ok(RunResult {
            execution_id: "e".into(),
            status: "cancelled".into(),
            ..RunResult::default()
        })
    }

    async fn read_artifact(
        &self,
        execution: &str,
        name: &str,
        _: usize,
    ) -> Result<FileContents, ProviderError> {
        Err(ProviderError::ArtifactNotFound {
            execution: execution.to_owned(),
            name: name.to_owned(),
        })
    }
}
