//! One run without a server: the same checks, the same plan and the same outcome rules as an
//! execution, but nothing is stored. There is no tenant, no queue and no lease; output goes directly
//! to the caller's sink.

use std::ffi::OsString;

use catalogue::LoadedSkill;
use sandbox::{
    ConnectAttempt, GuestError, Isolation, LaunchError, Launcher, Outcome, RunReport, RunUsage,
    Shape, Sink, SkippedFile, StreamMode, UnconfinedPermit,
};
use skill::Package;
use tokio_util::sync::CancellationToken;

use crate::artifacts::StoredArtifacts;
use crate::execution::accept::validation::validate;
use crate::execution::collect::{self, verdict};
use crate::execution::plan::{Plan, plan};
use crate::execution::schema_checks;
use crate::execution::stop::Stop;
use crate::{Request, RunPolicy};

/// A run that was checked and planned. Nothing has been started.
#[derive(Debug)]
pub struct StandaloneRun {
    skill: LoadedSkill,
    plan: Plan,
    script: String,
}

/// The result of a run without a server.
#[derive(Debug, Clone)]
pub struct StandaloneResult {
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    /// The error as one sentence; `None` if the script succeeded.
    pub error: Option<String>,
    /// The output document, compact.
    pub output: Option<String>,
    pub skipped: Vec<SkippedFile>,
    pub usage: RunUsage,
    /// Outbound connection attempts that the guest observed; `None` if it did not observe any calls.
    pub network_attempts: Option<Vec<ConnectAttempt>>,
    pub isolation: Isolation,
    pub logs_truncated: bool,
}

impl StandaloneResult {
    /// The status that an execution with this result has on a server.
    pub fn status(&self) -> &'static str {
        verdict::status(self.outcome, self.exit_code, self.error.as_deref()).as_str()
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// Refused by the policy, or the request does not fit the skill. Nothing was started.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("the run was lost: {0}")]
    Lost(#[from] GuestError),
}

impl StandaloneRun {
    /// Checks the request against the skill and the policy, as a server would.
    pub fn plan(
        package: Package,
        request: Request,
        policy: &RunPolicy,
    ) -> Result<StandaloneRun, StandaloneError> {
        let request = Request { skill: package.manifest.name.clone(), ..request };
        let request =
            validate(request).map_err(|error| StandaloneError::Refused(error.to_string()))?;
        let skill = LoadedSkill::compile(package).map_err(StandaloneError::Refused)?;
        let plan = plan(&skill, &request, policy)
            .map_err(|Stop { error, .. }| StandaloneError::Refused(error))?;
        schema_checks::check_input_here(&skill, request.input_json())
            .map_err(StandaloneError::Refused)?;
        let entrypoint = skill.entrypoint.as_ref().map(|script| script.path.clone());
        let script = request.script.or(entrypoint).unwrap_or_default();
        Ok(StandaloneRun { skill, plan, script })
    }

    /// Sets whether standard output and standard error are merged.
    pub fn with_streams(mut self, streams: StreamMode) -> StandaloneRun {
        self.plan.job.streams = streams;
        self
    }

    /// The path of the script inside the skill.
    pub fn script(&self) -> &str {
        &self.script
    }

    pub fn shape(&self) -> &Shape {
        &self.plan.shape
    }

    pub fn timeout_ms(&self) -> u64 {
        u64::try_from(self.plan.job.timeout.as_millis()).unwrap_or(u64::MAX)
    }

    /// Limits that were lowered to the allowed maximum, one sentence each.
    pub fn clamped(&self) -> &[String] {
        &self.plan.clamped
    }

    /// Runs the script in a new sandbox.
    pub async fn run(
        &self,
        launcher: &dyn Launcher,
        stop: CancellationToken,
        sink: &mut dyn Sink,
    ) -> Result<StandaloneResult, StandaloneError> {
        let guest = launcher.launch(&self.plan.shape).await?;
        let ran = guest.run(&self.plan.job, stop, sink).await?;
        Ok(self.result(ran))
    }

    /// Runs the script without a sandbox.
    pub async fn run_unconfined(
        &self,
        permit: UnconfinedPermit,
        search_path: Option<OsString>,
        stop: CancellationToken,
        sink: &mut dyn Sink,
    ) -> Result<StandaloneResult, StandaloneError> {
        let ran = sandbox::run_unconfined(&self.plan.job, permit, search_path, stop, sink).await?;
        Ok(self.result(ran))
    }

    fn result(&self, ran: RunReport) -> StandaloneResult {
        let (isolation, logs_truncated) = (ran.isolation.clone(), ran.logs_truncated);
        let collected = {
            let output = schema_checks::check_output_here(ran.output.as_deref(), &self.skill);
            collect::finished(ran, StoredArtifacts::default(), output, &self.plan)
        };
        StandaloneResult {
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
