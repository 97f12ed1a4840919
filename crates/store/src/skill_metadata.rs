//! Skills without their documents. A manifest may be a megabyte, and so may its findings: lists and
//! lookups that need neither do not read them.

use serde_json::Value;

use crate::manifest_fields::ManifestFields;
use crate::row::Row;
use crate::skills::SkillStatus;
use crate::sql::{Sql, sql};
use crate::{Micros, PageRequest, Store, StoreError, TenantId};

/// One version of a skill without its documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillMetadata {
    pub tenant: TenantId,
    pub name: String,
    pub version: String,
    pub digest: String,
    /// At most [`SkillMetadata::DESCRIPTION_CHARS`]; the manifest has the whole description.
    pub description: String,
    pub lang: Option<String>,
    pub mode: String,
    pub status: SkillStatus,
    pub entrypoint: Option<String>,
    /// The manifest declares that running the skill twice is safe.
    pub idempotent: bool,
    /// The size of the archive.
    pub size_bytes: i64,
    /// The size of the documents that are left out: the manifest, the scripts and the findings.
    pub documents_bytes: u64,
    pub created_at: Micros,
    pub updated_at: Micros,
}

/// A skill in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSkill {
    pub head: SkillMetadata,
    pub findings: FindingCounts,
}

/// The number of findings of an upload, by severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FindingCounts {
    pub error: u32,
    pub warning: u32,
    pub info: u32,
}

/// A skill with the schema of its input, for callers such as MCP clients.
#[derive(Debug, Clone, PartialEq)]
pub struct CallableSkill {
    pub head: SkillMetadata,
    /// `None` also when it is longer than [`CallableSkill::SCHEMA_BYTES`].
    pub input_schema: Option<Value>,
}

/// `octet_length` works on both databases; `LENGTH` counts characters. The columns of manifest
/// fields are NULL when a program that did not know them stored the content; see
/// `Store::backfill_manifest_fields`.
const COLUMNS: &str = "tenant, name, version, digest, SUBSTR(description, 1, 4096) AS description, lang, mode, status, \
    entrypoint, size_bytes, created_at, updated_at, \
    CASE WHEN described = digest THEN idempotent END AS idempotent, \
    CAST(octet_length(manifest) + octet_length(scripts) + octet_length(findings) AS BIGINT) AS documents_bytes";

const SCHEMA: &str = ", CASE WHEN described = digest THEN input_schema END AS input_schema";

/// Counted in the JSON text, to avoid reading it. Quotation marks inside JSON strings are escaped,
/// so only the field itself can match.
const COUNTS: &str = ", \
    CAST((LENGTH(findings) - LENGTH(REPLACE(findings, '\"severity\":\"error\"', ''))) / 18 AS BIGINT) AS errors, \
    CAST((LENGTH(findings) - LENGTH(REPLACE(findings, '\"severity\":\"warning\"', ''))) / 20 AS BIGINT) AS warnings, \
    CAST((LENGTH(findings) - LENGTH(REPLACE(findings, '\"severity\":\"info\"', ''))) / 17 AS BIGINT) AS infos";

impl SkillMetadata {
    pub const DESCRIPTION_CHARS: usize = 4096;
    /// The maximum size in memory: the description, at most four bytes per character, and the other
    /// fields.
    pub const MAX_BYTES: u64 = 4 * 4096 + 2048;

    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        self.name.clone()
    }

    fn from_row(row: &Row) -> Result<SkillMetadata, StoreError> {
        Ok(SkillMetadata {
            tenant: row.parse("tenant")?,
            name: row.get("name")?,
            version: row.get("version")?,
            digest: row.get("digest")?,
            description: row.get("description")?,
            lang: row.get("lang")?,
            mode: row.get("mode")?,
            status: row.parse("status")?,
            entrypoint: row.get("entrypoint")?,
            idempotent: row.get::<Option<bool>>("idempotent")?.unwrap_or(false),
            size_bytes: row.get("size_bytes")?,
            documents_bytes: row.number("documents_bytes")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

impl ListedSkill {
    fn from_row(row: &Row) -> Result<ListedSkill, StoreError> {
        let findings = FindingCounts {
            error: count(row, "errors")?,
            warning: count(row, "warnings")?,
            info: count(row, "infos")?,
        };
        Ok(ListedSkill { head: SkillMetadata::from_row(row)?, findings })
    }
}

impl CallableSkill {
    pub const SCHEMA_BYTES: u64 = 64 << 10;
    /// The maximum size in memory: a parsed schema is several times as large as its text.
    pub const MAX_BYTES: u64 = SkillMetadata::MAX_BYTES + 8 * Self::SCHEMA_BYTES;

    fn from_row(row: &Row) -> Result<CallableSkill, StoreError> {
        Ok(CallableSkill {
            head: SkillMetadata::from_row(row)?,
            input_schema: row.json_opt("input_schema")?,
        })
    }
}

impl Store {
    /// `latest` is the available version that was uploaded last.
    pub async fn find_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
    ) -> Result<Option<SkillMetadata>, StoreError> {
        let select = self
            .select_metadata("")
            .push_arg(" WHERE tenant = ", tenant)
            .push_arg(" AND name = ", name);
        let select = match version {
            "latest" => select
                .push(" AND status = 'available' ORDER BY updated_at DESC, version DESC LIMIT 1"),
            exact => select.push_arg(" AND version = ", exact),
        };
        let Some(row) = self.db.read_one(select).await? else { return Ok(None) };
        let mut metadata = SkillMetadata::from_row(&row)?;
        if !has_manifest_fields(&row)? {
            metadata.idempotent = self.backfill_manifest_fields(&metadata).await?.idempotent;
        }
        Ok(Some(metadata))
    }

    /// The latest version of each skill, sorted by name; for a skill without an available version,
    /// the last upload.
    pub async fn list_skills(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<ListedSkill>, StoreError> {
        let rows = self.latest(self.select_metadata(COUNTS), tenant, page).await?;
        rows.iter().map(ListedSkill::from_row).collect()
    }

    /// The same without the counts of findings.
    pub async fn list_skill_metadata(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<SkillMetadata>, StoreError> {
        let rows = self.latest(self.select_metadata(""), tenant, page).await?;
        rows.iter().map(SkillMetadata::from_row).collect()
    }

    /// The same with the input schemas.
    pub async fn list_callable_skills(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<CallableSkill>, StoreError> {
        let mut all = Vec::new();
        for row in self.latest(self.select_metadata(SCHEMA), tenant, page).await? {
            let mut skill = CallableSkill::from_row(&row)?;
            if !has_manifest_fields(&row)? {
                skill.input_schema = self.backfill_manifest_fields(&skill.head).await?.input_schema;
            }
            all.push(skill);
        }
        Ok(all)
    }

    /// The versions of one skill, latest first. `page.after` does not apply to this list.
    pub async fn list_versions(
        &self,
        tenant: &TenantId,
        name: &str,
        page: &PageRequest,
    ) -> Result<Vec<ListedSkill>, StoreError> {
        let select = self
            .select_metadata(COUNTS)
            .push_arg(" WHERE tenant = ", tenant)
            .push_arg(" AND name = ", name)
            .push(" ORDER BY updated_at DESC, version DESC");
        let rows = self.db.read(page.limit(select)).await?;
        rows.iter().map(ListedSkill::from_row).collect()
    }

    /// Reads the manifest of a skill that was stored without these columns, and fills them in. The
    /// update is conditional on the digest: a concurrent upload may have replaced the content.
    async fn backfill_manifest_fields(
        &self,
        skill: &SkillMetadata,
    ) -> Result<ManifestFields, StoreError> {
        let SkillMetadata { tenant, name, version, digest, .. } = skill;
        let Some(row) = self.get_skill(tenant, name, version).await? else {
            return Ok(ManifestFields::default());
        };
        let described = ManifestFields::from_manifest(&row.manifest);
        let update = sql("UPDATE skills SET described = $5, idempotent = $6, input_schema = $7 \
             WHERE tenant = $1 AND name = $2 AND version = $3 AND digest = $4")
        .bind(tenant)
        .bind(name)
        .bind(version)
        .bind(digest)
        .bind(&row.digest)
        .bind(described.idempotent)
        .bind(described.schema_text());
        self.db.write(update).await?;
        Ok(described)
    }

    fn select_metadata<'a>(&self, more: &'static str) -> Sql<'a> {
        sql("SELECT ").push(COLUMNS).push(more).push(" FROM skills AS row")
    }

    async fn latest<'a>(
        &self,
        select: Sql<'a>,
        tenant: &'a TenantId,
        page: &'a PageRequest,
    ) -> Result<Vec<Row>, StoreError> {
        let select = select
            .push_arg(" WHERE tenant = ", tenant)
            // The planner walks the index name by name and stops when the page is full.
            .push(
                " AND NOT EXISTS (SELECT 1 FROM skills AS newer WHERE newer.tenant = row.tenant \
                  AND newer.name = row.name \
                  AND (CASE newer.status WHEN 'available' THEN 1 ELSE 0 END, newer.updated_at, newer.version) \
                    > (CASE row.status WHEN 'available' THEN 1 ELSE 0 END, row.updated_at, row.version))",
            )
            .push_optional_arg(" AND name > ", page.after.as_deref())
            .push(" ORDER BY name");
        self.db.read(page.limit(select)).await
    }
}

/// Whether the columns of manifest fields belong to the content of this row.
fn has_manifest_fields(row: &Row) -> Result<bool, StoreError> {
    Ok(row.get::<Option<bool>>("idempotent")?.is_some())
}

fn count(row: &Row, column: &str) -> Result<u32, StoreError> {
    row.number(column)
}
