//! Step five, collect: what the run left, checked and closed: logs as text, `output.json` as
//! compact JSON, artifacts complete in blobs.

use std::sync::Arc;

use sandbox::{Outcome, RunReport};
use store::{NewFile, TenantId};

use crate::artifacts::Stored;
use crate::checks::{self, CheckedOutput};
use crate::detail::Detail;
use crate::ending;
use crate::halt::Halt;
use crate::load::Skill;
use crate::plan::Plan;
use crate::run::Caught;
use crate::runner::Runner;

/// Everything there is to record about a finished execution.
#[derive(Debug)]
pub struct Collected {
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
    pub fn halted(halt: Halt) -> Collected {
        Collected {
            outcome: halt.outcome,
            exit_code: None,
            error: Some(halt.error),
            output: None,
            logs: String::new(),
            files: Vec::new(),
            archive_bytes: None,
            detail: Detail { trust: halt.doubt, ..Detail::default() },
            script: None,
            signed_by: None,
        }
    }
}

/// A lost run keeps its logs; what there is of its files is removed, for half of them would look
/// like all.
pub async fn collect(
    runner: &Runner,
    tenant: &TenantId,
    ran: Result<RunReport, Halt>,
    caught: Caught,
    skill: &Arc<Skill>,
    plan: &Plan,
) -> Collected {
    let Caught { logs, artifacts } = caught;
    let logs = logs.finish(ran.as_ref().is_ok_and(|ran| ran.logs_truncated));
    let mut collected = match ran {
        Ok(ran) => match artifacts.finish().await {
            Ok(stored) => {
                let output = checks::check_output(runner, tenant, ran.output.clone(), skill).await;
                finished(ran, stored, output, plan)
            }
            Err(error) => {
                tracing::error!(%error, "artifacts could not be stored");
                Collected::halted(Halt::lost("The run's files could not be stored."))
            }
        },
        Err(halt) => {
            artifacts.discard().await;
            Collected::halted(halt)
        }
    };
    collected.logs = logs.logs;
    collected.detail.stdout = logs.stdout;
    collected.detail.stderr = logs.stderr;
    collected.detail.logs_truncated = logs.truncated;
    collected.detail.clamped = plan.clamped.clone();
    collected.script = Some(plan.script.clone());
    collected
}

pub fn finished(ran: RunReport, stored: Stored, checked: CheckedOutput, plan: &Plan) -> Collected {
    let mut error = ending::sentence(&ran, plan);
    let CheckedOutput { output, complaint } = checked;
    // The script's own failure is the cause; a bad output is often only its consequence.
    error = error.or(complaint);
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
