//! `chat.*` and `reactions.*`: messages that the bot writes, changes and removes.

use serde_json::{Value, json};

use super::{
    call::{SlackArguments, SlackReply},
    events,
    workspace::{SLACK_APP, SLACK_BOT, SLACK_BOT_USER, SLACK_TEAM, SlackWorkspaceState},
};
use crate::platform::server::PlatformState;

/// The most characters in a message.
const MAX_CHARS: usize = 40_000;
const MAX_BLOCKS: usize = 50;
/// The most characters in an edited text.
const MAX_EDITED_CHARS: usize = 4_000;
/// The most characters in all Markdown blocks of a message.
const MAX_MARKDOWN_CHARS: usize = 12_000;
/// The most characters in a section.
const MAX_SECTION_CHARS: usize = 3_000;

pub(super) fn post_message(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let channel = call.text("channel");
    let mut state = server.slack.lock();
    let channel = resolve_channel(&mut state, &channel)?;
    let content = read_content(call)?;
    let ts = state.next_ts(|| server.next_id());
    let mut message = own_message(&ts, &content);
    if let Some(thread) = call.optional("thread_ts") {
        message["thread_ts"] = json!(thread);
    }
    let metadata = call.json("metadata");
    if metadata.is_object() {
        message["metadata"] = metadata;
    }
    state.add_message(&channel, message.clone())?;
    events::send_message_event(&mut state, &channel, &message);
    Ok(json!({"channel": channel, "ts": ts, "message": message}))
}

/// A message may be sent to a user by their id, too.
fn resolve_channel(state: &mut SlackWorkspaceState, channel: &str) -> Result<String, &'static str> {
    if channel.starts_with('U') && state.users.contains_key(channel) {
        return Ok(state.open_direct(channel));
    }
    state.channel(channel)?;
    Ok(channel.to_owned())
}

pub(super) fn own_message(ts: &str, content: &SlackContent) -> Value {
    let mut message = json!({
        "type": "message", "user": SLACK_BOT_USER, "bot_id": SLACK_BOT, "app_id": SLACK_APP, "team": SLACK_TEAM,
        "ts": ts, "text": content.text,
    });
    if !content.blocks.is_empty() {
        message["blocks"] = json!(content.blocks);
    }
    message
}

/// Text and blocks, checked.
#[derive(Default)]
pub(super) struct SlackContent {
    pub(super) text: String,
    pub(super) blocks: Vec<Value>,
}

fn read_content(call: &SlackArguments<'_>) -> Result<SlackContent, &'static str> {
    let text = call.text("text");
    let blocks = read_blocks(&call.json("blocks"))?;
    let has_attachments = call.json("attachments").is_array();
    if text.trim().is_empty() && blocks.is_empty() && !has_attachments {
        return Err("no_text");
    }
    if text.chars().count() > MAX_CHARS {
        return Err("msg_too_long");
    }
    Ok(SlackContent { text, blocks })
}

pub(super) fn read_blocks(blocks: &Value) -> Result<Vec<Value>, &'static str> {
    let blocks = match blocks {
        Value::Null => return Ok(Vec::new()),
        Value::Array(blocks) => blocks,
        _ => return Err("invalid_blocks_format"),
    };
    let is_text = |value: &Value, max: usize| {
        let text = value["text"].as_str().unwrap_or_default();
        !text.is_empty() && text.chars().count() <= max
    };
    let is_button = |element: &Value| {
        element["type"] != "button"
            || is_text(&element["text"], 75)
                && element["text"]["type"] == "plain_text"
                && element["value"].as_str().unwrap_or_default().len() <= 2_000
    };
    let is_valid = |block: &Value| match block["type"].as_str() {
        Some("section") => is_text(&block["text"], MAX_SECTION_CHARS) || block["fields"].is_array(),
        Some("actions") => {
            let elements = block["elements"].as_array().map_or(&[][..], Vec::as_slice);
            let mut ids: Vec<&str> = elements
                .iter()
                .filter_map(|element| element["action_id"].as_str())
                .collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            (1..=25).contains(&elements.len())
                && ids.len() == count
                && elements.iter().all(is_button)
        }
        Some("markdown") => is_text(block, MAX_MARKDOWN_CHARS),
        Some(_) => true,
        None => false,
    };
    let markdown = blocks.iter().filter(|block| block["type"] == "markdown");
    let markdown = markdown.filter_map(|block| block["text"].as_str());
    if markdown.map(|text| text.chars().count()).sum::<usize>() > MAX_MARKDOWN_CHARS {
        return Err("msg_blocks_too_long");
    }
    if blocks.len() > MAX_BLOCKS || !blocks.iter().all(is_valid) {
        return Err("invalid_blocks");
    }
    let mut blocks = blocks.clone();
    for (index, block) in blocks.iter_mut().enumerate() {
        if block["block_id"].is_null() {
            block["block_id"] = json!(format!("b{index}"));
        }
    }
    Ok(blocks)
}

pub(super) fn update_message(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let (channel, ts) = (call.text("channel"), call.text("ts"));
    let content = read_content(call)?;
    if content.text.chars().count() > MAX_EDITED_CHARS {
        return Err("msg_too_long".into());
    }
    let mut state = server.slack.lock();
    let message = own(state.message(&channel, &ts)?, "cant_update_message")?;
    if message["is_streaming"] == true {
        return Err("streaming_state_conflict".into());
    }
    let before = message.clone();
    message["text"] = json!(content.text);
    message["stream_markdown"] = Value::Null;
    // What is not given is removed.
    message["blocks"] = json!(content.blocks);
    message["edited"] = json!({"user": SLACK_BOT_USER, "ts": ts});
    let after = message.clone();
    events::send_change_event(&mut state, &channel, &before, &after);
    Ok(json!({"channel": channel, "ts": ts, "text": content.text, "message": after}))
}

pub(super) fn delete_message(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let (channel, ts) = (call.text("channel"), call.text("ts"));
    let mut state = server.slack.lock();
    own(state.message(&channel, &ts)?, "cant_delete_message")?;
    let record = state.channel(&channel)?;
    record.messages.retain(|message| message["ts"] != ts);
    events::send_deletion_event(&mut state, &channel, &ts);
    Ok(json!({"channel": channel, "ts": ts}))
}

/// A message, if it is the bot's.
pub(super) fn own<'m>(
    message: &'m mut Value,
    refusal: &'static str,
) -> Result<&'m mut Value, &'static str> {
    if message["bot_id"] == SLACK_BOT {
        Ok(message)
    } else {
        Err(refusal)
    }
}

pub(super) fn post_ephemeral(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let (channel, user) = (call.text("channel"), call.text("user"));
    let content = read_content(call)?;
    let mut state = server.slack.lock();
    let ts = state.next_ts(|| server.next_id());
    let record = state.channel(&channel)?;
    if !record.members.contains(&user) {
        return Err("user_not_in_channel".into());
    }
    let mut message = own_message(&ts, &content);
    message["ephemeral_for"] = json!(user);
    if let Some(thread) = call.optional("thread_ts") {
        message["thread_ts"] = json!(thread);
    }
    record.ephemeral.push(message);
    Ok(json!({"message_ts": ts}))
}

pub(super) fn add_reaction(server: &PlatformState, call: &SlackArguments<'_>) -> SlackReply {
    let name = call.text("name");
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-+'".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("invalid_name".into());
    }
    let mut state = server.slack.lock();
    let message = state.message(&call.text("channel"), &call.text("timestamp"))?;
    let mut reactions = message["reactions"].as_array().cloned().unwrap_or_default();
    if reactions.iter().any(|reaction| reaction["name"] == name) {
        return Err("already_reacted".into());
    }
    reactions.push(json!({"name": name, "users": [SLACK_BOT_USER], "count": 1}));
    message["reactions"] = json!(reactions);
    Ok(json!({}))
}
