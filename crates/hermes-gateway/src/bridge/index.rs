//! The conversations of a home: every chat of the gateway that is in an open session.
//!
//! They come from the store, or from `sessions/sessions.json` where the store knows none. What was read is kept for
//! as long as neither changes.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use hermes_config::Home;
use hermes_store::{Chat, LiveStore, Seen, SessionKey, StoreError, Version, local_iso, mirror};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

/// A chat and the session it is in. What is not known is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The chat.
    pub session_key: String,
    /// The session.
    pub session_id: String,
    /// The platform.
    pub platform: String,
    /// The chat's type.
    pub chat_type: String,
    /// The chat's name for people.
    pub display_name: String,
    /// The chat's name on its platform.
    pub chat_name: String,
    /// Who talks.
    pub user_name: String,
    /// The chat on its platform.
    pub chat_id: String,
    /// The thread inside the chat.
    pub thread_id: Option<String>,
    /// Where it takes place, whole.
    pub origin: Map<String, Value>,
    /// Local time.
    pub created_at: String,
    /// Local time of the last message.
    pub updated_at: String,
    /// Tokens sent.
    pub input_tokens: i64,
    /// Tokens received.
    pub output_tokens: i64,
    /// Both.
    pub total_tokens: i64,
}

/// The conversations of a home, always as they are now.
#[derive(Debug)]
pub struct ConversationIndex {
    home: Home,
    live: LiveStore,
    kept: Mutex<Option<Kept>>,
    /// Who reads it anew does so alone: the others want the same.
    turn: Semaphore,
}

/// What was read, and when that is still true.
#[derive(Debug, Clone)]
struct Kept {
    version: Option<Version>,
    file: Option<Stamp>,
    entries: Arc<Vec<Entry>>,
}

/// What a look found.
enum Known {
    /// All is as it was when these were read.
    Kept(Arc<Vec<Entry>>),
    /// Something is new.
    Changed {
        seen: Option<Seen>,
        file: Option<Stamp>,
    },
}

/// What tells one version of a file from another.
type Stamp = (SystemTime, u64, u64);

impl ConversationIndex {
    /// Reads nothing yet.
    pub fn open(home: &Home) -> Self {
        Self {
            home: home.clone(),
            live: LiveStore::new(home),
            kept: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }

    /// All conversations, the last used first.
    pub async fn entries(&self) -> Arc<Vec<Entry>> {
        if let Known::Kept(entries) = self.look().await {
            return entries;
        }
        // Never closed, so there is always a turn.
        let _turn = self.turn.acquire().await;
        match self.look().await {
            Known::Kept(entries) => entries,
            Known::Changed { seen, file } => self.read(seen, file).await,
        }
    }

    /// What was read before, if nothing has changed since.
    async fn look(&self) -> Known {
        let file = stamp(&mirror::sessions_file(&self.home));
        let seen = self.live.look().await.unwrap_or_else(|error| {
            report(&error);
            None
        });
        let version = seen.as_ref().map(|seen| seen.version);
        match self.kept().as_ref() {
            Some(kept) if (kept.version, kept.file) == (version, file) => {
                Known::Kept(Arc::clone(&kept.entries))
            }
            _ => Known::Changed { seen, file },
        }
    }

    /// Reads everything.
    async fn read(&self, seen: Option<Seen>, file: Option<Stamp>) -> Arc<Vec<Entry>> {
        let version = seen.as_ref().map(|seen| seen.version);
        let chats = match seen {
            Some(seen) => seen.store.chats().await,
            None => Ok(Vec::new()),
        };
        let (mut entries, is_sure) = match chats {
            Ok(chats) => (chats.into_iter().map(from_chat).collect(), true),
            Err(error) => {
                report(&error);
                (Vec::new(), false)
            }
        };
        if entries.is_empty() {
            entries = self.read_file();
        }
        entries.sort_by(|one: &Entry, other| other.updated_at.cmp(&one.updated_at));
        let entries = Arc::new(entries);
        if is_sure {
            *self.kept() = Some(Kept {
                version,
                file,
                entries: Arc::clone(&entries),
            });
        }
        entries
    }

    /// Closes the connection to the store.
    pub async fn close(&self) {
        self.live.close().await;
    }

    fn read_file(&self) -> Vec<Entry> {
        match mirror::read_sessions_json(&self.home) {
            Ok(entries) => entries
                .iter()
                .filter_map(|(key, value)| from_json(key, value))
                .collect(),
            Err(error) => {
                report(&error);
                Vec::new()
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index answers with what it has.
fn report(error: &StoreError) {
    tracing::debug!(%error, "the conversations could not be read");
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.modified().ok()?, metadata.len(), inode))
}

fn from_chat(chat: Chat) -> Entry {
    let origin = match chat.origin {
        Some(Value::Object(origin)) => origin,
        _ => columns(&chat),
    };
    let filled = |column: Option<String>| column.filter(|text| !text.is_empty());
    Entry {
        session_key: chat.session_key.as_str().to_owned(),
        session_id: chat.session.as_str().to_owned(),
        platform: chat.source,
        chat_type: filled(chat.chat_type).unwrap_or_else(|| text(&origin, "chat_type")),
        display_name: filled(chat.display_name).unwrap_or_else(|| text(&origin, "chat_name")),
        chat_name: text(&origin, "chat_name"),
        user_name: text(&origin, "user_name"),
        chat_id: text(&origin, "chat_id"),
        thread_id: thread(&origin),
        created_at: chat.started_at.map(local_iso).unwrap_or_default(),
        updated_at: chat.last_active.map(local_iso).unwrap_or_default(),
        input_tokens: chat.input_tokens,
        output_tokens: chat.output_tokens,
        total_tokens: chat.input_tokens + chat.output_tokens,
        origin,
    }
}

/// An origin from what the columns of a session say.
fn columns(chat: &Chat) -> Map<String, Value> {
    let origin = json!({
        "platform": chat.source,
        "chat_id": chat.chat_id,
        "chat_type": chat.chat_type,
        "thread_id": chat.thread_id,
        "user_id": chat.user_id,
    });
    match origin {
        Value::Object(origin) => origin,
        _ => Map::new(),
    }
}

fn from_json(key: &SessionKey, value: &Value) -> Option<Entry> {
    let entry = value.as_object()?;
    let origin = match entry.get("origin") {
        Some(Value::Object(origin)) => origin.clone(),
        _ => Map::new(),
    };
    let or_origin = |name: &str, other: &str| match text(entry, name) {
        empty if empty.is_empty() => text(&origin, other),
        text => text,
    };
    let number = |name: &str| entry.get(name).and_then(Value::as_i64).unwrap_or_default();
    Some(Entry {
        session_key: key.as_str().to_owned(),
        session_id: text(entry, "session_id"),
        platform: or_origin("platform", "platform"),
        chat_type: or_origin("chat_type", "chat_type"),
        display_name: or_origin("display_name", "chat_name"),
        chat_name: text(&origin, "chat_name"),
        user_name: text(&origin, "user_name"),
        chat_id: text(&origin, "chat_id"),
        thread_id: thread(&origin),
        created_at: text(entry, "created_at"),
        updated_at: text(entry, "updated_at"),
        input_tokens: number("input_tokens"),
        output_tokens: number("output_tokens"),
        total_tokens: number("total_tokens"),
        origin,
    })
}

fn thread(origin: &Map<String, Value>) -> Option<String> {
    Some(text(origin, "thread_id")).filter(|thread| !thread.is_empty())
}

/// Text, or a number as text: ids are written both ways.
fn text(map: &Map<String, Value>, key: &str) -> String {
    match map.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}
