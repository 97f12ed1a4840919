//! Skills without their documents. A manifest may be a megabyte, and so may what the checks said
//! about it: lists and lookups that need neither read neither.

use serde_json::Value;

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
    /// At most [`SkillMetadata::DESCRIPTION_CHARS`] of it; the whole of a longer one is in the
    /// manifest.
    pub description: String,
    pub lang: Option<String>,
    pub mode: String,
    pub status: SkillStatus,
    pub entrypoint: Option<String>,
    /// The manifest says that running the skill twice does no harm.
    pub idempotent: bool,
    /// Of the archive.
    pub size_bytes: i64,
    /// Of the documents that are left out: the manifest, the scripts and the findings.
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

/// How many findings of each severity an upload had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FindingCounts {
    pub error: u32,
    pub warning: u32,
    pub info: u32,
}

/// A skill as something to call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallableSkill {
    pub head: SkillMetadata,
    /// Nothing as well when it is longer than [`CallableSkill::SCHEMA_BYTES`].
    pub input_schema: Option<Value>,
}

/// `octet_length` is known to both databases; `LENGTH` counts characters. What the manifest says is
/// NULL when the content was stored by a program that did not know the columns: see
/// `Store::describe`.
const HEAD: &str = "tenant, name, version, digest, SUBSTR(description, 1, 4096) AS description, lang, mode, status, \
    entrypoint, size_bytes, created_at, updated_at, \
    CASE WHEN described = digest THEN idempotent END AS idempotent, \
    CAST(octet_length(manifest) + octet_length(scripts) + octet_length(findings) AS BIGINT) AS documents_bytes";

const SCHEMA: &str = ", CASE WHEN described = digest THEN input_schema END AS input_schema";

/// Counted in the text: a quotation mark inside a string of JSON has a backslash before it, so
/// nothing but the field itself is spelled like this.
const COUNTS: &str = ", \
    CAST((LENGTH(findings) - LENGTH(REPLACE(findings, '\"severity\":\"error\"', ''))) / 18 AS BIGINT) AS errors, \
    CAST((LENGTH(findings) - LENGTH(REPLACE(findings, '\"severity\":\"warning\"', ''))) / 20 AS BIGINT) AS warnings, \
    CAST((LENGTH(findings) - LENGTH(REPLACE(findings, '\"severity\":\"info\"', ''))) / 17 AS BIGINT) AS infos";

impl SkillMetadata {
    pub const DESCRIPTION_CHARS: usize = 4096;
    /// What a head takes in memory at most: its texts, each character of them at most four bytes,
    /// and its fields.
    pub const MAX_BYTES: u64 = 4 * 4096 + 2048;

    /// What `PageRequest::after` takes to continue behind this row.
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
    /// What one takes in memory at most: a schema as a tree is some times as large as its text.
    pub const MAX_BYTES: u64 = SkillMetadata::MAX_BYTES + 8 * Self::SCHEMA_BYTES;

    fn from_row(row: &Row) -> Result<CallableSkill, StoreError> {
        Ok(CallableSkill {
            head: SkillMetadata::from_row(row)?,
            input_schema: row.json_opt("input_schema")?,
        })
    }
}

impl Store {
    /// `latest` is the version uploaded last of those that are available.
    pub async fn find_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
    ) -> Result<Option<SkillMetadata>, StoreError> {
        let select = self
            .select_heads("")
            .push_arg(" WHERE tenant = ", tenant)
            .push_arg(" AND name = ", name);
        let select = match version {
            "latest" => select
                .push(" AND status = 'available' ORDER BY updated_at DESC, version DESC LIMIT 1"),
            exact => select.push_arg(" AND version = ", exact),
        };
        let Some(row) = self.db.read_one(select).await? else { return Ok(None) };
        let mut head = SkillMetadata::from_row(&row)?;
        if !is_described(&row)? {
            head.idempotent = self.describe(&head).await?.idempotent;
        }
        Ok(Some(head))
    }

    /// The latest version of each skill, by name; of one without an available version, the last
    /// upload.
    pub async fn list_skills(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<ListedSkill>, StoreError> {
        let rows = self.latest(self.select_heads(COUNTS), tenant, page).await?;
        rows.iter().map(ListedSkill::from_row).collect()
    }

    /// The same for those who only want to know which skills there are.
    pub async fn list_skill_metadata(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<SkillMetadata>, StoreError> {
        let rows = self.latest(self.select_heads(""), tenant, page).await?;
        rows.iter().map(SkillMetadata::from_row).collect()
    }

    /// The same with the schemas of their input.
    pub async fn list_callable_skills(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<CallableSkill>, StoreError> {
        let mut all = Vec::new();
        for row in self.latest(self.select_heads(SCHEMA), tenant, page).await? {
            let mut skill = CallableSkill::from_row(&row)?;
            if !is_described(&row)? {
                skill.input_schema = self.describe(&skill.head).await?.input_schema;
            }
            all.push(skill);
        }
        Ok(all)
    }

    /// The versions of one skill, the latest first. `page.after` does not apply to this list.
    pub async fn list_versions(
        &self,
        tenant: &TenantId,
        name: &str,
        page: &PageRequest,
    ) -> Result<Vec<ListedSkill>, StoreError> {
        let select = self
            .select_heads(COUNTS)
            .push_arg(" WHERE tenant = ", tenant)
            .push_arg(" AND name = ", name)
            .push(" ORDER BY updated_at DESC, version DESC");
        let rows = self.db.read(page.limit(select)).await?;
        rows.iter().map(ListedSkill::from_row).collect()
    }

    /// Reads the manifest of a skill that was stored without these columns, and fills them in for
    /// the next time.
    async fn describe(&self, head: &SkillMetadata) -> Result<ManifestFields, StoreError> {
        let SkillMetadata { tenant, name, version, digest, .. } = head;
        let Some(row) = self.get_skill(tenant, name, version).await? else {
            return Ok(ManifestFields::default());
        };
        let described = ManifestFields::of(&row.manifest);
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

    fn select_heads<'a>(&self, more: &'static str) -> Sql<'a> {
        sql("SELECT ").push(HEAD).push(more).push(" FROM skills AS row")
    }

    async fn latest<'a>(
        &self,
        select: Sql<'a>,
        tenant: &'a TenantId,
        page: &'a PageRequest,
    ) -> Result<Vec<Row>, StoreError> {
        let select = select
            .push_arg(" WHERE tenant = ", tenant)
            // Walks the index name by name and stops when the page is full.
            .push(
                " AND NOT EXISTS (SELECT 1 FROM skills AS newer WHERE newer.tenant = row.tenant \
                  AND newer.name = row.name \
                  AND (CASE newer.status WHEN 'available' THEN 1 ELSE 0 END, newer.updated_at, newer.version) \
                    > (CASE row.status WHEN 'available' THEN 1 ELSE 0 END, row.updated_at, row.version))",
            )
            .push_some(" AND name > ", page.after.as_deref())
            .push(" ORDER BY name");
        self.db.read(page.limit(select)).await
    }
}

/// What callers need of a manifest.
#[derive(Debug, Default)]
pub(crate) struct ManifestFields {
    pub idempotent: bool,
    input_schema: Option<Value>,
}

impl ManifestFields {
    pub fn of(manifest: &Value) -> ManifestFields {
        let schema = manifest.get("input_schema").filter(|schema| !schema.is_null()).cloned();
        let short = |schema: &Value| schema.to_string().len() as u64 <= CallableSkill::SCHEMA_BYTES;
        ManifestFields {
            idempotent: manifest["idempotent"] == true,
            input_schema: schema.filter(short),
        }
    }

    pub fn schema_text(&self) -> Option<String> {
        self.input_schema.as_ref().map(Value::to_string)
    }
}

/// Whether the columns beside the manifest hold for the content of this row.
fn is_described(row: &Row) -> Result<bool, StoreError> {
    Ok(row.get::<Option<bool>>("idempotent")?.is_some())
}

fn count(row: &Row, column: &str) -> Result<u32, StoreError> {
    row.number(column)
}
