//! Step five, collect: what the run left, checked and closed: logs as text, `output.json` as
//! compact JSON, artifacts complete in blobs.

pub(crate) mod verdict;

use sandbox::{Outcome, RunReport};
use store::{NewFile, TenantId};

use super::detail::{Detail, TrustProblemDetail};
use super::load::Loaded;
use super::plan::Plan;
use super::run::OutputSink;
use super::schema_checks::{self, CheckedOutput};
use super::stop::Stop;
use crate::artifacts::StoredArtifacts;
use crate::runner::Runner;

/// Everything that is recorded about an execution that ended.
#[derive(Debug)]
pub(crate) struct Collected {
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
    pub output: Option<String>,
    pub logs: String,
    pub files: Vec<NewFile>,
    /// The size of the archive of all of them.
    pub archive_bytes: Option<i64>,
    pub detail: Detail,
    /// The path of the script that ran.
    pub script: Option<String>,
    /// The key of the signature that was checked before it ran.
    pub signed_by: Option<String>,
}

impl Collected {
    /// The end of an execution that has no result of its own.
    pub(crate) fn stopped(stop: Stop) -> Collected {
        Collected {
            outcome: stop.outcome,
            exit_code: None,
            error: Some(stop.error),
            output: None,
            logs: String::new(),
            files: Vec::new(),
            archive_bytes: None,
            detail: Detail { trust: stop.trust_problem, ..Detail::default() },
            script: None,
            signed_by: None,
        }
    }
}

pub(crate) async fn collect(
    runner: &Runner,
    tenant: &TenantId,
    ran: Result<RunReport, Stop>,
    output: OutputSink,
    loaded: Loaded,
    plan: &Plan,
) -> Collected {
    let OutputSink { logs, artifacts } = output;
    let Loaded { skill, trust } = loaded;
    let logs = logs.finish(ran.as_ref().is_ok_and(|ran| ran.logs_truncated));
    let mut collected = match ran {
        Ok(ran) => match artifacts.finish().await {
            Ok(stored) => {
                let document = ran.output.clone();
                let output = schema_checks::check_output(runner, tenant, document, &skill).await;
                finished(ran, stored, output, plan)
            }
            Err(error) => {
                tracing::error!(%error, "artifacts could not be stored");
                Collected::stopped(Stop::lost("The run's files could not be stored."))
            }
        },
        // A lost run keeps its logs and no files: some of them would pass for all of them.
        Err(stop) => {
            artifacts.discard().await;
            Collected::stopped(stop)
        }
    };
    collected.logs = logs.logs;
    collected.detail.stdout = logs.stdout;
    collected.detail.stderr = logs.stderr;
    collected.detail.logs_truncated = logs.truncated;
    collected.detail.clamped = plan.clamped.clone();
    collected.detail.trust = trust.problem.as_ref().map(TrustProblemDetail::from);
    collected.script = Some(plan.script.clone());
    collected.signed_by = trust.signed_by;
    collected
}

/// The result of a run that came to its end, still without its logs.
pub(crate) fn finished(
    ran: RunReport,
    stored: StoredArtifacts,
    checked: CheckedOutput,
    plan: &Plan,
) -> Collected {
    let CheckedOutput { output, problem } = checked;
    // The script's own failure is the cause; a bad output is often only its consequence.
    let error = verdict::error_text(&ran, plan).or(problem);
    Collected {
        outcome: ran.outcome,
        exit_code: ran.exit_code,
        error,
        output,
        logs: String::new(),
        files: stored.files,
        archive_bytes: stored.archive_bytes,
        detail: Detail {
            skipped: ran.skipped,
            network_attempts: ran.connect_attempts,
            usage: ran.usage,
            isolation: serde_json::to_value(&ran.isolation).ok(),
            ..Detail::default()
        },
        script: None,
        signed_by: None,
    }
}
