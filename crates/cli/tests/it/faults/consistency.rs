//! Checks the stored state after faults: the accepted runs, the rows, the objects and the metrics of the
//! surviving processes must agree.

use std::collections::{BTreeMap, BTreeSet};

use runner::archive_key;
use store::{Execution, ExecutionFilter, PageRequest, Status, Store, TenantId};

use crate::api::{Api, wait_until};
use crate::fleet::{AcceptedRun, Fleet};
use crate::support::Server;

/// Which processes survived to report their counters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterCoverage {
    /// All of them, so the counters are complete.
    Complete,
    /// Some died with their counters, or did not get the confirmation of a commit.
    Partial,
}

pub(super) struct StoredState {
    store: Store,
    rows: Vec<Execution>,
}

impl StoredState {
    /// Loads all executions. All of them must have ended.
    pub(super) async fn load(fleet: &Fleet) -> StoredState {
        let store = Store::open(&fleet.database.address()).await.expect("the fleet's database");
        let mut rows: Vec<Execution> = Vec::new();
        loop {
            let page = PageRequest { limit: 500, offset: rows.len() as i64, after: None };
            let more = store
                .list_executions(&tenant(), &ExecutionFilter::default(), &page)
                .await
                .expect("a list");
            if more.is_empty() {
                return StoredState { store, rows };
            }
            rows.extend(more);
        }
    }

    /// Exactly the accepted runs are stored: none is missing and none is stored twice.
    pub(super) fn assert_stored_once<'a>(
        &self,
        accepted: impl IntoIterator<Item = &'a AcceptedRun>,
    ) {
        let accepted: Vec<&str> =
            accepted.into_iter().map(|accepted| accepted.id.as_str()).collect();
        let ids: BTreeSet<&str> = accepted.iter().copied().collect();
        let stored: BTreeSet<String> = self.rows.iter().map(|row| row.id.to_string()).collect();
        assert_eq!(
            (ids.len(), stored.len()),
            (accepted.len(), self.rows.len()),
            "two requests have the same execution"
        );
        assert!(
            stored.iter().map(String::as_str).eq(ids),
            "{} were accepted, {} stored",
            accepted.len(),
            stored.len()
        );
    }

    /// How many of these a fault affected: they are lost, or had more than one attempt.
    pub(super) fn count_affected(&self, accepted: &[AcceptedRun]) -> usize {
        let ids: BTreeSet<&str> = accepted.iter().map(|accepted| accepted.id.as_str()).collect();
        let is_affected =
            |row: &&Execution| row.attempt != 1 || row.outcome.as_deref() == Some("lost");
        self.rows
            .iter()
            .filter(|row| ids.contains(row.id.to_string().as_str()))
            .filter(is_affected)
            .count()
    }

    /// The end times of lost executions.
    pub(super) fn lost_at(&self) -> impl Iterator<Item = i64> {
        let lost = self.rows.iter().filter(|row| row.outcome.as_deref() == Some("lost"));
        lost.map(|row| row.finished_at.expect("it has ended"))
    }

    /// No object exists without its row, and no row without its object. This is polled, because a
    /// worker that lost its lease removes its objects a little later.
    pub(super) async fn assert_objects_match(&self, fleet: &Fleet) {
        let mut expected = BTreeSet::new();
        for row in &self.rows {
            expected.extend(archive_key(row).map(|key| key.as_str().to_owned()));
            let files = self.store.list_execution_files(&row.tenant, row.id).await.expect("a list");
            expected.extend(files.into_iter().map(|file| file.blob_key));
        }
        let successes = self.rows.iter().filter(|row| row.status == Status::Success).count();
        assert!(expected.len() >= 2 * successes, "a success leaves a file and an archive");
        let differences = async || {
            let objects = fleet.objects.list("executions");
            let differing: Vec<String> = objects.symmetric_difference(&expected).cloned().collect();
            (!differing.is_empty()).then_some(differing)
        };
        let mut last = None;
        for _ in 0..100 {
            last = differences().await;
            if last.is_none() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("rows and objects differ: {last:#?}");
    }

    /// No survivor has a used slot, and together they counted no end twice. If all processes survived,
    /// no end is missing either.
    pub(super) async fn assert_counters_match(
        &self,
        survivors: &[&Server],
        counted: CounterCoverage,
    ) {
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        let mut requeued = 0;
        for server in survivors {
            let metrics = MetricsPage::fetch(server).await;
            for (end, count) in metrics.ended() {
                *ends.entry(end).or_default() += count;
            }
            *ends.entry("failed lost".to_owned()).or_default() +=
                metrics.value("skillbox_executions_given_up_total");
            requeued += metrics.value("skillbox_executions_requeued_total");
        }
        ends.retain(|_, count| *count > 0);
        let stored = self.ends();
        let consistent = match counted {
            CounterCoverage::Complete => ends == stored,
            CounterCoverage::Partial => ends
                .iter()
                .all(|(end, count)| stored.get(end).is_some_and(|stored| count <= stored)),
        };
        assert!(consistent, "counted {ends:?}, stored {stored:?}");
        let extra_attempts: u64 =
            self.rows.iter().map(|row| u64::try_from(row.attempt).expect("a number") - 1).sum();
        assert!(requeued <= extra_attempts, "{requeued} requeued, {extra_attempts} extra attempts");
    }

    fn ends(&self) -> BTreeMap<String, u64> {
        let mut ends = BTreeMap::new();
        for row in &self.rows {
            let end = format!("{} {}", row.status, row.outcome.as_deref().unwrap_or_default());
            *ends.entry(end).or_default() += 1;
        }
        ends
    }
}

/// The tenant of the key of the fleet.
fn tenant() -> TenantId {
    TenantId::try_from("default").expect("a tenant's name")
}

/// The Prometheus metrics of a process.
struct MetricsPage(String);

impl MetricsPage {
    /// Fetches the metrics when no slot is used. A slot is released a little after its execution was
    /// recorded.
    async fn fetch(server: &Server) -> MetricsPage {
        let api = Api::for_server(server);
        wait_until("no slot is used", async || {
            let metrics = MetricsPage(api.get("/metrics").await.text().await.expect("metrics"));
            (metrics.value("skillbox_slots_used") == 0).then_some(metrics)
        })
        .await
    }

    fn value(&self, name: &str) -> u64 {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// The number of executions per end, in the same format as `wait_for_ends`.
    fn ended(&self) -> impl Iterator<Item = (String, u64)> {
        self.0.lines().filter_map(|line| {
            let labels = line.strip_prefix("skillbox_executions_ended_total{status=\"")?;
            let (status, rest) = labels.split_once("\",outcome=\"")?;
            let (outcome, count) = rest.split_once("\"} ")?;
            Some((format!("{status} {outcome}"), count.parse().expect("a number")))
        })
    }
}
