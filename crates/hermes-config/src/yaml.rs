//! Reading YAML text as JSON values, with the line and column of what is wrong.

use serde_json::{Map, Value};

/// Where and why a text is no usable YAML document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlError {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) reason: String,
}

/// The document as a JSON value; an empty one is an empty mapping.
///
/// `yes` and `no` stay strings here, since under `env` and `args` they are meant so; whoever wants a flag accepts both.
pub(crate) fn read(text: &str) -> Result<Value, YamlError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value) => Ok(value),
        Err(error) => Err(describe(&error)),
    }
}

fn describe(error: &serde_saphyr::Error) -> YamlError {
    let (line, column) = error
        .location()
        .map_or((1, 1), |location| (location.line(), location.column()));
    let reason = error.without_snippet().to_string();
    YamlError {
        line,
        column,
        reason,
    }
}
