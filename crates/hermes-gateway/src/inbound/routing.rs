//! Which session each chat is in.
//!
//! The entries are kept in memory and written behind, those that changed: a session's row has its key too, so an entry that
//! was not written before a crash is found again.

pub(super) mod chat;
pub(super) mod chat_migration;
pub(super) mod sessions;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::{Home, sync::Mutex};
use hermes_store::{
    EndReason, Origin, SessionId, SessionKey, Store, StoreError, epoch_seconds, local_iso,
    mirror::{self, RoutingEntry, SessionsJson},
};
use jiff::{Zoned, civil::DateTime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::platform::{ChatAddress, ChatMark};

/// Entries that nobody used for so long are forgotten.
const RETENTION_DAYS: f64 = 90.0;
/// Changes are collected for so long.
const WRITE_DELAY: Duration = Duration::from_secs(1);
/// The pause after a save is at least so many times as long: with thousands of chats the file takes a while.
const WRITE_PAUSE_FACTOR: u32 = 20;
/// How long after a shutdown a turn goes on by itself.
const RESUME_WINDOW_SECONDS: f64 = 3600.0;

pub(super) struct RoutingTable {
    home: Home,
    store: Store,
    copy: SessionsJson,
    chats: Mutex<RoutedChats>,
    changed: Notify,
}

#[derive(Default)]
struct RoutedChats {
    entries: HashMap<SessionKey, RoutedChat>,
    /// Chats whose entry changed or is gone since the last save.
    unsaved: HashSet<SessionKey>,
    /// Whether the store has no other entries than these and those of unsaved chats.
    is_stored: bool,
}

impl RoutedChats {
    fn put(&mut self, mut chat: RoutedChat) {
        let key = chat.entry.session_key.clone();
        if let Some(known) = self.entries.get(&key) {
            chat.has_spoken |= known.has_spoken;
            if known.entry.details.bot_has_spoken {
                Arc::make_mut(&mut chat.entry).details.bot_has_spoken = true;
            }
        }
        self.unsaved.insert(key.clone());
        self.entries.insert(key, chat);
    }
}

struct RoutedChat {
    entry: Arc<RoutingEntry>,
    /// Whether the session was looked up in this process.
    is_verified: bool,
    /// Whether the bot is known to have taken part: a chat that was only observed has an entry too.
    has_spoken: bool,
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
            .filter(|entry| !is_outdated(entry))
            .map(|entry| {
                let chat = RoutedChat {
                    is_verified: false,
                    has_spoken: entry.details.bot_has_spoken,
                    entry: Arc::new(entry),
                };
                (chat.entry.session_key.clone(), chat)
            });
        Ok(Self {
            home: home.clone(),
            store: store.clone(),
            copy,
            chats: Mutex::new(RoutedChats {
                entries: entries.collect(),
                ..RoutedChats::default()
            }),
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
            let chats = self.chats.lock();
            let chat = chats.entries.get(key);
            chat.map(|chat| (chat.entry.clone(), chat.is_verified))
        };
        if let Some((entry, true)) = known {
            return Ok(RoutedSession {
                id: entry.session_id.clone(),
                last_used: parse_local(&entry.updated_at),
            });
        }
        let found = self
            .find_open_session(key, known.as_ref().map(|(entry, _)| &**entry))
            .await?;
        let last_used = match (&found, &known) {
            (Some(_), Some((entry, _))) => parse_local(&entry.updated_at),
            (Some(id), None) => self.store.session(id).await?.map(|row| row.started_at),
            (None, _) => None,
        };
        let id = found.unwrap_or_else(|| SessionId::for_gateway(&Zoned::now()));
        let entry = match known {
            Some((entry, _)) if entry.session_id == id => entry,
            _ => Arc::new(RoutingEntry::new(key.clone(), id.clone(), origin.clone())),
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

    fn put(&self, entry: Arc<RoutingEntry>) {
        self.chats.lock().put(RoutedChat {
            entry,
            is_verified: true,
            has_spoken: false,
        });
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
        let before = self.entry(key).map(|entry| entry.session_id.clone());
        if let Some(before) = before.as_ref().filter(|before| **before != next) {
            self.store.end_session(before, reason).await?;
        }
        let mut entry = RoutingEntry::new(key.clone(), next, origin.clone());
        if let Some(known) = self.entry(key) {
            let chosen = &known.details.model_override;
            entry.details.model_override.clone_from(chosen);
        }
        entry.details.is_fresh_reset = true;
        self.put(Arc::new(entry));
        Ok(before)
    }

    pub(super) fn entry(&self, key: &SessionKey) -> Option<Arc<RoutingEntry>> {
        let chats = self.chats.lock();
        chats.entries.get(key).map(|chat| chat.entry.clone())
    }

    /// Changes an entry, if there is one.
    pub(super) fn update(&self, key: &SessionKey, change: impl FnOnce(&mut RoutingEntry)) {
        let mut chats = self.chats.lock();
        let Some(chat) = chats.entries.get_mut(key) else {
            return;
        };
        change(Arc::make_mut(&mut chat.entry));
        chats.unsaved.insert(key.clone());
        drop(chats);
        self.changed.notify_one();
    }

    /// Whether the bot is known to have taken part in a chat.
    pub(super) fn has_spoken(&self, key: &SessionKey) -> bool {
        let chats = self.chats.lock();
        chats.entries.get(key).is_some_and(|chat| chat.has_spoken)
    }

    /// The bot takes part in a chat. The store knows that of conversations.
    pub(super) fn mark_spoken(&self, key: &SessionKey) {
        if let Some(chat) = self.chats.lock().entries.get_mut(key) {
            chat.has_spoken = true;
        }
    }

    /// The bot takes part in a thread, if only by answering a command, which is stored in no conversation.
    pub(super) fn join_thread(&self, key: &SessionKey, origin: &Origin) {
        let mut chats = self.chats.lock();
        let known = chats.entries.get(key);
        if known.is_some_and(|known| known.entry.details.bot_has_spoken) {
            return;
        }
        let chat = chats.entries.entry(key.clone()).or_insert_with(|| {
            // The session is not stored: it begins with the first message.
            let session = SessionId::for_gateway(&Zoned::now());
            RoutedChat {
                entry: Arc::new(RoutingEntry::new(key.clone(), session, origin.clone())),
                is_verified: false,
                has_spoken: true,
            }
        });
        chat.has_spoken = true;
        Arc::make_mut(&mut chat.entry).details.bot_has_spoken = true;
        chats.unsaved.insert(key.clone());
        drop(chats);
        self.changed.notify_one();
    }

    /// Records that somebody wrote to the bot.
    pub(super) fn touch(&self, key: &SessionKey, origin: &Origin) {
        self.mark_spoken(key);
        self.update(key, |entry| {
            entry.updated_at = local_iso(epoch_seconds());
            let before = entry.origin.replace(origin.clone());
            // A command of the platform's own is no message: what was said last is still the one before it.
            if let (Some(origin), Some(before)) = (&mut entry.origin, before)
                && origin.message_id.is_none()
            {
                origin.message_id = before.message_id;
            }
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
        let details = &entry.details;
        let marked = details.last_resume_marked_at.as_deref();
        let marked = marked.filter(|_| details.resume_pending);
        let marked = marked.and_then(parse_local);
        marked.is_none_or(|marked| epoch_seconds() - marked <= RESUME_WINDOW_SECONDS)
    }

    /// The chats of an account that were used since then, the last used first, with the last message that was taken.
    pub(super) fn recent_chats(&self, label: &str, since: f64, most: usize) -> Vec<ChatMark> {
        let mut recent: Vec<(f64, ChatMark)> = {
            let chats = self.chats.lock();
            let used = chats.entries.values().filter_map(|chat| {
                let used = parse_local(&chat.entry.updated_at).filter(|used| *used >= since)?;
                let origin = chat.entry.origin.as_ref()?;
                let after = origin
                    .message_id
                    .clone()
                    .filter(|_| origin.platform == label)?;
                let chat = ChatAddress::from_origin(origin)?;
                Some((used, ChatMark { chat, after }))
            });
            used.collect()
        };
        recent.sort_by(|one, two| two.0.total_cmp(&one.0));
        // Several people of a group have conversations of their own in one chat: the last one knows most.
        let mut seen = HashSet::new();
        recent.retain(|(_, mark)| seen.insert((mark.chat.id.clone(), mark.chat.thread_id.clone())));
        recent.truncate(most);
        recent.into_iter().map(|(_, mark)| mark).collect()
    }

    /// Follows a chat that has another id from now on; the store has been rewritten.
    pub(super) fn migrate_chat(&self, keys: &[(SessionKey, SessionKey)], new_id: &str) {
        let mut chats = self.chats.lock();
        for (before, after) in keys {
            let Some(mut chat) = chats.entries.remove(before) else {
                continue;
            };
            chats.unsaved.insert(before.clone());
            if chats.entries.contains_key(after) {
                continue;
            }
            let entry = Arc::make_mut(&mut chat.entry);
            entry.session_key = after.clone();
            if let Some(origin) = &mut entry.origin {
                origin.chat_id = Some(new_id.to_owned());
            }
            chats.put(chat);
        }
        drop(chats);
        self.changed.notify_one();
    }

    /// Forgets entries that nobody used for too long.
    pub(super) fn prune(&self) {
        let mut chats = self.chats.lock();
        let RoutedChats {
            entries, unsaved, ..
        } = &mut *chats;
        let mut is_changed = false;
        for (key, _) in entries.extract_if(|_, chat| is_outdated(&chat.entry)) {
            unsaved.insert(key);
            is_changed = true;
        }
        drop(chats);
        if is_changed {
            self.changed.notify_one();
        }
    }

    /// Writes changes until it is stopped, and then what is left.
    pub(super) async fn write_changes(&self, stop: &CancellationToken) {
        let mut pause = WRITE_DELAY;
        while stop
            .run_until_cancelled(self.changed.notified())
            .await
            .is_some()
        {
            let _ = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
            let began = Instant::now();
            self.save().await;
            pause = WRITE_DELAY.max(began.elapsed() * WRITE_PAUSE_FACTOR);
        }
        self.save().await;
    }

    pub(super) async fn save(&self) {
        let (unsaved, is_stored) = {
            let mut chats = self.chats.lock();
            (std::mem::take(&mut chats.unsaved), chats.is_stored)
        };
        if is_stored && unsaved.is_empty() {
            return;
        }
        match self.save_entries(&unsaved, is_stored).await {
            Ok(()) => self.chats.lock().is_stored = true,
            Err(error) => {
                tracing::warn!(%error, "failed to save the routing of chats");
                self.chats.lock().unsaved.extend(unsaved);
                self.changed.notify_one();
                tokio::time::sleep(WRITE_DELAY).await;
            }
        }
    }

    /// Saves the entries of these chats; all entries, if the store may have others.
    async fn save_entries(
        &self,
        unsaved: &HashSet<SessionKey>,
        is_stored: bool,
    ) -> Result<(), StoreError> {
        let mut entries = self.all_entries();
        if is_stored {
            let is_unsaved = |entry: &&Arc<RoutingEntry>| unsaved.contains(&entry.session_key);
            let changed: Vec<_> = entries.iter().filter(is_unsaved).cloned().collect();
            let kept: HashSet<_> = changed.iter().map(|entry| &entry.session_key).collect();
            let removed = unsaved.iter().filter(|key| !kept.contains(key));
            let removed: Vec<SessionKey> = removed.cloned().collect();
            mirror::save_routing_changes(&self.home, &self.store, &changed, &removed).await?;
        } else {
            mirror::save_routing(&self.home, &self.store, &entries, SessionsJson::Off).await?;
        }
        if self.copy == SessionsJson::Off {
            return Ok(());
        }
        let home = self.home.clone();
        let writing = tokio::task::spawn_blocking(move || {
            entries.sort_by(|one, two| one.session_key.cmp(&two.session_key));
            mirror::write_sessions_file(&home, &entries)
        });
        // A panic there is a bug that the next save shows again.
        writing.await.unwrap_or(Ok(()))
    }

    fn all_entries(&self) -> Vec<Arc<RoutingEntry>> {
        let chats = self.chats.lock();
        let entries = chats.entries.values();
        entries.map(|chat| chat.entry.clone()).collect()
    }
}

/// Whether nobody used a chat for so long that it is forgotten.
fn is_outdated(entry: &RoutingEntry) -> bool {
    let oldest = epoch_seconds() - RETENTION_DAYS * 86_400.0;
    parse_local(&entry.updated_at).is_some_and(|used| used < oldest)
}

/// Seconds since 1970 of a local time without a zone.
fn parse_local(text: &str) -> Option<f64> {
    let local: DateTime = text.parse().ok()?;
    let time = local.to_zoned(jiff::tz::TimeZone::system()).ok()?;
    Some(time.timestamp().as_duration().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use hermes_store::{Access, SessionKeyPolicy};

    use super::*;

    fn origin(chat: &str) -> Origin {
        Origin {
            platform: "telegram".into(),
            chat_id: Some(chat.into()),
            chat_type: "dm".into(),
            ..Origin::default()
        }
    }

    fn key(chat: &str) -> SessionKey {
        origin(chat).session_key(&SessionKeyPolicy::default())
    }

    #[tokio::test]
    async fn only_what_changed_is_written_again_and_the_file_has_everything() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let table = RoutingTable::load(&home, &store, SessionsJson::Written)
            .await
            .unwrap();
        for chat in ["1", "2", "3"] {
            table.session(&key(chat), &origin(chat)).await.unwrap();
        }
        table.save().await;
        let mut stored = mirror::load_routing(&home, &store).await.unwrap();
        assert_eq!(stored.len(), 3);

        // Marks a row, so that writing it again shows.
        stored[0].details.total_tokens = 7;
        mirror::save_routing_changes(&home, &store, &stored[..1], &[])
            .await
            .unwrap();
        table.update(&key("2"), |entry| entry.details.suspended = true);
        table.migrate_chat(&[(key("3"), key("4"))], "4");
        table.save().await;
        let stored = mirror::load_routing(&home, &store).await.unwrap();
        let keys: Vec<_> = stored.iter().map(|entry| &entry.session_key).collect();
        assert_eq!(keys, [&key("1"), &key("2"), &key("4")]);
        assert_eq!(stored[0].details.total_tokens, 7);
        assert!(stored[1].details.suspended);
        assert_eq!(mirror::read_sessions_file(&home).unwrap().len(), 3);
        store.close().await;
    }

    #[tokio::test]
    async fn a_turn_that_a_shutdown_interrupted_may_go_on_for_an_hour() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let table = RoutingTable::load(&home, &store, SessionsJson::Off)
            .await
            .unwrap();
        let key = key("1");
        assert!(table.may_resume(&key));
        table.session(&key, &origin("1")).await.unwrap();
        assert!(table.may_resume(&key), "it was a crash");
        table.mark_resume_pending(&key);
        assert!(table.may_resume(&key));
        for (minutes, may_resume) in [(59.0, true), (61.0, false)] {
            let marked = local_iso(epoch_seconds() - minutes * 60.0);
            table.update(&key, |entry| {
                entry.details.last_resume_marked_at = Some(marked);
            });
            assert_eq!(table.may_resume(&key), may_resume, "{minutes}");
        }
        // Somebody wrote since.
        table.touch(&key, &origin("1"));
        assert!(table.may_resume(&key));
        store.close().await;
    }

    #[tokio::test]
    async fn a_thread_that_the_bot_joined_is_known_to_the_next_process_and_in_its_next_session() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let load = async || RoutingTable::load(&home, &store, SessionsJson::Off).await;
        let table = load().await.unwrap();
        table.join_thread(&key("1"), &origin("1"));
        table.session(&key("2"), &origin("2")).await.unwrap();
        // What is known of a chat in this process alone is not written.
        table.mark_spoken(&key("2"));
        table.save().await;
        let next = load().await.unwrap();
        assert!(next.has_spoken(&key("1")));
        assert!(!next.has_spoken(&key("2")));
        // Its first message begins a session.
        let session = next.session(&key("1"), &origin("1")).await.unwrap();
        assert_eq!(session.last_used, None);
        let another = SessionId::parse("another").unwrap();
        next.replace_session(&key("1"), &origin("1"), another, EndReason::SessionReset)
            .await
            .unwrap();
        next.save().await;
        assert!(load().await.unwrap().has_spoken(&key("1")));
        store.close().await;
    }

    #[tokio::test]
    async fn a_chat_that_nobody_used_for_90_days_is_forgotten_while_the_gateway_runs() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let table = RoutingTable::load(&home, &store, SessionsJson::Written)
            .await
            .unwrap();
        for chat in ["1", "2", "3"] {
            table.session(&key(chat), &origin(chat)).await.unwrap();
        }
        table.save().await;
        let used_before = |days: f64| local_iso(epoch_seconds() - days * 86_400.0);
        table.update(&key("1"), |entry| entry.updated_at = used_before(91.0));
        table.update(&key("2"), |entry| entry.updated_at = used_before(89.0));
        table.prune();
        assert_eq!(table.entry(&key("1")), None);
        table.save().await;
        let stored = mirror::load_routing(&home, &store).await.unwrap();
        let keys: Vec<_> = stored.iter().map(|entry| &entry.session_key).collect();
        assert_eq!(keys, [&key("2"), &key("3")]);
        store.close().await;
    }
}
