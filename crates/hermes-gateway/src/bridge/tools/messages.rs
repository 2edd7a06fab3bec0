//! `messages_read`, `messages_send` and `channels_list`.

use hermes_store::{OwnPlatform, SessionId, Store, StoreError, TextMessage};
use serde::Serialize;
use serde_json::json;

use super::conversations;
use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{JsonDocument, ToolRefusal},
    },
    conversations::ConversationEntry,
    send::MediaPolicy,
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

/// The platform of a target whose conversations cannot be sent to.
fn own_platform(target: &str) -> Option<OwnPlatform> {
    let platform = target.split(':').next().unwrap_or_default();
    OwnPlatform::from_name(&platform.trim().to_lowercase())
}

fn refusal_reason(own: OwnPlatform) -> String {
    let (name, why) = match own {
        OwnPlatform::Cli => (
            "cli",
            "they belong to the terminal; resume one with `hermes --resume ID`",
        ),
        OwnPlatform::Api => (
            "api",
            "the program that started one continues it over the HTTP API of `hermes gateway run`",
        ),
        OwnPlatform::Cron => (
            "cron",
            "they are runs of jobs; `hermes cron run JOB` starts another one",
        ),
    };
    format!("Conversations of `{name}` can be read but not sent to: {why}")
}

pub(super) async fn messages_send(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let (target, message) = (arguments.text("target"), arguments.text("message"));
    if target.is_empty() || message.is_empty() {
        return Err(ToolRefusal::new("Both target and message are required"));
    }
    if let Some(own) =
        own_platform(target).filter(|own| bridge.platform_filter().own_platforms().contains(own))
    {
        return Err(ToolRefusal::new(refusal_reason(own)));
    }
    // A client's text is sent literally. Local files are uploaded only if the owner allows it.
    let media = if bridge.settings().bridge.allow_media {
        MediaPolicy::Upload
    } else {
        MediaPolicy::Literal
    };
    match bridge.sender().send(target, message, media).await {
        Ok(sent) => Ok(JsonDocument::line(&sent)),
        Err(error) => Err(ToolRefusal(serde_json::to_value(error).unwrap_or_default())),
    }
}

pub(super) async fn channels_list(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let platform = arguments.optional("platform");
    let targets = bridge.sender().list_targets(bridge.index(), platform).await;
    let targets = targets.map_err(|error| ToolRefusal::new(error.to_string()))?;
    Ok(json!({"count": targets.len(), "channels": targets}).into())
}
