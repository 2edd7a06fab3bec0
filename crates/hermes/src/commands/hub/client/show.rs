//! Answers for people: tables of lists, and the members of one thing.

use serde_json::Value;

use super::{HubClient, HubReply};
use crate::output::{Table, Tone, printable};

/// A column: its title, and where its value is in an item.
pub(crate) type Column = (&'static str, &'static str);

impl HubClient<'_> {
    /// The items of a list, or a sentence if there are none.
    pub(crate) fn show_list(&self, answer: &HubReply, list: &str, columns: &[Column], none: &str) {
        let items = answer
            .value
            .get(list)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        self.show_items(&items, columns, none);
    }

    pub(crate) fn show_items(&self, items: &[Value], columns: &[Column], none: &str) {
        let output = self.output();
        if output.is_json() {
            return;
        }
        if items.is_empty() {
            output.note(none);
            return;
        }
        let titles: Vec<&'static str> = columns.iter().map(|(title, _)| *title).collect();
        let mut table = Table::new(&titles);
        for item in items {
            let cell = |pointer: &str| {
                let value = item.pointer(pointer).unwrap_or(&Value::Null);
                (plain_text(value), tone(value))
            };
            table.cells(columns.iter().map(|(_, pointer)| cell(pointer)).collect());
        }
        output.table(&table);
    }

    /// All members of one thing, a line each.
    pub(crate) fn show_members(&self, value: &Value) {
        for (name, text) in member_lines(value) {
            self.output().line(format!("{name}: {text}"));
        }
    }
}

/// The members of an object as lines; those of objects in it have both names.
fn member_lines(value: &Value) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    collect(value, "", &mut lines);
    lines
}

fn collect(value: &Value, prefix: &str, lines: &mut Vec<(String, String)>) {
    let Value::Object(members) = value else {
        return;
    };
    for (name, value) in members {
        let name = match prefix {
            "" => name.clone(),
            prefix => format!("{prefix}.{name}"),
        };
        match value {
            Value::Object(inner) if !inner.is_empty() => collect(value, &name, lines),
            Value::Array(items) if items.iter().any(Value::is_object) => {
                lines.extend(items.iter().map(|item| (name.clone(), one_line(item))));
            }
            Value::Array(items) if items.is_empty() => {}
            Value::Null | Value::Object(_) => {}
            value => lines.push((printable(&name).into_owned(), plain_text(value))),
        }
    }
}

/// An object within a list: its values in one line.
fn one_line(value: &Value) -> String {
    let parts: Vec<String> = member_lines(value)
        .into_iter()
        .map(|(name, text)| format!("{name}={text}"))
        .collect();
    parts.join(" ")
}

/// A value as a person reads it.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) if text.is_empty() => "-".into(),
        Value::String(text) => printable(text).into_owned(),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// States that somebody should look at stand out.
fn tone(value: &Value) -> Tone {
    match value.as_str() {
        Some("failed" | "blocked" | "deny" | "denied" | "cancelled") => Tone::Bad,
        Some("ready" | "running" | "completed" | "active" | "allow") => Tone::Good,
        Some("waiting_for_approval" | "provisioning" | "deleting" | "stopping") => Tone::Warning,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_lines_and_what_is_empty_is_left_out() {
        let lines = member_lines(&json!({
            "id": "acme", "deletedAt": null, "labels": {}, "access": {"status": "active"},
            "groups": [{"id": "team", "access": "read"}], "scopes": ["a", "b"], "tenants": [],
        }));
        let lines: Vec<String> = lines
            .into_iter()
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        assert_eq!(
            lines,
            [
                "id: acme",
                "access.status: active",
                "groups: id=team access=read",
                "scopes: a, b"
            ]
        );
    }

    #[test]
    fn what_could_steer_the_terminal_is_taken_out() {
        assert!(!plain_text(&json!("a\u{1b}[2Jb")).contains('\u{1b}'));
    }
}
