//! Looking up whether a skill is trusted: at its upload, before each run, and when somebody asks.
//!
//! Everything is read from the store at that moment, so a revocation holds at once and on every
//! server. What cannot be read is not trusted.

use serde_json::json;
use skill::signature::{SIGNATURE_FILE, Signature, Statement, Verified};
use skill::{Finding, Package, Severity};
use store::{
    NewAuditRecord, NewSignature, SignaturePolicy, SkillRow, Store, StoreError, TenantId,
    TrustRecord,
};

use crate::RunError;
use crate::accept::Order;
use crate::halt::Halt;
use crate::runner::Runner;
use crate::trust::{Distrust, judge, rolled_back};

/// An upload that may be stored.
pub struct Vetted {
    pub signature: Option<NewSignature>,
    /// What it is stored in spite of.
    pub findings: Vec<Finding>,
}

/// A run that may begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleared {
    /// What it runs in spite of.
    pub distrust: Option<Distrust>,
    /// Whose signature was found to fit, when the policy asked.
    pub signed_by: Option<String>,
}

/// How a stored skill stands with its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The signature file's text.
    pub text: String,
    pub key_id: String,
    pub judged: Result<Verified, Distrust>,
}

impl Runner {
    pub(crate) async fn vet(
        &self,
        tenant: &TenantId,
        package: &Package,
    ) -> Result<Vetted, RunError> {
        let statement = Statement::of(package);
        let trust = self
            .store
            .get_trust_record(tenant, statement.name, statement.version, statement.digest)
            .await?;
        let judged = judged(&self.store, tenant, statement, package.signature.as_deref()).await?;
        let trusted = judged.is_ok();
        let distrust = match judged {
            _ if trust.digest_revoked => Some(Distrust::DigestRevoked),
            Err(distrust) => Some(distrust),
            Ok(_) => self.turned_back(tenant, statement, &trust).await?,
        };
        let findings = match distrust {
            Some(distrust) if distrust.forbids(trust.policy) => {
                return Err(RunError::Distrusted(distrust));
            }
            Some(distrust) if trust.policy == SignaturePolicy::Warn => vec![finding(&distrust)],
            _ => Vec::new(),
        };
        let signature = package.signature.clone().map(|text| NewSignature { text, trusted });
        Ok(Vetted { signature, findings })
    }

    /// Whether this upload would make an older version the latest. The same content once more
    /// changes nothing.
    async fn turned_back(
        &self,
        tenant: &TenantId,
        statement: Statement<'_>,
        trust: &TrustRecord,
    ) -> Result<Option<Distrust>, StoreError> {
        let Some(newest) =
            trust.newest.as_ref().filter(|newest| newest.is_newer_than(statement.version))
        else {
            return Ok(None);
        };
        let stored = self.store.find_skill(tenant, statement.name, statement.version).await?;
        let unchanged = stored.is_some_and(|stored| stored.digest == statement.digest);
        Ok((!unchanged).then(|| Distrust::Rollback { newest: newest.version.clone() }))
    }

    /// Before every run, also of what was queued: the rules of this moment count.
    pub(crate) async fn clear(&self, order: &Order) -> Result<Cleared, Halt> {
        let unknown = |error: StoreError| {
            tracing::error!(execution_id = %order.id, %error, "whether a skill is trusted could not be read");
            Halt::unready("Whether the skill is trusted could not be found out.")
        };
        let statement = Statement {
            name: &order.skill_name,
            version: &order.skill_version,
            digest: &order.digest,
        };
        let trust = self
            .store
            .get_trust_record(&order.tenant, statement.name, statement.version, statement.digest)
            .await;
        let trust = trust.map_err(unknown)?;
        let judged = match trust.policy {
            _ if trust.digest_revoked => Err(Distrust::DigestRevoked),
            SignaturePolicy::Off => return Ok(Cleared::default()),
            SignaturePolicy::Warn | SignaturePolicy::Require => {
                judged(&self.store, &order.tenant, statement, trust.signature.as_deref())
                    .await
                    .map_err(unknown)?
            }
        };
        let signed_by = judged.as_ref().ok().map(|verified| verified.key_id.to_string());
        let back = rolled_back(
            &order.request.version,
            statement.version,
            order.accepted_at,
            trust.newest.as_ref(),
        );
        match judged.err().or(back) {
            Some(distrust) if distrust.forbids(trust.policy) => {
                Err(self.refuse(order, &distrust).await)
            }
            distrust => Ok(Cleared { distrust, signed_by }),
        }
    }

    /// A refused run is also the business of whoever reads the audit trail.
    async fn refuse(&self, order: &Order, distrust: &Distrust) -> Halt {
        let entry = NewAuditRecord {
            actor: order.key_id,
            action: "execution.refused".to_owned(),
            object: order.id.to_string(),
            detail: json!({
                "skill": format!("{}@{}", order.skill_name, order.skill_version),
                "digest": order.digest,
                "reason": distrust.code(),
            }),
            request_id: None,
        };
        if let Err(error) = self.store.append_audit_record(&order.tenant, &entry).await {
            tracing::error!(execution_id = %order.id, %error, "the audit trail could not be written");
        }
        let error = format!("Refused ({}): {distrust}", distrust.code());
        Halt { doubt: Some(distrust.doubt()), ..Halt::refused(error) }
    }

    /// How a stored skill stands with its signature, whatever the policy; `None` when it has none.
    pub async fn standing(&self, row: &SkillRow) -> Result<Option<Standing>, RunError> {
        let statement = Statement { name: &row.name, version: &row.version, digest: &row.digest };
        let trust =
            self.store.get_trust_record(&row.tenant, &row.name, &row.version, &row.digest).await?;
        let Some(text) = trust.signature else { return Ok(None) };
        let judged = judged(&self.store, &row.tenant, statement, Some(&text)).await?;
        let judged = if trust.digest_revoked { Err(Distrust::DigestRevoked) } else { judged };
        let key_id = text
            .parse::<Signature>()
            .map(|signature| signature.key_id().to_string())
            .unwrap_or_default();
        Ok(Some(Standing { text, key_id, judged }))
    }
}

async fn judged(
    store: &Store,
    tenant: &TenantId,
    statement: Statement<'_>,
    signature: Option<&str>,
) -> Result<Result<Verified, Distrust>, StoreError> {
    let Some(text) = signature else { return Ok(Err(Distrust::SignatureMissing)) };
    let Ok(signature) = text.parse::<Signature>() else {
        return Ok(Err(Distrust::SignatureInvalid));
    };
    let key = store.trusted_key(tenant, &signature.key_id().to_string()).await?;
    Ok(judge(statement, &signature, key.as_ref()))
}

fn finding(distrust: &Distrust) -> Finding {
    Finding {
        code: distrust.code(),
        severity: Severity::Warning,
        path: Some(SIGNATURE_FILE.to_owned()),
        line: None,
        message: distrust.to_string(),
    }
}
