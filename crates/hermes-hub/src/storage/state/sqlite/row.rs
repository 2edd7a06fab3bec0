//! Typed access to columns. An unexpected value is an error.

use serde::de::DeserializeOwned;
use sqlx::{Row, sqlite::SqliteRow};

use crate::{
    api_types::{Time, ids::InvalidId},
    storage::state::StateError,
};

pub(super) trait ColumnReader {
    fn text(&self, column: &str) -> Result<String, StateError>;
    fn optional_text(&self, column: &str) -> Result<Option<String>, StateError>;
    fn count(&self, column: &str) -> Result<u64, StateError>;
    fn optional_count(&self, column: &str) -> Result<Option<u64>, StateError>;
    fn flag(&self, column: &str) -> Result<bool, StateError>;
    fn time(&self, column: &str) -> Result<Time, StateError>;
    fn optional_time(&self, column: &str) -> Result<Option<Time>, StateError>;
    fn bytes(&self, column: &str) -> Result<Vec<u8>, StateError>;
    fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StateError>;
    fn optional_hash(&self, column: &str) -> Result<Option<[u8; 32]>, StateError>;
    fn id<T>(&self, column: &str, parse: fn(&str) -> Result<T, InvalidId>)
    -> Result<T, StateError>;
    /// A word of an enum.
    fn word<T>(&self, column: &str, from: fn(&str) -> Option<T>) -> Result<T, StateError>;
    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StateError>;
    fn optional_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, StateError>;
}

impl ColumnReader for SqliteRow {
    fn text(&self, column: &str) -> Result<String, StateError> {
        Ok(self.try_get(column)?)
    }

    fn optional_text(&self, column: &str) -> Result<Option<String>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn count(&self, column: &str) -> Result<u64, StateError> {
        let number: i64 = self.try_get(column)?;
        u64::try_from(number).map_err(StateError::broken)
    }

    fn optional_count(&self, column: &str) -> Result<Option<u64>, StateError> {
        let number: Option<i64> = self.try_get(column)?;
        number
            .map(u64::try_from)
            .transpose()
            .map_err(StateError::broken)
    }

    fn flag(&self, column: &str) -> Result<bool, StateError> {
        let number: i64 = self.try_get(column)?;
        Ok(number != 0)
    }

    fn time(&self, column: &str) -> Result<Time, StateError> {
        Ok(Time::from_millis(self.try_get(column)?))
    }

    fn optional_time(&self, column: &str) -> Result<Option<Time>, StateError> {
        let milliseconds: Option<i64> = self.try_get(column)?;
        Ok(milliseconds.map(Time::from_millis))
    }

    fn bytes(&self, column: &str) -> Result<Vec<u8>, StateError> {
        Ok(self.try_get(column)?)
    }

    fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.try_get(column)?)
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
