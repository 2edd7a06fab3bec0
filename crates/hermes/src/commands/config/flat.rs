//! A document as lines of a key and a value, secrets masked.

use hermes_config::{Redactor, mask};
use serde_json::{Map, Value};

/// Parts of names whose values are not shown.
const SECRET_NAME_PARTS: [&str; 7] = [
    "api_key",
    "apikey",
    "token",
    "secret",
    "password",
    "authorization",
    "passphrase",
];

/// Every value that has none below it, by its dotted key, in the order of the document. Lists are values.
pub(super) fn flatten(document: &Value) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    collect(String::new(), document, &mut values);
    values
}

fn collect(key: String, value: &Value, values: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                collect(key, value, values);
            }
        }
        Value::Null if key.is_empty() => {}
        value => values.push((key, value.clone())),
    }
}

/// Whether the value of a key is not to be shown.
pub(super) fn is_secret(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key).to_ascii_lowercase();
    // Names of variables and paths are none.
    let is_reference = ["_env", "_file", "_path", "max_tokens"];
    !is_reference.iter().any(|end| last.ends_with(end))
        && SECRET_NAME_PARTS
            .iter()
            .any(|part| last.contains(part) && last != "max_tokens")
}

/// The document without what is secret in it. References are none.
pub(super) fn mask_secrets(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), mask_secrets(name, value)))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => items.iter().map(|item| mask_secrets(key, item)).collect(),
        Value::String(text) if is_secret(key) && !text.is_empty() && !text.contains("${") => {
            mask(text).into()
        }
        Value::String(text) => Redactor::default().redact(text).into(),
        Value::Number(_) if is_secret(key) => "***".into(),
        other => other.clone(),
    }
}

/// A value as it is shown: text without quotes, unless it is empty.
pub(super) fn format_value(key: &str, value: &Value) -> String {
    match mask_secrets(key, value) {
        Value::String(text) if !text.is_empty() => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_shown_key_by_key_without_its_secrets() {
        let document = json!({
            "model": {"default": "gpt-5", "api_key": "sk-abcdefghijklmnop", "key_env": "OPENAI_API_KEY"},
            "providers": {},
            "mcp_servers": {"a": {"headers": {"Authorization": "Bearer ${T}"}, "args": ["-y", "x"]}},
            "auxiliary": {"max_tokens": 5, "token": 123},
        });
        let lines: Vec<String> = flatten(&document)
            .iter()
            .map(|(key, value)| format!("{key} = {}", format_value(key, value)))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        model.default = gpt-5
        model.api_key = sk-a***mnop
        model.key_env = OPENAI_API_KEY
        providers = {}
        mcp_servers.a.headers.Authorization = Bearer ${T}
        mcp_servers.a.args = ["-y","x"]
        auxiliary.max_tokens = 5
        auxiliary.token = ***
        "#);
        let masked = mask_secrets("", &document).to_string();
        assert!(!masked.contains("abcdefghijkl"), "{masked}");
    }
}
