//! `messages_read`.

use hermes_store::{SessionId, Store, StoreError, TextMessage};
use serde::Serialize;

use super::conversations;
use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{JsonDocument, ToolRefusal},
    },
    conversations::ConversationEntry,
};

const MAX_CHARS: usize = 2000;

pub(super) async fn messages_read(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let key = arguments.text("session_key");
    let transcript = read_transcript(bridge, key, arguments.count("limit")).await?;
    Ok(transcript.document())
}

#[derive(Debug)]
pub(in crate::bridge) struct Transcript {
    pub(in crate::bridge) conversation: ConversationEntry,
    pub(in crate::bridge) messages: Vec<TranscriptMessage>,
    total: usize,
}

#[derive(Debug, Serialize)]
pub(in crate::bridge) struct TranscriptMessage {
    id: String,
    pub(in crate::bridge) role: String,
    pub(in crate::bridge) content: String,
    timestamp: f64,
}

impl Transcript {
    pub(in crate::bridge) fn document(&self) -> JsonDocument {
        #[derive(Serialize)]
        struct TranscriptDocument<'a> {
            session_key: &'a str,
            count: usize,
            total_in_session: usize,
            messages: &'a [TranscriptMessage],
        }
        JsonDocument::indented(&TranscriptDocument {
            session_key: &self.conversation.session_key,
            count: self.messages.len(),
            total_in_session: self.total,
            messages: &self.messages,
        })
    }
}

/// The newest messages of a conversation, in order.
pub(in crate::bridge) async fn read_transcript(
    bridge: &Bridge,
    key: &str,
    limit: usize,
) -> Result<Transcript, ToolRefusal> {
    let conversation = conversations::find_conversation(bridge, key).await?;
    let (store, session) = open_session(bridge, &conversation).await?;
    let messages = store
        .recent_texts(&session, limit)
        .await
        .map_err(|error| read_failed(&error))?;
    Ok(Transcript {
        conversation,
        messages: messages.messages.iter().map(transcript_message).collect(),
        total: messages.total,
    })
}

fn transcript_message(message: &TextMessage) -> TranscriptMessage {
    TranscriptMessage {
        id: message.id.0.to_string(),
        role: message.role.as_str().to_owned(),
        content: message.text.chars().take(MAX_CHARS).collect(),
        timestamp: message.timestamp,
    }
}

/// The store, and the session a conversation is in.
pub(super) async fn open_session(
    bridge: &Bridge,
    conversation: &ConversationEntry,
) -> Result<(Store, SessionId), ToolRefusal> {
    if conversation.session_id.is_empty() {
        return Err(ToolRefusal::new("No session ID for this conversation"));
    }
    let session =
        SessionId::parse(&conversation.session_id).map_err(|error| read_failed(&error.into()))?;
    match bridge.databases().conversations().await {
        Ok(Some(store)) => Ok((store, session)),
        Ok(None) => Err(ToolRefusal::new("Session database unavailable")),
        Err(error) => Err(ToolRefusal::unavailable(&error)),
    }
}

pub(super) fn read_failed(error: &StoreError) -> ToolRefusal {
    ToolRefusal::new(format!("Failed to read messages: {error}"))
}
