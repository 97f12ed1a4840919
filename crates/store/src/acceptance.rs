//! Acceptance: how an execution comes to be, once for each idempotency key and within the bound of
//! its tenant's queue.

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
    /// The skill promises that running it twice does no harm.
    pub idempotent: bool,
    /// Somebody waits for the end, so it is announced.
    pub awaited: bool,
    /// The address to call when it has ended.
    pub webhook: Option<String>,
    pub initial_state: InitialState,
}

/// The caller's promise that equal keys mean one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    pub body_sha256: String,
}

/// Whether a worker must claim it first, or the process that accepted it runs it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitialState {
    Queued,
    /// `started` says that the job may act before another word is stored, so it is handed to
    /// another worker only when the skill is idempotent.
    Running {
        owner: String,
        lease_ms: i64,
        started: bool,
    },
}

/// What `insert_execution` did.
#[derive(Debug, Clone, PartialEq)]
pub enum InsertResult {
    /// Stored; with the lease when it was born running.
    New(Option<Lease>),
    /// The same tenant sent the same key and body before: this is that execution.
    Existing(Box<Execution>),
    /// As many executions of this tenant wait as its policy allows; nothing was stored.
    QueueFull,
}

const SAME_ID: &str = "this execution id exists";

impl Store {
    /// Stores an accepted execution: one statement, one commit. However many equal requests come
    /// in parallel, one of them is `New`.
    pub async fn insert_execution(&self, new: &NewExecution) -> Result<InsertResult, StoreError> {
        loop {
            let lease = initial_lease(new);
            let inserted =
                self.write_and_notify(insert(new, lease.as_ref(), self.db.clock())).await;
            if !inserted.map_err(|error| error.or_conflict(SAME_ID))?.is_empty() {
                return Ok(InsertResult::New(lease));
            }
            // The insert gave way to an earlier one with this key. Should that one have been
            // removed in between, ours is new after all.
            if let Some(idempotency) = &new.idempotency
                && let Some(existing) =
                    self.find_by_idempotency_key(&new.tenant, idempotency).await?
            {
                return Ok(InsertResult::Existing(Box::new(existing)));
            }
        }
    }

    /// The same for a tenant with a limit on its queue or on what it stores: both are counted under
    /// the lock of the tenant's row. `StorageFull` when it may not store that much.
    pub async fn insert_within_limits(
        &self,
        new: &NewExecution,
    ) -> Result<InsertResult, StoreError> {
        let mut tx = self.db.begin().await?;
        let storage = self.enforce_storage(&mut tx, &new.tenant).await?;
        let select = sql("SELECT max_queued FROM tenants WHERE id = $1").bind(&new.tenant);
        let Some(tenant) = tx.one(select).await? else { return Err(StoreError::NotFound) };
        let lease = initial_lease(new);
        let inserted =
            tx.one(self.with_notification(insert(new, lease.as_ref(), self.db.clock()))).await;
        let Some(inserted) = inserted.map_err(|error| error.or_conflict(SAME_ID))? else {
            drop(tx);
            return self.insert_execution(new).await;
        };
        storage.verify(&mut tx).await?;
        if new.initial_state == InitialState::Queued
            && let Some(max_queued) = tenant.get::<Option<i64>>("max_queued")?
            && let Some(queued) = tx.one(count_queued(&new.tenant)).await?
            && queued.get::<i64>("count")? > max_queued
        {
            return Ok(InsertResult::QueueFull);
        }
        tx.commit().await?;
        self.notify_local(&[inserted])?;
        Ok(InsertResult::New(lease))
    }

    /// The execution that was accepted under this key; an error when it was for another body.
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
    let says =
        (new.initial_state == InitialState::Queued).then(|| Notification::Queued.to_string());
    let (status, started_at, lease_us, started) = match new.initial_state {
        InitialState::Queued => (Status::Queued, None, None, false),
        InitialState::Running { lease_ms, started, .. } => {
            (Status::Running, Some(now), Some(lease_ms * 1000), started)
        }
    };
    // Attempts and tokens count how often it was taken up; being born running is the first time.
    let taken_up = i64::from(lease.is_some());
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
    .bind(taken_up)
    .bind(lease.map(|lease| lease.owner.as_str()))
    .bind(taken_up)
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
    .bind(says)
}
