//! What all servers on one database share: the fingerprint of their secret, the progress of
//! background tasks, and duties that only one server has at a time.

use crate::sql::sql;
use crate::{Store, StoreError, now};

const SECRET_FINGERPRINT: &str = "secret fingerprint";

impl Store {
    /// Whether this server's secret matches the stored fingerprint; the first server stores its
    /// own. With another secret no stored API key would authenticate and no link would be valid.
    pub async fn check_secret(&self, fingerprint: &str) -> Result<bool, StoreError> {
        let insert = sql(
            "INSERT INTO settings (name, value, held_until) VALUES ($1, $2, 0) ON CONFLICT (name) DO NOTHING",
        );
        self.db.write(insert.bind(SECRET_FINGERPRINT).bind(fingerprint)).await?;
        Ok(self.setting(SECRET_FINGERPRINT).await?.as_deref() == Some(fingerprint))
    }

    /// Acquires or renews a duty. False when another server holds it. One statement: of two servers
    /// that try at once, one changes no row.
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

    /// The progress of a background task; `None` when it never ran.
    pub async fn get_progress(&self, task: &'static str) -> Result<Option<String>, StoreError> {
        self.setting(task).await
    }

    pub async fn set_progress(&self, task: &'static str, cursor: &str) -> Result<(), StoreError> {
        let set = sql("INSERT INTO settings (name, value, held_until) VALUES ($1, $2, 0) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value")
        .bind(task)
        .bind(cursor);
        self.db.write(set).await.map(drop)
    }

    async fn setting(&self, name: &'static str) -> Result<Option<String>, StoreError> {
        let row =
            self.db.read_one(sql("SELECT value FROM settings WHERE name = $1").bind(name)).await?;
        row.map(|row| row.get("value")).transpose()
    }
}
