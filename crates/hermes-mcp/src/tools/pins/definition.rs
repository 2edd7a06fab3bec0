//! The part of a tool that its pin is about, in a form that depends on nothing but its content, and what is different
//! between two of them, for people to read.

use std::fmt;

use hermes_config::to_hex;
use rmcp::model::Tool;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::tools::catalog::NativeTool;

/// Room for the definition of a usual tool.
const TYPICAL_BYTES: usize = 1024;

/// Name, title, description, schemas and annotations as JSON without spaces, keys in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    text: String,
}

impl ToolDefinition {
    /// That of a tool as its server listed it.
    pub fn from_tool(tool: &NativeTool) -> Self {
        let Tool {
            name,
            title,
            description,
            input_schema,
            output_schema,
            annotations,
            ..
        } = &tool.definition;
        let mut text = Vec::with_capacity(TYPICAL_BYTES);
        text.extend_from_slice(b"{\"annotations\":");
        match annotations {
            Some(annotations) => {
                let value = serde_json::to_value(annotations).unwrap_or_default();
                write_value(&mut text, &value);
            }
            None => text.extend_from_slice(b"null"),
        }
        text.extend_from_slice(b",\"description\":");
        write_plain(&mut text, description);
        text.extend_from_slice(b",\"inputSchema\":");
        write_object(&mut text, input_schema);
        text.extend_from_slice(b",\"name\":");
        write_plain(&mut text, name);
        text.extend_from_slice(b",\"outputSchema\":");
        match output_schema {
            Some(schema) => write_object(&mut text, schema),
            None => text.extend_from_slice(b"null"),
        }
        text.extend_from_slice(b",\"title\":");
        write_plain(&mut text, title);
        text.push(b'}');
        // JSON is always Unicode.
        let text = String::from_utf8(text).unwrap_or_default();
        Self { text }
    }

    /// 64 hexadecimal digits.
    pub fn sha256(&self) -> String {
        to_hex(&Sha256::digest(&self.text))
    }

    /// The definition itself; what the server left out is `null`.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The text that the hash is of.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Writes what has no members: a text, a number, or nothing.
fn write_plain(text: &mut Vec<u8>, value: &impl Serialize) {
    // Such values can always be written to memory.
    let _ = serde_json::to_writer(text, value);
}

fn write_value(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => write_object(text, members),
        Value::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_value(text, item);
            }
            text.push(b']');
        }
        plain => write_plain(text, plain),
    }
}

fn write_object(text: &mut Vec<u8>, members: &Map<String, Value>) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_unstable_by_key(|(key, _)| *key);
    text.push(b'{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write_plain(text, key);
        text.push(b':');
        write_value(text, value);
    }
    text.push(b'}');
}

/// The members that differ, in the order of the definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DefinitionDiff {
    members: Vec<ChangedMember>,
}

/// One member that differs. What is not there is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedMember {
    /// Where it is: `inputSchema.properties.path`.
    pub place: String,
    /// What was accepted.
    pub before: Option<Value>,
    /// What it is now.
    pub after: Option<Value>,
}

impl DefinitionDiff {
    pub(super) fn between(before: &Value, after: &Value) -> Self {
        let mut difference = Self::default();
        difference.compare("", Some(before), Some(after));
        difference
    }

    /// Each member that differs.
    pub fn members(&self) -> &[ChangedMember] {
        &self.members
    }

    fn compare(&mut self, path: &str, before: Option<&Value>, after: Option<&Value>) {
        let is_there = |value: &&Value| !value.is_null();
        let (before, after) = (before.filter(is_there), after.filter(is_there));
        if before == after {
            return;
        }
        if let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) {
            let gone = old.keys().filter(|key| !new.contains_key(*key));
            for key in new.keys().chain(gone) {
                let path = match path {
                    "" => key.clone(),
                    _ => format!("{path}.{key}"),
                };
                self.compare(&path, old.get(key), new.get(key));
            }
            return;
        }
        self.members.push(ChangedMember {
            place: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        });
    }
}

/// Lines with `-` for what was and `+` for what is. Characters that cannot be seen are spelled out, since they are how
/// instructions are hidden from people.
impl fmt::Display for DefinitionDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, member) in self.members.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:", member.place.escape_debug())?;
            for (sign, value) in [('-', &member.before), ('+', &member.after)] {
                match value {
                    Some(Value::String(text)) => write!(f, "\n  {sign} {text:?}")?,
                    Some(other) => write!(f, "\n  {sign} {}", other.to_string().escape_debug())?,
                    None => {}
                }
            }
        }
        Ok(())
    }
}
