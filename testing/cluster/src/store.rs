//! All pods, with a revision per change and the history of changes, from which watches resume.
//!
//! It replaces etcd and the watch cache. It does not interpret pods.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use crate::status_error::StatusError;

/// In a used cluster revisions do not start at one.
const FIRST_REVISION: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    DeleteQuery,
}

/// One change of one pod.
#[derive(Debug, Clone)]
pub(crate) struct PodChange {
    pub revision: u64,
    pub kind: ChangeKind,
    /// The pod before the change, for watches whose selector depends on a changed field.
    pub before: Option<Pod>,
    pub now: Pod,
}

pub(crate) struct PodStore {
    inner: Mutex<StoreState>,
    revision: watch::Sender<u64>,
}

struct StoreState {
    revision: u64,
    pods: BTreeMap<(String, String), Pod>,
    changes: VecDeque<PodChange>,
    /// The last revision whose change was removed.
    compacted: u64,
}

impl PodStore {
    pub(crate) fn new() -> PodStore {
        let inner = StoreState {
            revision: FIRST_REVISION,
            pods: BTreeMap::new(),
            changes: VecDeque::new(),
            compacted: FIRST_REVISION - 1,
        };
        PodStore { inner: Mutex::new(inner), revision: watch::Sender::new(FIRST_REVISION) }
    }

    /// Notifies about every new revision.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The pods of one or all namespaces, and the current revision.
    pub(crate) fn list(&self, namespace: Option<&str>) -> (u64, Vec<Pod>) {
        let inner = self.lock();
        let pods = inner
            .pods
            .iter()
            .filter(|((place, _), _)| namespace.is_none_or(|namespace| namespace == place));
        (inner.revision, pods.map(|(_, pod)| pod.clone()).collect())
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Pod> {
        self.lock().pods.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The pod with this name and UID, and not a later pod of the same name.
    pub(crate) fn get_uid(&self, namespace: &str, name: &str, uid: &str) -> Option<Pod> {
        self.get(namespace, name).filter(|pod| pod.metadata.uid.as_deref() == Some(uid))
    }

    pub(crate) fn create(&self, pod: Pod) -> Result<Pod, StatusError> {
        let mut inner = self.lock();
        let key = key(&pod);
        if inner.pods.contains_key(&key) {
            return Err(StatusError::already_exists(&key.1));
        }
        let pod = inner.record(ChangeKind::Added, None, pod);
        inner.pods.insert(key, pod.clone());
        self.notify_watches(&inner);
        Ok(pod)
    }

    /// Changes a pod if it still exists.
    pub(crate) fn update(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        change: impl FnOnce(&mut Pod),
    ) -> Option<Pod> {
        let mut inner = self.lock();
        let key = (namespace.to_owned(), name.to_owned());
        let before =
            inner.pods.get(&key).filter(|pod| pod.metadata.uid.as_deref() == Some(uid))?.clone();
        let mut pod = before.clone();
        change(&mut pod);
        if pod == before {
            return Some(pod);
        }
        let pod = inner.record(ChangeKind::Modified, Some(before), pod);
        inner.pods.insert(key, pod.clone());
        self.notify_watches(&inner);
        Some(pod)
    }

    pub(crate) fn remove(&self, namespace: &str, name: &str, uid: &str) -> Option<Pod> {
        let mut inner = self.lock();
        let key = (namespace.to_owned(), name.to_owned());
        let before =
            inner.pods.get(&key).filter(|pod| pod.metadata.uid.as_deref() == Some(uid))?.clone();
        inner.pods.remove(&key);
        let pod = inner.record(ChangeKind::DeleteQuery, Some(before.clone()), before);
        self.notify_watches(&inner);
        Some(pod)
    }

    /// The changes after a revision, and the newest revision there is.
    pub(crate) fn changes_after(
        &self,
        revision: u64,
    ) -> Result<(u64, Vec<PodChange>), StatusError> {
        let inner = self.lock();
        if revision < inner.compacted {
            return Err(StatusError::expired(revision, inner.compacted));
        }
        let later = inner.changes.iter().filter(|change| change.revision > revision);
        Ok((inner.revision, later.cloned().collect()))
    }

    /// Removes the history of changes. The revision increases, as it would by a write to any other
    /// object.
    pub(crate) fn compact(&self) {
        let mut inner = self.lock();
        inner.revision += 1;
        inner.compacted = inner.revision;
        inner.changes.clear();
        self.notify_watches(&inner);
    }

    fn notify_watches(&self, inner: &StoreState) {
        self.revision.send_replace(inner.revision);
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreState {
    fn record(&mut self, kind: ChangeKind, before: Option<Pod>, mut pod: Pod) -> Pod {
        self.revision += 1;
        pod.metadata.resource_version = Some(self.revision.to_string());
        self.changes.push_back(PodChange {
            revision: self.revision,
            kind,
            before,
            now: pod.clone(),
        });
        pod
    }
}

fn key(pod: &Pod) -> (String, String) {
    (
        pod.metadata.namespace.clone().unwrap_or_default(),
        pod.metadata.name.clone().unwrap_or_default(),
    )
}
