//! Typed access to columns.

use crate::storage::state::StateError;
pub(super) use crate::storage::state::columns::{ColumnReader, parse_hash};

/// A list of ids as JSON for `json_each`.
pub(super) fn json_list<T: serde::Serialize>(
    items: Option<&[T]>,
) -> Result<Option<String>, StateError> {
    Ok(items.map(serde_json::to_string).transpose()?)
}
