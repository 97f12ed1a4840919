//! Reviews: decisions about packages that were held for review, or that must not run any more.

use serde_json::json;

use crate::skills::{COLUMNS, select_version};
use crate::sql::sql;
use crate::string_enum::string_enum;
use crate::{SkillRow, SkillStatus, Store, StoreError, TenantId, now};

string_enum! {
    /// A reviewer's decision on a digest.
    ReviewDecision, "verdict" {
        Approved = "approved",
        Rejected = "rejected",
    }
}

impl ReviewDecision {
    fn action(self) -> &'static str {
        match self {
            ReviewDecision::Approved => "skill.approve",
            ReviewDecision::Rejected => "skill.reject",
        }
    }

    fn status(self) -> SkillStatus {
        match self {
            ReviewDecision::Approved => SkillStatus::Available,
            ReviewDecision::Rejected => SkillStatus::Rejected,
        }
    }
}

impl Store {
    /// Applies a decision to every version with the same digest, and stores it for later uploads of
    /// that digest. `None` when there is no such version; a conflict when its digest is not
    /// `digest`, because the content was replaced after the reviewer inspected it.
    pub async fn review_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
        digest: Option<&str>,
        decision: ReviewDecision,
    ) -> Result<Option<SkillRow>, StoreError> {
        let mut tx = self.db.begin().await?;
        let select = select_version(tenant, name, version).push(self.db.for_update());
        let Some(row) = tx.query_one(select).await? else { return Ok(None) };
        let row = SkillRow::from_row(&row)?;
        if digest.is_some_and(|digest| digest != row.digest) {
            return Err(StoreError::Conflict(
                "the content of this version was replaced; inspect it again",
            ));
        }
        let remember = sql("INSERT INTO skill_reviews (tenant, digest, verdict, decided_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, digest) DO UPDATE SET verdict = $3, decided_at = $4")
        .bind(tenant)
        .bind(&row.digest)
        .bind(decision)
        .bind(now());
        tx.write(remember).await?;
        let update = sql("UPDATE skills SET status = $3 WHERE tenant = $1 AND digest = $2")
            .bind(tenant)
            .bind(&row.digest)
            .bind(decision.status());
        tx.write(update).await?;
        let object = format!("{name}@{version}");
        self.record(&mut tx, decision.action(), object, json!({ "digest": row.digest })).await?;
        tx.commit().await?;
        Ok(Some(SkillRow { status: decision.status(), ..row }))
    }

    /// The decision on a digest, if there is one.
    pub async fn review_decision(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<Option<ReviewDecision>, StoreError> {
        let select = sql("SELECT verdict FROM skill_reviews WHERE tenant = $1 AND digest = $2")
            .bind(tenant)
            .bind(digest);
        let row = self.db.read_one(select).await?;
        row.map(|row| row.parse("verdict")).transpose()
    }

    /// Whether a digest is held for review, rejected or available. A digest whose skill was deleted
    /// is available, unless it was rejected.
    pub async fn content_status(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<SkillStatus, StoreError> {
        if self.review_decision(tenant, digest).await? == Some(ReviewDecision::Rejected) {
            return Ok(SkillStatus::Rejected);
        }
        let select = sql("SELECT ")
            .push(COLUMNS)
            .push_arg(" FROM skills WHERE tenant = ", tenant)
            .push_arg(" AND digest = ", digest)
            .push(" AND status <> 'available' LIMIT 1");
        let row = self.db.read_one(select).await?;
        row.map_or(Ok(SkillStatus::Available), |row| row.parse("status"))
    }
}
