//! The rules about trust. Pure: `verify` reads what they are applied to.

use std::fmt;

use skill::signature::{KeyId, PublicKey, Signature, SkillStatement, VerifiedSignature};
use store::{Micros, NewestSigned, SignaturePolicy, TrustedKey};

/// The version that means the newest one.
const LATEST: &str = "latest";

/// Why one version of a skill is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustProblem {
    SignatureMissing,
    /// It was made for another name, version or content, or it was tampered with.
    SignatureInvalid,
    KeyUntrusted(KeyId),
    KeyRevoked(KeyId),
    DigestRevoked,
    /// A later version was accepted before.
    Rollback {
        newest: String,
    },
}

impl TrustProblem {
    /// A stable code, such as `signature_missing`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SignatureMissing => "signature_missing",
            Self::SignatureInvalid => "signature_invalid",
            Self::KeyUntrusted(_) => "key_untrusted",
            Self::KeyRevoked(_) => "key_revoked",
            Self::DigestRevoked => "digest_revoked",
            Self::Rollback { .. } => "rollback",
        }
    }

    /// Whether the policy refuses a skill with this problem. Revoked content is refused under every
    /// policy.
    pub fn forbids(&self, policy: SignaturePolicy) -> bool {
        *self == Self::DigestRevoked || policy == SignaturePolicy::Require
    }
}

/// One sentence for the author or the caller.
impl fmt::Display for TrustProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SignatureMissing => {
                f.write_str("The skill is not signed; sign it with `skillbox skill sign`.")
            }
            Self::SignatureInvalid => f.write_str(
                "The skill's signature does not match its name, version and content; sign it again.",
            ),
            Self::KeyUntrusted(id) => {
                write!(
                    f,
                    "The skill is signed with the key {id}, which this tenant does not trust."
                )
            }
            Self::KeyRevoked(id) => {
                write!(f, "The skill is signed with the key {id}, which was revoked.")
            }
            Self::DigestRevoked => f.write_str("This content was revoked."),
            Self::Rollback { newest } => {
                write!(
                    f,
                    "The signed version {newest} was accepted before, and `latest` does not go back to an older version."
                )
            }
        }
    }
}

/// Verifies a signature with the key that has its id. A revoked key is never valid, not even for
/// signatures from before the revocation: their dates are the signer's own claim.
pub(crate) fn verify_signature(
    statement: SkillStatement<'_>,
    signature: &Signature,
    key: Option<&TrustedKey>,
) -> Result<VerifiedSignature, TrustProblem> {
    let id = signature.key_id();
    let Some(key) = key else { return Err(TrustProblem::KeyUntrusted(id)) };
    if key.revoked_at.is_some() {
        return Err(TrustProblem::KeyRevoked(id));
    }
    let public: PublicKey = key.public_key.parse().map_err(|_| TrustProblem::KeyUntrusted(id))?;
    signature
        .verify(&public, statement.to_string().as_bytes())
        .map_err(|_| TrustProblem::SignatureInvalid)
}

/// Whether a run of `latest` would use an older version than one that existed when the run was
/// accepted. A caller that names a version gets that version: to forbid it, its content is revoked.
pub(crate) fn find_rollback(
    requested: &str,
    version: &str,
    accepted_at: Micros,
    newest: Option<&NewestSigned>,
) -> Option<TrustProblem> {
    let newest = newest
        .filter(|newest| newest.accepted_at <= accepted_at && newest.is_newer_than(version))?;
    (requested == LATEST).then(|| TrustProblem::Rollback { newest: newest.version.clone() })
}

#[cfg(test)]
mod tests {
    use skill::signature::SecretKey;

    use super::*;

    const STATEMENT: SkillStatement<'_> =
        SkillStatement { name: "demo", version: "1.0.0", digest: "sha256:aa" };

    fn key(seed: u8) -> SecretKey {
        SecretKey::from_seed([seed; 32]).expect("a key")
    }

    fn trusted(key: &SecretKey, revoked_at: Option<Micros>) -> TrustedKey {
        let public = key.public();
        let (key_id, public_key) = (public.id().to_string(), public.to_string());
        TrustedKey { key_id, public_key, comment: String::new(), added_at: 1, revoked_at }
    }

    #[test]
    fn a_signature_is_valid_for_one_statement_and_one_key_that_is_not_revoked() {
        let key = key(1);
        let signature = STATEMENT.sign(&key, 77);
        let verify = |statement, row: Option<TrustedKey>| {
            verify_signature(statement, &signature, row.as_ref())
        };
        let verified = verify(STATEMENT, Some(trusted(&key, None))).expect("it is valid");
        assert_eq!(verified.signed_at, Some(77));
        for other in [
            SkillStatement { name: "demo2", ..STATEMENT },
            SkillStatement { version: "1.0.1", ..STATEMENT },
            SkillStatement { digest: "sha256:ab", ..STATEMENT },
        ] {
            assert_eq!(
                verify(other, Some(trusted(&key, None))),
                Err(TrustProblem::SignatureInvalid),
                "{other:?}"
            );
        }
        let id = key.public().id();
        assert_eq!(verify(STATEMENT, None), Err(TrustProblem::KeyUntrusted(id)));
        assert_eq!(
            verify(STATEMENT, Some(trusted(&key, Some(2)))),
            Err(TrustProblem::KeyRevoked(id))
        );
        // Another key under the same id.
        let mut swapped = trusted(&self::key(2), None);
        swapped.key_id = id.to_string();
        assert_eq!(verify(STATEMENT, Some(swapped)), Err(TrustProblem::SignatureInvalid));
        let broken = TrustedKey { public_key: "RWQ=".to_owned(), ..trusted(&key, None) };
        assert_eq!(verify(STATEMENT, Some(broken)), Err(TrustProblem::KeyUntrusted(id)));
    }

    #[test]
    fn latest_does_not_roll_back_but_a_named_version_may() {
        let newest =
            NewestSigned { name: "demo".to_owned(), version: "2.0.0".to_owned(), accepted_at: 10 };
        let rollback =
            |requested, version, at| find_rollback(requested, version, at, Some(&newest)).is_some();
        assert!(rollback("latest", "1.9.9", 10) && rollback("latest", "1.9.9", 11));
        assert!(!rollback("1.9.9", "1.9.9", 11));
        assert!(!rollback("latest", "2.0.0", 11) && !rollback("latest", "2.0.1", 11));
        // It was accepted before the later version was published.
        assert!(!rollback("latest", "1.9.9", 9));
        assert_eq!(find_rollback("latest", "1.0.0", 11, None), None);
    }

    #[test]
    fn revoked_content_is_refused_under_every_policy() {
        use SignaturePolicy::{Off, Require, Warn};
        assert!(TrustProblem::SignatureMissing.forbids(Require));
        assert!(
            !TrustProblem::SignatureMissing.forbids(Warn)
                && !TrustProblem::SignatureMissing.forbids(Off)
        );
        assert!(
            [Off, Warn, Require]
                .into_iter()
                .all(|policy| TrustProblem::DigestRevoked.forbids(policy))
        );
    }
}
