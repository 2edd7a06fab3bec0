//! What is wrong with something that was received.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Something received is not as the protocol says: a member is unknown, missing or of another type.
#[derive(Debug, thiserror::Error)]
#[error("{what} is not as the protocol says: {source}")]
pub struct ProtocolError {
    what: &'static str,
    source: serde_json::Error,
}

impl ProtocolError {
    pub(crate) fn new(what: &'static str, source: serde_json::Error) -> Self {
        Self { what, source }
    }
}

/// Reads a document; `what` names it in the error.
pub(crate) fn read<T: DeserializeOwned>(
    what: &'static str,
    document: Value,
) -> Result<T, ProtocolError> {
    serde_json::from_value(document).map_err(|source| ProtocolError::new(what, source))
}

/// Types of this crate as JSON: nothing in them can fail to be written.
pub(crate) fn write(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}

pub(crate) fn write_object(document: &impl Serialize) -> Map<String, Value> {
    match write(document) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
