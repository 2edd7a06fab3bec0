//! Typed access to columns, the same for both databases. An unexpected value is an error.

use serde::de::DeserializeOwned;
use sqlx::{Row, postgres::PgRow, sqlite::SqliteRow};

use super::StateError;
use crate::api_types::{Time, ids::InvalidId};

/// A number as a column; both databases have the same largest integer.
pub(super) fn to_column(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) trait ColumnReader {
    fn optional_text(&self, column: &str) -> Result<Option<String>, StateError>;
    fn optional_integer(&self, column: &str) -> Result<Option<i64>, StateError>;
    fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StateError>;
    fn flag(&self, column: &str) -> Result<bool, StateError>;

    fn text(&self, column: &str) -> Result<String, StateError> {
        self.optional_text(column)?.ok_or_else(|| missing(column))
    }

    fn count(&self, column: &str) -> Result<u64, StateError> {
        self.optional_count(column)?.ok_or_else(|| missing(column))
    }

    fn optional_count(&self, column: &str) -> Result<Option<u64>, StateError> {
        let number = self.optional_integer(column)?;
        number
            .map(u64::try_from)
            .transpose()
            .map_err(StateError::broken)
    }

    fn time(&self, column: &str) -> Result<Time, StateError> {
        self.optional_time(column)?.ok_or_else(|| missing(column))
    }

    fn optional_time(&self, column: &str) -> Result<Option<Time>, StateError> {
        Ok(self.optional_integer(column)?.map(Time::from_millis))
    }

    fn bytes(&self, column: &str) -> Result<Vec<u8>, StateError> {
        self.optional_bytes(column)?.ok_or_else(|| missing(column))
    }

    fn optional_hash(&self, column: &str) -> Result<Option<[u8; 32]>, StateError> {
        self.optional_bytes(column)?.map(parse_hash).transpose()
    }

    fn id<T>(
        &self,
        column: &str,
        parse: fn(&str) -> Result<T, InvalidId>,
    ) -> Result<T, StateError> {
        parse(&self.text(column)?).map_err(StateError::broken)
    }

    fn optional_id<T>(
        &self,
        column: &str,
        parse: fn(&str) -> Result<T, InvalidId>,
    ) -> Result<Option<T>, StateError> {
        let text = self.optional_text(column)?;
        text.map(|text| parse(&text).map_err(StateError::broken))
            .transpose()
    }

    /// A word of an enum.
    fn word<T>(&self, column: &str, from: fn(&str) -> Option<T>) -> Result<T, StateError> {
        let word = self.text(column)?;
        from(&word)
            .ok_or_else(|| StateError::Broken(format!("`{word}` is not a value of `{column}`")))
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StateError> {
        Ok(serde_json::from_str(&self.text(column)?)?)
    }

    fn optional_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, StateError> {
        let text = self.optional_text(column)?;
        Ok(text.as_deref().map(serde_json::from_str).transpose()?)
    }
}

fn missing(column: &str) -> StateError {
    StateError::Broken(format!("the column `{column}` is empty"))
}

impl ColumnReader for SqliteRow {
    fn optional_text(&self, column: &str) -> Result<Option<String>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn optional_integer(&self, column: &str) -> Result<Option<i64>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn flag(&self, column: &str) -> Result<bool, StateError> {
        let number: i64 = self.try_get(column)?;
        Ok(number != 0)
    }
}

impl ColumnReader for PgRow {
    fn optional_text(&self, column: &str) -> Result<Option<String>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn optional_integer(&self, column: &str) -> Result<Option<i64>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn flag(&self, column: &str) -> Result<bool, StateError> {
        Ok(self.try_get(column)?)
    }
}

pub(super) fn parse_hash(bytes: Vec<u8>) -> Result<[u8; 32], StateError> {
    bytes
        .try_into()
        .map_err(|_| StateError::Broken("a hash has 32 bytes".into()))
}

/// A list of ids as JSON for `json_each`.
pub(super) fn json_list<T: serde::Serialize>(
    items: Option<&[T]>,
) -> Result<Option<String>, StateError> {
    Ok(items.map(serde_json::to_string).transpose()?)
}
