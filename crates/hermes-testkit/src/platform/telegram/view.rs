//! What a user sees.

use serde_json::Value;

use super::{TelegramServer, world::DraftRecord};

/// A message as it is shown now.
#[derive(Debug, Clone, PartialEq)]
pub struct TelegramMessage {
    pub id: i64,
    pub is_from_bot: bool,
    /// The text or caption without markup; of a rich message its source.
    pub text: String,
    pub is_rich: bool,
    pub topic: Option<i64>,
    pub reply_to: Option<i64>,
    /// The labels and data or addresses of its buttons, row by row.
    pub buttons: Vec<Vec<(String, String)>>,
    /// The kind of its file.
    pub file: Option<&'static str>,
    pub album: Option<String>,
    /// When it was changed last, in seconds since 1970.
    pub edited_at: Option<u64>,
    pub is_silent: bool,
    pub reactions: Vec<String>,
}

/// A draft below a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelegramDraft {
    pub id: i64,
    pub topic: Option<i64>,
    pub text: String,
    pub can_stop: bool,
    /// How often it was sent.
    pub revisions: usize,
}

impl TelegramServer {
    /// The messages of a chat, oldest first.
    pub fn messages(&self, chat: i64) -> Vec<TelegramMessage> {
        let mut state = self.world().lock();
        let bot = state.bot["id"].clone();
        let Ok(record) = state.chat(chat) else {
            return Vec::new();
        };
        let show = |(id, message): (&i64, &Value)| {
            let mut shown = read_message(message);
            shown.is_from_bot = message["from"]["id"] == bot;
            shown.reactions = record.reactions.get(id).cloned().unwrap_or_default();
            shown
        };
        record.messages.iter().map(show).collect()
    }

    /// The texts that the bot has written in a chat, as they are now.
    pub fn answers(&self, chat: i64) -> Vec<String> {
        let messages = self.messages(chat).into_iter();
        let own = messages.filter(|message| message.is_from_bot);
        own.map(|message| message.text).collect()
    }

    /// The drafts that a user sees.
    pub fn drafts(&self, chat: i64) -> Vec<TelegramDraft> {
        let mut state = self.world().lock();
        let lifetime = state.draft_lifetime;
        let Ok(record) = state.chat(chat) else {
            return Vec::new();
        };
        let is_shown = |draft: &&DraftRecord| draft.shown_at.elapsed() < lifetime;
        let drafts = record.drafts.iter().filter(is_shown);
        drafts
            .map(|draft| TelegramDraft {
                id: draft.id,
                topic: draft.thread,
                text: draft.text.clone(),
                can_stop: draft.can_stop,
                revisions: draft.revisions,
            })
            .collect()
    }

    /// The actions that were shown in a chat, with their topics: `typing` and others.
    pub fn actions(&self, chat: i64) -> Vec<(Option<i64>, String)> {
        let mut state = self.world().lock();
        state
            .chat(chat)
            .map(|record| record.actions.clone())
            .unwrap_or_default()
    }

    /// The registered commands, by name.
    pub fn commands(&self) -> Vec<String> {
        let state = self.world().lock();
        let commands = state.commands.as_array().into_iter().flatten();
        commands
            .filter_map(|command| Some(command["command"].as_str()?.to_owned()))
            .collect()
    }

    /// Updates that the bot has not confirmed.
    pub fn waiting_updates(&self) -> Vec<Value> {
        self.world().lock().updates.waiting()
    }

    /// How many polls have begun.
    pub fn polls(&self) -> u64 {
        self.world().lock().updates.polls()
    }

    /// The content of a file that was sent in a message.
    pub fn file_content(&self, chat: i64, message: i64) -> Option<Vec<u8>> {
        let mut state = self.world().lock();
        let stored = state.chat(chat).ok()?.messages.get(&message)?.clone();
        let (field, file) = file_of(&stored)?;
        let file = match field {
            "photo" => file.as_array()?.last()?,
            _ => file,
        };
        let id = file["file_id"].as_str()?;
        Some(state.files.get(id)?.content.clone())
    }
}

fn file_of(message: &Value) -> Option<(&'static str, &Value)> {
    let fields = ["photo", "video", "audio", "voice", "document", "animation"];
    fields
        .into_iter()
        .find_map(|field| Some((field, message.get(field)?)))
}

fn read_message(message: &Value) -> TelegramMessage {
    let text = ["rich_source", "text", "caption"]
        .iter()
        .find_map(|name| message[*name].as_str());
    let rows = message["reply_markup"]["inline_keyboard"].as_array();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let buttons = rows.into_iter().flatten().map(|row| {
        let buttons = row.as_array().into_iter().flatten();
        let show = |button: &Value| {
            let target = button.get("callback_data").or(button.get("url"));
            (word(&button["text"]), word(target.unwrap_or(&Value::Null)))
        };
        buttons.map(show).collect()
    });
    let is_topic = message["is_topic_message"] == true;
    TelegramMessage {
        id: message["message_id"].as_i64().unwrap_or_default(),
        is_from_bot: false,
        text: text.unwrap_or_default().to_owned(),
        is_rich: message.get("rich_message").is_some(),
        topic: message["message_thread_id"].as_i64().filter(|_| is_topic),
        reply_to: message["reply_to_message"]["message_id"].as_i64(),
        buttons: buttons.collect(),
        file: file_of(message).map(|(field, _)| field),
        album: message["media_group_id"].as_str().map(str::to_owned),
        edited_at: message["edit_date"].as_u64(),
        is_silent: message["is_silent"] == true,
        reactions: Vec::new(),
    }
}
