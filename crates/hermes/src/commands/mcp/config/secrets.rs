//! Secrets of new entries: under which variable of `.env` they are kept.

use hermes_config::{ServerEntry, Settings, Variables, write_variable};

use crate::{
    context::Context,
    failure::Failure,
    import::{Imported, Variable, VariableKind, resolve_name_conflicts},
};

/// Gives the variables of new servers names that nothing else uses, and drops defaults that are not needed.
pub(crate) fn assign_variables(settings: &Settings, servers: &mut [Imported]) {
    for server in &mut *servers {
        server.variables.retain(|variable| {
            variable.kind == VariableKind::Value || !is_set(&settings.variables, &variable.name)
        });
    }
    let new: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    resolve_name_conflicts(servers, |name| {
        let others = settings.servers.iter();
        let mut others = others.filter(|entry| !new.iter().any(|new| new == entry.name.as_str()));
        // A name of our own making that no other server uses is left from an earlier entry.
        let is_free = name.starts_with("MCP_") && !others.any(|entry| refers_to(entry, name));
        let value = settings.variables.get(name).filter(|_| !is_free);
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    });
}

fn is_set(variables: &Variables, name: &str) -> bool {
    variables.get(name).is_some_and(|value| !value.is_empty())
}

fn refers_to(entry: &ServerEntry, name: &str) -> bool {
    let text = entry.template.to_string();
    text.contains(&format!("${{{name}}}")) || text.contains(&format!("${{env:{name}}}"))
}

/// The home's variables with the new ones among them.
pub(crate) fn with_variables(settings: &Settings, new: &[Variable]) -> Variables {
    let new = new.iter().map(|v| (v.name.as_str(), v.value.as_str()));
    Variables::from_pairs(settings.variables.iter().chain(new))
}

/// Writes the variables to `.env` and says so, values masked.
pub(crate) fn write_variables(context: &Context, variables: &[Variable]) -> Result<(), Failure> {
    for Variable { name, value, .. } in variables {
        write_variable(&context.home, name, value)?;
        let shown = hermes_config::mask(value);
        context
            .output
            .note(format!("`{name}` ({shown}) is kept in `.env`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> Settings {
        let text = "mcp_servers: {other: {command: x, env: {A: '${MCP_SHARED_KEY}'}}}";
        let variables = [
            ("API_KEY", "present"),
            ("MCP_NEW_API_KEY", "old"),
            ("MCP_SHARED_KEY", "theirs"),
        ];
        Settings::parse(text, Variables::from_pairs(variables)).unwrap()
    }

    fn settled(name: &str, kind: VariableKind) -> Imported {
        let mut servers = [Imported {
            name: "new".into(),
            entry: json!({"command": "x", "env": {"A": format!("${{{name}}}")}}),
            variables: vec![Variable {
                name: name.into(),
                value: "mine".into(),
                kind,
            }],
            notes: Vec::new(),
        }];
        assign_variables(&settings(), &mut servers);
        let [server] = servers;
        server
    }

    #[test]
    fn a_variable_that_means_something_else_is_not_overwritten() {
        let server = settled("API_KEY", VariableKind::Value);
        assert_eq!(server.variables[0].name, "MCP_NEW_API_KEY");
        assert_eq!(server.entry["env"]["A"], "${MCP_NEW_API_KEY}");
        let server = settled("MCP_SHARED_KEY", VariableKind::Value);
        assert_eq!(server.variables[0].name, "MCP_NEW_MCP_SHARED_KEY");
    }

    #[test]
    fn a_variable_left_from_an_earlier_entry_is_taken_over() {
        let server = settled("MCP_NEW_API_KEY", VariableKind::Value);
        assert_eq!(server.variables[0].name, "MCP_NEW_API_KEY");
        assert_eq!(server.variables[0].value, "mine");
    }

    #[test]
    fn a_default_gives_way_to_what_is_set() {
        let server = settled("API_KEY", VariableKind::Default);
        assert_eq!(server.variables, []);
        assert_eq!(server.entry["env"]["A"], "${API_KEY}");
        assert_eq!(settled("LEVEL", VariableKind::Default).variables.len(), 1);
    }
}
