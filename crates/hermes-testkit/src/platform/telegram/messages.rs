//! Messages: sent, edited and deleted by the bot.

use serde_json::{Map, Value, json};

use super::{
    call::{BotCall, BotError, BotResult},
    formatting,
    world::{ChatRecord, GENERAL_TOPIC, TelegramWorld, WorldState, now},
};

/// What a message of the bot has besides its content.
pub(super) struct MessageFrame {
    pub(super) chat: i64,
    thread: Option<i64>,
    reply_to: Option<Value>,
    markup: Value,
    is_silent: bool,
}

impl MessageFrame {
    /// Checks where a message goes.
    pub(super) fn read(state: &mut WorldState, call: &BotCall) -> Result<Self, BotError> {
        let chat = state.writable_chat(call)?;
        let has_every_chat = state.has_every_chat;
        let record = state.chat(chat)?;
        let thread = call.integer("message_thread_id");
        if let Some(thread) = thread {
            check_topic(record, thread, has_every_chat)?;
        }
        let reply_to = replied_message(record, call)?;
        Ok(Self {
            chat,
            thread,
            reply_to,
            markup: formatting::keyboard(call)?,
            is_silent: call.flag("disable_notification"),
        })
    }

    /// Adds the message to the chat.
    pub(super) fn post(&self, state: &mut WorldState, content: &Map<String, Value>) -> BotResult {
        let id = state.next_id();
        let from = state.bot_user();
        let record = state.chat(self.chat)?;
        let mut message = json!({
            "message_id": id,
            "from": from,
            "chat": record.info,
            "date": now(),
        });
        if let Some(thread) = self.thread {
            message["message_thread_id"] = json!(thread);
            message["is_topic_message"] = json!(true);
        }
        if let Some(replied) = &self.reply_to {
            message["reply_to_message"] = replied.clone();
            if self.thread.is_none()
                && let Some(chain) = record.reply_chain(replied)
            {
                message["message_thread_id"] = json!(chain);
            }
        }
        if self.markup["inline_keyboard"].is_array() {
            message["reply_markup"] = self.markup.clone();
        }
        for (name, value) in content {
            message[name] = value.clone();
        }
        let mut stored = message.clone();
        stored["is_silent"] = json!(self.is_silent);
        record.messages.insert(id, stored);
        // A message takes the place of drafts.
        let thread = self.thread;
        record.drafts.retain(|draft| draft.thread != thread);
        Ok(message)
    }
}

fn check_topic(record: &ChatRecord, thread: i64, has_every_chat: bool) -> Result<(), BotError> {
    if has_every_chat || record.topics.contains_key(&thread) {
        return Ok(());
    }
    // A reply chain may be named where replies make threads. The general topic has no number for senders.
    let is_chain = !record.is_forum() && record.messages.contains_key(&thread);
    if is_chain && thread != GENERAL_TOPIC {
        return Ok(());
    }
    Err(BotError::bad("message thread not found"))
}

fn replied_message(record: &ChatRecord, call: &BotCall) -> Result<Option<Value>, BotError> {
    let parameters = call.structure("reply_parameters")?;
    let id = parameters["message_id"]
        .as_i64()
        .or_else(|| call.integer("reply_to_message_id"));
    let Some(id) = id else {
        return Ok(None);
    };
    if let Some(message) = record.messages.get(&id) {
        let mut replied = message.clone();
        // Only one step of a chain is shown.
        if let Some(fields) = replied.as_object_mut() {
            fields.remove("reply_to_message");
            fields.remove("is_silent");
        }
        return Ok(Some(replied));
    }
    let may_lack = parameters["allow_sending_without_reply"] == true
        || call.flag("allow_sending_without_reply");
    if may_lack {
        Ok(None)
    } else {
        Err(BotError::bad("message to be replied not found"))
    }
}

pub(super) fn send_message(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let text = formatting::message_text(call)?;
    let mut state = world.lock();
    let frame = MessageFrame::read(&mut state, call)?;
    let mut content = Map::from_iter([("text".into(), json!(text.plain))]);
    if text.entities.is_array() {
        content.insert("entities".into(), text.entities);
    }
    frame.post(&mut state, &content)
}

pub(super) fn send_rich_message(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let rich = formatting::rich_text(call)?;
    let mut state = world.lock();
    let frame = MessageFrame::read(&mut state, call)?;
    let content = Map::from_iter([("rich_message".into(), json!({"blocks": rich.blocks}))]);
    let message = frame.post(&mut state, &content)?;
    let id = message["message_id"].as_i64().unwrap_or_default();
    let record = state.chat(frame.chat)?;
    if let Some(stored) = record.messages.get_mut(&id) {
        stored["rich_source"] = json!(rich.source);
    }
    Ok(message)
}

pub(super) fn edit_text(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let content = if call.has("rich_message") {
        let rich = formatting::rich_text(call)?;
        json!({"rich_message": {"blocks": rich.blocks}, "rich_source": rich.source})
    } else {
        json!({"text": formatting::message_text(call)?.plain})
    };
    edit(world, call, &content)
}

pub(super) fn edit_caption(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let text = formatting::caption(call)?;
    edit(world, call, &json!({"caption": text.plain}))
}

pub(super) fn edit_reply_markup(world: &TelegramWorld, call: &BotCall) -> BotResult {
    edit(world, call, &json!({}))
}

fn edit(world: &TelegramWorld, call: &BotCall, content: &Value) -> BotResult {
    let markup = formatting::keyboard(call)?;
    let mut state = world.lock();
    let chat = state.writable_chat(call)?;
    let bot = state.bot["id"].clone();
    let record = state.chat(chat)?;
    let id = call.integer("message_id").unwrap_or_default();
    let Some(message) = record.messages.get_mut(&id) else {
        return Err(BotError::bad("message to edit not found"));
    };
    if message["from"]["id"] != bot {
        return Err(BotError::bad("message can't be edited"));
    }
    let mut edited = message.clone();
    if let Some(fields) = edited.as_object_mut() {
        let replaces_text = content.get("text").or(content.get("rich_message"));
        if replaces_text.is_some() {
            for name in ["text", "entities", "rich_message", "rich_source"] {
                fields.remove(name);
            }
        }
        for (name, value) in content.as_object().into_iter().flatten() {
            fields.insert(name.clone(), value.clone());
        }
        fields.remove("reply_markup");
        let rows = markup["inline_keyboard"].as_array();
        if rows.is_some_and(|rows| !rows.is_empty()) {
            fields.insert("reply_markup".into(), markup);
        }
    }
    if edited == *message {
        return Err(BotError::bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a \
             current content and reply markup of the message",
        ));
    }
    edited["edit_date"] = json!(now());
    *message = edited.clone();
    Ok(visible(edited))
}

pub(super) fn delete_message(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let mut state = world.lock();
    let chat = state.writable_chat(call)?;
    let record = state.chat(chat)?;
    let id = call.integer("message_id").unwrap_or_default();
    match record.messages.remove(&id) {
        Some(_) => Ok(json!(true)),
        None => Err(BotError::bad("message to delete not found")),
    }
}

/// A stored message as the API shows it.
pub(super) fn visible(mut message: Value) -> Value {
    if let Some(fields) = message.as_object_mut() {
        fields.remove("is_silent");
        fields.remove("rich_source");
    }
    message
}
