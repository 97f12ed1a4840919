//! How many executions a tenant may ask for in a minute: a bucket of tokens in the tenant's row, so
//! that all servers share it. Only tenants with such a limit have their row touched.

use std::time::Duration;

use crate::sql::sql;
use crate::{Micros, Store, StoreError, TenantId};

/// One token, in units of which `rate` flow in each microsecond.
const TOKEN: i64 = 60_000_000;

/// What a rate of so many tokens a minute has left. It holds one minute's worth at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    rate: i64,
    level: i64,
    at: Micros,
}

impl Bucket {
    /// The bucket as it is now. A clock that went back, or another server's that is behind, fills
    /// nothing.
    fn filled(self, now: Micros) -> Bucket {
        // A minute fills it whatever it held, and bounding it here keeps the product small.
        let passed = now.saturating_sub(self.at).clamp(0, TOKEN);
        let level = (self.level + passed * self.rate).min(self.rate * TOKEN);
        Bucket { level, at: self.at.max(now), ..self }
    }

    /// The bucket with one token less, or how long until there is one.
    fn take(self) -> Result<Bucket, Duration> {
        match self.level - TOKEN {
            level @ 0.. => Ok(Bucket { level, ..self }),
            // At a rate of none there never is; a minute is as good an answer as any.
            _ if self.rate == 0 => Err(Duration::from_secs(60)),
            missing => Err(Duration::from_micros(
                missing.unsigned_abs().div_ceil(self.rate.unsigned_abs()),
            )),
        }
    }
}

impl Store {
    /// Takes one token of a tenant whose policy has a `rate_per_minute`; without one there is
    /// always a token. When none is left, says how long until there is.
    pub async fn take_rate_limit_token(
        &self,
        tenant: &TenantId,
        now: Micros,
    ) -> Result<Result<(), Duration>, StoreError> {
        let mut tx = self.db.begin().await?;
        let select = sql("SELECT rate_per_minute, tokens, tokens_at FROM tenants WHERE id = $1")
            .bind(tenant);
        let Some(row) = tx.one(select.push(self.db.for_update())).await? else {
            return Err(StoreError::NotFound);
        };
        let Some(rate) = row.get("rate_per_minute")? else { return Ok(Ok(())) };
        let bucket = Bucket { rate, level: row.get("tokens")?, at: row.get("tokens_at")? };
        match bucket.filled(now).take() {
            Err(wait) => Ok(Err(wait)),
            Ok(Bucket { level, at, .. }) => {
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
    fn a_new_bucket_is_full_and_runs_empty() {
        let mut bucket = Bucket { rate: 3, level: 0, at: 0 }.filled(NOW);
        for _ in 0..3 {
            bucket = bucket.take().expect("a token");
        }
        assert_eq!(bucket.take(), Err(Duration::from_secs(20)));
        let later = bucket.filled(NOW + 19_999_999);
        assert_eq!(later.take(), Err(Duration::from_micros(1)));
        assert!(later.filled(NOW + 20_000_000).take().is_ok());
    }

    #[test]
    fn neither_a_long_pause_nor_a_wrong_clock_overfills_it() {
        let empty = Bucket { rate: 1_000_000, level: 0, at: NOW };
        assert_eq!(empty.filled(NOW - 1_000_000), empty, "an older clock changes nothing");
        assert_eq!(empty.filled(i64::MAX).level, 1_000_000 * TOKEN);
        let none = Bucket { rate: 0, level: 0, at: 0 };
        assert_eq!(none.filled(NOW).take(), Err(Duration::from_secs(60)));
    }
}
