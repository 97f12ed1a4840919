//! A statement builder: SQL text with numbered placeholders, valid on both databases, and the
//! arguments.
//!
//! Text can only come from `&'static str`; every value from a caller is an argument of a
//! placeholder. That makes SQL injection impossible and the one `AssertSqlSafe` below sound.

use std::borrow::Cow;

use sqlx::postgres::PgArguments;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, SqlSafeStr, SqlStr};
use uuid::Uuid;

use crate::TenantId;

/// A statement under construction.
pub(crate) struct Sql<'a> {
    text: Cow<'static, str>,
    args: Vec<Arg<'a>>,
}

/// The value of one placeholder. The schema has only these three types, and NULL.
pub(crate) enum Arg<'a> {
    Text(Option<Cow<'a, str>>),
    Int(Option<i64>),
    Bool(bool),
}

pub(crate) fn sql<'a>(text: &'static str) -> Sql<'a> {
    Sql { text: Cow::Borrowed(text), args: Vec::new() }
}

impl<'a> Sql<'a> {
    /// Adds the value of the next `$n` in the text.
    pub(crate) fn bind(mut self, value: impl Into<Arg<'a>>) -> Self {
        self.args.push(value.into());
        self
    }

    /// Appends text.
    pub(crate) fn push(mut self, text: &'static str) -> Self {
        self.text.to_mut().push_str(text);
        self
    }

    /// Wraps the whole statement in another one.
    pub(crate) fn wrap(mut self, before: &'static str, after: &'static str) -> Self {
        let text = self.text.to_mut();
        text.insert_str(0, before);
        text.push_str(after);
        self
    }

    /// Appends text, then a placeholder for `value`.
    pub(crate) fn push_arg(self, text: &'static str, value: impl Into<Arg<'a>>) -> Self {
        let mut sql = self.push(text).bind(value);
        let placeholder = format!("${}", sql.args.len());
        sql.text.to_mut().push_str(&placeholder);
        sql
    }

    /// Appends text and a placeholder if there is a value, nothing otherwise.
    pub(crate) fn push_optional_arg<T: Into<Arg<'a>>>(
        self,
        text: &'static str,
        value: Option<T>,
    ) -> Self {
        match value {
            Some(value) => self.push_arg(text, value),
            None => self,
        }
    }

    /// Appends one tuple per row: `($3, $4), ($5, $6), …`.
    pub(crate) fn push_rows<const N: usize>(
        self,
        rows: impl IntoIterator<Item = [Arg<'a>; N]>,
    ) -> Self {
        let mut sql = self;
        for (number, row) in rows.into_iter().enumerate() {
            let mut before = if number == 0 { "(" } else { ", (" };
            for value in row {
                sql = sql.push_arg(before, value);
                before = ", ";
            }
            sql = sql.push(")");
        }
        sql
    }

    pub(crate) fn for_sqlite(self) -> Result<(SqlStr, SqliteArguments), sqlx::Error> {
        self.encode()
    }

    pub(crate) fn for_postgres(self) -> Result<(SqlStr, PgArguments), sqlx::Error> {
        self.encode()
    }

    fn encode<A>(self) -> Result<(SqlStr, A), sqlx::Error>
    where
        A: Arguments,
        for<'t> String: sqlx::Encode<'t, A::Database> + sqlx::Type<A::Database>,
        for<'t> Option<String>: sqlx::Encode<'t, A::Database> + sqlx::Type<A::Database>,
        for<'t> Option<i64>: sqlx::Encode<'t, A::Database> + sqlx::Type<A::Database>,
        for<'t> bool: sqlx::Encode<'t, A::Database> + sqlx::Type<A::Database>,
    {
        let mut args = A::default();
        for arg in self.args {
            match arg {
                Arg::Text(text) => args.add(text.map(Cow::into_owned)),
                Arg::Int(number) => args.add(number),
                Arg::Bool(flag) => args.add(flag),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok((AssertSqlSafe(self.text).into_sql_str(), args))
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    /// Replaces NUL by U+FFFD. Postgres text cannot hold NUL, but a skill may print one. A query
    /// for such a text then finds nothing instead of failing, on both databases.
    fn from(text: &'a str) -> Self {
        Arg::Text(Some(if text.contains('\0') {
            Cow::Owned(text.replace('\0', "\u{fffd}"))
        } else {
            Cow::Borrowed(text)
        }))
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Arg<'_> {
    fn from(text: String) -> Self {
        match Arg::from(text.as_str()) {
            Arg::Text(Some(Cow::Owned(clean))) => Arg::Text(Some(Cow::Owned(clean))),
            _ => Arg::Text(Some(Cow::Owned(text))),
        }
    }
}

impl<'a> From<&'a TenantId> for Arg<'a> {
    fn from(tenant: &'a TenantId) -> Self {
        tenant.as_str().into()
    }
}

impl From<Uuid> for Arg<'_> {
    fn from(id: Uuid) -> Self {
        Arg::Text(Some(Cow::Owned(id.to_string())))
    }
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Arg::Int(Some(number))
    }
}

impl From<bool> for Arg<'_> {
    fn from(flag: bool) -> Self {
        Arg::Bool(flag)
    }
}

impl<'a> From<Option<&'a str>> for Arg<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Arg::Text(None), Arg::from)
    }
}

impl<'a> From<&'a Option<String>> for Arg<'a> {
    fn from(text: &'a Option<String>) -> Self {
        text.as_deref().into()
    }
}

impl From<Option<String>> for Arg<'_> {
    fn from(text: Option<String>) -> Self {
        text.map_or(Arg::Text(None), Arg::from)
    }
}

impl From<Option<Uuid>> for Arg<'_> {
    fn from(id: Option<Uuid>) -> Self {
        id.map_or(Arg::Text(None), Arg::from)
    }
}

impl From<Option<i64>> for Arg<'_> {
    fn from(number: Option<i64>) -> Self {
        Arg::Int(number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arg, sql};

    #[test]
    fn placeholders_are_numbered() {
        let built = sql("SELECT a FROM t WHERE b = $1")
            .bind("x")
            .push_optional_arg(" AND c = ", Some(7))
            .push_optional_arg(" AND d = ", None::<&str>)
            .push(" AND (e, f) IN (VALUES ")
            .push_rows([[Arg::from(1), Arg::from("y")], [Arg::from(2), Arg::from("z")]])
            .push(")");
        assert_eq!(
            built.text,
            "SELECT a FROM t WHERE b = $1 AND c = $2 AND (e, f) IN (VALUES ($3, $4), ($5, $6))"
        );
        assert_eq!(built.args.len(), 6);
    }

    #[test]
    fn nul_is_replaced_in_borrowed_and_owned_text() {
        for arg in [Arg::from("a\0b"), Arg::from("a\0b".to_owned())] {
            assert!(matches!(arg, Arg::Text(Some(text)) if text == "a\u{fffd}b"));
        }
    }
}
