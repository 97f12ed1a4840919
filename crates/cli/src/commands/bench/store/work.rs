//! The measured work: the store calls of one execution, from several concurrent workers.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;
use store::bench::BenchDatabase;
use store::{
    FinishedExecution, InitialState, InsertResult, Lease, NewExecution, Status, Store, TenantId,
};
use tokio::task::JoinSet;
use uuid::Uuid;

const LEASE_MS: i64 = 30_000;

/// How often a claim is retried when other workers were faster.
const MAX_CLAIM_ATTEMPTS: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoreWork {
    /// Accepted by one process and run by another: accept, claim, start, record.
    Queued,
    /// Accepted and run by one process: accept, record.
    Direct,
    /// Only the claim.
    Claim,
}

impl StoreWork {
    pub(super) const ALL: [StoreWork; 3] = [StoreWork::Queued, StoreWork::Direct, StoreWork::Claim];

    pub(super) fn name(self) -> &'static str {
        match self {
            StoreWork::Queued => "accept, claim, start, record",
            StoreWork::Direct => "accept and record in one process",
            StoreWork::Claim => "claim",
        }
    }

    /// Does the work once. Returns false when the queue is empty.
    async fn run_once(self, store: &Store, tenant: &TenantId, owner: &str) -> Result<bool> {
        match self {
            StoreWork::Queued => {
                accept(store, tenant, InitialState::Queued).await?;
                let lease = claim_one(store, owner).await?;
                if store.mark_started(&lease).await?.is_none() {
                    bail!("a lease was lost while measuring");
                }
                record(store, &lease).await
            }
            StoreWork::Direct => {
                let initial_state = InitialState::Running {
                    owner: owner.to_owned(),
                    lease_ms: LEASE_MS,
                    started: true,
                };
                match accept(store, tenant, initial_state).await? {
                    InsertResult::New(Some(lease)) => record(store, &lease).await,
                    _ => bail!("an execution was not accepted while measuring"),
                }
            }
            StoreWork::Claim => Ok(store.claim_next(owner, LEASE_MS).await?.is_some()),
        }
    }
}

/// How often the work was done in a period of time.
pub(super) struct WorkCount {
    pub count: u64,
    pub seconds: f64,
}

/// Repeats the work with several concurrent workers for a period of time.
pub(super) async fn repeat(
    work: StoreWork,
    bench: &BenchDatabase,
    workers: usize,
    time: Duration,
) -> Result<WorkCount> {
    let started_at = Instant::now();
    let mut tasks = JoinSet::new();
    for worker in 0..workers {
        let (store, tenant) =
            (bench.store.clone(), bench.tenants[worker % bench.tenants.len()].clone());
        tasks.spawn(async move {
            let owner = format!("bench-worker-{worker}");
            let mut done = 0_u64;
            while started_at.elapsed() < time && work.run_once(&store, &tenant, &owner).await? {
                done += 1;
            }
            Ok::<_, anyhow::Error>(done)
        });
    }
    let mut count = 0;
    while let Some(task) = tasks.join_next().await {
        count += task??;
    }
    Ok(WorkCount { count, seconds: started_at.elapsed().as_secs_f64() })
}

async fn accept(
    store: &Store,
    tenant: &TenantId,
    initial_state: InitialState,
) -> Result<InsertResult> {
    let new = NewExecution {
        id: Uuid::now_v7(),
        tenant: tenant.clone(),
        key_id: None,
        skill_name: "bench".into(),
        skill_version: "1.0.0".into(),
        digest: format!("sha256:{}", "0".repeat(64)),
        input: Some(INPUT.into()),
        request: r#"{"skill":"bench","version":"latest"}"#.into(),
        idempotency: None,
        idempotent: false,
        awaited: false,
        webhook: None,
        initial_state,
    };
    Ok(store.insert_execution(&new).await?)
}

/// Claims one execution. Each worker has just queued one, so there is one for each, but the rows may
/// be locked by other claims at this moment.
async fn claim_one(store: &Store, owner: &str) -> Result<Lease> {
    for _ in 0..MAX_CLAIM_ATTEMPTS {
        if let Some((_, lease)) = store.claim_next(owner, LEASE_MS).await? {
            return Ok(lease);
        }
    }
    bail!("no execution could be claimed while measuring")
}

async fn record(store: &Store, lease: &Lease) -> Result<bool> {
    match store.finish(lease, &finished()).await? {
        true => Ok(true),
        false => bail!("a result was refused while measuring"),
    }
}

pub(super) const INPUT: &str = r#"{"title":"Sales","points":[{"label":"Q1","value":3},{"label":"Q2","value":5},{"label":"Q3","value":8},{"label":"Q4","value":13}],"kind":"bar","width":640,"height":360}"#;

/// The result of a small skill with everything that a server stores about one. The sizes are in
/// docs/capacity.md.
pub(super) fn finished() -> FinishedExecution {
    FinishedExecution {
        status: Status::Success,
        output: Some(r#"{"file":"chart.svg","kind":"bar","points":4,"min":3.0,"max":13.0}"#.into()),
        logs: "drew 4 points\n".into(),
        error: None,
        outcome: "exited".into(),
        exit_code: Some(0),
        detail: DETAIL.into(),
        duration_ms: 52,
        files: vec![],
        has_archive: false,
        archive_bytes: None,
        receipt: Some(RECEIPT.into()),
    }
}

const DETAIL: &str = include_str!("detail.json");
const RECEIPT: &str = include_str!("receipt.txt");
