//! What can be looked up: channels, and what was said while there was no connection.

use std::collections::BTreeMap;

use hermes_store::mirror::Channel;
use serde_json::Value;

use super::{
    SlackCore,
    api::SlackFailure,
    post::POSTED_EVENT,
    updates::{is_own, update_from_history},
};
use crate::platform::{
    ChatAddress, ChatMark, MAX_MISSED_MESSAGES, PostError, RawUpdate, address::is_later_message,
};

/// Channels and messages per page, and pages at most.
const PAGE_SIZE: &str = "200";
const MAX_PAGES: usize = 20;
/// Threads of one channel whose replies are looked up after a gap.
const MAX_THREADS: usize = 20;

impl SlackCore {
    /// The channels that the bot is in.
    pub(super) async fn find_channels(&self) -> Result<Vec<Channel>, PostError> {
        let mut channels = Vec::new();
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            let mut fields = vec![
                ("types", "public_channel,private_channel"),
                ("exclude_archived", "true"),
                ("limit", PAGE_SIZE),
            ];
            if !cursor.is_empty() {
                fields.push(("cursor", &cursor));
            }
            let page = self.api.read("users.conversations", &fields).await?;
            let found = page["channels"].as_array().map_or(&[][..], Vec::as_slice);
            channels.extend(found.iter().filter_map(read_channel));
            let next = page["response_metadata"]["next_cursor"].as_str();
            match next.filter(|next| !next.is_empty()) {
                Some(next) => next.clone_into(&mut cursor),
                None => return Ok(channels),
            }
        }
        tracing::warn!(account = %self.account, "Slack has more channels than are listed");
        Ok(channels)
    }

    /// The channels around threads, and threads in which somebody wrote after these messages. Answers are in threads,
    /// questions are not: with a thread its channel counts, too.
    pub(super) async fn find_active_chats(
        &self,
        known: &[ChatMark],
    ) -> Result<Vec<ChatMark>, PostError> {
        // Everything before the last message of a channel that came was heard.
        let mut channels: Vec<ChatMark> = Vec::new();
        for mark in known {
            match channels
                .iter_mut()
                .find(|channel| channel.chat.id == mark.chat.id)
            {
                Some(channel) if is_later_message(&mark.after, &channel.after) => {
                    channel.after.clone_from(&mark.after);
                }
                Some(_) => {}
                None => channels.push(ChatMark {
                    chat: ChatAddress {
                        thread_id: None,
                        ..mark.chat.clone()
                    },
                    after: mark.after.clone(),
                }),
            }
        }
        let is_known = |chat: &ChatAddress| {
            let mut chats = known.iter().map(|mark| &mark.chat);
            chats.any(|other| other.id == chat.id && other.thread_id == chat.thread_id)
        };
        let mut found = Vec::new();
        for channel in channels {
            match self.find_active_threads(&channel).await {
                Ok(threads) => {
                    found.extend(threads.into_iter().filter(|thread| !is_known(&thread.chat)));
                }
                Err(error) if error.is_temporary() => return Err(error),
                // The bot may have left this channel: the others are still read.
                Err(error) => {
                    tracing::info!(account = %self.account, channel = channel.chat.id, %error, "failed to look for threads of Slack");
                    continue;
                }
            }
            if !is_known(&channel.chat) {
                found.push(channel);
            }
        }
        Ok(found)
    }

    /// The threads of a channel with replies after a message. They may have begun before it: the last messages of the
    /// channel are looked at in any case.
    async fn find_active_threads(&self, channel: &ChatMark) -> Result<Vec<ChatMark>, PostError> {
        let id = self.channel_of(&channel.chat).await?;
        let fields = [("channel", id.as_str())];
        let is_new = |message: &Value| {
            let ts = message["ts"].as_str();
            ts.is_some_and(|ts| is_later_message(ts, &channel.after))
        };
        let messages = self
            .read_pages("conversations.history", &fields, |page| {
                page.last().is_some_and(is_new)
            })
            .await?;
        let threads = messages.iter().filter(|message| {
            let latest = message["latest_reply"].as_str();
            latest.is_some_and(|ts| is_later_message(ts, &channel.after))
        });
        let marks = threads.filter_map(|parent| {
            Some(ChatMark {
                chat: ChatAddress {
                    thread_id: Some(parent["ts"].as_str()?.to_owned()),
                    ..channel.chat.clone()
                },
                after: channel.after.clone(),
            })
        });
        Ok(marks.take(MAX_THREADS).collect())
    }

    /// What was said in a chat after a message, oldest first.
    pub(super) async fn find_missed(
        &self,
        chat: &ChatAddress,
        after: &str,
    ) -> Result<Vec<RawUpdate>, PostError> {
        let identity = self.identity().await?;
        let channel = self.channel_of(chat).await?;
        let mut fields = vec![("channel", channel.as_str()), ("oldest", after)];
        let messages = match &chat.thread_id {
            Some(thread) => {
                fields.push(("ts", thread));
                self.read_pages("conversations.replies", &fields, |_| true)
                    .await?
            }
            None => {
                self.read_pages("conversations.history", &fields, |_| true)
                    .await?
            }
        };
        // By time, which is the order of the ids. A thread comes with its first message, however old.
        let mut ordered = BTreeMap::new();
        for message in messages {
            if let Some(ts) = message["ts"].as_str().map(str::to_owned)
                && is_later_message(&ts, after)
            {
                ordered.insert(ts, message);
            }
        }
        let mut updates: Vec<RawUpdate> = ordered
            .values()
            .filter_map(|message| update_from_history(&channel, message, &identity))
            .collect();
        let surplus = updates.len().saturating_sub(MAX_MISSED_MESSAGES);
        if surplus > 0 {
            tracing::warn!(account = %self.account, channel, surplus, "more messages of Slack were missed than are fetched, the oldest are left out");
            updates.drain(..surplus);
        }
        for update in &mut updates {
            self.add_names(&mut update.payload).await;
        }
        Ok(updates)
    }

    /// The messages of a channel or thread, page by page, for as long as there are more and they are wanted.
    async fn read_pages(
        &self,
        method: &'static str,
        fields: &[(&str, &str)],
        wants_more: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>, SlackFailure> {
        let mut messages = Vec::new();
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            let mut fields = fields.to_vec();
            fields.push(("limit", PAGE_SIZE));
            if !cursor.is_empty() {
                fields.push(("cursor", &cursor));
            }
            let mut page = self.api.read(method, &fields).await?;
            let next = page["response_metadata"]["next_cursor"].as_str();
            let next = next.unwrap_or_default().to_owned();
            let found = page["messages"].as_array_mut();
            let found = found.map(std::mem::take).unwrap_or_default();
            let is_over = next.is_empty() || !wants_more(&found);
            messages.extend(found);
            if is_over {
                return Ok(messages);
            }
            cursor = next;
        }
        tracing::warn!(account = %self.account, method, "Slack has more messages than are looked at");
        Ok(messages)
    }

    /// The message of ours with this nonce in its metadata, posted after that time.
    pub(super) async fn find_posted(
        &self,
        chat: &ChatAddress,
        nonce: &str,
        since: f64,
    ) -> Result<Option<String>, PostError> {
        let identity = self.identity().await?;
        let channel = self.channel_of(chat).await?;
        let oldest = format!("{:.6}", since.max(0.0));
        let mut fields = vec![
            ("channel", channel.as_str()),
            ("oldest", oldest.as_str()),
            ("limit", PAGE_SIZE),
            ("include_all_metadata", "true"),
        ];
        let found = match &chat.thread_id {
            Some(thread) => {
                fields.push(("ts", thread));
                self.api.read("conversations.replies", &fields).await?
            }
            None => self.api.read("conversations.history", &fields).await?,
        };
        let messages = found["messages"].as_array().map_or(&[][..], Vec::as_slice);
        // Other apps may write the same metadata.
        let is_meant = |message: &&Value| {
            is_own(message, &identity.user_id, &identity.bot_id)
                && message["metadata"]["event_type"] == POSTED_EVENT
                && message["metadata"]["event_payload"]["nonce"] == nonce
        };
        let found = messages.iter().find(is_meant);
        Ok(found.and_then(|message| message["ts"].as_str().map(str::to_owned)))
    }
}

fn read_channel(channel: &Value) -> Option<Channel> {
    let id = channel["id"].as_str()?;
    Some(Channel {
        id: Some(id.to_owned()),
        name: channel["name"].as_str().unwrap_or(id).to_owned(),
        kind: if channel["is_private"] == true {
            "group".into()
        } else {
            "channel".into()
        },
        ..Channel::default()
    })
}
