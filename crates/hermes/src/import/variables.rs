//! Values that go to `.env`, and their names.

use std::{borrow::BorrowMut, collections::HashMap, fmt};

use serde_json::Value;

use super::Imported;

/// A line for `.env`.
#[derive(Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// Its value, often a secret.
    pub value: String,
    /// Whether it has to be written.
    pub kind: VariableKind,
}

/// What a variable is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableKind {
    /// The value itself, which the entry cannot do without.
    Value,
    /// A default: what the variable says already is better.
    Default,
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=***", self.name)
    }
}

impl Variable {
    /// How an entry refers to it.
    pub fn reference(&self) -> String {
        format!("${{{}}}", self.name)
    }
}

/// Gives variables a name of their own where two servers, or a server and `.env`, mean different values by one name.
/// `known` is what `.env` says already.
pub fn resolve_name_conflicts<T: BorrowMut<Imported>>(
    servers: impl IntoIterator<Item = T>,
    known: impl Fn(&str) -> Option<String>,
) {
    let mut taken: HashMap<String, String> = HashMap::new();
    for mut server in servers {
        let server = server.borrow_mut();
        for variable in &mut server.variables {
            let is_free = |name: &str| {
                let present = taken.get(name).cloned().or_else(|| known(name));
                present.is_none_or(|present| present == variable.value)
            };
            if !is_free(&variable.name) {
                let own = variable_name(&["mcp", &server.name, &variable.name]);
                let numbered = (2..).map(|number| format!("{own}_{number}"));
                let free = std::iter::once(own.clone())
                    .chain(numbered)
                    .find(|name| is_free(name));
                let free = free.unwrap_or(own);
                let old = variable.reference();
                variable.name = free;
                replace_in(&mut server.entry, &old, &variable.reference());
            }
            taken.insert(variable.name.clone(), variable.value.clone());
        }
    }
}

/// `["mcp", "my-server", "X-Api-Key"]` → `MCP_MY_SERVER_X_API_KEY`.
pub(crate) fn variable_name(parts: &[&str]) -> String {
    let mut name = String::new();
    for part in parts {
        for character in part.chars() {
            if character.is_ascii_alphanumeric() {
                name.push(character.to_ascii_uppercase());
            } else if !name.ends_with('_') {
                name.push('_');
            }
        }
        if !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_matches('_');
    match name.chars().next() {
        None => "MCP_VALUE".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("MCP_{name}"),
        Some(_) => name.to_owned(),
    }
}

/// Whether a line of `.env` can have this name.
pub(super) fn is_variable_name(name: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    name.chars().all(is_part) && name.starts_with(|character: char| !character.is_ascii_digit())
}

fn replace_in(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) => *text = text.replace(old, new),
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| replace_in(value, old, new)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|value| replace_in(value, old, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(name: &str, value: &str) -> Imported {
        Imported {
            name: name.into(),
            entry: json!({"command": "x", "env": {"API_KEY": "${API_KEY}"}}),
            variables: vec![Variable {
                name: "API_KEY".into(),
                value: value.into(),
                kind: VariableKind::Value,
            }],
            notes: Vec::new(),
        }
    }

    #[test]
    fn names_are_upper_case_words() {
        assert_eq!(
            variable_name(&["mcp", "my-api.v2", "X-Api-Key"]),
            "MCP_MY_API_V2_X_API_KEY"
        );
        assert_eq!(variable_name(&["2fa--code"]), "MCP_2FA_CODE");
        assert_eq!(variable_name(&["–"]), "MCP_VALUE");
    }

    #[test]
    fn equal_values_share_a_variable() {
        let mut servers = [server("a", "one"), server("b", "one")];
        resolve_name_conflicts(&mut servers, |_| None);
        assert_eq!(servers[1], server("b", "one"));
    }

    #[test]
    fn different_values_get_a_variable_each() {
        let mut servers = [server("a", "one"), server("b", "two"), server("b", "three")];
        resolve_name_conflicts(&mut servers, |_| None);
        assert_eq!(servers[0], server("a", "one"));
        assert_eq!(servers[1].entry["env"]["API_KEY"], "${MCP_B_API_KEY}");
        assert_eq!(servers[1].variables[0].value, "two");
        assert_eq!(servers[2].entry["env"]["API_KEY"], "${MCP_B_API_KEY_2}");
    }

    #[test]
    fn what_env_says_already_is_not_overwritten() {
        let mut servers = [server("a", "new")];
        resolve_name_conflicts(&mut servers, |name| {
            (name == "API_KEY").then(|| "old".to_owned())
        });
        assert_eq!(servers[0].variables[0].name, "MCP_A_API_KEY");
    }

    #[test]
    fn a_value_is_not_printed() {
        let variable = Variable {
            name: "API_KEY".into(),
            value: "hunter22".into(),
            kind: VariableKind::Value,
        };
        assert_eq!(format!("{variable:?}"), "API_KEY=***");
    }
}
