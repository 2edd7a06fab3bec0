//! A chunk and its address as the outbox stores them. What is stored outlives the program that wrote it.

use std::path::PathBuf;

use hermes_config::to_hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::reply_plan::PlannedMessage;
use crate::platform::{AttachmentKind, ChatAddress, ChatKind, OutboundFile, OutboundMessage};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredChunk {
    pub(super) text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<StoredFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reply_to: Option<String>,
    /// Marked late whenever it is sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_late: bool,
    /// An earlier process may have sent it without recording that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) may_be_posted: bool,
    /// What a platform knows the message by that is posted once: [`message_nonce`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nonce: Option<String>,
    /// The stored message that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shown_message: Option<i64>,
}

/// What the message with this part of an answer is known by, as a preview and as the answer: 24 characters.
pub(super) fn message_nonce(dedupe_key: &str, part: usize) -> String {
    let digest = Sha256::digest(format!("{part}:{dedupe_key}").as_bytes());
    to_hex(&digest[..12])
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredFile {
    pub(super) path: PathBuf,
    pub(super) kind: String,
    pub(super) name: String,
}

impl StoredChunk {
    pub(super) fn new(planned: PlannedMessage) -> Self {
        let stored = |file: OutboundFile| StoredFile {
            path: file.path,
            kind: kind_word(file.kind).to_owned(),
            name: file.name,
        };
        Self {
            text: planned.text,
            files: planned.files.into_iter().map(stored).collect(),
            reply_to: None,
            is_late: false,
            may_be_posted: false,
            nonce: None,
            shown_message: None,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn from_json(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_default()
    }

    /// The message to post.
    pub(super) fn to_message(&self, nonce: Option<String>) -> OutboundMessage {
        let file = |file: &StoredFile| OutboundFile {
            path: file.path.clone(),
            kind: read_kind(&file.kind),
            name: file.name.clone(),
        };
        OutboundMessage {
            text: self.text.clone(),
            files: self.files.iter().map(file).collect(),
            reply_to: self.reply_to.clone(),
            nonce,
            ..OutboundMessage::default()
        }
    }
}

fn kind_word(kind: AttachmentKind) -> &'static str {
    match kind {
        AttachmentKind::Image => "image",
        AttachmentKind::Video => "video",
        AttachmentKind::Audio => "audio",
        AttachmentKind::Voice => "voice",
        AttachmentKind::Document => "document",
    }
}

fn read_kind(word: &str) -> AttachmentKind {
    let all = [
        AttachmentKind::Image,
        AttachmentKind::Video,
        AttachmentKind::Audio,
        AttachmentKind::Voice,
    ];
    all.into_iter()
        .find(|kind| kind_word(*kind) == word)
        .unwrap_or(AttachmentKind::Document)
}

/// An address, with the chat's id as `id`, which the store rewrites when a chat gets another one.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredAddress {
    id: String,
    kind: String,
    thread_id: Option<String>,
    name: Option<String>,
    topic: Option<String>,
    scope_id: Option<String>,
    parent_id: Option<String>,
}

pub(super) fn address_to_json(chat: &ChatAddress) -> Value {
    let stored = StoredAddress {
        id: chat.id.clone(),
        kind: chat.kind.as_str().to_owned(),
        thread_id: chat.thread_id.clone(),
        name: chat.name.clone(),
        topic: chat.topic.clone(),
        scope_id: chat.scope_id.clone(),
        parent_id: chat.parent_id.clone(),
    };
    serde_json::to_value(stored).unwrap_or_default()
}

pub(super) fn address_from_json(value: &Value) -> ChatAddress {
    let stored = StoredAddress::deserialize(value).unwrap_or_default();
    ChatAddress {
        id: stored.id,
        kind: ChatKind::from_name(&stored.kind).unwrap_or(ChatKind::Group),
        thread_id: stored.thread_id,
        name: stored.name,
        topic: stored.topic,
        scope_id: stored.scope_id,
        parent_id: stored.parent_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_and_addresses_survive_being_stored() {
        let planned = PlannedMessage {
            text: "a".into(),
            files: vec![OutboundFile {
                path: "/a.ogg".into(),
                kind: AttachmentKind::Voice,
                name: "a.ogg".into(),
            }],
        };
        let mut chunk = StoredChunk::new(planned.clone());
        chunk.reply_to = Some("7".into());
        chunk.is_late = true;
        chunk.nonce = Some(message_nonce("k", 1));
        assert_eq!(chunk.nonce.as_ref().map(String::len), Some(24));
        assert_ne!(chunk.nonce, Some(message_nonce("k", 2)));
        assert_eq!(StoredChunk::from_json(&chunk.to_json()), chunk);
        assert_eq!(chunk.to_message(None).files, planned.files);
        let chat = ChatAddress {
            thread_id: Some("3".into()),
            topic: Some("News".into()),
            scope_id: Some("T1".into()),
            ..ChatAddress::new("-5", ChatKind::Forum)
        };
        assert_eq!(address_from_json(&address_to_json(&chat)), chat);
    }
}
