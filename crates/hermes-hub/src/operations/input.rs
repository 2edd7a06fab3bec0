//! The arguments of an operation: their names in both styles, their location in REST requests, and validation.

use hermes_config::nearest;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Verb, schema};
use crate::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Snake case, for tools.
    Tool,
    /// Camel case, for REST.
    Rest,
}

/// The location of an argument in a REST request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Boolean,
    List,
    Object,
    /// Any JSON value.
    Any,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name in tools.
    pub name: String,
    /// Its name in REST.
    pub rest_name: String,
    pub kind: Kind,
    pub is_required: bool,
    pub place: Place,
    pub is_for_tools: bool,
    pub schema: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    pub members: Vec<Member>,
    /// The argument that is the whole REST body.
    pub whole_body: Option<&'static str>,
    tool_schema: Map<String, Value>,
}

impl Input {
    pub(super) fn of<I: JsonSchema>(path: &str, verb: Verb) -> Self {
        let tool_schema = closed(schema::input::<I>());
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
            .map(|(name, schema)| Member {
                rest_name: camel(name),
                kind: kind(schema),
                is_required: required.contains(&name.as_str()),
                place: if path.contains(&format!("{{{name}}}"))
                    || path.contains(&format!("{{*{name}}}"))
                {
                    Place::Path
                } else if verb.has_body() {
                    Place::Body
                } else {
                    Place::Query
                },
                is_for_tools: true,
                schema: schema.clone(),
                name: name.clone(),
            })
            .collect();
        Self {
            members,
            whole_body: None,
            tool_schema,
        }
    }

    pub(super) fn move_to_query(&mut self, names: &[&str]) {
        for member in &mut self.members {
            if names.contains(&member.name.as_str()) {
                member.place = Place::Query;
            }
        }
    }

    pub(super) fn hide_from_tools(&mut self, names: &[&str]) {
        for member in &mut self.members {
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

    pub(crate) fn by_rest_name(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.rest_name == name)
    }

    /// Refuses unknown, missing and wrongly typed arguments.
    pub(crate) fn check(
        &self,
        arguments: &Map<String, Value>,
        naming: Naming,
    ) -> Result<(), Problem> {
        let spelled = |member: &Member| match naming {
            Naming::Tool => member.name.clone(),
            Naming::Rest => member.rest_name.clone(),
        };
        for (name, value) in arguments {
            let member = self.members.iter().find(|member| member.name == *name);
            let Some(member) =
                member.filter(|member| member.is_for_tools || naming == Naming::Rest)
            else {
                return Err(self.unknown(name, naming));
            };
            if let Some(wanted) = wrong_kind(member, value) {
                let name = spelled(member);
                return Err(Problem::invalid(format!("`{name}` must be {wanted}"))
                    .at(name, format!("must be {wanted}")));
            }
        }
        let is_missing = |member: &&Member| {
            member.is_required && arguments.get(&member.name).is_none_or(Value::is_null)
        };
        match self.members.iter().find(is_missing) {
            Some(member) => {
                let name = spelled(member);
                Err(Problem::invalid(format!("`{name}` is required")).at(name, "required"))
            }
            None => Ok(()),
        }
    }

    /// The problem of an unknown argument, with the nearest name.
    pub(crate) fn unknown(&self, name: &str, naming: Naming) -> Problem {
        let names = self.members.iter().filter(|member| match naming {
            Naming::Tool => member.is_for_tools,
            Naming::Rest => member.place != Place::Path,
        });
        let names: Vec<String> = names
            .map(|member| match naming {
                Naming::Tool => member.name.clone(),
                Naming::Rest => member.rest_name.clone(),
            })
            .collect();
        unknown_member(name, &names)
    }
}

/// The problem of an unknown member, with the nearest name.
pub(crate) fn unknown_member(name: &str, known: &[String]) -> Problem {
    let short: String = name.chars().take(80).collect();
    let advice = match nearest(&short, known.iter().cloned()) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None if known.is_empty() => "; none is taken here".to_owned(),
        None => format!(
            "; known are {}",
            known
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Problem::invalid(format!("unknown member `{short}`{advice}")).at(short, "unknown")
}

pub(super) fn read<I: DeserializeOwned>(arguments: Map<String, Value>) -> Result<I, Problem> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Problem::invalid(without_values(&error.to_string())))
}

/// Removes values that the caller sent from an error message of serde: they may be secrets.
pub(crate) fn without_values(message: &str) -> String {
    for (start, end, instead) in [
        ("string \"", "\", expected", "a string"),
        ("unknown variant `", "`, expected", "unknown value"),
    ] {
        if let Some(at) = message.find(start) {
            let rest = &message[at + start.len()..];
            let told = rest.rfind(end).map_or("", |end| &rest[end + 1..]);
            return format!("{}{instead}{told}", &message[..at]);
        }
    }
    message.to_owned()
}

/// `tenant_id` as `tenantId`.
pub(crate) fn camel(name: &str) -> String {
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
fn closed(mut schema: Map<String, Value>) -> Map<String, Value> {
    schema.entry("type").or_insert_with(|| "object".into());
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    schema.insert("additionalProperties".into(), false.into());
    schema
}

fn kind(schema: &Value) -> Kind {
    let word = match schema.get("type") {
        Some(Value::String(word)) => Some(word.as_str()),
        Some(Value::Array(words)) => words
            .iter()
            .filter_map(Value::as_str)
            .find(|word| *word != "null"),
        _ => None,
    };
    match word {
        Some("string") => Kind::Text,
        Some("integer") => Kind::Integer,
        Some("boolean") => Kind::Boolean,
        Some("array") => Kind::List,
        Some("object") => Kind::Object,
        _ => Kind::Any,
    }
}

/// The expected type, if the value does not have it.
fn wrong_kind(member: &Member, value: &Value) -> Option<&'static str> {
    let fits = match member.kind {
        _ if value.is_null() => true,
        Kind::Text => value.is_string(),
        Kind::Integer => value.is_u64() || value.is_i64(),
        Kind::Boolean => value.is_boolean(),
        Kind::List => value.is_array(),
        Kind::Object => value.is_object(),
        Kind::Any => true,
    };
    (!fits).then_some(match member.kind {
        Kind::Text => "a string",
        Kind::Integer => "an integer",
        Kind::Boolean => "a boolean",
        Kind::List => "an array",
        Kind::Object | Kind::Any => "an object",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_in_two_ways() {
        assert_eq!(camel("ignore_case"), "ignoreCase");
        assert_eq!(camel("displayName"), "displayName");
        assert_eq!(camel("path"), "path");
    }

    #[test]
    fn what_the_caller_sent_is_not_in_the_message() {
        let told = without_values("invalid type: string \"hunter2 \\\"x\\\"\", expected u64");
        assert_eq!(told, "invalid type: a string, expected u64");
        assert_eq!(without_values("missing field `a`"), "missing field `a`");
        assert!(!without_values("invalid value: string \"hunter2").contains("hunter"));
        let told = without_values("unknown variant `hunter2`, expected `a` or `b`");
        assert_eq!(told, "unknown value, expected `a` or `b`");
    }
}
