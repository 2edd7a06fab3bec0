//! The manifest of a Slack app with everything that the gateway uses: `From a manifest` takes it as it is.

use serde_json::{Value, json};

use super::decode::UMBRELLA_COMMAND;
use crate::{platform::CommandSpec, send::SLACK_SCOPES};

/// What the app hears of.
pub const SLACK_EVENTS: [&str; 8] = [
    "agent_session_stopped",
    "app_mention",
    "app_uninstalled",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "tokens_revoked",
];

/// Commands that Slack keeps for itself. They work as `/hermes <command>`.
const RESERVED_COMMANDS: [&str; 34] = [
    "archive",
    "away",
    "call",
    "canvas",
    "collapse",
    "dm",
    "dnd",
    "expand",
    "feed",
    "feedback",
    "help",
    "huddle",
    "invite",
    "invite_people",
    "join",
    "kick",
    "leave",
    "list",
    "me",
    "msg",
    "mute",
    "open",
    "prefs",
    "remind",
    "remove",
    "rename",
    "search",
    "shortcuts",
    "shrug",
    "star",
    "status",
    "topic",
    "who",
    "workflow",
];

/// Slack's limit of commands per app.
const MAX_COMMANDS: usize = 50;

/// The manifest of an app with this name and these commands.
pub fn slack_manifest(app_name: &str, commands: &[CommandSpec]) -> Value {
    let description = "An agent that works for you in direct messages, channels and threads.";
    json!({
        "_metadata": {"major_version": 2, "minor_version": 1},
        "display_information": {"name": app_name, "description": description},
        "features": {
            "agent_view": {"agent_description": description},
            "app_home": {
                "home_tab_enabled": false, "messages_tab_enabled": true,
                "messages_tab_read_only_enabled": false,
            },
            "bot_user": {"display_name": app_name, "always_online": true},
            "slash_commands": slash_commands(commands),
        },
        "oauth_config": {"scopes": {"bot": SLACK_SCOPES}},
        "settings": {
            "event_subscriptions": {"bot_events": SLACK_EVENTS},
            "interactivity": {"is_enabled": true},
            "org_deploy_enabled": false,
            "socket_mode_enabled": true,
            "token_rotation_enabled": false,
        },
    })
}

fn slash_commands(commands: &[CommandSpec]) -> Vec<Value> {
    let umbrella = json!({
        "command": format!("/{UMBRELLA_COMMAND}"), "description": "Any command of the agent",
        "usage_hint": "help", "should_escape": false,
    });
    let is_free = |spec: &&CommandSpec| {
        !RESERVED_COMMANDS.contains(&spec.name) && spec.name != UMBRELLA_COMMAND
    };
    let others = commands.iter().filter(is_free).map(|spec| {
        let mut command = json!({
            "command": format!("/{}", spec.name), "description": spec.description, "should_escape": false,
        });
        if let Some(argument) = spec.argument {
            command["usage_hint"] = json!(format!("[{argument}]"));
        }
        command
    });
    std::iter::once(umbrella)
        .chain(others)
        .take(MAX_COMMANDS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_all_that_is_used() {
        let commands = [
            CommandSpec {
                name: "status",
                description: "Session and model",
                argument: None,
            },
            CommandSpec {
                name: "model",
                description: "Show or set the model",
                argument: Some("name"),
            },
        ];
        let manifest = slack_manifest("Hermes", &commands);
        let names: Vec<&str> = manifest["features"]["slash_commands"]
            .as_array()
            .unwrap()
            .iter()
            .map(|command| command["command"].as_str().unwrap())
            .collect();
        // `/status` is Slack's own.
        assert_eq!(names, ["/hermes", "/model"]);
        let scopes = manifest["oauth_config"]["scopes"]["bot"]
            .as_array()
            .unwrap();
        for scope in SLACK_SCOPES {
            assert!(scopes.contains(&json!(scope)), "{scope}");
        }
        assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
        assert_eq!(manifest["settings"]["interactivity"]["is_enabled"], true);
    }
}
