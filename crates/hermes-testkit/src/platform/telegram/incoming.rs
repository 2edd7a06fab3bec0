//! What people write: the updates that a bot receives.

use serde_json::{Value, json};

use super::{
    TelegramServer,
    media::TelegramFile,
    world::{GENERAL_TOPIC, now},
};

/// A message of somebody, until it is sent.
#[must_use]
pub struct TelegramDraftedMessage<'s> {
    server: &'s TelegramServer,
    chat: i64,
    user: i64,
    text: String,
    file: Option<(TelegramFile, String, Vec<u8>)>,
    claimed_size: Option<u64>,
    reply_to: Option<i64>,
    topic: Option<i64>,
    album: Option<String>,
    forwarded_from: Option<String>,
    sent_at: Option<u64>,
    extra: Value,
}

impl<'s> TelegramDraftedMessage<'s> {
    pub(super) fn new(server: &'s TelegramServer, chat: i64, user: i64) -> Self {
        Self {
            server,
            chat,
            user,
            text: String::new(),
            file: None,
            claimed_size: None,
            reply_to: None,
            topic: None,
            album: None,
            forwarded_from: None,
            sent_at: None,
            extra: json!({}),
        }
    }

    /// The text, or the caption of the file.
    pub fn text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.text);
        self
    }

    pub fn file(mut self, kind: TelegramFile, name: &str, content: &[u8]) -> Self {
        self.file = Some((kind, name.to_owned(), content.to_vec()));
        self
    }

    /// What Telegram says of the file's size.
    pub fn claimed_size(mut self, bytes: u64) -> Self {
        self.claimed_size = Some(bytes);
        self
    }

    pub fn reply_to(mut self, message: i64) -> Self {
        self.reply_to = Some(message);
        self
    }

    pub fn topic(mut self, topic: i64) -> Self {
        self.topic = Some(topic);
        self
    }

    /// Messages with the same word are one album.
    pub fn album(mut self, album: &str) -> Self {
        self.album = Some(album.to_owned());
        self
    }

    pub fn forwarded_from(mut self, name: &str) -> Self {
        self.forwarded_from = Some(name.to_owned());
        self
    }

    /// When it was sent, in seconds since 1970.
    pub fn sent_at(mut self, seconds: u64) -> Self {
        self.sent_at = Some(seconds);
        self
    }

    /// Members that no bot knows yet.
    pub fn with_member(mut self, name: &str, value: Value) -> Self {
        self.extra[name] = value;
        self
    }

    /// Sends it; returns the number of the message.
    ///
    /// # Panics
    ///
    /// If the chat or the user was not added before.
    pub fn send(self) -> i64 {
        let world = self.server.world();
        let mut state = world.lock();
        let id = state.next_id();
        let from = self.server.user(&state, self.user);
        let bot_id = state.bot["id"].clone();
        let bot_name = state.bot["username"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let reads_all = state.bot["can_read_all_group_messages"] == true;
        let described = self.file.as_ref().map(|(kind, name, content)| {
            let file = state.add_file(kind.field(), name, content);
            if let Some(stored) = state.files.get_mut(&file) {
                stored.claimed_size = self.claimed_size;
            }
            let size = self.claimed_size.unwrap_or(content.len() as u64);
            (kind.field(), kind.describe(&file, name, size))
        });
        if self.chat == self.user {
            state.open_private_chat(self.user);
        }
        let Ok(record) = state.chat(self.chat) else {
            panic!("the chat {} was not added", self.chat);
        };
        let mut message = json!({
            "message_id": id,
            "from": from,
            "chat": record.info,
            "date": self.sent_at.unwrap_or_else(now),
        });
        if record.info["type"] == "channel" {
            message["sender_chat"] = record.info.clone();
            if let Some(fields) = message.as_object_mut() {
                fields.remove("from");
            }
        }
        if let Some(topic) = self.topic.filter(|topic| *topic != GENERAL_TOPIC) {
            message["message_thread_id"] = json!(topic);
            message["is_topic_message"] = json!(true);
        }
        if let Some(replied) = self.reply_to.and_then(|id| record.messages.get(&id)) {
            let mut replied = super::messages::visible(replied.clone());
            if let Some(fields) = replied.as_object_mut() {
                fields.remove("reply_to_message");
            }
            if self.topic.is_none()
                && let Some(chain) = record.reply_chain(&replied)
            {
                message["message_thread_id"] = json!(chain);
            }
            message["reply_to_message"] = replied;
        }
        let (words, entities) = match described {
            Some((field, described)) => {
                message[field] = described;
                ("caption", "caption_entities")
            }
            None => ("text", "entities"),
        };
        let found = find_entities(&self.text);
        if !self.text.is_empty() {
            message[words] = json!(self.text);
            if !found.is_empty() {
                message[entities] = json!(found);
            }
        }
        if let Some(album) = &self.album {
            message["media_group_id"] = json!(album);
        }
        if let Some(name) = &self.forwarded_from {
            message["forward_origin"] =
                json!({"type": "hidden_user", "sender_user_name": name, "date": 1_700_000_000});
        }
        for (name, value) in self.extra.as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        record.messages.insert(id, message.clone());
        let kind = match record.info["type"].as_str() {
            Some("channel") => "channel_post",
            _ => "message",
        };
        // With privacy mode, a bot in a group gets only what is meant for it.
        let mention = format!("@{bot_name}").to_lowercase();
        let is_visible = reads_all
            || record.is_private()
            || kind == "channel_post"
            || self.text.starts_with('/')
            || self.text.to_lowercase().contains(&mention)
            || message["reply_to_message"]["from"]["id"] == bot_id;
        if is_visible {
            state.updates.add(kind, &message);
        }
        drop(state);
        world.changed.notify_waiters();
        id
    }
}

/// Mentions, commands and addresses, at UTF-16 positions.
fn find_entities(text: &str) -> Vec<Value> {
    let mut entities = Vec::new();
    let mut offset = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end_matches(|c: char| c.is_whitespace() || ".,:;!?".contains(c));
        let kind = if bare.len() > 1 && bare.starts_with('@') {
            Some("mention")
        } else if bare.len() > 1 && bare.starts_with('/') {
            Some("bot_command")
        } else if bare.starts_with("https://") || bare.starts_with("http://") {
            Some("url")
        } else {
            None
        };
        if let Some(kind) = kind {
            let length = bare.encode_utf16().count();
            entities.push(json!({"type": kind, "offset": offset, "length": length}));
        }
        offset += word.encode_utf16().count();
    }
    entities
}
