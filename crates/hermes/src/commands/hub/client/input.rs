//! What verbs read: documents from files or stdin, and pairs from arguments.

use std::{io::Read as _, path::Path};

use serde_json::{Map, Value};

use crate::failure::Failure;

/// The text of a file; `-` is stdin.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    if path.as_os_str() == "-" {
        return read_stdin();
    }
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", path.display())))
}

pub(crate) fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("stdin cannot be read as text: {error}")))?;
    Ok(text)
}

/// The JSON object of a file; `-` is stdin.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>, Failure> {
    let wrong = |reason: String| {
        Failure::usage(format!(
            "`{}` is not a JSON object: {reason}",
            path.display()
        ))
    };
    match serde_json::from_str(&read_text(path)?) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(wrong("it is another kind of value".into())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The object of a file, or none.
pub(crate) fn read_optional_object(path: Option<&Path>) -> Result<Map<String, Value>, Failure> {
    path.map_or_else(|| Ok(Map::new()), read_object)
}

/// The pairs of `NAME=VALUE` arguments.
pub(crate) fn parse_pairs(option: &str, texts: &[String]) -> Result<Map<String, Value>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.into())),
        _ => Err(Failure::usage(format!(
            "`{option} {text}` must be `NAME=VALUE`"
        ))),
    };
    texts.iter().map(pair).collect()
}
