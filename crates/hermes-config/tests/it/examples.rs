//! The configurations under `examples/` at the root of the repository.

use std::{fs, path::PathBuf};

use hermes_config::{Settings, Variables};
use serde_json::Value;

fn examples() -> Vec<(String, String)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_example_loads_without_a_warning() {
    let examples = examples();
    assert!(examples.len() >= 7, "{}", examples.len());
    for (name, text) in examples {
        let variables = Variables::from_pairs([
            ("API_SERVER_KEY", "a key of the gateway"),
            ("MODEL_API_KEY", "key"),
        ]);
        let settings = Settings::parse(&text, variables).unwrap();
        assert_eq!(settings.warnings, [], "{name}");
        assert!(!settings.servers.is_empty(), "{name}");
        for entry in settings.servers {
            assert_eq!(entry.server.err(), None, "{name}: {}", entry.name);
        }
    }
}

/// The keys of a server, of models and of the agent.
const EVERY_KEY: &[&str] = &[
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "enabled",
    "timeout",
    "connect_timeout",
    "supports_parallel_tool_calls",
    "tools.include",
    "tools.exclude",
    "tools.resources",
    "tools.prompts",
    "tools.approve",
    "protocol",
    "auth",
    "oauth.client_id",
    "oauth.client_secret",
    "oauth.scope",
    "oauth.redirect_port",
    "oauth.client_name",
    "oauth.timeout",
    "oauth.redirect_uri",
    "oauth.redirect_host",
    "oauth.grant",
    "oauth.client_metadata_url",
    "oauth.private_key",
    "oauth.issuer",
    "oauth.assertion",
    "oauth.dpop",
    "oauth.enterprise.issuer",
    "oauth.enterprise.token_endpoint",
    "oauth.enterprise.client_id",
    "oauth.enterprise.client_secret",
    "oauth.enterprise.id_token",
    "sampling.enabled",
    "sampling.model",
    "sampling.max_tokens_cap",
    "sampling.timeout",
    "sampling.max_rpm",
    "sampling.allowed_models",
    "sampling.max_tool_rounds",
    "sampling.log_level",
    "elicitation.enabled",
    "elicitation.timeout",
    "roots",
    "transport",
    "keepalive_interval",
    "lifecycle.idle_timeout_seconds",
    "lifecycle.max_lifetime_seconds",
    "lazy",
    "skip_preflight",
    "ssl_verify",
    "client_cert",
    "client_key",
    "pin_tools",
    "sandbox.enabled",
    "sandbox.read",
    "sandbox.write",
    "sandbox.network",
    "sandbox.required",
    "model.default",
    "model.provider",
    "model.base_url",
    "model.key_env",
    "model.api_key",
    "model.api_mode",
    "model.context_length",
    "model.extra_body",
    "model.autodetect",
    "agent.disabled_toolsets",
    "agent.max_turns",
    "agent.api_max_retries",
    "agent.loop_guard",
    "agent.reasoning_effort",
    "agent.gateway_timeout",
    "agent.gateway_timeout_warning",
    "agent.restart_drain_timeout",
    "compression.enabled",
    "compression.threshold",
    "compression.target_ratio",
    "compression.protect_first_n",
    "compression.protect_last_n",
    "compression.in_place",
    "auxiliary.transient_retries",
    "auxiliary.mcp.provider",
    "auxiliary.mcp.model",
    "auxiliary.mcp.base_url",
    "auxiliary.mcp.api_key",
    "auxiliary.mcp.timeout",
    "auxiliary.mcp.extra_body",
    "auxiliary.mcp.reasoning_effort",
    "api_server.enabled",
    "api_server.key",
    "api_server.host",
    "api_server.port",
    "api_server.allow_http",
    "api_server.allowed_hosts",
    "api_server.max_concurrent_runs",
    "telegram.enabled",
    "telegram.token",
    "telegram.home_channel.chat_id",
    "telegram.home_channel.name",
    "telegram.home_channel.thread_id",
    "telegram.extra.base_url",
    "telegram.extra.allow_http",
    "telegram.extra.base_file_url",
    "telegram.webhook_secret",
    "telegram.webhook_host",
    "telegram.webhook_port",
    "telegram.streaming",
    "telegram.reply_to_mode",
    "telegram.reactions",
    "telegram.typing_indicator",
    "telegram.allow_from",
    "telegram.group_allow_from",
    "telegram.group_allowed_chats",
    "telegram.allow_all_users",
    "telegram.allow_bots",
    "telegram.unauthorized_dm_behavior",
    "telegram.allow_admin_from",
    "telegram.user_allowed_commands",
    "telegram.group_allow_admin_from",
    "telegram.group_user_allowed_commands",
    "telegram.require_mention",
    "telegram.strict_mention",
    "telegram.mention_patterns",
    "telegram.free_response_chats",
    "telegram.free_response_topics",
    "telegram.allowed_chats",
    "telegram.allowed_topics",
    "telegram.observe_groups",
    "telegram.chats",
    "telegram.accounts",
    "discord.allowed_roles",
    "discord.allowed_channels",
    "discord.free_response_channels",
    "discord.auto_thread",
    "slack.app_token",
    "slack.reply_in_thread",
    "session_reset.mode",
    "session_reset.at_hour",
    "session_reset.idle_minutes",
    "session_reset.notify",
    "session_reset.notify_exclude_platforms",
    "display.busy_input_mode",
];

/// A key that is new and not described would fail here.
#[test]
fn the_example_of_every_key_is_complete() {
    let (_, text) = examples()
        .into_iter()
        .find(|(name, _)| name == "every-key.yaml")
        .unwrap();
    let document = Settings::parse(&text, Variables::default())
        .unwrap()
        .document;
    let mut keys = Vec::new();
    for server in ["local", "remote"] {
        collect("", &document["mcp_servers"][server], &mut keys);
    }
    for section in [
        "model",
        "agent",
        "compression",
        "auxiliary",
        "api_server",
        "telegram",
        "discord",
        "slack",
        "session_reset",
        "display",
    ] {
        collect(&format!("{section}."), &document[section], &mut keys);
    }
    for expected in EVERY_KEY {
        assert!(keys.iter().any(|key| key == expected), "{expected}");
    }
}

fn collect(prefix: &str, value: &Value, keys: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        keys.push(format!("{prefix}{key}"));
        collect(&format!("{prefix}{key}."), value, keys);
    }
}
