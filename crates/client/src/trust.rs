//! What a tenant trusts: keys that sign skills, revoked content, and how far signed versions have
//! come.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Client, ClientError, Listing, PageSelector, Reply};

#[derive(Debug, Clone, Serialize)]
pub struct NewTrustedKey {
    /// A minisign public key.
    pub public_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct TrustedKey {
    pub key_id: String,
    pub public_key: String,
    #[serde(default)]
    pub comment: String,
    pub added_at: Option<String>,
    pub revoked_at: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct RevokedDigest {
    pub digest: String,
    #[serde(default)]
    pub reason: String,
    pub revoked_at: Option<String>,
}

/// The highest version of a skill that was uploaded with a trusted signature.
#[derive(Debug, Clone, Deserialize)]
pub struct NewestVersion {
    pub name: String,
    pub version: String,
    pub accepted_at: Option<String>,
}

impl Client {
    pub async fn trust_key(&self, key: &NewTrustedKey) -> Result<Reply<TrustedKey>, ClientError> {
        self.post(&["v1", "trust", "keys"], key).await
    }

    pub async fn trusted_keys(
        &self,
        page: &PageSelector,
    ) -> Result<Listing<TrustedKey>, ClientError> {
        self.list(&["v1", "trust", "keys"], &page.query()).await
    }

    pub async fn revoke_trusted_key(&self, id: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "trust", "keys", id]).await
    }

    pub async fn revoke_digest(
        &self,
        digest: &str,
        reason: &str,
    ) -> Result<Reply<RevokedDigest>, ClientError> {
        self.post(&["v1", "trust", "digests"], &json!({ "digest": digest, "reason": reason })).await
    }

    pub async fn revoked_digests(
        &self,
        page: &PageSelector,
    ) -> Result<Listing<RevokedDigest>, ClientError> {
        self.list(&["v1", "trust", "digests"], &page.query()).await
    }

    pub async fn unrevoke_digest(&self, digest: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "trust", "digests", digest]).await
    }

    pub async fn newest_versions(
        &self,
        page: &PageSelector,
    ) -> Result<Listing<NewestVersion>, ClientError> {
        self.list(&["v1", "trust", "versions"], &page.query()).await
    }

    /// Lets an older version of this skill be uploaded and be the latest again.
    pub async fn forget_newest_version(&self, name: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "trust", "versions", name]).await
    }
}
