//! Tenants: who everything else belongs to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::storage::forget_changes;
use crate::string_enum::string_enum;
use crate::{Micros, PageRequest, SignaturePolicy, Store, StoreError, UnknownVariant, now};

/// A tenant's name: a letter or digit, then up to 63 of letters, digits, `.`, `_` and `-`.
///
/// Holding one means the spelling was checked, so it may stand in a path, a key or a log line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TenantId(String);

impl TenantId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for TenantId {
    type Error = UnknownVariant;

    fn try_from(name: &str) -> Result<TenantId, UnknownVariant> {
        let tail = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let good = name.len() <= 64
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(tail);
        if good {
            Ok(TenantId(name.to_owned()))
        } else {
            Err(UnknownVariant { kind: "tenant name", word: name.to_owned() })
        }
    }
}

impl TryFrom<String> for TenantId {
    type Error = UnknownVariant;

    fn try_from(name: String) -> Result<TenantId, UnknownVariant> {
        TenantId::try_from(name.as_str())
    }
}

impl FromStr for TenantId {
    type Err = UnknownVariant;

    fn from_str(name: &str) -> Result<TenantId, UnknownVariant> {
        TenantId::try_from(name)
    }
}

impl From<TenantId> for String {
    fn from(tenant: TenantId) -> String {
        tenant.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

string_enum! {
    /// Whether an uploaded version may be replaced by other content.
    #[derive(Default)]
    VersionPolicy, "version policy" {
        #[default]
        Mutable = "mutable",
        Immutable = "immutable",
    }
}

string_enum! {
    /// What becomes of an upload in which the scanner finds an error.
    #[derive(Default)]
    ScanPolicy, "scan policy" {
        /// Nobody looks.
        Off = "off",
        /// It is told.
        #[default]
        Report = "report",
        /// It is stored, and does not run until somebody approves it.
        Review = "review",
        /// It is refused.
        Block = "block",
    }
}

/// What a tenant may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantPolicy {
    pub versions: VersionPolicy,
    pub scan: ScanPolicy,
    /// How many executions may run at once; `claim_next` leaves the rest queued.
    pub max_concurrent: Option<u32>,
    /// How many executions may wait at once; `insert_queued` refuses the rest.
    pub max_queued: Option<u32>,
    /// How many executions may be asked for in a minute; see `take_rate_limit_token`.
    pub rate_per_minute: Option<u32>,
    /// How many bytes of uploaded files it may keep; `add_file` refuses the rest.
    pub max_file_bytes: Option<u64>,
    /// How many bytes it may store in all; without it the server's default holds.
    pub max_stored_bytes: Option<u64>,
    /// Its share of the workers, compared with other tenants that wait: 1 to `MAX_WEIGHT`.
    pub weight: u32,
    /// What becomes of skills without a signature that it trusts.
    pub signatures: SignaturePolicy,
}

impl TenantPolicy {
    pub const MAX_WEIGHT: u32 = 1000;

    /// As JSON, without the limits that are not set.
    fn given(&self) -> Value {
        let mut policy = json!(self);
        if let Value::Object(fields) = &mut policy {
            fields.retain(|_, value| !value.is_null());
        }
        policy
    }
}

impl Default for TenantPolicy {
    fn default() -> TenantPolicy {
        TenantPolicy {
            versions: VersionPolicy::default(),
            scan: ScanPolicy::default(),
            max_concurrent: None,
            max_queued: None,
            rate_per_minute: None,
            max_file_bytes: None,
            max_stored_bytes: None,
            weight: 1,
            signatures: SignaturePolicy::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tenant {
    pub id: TenantId,
    pub policy: TenantPolicy,
    pub created_at: Micros,
}

impl Tenant {
    /// What `PageRequest::after` takes to continue behind this row.
    pub fn cursor(&self) -> String {
        self.id.to_string()
    }

    fn from_row(row: &Row) -> Result<Tenant, StoreError> {
        Ok(Tenant {
            id: row.parse("id")?,
            policy: TenantPolicy {
                versions: row.parse("versions")?,
                scan: row.parse("scan")?,
                max_concurrent: row.number_opt("max_concurrent")?,
                max_queued: row.number_opt("max_queued")?,
                rate_per_minute: row.number_opt("rate_per_minute")?,
                max_file_bytes: row.number_opt("max_file_bytes")?,
                max_stored_bytes: row.number_opt("max_stored_bytes")?,
                weight: row.number("weight")?,
                signatures: row.parse("signatures")?,
            },
            created_at: row.get("created_at")?,
        })
    }
}

const INSERT: &str = "INSERT INTO tenants (id, versions, max_concurrent, max_queued, rate_per_minute, weight, \
    max_file_bytes, signatures, scan, max_stored_bytes, created_at, served_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0) \
    ON CONFLICT (id) DO NOTHING";

const SELECT: &str = "SELECT id, versions, max_concurrent, max_queued, rate_per_minute, weight, max_file_bytes, signatures, \
    scan, max_stored_bytes, created_at FROM tenants";

/// What a tenant trusts goes with it.
const TRUST: [&str; 4] = [
    "DELETE FROM signatures WHERE tenant = $1",
    "DELETE FROM newest_signed WHERE tenant = $1",
    "DELETE FROM revoked_digests WHERE tenant = $1",
    "DELETE FROM trusted_keys WHERE tenant = $1",
];

impl Store {
    /// The tenant, made with the default policy if it is new.
    pub async fn ensure_tenant(&self, id: &TenantId) -> Result<Tenant, StoreError> {
        if let Some(tenant) = self.get_tenant(id).await? {
            return Ok(tenant);
        }
        match self.create_tenant(id, TenantPolicy::default()).await {
            // Somebody was quicker.
            Err(StoreError::Conflict(_)) => self.get_tenant(id).await?.ok_or(StoreError::NotFound),
            other => other,
        }
    }

    pub async fn create_tenant(
        &self,
        id: &TenantId,
        policy: TenantPolicy,
    ) -> Result<Tenant, StoreError> {
        let created_at = now();
        let insert = bind_policy(sql(INSERT).bind(id), &policy).bind(created_at);
        match self.write_recorded(insert, ("tenant.create", id.as_str()), json!({})).await? {
            false => Err(StoreError::Conflict("this tenant exists")),
            true => Ok(Tenant { id: id.clone(), policy, created_at }),
        }
    }

    pub async fn get_tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError> {
        let row = self.db.read_one(sql(SELECT).push_arg(" WHERE id = ", id)).await?;
        row.as_ref().map(Tenant::from_row).transpose()
    }

    /// All tenants, by name.
    pub async fn list_tenants(&self, page: &PageRequest) -> Result<Vec<Tenant>, StoreError> {
        let select =
            sql(SELECT).push_some(" WHERE id > ", page.after.as_deref()).push(" ORDER BY id");
        let rows = self.db.read(page.limit(select)).await?;
        rows.iter().map(Tenant::from_row).collect()
    }

    /// False when there is no such tenant.
    pub async fn update_tenant_policy(
        &self,
        id: &TenantId,
        policy: &TenantPolicy,
    ) -> Result<bool, StoreError> {
        let update =
            sql("UPDATE tenants SET versions = $2, max_concurrent = $3, max_queued = $4, \
             rate_per_minute = $5, weight = $6, max_file_bytes = $7, signatures = $8, scan = $9, \
             max_stored_bytes = $10 WHERE id = $1");
        let update = bind_policy(update.bind(id), policy);
        let action = ("tenant.update", id.as_str());
        self.write_recorded(update, action, json!({ "policy": policy.given() })).await
    }

    /// Removes a tenant that owns nothing: no skills, executions or files, and no key that was not
    /// revoked. False when there is no such tenant. Its audit trail stays.
    pub async fn delete_tenant(&self, id: &TenantId) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let keys = sql("DELETE FROM keys WHERE tenant = $1 AND revoked_at IS NOT NULL").bind(id);
        tx.write(keys).await?;
        for trust in TRUST {
            tx.write(sql(trust).bind(id)).await?;
        }
        tx.write(sql("DELETE FROM skill_reviews WHERE tenant = $1").bind(id)).await?;
        tx.write(forget_changes(id)).await?;
        let tenant = sql("DELETE FROM tenants WHERE id = $1").bind(id);
        let deleted = tx.write(tenant).await.map_err(|error| match error {
            // What a foreign key forbids here is to orphan what the tenant still owns.
            StoreError::NotFound => StoreError::Conflict(
                "this tenant still owns keys, skills, executions or files; remove them first",
            ),
            other => other,
        })?;
        if deleted > 0 {
            self.record(&mut tx, "tenant.delete", id.as_str(), json!({})).await?;
        }
        tx.commit().await?;
        Ok(deleted > 0)
    }
}

fn bind_policy<'a>(sql: Sql<'a>, policy: &TenantPolicy) -> Sql<'a> {
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    sql.bind(policy.versions)
        .bind(policy.max_concurrent.map(i64::from))
        .bind(policy.max_queued.map(i64::from))
        .bind(policy.rate_per_minute.map(i64::from))
        .bind(i64::from(policy.weight.clamp(1, TenantPolicy::MAX_WEIGHT)))
        .bind(policy.max_file_bytes.map(bytes))
        .bind(policy.signatures)
        .bind(policy.scan)
        .bind(policy.max_stored_bytes.map(bytes))
}

#[cfg(test)]
mod tests {
    use super::TenantId;

    #[test]
    fn accepts_only_names_that_are_safe_everywhere() {
        let longest = "a".repeat(64);
        for good in ["a", "Acme", "0", "a.b_c-d", longest.as_str()] {
            assert_eq!(TenantId::try_from(good).map(String::from).as_deref(), Ok(good));
        }
        let too_long = "a".repeat(65);
        for bad in ["", ".", "..", "-a", "_a", "a/b", "a b", "a\0", "ä", too_long.as_str()] {
            assert!(TenantId::try_from(bad).is_err(), "{bad:?}");
            assert!(serde_json::from_value::<TenantId>(bad.into()).is_err(), "{bad:?}");
        }
    }
}
