//! Entering a server in another program's configuration, so that every other byte of the file stays.

use std::path::Path;

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table};

use crate::import::{ImportError, parse};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileSyntax {
    Json,
    JsonWithComments,
    Toml,
}

/// What is to be done with the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileEdit {
    /// It says so already.
    Same,
    /// It becomes this.
    Changed(String),
}

/// Puts an entry under `key.name`. Keys of an entry that is there, and that ours does not have, stay.
pub(super) fn put_entry(
    text: &str,
    syntax: FileSyntax,
    key: &str,
    name: &str,
    entry: &Value,
    path: &Path,
) -> Result<FileEdit, ImportError> {
    let document = match syntax {
        FileSyntax::Json => parse::parse_json(text, path)?,
        FileSyntax::JsonWithComments => parse::parse_jsonc(text, path)?,
        FileSyntax::Toml => parse::parse_toml(text, path)?,
    };
    let shape = |key: &str| ImportError::Shape {
        path: path.to_owned(),
        key: key.to_owned(),
    };
    if !(document.is_object() || document.is_null()) {
        return Err(shape("(the whole file)"));
    }
    match document.get(key) {
        None | Some(Value::Object(_)) => {}
        Some(_) => return Err(shape(key)),
    }
    let members = entry.as_object();
    let there = document.get(key).and_then(|servers| servers.get(name));
    let is_same = there.is_some_and(|there| {
        members.is_some_and(|members| {
            members
                .iter()
                .all(|(key, value)| there.get(key) == Some(value))
        })
    });
    if is_same {
        return Ok(FileEdit::Same);
    }
    let changed = match syntax {
        FileSyntax::Json | FileSyntax::JsonWithComments => {
            put_in_json(text, key, name, entry, there)
        }
        FileSyntax::Toml => put_in_toml(text, key, name, entry),
    };
    changed.map(FileEdit::Changed).ok_or_else(|| shape(key))
}

fn put_in_json(
    text: &str,
    key: &str,
    name: &str,
    entry: &Value,
    there: Option<&Value>,
) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let servers = root.object_value_or_create()?.object_value_or_create(key)?;
    match servers.object_value(name) {
        Some(object) => update_object(&object, entry, there),
        None => match servers.get(name) {
            Some(strange) => strange.set_value(cst_value(entry)),
            None => drop(servers.append(name, cst_value(entry))),
        },
    }
    let end = if text.is_empty() { "\n" } else { "" };
    Some(format!("{root}{end}"))
}

fn update_object(object: &CstObject, entry: &Value, there: Option<&Value>) {
    for (key, value) in entry.as_object().into_iter().flatten() {
        if there.and_then(|there| there.get(key)) == Some(value) {
            continue;
        }
        match object.get(key) {
            Some(member) => member.set_value(cst_value(value)),
            None => drop(object.append(key, cst_value(value))),
        }
    }
}

fn cst_value(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(cst_value).collect()),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| (key.clone(), cst_value(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

fn put_in_toml(text: &str, key: &str, name: &str, entry: &Value) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let servers = document.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        // Only its entries are written, each under its own heading.
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut()?;
    let server = servers
        .entry(name)
        .or_insert_with(|| Item::Table(Table::new()));
    if !server.is_table_like() {
        *server = Item::Table(Table::new());
    }
    let server = server.as_table_like_mut()?;
    for (key, value) in entry.as_object()? {
        let value = toml_value(value)?;
        match server.get_mut(key).and_then(Item::as_value_mut) {
            // What stands around a value that is there stays: spaces, and a comment behind it.
            Some(there) => {
                let decor = there.decor().clone();
                *there = value;
                *there.decor_mut() = decor;
            }
            None => drop(server.insert(key, Item::Value(value))),
        }
    }
    Some(document.to_string())
}

fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Array(items) => {
            let items: Option<toml_edit::Array> = items.iter().map(toml_value).collect();
            items.map(Into::into)
        }
        Value::Object(members) => {
            let mut table = toml_edit::InlineTable::new();
            for (key, value) in members {
                table.insert(key, toml_value(value)?);
            }
            Some(table.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn enter_hermes(text: &str, syntax: FileSyntax) -> Result<FileEdit, ImportError> {
        let key = match syntax {
            FileSyntax::Toml => "mcp_servers",
            _ => "mcpServers",
        };
        let entry = json!({"command": "/bin/hermes", "args": ["mcp", "serve"], "env": {"HERMES_HOME": "/h"}});
        put_entry(text, syntax, key, "hermes", &entry, Path::new("/x/file"))
    }

    #[track_caller]
    fn changed(text: &str, syntax: FileSyntax) -> String {
        match enter_hermes(text, syntax) {
            Ok(FileEdit::Changed(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_entry_is_added_and_every_other_byte_stays() {
        let before = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\":\"x\" , },  /* odd */\n  },\n  \"z\":  1\n}\n";
        let after = changed(before, FileSyntax::JsonWithComments);
        let at = after.find("\"hermes\"").unwrap();
        let common = before.find("/* odd */").unwrap();
        assert_eq!(&after[..common], &before[..common]);
        assert!(after.ends_with("},\n  \"z\":  1\n}\n"), "{after}");
        assert!(at > common, "{after}");
        assert_eq!(
            enter_hermes(&after, FileSyntax::JsonWithComments),
            Ok(FileEdit::Same)
        );
    }

    #[test]
    fn toml_keeps_its_comments_and_order() {
        let before =
            "# mine\nmodel = \"x\"   # best\n\n[mcp_servers.a]\ncommand = 'y'\n\n[tui]\nz = 1\n";
        let after = changed(before, FileSyntax::Toml);
        for line in before.lines() {
            assert!(after.contains(line), "{line}\n{after}");
        }
        assert!(
            after.contains("[mcp_servers.hermes]\ncommand = \"/bin/hermes\"\n"),
            "{after}"
        );
        assert!(!after.contains("[mcp_servers]\n"), "{after}");
        assert_eq!(enter_hermes(&after, FileSyntax::Toml), Ok(FileEdit::Same));
    }

    #[test]
    fn a_new_file_has_just_the_entry() {
        for syntax in [
            FileSyntax::Json,
            FileSyntax::JsonWithComments,
            FileSyntax::Toml,
        ] {
            let after = changed("", syntax);
            assert!(after.ends_with('\n'), "{after}");
            assert_eq!(enter_hermes(&after, syntax), Ok(FileEdit::Same));
        }
    }

    #[test]
    fn an_entry_that_differs_is_brought_up_to_date_and_keeps_its_other_keys() {
        let before = r#"{"mcpServers": {"hermes": {"command": "/old", "timeout": 5, "args": ["mcp", "serve"]}}}"#;
        let after = changed(before, FileSyntax::Json);
        let value: Value = serde_json::from_str(&after).unwrap();
        let hermes = &value["mcpServers"]["hermes"];
        assert_eq!(hermes["command"], "/bin/hermes");
        assert_eq!(hermes["timeout"], 5);
        assert_eq!(hermes["env"]["HERMES_HOME"], "/h");

        let before = "[mcp_servers.hermes]\ncommand = \"/old\" # here\nenabled = true\n";
        let after = changed(before, FileSyntax::Toml);
        assert!(
            after.starts_with(
                "[mcp_servers.hermes]\ncommand = \"/bin/hermes\" # here\nenabled = true\n"
            ),
            "{after}"
        );
    }

    #[test]
    fn a_broken_file_is_refused_with_the_place() {
        for (text, syntax) in [
            ("{\n  \"mcpServers\": {,}\n}", FileSyntax::JsonWithComments),
            ("{\n  // no comments here\n}", FileSyntax::Json),
            ("a = 1\nb = = 2\n", FileSyntax::Toml),
        ] {
            let error = enter_hermes(text, syntax).unwrap_err().to_string();
            assert!(error.starts_with("/x/file:2:"), "{error}");
        }
        for text in ["[]", "{\"mcpServers\": []}"] {
            assert!(
                matches!(
                    enter_hermes(text, FileSyntax::Json),
                    Err(ImportError::Shape { .. })
                ),
                "{text}"
            );
        }
    }
}
