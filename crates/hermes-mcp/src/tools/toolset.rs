//! Which servers' tools a platform gets: the toolsets `mcp-<server>`.

use std::sync::Arc;

use hermes_config::{ServerName, Settings};

use crate::tools::registry::{RegisteredTool, Registry};

/// The entry that withholds every MCP tool from a platform.
const NO_MCP: &str = "no_mcp";

pub fn toolset_name(server: &ServerName) -> String {
    format!("mcp-{server}")
}

/// Whether a word in a list of toolsets means this server.
fn names_server(word: &str, server: &ServerName) -> bool {
    word == server.as_str() || word.strip_prefix("mcp-") == Some(server.as_str())
}

/// The configured server that a word in a list of toolsets means.
pub fn find_server<'a>(settings: &'a Settings, word: &str) -> Option<&'a ServerName> {
    let mut servers = settings.servers.iter();
    servers
        .find(|entry| names_server(word, &entry.name))
        .map(|entry| &entry.name)
}

/// The tools of a platform: those of all servers, unless its list names some servers or `no_mcp`.
pub fn tools_for_platform(
    registry: &Registry,
    settings: &Settings,
    platform: &str,
) -> Vec<Arc<RegisteredTool>> {
    let mut platforms = settings.toolsets.platforms.iter();
    let chosen = platforms
        .find(|(name, _)| name == platform)
        .map(|(_, list)| list.as_slice());
    select_tools(registry, settings, chosen.unwrap_or_default())
}

/// Whether a list of toolsets leaves a server's tools, with the disabled ones subtracted last.
///
/// A server counts as named whether it is connected or not: while it is away, its platform does not get the others.
pub fn allows_server(settings: &Settings, chosen: &[String], server: &ServerName) -> bool {
    let names =
        |words: &[String], server: &ServerName| words.iter().any(|word| names_server(word, server));
    if chosen.iter().any(|word| word == NO_MCP) || names(&settings.toolsets.disabled, server) {
        return false;
    }
    let mut servers = settings.servers.iter();
    names(chosen, server) || !servers.any(|entry| names(chosen, &entry.name))
}

/// The tools on offer that a list of toolsets leaves.
pub fn select_tools(
    registry: &Registry,
    settings: &Settings,
    chosen: &[String],
) -> Vec<Arc<RegisteredTool>> {
    registry
        .tools()
        .filter(|tool| allows_server(settings, chosen, &tool.server))
        .cloned()
        .collect()
}
