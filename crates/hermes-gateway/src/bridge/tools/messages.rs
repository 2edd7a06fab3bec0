//! `messages_read`.

use hermes_store::{SaidMessage, SessionId, Store, StoreError};
use serde::Serialize;

use super::conversations;
use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{Document, Refusal},
    },
    conversations::Entry,
};

const MOST_CHARACTERS: usize = 2000;

pub(super) async fn messages_read(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<Document, Refusal> {
    let key = arguments.text("session_key");
    let transcript = recent(bridge, key, arguments.count("limit")).await?;
    Ok(transcript.document())
}

#[derive(Debug)]
pub(in crate::bridge) struct Transcript {
    pub(in crate::bridge) conversation: Entry,
    pub(in crate::bridge) messages: Vec<Said>,
    total: usize,
}

#[derive(Debug, Serialize)]
pub(in crate::bridge) struct Said {
    id: String,
    pub(in crate::bridge) role: String,
    pub(in crate::bridge) content: String,
    timestamp: f64,
}

impl Transcript {
    pub(in crate::bridge) fn document(&self) -> Document {
        #[derive(Serialize)]
        struct Shown<'a> {
            session_key: &'a str,
            count: usize,
            total_in_session: usize,
            messages: &'a [Said],
        }
        Document::indented(&Shown {
            session_key: &self.conversation.session_key,
            count: self.messages.len(),
            total_in_session: self.total,
            messages: &self.messages,
        })
    }
}

/// The newest messages of a conversation, in order.
pub(in crate::bridge) async fn recent(
    bridge: &Bridge,
    key: &str,
    limit: usize,
) -> Result<Transcript, Refusal> {
    let conversation = conversations::find(bridge, key).await?;
    let (store, session) = open(bridge, &conversation).await?;
    let said = store
        .said(&session, limit)
        .await
        .map_err(|error| failed(&error))?;
    Ok(Transcript {
        conversation,
        messages: said.messages.iter().map(shown).collect(),
        total: said.total,
    })
}

fn shown(message: &SaidMessage) -> Said {
    Said {
        id: message.id.0.to_string(),
        role: message.role.as_str().to_owned(),
        content: message.text.chars().take(MOST_CHARACTERS).collect(),
        timestamp: message.timestamp,
    }
}

/// The store, and the session a conversation is in.
pub(super) async fn open(
    bridge: &Bridge,
    conversation: &Entry,
) -> Result<(Store, SessionId), Refusal> {
    if conversation.session_id.is_empty() {
        return Err(Refusal::new("No session ID for this conversation"));
    }
    let session = SessionId::parse(&conversation.session_id).map_err(|error| failed(&error))?;
    match bridge.databases().conversations().await {
        Ok(Some(store)) => Ok((store, session)),
        Ok(None) => Err(Refusal::new("Session database unavailable")),
        Err(error) => Err(Refusal::unavailable(&error)),
    }
}

pub(super) fn failed(error: &StoreError) -> Refusal {
    Refusal::new(format!("Failed to read messages: {error}"))
}
