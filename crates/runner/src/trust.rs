//! Whether a skill is trusted: the rules, without the looking up. Pure.

use std::fmt;

use skill::signature::{KeyId, PublicKey, Signature, Statement, Verified};
use store::{Micros, NewestSigned, SignaturePolicy, TrustedKey};

use crate::{Doubt, accept};

/// What is not trusted about one version of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    SignatureMissing,
    /// It is for another name, version or content, or it was tampered with.
    SignatureInvalid,
    KeyUntrusted(KeyId),
    KeyRevoked(KeyId),
    DigestRevoked,
    /// A later version was accepted before.
    Rollback {
        newest: String,
    },
}

impl Distrust {
    /// The stable word for it.
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

    pub fn doubt(&self) -> Doubt {
        Doubt { code: self.code().to_owned(), message: self.to_string() }
    }

    /// Whether it is enough to refuse the skill. Revoked content is refused whatever the policy
    /// says.
    pub fn forbids(&self, policy: SignaturePolicy) -> bool {
        *self == Self::DigestRevoked || policy == SignaturePolicy::Require
    }
}

/// One sentence for the author or the caller.
impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SignatureMissing => {
                f.write_str("The skill is not signed; sign it with `skillbox skill sign`.")
            }
            Self::SignatureInvalid => f.write_str(
                "The skill's signature does not fit its name, version and content; sign it again.",
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
                    "The signed version {newest} was accepted before; `latest` does not go back behind it."
                )
            }
        }
    }
}

/// Whether a signature fits, by the key that has its id. A revoked key vouches for nothing,
/// whenever it signed.
pub fn judge(
    statement: Statement<'_>,
    signature: &Signature,
    key: Option<&TrustedKey>,
) -> Result<Verified, Distrust> {
    let id = signature.key_id();
    let Some(key) = key else { return Err(Distrust::KeyUntrusted(id)) };
    if key.revoked_at.is_some() {
        return Err(Distrust::KeyRevoked(id));
    }
    let public: PublicKey = key.public_key.parse().map_err(|_| Distrust::KeyUntrusted(id))?;
    signature
        .verify(&public, statement.to_string().as_bytes())
        .map_err(|_| Distrust::SignatureInvalid)
}

/// Whether a run of `latest` would go back behind a version that was there when it was asked for.
/// Who names a version gets that version: to forbid it, its content is revoked.
pub fn rolled_back(
    asked: &str,
    version: &str,
    accepted_at: Micros,
    newest: Option<&NewestSigned>,
) -> Option<Distrust> {
    let newest = newest
        .filter(|newest| newest.accepted_at <= accepted_at && newest.is_newer_than(version))?;
    (asked == accept::LATEST).then(|| Distrust::Rollback { newest: newest.version.clone() })
}

#[cfg(test)]
mod tests {
    use skill::signature::SecretKey;

    use super::*;

    const STATEMENT: Statement<'_> =
        Statement { name: "demo", version: "1.0.0", digest: "sha256:aa" };

    fn key(seed: u8) -> SecretKey {
        SecretKey::from_seed([seed; 32]).expect("a key")
    }

    fn trusted(key: &SecretKey, revoked_at: Option<Micros>) -> TrustedKey {
        let public = key.public();
        let (key_id, public_key) = (public.id().to_string(), public.to_string());
        TrustedKey { key_id, public_key, comment: String::new(), added_at: 1, revoked_at }
    }

    #[test]
    fn a_signature_counts_for_one_statement_of_one_live_key() {
        let key = key(1);
        let signature = STATEMENT.sign(&key, 77);
        let judged =
            |statement, row: Option<TrustedKey>| judge(statement, &signature, row.as_ref());
        let verified = judged(STATEMENT, Some(trusted(&key, None))).expect("it fits");
        assert_eq!(verified.signed_at, Some(77));
        for other in [
            Statement { name: "demo2", ..STATEMENT },
            Statement { version: "1.0.1", ..STATEMENT },
            Statement { digest: "sha256:ab", ..STATEMENT },
        ] {
            assert_eq!(
                judged(other, Some(trusted(&key, None))),
                Err(Distrust::SignatureInvalid),
                "{other:?}"
            );
        }
        let id = key.public().id();
        assert_eq!(judged(STATEMENT, None), Err(Distrust::KeyUntrusted(id)));
        assert_eq!(judged(STATEMENT, Some(trusted(&key, Some(2)))), Err(Distrust::KeyRevoked(id)));
        // Somebody put another key under the same id.
        let mut swapped = trusted(&self::key(2), None);
        swapped.key_id = id.to_string();
        assert_eq!(judged(STATEMENT, Some(swapped)), Err(Distrust::SignatureInvalid));
        let broken = TrustedKey { public_key: "RWQ=".to_owned(), ..trusted(&key, None) };
        assert_eq!(judged(STATEMENT, Some(broken)), Err(Distrust::KeyUntrusted(id)));
    }

    #[test]
    fn latest_does_not_go_back_but_a_named_version_may() {
        let newest =
            NewestSigned { name: "demo".to_owned(), version: "2.0.0".to_owned(), accepted_at: 10 };
        let back = |asked, version, at| rolled_back(asked, version, at, Some(&newest)).is_some();
        assert!(back("latest", "1.9.9", 10) && back("latest", "1.9.9", 11));
        assert!(!back("1.9.9", "1.9.9", 11));
        assert!(!back("latest", "2.0.0", 11) && !back("latest", "2.0.1", 11));
        // It was asked for before the later version came.
        assert!(!back("latest", "1.9.9", 9));
        assert_eq!(rolled_back("latest", "1.0.0", 11, None), None);
    }

    #[test]
    fn the_policy_decides_about_all_but_revoked_content() {
        use SignaturePolicy::{Off, Require, Warn};
        assert!(Distrust::SignatureMissing.forbids(Require));
        assert!(
            !Distrust::SignatureMissing.forbids(Warn) && !Distrust::SignatureMissing.forbids(Off)
        );
        assert!(
            [Off, Warn, Require].into_iter().all(|policy| Distrust::DigestRevoked.forbids(policy))
        );
    }
}
