//! Whether the tenant trusts the skill of an execution now, and the audit entry if it does not.

use catalogue::{TrustDecision, TrustProblem};
use serde_json::json;
use skill::signature::SkillStatement;
use store::NewAuditRecord;

use crate::execution::accept::AcceptedRequest;
use crate::execution::detail::TrustProblemDetail;
use crate::execution::stop::Stop;
use crate::runner::Runner;

/// What is known about the trust in a skill that may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VerifiedTrust {
    /// A problem that the policy only warns about.
    pub problem: Option<TrustProblem>,
    /// The key of the verified signature, if the policy has signatures checked.
    pub signed_by: Option<String>,
}

/// Checks trust before every run, however long the execution was queued: the keys, revocations and
/// policy of this moment count.
pub(super) async fn check_trust(
    runner: &Runner,
    accepted: &AcceptedRequest,
) -> Result<VerifiedTrust, Stop> {
    let AcceptedRequest { tenant, skill_name, skill_version, digest, .. } = accepted;
    let statement = SkillStatement { name: skill_name, version: skill_version, digest };
    // `latest` and a version by its number are judged differently: only the first may roll back.
    let requested = &accepted.request.version;
    let decision =
        runner.catalogue.check_run(tenant, statement, requested, accepted.accepted_at).await;
    match decision {
        Ok(TrustDecision::Allowed { problem, signed_by }) => {
            Ok(VerifiedTrust { problem, signed_by })
        }
        Ok(TrustDecision::Refused(problem)) => Err(refuse(runner, accepted, &problem).await),
        Err(error) => {
            tracing::error!(execution_id = %accepted.id, %error, "the trust in a skill could not be checked");
            Err(Stop::unready("Whether the skill is trusted could not be checked."))
        }
    }
}

/// A refused run also concerns the readers of the audit log.
async fn refuse(runner: &Runner, accepted: &AcceptedRequest, problem: &TrustProblem) -> Stop {
    let entry = NewAuditRecord {
        actor: accepted.key_id,
        action: "execution.refused".to_owned(),
        object: accepted.id.to_string(),
        detail: json!({
            "skill": format!("{}@{}", accepted.skill_name, accepted.skill_version),
            "digest": accepted.digest,
            "reason": problem.code(),
        }),
        request_id: None,
    };
    if let Err(error) = runner.store.append_audit_record(&accepted.tenant, &entry).await {
        tracing::error!(execution_id = %accepted.id, %error, "the audit log could not be written");
    }
    let error = format!("Refused ({}): {problem}", problem.code());
    Stop { trust_problem: Some(TrustProblemDetail::from(problem)), ..Stop::refused(error) }
}
