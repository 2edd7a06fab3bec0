//! Edits on the parsed document: what an edit of the text must amount to.

use serde_json::{Map, Value};

/// The value at a path of keys.
pub(super) fn get<'d>(document: &'d Value, path: &[&str]) -> Option<&'d Value> {
    path.iter().try_fold(document, |value, key| value.get(key))
}

/// Sets the value at a path, making mappings on the way; `false` if something else stands there.
pub(super) fn set(document: &mut Value, path: &[&str], value: Value) -> bool {
    let Some((key, rest)) = path.split_first() else {
        *document = value;
        return true;
    };
    if document.is_null() {
        *document = Value::Object(Map::new());
    }
    match document {
        Value::Object(map) => set(map.entry(*key).or_insert(Value::Null), rest, value),
        _ => false,
    }
}

/// Removes the value at a path; `false` if there is none.
pub(super) fn remove(document: &mut Value, path: &[&str]) -> bool {
    let Some((key, parents)) = path.split_last() else {
        return false;
    };
    let parent = parents
        .iter()
        .try_fold(document, |value, key| value.get_mut(key));
    match parent.and_then(Value::as_object_mut) {
        Some(map) => map.shift_remove(*key).is_some(),
        None => false,
    }
}

/// Whether two documents say the same. A mapping that lost its last key may read as null.
pub(super) fn is_equivalent(a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => a
            .iter()
            .all(|(key, value)| b.get(key).is_some_and(|other| is_equivalent(value, other))),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).all(|(a, b)| is_equivalent(a, b))
        }
        _ => a == b || (empty(a) && empty(b)),
    }
}
