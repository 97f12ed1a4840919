//! Skills that do as they are told, and a way to see what they were told.

use async_trait::async_trait;
use mcp::{Contents, Ended, Listed, Offer, Page, Progress, Refusal, Run, Skill, Skills};
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

pub fn waiting() -> (Offer, mpsc::UnboundedReceiver<News>) {
    let (tell, told) = mpsc::unbounded_channel();
    (Offer { skills: Arc::new(Waiting(tell)), skill_tools: false }, told)
}

#[async_trait]
impl Skills for Waiting {
    async fn list(&self, _: Option<&str>) -> Result<Page, Refusal> {
        let name = "wait".to_owned();
        let entrypoint = Some("main.sh".to_owned());
        let listed = Listed {
            name,
            version: "1".into(),
            description: "d".into(),
            entrypoint,
            input_schema: None,
        };
        Ok(Page { skills: vec![listed], next: None })
    }

    async fn load(&self, name: &str) -> Result<Skill, Refusal> {
        Err(Refusal::NoSkill(name.to_owned()))
    }

    async fn file(&self, skill: &str, _: &str, _: usize) -> Result<Contents, Refusal> {
        Err(Refusal::NoSkill(skill.to_owned()))
    }

    async fn run(
        &self,
        _: Run,
        progress: Progress,
        stop: CancellationToken,
    ) -> Result<Ended, Refusal> {
        self.0.send(News::Began).unwrap();
        progress.say("began\n");
        stop.cancelled().await;
        self.0.send(News::Stopped).unwrap();
        Ok(Ended { execution_id: "e".into(), status: "cancelled".into(), ..Ended::default() })
    }

    async fn artifact(&self, execution: &str, name: &str, _: usize) -> Result<Contents, Refusal> {
        Err(Refusal::NoArtifact { execution: execution.to_owned(), name: name.to_owned() })
    }
}
