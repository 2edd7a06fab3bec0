//! Reading columns as what they stand for. A column that holds anything else is damage, and an error.

use serde::de::DeserializeOwned;
use sqlx::{Row, sqlite::SqliteRow};

use crate::{ids::NoId, shapes::Time, state::StateError};

/// What can be read from a row of the Hub's own tables.
pub(super) trait Columns {
    /// Text.
    fn text(&self, column: &str) -> Result<String, StateError>;
    /// Text, or nothing.
    fn optional_text(&self, column: &str) -> Result<Option<String>, StateError>;
    /// A number that is not negative.
    fn count(&self, column: &str) -> Result<u64, StateError>;
    /// A number that is not negative, or nothing.
    fn optional_count(&self, column: &str) -> Result<Option<u64>, StateError>;
    /// Whether.
    fn flag(&self, column: &str) -> Result<bool, StateError>;
    /// A moment.
    fn time(&self, column: &str) -> Result<Time, StateError>;
    /// A moment, or nothing.
    fn optional_time(&self, column: &str) -> Result<Option<Time>, StateError>;
    /// Bytes.
    fn bytes(&self, column: &str) -> Result<Vec<u8>, StateError>;
    /// Bytes, or nothing.
    fn optional_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StateError>;
    /// 32 bytes, or nothing.
    fn optional_hash(&self, column: &str) -> Result<Option<[u8; 32]>, StateError>;
    /// An id.
    fn id<T>(&self, column: &str, parse: fn(&str) -> Result<T, NoId>) -> Result<T, StateError>;
    /// One of a set of words.
    fn word<T>(&self, column: &str, from: fn(&str) -> Option<T>) -> Result<T, StateError>;
    /// JSON.
    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StateError>;
    /// JSON, or nothing.
    fn optional_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, StateError>;
}

impl Columns for SqliteRow {
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
        self.optional_bytes(column)?.map(hash).transpose()
    }

    fn id<T>(&self, column: &str, parse: fn(&str) -> Result<T, NoId>) -> Result<T, StateError> {
        parse(&self.text(column)?).map_err(StateError::broken)
    }

    fn word<T>(&self, column: &str, from: fn(&str) -> Option<T>) -> Result<T, StateError> {
        let word = self.text(column)?;
        from(&word).ok_or_else(|| StateError::Broken(format!("`{word}` is nothing for `{column}`")))
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StateError> {
        Ok(serde_json::from_str(&self.text(column)?)?)
    }

    fn optional_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, StateError> {
        let text = self.optional_text(column)?;
        Ok(text.as_deref().map(serde_json::from_str).transpose()?)
    }
}

/// A hash as it is stored.
pub(super) fn hash(bytes: Vec<u8>) -> Result<[u8; 32], StateError> {
    bytes
        .try_into()
        .map_err(|_| StateError::Broken("a hash has 32 bytes".into()))
}

/// Some of an id's list, as JSON for `json_each`.
pub(super) fn list<T: serde::Serialize>(items: Option<&[T]>) -> Result<Option<String>, StateError> {
    Ok(items.map(serde_json::to_string).transpose()?)
}
