//! A caller of the protocol: the skills that are served to it, and whether it is still connected.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::provider::SkillProvider;

/// The skills that are served to a caller.
#[derive(Clone)]
pub struct ServedSkills {
    pub skills: Arc<dyn SkillProvider>,
    /// Serve one tool for each skill besides the general tools.
    pub skill_tools: bool,
}

/// One caller, for the lifetime of a connection (standard streams) or of a request (HTTP).
#[derive(Clone)]
pub(crate) struct McpConnection {
    pub served: ServedSkills,
    /// Cancelled when the caller disconnects, which cancels its runs.
    pub disconnected: CancellationToken,
}

impl McpConnection {
    /// Awaits `work`, and cancels `stop` when the caller disconnects first.
    pub(crate) async fn cancel_on_disconnect<T>(
        &self,
        work: impl Future<Output = T>,
        stop: &CancellationToken,
    ) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = self.disconnected.cancelled() => stop.cancel(),
        }
        // Not dropped: the provider still has to end the cancelled run and clean up after it.
        work.await
    }
}
