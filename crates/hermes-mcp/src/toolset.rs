//! Which servers' tools a platform gets: the toolsets `mcp-<server>`.

use std::sync::Arc;

use hermes_config::{ServerName, settings::ToolsetSettings};

use crate::registry::{RegisteredTool, Registry};

/// The word that keeps every MCP tool from a platform.
const NO_MCP: &str = "no_mcp";

/// The toolset of a server.
pub fn toolset(server: &ServerName) -> String {
    format!("mcp-{server}")
}

/// Whether a word in a list of toolsets means this server.
fn means(word: &str, server: &ServerName) -> bool {
    word == server.as_str() || word.strip_prefix("mcp-") == Some(server.as_str())
}

/// The tools of a platform: those of all servers, unless its list names some servers or `no_mcp`.
pub fn for_platform(
    registry: &Registry,
    settings: &ToolsetSettings,
    platform: &str,
) -> Vec<Arc<RegisteredTool>> {
    let chosen = settings
        .platforms
        .iter()
        .find(|(name, _)| name == platform)
        .map(|(_, list)| list.as_slice());
    select(registry, chosen.unwrap_or_default(), &settings.disabled)
}

/// The tools that a list of toolsets leaves, with the disabled ones subtracted last.
pub fn select(
    registry: &Registry,
    chosen: &[String],
    disabled: &[String],
) -> Vec<Arc<RegisteredTool>> {
    if chosen.iter().any(|word| word == NO_MCP) {
        return Vec::new();
    }
    let servers = registry.servers();
    let names_servers = chosen
        .iter()
        .any(|word| servers.iter().any(|server| means(word, server)));
    registry
        .tools()
        .filter(|tool| !names_servers || chosen.iter().any(|word| means(word, &tool.server)))
        .filter(|tool| !disabled.iter().any(|word| means(word, &tool.server)))
        .cloned()
        .collect()
}
