//! What all servers on one database share: the fingerprint of their secret, marks of how far a
//! chore has come, and duties that only one of them has at a time.

use crate::sql::sql;
use crate::{Store, StoreError, now};

const SECRET: &str = "secret fingerprint";

impl Store {
    /// Whether this server's secret is the one the database knows; the first to ask decides. With
    /// another secret no stored key would open anything and no link would be valid.
    pub async fn check_secret(&self, fingerprint: &str) -> Result<bool, StoreError> {
        let insert = sql(
            "INSERT INTO settings (name, value, held_until) VALUES ($1, $2, 0) ON CONFLICT (name) DO NOTHING",
        );
        self.db.write(insert.bind(SECRET).bind(fingerprint)).await?;
        Ok(self.setting(SECRET).await?.as_deref() == Some(fingerprint))
    }

    /// Takes up, or goes on with, a duty that nobody else holds at this moment.
    pub async fn acquire_or_renew_duty(
        &self,
        duty: &'static str,
        owner: &str,
        lease_ms: i64,
    ) -> Result<bool, StoreError> {
        let now = now();
        let take = sql("INSERT INTO settings (name, value, held_until) VALUES ($1, $2, $3) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value, held_until = excluded.held_until \
             WHERE settings.value = excluded.value OR settings.held_until < $4")
        .bind(duty)
        .bind(owner)
        .bind(now + lease_ms * 1000)
        .bind(now);
        Ok(self.db.write(take).await? > 0)
    }

    /// How far a chore has come; `None` when it never began.
    pub async fn get_progress(&self, chore: &'static str) -> Result<Option<String>, StoreError> {
        self.setting(chore).await
    }

    pub async fn set_progress(&self, chore: &'static str, mark: &str) -> Result<(), StoreError> {
        let set = sql("INSERT INTO settings (name, value, held_until) VALUES ($1, $2, 0) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value")
        .bind(chore)
        .bind(mark);
        self.db.write(set).await.map(drop)
    }

    async fn setting(&self, name: &'static str) -> Result<Option<String>, StoreError> {
        let row =
            self.db.read_one(sql("SELECT value FROM settings WHERE name = $1").bind(name)).await?;
        row.map(|row| row.get("value")).transpose()
    }
}
