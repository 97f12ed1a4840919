//! Callers who wait for an execution that somebody else carries: woken when it ends in this process.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Who waits for what. An entry lives as long as somebody waits for it.
#[derive(Default)]
pub struct Waiters {
    events: Mutex<HashMap<Uuid, Event>>,
}

#[derive(Default)]
struct Event {
    ended: CancellationToken,
    waiting: usize,
}

/// One caller's wait. It must begin before the caller looks whether the execution has already ended.
pub struct Waiting<'a> {
    waiters: &'a Waiters,
    id: Uuid,
    ended: CancellationToken,
}

impl Waiters {
    pub fn wait_for(&self, id: Uuid) -> Waiting<'_> {
        let mut events = self.lock();
        let event = events.entry(id).or_default();
        event.waiting += 1;
        Waiting { waiters: self, id, ended: event.ended.clone() }
    }

    /// Wakes everybody who waits for this execution; later callers find it ended in the store.
    pub fn wake(&self, id: Uuid) {
        if let Some(event) = self.lock().get(&id) {
            event.ended.cancel();
        }
    }

    /// How many callers wait at this moment.
    pub fn count(&self) -> usize {
        self.lock().values().map(|event| event.waiting).sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Event>> {
        self.events.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Waiting<'_> {
    pub fn id(&self) -> Uuid {
        self.id
    }

    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut events = self.waiters.lock();
        if let Some(event) = events.get_mut(&self.id) {
            event.waiting -= 1;
            if event.waiting == 0 {
                events.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_waiters_wake_and_none_is_remembered() {
        let waiters = Waiters::default();
        let (first, other) = (Uuid::now_v7(), Uuid::now_v7());
        let (a, b, c) = (waiters.wait_for(first), waiters.wait_for(first), waiters.wait_for(other));
        assert_eq!(waiters.count(), 3);
        waiters.wake(first);
        a.ended().await;
        b.ended().await;
        assert!(!c.ended.is_cancelled());
        drop((a, b, c));
        assert_eq!(waiters.count(), 0);
        assert!(waiters.lock().is_empty());
    }
}
