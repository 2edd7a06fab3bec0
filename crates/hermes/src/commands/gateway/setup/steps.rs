//! What a person does with each platform, in words.

use hermes_config::Platform;
use hermes_gateway::{chat_commands::command_specs, platform::slack, send::CheckedAccount};
use serde_json::Value;

/// How to get the tokens.
pub(super) fn get_token(platform: Platform) -> String {
    match platform {
        Platform::Telegram => "\
1. In Telegram, write to @BotFather: https://t.me/BotFather
2. Send /newbot. Choose a name, and a username that ends in `bot`.
3. Copy the token from its answer."
            .into(),
        Platform::Discord => "\
1. Open https://discord.com/developers/applications and create a New Application.
2. Bot: press Reset Token and copy the token.
3. Bot, Privileged Gateway Intents: turn on `Message Content Intent`. Save.
4. General Information: leave `Interactions Endpoint URL` empty."
            .into(),
        Platform::Slack => format!(
            "\
1. Open https://api.slack.com/apps, Create New App, From a manifest. Choose the workspace, JSON, and paste this:

{:#}

2. Basic Information, App-Level Tokens: generate a token with `connections:write`. It begins with xapp-.
3. Install App: install it into the workspace. Copy the Bot User OAuth Token. It begins with xoxb-.",
            slack_manifest()
        ),
    }
}

/// Where to look when a token was refused.
pub(super) fn where_to_get_it(platform: Platform) -> &'static str {
    match platform {
        Platform::Telegram => "@BotFather, /mybots, your bot, API Token shows the valid one",
        Platform::Discord => {
            "https://discord.com/developers/applications, your application, Bot, Reset Token makes a new one"
        }
        Platform::Slack => {
            "https://api.slack.com/apps, your app, OAuth & Permissions shows the valid one (xoxb-…)"
        }
    }
}

/// Where a person finds their id.
pub(super) fn who_may_write(platform: Platform) -> &'static str {
    match platform {
        Platform::Telegram => {
            "\
Nobody may write to the bot until you say who. Your id: write to @userinfobot, or leave this empty and write to the \
bot, which answers with a pairing code."
        }
        Platform::Discord => {
            "\
Nobody may write to the bot until you say who. Your id: Settings, Advanced, Developer Mode; then right-click your name, \
Copy User ID. Or leave this empty and use a pairing code."
        }
        Platform::Slack => {
            "\
Nobody may write to the bot until you say who. Your id: your profile, the three dots, Copy member ID. Or leave this \
empty and use a pairing code."
        }
    }
}

/// Where people write to the bot.
pub(super) fn write_to(platform: Platform, checked: &CheckedAccount) -> String {
    match platform {
        Platform::Telegram => format!("https://t.me/{}", checked.name.trim_start_matches('@')),
        Platform::Discord => format!(
            "mention {} in a channel of your server, or open a direct message with it",
            checked.name
        ),
        Platform::Slack => format!(
            "a direct message to {} in Slack, or invite it into a channel and mention it",
            checked.name
        ),
    }
}

/// An app with everything that the gateway needs, for `From a manifest`.
pub(super) fn slack_manifest() -> Value {
    slack::slack_manifest("Hermes", &command_specs(Platform::Slack))
}
