//! Executions: reading and listing. They are inserted in `acceptance.rs`, claimed in `claims.rs`,
//! held in `leases.rs`, and end in `finishing.rs`, `cancellation.rs` or `reaping.rs`.

use serde::Serialize;
use uuid::Uuid;

use crate::page::time_cursor;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::string_enum::string_enum;
use crate::{Micros, PageRequest, Store, StoreError, TenantId};

string_enum! {
    /// The state of an execution; the last four are terminal.
    Status, "status" {
        Queued = "queued",
        Running = "running",
        Success = "success",
        Failed = "failed",
        Timeout = "timeout",
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether the execution has ended. The only rule of this kind on the server's side.
    pub fn is_terminal(self) -> bool {
        match self {
            Status::Queued | Status::Running => false,
            Status::Success | Status::Failed | Status::Timeout | Status::Cancelled => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Execution {
    pub id: Uuid,
    pub tenant: TenantId,
    pub key_id: Option<Uuid>,
    pub skill_name: String,
    pub skill_version: String,
    pub digest: String,
    pub status: Status,
    pub input: Option<String>,
    /// As in `NewExecution`; empty after the end, because it may hold secrets.
    pub request: String,
    pub output: Option<String>,
    pub logs: String,
    pub error: Option<String>,
    pub outcome: Option<String>,
    pub exit_code: Option<i32>,
    /// JSON text: stdout, stderr, usage, isolation, timings, skipped files.
    pub detail: Option<String>,
    /// How often the execution was claimed.
    pub attempt: i32,
    /// Whether the job may have reached a guest. It is then not safe to run it again, unless the
    /// skill is idempotent.
    pub started: bool,
    pub cancel_requested: bool,
    pub created_at: Micros,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
    pub duration_ms: i64,
    pub has_archive: bool,
    /// The archive was removed together with a deleted artifact.
    pub archive_removed: bool,
    pub webhook: Option<String>,
}

/// Which executions to list; `None` does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionFilter {
    pub skill: Option<String>,
    pub status: Option<Status>,
    /// Only executions accepted at this time or later.
    pub since: Option<Micros>,
    pub key_id: Option<Uuid>,
}

const COLUMNS: &str = "id, tenant, key_id, skill_name, skill_version, digest, status, \
    attempt, started, cancel_requested, created_at, started_at, finished_at, duration_ms, \
    outcome, exit_code, has_archive, archive_removed, error";

/// The documents, each of which may be a megabyte: read for one execution, empty in a list.
const DOCUMENTS: &str = ", input, request, output, logs, detail, webhook";
const EMPTY_DOCUMENTS: &str = ", CAST(NULL AS TEXT) AS input, '' AS request, \
    CAST(NULL AS TEXT) AS output, '' AS logs, CAST(NULL AS TEXT) AS detail, \
    CAST(NULL AS TEXT) AS webhook";

impl Execution {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        time_cursor(self.created_at, self.id)
    }

    /// Starts a query for whole executions, with `more` columns before them.
    pub(crate) fn select<'a>(more: &'static str) -> Sql<'a> {
        sql("SELECT ").push(more).push(COLUMNS).push(DOCUMENTS).push(" FROM executions")
    }

    /// Starts a query for executions without their documents.
    fn select_summary<'a>() -> Sql<'a> {
        sql("SELECT ").push(COLUMNS).push(EMPTY_DOCUMENTS).push(" FROM executions")
    }

    /// Completes a statement that returns whole executions.
    pub(crate) fn returning(sql: Sql<'_>) -> Sql<'_> {
        sql.push(" RETURNING ").push(COLUMNS).push(DOCUMENTS)
    }

    pub(crate) fn from_row(row: &Row) -> Result<Execution, StoreError> {
        Ok(Execution {
            id: row.parse("id")?,
            tenant: row.parse("tenant")?,
            key_id: row.parse_opt("key_id")?,
            skill_name: row.get("skill_name")?,
            skill_version: row.get("skill_version")?,
            digest: row.get("digest")?,
            status: row.parse("status")?,
            input: row.get("input")?,
            request: row.get("request")?,
            output: row.get("output")?,
            logs: row.get("logs")?,
            error: row.get("error")?,
            outcome: row.get("outcome")?,
            exit_code: row.number_opt("exit_code")?,
            detail: row.get("detail")?,
            attempt: row.number("attempt")?,
            started: row.get("started")?,
            cancel_requested: row.get("cancel_requested")?,
            created_at: row.get("created_at")?,
            started_at: row.get("started_at")?,
            finished_at: row.get("finished_at")?,
            duration_ms: row.get("duration_ms")?,
            has_archive: row.get("has_archive")?,
            archive_removed: row.get("archive_removed")?,
            webhook: row.get("webhook")?,
        })
    }
}

impl Store {
    pub async fn get_execution(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<Execution>, StoreError> {
        let select =
            Execution::select("").push_arg(" WHERE tenant = ", tenant).push_arg(" AND id = ", id);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(Execution::from_row).transpose()
    }

    /// How many bytes `get_execution` would read; `None` when there is no such execution.
    pub async fn execution_bytes(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<u64>, StoreError> {
        let select = sql(
            "SELECT CAST(octet_length(request) + octet_length(logs) + octet_length(COALESCE(input, '')) \
             + octet_length(COALESCE(output, '')) + octet_length(COALESCE(detail, '')) AS BIGINT) AS bytes \
             FROM executions WHERE tenant = $1 AND id = $2",
        );
        let row = self.db.read_one(select.bind(tenant).bind(id)).await?;
        row.map(|row| row.number("bytes")).transpose()
    }

    /// An execution without `input`, `request`, `output`, `logs` and `detail`.
    pub async fn get_execution_summary(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<Execution>, StoreError> {
        let select = Execution::select_summary()
            .push_arg(" WHERE tenant = ", tenant)
            .push_arg(" AND id = ", id);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(Execution::from_row).transpose()
    }

    /// The receipt that was signed when the result was recorded; `None` when the execution has not
    /// ended, or ended without a worker.
    pub async fn get_receipt(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<String>, StoreError> {
        let select = sql("SELECT receipt FROM executions WHERE tenant = $1 AND id = $2")
            .bind(tenant)
            .bind(id);
        let row = self.db.read_one(select).await?;
        Ok(row.map(|row| row.get("receipt")).transpose()?.flatten())
    }

    /// Newest first, without `input`, `request`, `output`, `logs` and `detail`.
    pub async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        page: &PageRequest,
    ) -> Result<Vec<Execution>, StoreError> {
        let mut select = Execution::select_summary().push_arg(" WHERE tenant = ", tenant);
        if let Some(status) = filter.status {
            // A literal instead of an argument: only then can the planner use the partial indexes
            // on queued and running executions.
            select = select.push(" AND status = '").push(status.as_str()).push("'");
        }
        let select = select
            .push_optional_arg(" AND skill_name = ", filter.skill.as_deref())
            .push_optional_arg(" AND created_at >= ", filter.since)
            .push_optional_arg(" AND key_id = ", filter.key_id);
        let rows = self.db.read(page.newest_first(select)?).await?;
        rows.iter().map(Execution::from_row).collect()
    }

    pub async fn count_running(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        let row = self.db.read_one(count_running(tenant)).await?;
        row.map_or(Ok(0), |row| row.get("count"))
    }

    pub async fn count_queued(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        let row = self.db.read_one(count_queued(tenant)).await?;
        row.map_or(Ok(0), |row| row.get("count"))
    }
}

pub(crate) fn count_running(tenant: &TenantId) -> Sql<'_> {
    sql("SELECT COUNT(*) AS count FROM executions WHERE tenant = $1 AND status = 'running'")
        .bind(tenant)
}

pub(crate) fn count_queued(tenant: &TenantId) -> Sql<'_> {
    sql("SELECT COUNT(*) AS count FROM executions WHERE tenant = $1 AND status = 'queued'")
        .bind(tenant)
}
