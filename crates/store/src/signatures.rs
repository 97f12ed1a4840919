//! Signatures of skills, and the newest signed version of each skill.
//!
//! Signatures are verified elsewhere; the store only keeps the data for that decision.

use std::cmp::Ordering;

use serde::Serialize;

use crate::db::Tx;
use crate::row::Row;
use crate::sql::sql;
use crate::{Micros, NewSkill, PageRequest, SignaturePolicy, Store, StoreError, TenantId, now};

/// A signature that was uploaded with a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSignature {
    pub text: String,
    /// Whether the signature is valid and its key trusted. Only a trusted signature replaces a
    /// stored one or raises the newest signed version.
    pub trusted: bool,
}

/// All data that decides whether one version of a skill with one digest is trusted, read in one
/// snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRecord {
    pub policy: SignaturePolicy,
    pub signature: Option<String>,
    pub digest_revoked: bool,
    pub newest: Option<NewestSigned>,
}

/// The highest version of a skill that was uploaded with a trusted signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewestSigned {
    pub name: String,
    pub version: String,
    pub accepted_at: Micros,
}

impl NewestSigned {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        self.name.clone()
    }

    /// Whether `version` is older than this one: a rollback.
    pub fn is_newer_than(&self, version: &str) -> bool {
        compare(version, &self.version) == Ordering::Less
    }

    fn from_row(row: &Row) -> Result<NewestSigned, StoreError> {
        Ok(NewestSigned {
            name: row.get("name")?,
            version: row.get("version")?,
            accepted_at: row.get("accepted_at")?,
        })
    }
}

impl Store {
    /// Reads the trust record. An unknown tenant is an error: an empty result would mean a tenant
    /// without any rules.
    pub async fn get_trust_record(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
        digest: &str,
    ) -> Result<TrustRecord, StoreError> {
        let select = sql("SELECT tenants.signatures AS policy, signatures.signature AS signature, \
             revoked_digests.revoked_at AS revoked_at, newest_signed.version AS newest, \
             newest_signed.accepted_at AS accepted_at FROM tenants \
             LEFT JOIN signatures ON signatures.tenant = tenants.id AND signatures.name = $2 \
                 AND signatures.version = $3 AND signatures.digest = $4 \
             LEFT JOIN revoked_digests ON revoked_digests.tenant = tenants.id AND revoked_digests.digest = $4 \
             LEFT JOIN newest_signed ON newest_signed.tenant = tenants.id AND newest_signed.name = $2 \
             WHERE tenants.id = $1")
        .bind(tenant)
        .bind(name)
        .bind(version)
        .bind(digest);
        let row = self.db.read_one(select).await?.ok_or(StoreError::NotFound)?;
        let newest: Option<String> = row.get("newest")?;
        let accepted_at: Option<Micros> = row.get("accepted_at")?;
        Ok(TrustRecord {
            policy: row.parse("policy")?,
            signature: row.get("signature")?,
            digest_revoked: row.get::<Option<Micros>>("revoked_at")?.is_some(),
            newest: newest.zip(accepted_at).map(|(version, accepted_at)| {
                let name = name.to_owned();
                NewestSigned { name, version, accepted_at }
            }),
        })
    }

    pub async fn list_newest_signed(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<NewestSigned>, StoreError> {
        let select = sql("SELECT name, version, accepted_at FROM newest_signed WHERE tenant = $1")
            .bind(tenant)
            .push_optional_arg(" AND name > ", page.after.as_deref())
            .push(" ORDER BY name");
        let rows = self.db.read(page.limit(select)).await?;
        rows.iter().map(NewestSigned::from_row).collect()
    }

    /// Forgets the newest signed version of a skill, so that older ones are accepted again. False
    /// when there is none.
    pub async fn reset_newest_signed(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<bool, StoreError> {
        let delete = sql("DELETE FROM newest_signed WHERE tenant = $1 AND name = $2")
            .bind(tenant)
            .bind(name);
        self.write_recorded(delete, ("trust.version.forget", name), serde_json::json!({})).await
    }

    /// Deletes the signatures of a digest that no skill has any more.
    pub async fn delete_signatures(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<(), StoreError> {
        let delete = sql("DELETE FROM signatures WHERE tenant = $1 AND digest = $2")
            .bind(tenant)
            .bind(digest);
        self.db.write(delete).await.map(drop)
    }
}

/// Stores the signature of an upload in the upload's transaction.
pub(crate) async fn store_signature(
    tx: &mut Tx,
    tenant: &TenantId,
    new: &NewSkill,
    for_update: &'static str,
) -> Result<(), StoreError> {
    let Some(signature) = &new.signature else { return Ok(()) };
    let insert = sql("INSERT INTO signatures (tenant, name, version, digest, signature) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (tenant, name, version, digest) DO UPDATE SET signature = excluded.signature WHERE $6")
    .bind(tenant)
    .bind(&new.name)
    .bind(&new.version)
    .bind(&new.digest)
    .bind(&signature.text)
    .bind(signature.trusted);
    tx.write(insert).await?;
    if signature.trusted {
        raise_newest_signed(tx, tenant, new, for_update).await?;
    }
    Ok(())
}

/// Raises the newest signed version; it never decreases. That is the protection against rollbacks:
/// an attacker cannot publish an old, vulnerable version with its valid signature again.
async fn raise_newest_signed(
    tx: &mut Tx,
    tenant: &TenantId,
    new: &NewSkill,
    for_update: &'static str,
) -> Result<(), StoreError> {
    let insert = sql(
        "INSERT INTO newest_signed (tenant, name, version, accepted_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (tenant, name) DO NOTHING",
    )
    .bind(tenant)
    .bind(&new.name)
    .bind(&new.version)
    .bind(now());
    if tx.write(insert).await? > 0 {
        return Ok(());
    }
    let select = sql("SELECT version FROM newest_signed WHERE tenant = $1 AND name = $2")
        .bind(tenant)
        .bind(&new.name)
        .push(for_update);
    // Compared in Rust under the row lock, because SQL does not know semantic versions.
    let Some(row) = tx.query_one(select).await? else { return Ok(()) };
    if compare(&new.version, row.get("version")?) != Ordering::Greater {
        return Ok(());
    }
    let update = sql(
        "UPDATE newest_signed SET version = $3, accepted_at = $4 WHERE tenant = $1 AND name = $2",
    )
    .bind(tenant)
    .bind(&new.name)
    .bind(&new.version)
    .bind(now());
    tx.write(update).await.map(drop)
}

/// Compares by semantic version; a text that is none sorts before all semantic versions.
fn compare(one: &str, other: &str) -> Ordering {
    let parse = |version: &str| semver::Version::parse(version).ok();
    parse(one).cmp(&parse(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_semantic_versions() {
        for (older, newer) in
            [("1.9.0", "1.10.0"), ("2.0.0-rc.1", "2.0.0"), ("1.0.0", "1.0.1"), ("junk", "0.0.1")]
        {
            assert_eq!(compare(older, newer), Ordering::Less, "{older} {newer}");
            assert_eq!(compare(newer, older), Ordering::Greater, "{older} {newer}");
        }
        assert_eq!(compare("1.0.0", "1.0.0"), Ordering::Equal);
    }
}
