//! Messages out: posting, editing, deleting, notices and reactions.

use serde_json::{Value, json};

use super::{
    SlackCore,
    api::SlackFailure,
    blocks::{MAX_EDITED_CHARS, message_blocks, render_text},
};
use crate::platform::{ChatAddress, InboundEvent, OutboundMessage, PostError, Posted, TextFormat};

/// What the metadata of posted messages is called, by which they are found again.
pub(super) const POSTED_EVENT: &str = "hermes_message";

impl SlackCore {
    /// The channel of an address. A user's is opened at first.
    pub(super) async fn channel_of(&self, chat: &ChatAddress) -> Result<String, SlackFailure> {
        if !chat.id.starts_with(['U', 'W']) {
            return Ok(chat.id.clone());
        }
        if let Some(channel) = self.direct_channels.lock().get(&chat.id) {
            return Ok(channel.clone());
        }
        let body = json!({"users": chat.id});
        let opened = self.api.call("conversations.open", &body).await?;
        let channel = opened["channel"]["id"].as_str();
        let channel = channel.ok_or_else(|| SlackFailure::named("channel_not_found"))?;
        let mut known = self.direct_channels.lock();
        known.insert(chat.id.clone(), channel.to_owned());
        Ok(channel.to_owned())
    }

    pub(super) async fn post_message(
        &self,
        chat: &ChatAddress,
        message: &OutboundMessage,
    ) -> Result<Posted, PostError> {
        let channel = self.channel_of(chat).await?;
        let thread = chat.thread_id.as_deref();
        let has_buttons = message.buttons.iter().any(|row| !row.is_empty());
        let posted = if message.files.is_empty() {
            self.post_text(&channel, thread, message).await?
        } else if has_buttons {
            // A file cannot have buttons: they follow it.
            self.upload_files(&channel, thread, &message.files, "")
                .await?;
            self.post_text(&channel, thread, message).await?
        } else {
            let comment = render_text(&message.text, message.format);
            self.upload_files(&channel, thread, &message.files, &comment)
                .await?
        };
        self.end_working(&channel, thread).await;
        Ok(posted)
    }

    async fn post_text(
        &self,
        channel: &str,
        thread: Option<&str>,
        message: &OutboundMessage,
    ) -> Result<Posted, PostError> {
        let mut body = message_body(channel, message);
        if let Some(thread) = thread {
            body["thread_ts"] = json!(thread);
        }
        if let Some(nonce) = &message.nonce {
            body["metadata"] =
                json!({"event_type": POSTED_EVENT, "event_payload": {"nonce": nonce}});
        }
        let posted = self.call_with_blocks("chat.postMessage", body).await?;
        Ok(Posted {
            message_id: posted["ts"].as_str().unwrap_or_default().to_owned(),
            warning: None,
        })
    }

    pub(super) async fn edit_message(
        &self,
        chat: &ChatAddress,
        message_id: &str,
        message: &OutboundMessage,
    ) -> Result<(), PostError> {
        let mut body = message_body(&self.channel_of(chat).await?, message);
        body["ts"] = json!(message_id);
        // As for new messages: no name becomes a mention.
        body["parse"] = json!("none");
        if body["blocks"].is_null() {
            // Else the buttons would stay.
            body["blocks"] = json!([]);
        } else if let Some(text) = body["text"].as_str() {
            // Beside blocks, it is what notifications show.
            let shown: String = text.chars().take(MAX_EDITED_CHARS).collect();
            body["text"] = json!(shown);
        }
        match self.call_with_blocks("chat.update", body.clone()).await {
            Err(failure) if failure.is("streaming_state_conflict") => {
                // A stream that a gateway left behind when it died.
                self.stop_stream(&body["channel"], message_id).await?;
                self.call_with_blocks("chat.update", body).await?;
                Ok(())
            }
            edited => edited.map(drop).map_err(Into::into),
        }
    }

    /// Sends a message. A Markdown block that Slack refuses costs the message what only that can show.
    async fn call_with_blocks(
        &self,
        method: &'static str,
        mut body: Value,
    ) -> Result<Value, SlackFailure> {
        match self.api.call(method, &body).await {
            Err(failure) if failure.is("invalid_blocks") => {
                let blocks = body["blocks"].as_array_mut().ok_or(failure.clone())?;
                let count = blocks.len();
                blocks.retain(|block| block["type"] != "markdown");
                // Beside others, the text would not be shown.
                if blocks.len() == count || !blocks.is_empty() {
                    return Err(failure);
                }
                tracing::debug!(%failure, "Slack message is sent without Markdown block");
                self.api.call(method, &body).await
            }
            sent => sent,
        }
    }

    async fn stop_stream(&self, channel: &Value, ts: &str) -> Result<(), SlackFailure> {
        let body = json!({"channel": channel, "ts": ts});
        self.api.call("chat.stopStream", &body).await.map(drop)
    }

    pub(super) async fn delete_message(
        &self,
        chat: &ChatAddress,
        message_id: &str,
    ) -> Result<(), PostError> {
        let body = json!({"channel": self.channel_of(chat).await?, "ts": message_id});
        match self.api.call("chat.delete", &body).await {
            Err(failure) if !failure.is("message_not_found") => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Shows a text to one person only.
    pub(super) async fn send_notice(
        &self,
        event: &InboundEvent,
        notice: &str,
    ) -> Result<(), PostError> {
        let Some(sender) = &event.sender else {
            return Ok(());
        };
        let text = render_text(notice, TextFormat::Markdown);
        let mut body = json!({"channel": event.chat.id, "user": sender.id, "text": text});
        if let Some(thread) = &event.chat.thread_id {
            body["thread_ts"] = json!(thread);
        }
        self.api.call("chat.postEphemeral", &body).await?;
        Ok(())
    }

    pub(super) async fn add_reaction(
        &self,
        chat: &ChatAddress,
        message_id: &str,
        reaction: &str,
    ) -> Result<(), PostError> {
        let channel = self.channel_of(chat).await?;
        let body =
            json!({"channel": channel, "timestamp": message_id, "name": reaction_name(reaction)});
        match self.api.call("reactions.add", &body).await {
            Err(failure) if !failure.is("already_reacted") => Err(failure.into()),
            _ => Ok(()),
        }
    }
}

fn message_body(channel: &str, message: &OutboundMessage) -> Value {
    let mut body = json!({
        "channel": channel,
        "text": render_text(&message.text, message.format),
        "mrkdwn": message.format == TextFormat::Markdown,
    });
    let blocks = message_blocks(message);
    if !blocks.is_empty() {
        body["blocks"] = json!(blocks);
    }
    body
}

/// Slack names its emoji.
fn reaction_name(reaction: &str) -> &str {
    let names = [
        ("👀", "eyes"),
        ("✅", "white_check_mark"),
        ("❌", "x"),
        ("👍", "+1"),
        ("👎", "-1"),
        ("🤔", "thinking_face"),
        ("⏳", "hourglass_flowing_sand"),
        ("❤", "heart"),
        ("🔥", "fire"),
        ("🎉", "tada"),
        ("👌", "ok_hand"),
        ("⚡", "zap"),
        ("🛑", "octagonal_sign"),
    ];
    let bare = reaction.trim_end_matches('\u{fe0f}');
    let found = names.iter().find(|(emoji, _)| *emoji == bare);
    found.map_or_else(|| reaction.trim_matches(':'), |(_, name)| name)
}
