//! Edits on the text. Whether a result says what it should is for the caller to check.

use std::str::FromStr;

use serde_json::{Map, Value};
use yaml_edit::{Document, Mapping, YamlFile, YamlNode};

use super::document;
use crate::yaml;

/// How new values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rendering {
    /// As a person would: one key per line, quotes where needed.
    Block,
    /// As JSON, which is YAML too and has no corner cases.
    Flow,
}

/// The text with `value` at `path`.
pub(super) fn set(
    text: &str,
    path: &[&str],
    value: &Value,
    rendering: Rendering,
) -> Option<String> {
    let file = YamlFile::from_str(text).ok()?;
    let Some(mut mapping) = root(&file) else {
        return append_mapping(text, &nest_value(path, value), rendering);
    };
    let (mut key, mut rest) = path.split_first()?;
    while let (Some(inner), Some((next, after))) = (mapping.get_mapping(*key), rest.split_first()) {
        (mapping, key, rest) = (inner, next, after);
    }
    let is_new = !mapping.contains_key(*key);
    set_entry(&mapping, key, &nest_value(rest, value), rendering)?;
    let edited = file.to_string();
    Some(if is_new {
        document::move_below_comments(text, edited)
    } else {
        edited
    })
}

/// The text with the value at `path` changed from `old` to `new`, key by key, so that equal parts keep their bytes.
pub(super) fn change(
    text: &str,
    path: &[&str],
    old: Option<&Value>,
    new: &Value,
    rendering: Rendering,
) -> Option<String> {
    let (old, new) = match (old, new) {
        (Some(old), new) if old == new => return Some(text.to_owned()),
        // An emptied mapping is written as one, since without its keys it would read as null.
        (Some(Value::Object(old)), Value::Object(new)) if !new.is_empty() => (old, new),
        _ => return set(text, path, new, rendering),
    };
    let mut text = text.to_owned();
    for (key, value) in new {
        let path = [path, &[key.as_str()]].concat();
        text = change(&text, &path, old.get(key), value, rendering)?;
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        text = remove(&text, &[path, &[key.as_str()]].concat())?;
    }
    Some(text)
}

/// The text without the entry at `path` and the comment lines directly above it.
pub(super) fn remove(text: &str, path: &[&str]) -> Option<String> {
    let mut wanted = yaml::parse(text).ok()?;
    if !document::remove(&mut wanted, path) {
        return None;
    }
    let as_wanted = |text: &String| {
        yaml::parse(text).is_ok_and(|document| document::is_equivalent(&document, &wanted))
    };
    let (key, parents) = path.split_last()?;
    let file = YamlFile::from_str(text).ok()?;
    let parent = parents
        .iter()
        .try_fold(root(&file)?, |mapping, key| mapping.get_mapping(*key))?;
    if let YamlNode::Scalar(key) = parent.find_entry_by_key(*key)?.key_node()? {
        let by_lines = document::remove_entry(text, key.byte_range().start as usize);
        if let Some(text) = by_lines.filter(as_wanted) {
            return Some(text);
        }
    }
    // Inside `{…}`, or in some unusual layout.
    parent.remove(*key)?;
    Some(file.to_string())
}

fn root(file: &YamlFile) -> Option<Mapping> {
    file.document()?.as_mapping()
}

/// `value` inside the mappings that `path` names.
fn nest_value(path: &[&str], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |value, key| {
        Value::Object(Map::from_iter([((*key).to_owned(), value)]))
    })
}

fn set_entry(mapping: &Mapping, key: &str, value: &Value, rendering: Rendering) -> Option<()> {
    let document = Document::from_str(&render(value, rendering)?).ok()?;
    if let Some(value) = document.as_mapping() {
        mapping.set(key, value);
    } else if let Some(value) = document.as_sequence() {
        mapping.set(key, value);
    } else {
        mapping.set(key, document.as_scalar()?);
    }
    Some(())
}

fn render(value: &Value, rendering: Rendering) -> Option<String> {
    match rendering {
        Rendering::Flow => Some(value.to_string()),
        Rendering::Block => {
            let options = serde_saphyr::ser_options! {
                prefer_block_scalars: false,
                compact_list_indent: false,
            };
            serde_saphyr::to_string_with_options(value, options).ok()
        }
    }
}

/// The text of a document without content, comments at most, with a mapping at its end.
fn append_mapping(text: &str, value: &Value, rendering: Rendering) -> Option<String> {
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut added = render(value, rendering)?.replace('\n', ending);
    if !added.ends_with(ending) {
        added.push_str(ending);
    }
    let gap = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        ending
    };
    Some(format!("{text}{gap}{added}"))
}
