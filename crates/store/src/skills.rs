//! Skills by name and version. Their archives are blobs, addressed by digest.

use serde::Serialize;
use serde_json::{Value, json};

use crate::db::Tx;
use crate::manifest_fields::ManifestFields;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::string_enum::string_enum;
use crate::{Micros, NewSignature, Store, StoreError, TenantId, VersionPolicy, now, signatures};

string_enum! {
    /// Whether a version of a skill may run.
    SkillStatus, "skill status" {
        Available = "available",
        /// Held for review.
        Review = "review",
        Rejected = "rejected",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillRow {
    pub tenant: TenantId,
    pub name: String,
    pub version: String,
    pub digest: String,
    pub description: String,
    pub lang: Option<String>,
    pub mode: String,
    pub status: SkillStatus,
    pub manifest: Value,
    pub entrypoint: Option<String>,
    pub scripts: Value,
    /// The findings of the linter and the scanner for this upload.
    pub findings: Value,
    pub size_bytes: i64,
    pub created_at: Micros,
    /// When this content was uploaded; `latest` is the version with the newest one.
    pub updated_at: Micros,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewSkill {
    pub name: String,
    pub version: String,
    pub digest: String,
    pub description: String,
    pub lang: Option<String>,
    pub mode: String,
    pub manifest: Value,
    pub entrypoint: Option<String>,
    pub scripts: Value,
    pub findings: Value,
    pub status: SkillStatus,
    pub size_bytes: i64,
    pub signature: Option<NewSignature>,
}

/// The result of `put_skill`.
#[derive(Debug, Clone, PartialEq)]
pub enum PutSkillResult {
    Created(SkillRow),
    /// The version has this content already; nothing changed, not even `updated_at`.
    Unchanged(SkillRow),
    Replaced {
        row: SkillRow,
        old_digest: String,
    },
}

/// Not `*`: a prepared statement of a running server would fail when a newer server adds a column
/// and thereby changes the result type.
pub(crate) const COLUMNS: &str = "tenant, name, version, digest, description, lang, mode, status, manifest, \
    entrypoint, scripts, findings, size_bytes, created_at, updated_at";

impl SkillRow {
    pub(crate) fn from_row(row: &Row) -> Result<SkillRow, StoreError> {
        Ok(SkillRow {
            tenant: row.parse("tenant")?,
            name: row.get("name")?,
            version: row.get("version")?,
            digest: row.get("digest")?,
            description: row.get("description")?,
            lang: row.get("lang")?,
            mode: row.get("mode")?,
            status: row.parse("status")?,
            manifest: row.json("manifest")?,
            entrypoint: row.get("entrypoint")?,
            scripts: row.json("scripts")?,
            findings: row.json("findings")?,
            size_bytes: row.get("size_bytes")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

impl Store {
    /// Stores a version. Different content replaces the stored one or, if the policy is
    /// `Immutable`, fails with `VersionExists`. `StorageFull` when the storage quota is exceeded.
    pub async fn put_skill(
        &self,
        tenant: &TenantId,
        new: &NewSkill,
        policy: VersionPolicy,
    ) -> Result<PutSkillResult, StoreError> {
        loop {
            let mut tx = self.db.begin().await?;
            let storage = self.enforce_storage(&mut tx, tenant).await?;
            if let Some(row) = tx.query_one(insert(tenant, new)).await? {
                signatures::store_signature(&mut tx, tenant, new, self.db.for_update()).await?;
                self.record_published(&mut tx, new, None).await?;
                storage.verify(&mut tx).await?;
                tx.commit().await?;
                return Ok(PutSkillResult::Created(SkillRow::from_row(&row)?));
            }
            let select = select_version(tenant, &new.name, &new.version).push(self.db.for_update());
            // The insert found the version; if it was deleted since, the next insert succeeds.
            let Some(row) = tx.query_one(select).await? else { continue };
            let old = SkillRow::from_row(&row)?;
            if old.digest == new.digest {
                // The same content may be uploaded again to add or renew its signature.
                signatures::store_signature(&mut tx, tenant, new, self.db.for_update()).await?;
                tx.commit().await?;
                return Ok(PutSkillResult::Unchanged(old));
            }
            if policy == VersionPolicy::Immutable {
                return Err(StoreError::VersionExists);
            }
            let row = replace(&mut tx, tenant, new).await?;
            signatures::store_signature(&mut tx, tenant, new, self.db.for_update()).await?;
            self.record_published(&mut tx, new, Some(&old.digest)).await?;
            storage.verify(&mut tx).await?;
            tx.commit().await?;
            let old_digest = old.digest;
            return Ok(PutSkillResult::Replaced { row, old_digest });
        }
    }

    /// The whole row of `latest` or an exact version, as in `find_skill`. Its documents may be
    /// large: see `SkillMetadata::documents_bytes`.
    pub async fn get_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
    ) -> Result<Option<SkillRow>, StoreError> {
        let select = match version {
            "latest" => select_name(tenant, name)
                .push(" AND status = 'available' ORDER BY updated_at DESC, version DESC LIMIT 1"),
            exact => select_version(tenant, name, exact),
        };
        let row = self.db.read_one(select).await?;
        row.as_ref().map(SkillRow::from_row).transpose()
    }

    /// Deletes a version; returns it, or `None` when there is none. `version` is never `latest`.
    pub async fn delete_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
    ) -> Result<Option<SkillRow>, StoreError> {
        let delete = sql("DELETE FROM skills WHERE tenant = $1 AND name = $2 AND version = $3")
            .bind(tenant)
            .bind(name)
            .bind(version)
            .push(" RETURNING ")
            .push(COLUMNS);
        let mut tx = self.db.begin().await?;
        let Some(row) = tx.query_one(delete).await? else { return Ok(None) };
        self.record(&mut tx, "skill.delete", format!("{name}@{version}"), json!({})).await?;
        tx.commit().await?;
        SkillRow::from_row(&row).map(Some)
    }

    async fn record_published(
        &self,
        tx: &mut Tx,
        new: &NewSkill,
        replaced: Option<&str>,
    ) -> Result<(), StoreError> {
        let detail = json!({ "digest": new.digest, "replaced": replaced, "status": new.status });
        self.record(tx, "skill.publish", format!("{}@{}", new.name, new.version), detail).await
    }
}

fn select_name<'a>(tenant: &'a TenantId, name: &'a str) -> Sql<'a> {
    sql("SELECT ")
        .push(COLUMNS)
        .push_arg(" FROM skills WHERE tenant = ", tenant)
        .push_arg(" AND name = ", name)
}

pub(crate) fn select_version<'a>(tenant: &'a TenantId, name: &'a str, version: &'a str) -> Sql<'a> {
    select_name(tenant, name).push_arg(" AND version = ", version)
}

/// Its RETURNING clause has no row when the version exists.
fn insert<'a>(tenant: &'a TenantId, new: &'a NewSkill) -> Sql<'a> {
    let now = now();
    let fields = ManifestFields::from_manifest(&new.manifest);
    sql("INSERT INTO skills (tenant, name, version, digest, description, lang, mode, manifest, \
         entrypoint, scripts, size_bytes, created_at, updated_at, status, findings, described, idempotent, input_schema) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $4, $16, $17) \
         ON CONFLICT (tenant, name, version) DO NOTHING RETURNING ")
    .push(COLUMNS)
    .bind(tenant)
    .bind(&new.name)
    .bind(&new.version)
    .bind(&new.digest)
    .bind(&new.description)
    .bind(&new.lang)
    .bind(&new.mode)
    .bind(new.manifest.to_string())
    .bind(&new.entrypoint)
    .bind(new.scripts.to_string())
    .bind(new.size_bytes)
    .bind(now)
    .bind(now)
    .bind(new.status)
    .bind(new.findings.to_string())
    .bind(fields.idempotent)
    .bind(fields.schema_text())
}

async fn replace(tx: &mut Tx, tenant: &TenantId, new: &NewSkill) -> Result<SkillRow, StoreError> {
    let fields = ManifestFields::from_manifest(&new.manifest);
    let update = sql("UPDATE skills SET digest = $4, description = $5, lang = $6, mode = $7, \
         manifest = $8, entrypoint = $9, scripts = $10, size_bytes = $11, updated_at = $12, \
         status = $13, findings = $14, described = $4, idempotent = $15, input_schema = $16 WHERE tenant = $1 AND name = $2 AND version = $3 RETURNING ")
    .push(COLUMNS)
    .bind(tenant)
    .bind(&new.name)
    .bind(&new.version)
    .bind(&new.digest)
    .bind(&new.description)
    .bind(&new.lang)
    .bind(&new.mode)
    .bind(new.manifest.to_string())
    .bind(&new.entrypoint)
    .bind(new.scripts.to_string())
    .bind(new.size_bytes)
    .bind(now())
    .bind(new.status)
    .bind(new.findings.to_string())
    .bind(fields.idempotent)
    .bind(fields.schema_text());
    let row = tx.query_one(update).await?.ok_or(StoreError::NotFound)?;
    SkillRow::from_row(&row)
}
