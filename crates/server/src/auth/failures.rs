//! Failed authentications by client address.
//!
//! A client with too many failures is refused before its key is looked up, so that it can neither
//! continue to guess nor load the database. Keys in use are not locked out with it: a key that this
//! process has authenticated before is always looked up, whatever its address.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::token_bucket::{Rate, TokenBucket};
use crate::error::{ApiError, Slug};
use crate::http::peer::Peer;

/// Addresses with a bucket of their own. All overflow share one bucket, so that many addresses give an
/// attacker no more attempts.
const MAX_CLIENTS: usize = 4096;
/// How often full buckets are removed from a full table.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct AuthFailures {
    rate: Rate,
    clients: Mutex<ClientBuckets>,
}

struct ClientBuckets {
    buckets: HashMap<Peer, TokenBucket>,
    /// For all addresses that do not fit.
    overflow: TokenBucket,
    swept_at: Instant,
}

impl AuthFailures {
    pub(crate) fn new(rate: Rate) -> AuthFailures {
        let now = Instant::now();
        let overflow = TokenBucket::full(rate, now);
        AuthFailures {
            rate,
            clients: Mutex::new(ClientBuckets { buckets: HashMap::new(), overflow, swept_at: now }),
        }
    }

    /// Refuses a client with too many failures.
    pub(crate) fn check(&self, client: Peer) -> Result<(), ApiError> {
        self.check_at(client, Instant::now()).map_err(too_many)
    }

    /// Counts a failure and returns the error to respond with.
    pub(crate) fn count(&self, client: Peer, failed: ApiError) -> ApiError {
        let now = Instant::now();
        let checked = self.check_at(client, now);
        self.count_at(client, now);
        checked.map_or_else(too_many, |()| failed)
    }

    fn check_at(&self, client: Peer, now: Instant) -> Result<(), Duration> {
        let mut clients = self.clients();
        let ClientBuckets { buckets, overflow, .. } = &mut *clients;
        let full = buckets.len() >= MAX_CLIENTS;
        let bucket = match buckets.get_mut(&client.network()) {
            Some(bucket) => bucket,
            None if full => overflow,
            None => return Ok(()),
        };
        bucket.time_to_token(self.rate, now).map_or(Ok(()), Err)
    }

    fn count_at(&self, client: Peer, now: Instant) {
        let (rate, client) = (self.rate, client.network());
        let mut clients = self.clients();
        let known = clients.buckets.contains_key(&client);
        if !known && clients.buckets.len() >= MAX_CLIENTS {
            clients.sweep(rate, now);
        }
        if known || clients.buckets.len() < MAX_CLIENTS {
            clients
                .buckets
                .entry(client)
                .or_insert_with(|| TokenBucket::full(rate, now))
                .take(rate, now);
        } else {
            clients.overflow.take(rate, now);
        }
    }

    fn clients(&self) -> MutexGuard<'_, ClientBuckets> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientBuckets {
    /// Removes clients whose buckets are full again: an empty entry has the same meaning.
    fn sweep(&mut self, rate: Rate, now: Instant) {
        if now.saturating_duration_since(self.swept_at) >= SWEEP_INTERVAL {
            self.buckets.retain(|_, bucket| !bucket.is_full(rate, now));
            self.swept_at = now;
        }
    }
}

fn too_many(wait: Duration) -> ApiError {
    let message = "Too many authentications from this address have failed. Check the key, and try again later.";
    ApiError::new(Slug::RateLimited, message).with_retry_after(wait.as_secs_f64().ceil() as u64)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const RATE: Rate = Rate { burst: 2, per_second: 1.0 };

    fn client(number: u32) -> Peer {
        Peer::new(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn failures_count_by_address_and_expire() {
        let (failures, now) = (AuthFailures::new(RATE), Instant::now());
        for _ in 0..2 {
            assert!(failures.check_at(client(1), now).is_ok());
            failures.count_at(client(1), now);
        }
        assert_eq!(failures.check_at(client(1), now), Err(Duration::from_secs(1)));
        assert!(failures.check_at(client(2), now).is_ok());
        assert!(failures.check_at(client(1), now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn the_table_is_bounded_and_further_addresses_share_a_bucket() {
        let (failures, now) = (AuthFailures::new(RATE), Instant::now());
        for number in 0..MAX_CLIENTS as u32 + 2 {
            assert!(failures.check_at(client(number), now).is_ok(), "{number}");
            failures.count_at(client(number), now);
        }
        assert_eq!(failures.clients().buckets.len(), MAX_CLIENTS);
        assert!(
            failures.check_at(client(u32::MAX), now).is_err(),
            "another address gets no further attempts"
        );
        let later = now + Duration::from_secs(60);
        failures.count_at(client(u32::MAX), later);
        assert_eq!(failures.clients().buckets.len(), 1, "full buckets are removed");
    }
}
