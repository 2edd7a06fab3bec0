//! Which session each chat is in.
//!
//! The entries are kept in memory and written behind: a session's row has its key too, so an entry that was not written
//! before a crash is found again.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use hermes_config::{Home, sync::Mutex};
use hermes_store::{
    EndReason, Origin, SessionId, SessionKey, Store, StoreError, epoch_seconds, local_iso,
    mirror::{self, RoutingEntry, SessionsJson},
};
use jiff::{Zoned, civil::DateTime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::platform::ChatAddress;

/// Entries that nobody used for so long are forgotten.
const RETENTION_DAYS: f64 = 90.0;
/// Changes are collected for so long.
const WRITE_DELAY: Duration = Duration::from_secs(1);
/// How long after a shutdown a turn goes on by itself.
const RESUME_WINDOW_SECONDS: f64 = 3600.0;

pub(super) struct RoutingTable {
    home: Home,
    store: Store,
    copy: SessionsJson,
    entries: Mutex<HashMap<SessionKey, RoutedChat>>,
    changed: Notify,
}

struct RoutedChat {
    entry: RoutingEntry,
    /// Whether the session was looked up in this process.
    is_verified: bool,
}

/// The session of a chat.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RoutedSession {
    pub(super) id: SessionId,
    /// When somebody last wrote, in seconds since 1970. None in a session that begins now.
    pub(super) last_used: Option<f64>,
}

impl RoutingTable {
    pub(super) async fn load(
        home: &Home,
        store: &Store,
        copy: SessionsJson,
    ) -> Result<Self, StoreError> {
        let oldest = epoch_seconds() - RETENTION_DAYS * 86_400.0;
        let mut entries = mirror::load_routing(home, store).await?;
        let known: HashSet<SessionKey> = entries
            .iter()
            .map(|entry| entry.session_key.clone())
            .collect();
        // Entries that were not written before a crash.
        for chat in store.chats().await? {
            let origin = chat.origin.as_ref().and_then(Origin::from_json);
            if let Some(origin) = origin.filter(|_| !known.contains(&chat.session_key)) {
                let mut entry = RoutingEntry::new(chat.session_key, chat.session, origin);
                if let Some(used) = chat.last_active {
                    entry.updated_at = local_iso(used);
                }
                entries.push(entry);
            }
        }
        let entries = entries
            .into_iter()
            .filter(|entry| parse_local(&entry.updated_at).is_none_or(|used| used >= oldest))
            .map(|entry| {
                let chat = RoutedChat {
                    entry,
                    is_verified: false,
                };
                (chat.entry.session_key.clone(), chat)
            });
        Ok(Self {
            home: home.clone(),
            store: store.clone(),
            copy,
            entries: Mutex::new(entries.collect()),
            changed: Notify::new(),
        })
    }

    /// The session of a chat; a new one if it is in none. Only one caller per key at a time.
    pub(super) async fn session(
        &self,
        key: &SessionKey,
        origin: &Origin,
    ) -> Result<RoutedSession, StoreError> {
        let known = {
            let entries = self.entries.lock();
            entries
                .get(key)
                .map(|chat| (chat.entry.clone(), chat.is_verified))
        };
        if let Some((entry, true)) = known {
            return Ok(RoutedSession {
                id: entry.session_id.clone(),
                last_used: parse_local(&entry.updated_at),
            });
        }
        let found = self
            .find_open_session(key, known.as_ref().map(|(entry, _)| entry))
            .await?;
        let last_used = match (&found, &known) {
            (Some(_), Some((entry, _))) => parse_local(&entry.updated_at),
            (Some(id), None) => self.store.session(id).await?.map(|row| row.started_at),
            (None, _) => None,
        };
        let id = found.unwrap_or_else(|| SessionId::for_gateway(&Zoned::now()));
        let entry = match known {
            Some((entry, _)) if entry.session_id == id => entry,
            _ => RoutingEntry::new(key.clone(), id.clone(), origin.clone()),
        };
        self.put(entry);
        Ok(RoutedSession { id, last_used })
    }

    /// The session that an entry names, unless it was ended; else the chat's newest one, if that is open.
    async fn find_open_session(
        &self,
        key: &SessionKey,
        entry: Option<&RoutingEntry>,
    ) -> Result<Option<SessionId>, StoreError> {
        if let Some(entry) = entry
            && let Some(session) = self.store.session(&entry.session_id).await?
            && session.ended_at.is_none()
        {
            return Ok(Some(session.id));
        }
        let newest = self.store.resume_key(key).await?;
        Ok(newest.map(|session| session.id))
    }

    fn put(&self, entry: RoutingEntry) {
        let chat = RoutedChat {
            entry,
            is_verified: true,
        };
        let mut entries = self.entries.lock();
        entries.insert(chat.entry.session_key.clone(), chat);
        drop(entries);
        self.changed.notify_one();
    }

    /// Ends the session of a chat and gives it another one. Returns the session before.
    pub(super) async fn replace_session(
        &self,
        key: &SessionKey,
        origin: &Origin,
        next: SessionId,
        reason: EndReason,
    ) -> Result<Option<SessionId>, StoreError> {
        let before = self.entry(key).map(|entry| entry.session_id);
        if let Some(before) = before.as_ref().filter(|before| **before != next) {
            self.store.end_session(before, reason).await?;
        }
        let mut entry = RoutingEntry::new(key.clone(), next, origin.clone());
        if let Some(known) = self.entry(key) {
            entry.details.model_override = known.details.model_override;
        }
        entry.details.is_fresh_reset = true;
        self.put(entry);
        Ok(before)
    }

    pub(super) fn entry(&self, key: &SessionKey) -> Option<RoutingEntry> {
        let entries = self.entries.lock();
        entries.get(key).map(|chat| chat.entry.clone())
    }

    /// Changes an entry, if there is one.
    pub(super) fn update(&self, key: &SessionKey, change: impl FnOnce(&mut RoutingEntry)) {
        let mut entries = self.entries.lock();
        if let Some(chat) = entries.get_mut(key) {
            change(&mut chat.entry);
            drop(entries);
            self.changed.notify_one();
        }
    }

    /// Records that somebody wrote.
    pub(super) fn touch(&self, key: &SessionKey, origin: &Origin) {
        self.update(key, |entry| {
            entry.updated_at = local_iso(epoch_seconds());
            entry.origin = Some(origin.clone());
            entry.details.is_fresh_reset = false;
            entry.details.resume_pending = false;
            if origin.chat_name.is_some() {
                entry.details.display_name.clone_from(&origin.chat_name);
            }
        });
    }

    /// Records that the gateway stopped in the middle of a turn.
    pub(super) fn mark_resume_pending(&self, key: &SessionKey) {
        self.update(key, |entry| {
            entry.details.resume_pending = true;
            entry.details.resume_reason = Some("shutdown".into());
            entry.details.last_resume_marked_at = Some(local_iso(epoch_seconds()));
        });
    }

    /// Whether a turn that a shutdown interrupted may still go on. True where none is marked: then it was a crash.
    pub(super) fn may_resume(&self, key: &SessionKey) -> bool {
        let Some(entry) = self.entry(key) else {
            return true;
        };
        let marked = entry
            .details
            .last_resume_marked_at
            .filter(|_| entry.details.resume_pending);
        let marked = marked.as_deref().and_then(parse_local);
        marked.is_none_or(|marked| epoch_seconds() - marked <= RESUME_WINDOW_SECONDS)
    }

    /// The chats of an account that were used since then, the last used first, with the last message that was taken.
    pub(super) fn recent_chats(
        &self,
        label: &str,
        since: f64,
        most: usize,
    ) -> Vec<(ChatAddress, String)> {
        let mut recent: Vec<(f64, ChatAddress, String)> = {
            let entries = self.entries.lock();
            let used = entries.values().filter_map(|chat| {
                let used = parse_local(&chat.entry.updated_at).filter(|used| *used >= since)?;
                let origin = chat.entry.origin.as_ref()?;
                let message_id = origin
                    .message_id
                    .clone()
                    .filter(|_| origin.platform == label)?;
                Some((used, ChatAddress::from_origin(origin)?, message_id))
            });
            used.collect()
        };
        recent.sort_by(|one, two| two.0.total_cmp(&one.0));
        // Several people of a group have conversations of their own in one chat: the last one knows most.
        let mut seen = HashSet::new();
        recent.retain(|(_, chat, _)| seen.insert((chat.id.clone(), chat.thread_id.clone())));
        recent.truncate(most);
        recent
            .into_iter()
            .map(|(_, chat, message_id)| (chat, message_id))
            .collect()
    }

    /// Follows a chat that has another id from now on; the store has been rewritten.
    pub(super) fn migrate_chat(&self, keys: &[(SessionKey, SessionKey)], new_id: &str) {
        let mut entries = self.entries.lock();
        for (before, after) in keys {
            let Some(mut chat) = entries.remove(before) else {
                continue;
            };
            chat.entry.session_key = after.clone();
            if let Some(origin) = &mut chat.entry.origin {
                origin.chat_id = Some(new_id.to_owned());
            }
            entries.entry(after.clone()).or_insert(chat);
        }
        drop(entries);
        self.changed.notify_one();
    }

    /// Writes changes until it is stopped, and then what is left.
    pub(super) async fn write_changes(&self, stop: &CancellationToken) {
        while stop
            .run_until_cancelled(self.changed.notified())
            .await
            .is_some()
        {
            let _ = stop
                .run_until_cancelled(tokio::time::sleep(WRITE_DELAY))
                .await;
            self.save().await;
        }
        self.save().await;
    }

    pub(super) async fn save(&self) {
        let mut entries: Vec<RoutingEntry> = {
            let entries = self.entries.lock();
            entries.values().map(|chat| chat.entry.clone()).collect()
        };
        entries.sort_by(|one, two| one.session_key.cmp(&two.session_key));
        if let Err(error) = mirror::save_routing(&self.home, &self.store, &entries, self.copy).await
        {
            tracing::warn!(%error, "failed to save the routing of chats");
            self.changed.notify_one();
            tokio::time::sleep(WRITE_DELAY).await;
        }
    }
}

/// Seconds since 1970 of a local time without a zone.
fn parse_local(text: &str) -> Option<f64> {
    let local: DateTime = text.parse().ok()?;
    let time = local.to_zoned(jiff::tz::TimeZone::system()).ok()?;
    Some(time.timestamp().as_duration().as_secs_f64())
}
