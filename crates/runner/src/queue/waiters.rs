//! Tasks that wait for a change of an execution that runs in another task or process. They are
//! woken to read its row again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use uuid::Uuid;

/// The waiters by execution. An entry lives as long as it has a waiter.
#[derive(Clone, Default)]
pub(crate) struct Waiters {
    entries: Arc<Mutex<HashMap<Uuid, WaiterEntry>>>,
}

#[derive(Default)]
struct WaiterEntry {
    changed: watch::Sender<()>,
    waiters: usize,
}

/// One wait. Create it before reading the row: a change after the read then wakes it.
pub(crate) struct Waiter {
    waiters: Waiters,
    id: Uuid,
    changed: watch::Receiver<()>,
}

impl Waiters {
    pub(crate) fn subscribe(&self, id: Uuid) -> Waiter {
        let mut entries = self.lock();
        let entry = entries.entry(id).or_default();
        entry.waiters += 1;
        Waiter { waiters: self.clone(), id, changed: entry.changed.subscribe() }
    }

    /// Wakes all waiters of this execution.
    pub(crate) fn notify(&self, id: Uuid) {
        if let Some(entry) = self.lock().get(&id) {
            entry.changed.send_replace(());
        }
    }

    pub(crate) fn notify_all(&self) {
        self.lock().values().for_each(|entry| entry.changed.send_replace(()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, WaiterEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Returns when there was a notification since the wait began, or since the last return.
    pub(crate) async fn notified(&mut self) {
        if self.changed.changed().await.is_err() {
            // The sender lives in the entry, which lives as long as this waiter.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut entries = self.waiters.lock();
        if let Some(entry) = entries.get_mut(&self.id) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                entries.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_waiters_wake_and_no_entry_is_left() {
        let waiters = Waiters::default();
        let (first, other) = (Uuid::now_v7(), Uuid::now_v7());
        let (mut a, mut b, mut c) =
            (waiters.subscribe(first), waiters.subscribe(first), waiters.subscribe(other));
        assert_eq!(waiters.lock().len(), 2);
        waiters.notify(first);
        a.notified().await;
        b.notified().await;
        assert!(!c.changed.has_changed().expect("the sender lives"));
        waiters.notify_all();
        c.notified().await;
        drop((a, b, c));
        assert!(waiters.lock().is_empty());
    }
}
