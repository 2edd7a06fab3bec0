//! Writes `channel_directory.json`: the chats that messages can be sent to, by name.
//!
//! It has what the platforms list and the chats of conversations. The live gateway runs [`ChannelDirectoryWriter::run`],
//! and tells it every account that is connected and every chat it hears from; what is not in the file yet is added within
//! a second.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    time::Duration,
};

use futures::future;
use hermes_config::{Home, Platform, sync::Mutex};
use hermes_store::{
    StoreError,
    mirror::{Channel, ChannelDirectory},
};
use tokio::{sync::Notify, time};
use tokio_util::sync::CancellationToken;

use crate::{
    conversations::{ConversationEntry, ConversationIndex},
    platform::{Account, ChatAddress, SharedClient},
};

const REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// How long a platform may take to list its channels.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// New chats and accounts are collected this long before the file is written: sessions are being stored.
const CHANGE_DELAY: Duration = Duration::from_secs(1);
/// The pause after a refresh is at least so many times as long: with thousands of chats it takes a while.
const PAUSE_FACTOR: u32 = 20;
/// Chats remembered as known. Past that the memory starts over, which costs one write.
const MAX_KNOWN_CHATS: usize = 10_000;

/// Keeps the channel directory of a home up to date.
pub struct ChannelDirectoryWriter {
    home: Home,
    conversations: ConversationIndex,
    known: Mutex<HashSet<String>>,
    /// Accounts that were connected and are not listed yet.
    connected: Mutex<Vec<SharedClient>>,
    /// Wakes [`Self::run`] for new chats and accounts.
    changed: Notify,
}

/// What an account listed; `None` if it did not answer.
struct AccountListing {
    label: String,
    channels: Option<Vec<Channel>>,
}

impl ChannelDirectoryWriter {
    pub fn new(home: &Home) -> Self {
        Self {
            home: home.clone(),
            conversations: ConversationIndex::open(home),
            known: Mutex::default(),
            connected: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Tells that something came from this chat. Cheap for chats that are known.
    pub fn note_chat(&self, account: &Account, chat: &ChatAddress) {
        let id = entry_id(&chat.id, chat.thread_id.as_deref());
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN_CHATS {
            known.clear();
        }
        let is_new = known.insert(format!("{}:{id}", account.label()));
        drop(known);
        if is_new {
            self.changed.notify_one();
        }
    }

    /// Tells that an account is connected: its channels are listed soon.
    pub fn note_connected(&self, client: &SharedClient) {
        self.connected.lock().push(client.clone());
        self.changed.notify_one();
    }

    /// Writes the directory now, every five minutes, and soon after an account was connected or a new chat was seen.
    /// `clients` are asked for every five minutes, because accounts come and go with the configuration.
    pub async fn run(
        &self,
        clients: impl Fn() -> Vec<SharedClient> + Send + Sync,
        stop: &CancellationToken,
    ) {
        let refreshing = async {
            let mut ticks = time::interval(REFRESH_INTERVAL);
            ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
            let mut pause = CHANGE_DELAY;
            loop {
                let refreshed = tokio::select! {
                    _ = ticks.tick() => self.refresh(&clients()).await,
                    () = self.changed.notified() => {
                        time::sleep(pause).await;
                        let connected = std::mem::take(&mut *self.connected.lock());
                        let began = time::Instant::now();
                        let refreshed = self.refresh(&connected).await;
                        if connected.is_empty() {
                            pause = CHANGE_DELAY.max(began.elapsed() * PAUSE_FACTOR);
                        }
                        refreshed
                    }
                };
                if let Err(error) = refreshed {
                    tracing::warn!(%error, "failed to refresh the channel directory");
                }
            }
        };
        let _ = stop.run_until_cancelled(refreshing).await;
        self.conversations.close().await;
    }

    /// Asks these clients for their channels and writes the directory. Accounts that are not asked, or do not answer, keep
    /// their entries; chats of conversations are added.
    pub async fn refresh(&self, clients: &[SharedClient]) -> Result<(), StoreError> {
        let listing = clients.iter().map(|client| async move {
            let label = client.account().label();
            let channels = match time::timeout(LIST_TIMEOUT, client.list_channels()).await {
                Ok(Ok(channels)) => Some(channels),
                Ok(Err(error)) => {
                    tracing::info!(platform = %label, %error, "failed to list channels");
                    None
                }
                Err(_) => {
                    tracing::info!(platform = %label, "listing channels timed out");
                    None
                }
            };
            AccountListing { label, channels }
        });
        let listings = future::join_all(listing).await;
        let conversations = self.conversations.entries().await?;
        let before = ChannelDirectory::load_listed(&self.home)?;
        let mut directory = merge_directory(before.as_ref(), listings, conversations.as_slice());
        let is_same = before.is_some_and(|before| before.platforms == directory.platforms);
        if is_same && clients.is_empty() {
            return Ok(());
        }
        directory.save(&self.home)?;
        let ids = directory.platforms.iter().flat_map(|(label, channels)| {
            let ids = channels.iter().filter_map(|channel| channel.id.as_deref());
            ids.map(move |id| format!("{label}:{id}"))
        });
        self.known.lock().extend(ids.take(MAX_KNOWN_CHATS));
        Ok(())
    }
}

fn merge_directory(
    before: Option<&ChannelDirectory>,
    listings: Vec<AccountListing>,
    conversations: &[impl AsRef<ConversationEntry>],
) -> ChannelDirectory {
    let mut platforms: Vec<(String, Vec<Channel>)> =
        before.map(|it| it.platforms.clone()).unwrap_or_default();
    for listing in listings {
        let Some(mut channels) = listing.channels else {
            continue;
        };
        channels.sort_by(|one, other| (&one.guild, &one.name).cmp(&(&other.guild, &other.name)));
        *channels_of(&mut platforms, &listing.label) = channels;
    }
    let mut places = ChannelPositions::default();
    for entry in conversations {
        let entry = entry.as_ref();
        if entry.chat_id.is_empty() || Account::from_label(&entry.platform).is_none() {
            continue;
        }
        let channel = conversation_channel(entry);
        let channels = channels_of(&mut platforms, &entry.platform);
        let place = places.find(&entry.platform, channels, channel.id.as_deref());
        match place.and_then(|place| channels.get_mut(place)) {
            // Names come from the newest conversation, unless the platform lists the channel itself.
            Some(known) if known.guild.is_none() && known.kind == channel.kind => {
                if !entry.chat_name.is_empty() || known.name.is_empty() {
                    known.name = channel.name;
                }
            }
            Some(_) => {}
            None => channels.push(channel),
        }
    }
    platforms.sort_by(|one, other| one.0.cmp(&other.0));
    ChannelDirectory {
        updated_at: None,
        platforms,
    }
}

/// Where channels are in their lists, by platform and id: there may be thousands.
#[derive(Default)]
struct ChannelPositions(HashMap<String, HashMap<Option<String>, usize>>);

impl ChannelPositions {
    /// The place of a channel; `None` if it is new, and then it comes last.
    fn find(&mut self, label: &str, channels: &[Channel], id: Option<&str>) -> Option<usize> {
        let places = self.0.entry(label.to_owned()).or_insert_with(|| {
            let mut places = HashMap::with_capacity(channels.len());
            for (place, channel) in channels.iter().enumerate() {
                places.entry(channel.id.clone()).or_insert(place);
            }
            places
        });
        match places.entry(id.map(str::to_owned)) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(new) => {
                new.insert(channels.len());
                None
            }
        }
    }
}

fn channels_of<'p>(
    platforms: &'p mut Vec<(String, Vec<Channel>)>,
    label: &str,
) -> &'p mut Vec<Channel> {
    let place = platforms.iter().position(|(known, _)| known == label);
    let place = place.unwrap_or_else(|| {
        platforms.push((label.to_owned(), Vec::new()));
        platforms.len() - 1
    });
    &mut platforms[place].1
}

fn conversation_channel(entry: &ConversationEntry) -> Channel {
    let names = [&entry.chat_name, &entry.user_name, &entry.chat_id];
    let base = names.into_iter().find(|name| !name.is_empty());
    let base = base.cloned().unwrap_or_default();
    let topic = entry.origin.get("chat_topic").and_then(|it| it.as_str());
    // A Discord thread is a channel with a name of its own.
    let thread = entry
        .thread_id
        .as_deref()
        .filter(|thread| *thread != entry.chat_id && !is_discord(&entry.platform));
    Channel {
        id: Some(entry_id(&entry.chat_id, thread)),
        name: match (thread, topic) {
            (None, _) => base,
            (Some(_), Some(topic)) if !topic.is_empty() => format!("{base} / {topic}"),
            (Some(thread), _) => format!("{base} / topic {thread}"),
        },
        kind: entry.chat_type.clone(),
        guild: None,
        thread_id: thread.map(str::to_owned),
    }
}

fn is_discord(label: &str) -> bool {
    Account::from_label(label).is_some_and(|account| account.platform == Platform::Discord)
}

fn entry_id(chat: &str, thread: Option<&str>) -> String {
    match thread {
        Some(thread) => format!("{chat}:{thread}"),
        None => chat.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Map, json};

    use super::*;

    fn conversation(platform: &str, chat: &str, thread: Option<&str>) -> Arc<ConversationEntry> {
        let mut origin = Map::new();
        origin.insert("chat_topic".into(), json!("Plans"));
        Arc::new(ConversationEntry {
            session_key: String::new(),
            session_id: String::new(),
            platform: platform.into(),
            chat_type: "group".into(),
            display_name: String::new(),
            chat_name: "Team".into(),
            user_name: "Ann".into(),
            chat_id: chat.into(),
            thread_id: thread.map(str::to_owned),
            origin,
            created_at: String::new(),
            updated_at: String::new(),
            input_tokens: 0,
            output_tokens: 0,
            total_tokens: 0,
        })
    }

    fn channel(id: &str, name: &str, guild: Option<&str>) -> Channel {
        Channel {
            id: Some(id.into()),
            name: name.into(),
            kind: "channel".into(),
            guild: guild.map(str::to_owned),
            thread_id: None,
        }
    }

    fn lines(directory: &ChannelDirectory) -> Vec<String> {
        let all = directory.platforms.iter().flat_map(|(label, channels)| {
            let line = move |channel: &Channel| {
                format!(
                    "{label}:{} {}",
                    channel.id.as_deref().unwrap_or_default(),
                    channel.name
                )
            };
            channels.iter().map(line)
        });
        all.collect()
    }

    #[test]
    fn chats_come_from_the_platform_and_from_conversations() {
        let listings = vec![AccountListing {
            label: "discord".into(),
            channels: Some(vec![
                channel("2", "random", Some("Work")),
                channel("1", "general", Some("Work")),
            ]),
        }];
        let conversations = [
            conversation("discord", "1", None),
            conversation("discord", "9", None),
            conversation("telegram", "-100", Some("7")),
            conversation("telegram@work", "5", None),
            conversation("cli", "5", None),
        ];
        let directory = merge_directory(None, listings, &conversations);
        assert_eq!(
            lines(&directory),
            [
                "discord:1 general",
                "discord:2 random",
                "discord:9 Team",
                "telegram:-100:7 Team / Plans",
                "telegram@work:5 Team",
            ]
        );
        assert_eq!(
            directory.platform("telegram")[0].thread_id.as_deref(),
            Some("7")
        );
    }

    #[test]
    fn a_platform_that_is_down_keeps_its_entries_and_one_that_answers_loses_what_is_gone() {
        let before = ChannelDirectory {
            updated_at: None,
            platforms: vec![
                (
                    "discord".into(),
                    vec![channel("1", "general", Some("Work"))],
                ),
                ("slack".into(), vec![channel("C1", "old", None)]),
            ],
        };
        let listings = vec![
            AccountListing {
                label: "discord".into(),
                channels: None,
            },
            AccountListing {
                label: "slack".into(),
                channels: Some(vec![channel("C2", "new", None)]),
            },
        ];
        let none: [Arc<ConversationEntry>; 0] = [];
        let directory = merge_directory(Some(&before), listings, &none);
        assert_eq!(lines(&directory), ["discord:1 general", "slack:C2 new"]);
    }

    #[tokio::test]
    async fn the_first_refresh_writes_a_file_and_later_ones_only_what_changed() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let writer = ChannelDirectoryWriter::new(&home);
        writer.refresh(&[]).await.unwrap();
        let read = || ChannelDirectory::load_listed(&home).unwrap().unwrap();
        let first = read();
        assert_eq!(first.platforms, []);
        writer.refresh(&[]).await.unwrap();
        assert_eq!(read(), first, "nothing changed, so nothing was written");
    }

    #[test]
    fn a_chat_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let writer = ChannelDirectoryWriter::new(&Home::at(directory.path()));
        let account = Account::first(Platform::Telegram);
        let chat = ChatAddress::new("5", crate::platform::ChatKind::Dm);
        writer.note_chat(&account, &chat);
        writer.note_chat(&account, &chat);
        assert_eq!(writer.known.lock().len(), 1);
    }
}
