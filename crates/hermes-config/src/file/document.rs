//! Edits on the parsed document: what an edit of the text must amount to. And edits by whole lines, where
//! comments and indentation decide what belongs to an entry.

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

/// The text without the entry whose key is at `offset` and the comment lines directly above it; nothing if the key
/// does not begin its line.
///
/// The entry goes on as long as lines are indented deeper than its key. Empty lines around it stay.
pub(super) fn remove_entry(text: &str, offset: usize) -> Option<String> {
    let key_line = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let column = offset - key_line;
    if !text[key_line..offset].trim().is_empty() {
        return None;
    }
    // A comment indented deeper than the key belongs to what comes before.
    let start = text[..key_line]
        .split_inclusive('\n')
        .rev()
        .take_while(|line| comment_column(line).is_some_and(|comment| comment <= column))
        .fold(key_line, |start, line| start - line.len());
    let mut lines = text[key_line..].split_inclusive('\n');
    let mut end = key_line + lines.next()?.len();
    let mut position = end;
    for line in lines {
        position += line.len();
        if line.trim().is_empty() {
            continue;
        }
        if indentation(line) <= column {
            break;
        }
        end = position;
    }
    Some(format!("{}{}", &text[..start], &text[end..]))
}

/// Moves lines that were just added below the comment lines that follow them and belong to the entry above.
///
/// Those are indented deeper than the new key; an empty line ends them.
pub(super) fn move_below_comments(before: &str, after: String) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let Some(count) = new.len().checked_sub(old.len()).filter(|count| *count > 0) else {
        return after;
    };
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (added, rest) = new[start..].split_at(count);
    if rest != &old[start..] {
        // More than an insertion of lines, as in `{…}` or after a missing line break.
        return after;
    }
    let column = indentation(added[0]);
    let passed = rest
        .iter()
        .take_while(|line| comment_column(line).is_some_and(|comment| comment > column))
        .count();
    let ends_open = rest[..passed]
        .last()
        .is_some_and(|line| !line.ends_with('\n'));
    if passed == 0 || ends_open {
        return after;
    }
    [&new[..start], &rest[..passed], added, &rest[passed..]]
        .concat()
        .concat()
}

/// How far a comment line is indented; `None` for any other line.
fn comment_column(line: &str) -> Option<usize> {
    line.trim_start()
        .starts_with('#')
        .then(|| indentation(line))
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
