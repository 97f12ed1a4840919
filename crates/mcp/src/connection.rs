//! Who is served: the skills that a caller is offered, and whether it still listens.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::skills::SkillProvider;

/// What a caller is offered.
#[derive(Clone)]
pub struct ServedSkills {
    pub skills: Arc<dyn SkillProvider>,
    /// Also one tool for each skill.
    pub skill_tools: bool,
}

/// One caller, on one connection or with one request.
#[derive(Clone)]
pub struct McpConnection {
    pub offer: ServedSkills,
    /// Cancelled when the caller went away; what runs for it is stopped.
    pub gone: CancellationToken,
}

impl McpConnection {
    /// Does `work` to its end, and tells it by `stop` when nobody waits for it any more.
    pub async fn attend<T>(&self, work: impl Future<Output = T>, stop: &CancellationToken) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = self.gone.cancelled() => stop.cancel(),
        }
        work.await
    }
}
