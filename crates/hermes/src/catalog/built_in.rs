//! The built-in server, which stands in where no server is configured, and the servers that `add --preset` knows.

use std::path::PathBuf;

use hermes_config::{ServerEntry, Settings};
use serde_json::{Value, json};

/// Its name.
pub(crate) const NAME: &str = "demo";

/// How it is started: by this program.
#[derive(Debug, Clone)]
pub(crate) struct BuiltIn {
    program: PathBuf,
}

impl BuiltIn {
    /// Of the program that runs, if its path is known.
    pub(crate) fn of_this_program() -> Option<Self> {
        let program = std::env::current_exe().ok()?;
        Some(Self { program })
    }

    /// Adds it, in memory only, if no server is configured. Returns whether it was added.
    pub(crate) fn add_to(&self, settings: &mut Settings) -> bool {
        if !settings.servers.is_empty() {
            return false;
        }
        let entry = json!({"command": self.program, "args": ["mcp", "demo"]});
        let (entry, _) = ServerEntry::parse(NAME, entry, &settings.variables);
        settings.servers.push(entry);
        true
    }
}

/// Whether there is nothing but the built-in server.
pub(crate) fn is_alone(settings: &Settings) -> bool {
    match settings.servers.as_slice() {
        [entry] => entry.name.as_str() == NAME && entry.template["args"] == json!(["mcp", "demo"]),
        _ => false,
    }
}

/// A server that needs nothing but its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preset {
    /// What the user says.
    pub name: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
    /// The executable.
    pub command: &'static str,
    pub args: &'static [&'static str],
}

impl Preset {
    /// The entry for `mcp_servers`.
    pub(crate) fn entry(&self) -> Value {
        json!({"command": self.command, "args": self.args})
    }
}

pub(crate) const PRESETS: [Preset; 1] = [Preset {
    name: "codex",
    description: "OpenAI Codex as a tool: starts and continues coding sessions",
    command: "codex",
    args: &["mcp-server"],
}];

/// The preset of that name.
pub(crate) fn find_preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn codex_serves_mcp_by_its_own_command() {
        let entry = super::find_preset("codex").map(super::Preset::entry);
        assert_eq!(
            entry,
            Some(json!({"command": "codex", "args": ["mcp-server"]}))
        );
        assert_eq!(super::find_preset("other"), None);
    }
}
