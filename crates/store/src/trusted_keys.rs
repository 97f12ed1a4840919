//! Trusted keys, whose signatures a tenant accepts, and revoked digests of packages.

use serde::Serialize;
use serde_json::json;

use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::string_enum::string_enum;
use crate::{Micros, PageRequest, Store, StoreError, TenantId, now};

string_enum! {
    /// What happens to skills without a trusted signature.
    #[derive(Default)]
    SignaturePolicy, "signature policy" {
        /// Signatures are not required.
        #[default]
        Off = "off",
        /// Such skills are accepted with a warning.
        Warn = "warn",
        /// Such skills are rejected.
        Require = "require",
    }
}

/// A public key whose signatures the tenant accepts. The store knows no cryptography: here a key is
/// an id and a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrustedKey {
    pub key_id: String,
    pub public_key: String,
    pub comment: String,
    pub added_at: Micros,
    pub revoked_at: Option<Micros>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTrustedKey {
    pub key_id: String,
    pub public_key: String,
    pub comment: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RevokedDigest {
    pub digest: String,
    pub reason: String,
    pub revoked_at: Micros,
}

const KEY_COLUMNS: &str = "key_id, public_key, comment, added_at, revoked_at";

impl TrustedKey {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        self.key_id.clone()
    }

    fn from_row(row: &Row) -> Result<TrustedKey, StoreError> {
        Ok(TrustedKey {
            key_id: row.get("key_id")?,
            public_key: row.get("public_key")?,
            comment: row.get("comment")?,
            added_at: row.get("added_at")?,
            revoked_at: row.get("revoked_at")?,
        })
    }
}

impl RevokedDigest {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        self.digest.clone()
    }

    fn from_row(row: &Row) -> Result<RevokedDigest, StoreError> {
        Ok(RevokedDigest {
            digest: row.get("digest")?,
            reason: row.get("reason")?,
            revoked_at: row.get("revoked_at")?,
        })
    }
}

impl Store {
    /// Adding a key id again is a conflict, also after a revocation: a revoked key may be in the
    /// wrong hands, so its owner must sign with a new one.
    pub async fn add_trusted_key(
        &self,
        tenant: &TenantId,
        new: &NewTrustedKey,
    ) -> Result<TrustedKey, StoreError> {
        let insert =
            sql("INSERT INTO trusted_keys (tenant, key_id, public_key, comment, added_at) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, key_id) DO NOTHING RETURNING ")
            .push(KEY_COLUMNS)
            .bind(tenant)
            .bind(&new.key_id)
            .bind(&new.public_key)
            .bind(&new.comment)
            .bind(now());
        let mut tx = self.db.begin().await?;
        let row = tx.query_one(insert).await?.ok_or(StoreError::Conflict(
            "a key with this id exists already; a revoked key cannot be trusted again",
        ))?;
        let key = TrustedKey::from_row(&row)?;
        let detail = json!({ "public_key": key.public_key, "comment": key.comment });
        self.record(&mut tx, "trust.key.add", &key.key_id, detail).await?;
        tx.commit().await?;
        Ok(key)
    }

    /// The key with this id, revoked or not.
    pub async fn trusted_key(
        &self,
        tenant: &TenantId,
        key_id: &str,
    ) -> Result<Option<TrustedKey>, StoreError> {
        let row = self.db.read_one(select_keys(tenant).push_arg(" AND key_id = ", key_id)).await?;
        row.as_ref().map(TrustedKey::from_row).transpose()
    }

    /// All keys, revoked ones too, sorted by id.
    pub async fn list_trusted_keys(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<TrustedKey>, StoreError> {
        let select = select_keys(tenant)
            .push_optional_arg(" AND key_id > ", page.after.as_deref())
            .push(" ORDER BY key_id");
        let rows = self.db.read(page.limit(select)).await?;
        rows.iter().map(TrustedKey::from_row).collect()
    }

    /// False when there is no such key. Revoking again keeps the first time.
    pub async fn revoke_trusted_key(
        &self,
        tenant: &TenantId,
        key_id: &str,
    ) -> Result<bool, StoreError> {
        let update = sql("UPDATE trusted_keys SET revoked_at = COALESCE(revoked_at, $3) \
             WHERE tenant = $1 AND key_id = $2")
        .bind(tenant)
        .bind(key_id)
        .bind(now());
        self.write_recorded(update, ("trust.key.revoke", key_id), json!({})).await
    }

    /// Revoking again changes the reason and keeps the time.
    pub async fn revoke_digest(
        &self,
        tenant: &TenantId,
        digest: &str,
        reason: &str,
    ) -> Result<RevokedDigest, StoreError> {
        let insert = sql("INSERT INTO revoked_digests (tenant, digest, reason, revoked_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, digest) DO UPDATE SET reason = excluded.reason \
             RETURNING digest, reason, revoked_at")
        .bind(tenant)
        .bind(digest)
        .bind(reason)
        .bind(now());
        let mut tx = self.db.begin().await?;
        let row = tx.query_one(insert).await?.ok_or(StoreError::NotFound)?;
        self.record(&mut tx, "trust.digest.revoke", digest, json!({ "reason": reason })).await?;
        tx.commit().await?;
        RevokedDigest::from_row(&row)
    }

    /// False when the digest was not revoked.
    pub async fn unrevoke_digest(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<bool, StoreError> {
        let delete = sql("DELETE FROM revoked_digests WHERE tenant = $1 AND digest = $2")
            .bind(tenant)
            .bind(digest);
        self.write_recorded(delete, ("trust.digest.unrevoke", digest), json!({})).await
    }

    pub async fn list_revoked_digests(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<RevokedDigest>, StoreError> {
        let select =
            sql("SELECT digest, reason, revoked_at FROM revoked_digests WHERE tenant = $1")
                .bind(tenant)
                .push_optional_arg(" AND digest > ", page.after.as_deref())
                .push(" ORDER BY digest");
        let rows = self.db.read(page.limit(select)).await?;
        rows.iter().map(RevokedDigest::from_row).collect()
    }
}

fn select_keys(tenant: &TenantId) -> Sql<'_> {
    sql("SELECT ").push(KEY_COLUMNS).push_arg(" FROM trusted_keys WHERE tenant = ", tenant)
}
