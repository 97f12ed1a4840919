//! A fake provider of skills that reports what happens to its runs.

use async_trait::async_trait;
use mcp::{
    FileContents, LoadedSkill, ProviderError, RunProgress, RunResult, ServedSkills, SkillOverview,
    SkillPage, SkillProvider, SkillRunRequest,
};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What happened to a run of the fake provider.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunEvent {
    Started,
    Cancelled,
}

/// A provider with one skill, `wait`, whose runs last until they are cancelled.
pub(crate) struct FakeProvider(mpsc::UnboundedSender<RunEvent>);

pub(crate) fn fake_skills() -> (ServedSkills, mpsc::UnboundedReceiver<RunEvent>) {
    let (sender, events) = mpsc::unbounded_channel();
    (ServedSkills { skills: Arc::new(FakeProvider(sender)), skill_tools: false }, events)
}

#[async_trait]
impl SkillProvider for FakeProvider {
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
        self.0.send(RunEvent::Started).unwrap();
        progress.report("began\n");
        stop.cancelled().await;
        self.0.send(RunEvent::Cancelled).unwrap();
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
