//! The part of a tool that its pin is about, in a form that depends on nothing but its content.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::catalog::NativeTool;

/// Name, title, description, schemas and annotations, keys in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    value: Value,
    sha256: String,
}

impl Definition {
    /// That of a tool as its server listed it.
    pub fn of(tool: &NativeTool) -> Self {
        let tool = &tool.definition;
        let value = canonical(&json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema,
            "annotations": tool.annotations,
        }));
        let digest = Sha256::digest(value.to_string().as_bytes());
        let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        let sha256 = digits
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect();
        Self { value, sha256 }
    }

    /// 64 hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The definition itself; what the server left out is `null`.
    pub fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn into_value(self) -> Value {
        self.value
    }
}

/// The same value with the keys of every object in order.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members = members.into_iter();
            members
                .map(|(key, value)| (key.clone(), canonical(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        other => other.clone(),
    }
}
