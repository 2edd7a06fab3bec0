//! What Telegram knows: the bot, people, chats, their messages and files.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    call::{BotCall, BotError},
    updates::UpdateQueue,
};
use crate::script::lock;

/// A chat given by its name has this number.
const NAMED_CHAT: i64 = -100_777;
/// The topic of a forum that has no number in messages.
pub(super) const GENERAL_TOPIC: i64 = 1;
/// How long a draft is seen.
const DRAFT_LIFETIME: Duration = Duration::from_secs(30);

/// Telegram, shared by all requests.
pub(in crate::platform) struct TelegramWorld {
    state: Mutex<WorldState>,
    /// Wakes polls.
    pub(super) changed: Notify,
}

pub(super) struct WorldState {
    pub(super) bot: Value,
    /// Whether every chat exists, as one-shot tests want it.
    pub(super) has_every_chat: bool,
    pub(super) chats: BTreeMap<i64, ChatRecord>,
    pub(super) users: BTreeMap<i64, Value>,
    pub(super) updates: UpdateQueue,
    pub(super) files: HashMap<String, HostedFile>,
    pub(super) callbacks: BTreeMap<String, CallbackRecord>,
    pub(super) commands: Value,
    /// Methods that this server does not know, because it is older.
    pub(super) unknown_methods: Vec<String>,
    pub(super) draft_lifetime: Duration,
    last_id: i64,
    /// Of files and albums.
    last_file_id: i64,
}

pub(super) struct ChatRecord {
    pub(super) info: Value,
    pub(super) messages: BTreeMap<i64, Value>,
    /// Names of topics.
    pub(super) topics: BTreeMap<i64, String>,
    pub(super) drafts: Vec<DraftRecord>,
    pub(super) actions: Vec<(Option<i64>, String)>,
    pub(super) reactions: BTreeMap<i64, Vec<String>>,
    pub(super) standing: BotMembership,
}

/// Whether the bot may write in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BotMembership {
    Member,
    Blocked,
    Kicked,
    MigratedTo(i64),
}

pub(super) struct DraftRecord {
    pub(super) id: i64,
    pub(super) thread: Option<i64>,
    pub(super) text: String,
    pub(super) can_stop: bool,
    pub(super) shown_at: Instant,
    /// How often it has been sent.
    pub(super) revisions: usize,
}

#[derive(Clone)]
pub(super) struct HostedFile {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    /// What is said of its size, where that is not the truth.
    pub(super) claimed_size: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct CallbackRecord {
    pub(super) answer: Option<String>,
}

impl TelegramWorld {
    /// A world in which every chat exists.
    pub(in crate::platform) fn new(token: &str) -> Self {
        let id = token
            .split_once(':')
            .and_then(|(id, _)| id.parse::<i64>().ok());
        let bot = json!({
            "id": id.unwrap_or(1),
            "is_bot": true,
            "first_name": "Hermes",
            "username": "hermes_test_bot",
            "can_join_groups": true,
            "can_read_all_group_messages": true,
            "supports_inline_queries": false,
            "has_topics_enabled": true,
        });
        Self {
            state: Mutex::new(WorldState {
                bot,
                has_every_chat: true,
                chats: BTreeMap::new(),
                users: BTreeMap::new(),
                updates: UpdateQueue::default(),
                files: HashMap::new(),
                callbacks: BTreeMap::new(),
                commands: json!([]),
                unknown_methods: Vec::new(),
                draft_lifetime: DRAFT_LIFETIME,
                last_id: 100,
                last_file_id: 0,
            }),
            changed: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WorldState> {
        lock(&self.state)
    }
}

impl WorldState {
    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// A number for a file or an album.
    pub(super) fn next_file_id(&mut self) -> i64 {
        self.last_file_id += 1;
        self.last_file_id
    }

    /// The bot as the author of a message.
    pub(super) fn bot_user(&self) -> Value {
        json!({
            "id": self.bot["id"],
            "is_bot": true,
            "first_name": self.bot["first_name"],
            "username": self.bot["username"],
        })
    }

    pub(super) fn chat(&mut self, id: i64) -> Result<&mut ChatRecord, BotError> {
        let not_found = BotError::bad("chat not found");
        self.chats.get_mut(&id).ok_or(not_found)
    }

    /// The chat that a call names, if the bot may write there.
    pub(super) fn writable_chat(&mut self, call: &BotCall) -> Result<i64, BotError> {
        let id = self.chat_id(call)?;
        match self.chat(id)?.standing {
            BotMembership::Member => Ok(id),
            BotMembership::Blocked => Err(BotError::forbidden("bot was blocked by the user")),
            BotMembership::Kicked => Err(BotError::forbidden("bot was kicked from the group chat")),
            BotMembership::MigratedTo(new_id) => Err(BotError::migrated(new_id)),
        }
    }

    /// The chat that a call names.
    pub(super) fn chat_id(&mut self, call: &BotCall) -> Result<i64, BotError> {
        let text = call.text("chat_id");
        if text.is_empty() {
            return Err(BotError::bad("chat_id is empty"));
        }
        let id = match text.strip_prefix('@') {
            Some(name) => self.named_chat(name),
            None => text.parse().ok(),
        };
        let Some(id) = id else {
            return Err(BotError::bad("chat not found"));
        };
        if self.chats.contains_key(&id) {
            return Ok(id);
        }
        if self.has_every_chat {
            let kind = if id < 0 { "supergroup" } else { "private" };
            self.chats
                .insert(id, ChatRecord::new(json!({"id": id, "type": kind})));
            return Ok(id);
        }
        if self.users.contains_key(&id) {
            let reason = "bot can't initiate conversation with a user";
            return Err(BotError::forbidden(reason));
        }
        Err(BotError::bad("chat not found"))
    }

    fn named_chat(&self, name: &str) -> Option<i64> {
        let mut chats = self.chats.iter();
        let found = chats.find(|(_, chat)| chat.info["username"] == name);
        found
            .map(|(id, _)| *id)
            .or_else(|| self.has_every_chat.then_some(NAMED_CHAT))
    }

    /// Keeps a file; returns its id.
    pub(super) fn add_file(&mut self, folder: &str, name: &str, content: &[u8]) -> String {
        let number = self.next_file_id();
        let id = format!("AgAC{number}");
        let extension = name
            .rsplit_once('.')
            .map_or("bin", |(_, extension)| extension);
        let file = HostedFile {
            path: format!("{folder}/file_{number}.{extension}"),
            content: content.to_vec(),
            claimed_size: None,
        };
        self.files.insert(id.clone(), file);
        id
    }
}

impl ChatRecord {
    pub(super) fn new(info: Value) -> Self {
        Self {
            info,
            messages: BTreeMap::new(),
            topics: BTreeMap::new(),
            drafts: Vec::new(),
            actions: Vec::new(),
            reactions: BTreeMap::new(),
            standing: BotMembership::Member,
        }
    }

    pub(super) fn id(&self) -> i64 {
        self.info["id"].as_i64().unwrap_or_default()
    }

    pub(super) fn is_private(&self) -> bool {
        self.info["type"] == "private"
    }

    pub(super) fn is_forum(&self) -> bool {
        self.info["is_forum"] == true
    }

    /// The number that a message's replies in this chat carry as their thread, where replies make threads.
    pub(super) fn reply_chain(&self, replied: &Value) -> Option<i64> {
        if self.info["type"] != "supergroup" {
            return None;
        }
        let own = replied["message_thread_id"].as_i64();
        own.or_else(|| replied["message_id"].as_i64())
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
