//! Reviews: what people decided about content that the scanner held, or that they do not want to
//! run any more.

use serde_json::json;

use crate::skills::{COLUMNS, select_version};
use crate::sql::sql;
use crate::string_enum::string_enum;
use crate::{SkillRow, SkillStatus, Store, StoreError, TenantId, now};

string_enum! {
    /// A reviewer's word on some content.
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
    /// Gives every version with the content of this one its verdict, and remembers it for uploads
    /// to come. Nothing when there is no such version, a conflict when it has other content than
    /// `digest` by now.
    pub async fn review_skill(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
        digest: Option<&str>,
        verdict: ReviewDecision,
    ) -> Result<Option<SkillRow>, StoreError> {
        let mut tx = self.db.begin().await?;
        let select = select_version(tenant, name, version).push(self.db.for_update());
        let Some(row) = tx.one(select).await? else { return Ok(None) };
        let row = SkillRow::from_row(&row)?;
        if digest.is_some_and(|digest| digest != row.digest) {
            return Err(StoreError::Conflict(
                "this version has other content by now; look at it again",
            ));
        }
        let remember = sql("INSERT INTO skill_reviews (tenant, digest, verdict, decided_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, digest) DO UPDATE SET verdict = $3, decided_at = $4")
        .bind(tenant)
        .bind(&row.digest)
        .bind(verdict)
        .bind(now());
        tx.write(remember).await?;
        let update = sql("UPDATE skills SET status = $3 WHERE tenant = $1 AND digest = $2")
            .bind(tenant)
            .bind(&row.digest)
            .bind(verdict.status());
        tx.write(update).await?;
        let object = format!("{name}@{version}");
        self.record(&mut tx, verdict.action(), object, json!({ "digest": row.digest })).await?;
        tx.commit().await?;
        Ok(Some(SkillRow { status: verdict.status(), ..row }))
    }

    /// What was decided about this content, if anything was.
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

    /// How this content stands now: held or rejected, or free to run. Content whose skill was
    /// deleted is free unless somebody rejected it.
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
