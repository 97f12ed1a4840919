//! Whether the skill of an execution is trusted now, and the audit entry when it is not.

use catalogue::{TrustDecision, TrustProblem};
use serde_json::json;
use skill::signature::SkillStatement;
use store::NewAuditRecord;

use crate::Doubt;
use crate::accept::Order;
use crate::halt::Halt;
use crate::runner::Runner;

/// A run that may begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleared {
    /// A problem that the policy only warns about.
    pub problem: Option<TrustProblem>,
    /// The key of the verified signature, when the policy requires one to be checked.
    pub signed_by: Option<String>,
}

impl Runner {
    /// Before every run, also of what was queued: the rules of this moment count.
    pub(crate) async fn clear(&self, order: &Order) -> Result<Cleared, Halt> {
        let statement = SkillStatement {
            name: &order.skill_name,
            version: &order.skill_version,
            digest: &order.digest,
        };
        let version = &order.request.version;
        let decision =
            self.catalogue.check_run(&order.tenant, statement, version, order.accepted_at).await;
        match decision {
            Ok(TrustDecision::Allowed { problem, signed_by }) => Ok(Cleared { problem, signed_by }),
            Ok(TrustDecision::Refused(problem)) => Err(self.refuse(order, &problem).await),
            Err(error) => {
                tracing::error!(execution_id = %order.id, %error, "whether a skill is trusted could not be read");
                Err(Halt::unready("Whether the skill is trusted could not be found out."))
            }
        }
    }

    /// A refused run also concerns the readers of the audit log.
    async fn refuse(&self, order: &Order, problem: &TrustProblem) -> Halt {
        let entry = NewAuditRecord {
            actor: order.key_id,
            action: "execution.refused".to_owned(),
            object: order.id.to_string(),
            detail: json!({
                "skill": format!("{}@{}", order.skill_name, order.skill_version),
                "digest": order.digest,
                "reason": problem.code(),
            }),
            request_id: None,
        };
        if let Err(error) = self.store.append_audit_record(&order.tenant, &entry).await {
            tracing::error!(execution_id = %order.id, %error, "the audit log could not be written");
        }
        let error = format!("Refused ({}): {problem}", problem.code());
        Halt { doubt: Some(Doubt::from(problem)), ..Halt::refused(error) }
    }
}
