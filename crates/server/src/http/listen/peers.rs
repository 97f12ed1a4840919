//! Open connections by address. Trusted proxies are not counted, because they forward the
//! connections of many clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::peer::{Peer, TrustedProxies};

/// The number of connections by address. Its size is bounded by the total limit of connections.
pub(super) struct PeerSlots {
    open: Mutex<HashMap<Peer, usize>>,
    limit: usize,
    proxies: TrustedProxies,
}

/// The slot of one connection; dropped with the connection.
pub(super) struct PeerSlot {
    /// None for a proxy.
    counted: Option<(Arc<PeerSlots>, Peer)>,
}

impl PeerSlots {
    pub(super) fn new(limit: usize, proxies: TrustedProxies) -> Arc<PeerSlots> {
        Arc::new(PeerSlots { open: Mutex::default(), limit, proxies })
    }

    /// A slot, unless this address is at its limit.
    pub(super) fn acquire(self: &Arc<Self>, peer: Peer) -> Option<PeerSlot> {
        if self.proxies.contains(peer) {
            return Some(PeerSlot { counted: None });
        }
        let network = peer.network();
        let mut open = self.open();
        let count = open.entry(network).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(PeerSlot { counted: Some((Arc::clone(self), network)) })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Peer, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        let Some((slots, network)) = self.counted.take() else { return };
        let mut open = slots.open();
        if let Some(count) = open.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                open.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::peer::IpNetwork;

    #[test]
    fn a_dropped_slot_is_free_again_and_leaves_no_entry() {
        let slots = PeerSlots::new(
            2,
            TrustedProxies(vec![IpNetwork::parse("10.0.0.1").expect("an address")]),
        );
        let peer = |text: &str| Peer::new(text.parse().expect("an address"));
        let held = [slots.acquire(peer("192.0.2.1")), slots.acquire(peer("192.0.2.1"))];
        assert!(held.iter().all(Option::is_some));
        assert!(slots.acquire(peer("192.0.2.1")).is_none());
        assert!(
            slots.acquire(peer("192.0.2.2")).is_some(),
            "another address has a limit of its own"
        );
        let proxied: Vec<_> = (0..10).map(|_| slots.acquire(peer("10.0.0.1"))).collect();
        assert!(proxied.iter().all(Option::is_some), "a proxy forwards many clients");
        drop(held);
        assert!(slots.acquire(peer("192.0.2.1")).is_some());
        assert!(slots.open().is_empty());
    }
}
