//! Forms that MCP servers ask people to fill in during a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A form that an MCP server asks to be filled in, or a page that it asks to be opened. All of it comes from that server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestedForm {
    /// The server that asks.
    pub server: String,
    /// What it says.
    pub message: String,
    /// A JSON schema of an object whose members are texts, numbers, yes or no, or choices.
    pub schema: Map<String, Value>,
    /// The address of a page to open. Then there are no fields, and a plain yes says that it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An answer that a form does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {reason}")]
pub struct WrongAnswer {
    pub field: String,
    /// A phrase that follows the field's name.
    pub reason: String,
}

impl RequestedForm {
    /// Visits every text, so that secrets can be removed.
    pub fn visit_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(&mut self.server);
        visit(&mut self.message);
        if let Some(url) = &mut self.url {
            visit(url);
        }
        for value in self.schema.values_mut() {
            visit_value(value, visit);
        }
    }

    /// Checks answers before somebody decides with them for good. The agent checks patterns too.
    pub fn check(&self, content: &Map<String, Value>) -> Result<(), WrongAnswer> {
        let wrong = |field: &str, reason: &str| WrongAnswer {
            field: field.to_owned(),
            reason: reason.to_owned(),
        };
        let fields = self.schema.get("properties").and_then(Value::as_object);
        let is_known = |name: &str| fields.is_some_and(|fields| fields.contains_key(name));
        if let Some(unknown) = content.keys().find(|name| !is_known(name)) {
            return Err(wrong(unknown, "is not a field of this form"));
        }
        let required = self.schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        for (name, schema) in fields.into_iter().flatten() {
            match content.get(name) {
                None | Some(Value::Null) if is_required(name) => {
                    return Err(wrong(name, "must be filled in"));
                }
                None | Some(Value::Null) => {}
                Some(value) => {
                    check_value(schema, value).map_err(|reason| wrong(name, &reason))?;
                }
            }
        }
        Ok(())
    }
}

/// Visits every text of a value.
pub(crate) fn visit_value(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter_mut().for_each(|item| visit_value(item, visit)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| visit_value(member, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Why a value is not one of this schema. One that is not the schema of a form's field takes any.
fn check_value(schema: &Value, value: &Value) -> Result<(), String> {
    match schema["type"].as_str() {
        Some("string") => check_text(schema, value),
        Some("boolean") if !value.is_boolean() => Err("must be true or false".into()),
        Some("integer") if value.as_i64().is_none() => Err("must be a whole number".into()),
        Some("number") if !value.is_number() => Err("must be a number".into()),
        Some("integer" | "number") => check_range(schema, value.as_f64()),
        Some("array") => {
            let items = value.as_array().ok_or("must be a list")?;
            items
                .iter()
                .try_for_each(|item| check_text(&schema["items"], item))?;
            check_size(schema, "minItems", "maxItems", items.len(), "choices")
        }
        _ => Ok(()),
    }
}

fn check_text(schema: &Value, value: &Value) -> Result<(), String> {
    let text = value.as_str().ok_or("must be a text")?;
    let choices = ["oneOf", "anyOf"].iter().find_map(|word| schema.get(*word));
    let is_choice = match (&schema["enum"], choices) {
        (Value::Array(values), _) => values.contains(value),
        (_, Some(Value::Array(shapes))) => shapes.iter().any(|shape| shape["const"] == *value),
        _ => true,
    };
    if !is_choice {
        return Err("is not one of the choices".into());
    }
    let length = text.chars().count();
    check_size(schema, "minLength", "maxLength", length, "characters")?;
    match schema["format"].as_str() {
        Some("email") if !is_address(text, '@') => Err("must be an e-mail address".into()),
        Some("uri") if !is_address(text, ':') => Err("must be an address with a scheme".into()),
        Some("date") if !is_date(text) => Err("must be a date, like 2026-07-28".into()),
        _ => Ok(()),
    }
}

fn check_size(
    schema: &Value,
    least: &str,
    most: &str,
    size: usize,
    of_what: &str,
) -> Result<(), String> {
    let bound = |word: &str| usize::try_from(schema[word].as_u64()?).ok();
    match (bound(least), bound(most)) {
        (Some(least), _) if size < least => Err(format!("needs at least {least} {of_what}")),
        (_, Some(most)) if size > most => Err(format!("takes at most {most} {of_what}")),
        _ => Ok(()),
    }
}

fn check_range(schema: &Value, number: Option<f64>) -> Result<(), String> {
    let Some(number) = number else { return Ok(()) };
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        (Some(least), _) if number < least => Err(format!("must be at least {least}")),
        (_, Some(most)) if number > most => Err(format!("must be at most {most}")),
        _ => Ok(()),
    }
}

/// Whether there is something on both sides of this mark, and no blank.
fn is_address(text: &str, mark: char) -> bool {
    let parts = text.split_once(mark);
    parts.is_some_and(|(before, after)| !before.is_empty() && !after.is_empty())
        && !text.contains(char::is_whitespace)
}

fn is_date(text: &str) -> bool {
    let digits = |part: Option<&str>, count: usize| {
        part.is_some_and(|part| part.len() == count && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut parts = text.split('-');
    digits(parts.next(), 4)
        && digits(parts.next(), 2)
        && digits(parts.next(), 2)
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("{other}"),
        }
    }

    fn form() -> RequestedForm {
        RequestedForm {
            server: "s".into(),
            message: "m".into(),
            schema: object(json!({
                "type": "object",
                "required": ["name", "sure"],
                "properties": {
                    "name": {"type": "string", "minLength": 2, "maxLength": 5},
                    "sure": {"type": "boolean"},
                    "age": {"type": "integer", "minimum": 0, "maximum": 150},
                    "size": {"type": "number"},
                    "mail": {"type": "string", "format": "email"},
                    "day": {"type": "string", "format": "date"},
                    "page": {"type": "string", "format": "uri"},
                    "colour": {"type": "string", "enum": ["red", "blue"]},
                    "shape": {"type": "string", "oneOf": [{"const": "o", "title": "round"}]},
                    "days": {"type": "array", "maxItems": 1, "items": {"type": "string", "enum": ["mo", "tu"]}},
                },
            })),
            url: None,
        }
    }

    #[test]
    fn answers_are_taken_as_the_schema_says() {
        let whole = json!({"name": "Ada", "sure": true, "age": 36, "size": 1.5, "mail": "a@b.c", "day": "2026-07-28",
            "page": "https://a", "colour": "red", "shape": "o", "days": ["mo"]});
        assert_eq!(form().check(&object(whole.clone())), Ok(()));
        let few = json!({"name": "Ada", "sure": false, "age": null});
        assert_eq!(form().check(&object(few)), Ok(()));
        for (field, value) in [
            ("name", json!(null)),
            ("name", json!("A")),
            ("name", json!("Adalbert")),
            ("name", json!(5)),
            ("sure", json!("yes")),
            ("age", json!(1.5)),
            ("age", json!(-1)),
            ("age", json!(151)),
            ("size", json!("big")),
            ("mail", json!("nobody")),
            ("day", json!("tomorrow")),
            ("page", json!("a b:c")),
            ("colour", json!("green")),
            ("shape", json!("round")),
            ("days", json!(["mo", "tu"])),
            ("days", json!(["we"])),
            ("days", json!("mo")),
            ("unknown", json!(1)),
        ] {
            let mut answers = object(whole.clone());
            answers.insert(field.into(), value.clone());
            let wrong = form().check(&answers).expect_err(field);
            assert_eq!(wrong.field, field, "{value}");
        }
    }

    #[test]
    fn a_form_without_fields_takes_no_answers() {
        let empty = RequestedForm {
            schema: Map::new(),
            ..form()
        };
        assert_eq!(empty.check(&Map::new()), Ok(()));
        assert!(empty.check(&object(json!({"a": 1}))).is_err());
    }
}
