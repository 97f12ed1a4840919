//! Executions: accepted, read, listed and cancelled here; run under a lease in `leases.rs`.

use serde::Serialize;
use uuid::Uuid;

use crate::page::age_cursor;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::words::words;
use crate::{Lease, Micros, Page, Store, StoreError, TenantId, now};

words! {
    /// Where an execution is in its life; the last four are ends it never leaves.
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
    pub fn terminal(self) -> bool {
        !matches!(self, Status::Queued | Status::Running)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewExecution {
    pub id: Uuid,
    pub tenant: TenantId,
    pub key_id: Option<Uuid>,
    pub skill_name: String,
    pub skill_version: String,
    pub digest: String,
    /// JSON text; absent when the caller sent none.
    pub input: Option<String>,
    /// JSON text: everything a worker needs to run it later.
    pub request: String,
    pub idempotency: Option<Idempotency>,
    pub born: Born,
}

/// The caller's promise that equal keys mean one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    pub body_sha256: String,
}

/// Whether a worker must claim it first, or the process that accepted it runs it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Born {
    Queued,
    /// `started` says that the job may act before another word is stored, so it is never handed to another worker.
    Running {
        owner: String,
        lease_ms: i64,
        started: bool,
    },
}

/// What `insert_execution` did.
#[derive(Debug, Clone, PartialEq)]
pub enum Inserted {
    /// Stored; with the lease when it was born running.
    New(Option<Lease>),
    /// The same tenant sent the same key and body before: this is that execution.
    Existing(Box<Execution>),
}

/// What `request_cancel` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// It was queued and will never run.
    Cancelled,
    /// It is running; whoever holds the lease learns of it with the next heartbeat.
    Requested,
    AlreadyFinished,
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
    /// As in `NewExecution`; empty once it has ended, because it may hold secrets.
    pub request: String,
    pub output: Option<String>,
    pub logs: String,
    pub error: Option<String>,
    pub outcome: Option<String>,
    pub exit_code: Option<i32>,
    /// JSON text: stdout, stderr, usage, isolation, timings, skipped files.
    pub detail: Option<String>,
    /// How often a worker has taken it up.
    pub attempt: i32,
    /// Whether the job reached a guest, after which it is not safe to run it again.
    pub started: bool,
    pub cancel_requested: bool,
    pub created_at: Micros,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
    pub duration_ms: i64,
    pub has_archive: bool,
}

/// Which executions to list; what is absent does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionFilter {
    pub skill: Option<String>,
    pub status: Option<Status>,
    /// Accepted at this time or later.
    pub since: Option<Micros>,
    pub key_id: Option<Uuid>,
}

const SHORT_COLUMNS: &str = "id, tenant, key_id, skill_name, skill_version, digest, status, \
    attempt, started, cancel_requested, created_at, started_at, finished_at, duration_ms, \
    outcome, exit_code, has_archive, error";

/// The documents, any of which may be a megabyte: read for one execution, blank in a list.
const LONG_COLUMNS: &str = ", input, request, output, logs, detail";
const NO_LONG_COLUMNS: &str = ", CAST(NULL AS TEXT) AS input, '' AS request, \
    CAST(NULL AS TEXT) AS output, '' AS logs, CAST(NULL AS TEXT) AS detail";

impl Execution {
    /// What `Page::after` takes to continue behind this row.
    pub fn cursor(&self) -> String {
        age_cursor(self.created_at, self.id)
    }

    /// Ends a statement that returns whole executions.
    pub(crate) fn returning(sql: Sql<'_>) -> Sql<'_> {
        sql.push(" RETURNING ").push(SHORT_COLUMNS).push(LONG_COLUMNS)
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
        })
    }
}

impl Store {
    /// Stores an accepted execution: one statement, one commit. However many equal requests come
    /// in parallel, one of them is `New`.
    pub async fn insert_execution(&self, new: &NewExecution) -> Result<Inserted, StoreError> {
        loop {
            let lease = lease_at_birth(new);
            let inserted = self.db.write(insert(new, lease.as_ref())).await;
            if inserted.map_err(|error| error.or_conflict("this execution id exists"))? > 0 {
                return Ok(Inserted::New(lease));
            }
            // The insert gave way to an earlier one with this key. Should that one have been
            // removed in between, ours is new after all.
            if let Some(idempotency) = &new.idempotency
                && let Some(existing) = self.replayed(&new.tenant, idempotency).await?
            {
                return Ok(Inserted::Existing(Box::new(existing)));
            }
        }
    }

    async fn replayed(&self, tenant: &TenantId, idempotency: &Idempotency) -> Result<Option<Execution>, StoreError> {
        let select = sql("SELECT body_sha256, ")
            .push(SHORT_COLUMNS)
            .push(LONG_COLUMNS)
            .push_arg(" FROM executions WHERE tenant = ", tenant)
            .push_arg(" AND idempotency_key = ", &idempotency.key);
        let Some(row) = self.db.read_one(select).await? else {
            return Ok(None);
        };
        if row.get::<&str>("body_sha256")? != idempotency.body_sha256 {
            return Err(StoreError::IdempotencyMismatch);
        }
        Execution::from_row(&row).map(Some)
    }

    pub async fn get_execution(&self, tenant: &TenantId, id: Uuid) -> Result<Option<Execution>, StoreError> {
        let select = sql("SELECT ")
            .push(SHORT_COLUMNS)
            .push(LONG_COLUMNS)
            .push_arg(" FROM executions WHERE tenant = ", tenant)
            .push_arg(" AND id = ", id);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(Execution::from_row).transpose()
    }

    /// Newest first, without `input`, `request`, `output`, `logs` and `detail`.
    pub async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        page: &Page,
    ) -> Result<Vec<Execution>, StoreError> {
        let mut select = sql("SELECT ")
            .push(SHORT_COLUMNS)
            .push(NO_LONG_COLUMNS)
            .push_arg(" FROM executions WHERE tenant = ", tenant);
        if let Some(status) = filter.status {
            // Spelled out, because only then the indexes of what waits or runs can serve it.
            select = select.push(" AND status = '").push(status.as_str()).push("'");
        }
        let select = select
            .push_some(" AND skill_name = ", filter.skill.as_deref())
            .push_some(" AND created_at >= ", filter.since)
            .push_some(" AND key_id = ", filter.key_id);
        let rows = self.db.read(page.newest_first(select)?).await?;
        rows.iter().map(Execution::from_row).collect()
    }

    pub async fn count_running(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        let row = self.db.read_one(count_running(tenant)).await?;
        row.map_or(Ok(0), |row| row.get("count"))
    }

    /// Ends a queued execution at once and asks a running one to stop. `None` when the tenant has
    /// no such execution.
    pub async fn request_cancel(&self, tenant: &TenantId, id: Uuid) -> Result<Option<Cancel>, StoreError> {
        // One statement, so that a worker that claims it meanwhile is either stopped or told.
        let update = sql("UPDATE executions SET cancel_requested = TRUE, \
             finished_at = CASE status WHEN 'queued' THEN $3 ELSE finished_at END, \
             outcome = CASE status WHEN 'queued' THEN 'cancelled' ELSE outcome END, \
             error = CASE status WHEN 'queued' THEN $4 ELSE error END, \
             request = CASE status WHEN 'queued' THEN '' ELSE request END, \
             status = CASE status WHEN 'queued' THEN 'cancelled' ELSE status END \
             WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'running') RETURNING status")
        .bind(tenant)
        .bind(id)
        .bind(now())
        .bind(CANCELLED_BEFORE_START);
        if let Some(row) = self.db.write_returning(update).await?.pop() {
            return Ok(Some(match row.parse("status")? {
                Status::Running => Cancel::Requested,
                _ => Cancel::Cancelled,
            }));
        }
        let found = self.get_execution(tenant, id).await?;
        Ok(found.map(|_| Cancel::AlreadyFinished))
    }
}

pub(crate) const CANCELLED_BEFORE_START: &str = "The execution was cancelled before it started.";

pub(crate) fn count_running(tenant: &TenantId) -> Sql<'_> {
    sql("SELECT COUNT(*) AS count FROM executions WHERE tenant = $1 AND status = 'running'").bind(tenant)
}

fn lease_at_birth(new: &NewExecution) -> Option<Lease> {
    match &new.born {
        Born::Queued => None,
        Born::Running { owner, .. } => {
            Some(Lease { execution_id: new.id, tenant: new.tenant.clone(), owner: owner.clone(), token: 1 })
        }
    }
}

fn insert<'a>(new: &'a NewExecution, lease: Option<&'a Lease>) -> Sql<'a> {
    let now = now();
    let (status, started_at, lease_until, started) = match new.born {
        Born::Queued => (Status::Queued, None, None, false),
        Born::Running { lease_ms, started, .. } => (Status::Running, Some(now), Some(now + lease_ms * 1000), started),
    };
    // Attempts and tokens count how often it was taken up; being born running is the first time.
    let taken_up = i64::from(lease.is_some());
    sql("INSERT INTO executions (id, tenant, key_id, skill_name, skill_version, digest, status, \
         attempt, owner, token, lease_until, idempotency_key, body_sha256, created_at, started_at, \
         input, request, started) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) \
         ON CONFLICT (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING")
    .bind(new.id)
    .bind(&new.tenant)
    .bind(new.key_id)
    .bind(&new.skill_name)
    .bind(&new.skill_version)
    .bind(&new.digest)
    .bind(status)
    .bind(taken_up)
    .bind(lease.map(|lease| lease.owner.as_str()))
    .bind(taken_up)
    .bind(lease_until)
    .bind(new.idempotency.as_ref().map(|i| i.key.as_str()))
    .bind(new.idempotency.as_ref().map(|i| i.body_sha256.as_str()))
    .bind(now)
    .bind(started_at)
    .bind(&new.input)
    .bind(&new.request)
    .bind(started)
}
