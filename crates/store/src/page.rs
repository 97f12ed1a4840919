//! Pagination of lists.

use uuid::Uuid;

use crate::sql::Sql;
use crate::{Micros, StoreError};

/// Which part of a list to return. `after` continues after a row already returned; `offset` skips
/// rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    pub limit: i64,
    pub offset: i64,
    /// The `cursor()` of the last row returned; opaque to callers.
    pub after: Option<String>,
}

impl Default for PageRequest {
    fn default() -> PageRequest {
        PageRequest { limit: 50, offset: 0, after: None }
    }
}

impl PageRequest {
    pub fn first(limit: i64) -> PageRequest {
        PageRequest { limit, ..PageRequest::default() }
    }

    pub fn after(cursor: String, limit: i64) -> PageRequest {
        PageRequest { limit, offset: 0, after: Some(cursor) }
    }

    /// Completes a SELECT on rows with `created_at` and `id`: newest first.
    pub(crate) fn newest_first<'a>(&self, sql: Sql<'a>) -> Result<Sql<'a>, StoreError> {
        let sql = match &self.after {
            Some(cursor) => {
                let (created_at, id) = parse_time_cursor(cursor)?;
                sql.push_arg(" AND (created_at, id) < (", created_at).push_arg(", ", id).push(")")
            }
            None => sql,
        };
        Ok(self.limit(sql.push(" ORDER BY created_at DESC, id DESC")))
    }

    /// Appends LIMIT and OFFSET. Negative numbers give an empty page or the first one, not an error.
    pub(crate) fn limit<'a>(&self, sql: Sql<'a>) -> Sql<'a> {
        sql.push_arg(" LIMIT ", self.limit.max(0)).push_arg(" OFFSET ", self.offset.max(0))
    }
}

/// The cursor of a list that is sorted by time.
pub(crate) fn time_cursor(created_at: Micros, id: Uuid) -> String {
    format!("{created_at}.{id}")
}

pub(crate) fn parse_time_cursor(cursor: &str) -> Result<(Micros, Uuid), StoreError> {
    let parse = || {
        let (created_at, id) = cursor.split_once('.')?;
        Some((created_at.parse().ok()?, id.parse().ok()?))
    };
    parse().ok_or(StoreError::InvalidCursor)
}
