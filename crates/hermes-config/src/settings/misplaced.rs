//! Servers written where nothing reads them, as other products do: a warning names `mcp_servers`.

use serde_json::Value;

use crate::{
    Home, Warning,
    fields::{Fields, nearest_key},
};

/// Top-level keys that are worth a guess when mistyped; all others may belong to other parts.
const KNOWN_KEYS: [&str; 9] = [
    "auxiliary",
    "bridge",
    "compression",
    "custom_providers",
    "fallback_providers",
    "mcp_servers",
    "mcp",
    "mcp_discovery_timeout",
    "platform_toolsets",
];

const MCP_KEYS: [&str; 2] = ["tool_naming", "auto_reload_on_config_change"];

pub(super) fn warn_misplaced(root: &Fields) {
    for (key, value) in root.entries() {
        match key.as_str() {
            "mcpServers" | "servers" if value.is_object() => root.warn(
                key,
                "is not read; MCP servers belong under `mcp_servers`, with the same keys",
            ),
            key if KNOWN_KEYS.contains(&key) => {}
            key => {
                if let Some(near) = nearest_key(key, &KNOWN_KEYS) {
                    root.warn(key, format!("is not a known key; did you mean `{near}`?"));
                }
            }
        }
    }
}

/// Servers and unknown keys under `mcp`.
pub(super) fn warn_under_mcp(mcp: &Fields) {
    for (key, value) in mcp.entries() {
        if MCP_KEYS.contains(&key.as_str()) {
            continue;
        }
        if holds_servers(value) {
            mcp.warn(
                key,
                "is not read; MCP servers belong under `mcp_servers` at the top level",
            );
        } else if let Some(near) = nearest_key(key, &MCP_KEYS) {
            mcp.warn(key, format!("is not a known key; did you mean `{near}`?"));
        } else {
            mcp.warn(key, "is not a known key and has no effect");
        }
    }
}

/// A server, or a mapping of servers.
fn holds_servers(value: &Value) -> bool {
    let is_server = |value: &Value| value.get("command").is_some() || value.get("url").is_some();
    is_server(value)
        || value
            .as_object()
            .is_some_and(|map| map.values().any(is_server))
}

/// A file that looks like configuration and is none.
pub(super) fn find_misplaced_file(home: &Home) -> Option<Warning> {
    let path = home.path().join("mcp_servers.yaml");
    path.exists().then(|| Warning {
        key: None,
        message: format!(
            "`{}` is not read; move its entries to `mcp_servers` in `config.yaml`",
            path.display()
        ),
    })
}
