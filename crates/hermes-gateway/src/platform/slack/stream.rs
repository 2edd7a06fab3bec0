//! Answers that grow: Slack's streams, with the tools at work as cards.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    SlackCore,
    api::SlackFailure,
    blocks::{button_blocks, quiet_markdown},
};
use crate::platform::{
    ChatAddress, InboundEvent, LivePreview, OutboundMessage, PostError, Posted, TaskState,
    TextFormat,
};

const START_METHOD: &str = "chat.startStream";
/// So many characters are sent at once, without waiting for the time.
const JOIN_CHARS: usize = 256;
/// Slack takes so many characters in one piece.
const MAX_PIECE_CHARS: usize = 12_000;
/// The title of a card takes so many characters.
const MAX_TITLE_CHARS: usize = 256;

/// A message that grows.
struct SlackStream {
    core: Arc<SlackCore>,
    chat: ChatAddress,
    ts: String,
    /// What Slack has of the answer.
    sent: String,
    /// What it does not have yet.
    pending: String,
    /// Cards that it does not have yet, the last state of each.
    pending_tasks: Vec<Value>,
    /// The answer was written anew: the end replaces it.
    is_rewritten: bool,
    /// Slack has ended the stream: because somebody pressed stop, or after too long.
    is_closed: bool,
    /// Nothing is sent before that.
    next_at: Instant,
}

/// Opens a stream, where Slack has them for this chat.
pub(super) async fn open_stream(
    core: &Arc<SlackCore>,
    chat: &ChatAddress,
    reply_to: Option<&InboundEvent>,
) -> Result<Option<Box<dyn LivePreview>>, PostError> {
    // A stream is a reply in a thread.
    let Some(thread) = &chat.thread_id else {
        return Ok(None);
    };
    if !core.api.supports(START_METHOD) {
        return Ok(None);
    }
    let mut body = json!({
        "channel": chat.id, "thread_ts": thread, "chunks": [], "task_display_mode": "timeline",
    });
    let recipient = reply_to.and_then(|event| event.sender.as_ref());
    if let Some(recipient) = recipient {
        let team = match &chat.scope_id {
            Some(team) => team.clone(),
            None => core.identity().await?.team_id,
        };
        body["recipient_user_id"] = json!(recipient.id);
        body["recipient_team_id"] = json!(team);
    } else if !chat.is_direct() {
        return Ok(None);
    }
    let ts = match core.api.call(START_METHOD, &body).await {
        Ok(started) => started["ts"].as_str().unwrap_or_default().to_owned(),
        Err(failure) if failure.is("unknown_method") => {
            core.api.remember_unsupported(START_METHOD, &failure);
            return Ok(None);
        }
        Err(failure) if failure.is_bad_token() => return Err(failure.into()),
        Err(failure) => {
            tracing::debug!(%failure, "Slack stream was not started, editing instead");
            return Ok(None);
        }
    };
    Ok(Some(Box::new(SlackStream {
        core: Arc::clone(core),
        chat: chat.clone(),
        ts,
        sent: String::new(),
        pending: String::new(),
        pending_tasks: Vec::new(),
        is_rewritten: false,
        is_closed: false,
        next_at: Instant::now(),
    })))
}

impl SlackStream {
    /// Notes the answer so far.
    fn take_text(&mut self, text: &str) {
        match text.strip_prefix(self.sent.as_str()) {
            Some(rest) => {
                rest.clone_into(&mut self.pending);
                self.is_rewritten = false;
            }
            None => self.is_rewritten = true,
        }
    }

    /// Whether Slack accepts nothing for a while: its limits are longer than the pause between two pieces.
    fn is_limited(&self) -> bool {
        self.next_at > Instant::now() + self.core.timeouts.stream_interval
    }

    /// Sends what is pending.
    async fn append(&mut self) -> Result<(), PostError> {
        if self.is_closed {
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.pending);
        // What follows may make it a reference, which is escaped.
        let kept = text.trim_end_matches('<').len();
        let held = text.split_off(kept);
        let mut chunks = text_chunks(&text);
        chunks.extend(self.pending_tasks.iter().cloned());
        if chunks.is_empty() {
            self.pending = held;
            return Ok(());
        }
        let body = json!({"channel": self.chat.id, "ts": self.ts, "chunks": chunks});
        match self.core.api.call("chat.appendStream", &body).await {
            Ok(_) => {
                self.sent.push_str(&text);
                self.pending = held;
                self.pending_tasks.clear();
                self.next_at = Instant::now() + self.core.timeouts.stream_interval;
                Ok(())
            }
            Err(failure) => {
                self.pending = text + &held;
                self.note_failure(failure)
            }
        }
    }

    /// What a growing answer can bear: the end is what counts.
    fn note_failure(&mut self, failure: SlackFailure) -> Result<(), PostError> {
        match failure {
            SlackFailure::RateLimited { wait } => {
                self.next_at = Instant::now() + wait;
                Ok(())
            }
            SlackFailure::Temporary { reason } => {
                tracing::debug!(%reason, "Slack stream was not continued");
                self.next_at = Instant::now() + self.core.timeouts.stream_interval;
                Ok(())
            }
            failure @ SlackFailure::Named { .. } if failure.is_bad_token() => Err(failure.into()),
            failure @ SlackFailure::Named { .. } => {
                tracing::debug!(%failure, "Slack stream has ended");
                self.is_closed = true;
                Ok(())
            }
        }
    }

    async fn stop(&mut self, message: &OutboundMessage) -> Result<(), PostError> {
        let buttons = button_blocks(&message.buttons);
        let text = if self.is_rewritten {
            String::new()
        } else {
            self.pending.clone()
        };
        let mut chunks = text_chunks(&text);
        chunks.append(&mut self.pending_tasks.clone());
        let mut body = json!({"channel": self.chat.id, "ts": self.ts, "chunks": chunks});
        if !buttons.is_empty() {
            body["blocks"] = json!(buttons);
        }
        let thread = self.chat.thread_id.as_deref().unwrap_or_default();
        if self.core.working.contains(&self.chat.id, thread) {
            body["session_status"] = json!("active");
        }
        match self.core.api.call("chat.stopStream", &body).await {
            Ok(_) => {
                self.core.working.remove(&self.chat.id, thread);
                self.is_closed = true;
                self.sent.push_str(&text);
                self.pending.clear();
                Ok(())
            }
            Err(failure) if PostError::from(failure.clone()).is_temporary() => Err(failure.into()),
            Err(failure) if failure.is_bad_token() => Err(failure.into()),
            Err(failure) => {
                tracing::debug!(%failure, "Slack stream was ended before");
                self.is_closed = true;
                self.is_rewritten = true;
                Ok(())
            }
        }
    }
}

/// Streams take standard Markdown, as the agent wrote it.
fn text_chunks(text: &str) -> Vec<Value> {
    let characters: Vec<char> = quiet_markdown(text).chars().collect();
    let pieces = characters.chunks(MAX_PIECE_CHARS);
    pieces
        .map(|piece| json!({"type": "markdown_text", "text": piece.iter().collect::<String>()}))
        .collect()
}

impl LivePreview for SlackStream {
    fn message_id(&self) -> Option<&str> {
        Some(&self.ts)
    }

    fn update<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            self.take_text(text);
            let is_due = Instant::now() >= self.next_at;
            let is_much = self.pending.chars().nth(JOIN_CHARS - 1).is_some();
            let is_time = is_due || is_much && !self.is_limited();
            if self.pending.is_empty() || self.is_rewritten || !is_time {
                return Ok(());
            }
            self.append().await
        })
    }

    fn update_task<'a>(
        &'a mut self,
        id: &'a str,
        title: &'a str,
        state: TaskState,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let status = match state {
                TaskState::InProgress => "in_progress",
                TaskState::Complete => "complete",
                TaskState::Failed => "error",
            };
            let title: String = title.chars().take(MAX_TITLE_CHARS).collect();
            let task = json!({"type": "task_update", "id": id, "title": title, "status": status});
            self.pending_tasks.retain(|known| known["id"] != id);
            self.pending_tasks.push(task);
            if self.is_limited() {
                return Ok(());
            }
            self.append().await
        })
    }

    fn finish<'a>(
        &'a mut self,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Option<Posted>, PostError>> {
        Box::pin(async move {
            self.take_text(&message.text);
            let is_plain = message.format == TextFormat::Plain;
            if is_plain || self.is_closed && !self.pending.is_empty() {
                self.is_rewritten = true;
            }
            if !self.is_closed {
                self.stop(message).await?;
            }
            let text = OutboundMessage {
                files: Vec::new(),
                ..message.clone()
            };
            if self.is_rewritten {
                // In place, so that there is no second copy.
                let chat = self.chat.clone();
                self.core.edit_message(&chat, &self.ts, &text).await?;
                self.is_rewritten = false;
                self.sent.clone_from(&message.text);
                self.pending.clear();
            }
            if !message.files.is_empty() {
                let thread = self.chat.thread_id.as_deref();
                self.core
                    .upload_files(&self.chat.id, thread, &message.files, "")
                    .await?;
            }
            Ok(Some(Posted {
                message_id: self.ts.clone(),
                warning: None,
            }))
        })
    }

    fn discard(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let body = json!({"channel": self.chat.id, "ts": self.ts});
            if !self.is_closed
                && let Err(failure) = self.core.api.call("chat.stopStream", &body).await
            {
                tracing::debug!(%failure, "Slack stream was not stopped");
            }
            self.is_closed = true;
            if let Err(error) = self.core.delete_message(&self.chat, &self.ts).await {
                tracing::warn!(%error, "Slack stream was not removed");
            }
            let thread = self.chat.thread_id.clone();
            self.core
                .end_working(&self.chat.id, thread.as_deref())
                .await;
        })
    }
}
