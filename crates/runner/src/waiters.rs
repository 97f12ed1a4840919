//! Those who wait for something to happen to an execution that they do not carry: woken to look
//! again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use uuid::Uuid;

/// Who waits for what. An entry lives as long as somebody waits for it.
#[derive(Clone, Default)]
pub struct Waiters {
    bells: Arc<Mutex<HashMap<Uuid, Bell>>>,
}

#[derive(Default)]
struct Bell {
    rung: watch::Sender<()>,
    waiting: usize,
}

/// One wait. It must begin before its owner looks how things stand: what happens after that look
/// rings.
pub struct Waiting {
    waiters: Waiters,
    id: Uuid,
    rung: watch::Receiver<()>,
}

impl Waiters {
    pub fn wait_for(&self, id: Uuid) -> Waiting {
        let mut bells = self.lock();
        let bell = bells.entry(id).or_default();
        bell.waiting += 1;
        Waiting { waiters: self.clone(), id, rung: bell.rung.subscribe() }
    }

    /// Wakes everybody who waits for this execution.
    pub fn ring(&self, id: Uuid) {
        if let Some(bell) = self.lock().get(&id) {
            bell.rung.send_replace(());
        }
    }

    pub fn ring_all(&self) {
        self.lock().values().for_each(|bell| bell.rung.send_replace(()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Bell>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Returns when it was rung since the wait began, or since the last return.
    pub async fn rung(&mut self) {
        if self.rung.changed().await.is_err() {
            // The bell lives as long as this wait; it cannot have gone.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut bells = self.waiters.lock();
        if let Some(bell) = bells.get_mut(&self.id) {
            bell.waiting -= 1;
            if bell.waiting == 0 {
                bells.remove(&self.id);
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
        let (mut a, mut b, mut c) =
            (waiters.wait_for(first), waiters.wait_for(first), waiters.wait_for(other));
        assert_eq!(waiters.lock().len(), 2);
        waiters.ring(first);
        a.rung().await;
        b.rung().await;
        assert!(!c.rung.has_changed().expect("the bell is there"));
        waiters.ring_all();
        c.rung().await;
        drop((a, b, c));
        assert!(waiters.lock().is_empty());
    }
}
