//! The sections of the document that this crate understands.

use serde_json::Value;

use crate::{
    fields::Fields,
    server::{ServerEntry, ServerName, parse},
    settings::{
        McpSettings, ToolNaming, ToolSearchMode, ToolSearchSettings, ToolsetSettings, misplaced,
    },
};

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
    misplaced::warn_under_mcp(&section);
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
