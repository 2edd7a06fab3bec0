//! Servers that `hermes mcp add --preset` knows by name.

use serde_json::{Value, json};

/// A server that needs nothing but its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
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
    pub fn entry(&self) -> Value {
        json!({"command": self.command, "args": self.args})
    }
}

pub const PRESETS: [Preset; 1] = [Preset {
    name: "codex",
    description: "OpenAI Codex as a tool: starts and continues coding sessions",
    command: "codex",
    args: &["mcp-server"],
}];

/// The preset of that name.
pub fn find_preset(name: &str) -> Option<&'static Preset> {
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
