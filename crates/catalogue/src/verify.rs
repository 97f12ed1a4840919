//! Checks of trust: at an upload, before each run, and for a skill that is shown.
//!
//! Everything is read from the store at that moment, so that a revocation is effective at once and
//! on every server. A failure to read never counts as trust.

use skill::signature::{SIGNATURE_FILE, Signature, SkillStatement, VerifiedSignature};
use skill::{Finding, Package, Severity};
use store::{
    Micros, NewSignature, SignaturePolicy, SkillRow, Store, StoreError, TenantId, TrustRecord,
};

use crate::trust::{TrustProblem, find_rollback, verify_signature};
use crate::{Catalogue, CatalogueError};

/// An upload that the tenant's rules about signatures allow.
pub(crate) struct CheckedUpload {
    pub signature: Option<NewSignature>,
    /// Problems that the policy only warns about.
    pub findings: Vec<Finding>,
}

/// Whether a run may begin, and what is recorded about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustDecision {
    Allowed {
        /// A problem that the policy only warns about.
        problem: Option<TrustProblem>,
        /// The key of the verified signature, when the policy requires one to be checked.
        signed_by: Option<String>,
    },
    Refused(TrustProblem),
}

/// The signature of a stored skill, verified now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureStatus {
    /// The text of the signature file.
    pub text: String,
    pub key_id: String,
    pub result: Result<VerifiedSignature, TrustProblem>,
}

impl Catalogue {
    /// Checks the signature of an upload by the tenant's policy.
    pub(crate) async fn check_upload(
        &self,
        tenant: &TenantId,
        package: &Package,
    ) -> Result<CheckedUpload, CatalogueError> {
        let statement = SkillStatement::from_package(package);
        let trust = self
            .store
            .get_trust_record(tenant, statement.name, statement.version, statement.digest)
            .await?;
        let verified =
            read_and_verify(&self.store, tenant, statement, package.signature.as_deref()).await?;
        let trusted = verified.is_ok();
        let problem = match verified {
            // Before everything else: a valid signature does not save revoked content.
            _ if trust.digest_revoked => Some(TrustProblem::DigestRevoked),
            Err(problem) => Some(problem),
            Ok(_) => self.upload_rollback(tenant, statement, &trust).await?,
        };
        let findings = match problem {
            Some(problem) if problem.forbids(trust.policy) => {
                return Err(CatalogueError::Untrusted(problem));
            }
            Some(problem) if trust.policy == SignaturePolicy::Warn => vec![finding(&problem)],
            _ => Vec::new(),
        };
        let signature = package.signature.clone().map(|text| NewSignature { text, trusted });
        Ok(CheckedUpload { signature, findings })
    }

    /// Whether this upload would make an older version the latest. Uploading the stored content
    /// again changes nothing, so it is no rollback.
    async fn upload_rollback(
        &self,
        tenant: &TenantId,
        statement: SkillStatement<'_>,
        trust: &TrustRecord,
    ) -> Result<Option<TrustProblem>, StoreError> {
        let Some(newest) =
            trust.newest.as_ref().filter(|newest| newest.is_newer_than(statement.version))
        else {
            return Ok(None);
        };
        let stored = self.store.find_skill(tenant, statement.name, statement.version).await?;
        let unchanged = stored.is_some_and(|stored| stored.digest == statement.digest);
        Ok((!unchanged).then(|| TrustProblem::Rollback { newest: newest.version.clone() }))
    }

    /// Whether the tenant trusts a skill now, for a run that asked for `requested_version` when it
    /// was accepted. Also for what was queued: the rules at the start of the run count.
    pub async fn check_run(
        &self,
        tenant: &TenantId,
        statement: SkillStatement<'_>,
        requested_version: &str,
        accepted_at: Micros,
    ) -> Result<TrustDecision, StoreError> {
        let trust = self
            .store
            .get_trust_record(tenant, statement.name, statement.version, statement.digest)
            .await?;
        let verified = match trust.policy {
            _ if trust.digest_revoked => Err(TrustProblem::DigestRevoked),
            SignaturePolicy::Off => {
                return Ok(TrustDecision::Allowed { problem: None, signed_by: None });
            }
            SignaturePolicy::Warn | SignaturePolicy::Require => {
                read_and_verify(&self.store, tenant, statement, trust.signature.as_deref()).await?
            }
        };
        let signed_by = verified.as_ref().ok().map(|verified| verified.key_id.to_string());
        let newest = trust.newest.as_ref();
        let rollback = find_rollback(requested_version, statement.version, accepted_at, newest);
        Ok(match verified.err().or(rollback) {
            Some(problem) if problem.forbids(trust.policy) => TrustDecision::Refused(problem),
            problem => TrustDecision::Allowed { problem, signed_by },
        })
    }

    /// The signature of a stored skill, verified whatever the policy says; `None` when the skill
    /// has none.
    pub async fn signature_status(
        &self,
        row: &SkillRow,
    ) -> Result<Option<SignatureStatus>, CatalogueError> {
        let statement =
            SkillStatement { name: &row.name, version: &row.version, digest: &row.digest };
        let trust =
            self.store.get_trust_record(&row.tenant, &row.name, &row.version, &row.digest).await?;
        let Some(text) = trust.signature else { return Ok(None) };
        let verified = read_and_verify(&self.store, &row.tenant, statement, Some(&text)).await?;
        let result = if trust.digest_revoked { Err(TrustProblem::DigestRevoked) } else { verified };
        let key_id = text
            .parse::<Signature>()
            .map(|signature| signature.key_id().to_string())
            .unwrap_or_default();
        Ok(Some(SignatureStatus { text, key_id, result }))
    }
}

/// The outer error is a failure to read the key, the inner one a problem of the signature.
async fn read_and_verify(
    store: &Store,
    tenant: &TenantId,
    statement: SkillStatement<'_>,
    signature: Option<&str>,
) -> Result<Result<VerifiedSignature, TrustProblem>, StoreError> {
    let Some(text) = signature else { return Ok(Err(TrustProblem::SignatureMissing)) };
    let Ok(signature) = text.parse::<Signature>() else {
        return Ok(Err(TrustProblem::SignatureInvalid));
    };
    let key = store.trusted_key(tenant, &signature.key_id().to_string()).await?;
    Ok(verify_signature(statement, &signature, key.as_ref()))
}

fn finding(problem: &TrustProblem) -> Finding {
    Finding {
        code: problem.code(),
        severity: Severity::Warning,
        path: Some(SIGNATURE_FILE.to_owned()),
        line: None,
        message: problem.to_string(),
    }
}
