//! Encrypts the `env` of queued executions: its values are secrets, and rows are copied to backups
//! and replicas.
//!
//! Each execution has a key of its own, derived from the installation's (HKDF-SHA256), so nonces of
//! different executions cannot collide; the tenant and the execution are also authenticated
//! (AES-256-GCM), so a sealed text cannot be opened for another execution.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{error::Unspecified, hkdf};
use data_encoding::BASE64URL_NOPAD;
use store::TenantId;
use uuid::Uuid;

/// The prefix of a sealed text: the version of this scheme.
const VERSION: &str = "v1.";
const SALT: &[u8] = b"skillbox env of queued executions";

/// The key that all processes on one database seal and open `env` with.
#[derive(Clone)]
pub struct EnvKey([u8; 32]);

/// Why a sealed `env` cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    #[error("it was sealed by a newer version of the server")]
    UnknownVersion,
    #[error("it is not what this server's secret sealed for this execution")]
    Unauthentic,
}

impl EnvKey {
    pub fn new(bytes: [u8; 32]) -> EnvKey {
        EnvKey(bytes)
    }

    /// A key of this process only, for a queue that it does not share.
    pub fn random() -> EnvKey {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
        EnvKey(bytes)
    }

    pub fn seal(
        &self,
        tenant: &TenantId,
        execution: Uuid,
        env: &BTreeMap<String, String>,
    ) -> String {
        let mut sealed = serde_json::to_vec(env).expect("a map of texts is JSON");
        let context = context(tenant, execution);
        let key = self.derive(&context).expect("the lengths are right");
        let nonce = key
            .seal_in_place_append_tag(Aad::from(&context), &mut sealed)
            .expect("it is not too long");
        let bytes = [nonce.as_ref().as_slice(), &sealed].concat();
        format!("{VERSION}{}", BASE64URL_NOPAD.encode(&bytes))
    }

    pub fn open(
        &self,
        tenant: &TenantId,
        execution: Uuid,
        text: &str,
    ) -> Result<BTreeMap<String, String>, EnvError> {
        let text = text.strip_prefix(VERSION).ok_or(EnvError::UnknownVersion)?;
        let unauthentic = |_: Unspecified| EnvError::Unauthentic;
        let mut bytes =
            BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| EnvError::Unauthentic)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(EnvError::Unauthentic)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(unauthentic)?;
        let context = context(tenant, execution);
        let key = self.derive(&context).map_err(unauthentic)?;
        let plain = key.open_in_place(nonce, Aad::from(&context), sealed).map_err(unauthentic)?;
        serde_json::from_slice(plain).map_err(|_| EnvError::Unauthentic)
    }

    fn derive(&self, context: &[u8]) -> Result<RandomizedNonceKey, Unspecified> {
        let mut key = [0; 32];
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(&self.0);
        extracted.expand(&[context], hkdf::HKDF_SHA256)?.fill(&mut key)?;
        RandomizedNonceKey::new(&AES_256_GCM, &key)
    }
}

/// The tenant and the execution that a text belongs to. No tenant's name contains a space, so two
/// contexts are never equal.
fn context(tenant: &TenantId, execution: Uuid) -> Vec<u8> {
    format!("{VERSION} {tenant} {execution}").into_bytes()
}

impl fmt::Debug for EnvKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::try_from(name).expect("a tenant")
    }

    #[test]
    fn a_sealed_env_opens_with_the_same_secret_and_hides_its_values() {
        let (id, env) =
            (Uuid::now_v7(), BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]));
        let sealed = EnvKey::new([1; 32]).seal(&tenant("acme"), id, &env);
        assert!(!sealed.contains("hunter2") && !sealed.contains("TOKEN"), "{sealed}");
        assert_eq!(EnvKey::new([1; 32]).open(&tenant("acme"), id, &sealed), Ok(env.clone()));
        assert_ne!(
            sealed,
            EnvKey::new([1; 32]).seal(&tenant("acme"), id, &env),
            "no two sealed texts are equal"
        );
        assert!(!format!("{:?}", EnvKey::new([1; 32])).contains('1'));
    }

    #[test]
    fn a_sealed_env_opens_for_no_other_tenant_execution_or_secret() {
        let (id, env) =
            (Uuid::now_v7(), BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]));
        let key = EnvKey::new([1; 32]);
        let sealed = key.seal(&tenant("acme"), id, &env);
        let unauthentic = Err(EnvError::Unauthentic);
        assert_eq!(key.open(&tenant("other"), id, &sealed), unauthentic, "another tenant's row");
        assert_eq!(
            key.open(&tenant("acme"), Uuid::now_v7(), &sealed),
            unauthentic,
            "another execution's row"
        );
        assert_eq!(
            EnvKey::new([2; 32]).open(&tenant("acme"), id, &sealed),
            unauthentic,
            "another secret"
        );
        assert_eq!(EnvKey::random().open(&tenant("acme"), id, &sealed), unauthentic);
        for cut in [VERSION, "v1.AAAA", &sealed[..sealed.len() - 4]] {
            assert_eq!(key.open(&tenant("acme"), id, cut), unauthentic, "{cut}");
        }
        let bytes = BASE64URL_NOPAD.decode(&sealed.as_bytes()[VERSION.len()..]).expect("base64");
        for position in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[position] ^= 1;
            let altered = format!("{VERSION}{}", BASE64URL_NOPAD.encode(&altered));
            assert_eq!(key.open(&tenant("acme"), id, &altered), unauthentic, "byte {position}");
        }
        assert_eq!(key.open(&tenant("acme"), id, "v9.AAAA"), Err(EnvError::UnknownVersion));
        assert_eq!(
            key.open(&tenant("acme"), id, &sealed),
            Ok(env),
            "control: it opens for its own execution"
        );
    }
}
