//! Entries as they are shown: references stay, and what may be a secret is replaced. Whoever sends a replaced value back
//! keeps the one that is there.

use hermes_config::{Redactor, ReferenceTemplate};
use serde_json::{Map, Value};

pub(super) const REPLACEMENT: &str = "[REDACTED]";
/// Headers whose values are never secret.
const PLAIN_HEADERS: [&str; 6] = [
    "accept",
    "accept-language",
    "content-type",
    "origin",
    "user-agent",
    "x-mcp-readonly",
];
/// Words in names of secrets.
const SECRET_WORDS: [&str; 9] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "AUTH",
    "COOKIE",
    "CREDENTIAL",
    "ASSERTION",
    "SESSION",
];
/// Words, addresses and paths, though their names have such a word.
const PLAIN_KEYS: [&str; 5] = [
    "auth",
    "client_key",
    "client_cert",
    "ssl_verify",
    "token_endpoint",
];
/// Shorter values are words.
const MIN_RANDOM_CHARS: usize = 16;

/// An entry without secrets.
pub(super) fn redact_entry(entry: &Value) -> Value {
    match entry {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), redact_member(name, value)))
            .collect::<Map<String, Value>>()
            .into(),
        other => redact_value(other),
    }
}

fn redact_member(name: &str, value: &Value) -> Value {
    match (name, value) {
        ("headers", Value::Object(headers)) => map_members(headers, |header, text| {
            let is_plain = PLAIN_HEADERS.contains(&header.to_ascii_lowercase().as_str());
            if is_plain {
                redact_text(text)
            } else {
                hide(text)
            }
        }),
        ("env", Value::Object(variables)) => map_members(variables, |variable, text| {
            if names_secret(variable) || is_random(text) {
                hide(text)
            } else {
                redact_text(text)
            }
        }),
        ("args", Value::Array(arguments)) => redact_arguments(arguments),
        // The third is the pass phrase.
        ("client_cert", Value::Array(parts)) => {
            let shown = parts.iter().enumerate().map(|(at, part)| match part {
                Value::String(text) if at == 2 => hide(text).into(),
                part => part.clone(),
            });
            shown.collect()
        }
        (name, Value::String(text)) if names_secret(name) && !PLAIN_KEYS.contains(&name) => {
            hide(text).into()
        }
        (_, Value::Object(members)) => members
            .iter()
            .map(|(name, value)| (name.clone(), redact_member(name, value)))
            .collect::<Map<String, Value>>()
            .into(),
        (_, value) => redact_value(value),
    }
}

fn map_members(members: &Map<String, Value>, show: impl Fn(&str, &str) -> String) -> Value {
    let shown = members.iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) => show(name, text).into(),
            other => redact_value(other),
        };
        (name.clone(), value)
    });
    shown.collect::<Map<String, Value>>().into()
}

/// `--token VALUE`, `--token=VALUE`, and whatever looks like a key.
fn redact_arguments(arguments: &[Value]) -> Value {
    let mut is_value_secret = false;
    let mut shown = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let Value::String(text) = argument else {
            shown.push(argument.clone());
            is_value_secret = false;
            continue;
        };
        let is_option = text.starts_with('-');
        let flag = text.split_once('=').filter(|_| is_option);
        shown.push(Value::String(match flag {
            Some((option, value)) if names_secret(option) => format!("{option}={}", hide(value)),
            _ if is_value_secret && !is_option => hide(text),
            _ => redact_text(text),
        }));
        is_value_secret = is_option && flag.is_none() && names_secret(text);
    }
    Value::Array(shown)
}

fn redact_value(value: &Value) -> Value {
    match value {
        Value::String(text) => redact_text(text).into(),
        Value::Array(items) => items.iter().map(redact_value).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), redact_value(value)))
            .collect::<Map<String, Value>>()
            .into(),
        other => other.clone(),
    }
}

fn redact_text(text: &str) -> String {
    Redactor::default().redact(text).into_owned()
}

/// What is shown of a value that is likely a secret: `Bearer ${TOKEN}` as it is, a literal not at all.
fn hide(text: &str) -> String {
    let has_reference = !ReferenceTemplate::new(text).references().is_empty();
    // What stands around a reference may still be a secret.
    let mut around = text.split("${").flat_map(|part| part.split(['}', ' ']));
    if has_reference && !around.any(is_random) {
        return redact_text(text);
    }
    if text.is_empty() {
        return String::new();
    }
    REPLACEMENT.to_owned()
}

fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether a text looks like a key rather than like words, a path or an address.
fn is_random(text: &str) -> bool {
    let is_of_key = |letter: char| letter.is_ascii_alphanumeric() || "_-+=.".contains(letter);
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    text.len() >= MIN_RANDOM_CHARS && has_digit && has_letter && text.chars().all(is_of_key)
}

/// Puts back what was replaced when the entry was shown.
pub(super) fn restore_redacted(new: &mut Value, before: &Value) {
    let shown = redact_entry(before);
    restore(new, before, &shown);
}

fn restore(new: &mut Value, before: &Value, shown: &Value) {
    match new {
        Value::String(text) => {
            let is_same = shown.as_str() == Some(text) && before != shown;
            if is_same && text.contains(REPLACEMENT) {
                *new = before.clone();
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                if let (Some(before), Some(shown)) = (before.get(at), shown.get(at)) {
                    restore(item, before, shown);
                }
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if let (Some(before), Some(shown)) = (before.get(name), shown.get(name)) {
                    restore(member, before, shown);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example() -> Value {
        json!({
            "command": "server", "args": ["--token", "hunter2", "--api-key=hunter3", "--verbose", "notes"],
            "env": {"API_KEY": "hunter4", "ODD": "a1b2c3d4e5f6a7b8c9", "LOG_LEVEL": "debug", "REF": "${OWN}"},
            "headers": {"X-Custom": "hunter5", "Authorization": "Bearer ${TOKEN}", "Accept": "text/plain"},
            "oauth": {"client_id": "me", "client_secret": "hunter6"},
            "client_cert": ["/a.pem", "/b.pem", "hunter7"], "client_key": "/c.pem", "timeout": 5,
            "auth": "oauth",
        })
    }

    #[test]
    fn literals_that_may_be_secrets_are_replaced_and_references_stay() {
        let shown = redact_entry(&example());
        let text = shown.to_string();
        assert!(
            !text.contains("hunter") && !text.contains("a1b2c3"),
            "{text}"
        );
        assert_eq!(shown["args"][3], "--verbose");
        assert_eq!(shown["args"][4], "notes");
        assert_eq!(shown["env"]["LOG_LEVEL"], "debug");
        assert_eq!(shown["env"]["REF"], "${OWN}");
        assert_eq!(shown["headers"]["Authorization"], "Bearer ${TOKEN}");
        assert_eq!(shown["headers"]["Accept"], "text/plain");
        assert_eq!(shown["oauth"]["client_id"], "me");
        assert_eq!(shown["client_key"], "/c.pem");
        assert_eq!(shown["auth"], "oauth");
    }

    #[test]
    fn what_comes_back_replaced_stays_what_it_was() {
        let before = example();
        let mut new = redact_entry(&before);
        new["timeout"] = 9.into();
        restore_redacted(&mut new, &before);
        let mut expected = before;
        expected["timeout"] = 9.into();
        assert_eq!(new, expected);
    }
}
