//! Failed authentications by client address.
//!
//! A client that has used up its failures is refused before its key is looked up, so that it can
//! neither guess on nor keep the database busy. Keys in use are not locked out with it: a key that
//! this process has seen to be valid is always looked up, whoever shares its address.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::token_bucket::{Rate, TokenBucket};
use crate::error::{ApiError, Slug};
use crate::http::peer::Peer;

/// Addresses that are told apart. Those beyond share one bucket: to have many addresses buys no
/// more attempts.
const MAX_CLIENTS: usize = 4096;
/// How often room is made in a full table.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

pub struct AuthFailures {
    rate: Rate,
    clients: Mutex<ClientBuckets>,
}

struct ClientBuckets {
    buckets: HashMap<Peer, TokenBucket>,
    /// Of all for whom there was no room.
    others: TokenBucket,
    swept_at: Instant,
}

impl AuthFailures {
    pub fn new(rate: Rate) -> AuthFailures {
        let now = Instant::now();
        let others = TokenBucket::full(rate, now);
        AuthFailures {
            rate,
            clients: Mutex::new(ClientBuckets { buckets: HashMap::new(), others, swept_at: now }),
        }
    }

    /// Refuses a client that has failed too often.
    pub fn check(&self, client: Peer) -> Result<(), ApiError> {
        self.check_at(client, Instant::now()).map_err(too_many)
    }

    /// Counts a failure, and says how it is to be answered.
    pub fn count(&self, client: Peer, failed: ApiError) -> ApiError {
        let now = Instant::now();
        let checked = self.check_at(client, now);
        self.count_at(client, now);
        checked.map_or_else(too_many, |()| failed)
    }

    fn check_at(&self, client: Peer, now: Instant) -> Result<(), Duration> {
        let mut clients = self.clients();
        let ClientBuckets { buckets, others, .. } = &mut *clients;
        let full = buckets.len() >= MAX_CLIENTS;
        let bucket = match buckets.get_mut(&client.network()) {
            Some(bucket) => bucket,
            None if full => others,
            None => return Ok(()),
        };
        bucket.wait(self.rate, now).map_or(Ok(()), Err)
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
            clients.others.take(rate, now);
        }
    }

    fn clients(&self) -> MutexGuard<'_, ClientBuckets> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientBuckets {
    /// Forgets clients that have not failed for so long that nothing is held against them.
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
    fn each_address_has_failures_of_its_own_and_they_are_forgiven() {
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
    fn the_table_is_bounded_and_those_beyond_it_share_a_bucket() {
        let (failures, now) = (AuthFailures::new(RATE), Instant::now());
        for number in 0..MAX_CLIENTS as u32 + 2 {
            assert!(failures.check_at(client(number), now).is_ok(), "{number}");
            failures.count_at(client(number), now);
        }
        assert_eq!(failures.clients().buckets.len(), MAX_CLIENTS);
        assert!(
            failures.check_at(client(u32::MAX), now).is_err(),
            "another address is no new chance"
        );
        let later = now + Duration::from_secs(60);
        failures.count_at(client(u32::MAX), later);
        assert_eq!(failures.clients().buckets.len(), 1, "the forgiven are forgotten");
    }
}
