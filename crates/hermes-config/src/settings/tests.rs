//! The document as a whole: servers in order, sections, and what is said about mistakes.

use std::time::Instant;

use serde_json::json;

use super::*;
use crate::server::ServerEntryError;

fn parse(text: &str) -> Settings {
    Settings::parse(text, Variables::from_pairs([("KEY", "k-123")])).unwrap()
}

fn warnings(text: &str) -> Vec<String> {
    parse(text)
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn an_empty_document_means_defaults() {
    for text in [
        "",
        "# nothing\n",
        "---\n",
        "mcp_servers:\n",
        "mcp_servers: {}\n",
    ] {
        let settings = parse(text);
        assert!(settings.servers.is_empty());
        assert_eq!(settings.mcp, McpSettings::default());
        assert_eq!(settings.toolsets, ToolsetSettings::default());
        assert_eq!(settings.tool_search, ToolSearchSettings::default());
        assert_eq!(settings.sampling_model, AuxiliaryModel::default());
        assert_eq!(settings.warnings, []);
    }
    assert_eq!(
        McpSettings::default().discovery_timeout,
        Duration::from_millis(1500)
    );
    // A single question waits for each server as long as that may take.
    assert_eq!(McpSettings::default().one_shot_timeout, None);
}

#[test]
fn servers_come_in_file_order() {
    let settings =
        parse("mcp_servers:\n  z: {command: x}\n  a: {command: x}\n  m: {url: 'https://x'}\n");
    let names: Vec<_> = settings
        .servers
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(names, ["z", "a", "m"]);
    assert_eq!(
        settings.server("m").unwrap().template,
        json!({"url": "https://x"})
    );
    assert!(settings.server("nobody").is_none());
}

#[test]
fn one_bad_entry_does_not_hide_the_others() {
    let settings = parse(
        "mcp_servers:\n  both: {command: x, url: 'https://x'}\n  none: {}\n  good: {command: x}\n  text: hello\n",
    );
    assert_eq!(settings.servers.len(), 3);
    assert_eq!(
        settings.server("both").unwrap().server,
        Err(ServerEntryError::BothTransports)
    );
    assert_eq!(
        settings.server("none").unwrap().server,
        Err(ServerEntryError::NoTransport)
    );
    assert!(settings.server("good").unwrap().server.is_ok());
    assert_eq!(settings.warnings.len(), 1);
    assert_eq!(
        settings.warnings[0].key.as_deref(),
        Some("mcp_servers.text")
    );
}

#[test]
fn values_that_are_not_a_mapping_are_ignored_with_a_warning() {
    for text in [
        "mcp_servers: [a]\n",
        "mcp_servers: hello\n",
        "- a\n- b\n",
        "mcp: 5\n",
        "auxiliary: {mcp: 5}\n",
    ] {
        assert_eq!(warnings(text).len(), 1, "{text}");
    }
}

#[test]
fn merge_keys_and_anchors_are_resolved() {
    let settings = parse(
        "base: &b {command: npx, timeout: 5}\nmcp_servers:\n  a: {<<: *b, timeout: 9}\n  b: *b\n",
    );
    let timeout = |name| {
        settings
            .server(name)
            .unwrap()
            .server
            .as_ref()
            .unwrap()
            .timeout
            .as_secs()
    };
    assert_eq!((timeout("a"), timeout("b")), (9, 5));
}

#[test]
fn every_top_level_key_is_read() {
    let settings = parse(
        "mcp: {tool_naming: double, auto_reload_on_config_change: no}\n\
         mcp_discovery_timeout: 0\n\
         approvals: {mcp_reload_confirm: 'off', mode: ask}\n\
         delegation: {inherit_mcp_toolsets: false}\n\
         platform_toolsets: {telegram: [web, github], cli: no_mcp}\n\
         agent: {disabled_toolsets: [shell], max_turns: 5}\n\
         tools: {tool_search: {enabled: on, threshold_pct: '12.5', search_default_limit: 3, max_search_limit: 9}}\n\
         auxiliary:\n  mcp: {provider: openai, model: m, base_url: 'https://x', api_key: '${KEY}', timeout: 9, extra_body: {a: 1}, reasoning_effort: low}\n  vision: {model: v}\n",
    );
    assert_eq!(settings.warnings, []);
    assert_eq!(
        settings.mcp,
        McpSettings {
            naming: ToolNaming::Double,
            auto_reload: false,
            discovery_timeout: Duration::ZERO,
            one_shot_timeout: Some(Duration::ZERO),
            reload_confirm: false,
            inherit_toolsets: false,
        }
    );
    assert_eq!(
        settings.toolsets,
        ToolsetSettings {
            platforms: vec![
                ("telegram".into(), vec!["web".into(), "github".into()]),
                ("cli".into(), vec!["no_mcp".into()]),
            ],
            disabled: vec!["shell".into()],
        }
    );
    assert_eq!(
        settings.tool_search,
        ToolSearchSettings {
            mode: ToolSearchMode::On,
            threshold_pct: 12.5,
            search_default_limit: 3,
            max_search_limit: 9,
        }
    );
    assert_eq!(
        settings.sampling_model,
        AuxiliaryModel {
            provider: "openai".into(),
            model: Some("m".into()),
            base_url: Some("https://x".into()),
            api_key: Some(crate::ReferenceTemplate::new("${KEY}")),
            timeout: Duration::from_secs(9),
            extra_body: [("a".to_owned(), json!(1))].into_iter().collect(),
            reasoning_effort: Some("low".into()),
        }
    );
    assert_eq!(
        settings.document["auxiliary"]["mcp"]["api_key"],
        json!("${KEY}")
    );
}

#[test]
fn mistakes_around_the_servers_are_warned_of() {
    for (text, key) in [
        ("mcp: {tool_naming: triple}\n", "mcp.tool_naming"),
        ("mcp_discovery_timeout: soon\n", "mcp_discovery_timeout"),
        (
            "platform_toolsets: {cli: {a: b}}\n",
            "platform_toolsets.cli",
        ),
        (
            "agent: {disabled_toolsets: {a: b}}\n",
            "agent.disabled_toolsets",
        ),
        (
            "tools: {tool_search: {enabled: perhaps}}\n",
            "tools.tool_search.enabled",
        ),
        (
            "tools: {tool_search: {max_search_limit: 0}}\n",
            "tools.tool_search.max_search_limit",
        ),
        ("auxiliary: {mcp: {modle: x}}\n", "auxiliary.mcp.modle"),
        (
            "auxiliary: {mcp: {api_key: '${NOPE}'}}\n",
            "auxiliary.mcp.api_key",
        ),
    ] {
        let settings = parse(text);
        let keys: Vec<_> = settings
            .warnings
            .iter()
            .map(|warning| warning.key.as_deref())
            .collect();
        assert_eq!(keys, [Some(key)], "{text}");
    }
}

#[test]
fn misplaced_servers_are_pointed_to_the_right_key() {
    for text in [
        "mcpServers: {a: {command: x}}\n",
        "servers: {a: {url: 'https://x'}}\n",
        "mcp: {a: {command: x}}\n",
        "mcp: {servers: {a: {command: x}}}\n",
        "mcp_server: {a: {command: x}}\n",
        "mcp-servers: {a: {command: x}}\n",
    ] {
        let warnings = warnings(text);
        assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
        assert!(warnings[0].contains("`mcp_servers`"), "{warnings:?}");
    }
    assert!(warnings("mcp: {tool_namin: x}\n")[0].contains("`tool_naming`"));
    assert!(warnings("mcp: {colour: x}\n")[0].contains("no effect"));
}

#[test]
fn sections_of_other_parts_are_kept_without_a_word() {
    let settings =
        parse("model: {default: x}\nagent: {max_turns: 3}\ntools: {web: {}}\ngateway: {}\n");
    assert_eq!(settings.warnings, []);
    assert_eq!(settings.document["model"]["default"], json!("x"));
}

#[test]
fn a_broken_text_says_where_and_what_to_do() {
    let error = Settings::parse(
        "mcp_servers:\n  a: {command: x}\n  a: {command: y}\n",
        Variables::default(),
    )
    .unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("line 3, column 3: "), "{message}");
    assert!(message.contains("correct that line"), "{message}");
    let error = error.in_file("/home/me/config.yaml".into()).to_string();
    assert!(
        error.starts_with("`/home/me/config.yaml` line 3"),
        "{error}"
    );
}

#[test]
fn debug_output_shows_no_key() {
    let settings = parse("auxiliary: {mcp: {api_key: '${KEY}'}}\n");
    assert!(!format!("{settings:?}").contains("k-123"));
}

#[test]
fn a_configuration_just_below_every_limit_is_understood_soon() {
    const LIMIT: Duration = Duration::from_mins(1);
    let servers = (0..12_400).map(|number| format!("  s{number}: {{url: 'https://x'}}\n"));
    let toolsets = (0..16_000).map(|number| format!("  p{number}: [a]\n"));
    let unknown = (0..24_900).map(|number| format!("mcp_servr{number}: 1\n"));
    let long_key = "k".repeat(yaml::MAX_BYTES - 20);
    for text in [
        format!("mcp_servers:\n{}", servers.collect::<String>()),
        format!("platform_toolsets:\n{}", toolsets.collect::<String>()),
        unknown.collect(),
        format!("? {long_key}\n: 1\n"),
        format!("mcp:\n  ? {}\n  : 1\n", &long_key[20..]),
        format!("mcp_servers:\n  s: {{command: '{}'}}\n", &long_key[100..]),
    ] {
        let began = Instant::now();
        let settings = parse(&text);
        assert_eq!(settings.server_names().len(), settings.servers.len());
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    }
}
