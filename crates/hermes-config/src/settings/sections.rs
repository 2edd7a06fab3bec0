//! The sections of the document that this crate understands, and servers written where nothing reads them, as other
//! products do: a warning names `mcp_servers`.

use serde_json::Value;

use crate::{
    Home, Warning,
    fields::{Fields, nearest_key},
    server::{ServerEntry, ServerName, parse},
    settings::{McpSettings, ToolNaming, ToolSearchMode, ToolSearchSettings, ToolsetSettings},
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

/// The entries under `mcp_servers`; those that are not a mapping are left out with a warning.
pub(super) fn parse_servers(root: &Fields) -> Vec<ServerEntry> {
    let section = root.section("mcp_servers");
    let mut servers = Vec::new();
    for (name, template) in section.entries() {
        let Value::Object(map) = template else {
            section.warn(
                name,
                "must be a mapping with `command` or `url`; it is ignored",
            );
            continue;
        };
        let name = ServerName::new(name);
        let server = parse::server(&name, &section.mapping(name.as_str(), map));
        servers.push(ServerEntry {
            name,
            server,
            template: template.clone(),
        });
    }
    servers
}

pub(super) fn parse_mcp(root: &Fields) -> McpSettings {
    let default = McpSettings::default();
    let section = root.section("mcp");
    warn_under_mcp(&section);
    let naming = [
        ("single", ToolNaming::Single),
        ("double", ToolNaming::Double),
    ];
    let discovery_timeout = root
        .seconds_or_off("mcp_discovery_timeout", Some(default.discovery_timeout))
        .unwrap_or_default();
    McpSettings {
        naming: section.choice("tool_naming", &naming, default.naming),
        auto_reload: section.flag("auto_reload_on_config_change", default.auto_reload),
        discovery_timeout,
        one_shot_timeout: root
            .is_set("mcp_discovery_timeout")
            .then_some(discovery_timeout),
        reload_confirm: root
            .section("approvals")
            .flag("mcp_reload_confirm", default.reload_confirm),
        inherit_toolsets: root
            .section("delegation")
            .flag("inherit_mcp_toolsets", default.inherit_toolsets),
    }
}

pub(super) fn parse_toolsets(root: &Fields) -> ToolsetSettings {
    let section = root.section("platform_toolsets");
    let mut platforms = Vec::new();
    for (platform, value) in section.entries() {
        match names(value) {
            Some(names) => platforms.push((platform.clone(), names)),
            None => section.warn(platform, "must be a list of toolsets; it is ignored"),
        }
    }
    ToolsetSettings {
        platforms,
        disabled: root
            .section("agent")
            .texts_or_warn("disabled_toolsets")
            .unwrap_or_default(),
    }
}

fn names(value: &Value) -> Option<Vec<String>> {
    let name = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Array(items) => items.iter().map(name).collect(),
        other => name(other).map(|name| vec![name]),
    }
}

pub(super) fn parse_tool_search(root: &Fields) -> ToolSearchSettings {
    let default = ToolSearchSettings::default();
    let section = root.section("tools").section("tool_search");
    let modes = [
        ("auto", ToolSearchMode::Auto),
        ("on", ToolSearchMode::On),
        ("true", ToolSearchMode::On),
        ("yes", ToolSearchMode::On),
        ("1", ToolSearchMode::On),
        ("off", ToolSearchMode::Off),
        ("false", ToolSearchMode::Off),
        ("no", ToolSearchMode::Off),
        ("0", ToolSearchMode::Off),
    ];
    section.warn_unknown(&[
        "enabled",
        "threshold_pct",
        "search_default_limit",
        "max_search_limit",
    ]);
    ToolSearchSettings {
        mode: section.choice("enabled", &modes, default.mode),
        threshold_pct: section.decimal("threshold_pct", default.threshold_pct, 0.0),
        search_default_limit: section.integer(
            "search_default_limit",
            default.search_default_limit,
            1,
        ),
        max_search_limit: section.integer("max_search_limit", default.max_search_limit, 1),
    }
}

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
fn warn_under_mcp(mcp: &Fields) {
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
