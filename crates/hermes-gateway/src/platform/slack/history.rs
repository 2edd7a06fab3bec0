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
use crate::platform::{ChatAddress, PostError, RawUpdate};

/// Channels and messages per page, and pages at most.
const PAGE_SIZE: &str = "200";
const MAX_PAGES: usize = 20;
/// The most missed messages of a chat.
const MAX_MISSED: usize = 100;
/// Threads whose replies are looked up.
const MAX_THREADS: usize = 10;

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

    /// What was said in a chat after a message, oldest first.
    pub(super) async fn find_missed(
        &self,
        chat: &ChatAddress,
        after: &str,
        gap: u64,
    ) -> Result<Vec<RawUpdate>, PostError> {
        let identity = self.identity().await?;
        let channel = self.channel_of(chat).await?;
        // By time, which is the order of the ids.
        let mut messages = BTreeMap::new();
        let mut add = |found: &Value| {
            let found = found["messages"].as_array().map_or(&[][..], Vec::as_slice);
            for message in found {
                if let Some(ts) = message["ts"].as_str().filter(|ts| is_later(ts, after)) {
                    messages.insert(ts.to_owned(), message.clone());
                }
            }
        };
        if let Some(thread) = &chat.thread_id {
            add(&self.read_replies(&channel, thread, after).await?);
        }
        // Answers are in threads, questions are not: the channel counts, too, once for all of its threads.
        if chat.thread_id.is_none() || self.begin_history(&channel, gap) {
            let fields = [
                ("channel", channel.as_str()),
                ("oldest", after),
                ("limit", "100"),
            ];
            let found = self.api.read("conversations.history", &fields).await?;
            add(&found);
            let all = found["messages"].as_array().map_or(&[][..], Vec::as_slice);
            let threads = all.iter().filter(|message| {
                let latest = message["latest_reply"].as_str();
                latest.is_some_and(|ts| is_later(ts, after))
            });
            for parent in threads.take(MAX_THREADS) {
                let thread = parent["ts"].as_str().unwrap_or_default();
                add(&self.read_replies(&channel, thread, after).await?);
            }
        }
        let mut updates = Vec::new();
        for message in messages.values() {
            if let Some(mut update) = update_from_history(&channel, message, &identity) {
                self.add_names(&mut update.payload).await;
                updates.push(update);
            }
        }
        // Of too many, the newest count.
        let surplus = updates.len().saturating_sub(MAX_MISSED);
        Ok(updates.split_off(surplus))
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

    /// Whether the history of a channel is not yet read for this gap. Threads come with the one that was used last first,
    /// so that one knows where the gap begins.
    fn begin_history(&self, channel: &str, gap: u64) -> bool {
        let mut histories = self.histories.lock();
        let (last_gap, read) = &mut *histories;
        if *last_gap != gap {
            *last_gap = gap;
            read.clear();
        }
        read.insert(channel.to_owned())
    }

    async fn read_replies(
        &self,
        channel: &str,
        thread: &str,
        after: &str,
    ) -> Result<Value, SlackFailure> {
        let fields = [
            ("channel", channel),
            ("ts", thread),
            ("oldest", after),
            ("limit", "100"),
        ];
        self.api.read("conversations.replies", &fields).await
    }
}

/// Ids are times, with as many digits after the point and, for centuries, before it.
fn is_later(ts: &str, after: &str) -> bool {
    (ts.len(), ts) > (after.len(), after)
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
