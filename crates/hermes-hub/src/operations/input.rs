//! The arguments of an operation: their names in both styles, their location in REST requests, and validation.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::HttpMethod;
use crate::{
    Problem,
    api_types::{
        problem::{strip_values, unknown_member},
        schema,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamingStyle {
    /// Snake case, for tools.
    Tool,
    /// Camel case, for REST.
    Rest,
}

/// The location of an argument in a REST request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentLocation {
    Path,
    Query,
    Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    Text,
    Integer,
    Boolean,
    List,
    Object,
    /// Any JSON value.
    Any,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// Its name in tools.
    pub name: String,
    /// Its name in REST.
    pub rest_name: String,
    pub kind: ArgumentKind,
    pub is_required: bool,
    pub location: ArgumentLocation,
    pub is_for_tools: bool,
    pub schema: Value,
}

/// A REST body that is not JSON. The other arguments are in the query then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesBody {
    /// The argument, which has the bytes in base64.
    pub member: &'static str,
    pub media_types: &'static [&'static str],
}

#[derive(Debug, Clone, PartialEq)]
pub struct OperationInput {
    pub arguments: Vec<Argument>,
    /// The argument that is the whole REST body.
    pub whole_body: Option<&'static str>,
    /// Whether the whole body can be a tenant's document in YAML.
    pub takes_yaml: bool,
    /// The argument that a REST body of another media type becomes.
    pub bytes_body: Option<BytesBody>,
    tool_schema: Map<String, Value>,
}

impl OperationInput {
    pub(super) fn for_type<I: JsonSchema>(path: &str, verb: HttpMethod) -> Self {
        let tool_schema = close_schema(schema::input_schema::<I>());
        let required: Vec<&str> = tool_schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = tool_schema.get("properties").and_then(Value::as_object);
        let members = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| Argument {
                rest_name: to_camel_case(name),
                kind: argument_kind(schema),
                is_required: required.contains(&name.as_str()),
                location: if path.contains(&format!("{{{name}}}"))
                    || path.contains(&format!("{{*{name}}}"))
                {
                    ArgumentLocation::Path
                } else if verb.has_body() {
                    ArgumentLocation::Body
                } else {
                    ArgumentLocation::Query
                },
                is_for_tools: true,
                schema: schema.clone(),
                name: name.clone(),
            })
            .collect();
        Self {
            arguments: members,
            whole_body: None,
            takes_yaml: false,
            bytes_body: None,
            tool_schema,
        }
    }

    pub(super) fn move_to_query(&mut self, names: &[&str]) {
        for member in &mut self.arguments {
            if names.contains(&member.name.as_str()) {
                member.location = ArgumentLocation::Query;
            }
        }
    }

    pub(super) fn hide_from_tools(&mut self, names: &[&str]) {
        for member in &mut self.arguments {
            member.is_for_tools &= !names.contains(&member.name.as_str());
        }
        if let Some(properties) = self
            .tool_schema
            .get_mut("properties")
            .and_then(Value::as_object_mut)
        {
            properties.retain(|name, _| !names.contains(&name.as_str()));
        }
    }

    pub fn tool_schema(&self) -> &Map<String, Value> {
        &self.tool_schema
    }

    pub(crate) fn by_rest_name(&self, name: &str) -> Option<&Argument> {
        self.arguments
            .iter()
            .find(|member| member.rest_name == name)
    }

    /// Refuses unknown, missing and wrongly typed arguments.
    pub(crate) fn check(
        &self,
        arguments: &Map<String, Value>,
        naming: NamingStyle,
    ) -> Result<(), Problem> {
        let spelled = |member: &Argument| match naming {
            NamingStyle::Tool => member.name.clone(),
            NamingStyle::Rest => member.rest_name.clone(),
        };
        for (name, value) in arguments {
            let member = self.arguments.iter().find(|member| member.name == *name);
            let Some(member) =
                member.filter(|member| member.is_for_tools || naming == NamingStyle::Rest)
            else {
                return Err(self.unknown_argument(name, naming));
            };
            if let Some(wanted) = kind_mismatch(member, value) {
                let name = spelled(member);
                return Err(Problem::invalid(format!("`{name}` must be {wanted}"))
                    .with_detail(name, format!("must be {wanted}")));
            }
        }
        let is_missing = |member: &&Argument| {
            member.is_required && arguments.get(&member.name).is_none_or(Value::is_null)
        };
        match self.arguments.iter().find(is_missing) {
            Some(member) => {
                let name = spelled(member);
                Err(Problem::invalid(format!("`{name}` is required")).with_detail(name, "required"))
            }
            None => Ok(()),
        }
    }

    /// The problem of an unknown argument, with the nearest name.
    pub(crate) fn unknown_argument(&self, name: &str, naming: NamingStyle) -> Problem {
        let names = self.arguments.iter().filter(|member| match naming {
            NamingStyle::Tool => member.is_for_tools,
            NamingStyle::Rest => member.location != ArgumentLocation::Path,
        });
        let names: Vec<String> = names
            .map(|member| match naming {
                NamingStyle::Tool => member.name.clone(),
                NamingStyle::Rest => member.rest_name.clone(),
            })
            .collect();
        unknown_member(name, &names)
    }
}

/// The problem of an unknown member, with the nearest name.
pub(super) fn deserialize_arguments<I: DeserializeOwned>(
    arguments: Map<String, Value>,
) -> Result<I, Problem> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Problem::invalid(strip_values(&error.to_string())))
}

/// `tenant_id` as `tenantId`.
pub(crate) fn to_camel_case(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len());
    let mut raises = false;
    for letter in name.chars() {
        match letter {
            '_' => raises = true,
            _ if std::mem::take(&mut raises) => spelled.extend(letter.to_uppercase()),
            _ => spelled.push(letter),
        }
    }
    spelled
}

/// Sets `additionalProperties: false`.
fn close_schema(mut schema: Map<String, Value>) -> Map<String, Value> {
    schema.entry("type").or_insert_with(|| "object".into());
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    schema.insert("additionalProperties".into(), false.into());
    schema
}

fn argument_kind(schema: &Value) -> ArgumentKind {
    let word = match schema.get("type") {
        Some(Value::String(word)) => Some(word.as_str()),
        Some(Value::Array(words)) => words
            .iter()
            .filter_map(Value::as_str)
            .find(|word| *word != "null"),
        _ => None,
    };
    match word {
        Some("string") => ArgumentKind::Text,
        Some("integer") => ArgumentKind::Integer,
        Some("boolean") => ArgumentKind::Boolean,
        Some("array") => ArgumentKind::List,
        Some("object") => ArgumentKind::Object,
        _ => ArgumentKind::Any,
    }
}

/// The expected type, if the value does not have it.
fn kind_mismatch(member: &Argument, value: &Value) -> Option<&'static str> {
    let fits = match member.kind {
        _ if value.is_null() => true,
        ArgumentKind::Text => value.is_string(),
        ArgumentKind::Integer => value.is_u64() || value.is_i64(),
        ArgumentKind::Boolean => value.is_boolean(),
        ArgumentKind::List => value.is_array(),
        ArgumentKind::Object => value.is_object(),
        ArgumentKind::Any => true,
    };
    (!fits).then_some(match member.kind {
        ArgumentKind::Text => "a string",
        ArgumentKind::Integer => "an integer",
        ArgumentKind::Boolean => "a boolean",
        ArgumentKind::List => "an array",
        ArgumentKind::Object | ArgumentKind::Any => "an object",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_in_two_ways() {
        assert_eq!(to_camel_case("ignore_case"), "ignoreCase");
        assert_eq!(to_camel_case("displayName"), "displayName");
        assert_eq!(to_camel_case("path"), "path");
    }

    #[test]
    fn what_the_caller_sent_is_not_in_the_message() {
        let message = strip_values("invalid type: string \"hunter2 \\\"x\\\"\", expected u64");
        assert_eq!(message, "invalid type: a string, expected u64");
        assert_eq!(strip_values("missing field `a`"), "missing field `a`");
        assert!(!strip_values("invalid value: string \"hunter2").contains("hunter"));
        let message = strip_values("unknown variant `hunter2`, expected `a` or `b`");
        assert_eq!(message, "unknown value, expected `a` or `b`");
    }
}
