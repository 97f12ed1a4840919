//! `/metrics`: numbers about this process and about the queue that all processes share, without
//! tenants, skills or keys in them. The page is rendered for each request; the load on the database
//! is limited, however many requests there are.

mod page;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use admission::Budget;
use runner::{Meters, Runner};
use store::{QueueLoad, Store};
use tokio::sync::Mutex;

use crate::http::listen::ConnectionMeter;
use page::MetricsPage;
pub(crate) use requests::{RequestCounts, count};

/// The queue is counted at most once in this time, whatever the number of requests.
const LOAD_CACHE_TTL: Duration = Duration::from_secs(2);
const LOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The counters that no other part of the server keeps.
pub(crate) struct Metrics {
    /// The bearer token for `/metrics`; it grants nothing else.
    pub token: Option<String>,
    pub requests: RequestCounts,
    pub connections: Arc<ConnectionMeter>,
    /// Keys and tokens that were not valid.
    pub auth_failures: AtomicU64,
    /// How often `/ready` checked, which is less often than it was requested.
    pub ready_checks: AtomicU64,
    load: Mutex<Option<(Instant, Option<QueueLoad>)>>,
}

impl Metrics {
    pub(crate) fn new(token: Option<String>) -> Metrics {
        Metrics {
            token,
            requests: RequestCounts::default(),
            connections: Arc::default(),
            auth_failures: AtomicU64::new(0),
            ready_checks: AtomicU64::new(0),
            load: Mutex::default(),
        }
    }

    /// Everything, in the text format of Prometheus.
    pub(crate) async fn page(&self, store: &Store, memory: &Budget, runner: &Runner) -> String {
        let mut page = MetricsPage::default();
        page.family("skillbox_build_info", "gauge", "The version of this program.");
        page.sample("skillbox_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        let load = self.load(store).await;
        page.gauge(
            "skillbox_database_up",
            "Whether the database answers.",
            u8::from(load.is_some()),
        );
        if let Some(load) = load {
            database_metrics(&mut page, load);
        }
        connections(&mut page, store);
        let slots = runner.slots();
        page.gauge("skillbox_slots", "Executions that may run in this process at once.", slots.all);
        page.gauge("skillbox_slots_used", "Executions that run in this process.", slots.used);
        buffers(&mut page, memory);
        executions(&mut page, runner.meters());
        self.requests.show(&mut page);
        self.client_metrics(&mut page);
        page.into_text()
    }

    fn client_metrics(&self, page: &mut MetricsPage) {
        let meter = &self.connections;
        page.gauge(
            "skillbox_http_connections",
            "Open connections.",
            meter.open.load(Ordering::Relaxed),
        );
        let counters = [
            (
                "skillbox_http_connections_refused_total",
                "Connections over the share of their address, which were refused.",
                &meter.refused,
            ),
            (
                "skillbox_auth_failures_total", "Keys and tokens that were not valid.",
                &self.auth_failures,
            ),
            (
                "skillbox_ready_checks_total",
                "How often the parts of this process were checked.",
                &self.ready_checks,
            ),
        ];
        for (name, help, counter) in counters {
            page.counter(name, help, counter.load(Ordering::Relaxed));
        }
    }

    /// Queued and running executions of the whole installation; `None` when the database does not
    /// respond.
    async fn load(&self, store: &Store) -> Option<QueueLoad> {
        let mut known = self.load.lock().await;
        if let Some((at, load)) = *known
            && at.elapsed() < LOAD_CACHE_TTL
        {
            return load;
        }
        let load = match tokio::time::timeout(LOAD_TIMEOUT, store.queue_load()).await {
            Ok(Ok(load)) => Some(load),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the queue could not be counted");
                None
            }
            Err(_) => None,
        };
        *known = Some((Instant::now(), load));
        load
    }
}

/// Metrics of the shared database, which are the same in every process.
fn database_metrics(page: &mut MetricsPage, load: QueueLoad) {
    let queued = format!(
        "Executions that wait for a worker, in the whole installation; counted up to {}.",
        QueueLoad::MAX_COUNT
    );
    page.gauge("skillbox_queue_depth", &queued, load.queued);
    page.gauge(
        "skillbox_executions_running",
        "Executions that run, in the whole installation.",
        load.running,
    );
    page.gauge(
        "skillbox_webhooks_pending",
        "Webhooks that are owed, in the whole installation.",
        load.webhooks_pending,
    );
}

fn connections(page: &mut MetricsPage, store: &Store) {
    let connections = store.pool_stats();
    page.family(
        "skillbox_database_connections",
        "gauge",
        "Connections of this process to the database.",
    );
    let busy = (connections.open as usize).saturating_sub(connections.idle);
    page.sample("skillbox_database_connections", &[("state", "busy")], busy);
    page.sample("skillbox_database_connections", &[("state", "idle")], connections.idle);
    page.gauge(
        "skillbox_database_connections_max", "Connections this process may open.", connections.max,
    );
}

fn buffers(page: &mut MetricsPage, memory: &Budget) {
    page.gauge(
        "skillbox_buffer_bytes",
        "Memory that requests and runs have reserved in this process.",
        memory.used(),
    );
    page.gauge("skillbox_buffer_bytes_max", "Memory that they may reserve.", memory.capacity());
    page.counter(
        "skillbox_buffer_refusals_total",
        "Reservations of memory that were refused.",
        memory.refused(),
    );
}

fn executions(page: &mut MetricsPage, meters: &Meters) {
    const ENDED: &str = "skillbox_executions_ended_total";
    page.family(ENDED, "counter", "Executions that this process recorded, by how they ended.");
    for (status, outcome, count) in meters.ended() {
        page.sample(ENDED, &[("status", status.as_str()), ("outcome", outcome.as_str())], count);
    }
    page.histogram(
        "skillbox_execution_duration_seconds",
        "Executions that this process recorded, from acceptance or claim to the record.",
        &meters.duration.counted(),
    );
    page.histogram(
        "skillbox_sandbox_launch_seconds",
        "Sandboxes that were started.",
        &meters.launch.counted(),
    );
    let counters = [
        (
            "skillbox_sandbox_launch_failures_total", "Sandboxes that could not be started.",
            &meters.launches_failed,
        ),
        (
            "skillbox_leases_lost_total",
            "Runs whose lease ended before their result was recorded.",
            &meters.leases_lost,
        ),
        (
            "skillbox_executions_requeued_total",
            "Executions of dead workers that were queued again.",
            &meters.requeued,
        ),
        (
            "skillbox_executions_given_up_total",
            "Executions of dead workers that were ended.",
            &meters.given_up,
        ),
    ];
    for (name, help, counter) in counters {
        page.counter(name, help, counter.get());
    }
}
