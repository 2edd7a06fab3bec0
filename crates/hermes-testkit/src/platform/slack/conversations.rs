//! `auth.*`, `users.*` and `conversations.*`: who and what there is in a workspace.

use serde_json::{Value, json};

use super::{
    call::{SlackArguments, SlackReply},
    workspace::{SLACK_APP, SLACK_BOT, SLACK_BOT_USER, SLACK_TEAM},
};
use crate::platform::server::PlatformState;

pub(super) fn describe_bot(server: &PlatformState) -> Value {
    json!({
        "url": format!("http://{}/", server.address), "team": "Testers", "user": "hermes",
        "team_id": SLACK_TEAM, "user_id": SLACK_BOT_USER, "bot_id": SLACK_BOT, "is_enterprise_install": false,
        "app_id": SLACK_APP,
    })
}

pub(super) fn user_info(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let state = server.slack.lock();
    let user = state.users.get(&call.text("user"));
    Ok(json!({"user": user.ok_or("user_not_found")?}))
}

pub(super) fn info(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let mut state = server.slack.lock();
    let record = state.channel(&call.text("channel"))?;
    Ok(json!({"channel": record.info}))
}

pub(super) fn open(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let users = call.text("users");
    if users.is_empty() {
        return Err("users_list_not_supplied".into());
    }
    let mut state = server.slack.lock();
    if users.contains(',') {
        return Err("not_supported_here".into());
    }
    Ok(json!({"channel": {"id": state.open_direct(&users)}}))
}

pub(super) fn members(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let mut state = server.slack.lock();
    let record = state.channel(&call.text("channel"))?;
    let members: Vec<Value> = record.members.iter().map(|id| json!(id)).collect();
    page("members", &members, call, 100)
}

/// The channels that the bot is in.
pub(super) fn of_bot(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let types = call
        .optional("types")
        .unwrap_or_else(|| "public_channel".into());
    let state = server.slack.lock();
    let is_wanted = |kind: &str| {
        types.split(',').any(|wanted| {
            matches!(
                (wanted, kind),
                ("public_channel", "channel")
                    | ("private_channel", "group")
                    | ("im", "im")
                    | ("mpim", "mpim")
            )
        })
    };
    let is_archived = |info: &Value| info["is_archived"] == true && call.flag("exclude_archived");
    let channels: Vec<Value> = state
        .channels
        .values()
        .filter(|record| is_wanted(record.kind()) && !is_archived(&record.info))
        .map(|record| record.info.clone())
        .collect();
    page("channels", &channels, call, 100)
}

/// The messages of a channel without replies in threads, newest first.
pub(super) fn history(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let mut state = server.slack.lock();
    let record = state.channel(&call.text("channel"))?;
    let is_reply = |message: &Value| {
        !message["thread_ts"].is_null()
            && message["thread_ts"] != message["ts"]
            && message["subtype"] != "thread_broadcast"
    };
    let messages: Vec<Value> = record
        .messages
        .iter()
        .rev()
        .filter(|message| !is_reply(message) && is_in_range(message, call))
        .cloned()
        .collect();
    page("messages", &messages, call, 100)
}

/// A thread: its first message, and the replies, oldest first.
pub(super) fn replies(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let thread = call.text("ts");
    let mut state = server.slack.lock();
    let record = state.channel(&call.text("channel"))?;
    let messages: Vec<Value> = record
        .messages
        .iter()
        .filter(|message| message["ts"] == thread || message["thread_ts"] == thread)
        .filter(|message| message["ts"] == thread || is_in_range(message, call))
        .cloned()
        .collect();
    if messages.is_empty() {
        return Err("thread_not_found".into());
    }
    page("messages", &messages, call, 1000)
}

fn is_in_range(message: &Value, call: &SlackArguments<'_>) -> bool {
    let ts = message["ts"].as_str().unwrap_or_default();
    let inclusive = call.flag("inclusive");
    let after_oldest = call
        .optional("oldest")
        .is_none_or(|oldest| ts > oldest.as_str() || inclusive && ts == oldest);
    let before_latest = call
        .optional("latest")
        .is_none_or(|latest| ts < latest.as_str() || inclusive && ts == latest);
    after_oldest && before_latest
}

/// One page of a list, and the cursor of the next.
fn page(name: &str, all: &[Value], call: &SlackArguments<'_>, limit: usize) -> SlackReply {
    let limit = call.number("limit", limit).clamp(1, 1000);
    let begin = match call.optional("cursor") {
        None => 0,
        Some(cursor) => {
            let number = cursor
                .strip_prefix("next:")
                .and_then(|text| text.parse().ok());
            number.ok_or("invalid_cursor")?
        }
    };
    let part: Vec<&Value> = all.iter().skip(begin).take(limit).collect();
    let end = begin + part.len();
    let next = if end < all.len() {
        format!("next:{end}")
    } else {
        String::new()
    };
    Ok(json!({
        name: part, "has_more": !next.is_empty(), "response_metadata": {"next_cursor": next},
    }))
}
