//! A token bucket: a burst, then a rate per second. The caller passes the time, so that tests need no
//! clock.

use std::time::{Duration, Instant};

/// The capacity of a bucket and its refill rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    pub burst: u32,
    pub per_second: f64,
}

/// The tokens that are left. The number may be negative down to one burst: what was already in
/// progress when the last token was taken is counted too.
pub(crate) struct TokenBucket {
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    pub(crate) fn full(rate: Rate, now: Instant) -> TokenBucket {
        TokenBucket { tokens: f64::from(rate.burst), filled_at: now }
    }

    /// Takes a token, even when there is none.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) {
        self.refill(rate, now);
        self.tokens = (self.tokens - 1.0).max(-f64::from(rate.burst));
    }

    /// The time until there is a token; `None` when there is one.
    pub(crate) fn time_to_token(&mut self, rate: Rate, now: Instant) -> Option<Duration> {
        self.refill(rate, now);
        let missing = 1.0 - self.tokens;
        (missing > 0.0).then(|| {
            Duration::try_from_secs_f64(missing / rate.per_second).unwrap_or(Duration::MAX)
        })
    }

    pub(crate) fn is_full(&mut self, rate: Rate, now: Instant) -> bool {
        self.refill(rate, now);
        self.tokens >= f64::from(rate.burst)
    }

    fn refill(&mut self, rate: Rate, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + elapsed * rate.per_second).min(f64::from(rate.burst));
        self.filled_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_a_burst_and_then_a_rate() {
        let rate = Rate { burst: 3, per_second: 2.0 };
        let start = Instant::now();
        let mut bucket = TokenBucket::full(rate, start);
        for _ in 0..3 {
            assert_eq!(bucket.time_to_token(rate, start), None);
            bucket.take(rate, start);
        }
        assert_eq!(bucket.time_to_token(rate, start), Some(Duration::from_millis(500)));
        assert_eq!(bucket.time_to_token(rate, start + Duration::from_millis(500)), None);
        assert!(bucket.is_full(rate, start + Duration::from_secs(3600)));
    }

    #[test]
    fn its_debt_has_a_limit() {
        let rate = Rate { burst: 2, per_second: 1.0 };
        let start = Instant::now();
        let mut bucket = TokenBucket::full(rate, start);
        for _ in 0..1000 {
            bucket.take(rate, start);
        }
        assert_eq!(bucket.time_to_token(rate, start), Some(Duration::from_secs(3)));
    }
}
