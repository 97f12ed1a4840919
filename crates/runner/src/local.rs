//! One run without a server: the same checks, plan and judgement as everywhere, with nothing stored
//! and nobody to answer to but the caller. There is no tenant, no queue and no lease; bytes go to
//! the caller's own sink as they come.

use std::ffi::OsString;

use sandbox::{
    ConnectAttempt, GuestError, Isolation, LaunchError, Launcher, Outcome, RunReport, RunUsage,
    Shape, Sink, SkippedFile, StreamMode, UnconfinedPermit,
};
use skill::Package;
use tokio_util::sync::CancellationToken;

use crate::accept;
use crate::artifacts::Stored;
use crate::checks;
use crate::collect;
use crate::halt::Halt;
use crate::load::Skill;
use crate::plan::{Plan, plan};
use crate::{Policy, Request};

/// A run that was checked and planned. Nothing has happened yet.
#[derive(Debug)]
pub struct Local {
    skill: Skill,
    plan: Plan,
    script: String,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    /// What went wrong, in a sentence; `None` when the script ended well.
    pub error: Option<String>,
    /// The output document, compact.
    pub output: Option<String>,
    pub skipped: Vec<SkippedFile>,
    pub usage: RunUsage,
    /// The script's calls for other machines, as its guest saw them; none where nobody looked.
    pub network_attempts: Option<Vec<ConnectAttempt>>,
    pub isolation: Isolation,
    pub logs_truncated: bool,
}

/// Why there is no run to tell of.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// By the policy, or because the request does not fit the skill; nothing was started.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("the run was lost: {0}")]
    Lost(#[from] GuestError),
}

impl Local {
    /// Checks the request against the skill and the policy, as a server would.
    pub fn plan(package: Package, request: Request, policy: &Policy) -> Result<Local, LocalError> {
        let request = Request { skill: package.manifest.name.clone(), ..request };
        let request =
            accept::check(request).map_err(|error| LocalError::Refused(error.to_string()))?;
        let skill = Skill::new(package).map_err(LocalError::Refused)?;
        let plan = plan(&skill, &request, policy)
            .map_err(|Halt { error, .. }| LocalError::Refused(error))?;
        checks::check_input_here(&skill, request.input_json()).map_err(LocalError::Refused)?;
        let entrypoint = skill.entrypoint.as_ref().map(|script| script.path.clone());
        let script = request.script.or(entrypoint).unwrap_or_default();
        Ok(Local { skill, plan, script })
    }

    /// The same with the two streams kept apart or not, whichever way the script was chosen.
    pub fn with_streams(mut self, streams: StreamMode) -> Local {
        self.plan.job.streams = streams;
        self
    }

    /// The path of what will run, inside the skill.
    pub fn script(&self) -> &str {
        &self.script
    }

    pub fn shape(&self) -> &Shape {
        &self.plan.shape
    }

    pub fn timeout_ms(&self) -> u64 {
        u64::try_from(self.plan.job.timeout.as_millis()).unwrap_or(u64::MAX)
    }

    /// One sentence for each limit that was asked for and not given.
    pub fn clamped(&self) -> &[String] {
        &self.plan.clamped
    }

    /// Runs it in a sandbox of its own.
    pub async fn run(
        &self,
        launcher: &dyn Launcher,
        stop: CancellationToken,
        sink: &mut dyn Sink,
    ) -> Result<Ended, LocalError> {
        let guest = launcher.launch(&self.plan.shape).await?;
        let ran = guest.run(&self.plan.job, stop, sink).await?;
        Ok(self.ended(ran))
    }

    /// Runs it with nothing around it.
    pub async fn run_unconfined(
        &self,
        permit: UnconfinedPermit,
        search_path: Option<OsString>,
        stop: CancellationToken,
        sink: &mut dyn Sink,
    ) -> Result<Ended, LocalError> {
        let ran = sandbox::run_unconfined(&self.plan.job, permit, search_path, stop, sink).await?;
        Ok(self.ended(ran))
    }

    fn ended(&self, ran: RunReport) -> Ended {
        let (isolation, logs_truncated) = (ran.isolation.clone(), ran.logs_truncated);
        let collected = {
            let output = checks::check_output_here(ran.output.as_deref(), &self.skill);
            collect::finished(ran, Stored::default(), output, &self.plan)
        };
        Ended {
            outcome: collected.outcome,
            exit_code: collected.exit_code,
            error: collected.error,
            output: collected.output,
            skipped: collected.detail.skipped,
            usage: collected.detail.usage,
            network_attempts: collected.detail.network_attempts,
            isolation,
            logs_truncated,
        }
    }
}
