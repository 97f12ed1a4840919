//! Acceptance: inserting an execution, once per idempotency key and within the tenant's limits.

use uuid::Uuid;

use crate::executions::count_queued;
use crate::sql::{Sql, sql};
use crate::{Execution, Lease, Notification, Status, Store, StoreError, TenantId, now};

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
    /// The skill declares that running it twice is safe.
    pub idempotent: bool,
    /// A client in another process may wait for the end, so a notification is sent.
    pub awaited: bool,
    /// The URL to call when the execution has ended.
    pub webhook: Option<String>,
    pub initial_state: InitialState,
}

/// The caller's idempotency key: requests with equal keys are one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    pub body_sha256: String,
}

/// Whether a worker must claim the execution, or the process that accepted it runs it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitialState {
    Queued,
    /// With `started`, the job may have effects before anything else is stored. After a crash the
    /// execution then goes to another worker only if the skill is idempotent.
    Running {
        owner: String,
        lease_ms: i64,
        started: bool,
    },
}

/// The result of `insert_execution`.
#[derive(Debug, Clone, PartialEq)]
pub enum InsertResult {
    /// Inserted; with a lease when its initial state is `Running`.
    New(Option<Lease>),
    /// The tenant sent the same idempotency key and body before, for this execution.
    Existing(Box<Execution>),
    /// The tenant's queue is full; nothing was inserted.
    QueueFull,
}

const DUPLICATE_ID: &str = "this execution id exists";

impl Store {
    /// Inserts an accepted execution: one statement, one commit. Of any number of concurrent
    /// requests with the same idempotency key, exactly one is `New`.
    pub async fn insert_execution(&self, new: &NewExecution) -> Result<InsertResult, StoreError> {
        loop {
            let lease = initial_lease(new);
            let inserted =
                self.write_and_notify(insert(new, lease.as_ref(), self.db.clock())).await;
            if !inserted.map_err(|error| error.or_conflict(DUPLICATE_ID))?.is_empty() {
                return Ok(InsertResult::New(lease));
            }
            // The key exists. If retention deletes that execution before it is read here, the
            // insert is tried again and succeeds.
            if let Some(idempotency) = &new.idempotency
                && let Some(existing) =
                    self.find_by_idempotency_key(&new.tenant, idempotency).await?
            {
                return Ok(InsertResult::Existing(Box::new(existing)));
            }
        }
    }

    /// The same for a tenant with a limit on its queue or its storage. `StorageFull` when the
    /// storage quota is exceeded.
    pub async fn insert_within_limits(
        &self,
        new: &NewExecution,
    ) -> Result<InsertResult, StoreError> {
        let mut tx = self.db.begin().await?;
        // Locks the tenant's row: both limits are counted one transaction at a time, so concurrent
        // requests cannot exceed them together.
        let storage = self.enforce_storage(&mut tx, &new.tenant).await?;
        let select = sql("SELECT max_queued FROM tenants WHERE id = $1").bind(&new.tenant);
        let Some(tenant) = tx.query_one(select).await? else { return Err(StoreError::NotFound) };
        let lease = initial_lease(new);
        let inserted = tx
            .query_one(self.with_notification(insert(new, lease.as_ref(), self.db.clock())))
            .await;
        let Some(inserted) = inserted.map_err(|error| error.or_conflict(DUPLICATE_ID))? else {
            // The key exists. Released first, because `insert_execution` needs the writer, of which
            // SQLite has one.
            drop(tx);
            return self.insert_execution(new).await;
        };
        storage.verify(&mut tx).await?;
        if new.initial_state == InitialState::Queued
            && let Some(max_queued) = tenant.get::<Option<i64>>("max_queued")?
            && let Some(queued) = tx.query_one(count_queued(&new.tenant)).await?
            && queued.get::<i64>("count")? > max_queued
        {
            return Ok(InsertResult::QueueFull);
        }
        tx.commit().await?;
        self.notify_local(&[inserted])?;
        Ok(InsertResult::New(lease))
    }

    /// The execution with this idempotency key; an error when its request body was different.
    pub async fn find_by_idempotency_key(
        &self,
        tenant: &TenantId,
        idempotency: &Idempotency,
    ) -> Result<Option<Execution>, StoreError> {
        let select = Execution::select("body_sha256, ")
            .push_arg(" WHERE tenant = ", tenant)
            .push_arg(" AND idempotency_key = ", &idempotency.key);
        let Some(row) = self.db.read_one(select).await? else {
            return Ok(None);
        };
        if row.get::<&str>("body_sha256")? != idempotency.body_sha256 {
            return Err(StoreError::IdempotencyMismatch);
        }
        Execution::from_row(&row).map(Some)
    }
}

fn initial_lease(new: &NewExecution) -> Option<Lease> {
    match &new.initial_state {
        InitialState::Queued => None,
        InitialState::Running { owner, .. } => Some(Lease {
            execution_id: new.id,
            tenant: new.tenant.clone(),
            owner: owner.clone(),
            token: 1,
            webhook: new.webhook.is_some(),
        }),
    }
}

fn insert<'a>(new: &'a NewExecution, lease: Option<&'a Lease>, clock: &'static str) -> Sql<'a> {
    let now = now();
    let notification =
        (new.initial_state == InitialState::Queued).then(|| Notification::Queued.to_string());
    let (status, started_at, lease_us, started) = match new.initial_state {
        InitialState::Queued => (Status::Queued, None, None, false),
        InitialState::Running { lease_ms, started, .. } => {
            (Status::Running, Some(now), Some(lease_ms * 1000), started)
        }
    };
    // Attempts and tokens count the claims; an insert as running is the first claim.
    let claims = i64::from(lease.is_some());
    sql("INSERT INTO executions (id, tenant, key_id, skill_name, skill_version, digest, status, \
         attempt, owner, token, lease_until, idempotency_key, body_sha256, created_at, started_at, \
         input, request, started, idempotent, awaited, webhook) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ")
    .push(clock)
    .push(
        " + $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) \
         ON CONFLICT (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING \
         RETURNING CAST($22 AS TEXT) AS notification",
    )
    .bind(new.id)
    .bind(&new.tenant)
    .bind(new.key_id)
    .bind(&new.skill_name)
    .bind(&new.skill_version)
    .bind(&new.digest)
    .bind(status)
    .bind(claims)
    .bind(lease.map(|lease| lease.owner.as_str()))
    .bind(claims)
    .bind(lease_us)
    .bind(new.idempotency.as_ref().map(|i| i.key.as_str()))
    .bind(new.idempotency.as_ref().map(|i| i.body_sha256.as_str()))
    .bind(now)
    .bind(started_at)
    .bind(&new.input)
    .bind(&new.request)
    .bind(started)
    .bind(new.idempotent)
    .bind(new.awaited)
    .bind(&new.webhook)
    .bind(notification)
}
