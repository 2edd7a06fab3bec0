//! What a bot does in a chat besides messages: drafts, actions, reactions, topics, commands, pressed buttons.

use std::time::Instant;

use serde_json::{Value, json};

use super::{
    call::{BotCall, BotError, BotResult},
    formatting,
    world::{DraftRecord, TelegramWorld},
};

const ACTIONS: [&str; 11] = [
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
];

/// Some of the reactions that bots may use.
const REACTIONS: &str = "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 \
    👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷 😡";

const MAX_COMMANDS: usize = 100;

pub(super) fn get_me(world: &TelegramWorld) -> Value {
    world.lock().bot.clone()
}

pub(super) fn get_chat(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let mut state = world.lock();
    let id = state.chat_id(call)?;
    let mut info = state.chat(id)?.info.clone();
    info["accent_color_id"] = json!(1);
    info["max_reaction_count"] = json!(11);
    info["accepted_gift_types"] = json!({
        "unlimited_gifts": false, "limited_gifts": false, "unique_gifts": false, "premium_subscription": false,
        "gifts_from_channels": false,
    });
    Ok(info)
}

/// sendMessageDraft and sendRichMessageDraft.
pub(super) fn send_draft(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let text = match call.method {
        "sendRichMessageDraft" => formatting::rich_text(call)?.source,
        _ => formatting::draft_text(call)?.plain,
    };
    let mut state = world.lock();
    let chat = state.writable_chat(call)?;
    let record = state.chat(chat)?;
    if !record.is_private() {
        return Err(BotError::bad("method is available only for private chats"));
    }
    let Some(id) = call.integer("draft_id").filter(|id| *id != 0) else {
        return Err(BotError::bad("DRAFT_ID_INVALID"));
    };
    let thread = call.integer("message_thread_id");
    if thread.is_some_and(|thread| !record.topics.contains_key(&thread)) {
        return Err(BotError::bad("message thread not found"));
    }
    let can_stop = call.flag("can_stop");
    let is_same = |draft: &&mut DraftRecord| draft.id == id && draft.thread == thread;
    if let Some(draft) = record.drafts.iter_mut().find(is_same) {
        draft.text = text;
        draft.can_stop = can_stop;
        draft.shown_at = Instant::now();
        draft.revisions += 1;
    } else {
        record.drafts.retain(|draft| draft.thread != thread);
        record.drafts.push(DraftRecord {
            id,
            thread,
            text,
            can_stop,
            shown_at: Instant::now(),
            revisions: 1,
        });
    }
    Ok(json!(true))
}

pub(super) fn send_chat_action(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let action = call.text("action");
    if !ACTIONS.contains(&action.as_str()) {
        return Err(BotError::bad("wrong parameter action in request"));
    }
    let mut state = world.lock();
    let chat = state.writable_chat(call)?;
    let record = state.chat(chat)?;
    record
        .actions
        .push((call.integer("message_thread_id"), action));
    Ok(json!(true))
}

pub(super) fn set_reaction(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let reaction = call.structure("reaction")?;
    let emoji: Vec<String> = reaction
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry["emoji"].as_str()?.to_owned()))
        .collect();
    if emoji.len() > 1 {
        return Err(BotError::bad("REACTIONS_TOO_MANY"));
    }
    let is_known = |sign: &String| REACTIONS.split(' ').any(|known| known == sign);
    if !emoji.iter().all(is_known) {
        return Err(BotError::bad("REACTION_INVALID"));
    }
    let mut state = world.lock();
    let chat = state.writable_chat(call)?;
    let record = state.chat(chat)?;
    let id = call.integer("message_id").unwrap_or_default();
    if !record.messages.contains_key(&id) {
        return Err(BotError::bad("message to react not found"));
    }
    record.reactions.insert(id, emoji);
    Ok(json!(true))
}

pub(super) fn create_topic(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let name = call.text("name");
    if !(1..=128).contains(&name.chars().count()) {
        return Err(BotError::bad("TOPIC_NAME_INVALID"));
    }
    let mut state = world.lock();
    let chat = state.writable_chat(call)?;
    let id = state.next_id();
    let record = state.chat(chat)?;
    if !record.is_forum() && !record.is_private() {
        return Err(BotError::bad("the chat is not a forum"));
    }
    record.topics.insert(id, name.clone());
    Ok(json!({"message_thread_id": id, "name": name, "icon_color": 7_322_096}))
}

pub(super) fn set_commands(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let commands = call.structure("commands")?;
    let list = commands.as_array().cloned().unwrap_or_default();
    if list.len() > MAX_COMMANDS {
        return Err(BotError::bad("BOT_COMMANDS_TOO_MUCH"));
    }
    for command in &list {
        let name = command["command"].as_str().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !(1..=32).contains(&name.len()) || !name.chars().all(is_plain) {
            return Err(BotError::bad("BOT_COMMAND_INVALID"));
        }
        let description = command["description"].as_str().unwrap_or_default();
        if !(1..=256).contains(&description.chars().count()) {
            return Err(BotError::bad("BOT_COMMAND_DESCRIPTION_INVALID"));
        }
    }
    world.lock().commands = Value::Array(list);
    Ok(json!(true))
}

pub(super) fn get_commands(world: &TelegramWorld) -> Value {
    world.lock().commands.clone()
}

pub(super) fn answer_callback(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let text = call.text("text");
    if text.chars().count() > 200 {
        return Err(BotError::bad("MESSAGE_TOO_LONG"));
    }
    let mut state = world.lock();
    let callback = state.callbacks.get_mut(&call.text("callback_query_id"));
    match callback.filter(|callback| callback.answer.is_none()) {
        Some(callback) => {
            callback.answer = Some(text);
            Ok(json!(true))
        }
        None => Err(BotError::bad(
            "query is too old and response timeout expired or query ID is invalid",
        )),
    }
}
