//! The built-in server, which stands in where no server is configured.

use std::path::PathBuf;

use hermes_config::{ServerEntry, Settings};
use serde_json::json;

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
