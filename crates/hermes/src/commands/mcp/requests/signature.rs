//! A tool or a prompt as people read it: its name, what it does, and what it takes.

use std::fmt::Write as _;

use serde_json::Value;

use crate::output::{Output, wrap};

/// How deep members of members are listed.
const MAX_DEPTH: usize = 3;
/// Where no terminal says how long a line may be.
const DEFAULT_COLUMNS: usize = 100;

struct SignatureArgument {
    name: String,
    kind: String,
    is_required: bool,
    notes: String,
}

/// The signature of a tool (`inputSchema`) or a prompt (`arguments`), in lines.
pub(crate) fn render_signature(output: Output, title: &str, definition: &Value) -> String {
    let columns = output.columns().unwrap_or(DEFAULT_COLUMNS);
    let mut text = format!("{title}\n");
    let description = definition["description"].as_str().unwrap_or_default();
    for line in description.trim().lines() {
        for line in wrap(line.trim_end(), columns.saturating_sub(2)) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let arguments = arguments(definition);
    if arguments.is_empty() {
        text.push_str("\nIt takes no arguments.\n");
        return text;
    }
    text.push_str("\nArguments:\n");
    let width = |of: fn(&SignatureArgument) -> &str| {
        let widths = arguments
            .iter()
            .map(|argument| of(argument).chars().count());
        widths.max().unwrap_or(0)
    };
    let (names, kinds) = (width(|a| &a.name), width(|a| &a.kind).min(24));
    for argument in &arguments {
        let SignatureArgument { name, kind, .. } = argument;
        let need = if argument.is_required {
            "required"
        } else {
            "optional"
        };
        let line = format!("  {name:<names$}  {kind:<kinds$}  {need}");
        let indent = line.chars().count() + 2;
        let room = columns.saturating_sub(indent);
        if argument.notes.is_empty() {
            let _ = writeln!(text, "{line}");
        } else if room < 24 {
            let _ = writeln!(text, "{line}");
            for note in wrap(&argument.notes, columns.saturating_sub(6)) {
                let _ = writeln!(text, "      {note}");
            }
        } else {
            let mut start = format!("{line}  ");
            for note in wrap(&argument.notes, room) {
                let _ = writeln!(text, "{start}{note}");
                start = " ".repeat(indent);
            }
        }
    }
    text
}

fn arguments(definition: &Value) -> Vec<SignatureArgument> {
    let mut arguments = Vec::new();
    let schema = &definition["inputSchema"];
    members(schema, schema, "", 1, &mut arguments);
    let list = definition["arguments"].as_array().into_iter().flatten();
    arguments.extend(list.map(|argument| SignatureArgument {
        name: argument["name"].as_str().unwrap_or_default().to_owned(),
        kind: "string".to_owned(),
        is_required: argument["required"].as_bool().unwrap_or(false),
        notes: describe_constraints(argument),
    }));
    arguments
}

/// The members of an object's schema, with those of objects in it as `outer.inner`.
fn members(
    root: &Value,
    schema: &Value,
    outer: &str,
    depth: usize,
    arguments: &mut Vec<SignatureArgument>,
) {
    let required = schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let properties = schema["properties"].as_object();
    for (name, member) in properties.into_iter().flatten() {
        let member = resolve_reference(root, member);
        let path = format!("{outer}{name}");
        arguments.push(SignatureArgument {
            kind: describe_type(root, member),
            is_required: is_required(name),
            notes: describe_constraints(member),
            name: path.clone(),
        });
        let inner = if member["items"].is_object() {
            (resolve_reference(root, &member["items"]), "[].")
        } else {
            (member, ".")
        };
        if depth < MAX_DEPTH {
            members(
                root,
                inner.0,
                &format!("{path}{}", inner.1),
                depth + 1,
                arguments,
            );
        }
    }
}

/// What a reference inside the same schema leads to.
fn resolve_reference<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"]
        .as_str()
        .and_then(|text| text.strip_prefix('#'));
    reference
        .and_then(|pointer| root.pointer(pointer))
        .unwrap_or(schema)
}

/// The type in a word or two.
fn describe_type(root: &Value, schema: &Value) -> String {
    let schema = resolve_reference(root, schema);
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
        return choices.join(" | ");
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = schema[key].as_array() {
            let mut kinds: Vec<String> = branches
                .iter()
                .map(|branch| describe_type(root, branch))
                .collect();
            kinds.dedup();
            return kinds.join(" | ");
        }
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match &schema["items"] {
            Value::Object(_) => {
                let item = describe_type(root, &schema["items"]);
                if item.contains(' ') {
                    format!("({item})[]")
                } else {
                    format!("{item}[]")
                }
            }
            _ => "array".to_owned(),
        },
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" | ")
        }
        _ if schema["properties"].is_object() => "object".to_owned(),
        _ => "any".to_owned(),
    }
}

/// The description, and what else a value has to keep to.
fn describe_constraints(schema: &Value) -> String {
    let description = schema["description"].as_str().unwrap_or_default();
    let words: Vec<&str> = description.split_whitespace().collect();
    let mut notes = Vec::new();
    if !words.is_empty() {
        notes.push(words.join(" "));
    }
    if let Some(default) = schema.get("default") {
        notes.push(format!("(default: {default})"));
    }
    let limits: Vec<String> = [
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "format",
    ]
    .into_iter()
    .filter_map(|key| schema.get(key).map(|value| format!("{key} {value}")))
    .collect();
    if !limits.is_empty() {
        notes.push(format!("({})", limits.join(", ")));
    }
    notes.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_signature_names_type_need_default_and_description() {
        let definition = json!({
            "name": "search",
            "description": "Finds things.\nQuickly.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for", "minLength": 1},
                    "limit": {"type": "integer", "default": 10, "maximum": 100},
                    "kinds": {"type": "array", "items": {"enum": ["a", "b"]}},
                    "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
                    "where": {"$ref": "#/$defs/Place"},
                },
                "required": ["query"],
                "$defs": {"Place": {"type": "object", "properties": {"path": {"type": ["string", "null"]}}, "required": ["path"]}},
            },
        });
        insta::assert_snapshot!(render_signature(Output::new(true), "s.search", &definition));
    }

    #[test]
    fn a_prompt_has_a_signature_too() {
        let definition = json!({
            "name": "greet",
            "arguments": [{"name": "name", "description": "Whom", "required": true}, {"name": "tone"}],
        });
        insta::assert_snapshot!(render_signature(Output::new(true), "s greet", &definition));
        let nothing = render_signature(
            Output::new(true),
            "s.t",
            &json!({"inputSchema": {"type": "object"}}),
        );
        assert_eq!(nothing, "s.t\n\nIt takes no arguments.\n");
    }
}
