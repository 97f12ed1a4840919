//! The books after the faults: what was accepted, what is stored, what lies in the object store and
//! what the survivors counted must agree.

use std::collections::{BTreeMap, BTreeSet};

use runner::archive_key;
use store::{Execution, ExecutionFilter, PageRequest, Status, Store, TenantId};

use crate::api::{Api, until};
use crate::fleet::{Accepted, Fleet};
use crate::support::Server;

/// Who was there to count what happened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Everybody who counted something is asked.
    All,
    /// Some died with what they had counted, or never heard whether it was stored.
    Some,
}

pub struct Books {
    store: Store,
    rows: Vec<Execution>,
}

impl Books {
    /// Everything that is stored, when everything has ended.
    pub async fn of(fleet: &Fleet) -> Books {
        let store = Store::open(&fleet.database.address()).await.expect("the fleet's database");
        let mut rows: Vec<Execution> = Vec::new();
        loop {
            let page = PageRequest { limit: 500, offset: rows.len() as i64, after: None };
            let more = store
                .list_executions(&tenant(), &ExecutionFilter::default(), &page)
                .await
                .expect("a list");
            if more.is_empty() {
                return Books { store, rows };
            }
            rows.extend(more);
        }
    }

    /// What is stored is what was accepted: nothing is missing, and nothing is there twice.
    pub fn hold<'a>(&self, accepted: impl IntoIterator<Item = &'a Accepted>) {
        let accepted: Vec<&str> =
            accepted.into_iter().map(|accepted| accepted.id.as_str()).collect();
        let ids: BTreeSet<&str> = accepted.iter().copied().collect();
        let stored: BTreeSet<String> = self.rows.iter().map(|row| row.id.to_string()).collect();
        assert_eq!(
            (ids.len(), stored.len()),
            (accepted.len(), self.rows.len()),
            "an execution stands for two requests"
        );
        assert!(
            stored.iter().map(String::as_str).eq(ids),
            "{} were accepted, {} stored",
            accepted.len(),
            stored.len()
        );
    }

    /// How many of these a fault touched at all: they are lost, or were taken up again.
    pub fn touched(&self, accepted: &[Accepted]) -> usize {
        let ids: BTreeSet<&str> = accepted.iter().map(|accepted| accepted.id.as_str()).collect();
        let touched = |row: &&Execution| row.attempt != 1 || row.outcome.as_deref() == Some("lost");
        self.rows
            .iter()
            .filter(|row| ids.contains(row.id.to_string().as_str()))
            .filter(touched)
            .count()
    }

    /// The ends of what was lost.
    pub fn lost_at(&self) -> impl Iterator<Item = i64> {
        let lost = self.rows.iter().filter(|row| row.outcome.as_deref() == Some("lost"));
        lost.map(|row| row.finished_at.expect("it has ended"))
    }

    /// No object without its row, and no row without its object. What a late worker takes back is
    /// gone a moment later.
    pub async fn match_objects(&self, fleet: &Fleet) {
        let mut expected = BTreeSet::new();
        for row in &self.rows {
            expected.extend(archive_key(row).map(|key| key.as_str().to_owned()));
            let files = self.store.list_execution_files(&row.tenant, row.id).await.expect("a list");
            expected.extend(files.into_iter().map(|file| file.blob_key));
        }
        let successes = self.rows.iter().filter(|row| row.status == Status::Success).count();
        assert!(expected.len() >= 2 * successes, "a success leaves a file and an archive");
        let odd = async || {
            let objects = fleet.objects.list("executions");
            let odd: Vec<String> = objects.symmetric_difference(&expected).cloned().collect();
            (!odd.is_empty()).then_some(odd)
        };
        let mut last = None;
        for _ in 0..100 {
            last = odd().await;
            if last.is_none() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("rows and objects differ: {last:#?}");
    }

    /// Nothing runs in a survivor, and together they counted no end twice; none is missing where
    /// all of them lived.
    pub async fn match_counters(&self, survivors: &[&Server], counted: Counted) {
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        let mut again = 0;
        for server in survivors {
            let meters = Meters::of(server).await;
            for (end, count) in meters.ended() {
                *ends.entry(end).or_default() += count;
            }
            *ends.entry("failed lost".to_owned()).or_default() +=
                meters.one("skillbox_executions_given_up_total");
            again += meters.one("skillbox_executions_requeued_total");
        }
        ends.retain(|_, count| *count > 0);
        let stored = self.ends();
        let agree = match counted {
            Counted::All => ends == stored,
            Counted::Some => ends
                .iter()
                .all(|(end, count)| stored.get(end).is_some_and(|stored| count <= stored)),
        };
        assert!(agree, "counted {ends:?}, stored {stored:?}");
        let taken_up_again: u64 =
            self.rows.iter().map(|row| u64::try_from(row.attempt).expect("a number") - 1).sum();
        assert!(again <= taken_up_again, "{again} queued again, {taken_up_again} taken up again");
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

/// Whose key the fleet has.
fn tenant() -> TenantId {
    TenantId::try_from("default").expect("a tenant's name")
}

/// The page that a process shows to operators.
struct Meters(String);

impl Meters {
    /// When no slot of it is used: one is given back a moment after its execution was recorded.
    async fn of(server: &Server) -> Meters {
        let api = Api::of(server);
        until("no slot is used", async || {
            let meters = Meters(api.get("/metrics").await.text().await.expect("a page"));
            (meters.one("skillbox_slots_used") == 0).then_some(meters)
        })
        .await
    }

    fn one(&self, name: &str) -> u64 {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// How many ended how, as `settle` spells it.
    fn ended(&self) -> impl Iterator<Item = (String, u64)> {
        self.0.lines().filter_map(|line| {
            let labels = line.strip_prefix("skillbox_executions_ended_total{status=\"")?;
            let (status, rest) = labels.split_once("\",outcome=\"")?;
            let (outcome, count) = rest.split_once("\"} ")?;
            Some((format!("{status} {outcome}"), count.parse().expect("a number")))
        })
    }
}
