//! A row of either database, read by column name.

use std::error::Error;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Postgres, Row as _, Sqlite, Type};

use crate::StoreError;

pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// A text, number or boolean; an `Option` where the column may be NULL.
    pub(crate) fn get<'r, T>(&'r self, column: &str) -> Result<T, StoreError>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>,
    {
        Ok(match self {
            Row::Sqlite(row) => row.try_get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
        })
    }

    /// A number that is narrower in Rust than the BIGINT it is stored as.
    pub(crate) fn number<T: TryFrom<i64, Error: Error + Send + Sync + 'static>>(
        &self,
        column: &str,
    ) -> Result<T, StoreError> {
        T::try_from(self.get(column)?).map_err(|error| corrupt(column, error))
    }

    /// A number that may be NULL and is narrower in Rust.
    pub(crate) fn number_opt<T: TryFrom<i64, Error: Error + Send + Sync + 'static>>(
        &self,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        self.get::<Option<i64>>(column)?
            .map(|number| T::try_from(number).map_err(|error| corrupt(column, error)))
            .transpose()
    }

    /// A text that has a stricter type in Rust: an id, a tenant, an enumeration.
    pub(crate) fn parse<T: FromStr<Err: Error + Send + Sync + 'static>>(
        &self,
        column: &str,
    ) -> Result<T, StoreError> {
        self.get::<&str>(column)?.parse().map_err(|error| corrupt(column, error))
    }

    /// A text that may be NULL and has a stricter type in Rust.
    pub(crate) fn parse_opt<T: FromStr<Err: Error + Send + Sync + 'static>>(
        &self,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        self.get::<Option<&str>>(column)?
            .map(|text| text.parse().map_err(|error| corrupt(column, error)))
            .transpose()
    }

    /// A JSON document.
    pub(crate) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        serde_json::from_str(self.get(column)?).map_err(|error| corrupt(column, error))
    }

    /// A JSON document that may be NULL.
    pub(crate) fn json_opt<T: DeserializeOwned>(
        &self,
        column: &str,
    ) -> Result<Option<T>, StoreError> {
        self.get::<Option<&str>>(column)?
            .map(|text| serde_json::from_str(text).map_err(|error| corrupt(column, error)))
            .transpose()
    }
}

/// A stored value that this version never writes: another program or an older version wrote it.
fn corrupt(column: &str, source: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Database(sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: Box::new(source),
    })
}
