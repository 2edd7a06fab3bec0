//! The index of a home's conversations: every chat with an open session.
//!
//! They come from the store, or from `sessions/sessions.json` if the store has none. The index is cached
//! until one of them changes; then only the changed chats are read again.

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use hermes_config::{
    Home,
    sync::{Mutex, MutexGuard},
};
use hermes_store::{
    ChatMark, ChatSession, CurrentStore, LiveStore, MessageId, OwnPlatform, SessionId, SessionKey,
    StoreError, StoreVersion, local_iso, mirror,
};
use serde_json::{Map, Value, json};
use tokio::{sync::Semaphore, time::Instant};

use crate::platforms::PlatformFilter;

/// A chat and its session. Unknown values are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationEntry {
    pub session_key: String,
    pub session_id: String,
    pub platform: String,
    pub chat_type: String,
    pub display_name: String,
    pub chat_name: String,
    pub user_name: String,
    pub chat_id: String,
    pub thread_id: Option<String>,
    /// The full origin.
    pub origin: Map<String, Value>,
    /// Local time.
    pub created_at: String,
    /// Local time of the last message.
    pub updated_at: String,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub total_tokens: i64,
}

/// Conversations, the last used first. Unchanged ones are shared with the previous read.
pub type ConversationEntries = Arc<Vec<Arc<ConversationEntry>>>;

/// The current conversations of a home.
#[derive(Debug)]
pub struct ConversationIndex {
    home: Home,
    shown: PlatformFilter,
    live: LiveStore,
    cache: Mutex<Option<CachedIndex>>,
    /// One reader at a time, so that a change is read once for all callers.
    read_permit: Semaphore,
}

/// The cached index, and the versions it was read from.
#[derive(Debug, Clone)]
struct CachedIndex {
    version: Option<StoreVersion>,
    file: Option<FileStamp>,
    entries: ConversationEntries,
    chats: Arc<CachedChats>,
}

#[derive(Debug, Default)]
struct CachedChats {
    /// In the order in which the store tells of them.
    entries: Vec<(ChatMark, Arc<ConversationEntry>)>,
    last_message: Option<MessageId>,
}

/// Finds chats among those that were read before. Most are where they were, or a place further.
struct KnownChats<'a> {
    entries: &'a [(ChatMark, Arc<ConversationEntry>)],
    /// Where the next one is expected.
    next: usize,
    /// Places by session, worked out when one is not where it is expected.
    places: Option<HashMap<&'a str, usize>>,
}

impl<'a> KnownChats<'a> {
    fn new(entries: &'a [(ChatMark, Arc<ConversationEntry>)]) -> Self {
        Self {
            entries,
            next: 0,
            places: None,
        }
    }

    /// What was read of a chat, if it was as it is now.
    fn find(&mut self, mark: &ChatMark) -> Option<&'a Arc<ConversationEntry>> {
        if let Some((known, entry)) = self.entries.get(self.next)
            && known == mark
        {
            self.next += 1;
            return Some(entry);
        }
        let entries = self.entries;
        let places = self.places.get_or_insert_with(|| {
            let sessions = entries.iter().map(|(_, entry)| entry.session_id.as_str());
            sessions.zip(0..).collect()
        });
        let place = *places.get(mark.session()?.as_str())?;
        self.next = place + 1;
        let (known, entry) = entries.get(place)?;
        (known == mark).then_some(entry)
    }
}

/// What tells one version of a file from another.
type FileStamp = (SystemTime, u64, u64);

impl ConversationIndex {
    /// Shows the chats of messaging platforms. Reads nothing yet.
    pub fn open(home: &Home) -> Self {
        Self::for_platforms(home, PlatformFilter::default())
    }

    /// Shows the conversations of these platforms. Reads nothing yet.
    pub fn for_platforms(home: &Home, shown: PlatformFilter) -> Self {
        Self {
            home: home.clone(),
            shown,
            live: LiveStore::new(home),
            cache: Mutex::default(),
            read_permit: Semaphore::new(1),
        }
    }

    pub fn platform_filter(&self) -> &PlatformFilter {
        &self.shown
    }

    /// All conversations, the last used first. Waits for a store that another process has locked; one that
    /// cannot be read is an error, unless `sessions.json` has the conversations.
    pub async fn entries(&self) -> Result<ConversationEntries, StoreError> {
        let waiting = LockRetry::new();
        loop {
            match self.read().await {
                Err(error) if waiting.wait_to_retry(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn read(&self) -> Result<ConversationEntries, StoreError> {
        // The semaphore is never closed.
        let _turn = self.read_permit.acquire().await;
        let file = file_stamp(&mirror::sessions_file(&self.home));
        let seen = match self.live.poll().await {
            Ok(seen) => seen,
            // It may just be being created.
            Err(StoreError::Unavailable { .. }) => None,
            Err(error) => return self.read_file_instead(error),
        };
        let version = seen.as_ref().map(|seen| seen.version);
        if let Some(kept) = self.cache().as_ref()
            && (kept.version, kept.file) == (version, file)
        {
            return Ok(Arc::clone(&kept.entries));
        }
        let chats = match seen {
            Some(seen) => self.read_chats(&seen).await,
            None => Ok(CachedChats::default()),
        };
        let chats = match chats {
            Ok(chats) => chats,
            Err(error) => return self.read_file_instead(error),
        };
        let known = chats.entries.iter().map(|(_, entry)| Arc::clone(entry));
        let mut entries: Vec<Arc<ConversationEntry>> = known.collect();
        if entries
            .iter()
            .all(|entry| OwnPlatform::from_session_key(&entry.session_key).is_some())
        {
            entries.extend(self.read_file());
        }
        let entries = self.sort_shown(entries);
        *self.cache() = Some(CachedIndex {
            version,
            file,
            entries: Arc::clone(&entries),
            chats: Arc::new(chats),
        });
        Ok(entries)
    }

    /// The chats of the store. Unchanged ones are taken from the cache.
    async fn read_chats(&self, seen: &CurrentStore) -> Result<CachedChats, StoreError> {
        let before = self.cache().clone().filter(|kept| {
            let version = kept.version.as_ref();
            version.is_some_and(|version| version.is_of_same_file(&seen.version))
        });
        let before = before.map(|kept| kept.chats).unwrap_or_default();
        let marks = seen
            .store
            .chat_marks(before.last_message, self.shown.own_platforms())
            .await?;
        let grown = marks.grown.as_ref();
        let has_grown =
            |entry: &ConversationEntry| grown.is_none_or(|grown| grown.contains(&entry.session_id));
        let mut known = KnownChats::new(&before.entries);
        let mut found: Vec<(ChatMark, Option<Arc<ConversationEntry>>)> =
            Vec::with_capacity(marks.chats.len());
        let mut changed: HashMap<SessionId, usize> = HashMap::new();
        for mark in marks.chats {
            let same = known.find(&mark).filter(|entry| !has_grown(entry));
            if same.is_none()
                && let Some(session) = mark.session()
            {
                changed.insert(session, found.len());
            }
            found.push((mark, same.cloned()));
        }
        let sessions: Vec<SessionId> = changed.keys().cloned().collect();
        for chat in seen.store.chats_in(&sessions).await? {
            if let Some((_, entry)) = changed
                .get(&chat.session)
                .and_then(|place| found.get_mut(*place))
            {
                *entry = Some(Arc::new(entry_from_chat(chat)));
            }
        }
        let found = found.into_iter();
        let entries = found.filter_map(|(mark, entry)| Some((mark, entry?)));
        Ok(CachedChats {
            entries: entries.collect(),
            last_message: Some(marks.last_message),
        })
    }

    /// The shown ones, the last used first.
    fn sort_shown(&self, mut entries: Vec<Arc<ConversationEntry>>) -> ConversationEntries {
        entries.retain(|entry| self.shown.shows(&entry.platform));
        entries.sort_by(|one, other| {
            let newest = other.updated_at.cmp(&one.updated_at);
            newest.then_with(|| one.session_key.cmp(&other.session_key))
        });
        Arc::new(entries)
    }

    /// Falls back to the file when the store is unreadable.
    fn read_file_instead(&self, error: StoreError) -> Result<ConversationEntries, StoreError> {
        if matches!(error, StoreError::Locked { .. }) {
            return Err(error);
        }
        let entries = self.read_file();
        if entries.is_empty() {
            return Err(error);
        }
        log_read_error(&error);
        Ok(self.sort_shown(entries))
    }

    pub async fn close(&self) {
        self.live.close().await;
    }

    fn read_file(&self) -> Vec<Arc<ConversationEntry>> {
        match mirror::read_sessions_json(&self.home) {
            Ok(entries) => entries
                .iter()
                .filter_map(|(key, value)| entry_from_json(key, value).map(Arc::new))
                .collect(),
            Err(error) => {
                log_read_error(&error);
                Vec::new()
            }
        }
    }

    fn cache(&self) -> MutexGuard<'_, Option<CachedIndex>> {
        self.cache.lock()
    }
}

/// Logged only: the index answers with what it has.
fn log_read_error(error: &StoreError) {
    tracing::debug!(%error, "failed to read conversations from the store");
}

fn file_stamp(path: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.modified().ok()?, metadata.len(), inode))
}

fn entry_from_chat(chat: ChatSession) -> ConversationEntry {
    let own = OwnPlatform::from_source(&chat.source)
        .filter(|own| own.session_key(&chat.session) == chat.session_key);
    let origin = match chat.origin {
        Some(Value::Object(origin)) => origin,
        _ => origin_from_columns(&chat),
    };
    let filled = |column: Option<String>| column.filter(|text| !text.is_empty());
    ConversationEntry {
        session_key: chat.session_key.as_str().to_owned(),
        session_id: chat.session.as_str().to_owned(),
        platform: own.map_or(chat.source, |own| own.as_str().to_owned()),
        chat_type: filled(chat.chat_type).unwrap_or_else(|| text(&origin, "chat_type")),
        display_name: filled(chat.display_name).unwrap_or_else(|| match own {
            Some(_) => filled(chat.title).unwrap_or_else(|| chat.session.as_str().to_owned()),
            None => text(&origin, "chat_name"),
        }),
        chat_name: text(&origin, "chat_name"),
        user_name: text(&origin, "user_name"),
        chat_id: filled(chat.chat_id).unwrap_or_else(|| text(&origin, "chat_id")),
        thread_id: thread_id(&origin),
        created_at: chat.started_at.map(local_iso).unwrap_or_default(),
        updated_at: chat.last_active.map(local_iso).unwrap_or_default(),
        input_tokens: chat.input_tokens,
        output_tokens: chat.output_tokens,
        total_tokens: chat.input_tokens + chat.output_tokens,
        origin,
    }
}

/// An origin from the columns of a session.
fn origin_from_columns(chat: &ChatSession) -> Map<String, Value> {
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

fn entry_from_json(key: &SessionKey, value: &Value) -> Option<ConversationEntry> {
    let entry = value.as_object()?;
    let origin = match entry.get("origin") {
        Some(Value::Object(origin)) => origin.clone(),
        _ => Map::new(),
    };
    let or_origin = |name: &str, other: &str| match text(entry, name) {
        empty if empty.is_empty() => text(&origin, other),
        text => text,
    };
    // A number is not a timestamp, and would sort before all others.
    let time = |name: &str| match entry.get(name) {
        Some(Value::String(time)) => time.clone(),
        _ => String::new(),
    };
    let number = |name: &str| entry.get(name).and_then(Value::as_i64).unwrap_or_default();
    Some(ConversationEntry {
        session_key: key.as_str().to_owned(),
        session_id: text(entry, "session_id"),
        platform: or_origin("platform", "platform"),
        chat_type: or_origin("chat_type", "chat_type"),
        display_name: or_origin("display_name", "chat_name"),
        chat_name: text(&origin, "chat_name"),
        user_name: text(&origin, "user_name"),
        chat_id: text(&origin, "chat_id"),
        thread_id: thread_id(&origin),
        created_at: time("created_at"),
        updated_at: time("updated_at"),
        input_tokens: number("input_tokens"),
        output_tokens: number("output_tokens"),
        total_tokens: number("total_tokens"),
        origin,
    })
}

fn thread_id(origin: &Map<String, Value>) -> Option<String> {
    Some(text(origin, "thread_id")).filter(|thread| !thread.is_empty())
}

/// Text, or a number as text: ids occur in both forms.
fn text(map: &Map<String, Value>, key: &str) -> String {
    match map.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Retries until a deadline.
#[derive(Debug)]
pub(crate) struct LockRetry {
    deadline: Instant,
}

impl LockRetry {
    pub(crate) fn new() -> Self {
        Self {
            deadline: Instant::now() + LOCK_TIMEOUT,
        }
    }

    /// Whether to retry after this error; pauses if so.
    pub(crate) async fn wait_to_retry(&self, error: &StoreError) -> bool {
        let is_worth_it =
            matches!(error, StoreError::Locked { .. }) && Instant::now() < self.deadline;
        if is_worth_it {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        is_worth_it
    }
}
