//! A watch: one change per line, starting at a revision.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::pods::{ListQuery, object};
use super::{ApiState, is_set};
use crate::selector::PodSelector;
use crate::status_error::StatusError;
use crate::store::{ChangeKind, PodChange};

/// The interval of bookmark events; in a real API server it is a minute.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(2);

/// The duration of a watch without a timeout; a real API server chooses 30 to 60 minutes.
const DEFAULT_WATCH_SECONDS: u64 = 1800;

struct WatchStream {
    api: Arc<ApiState>,
    namespace: Option<String>,
    selector: PodSelector,
    revision: u64,
    lines: mpsc::Sender<Bytes>,
}

pub(super) fn watch(
    api: Arc<ApiState>,
    namespace: Option<String>,
    selector: PodSelector,
    query: &ListQuery,
) -> Result<Response, StatusError> {
    if is_set(&query.send_initial_events) {
        // The real error where the feature gate is off; clients then fall back to a list.
        return Err(StatusError::invalid(
            "",
            "sendInitialEvents",
            "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        ));
    }
    // Without a revision, or with zero, the watch starts with all existing pods.
    let from_now = matches!(query.resource_version.as_str(), "" | "0");
    let revision = match query.resource_version.as_str() {
        "" | "0" => 0,
        text => text.parse().map_err(|_| {
            StatusError::bad_request(format!("Invalid value: {text:?}: resourceVersion"))
        })?,
    };
    let until = Instant::now()
        + Duration::from_secs(query.timeout_seconds.unwrap_or(DEFAULT_WATCH_SECONDS));
    let bookmarks = is_set(&query.allow_watch_bookmarks);
    let (lines, mut sent) = mpsc::channel(64);
    let watch = WatchStream { api, namespace, selector, revision, lines };
    tokio::spawn(watch.run(from_now, until, bookmarks));
    let body = futures_util::stream::poll_fn(move |context| {
        sent.poll_recv(context).map(|line| line.map(Ok::<_, Infallible>))
    });
    Ok(([(CONTENT_TYPE, "application/json")], Body::from_stream(body)).into_response())
}

impl WatchStream {
    /// Ends when its client disconnects, its timeout is over, or a test drops all watches.
    async fn run(mut self, from_now: bool, until: Instant, bookmarks: bool) {
        let mut dropped = self.api.watches.subscribe();
        dropped.mark_unchanged();
        let mut revisions = self.api.store.revisions();
        if from_now {
            let (revision, pods) = self.api.store.list(self.namespace.as_deref());
            self.revision = revision;
            for pod in pods.iter().filter(|pod| self.selector.matches(pod)) {
                self.send("ADDED", object(pod)).await;
            }
        }
        let mut ticks =
            tokio::time::interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
        loop {
            if !self.catch_up().await {
                return;
            }
            tokio::select! {
                _ = revisions.changed() => {}
                _ = dropped.changed() => return,
                () = tokio::time::sleep_until(until) => return,
                _ = ticks.tick(), if bookmarks => {
                    let metadata = json!({"resourceVersion": self.revision.to_string(), "creationTimestamp": null});
                    let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata,
                        "spec": {"containers": null}, "status": {}});
                    self.send("BOOKMARK", object).await;
                }
                () = self.lines.closed() => return,
            }
        }
    }

    /// Sends the changes since the last call; false when they are no longer stored.
    async fn catch_up(&mut self) -> bool {
        match self.api.store.changes_after(self.revision) {
            Ok((revision, changes)) => {
                for change in &changes {
                    if let Some((kind, pod)) = self.seen(change) {
                        self.send(kind, object(pod)).await;
                    }
                }
                self.revision = revision;
                true
            }
            Err(status_error) => {
                self.send("ERROR", status_error.json()).await;
                false
            }
        }
    }

    /// The event of a change for this watch. A pod that starts to match the selector is added, one
    /// that stops to match is deleted.
    fn seen<'a>(&self, change: &'a PodChange) -> Option<(&'static str, &'a Pod)> {
        let here = |pod: &Pod| self.namespace.is_none() || pod.metadata.namespace == self.namespace;
        let fits = |pod: &Pod| here(pod) && self.selector.matches(pod);
        let before = change.before.as_ref().is_some_and(fits);
        let after = change.kind != ChangeKind::DeleteQuery && fits(&change.now);
        match (before, after) {
            (false, true) => Some(("ADDED", &change.now)),
            (true, true) => Some(("MODIFIED", &change.now)),
            (true, false) => Some(("DELETED", &change.now)),
            (false, false) => None,
        }
    }

    async fn send(&self, kind: &str, object: Value) {
        let mut line = json!({"type": kind, "object": object}).to_string();
        line.push('\n');
        // A disconnected client is detected by the next wait.
        let _ = self.lines.send(line.into()).await;
    }
}
