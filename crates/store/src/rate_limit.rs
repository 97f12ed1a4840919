//! The rate limit of a tenant's executions: a token bucket in the tenant's row, so that all servers
//! share it. The row is locked only for tenants that have such a limit.

use std::time::Duration;

use crate::sql::sql;
use crate::{Micros, Store, StoreError, TenantId};

/// One token in integer units: a bucket refills by `rate` units per microsecond, so the arithmetic
/// is exact at every rate.
const UNITS_PER_TOKEN: i64 = 60_000_000;

/// A token bucket with a rate in tokens per minute. Its capacity is one minute's worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TokenBucket {
    rate: i64,
    level: i64,
    at: Micros,
}

impl TokenBucket {
    /// The bucket refilled to `now`. A clock that was set back, or that of another server that is
    /// behind, refills nothing.
    fn refilled(self, now: Micros) -> TokenBucket {
        // A minute fills the bucket in any case. The bound also prevents overflow of the product.
        let elapsed = now.saturating_sub(self.at).clamp(0, UNITS_PER_TOKEN);
        let level = (self.level + elapsed * self.rate).min(self.rate * UNITS_PER_TOKEN);
        TokenBucket { level, at: self.at.max(now), ..self }
    }

    /// The bucket with one token less, or the time until a token is available.
    fn take(self) -> Result<TokenBucket, Duration> {
        match self.level - UNITS_PER_TOKEN {
            level @ 0.. => Ok(TokenBucket { level, ..self }),
            // At a rate of zero there is never a token; a minute is an arbitrary retry delay.
            _ if self.rate == 0 => Err(Duration::from_secs(60)),
            missing => Err(Duration::from_micros(
                missing.unsigned_abs().div_ceil(self.rate.unsigned_abs()),
            )),
        }
    }
}

impl Store {
    /// Takes one token if the tenant's policy has a `rate_per_minute`; without one there is always
    /// a token. The inner error is the time until a token is available.
    pub async fn take_rate_limit_token(
        &self,
        tenant: &TenantId,
        now: Micros,
    ) -> Result<Result<(), Duration>, StoreError> {
        let mut tx = self.db.begin().await?;
        let select = sql("SELECT rate_per_minute, tokens, tokens_at FROM tenants WHERE id = $1")
            .bind(tenant);
        let Some(row) = tx.query_one(select.push(self.db.for_update())).await? else {
            return Err(StoreError::NotFound);
        };
        let Some(rate) = row.get("rate_per_minute")? else { return Ok(Ok(())) };
        let bucket = TokenBucket { rate, level: row.get("tokens")?, at: row.get("tokens_at")? };
        match bucket.refilled(now).take() {
            Err(wait) => Ok(Err(wait)),
            Ok(TokenBucket { level, at, .. }) => {
                let update = sql("UPDATE tenants SET tokens = $2, tokens_at = $3 WHERE id = $1");
                tx.write(update.bind(tenant).bind(level).bind(at)).await?;
                tx.commit().await?;
                Ok(Ok(()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = 1_800_000_000_000_000;

    #[test]
    fn a_new_bucket_is_full_and_can_be_emptied() {
        let mut bucket = TokenBucket { rate: 3, level: 0, at: 0 }.refilled(NOW);
        for _ in 0..3 {
            bucket = bucket.take().expect("a token");
        }
        assert_eq!(bucket.take(), Err(Duration::from_secs(20)));
        let later = bucket.refilled(NOW + 19_999_999);
        assert_eq!(later.take(), Err(Duration::from_micros(1)));
        assert!(later.refilled(NOW + 20_000_000).take().is_ok());
    }

    #[test]
    fn neither_idle_time_nor_a_wrong_clock_exceeds_the_capacity() {
        let empty = TokenBucket { rate: 1_000_000, level: 0, at: NOW };
        assert_eq!(empty.refilled(NOW - 1_000_000), empty, "an older clock changes nothing");
        assert_eq!(empty.refilled(i64::MAX).level, 1_000_000 * UNITS_PER_TOKEN);
        let none = TokenBucket { rate: 0, level: 0, at: 0 };
        assert_eq!(none.refilled(NOW).take(), Err(Duration::from_secs(60)));
    }
}
