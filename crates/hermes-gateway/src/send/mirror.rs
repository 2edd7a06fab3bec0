//! Adds sent messages to the conversation of their chat, so that its agent knows of them.

use std::time::Duration;

use hermes_config::Home;
use hermes_store::{Access, ChatSession, NewMessage, Role, SessionId, Store, StoreError};

/// Another process may be writing, but the caller should not wait long.
const MIRROR_TIMEOUT: Duration = Duration::from_secs(5);

/// A message that was sent, and where.
pub(super) struct MirroredMessage<'s> {
    pub(super) platform: &'s str,
    /// The possible ids of the chat in the store.
    pub(super) chats: Vec<&'s str>,
    pub(super) thread: Option<&'s str>,
    pub(super) text: &'s str,
    pub(super) message_id: &'s str,
}

/// Appends a message to the session of its chat, and returns whether it did. A failure does not fail the sending.
pub(super) async fn append_to_session(home: &Home, sending: &MirroredMessage<'_>) -> bool {
    match tokio::time::timeout(MIRROR_TIMEOUT, try_append(home, sending)).await {
        Ok(Ok(is_done)) => is_done,
        Ok(Err(error)) => {
            tracing::warn!(%error, "failed to add a sent message to its conversation");
            false
        }
        Err(_) => {
            tracing::warn!("adding a sent message to its conversation timed out");
            false
        }
    }
}

async fn try_append(home: &Home, sending: &MirroredMessage<'_>) -> Result<bool, StoreError> {
    // Read-only is enough for most chats, and creates no file.
    let store = match Store::open(home, Access::ReadOnly).await {
        Err(StoreError::Absent { .. }) => return Ok(false),
        opened => opened?,
    };
    let chats = store.chats().await;
    store.close().await;
    let Some(session) = find_session(&chats?, sending) else {
        return Ok(false);
    };
    let store = Store::open(home, Access::ReadWrite).await?;
    let mut message = NewMessage::new(Role::Assistant, sending.text);
    message.platform_message_id = Some(sending.message_id.to_owned());
    let appended = store.append(&session, &message).await;
    store.close().await;
    appended.map(|_| true)
}

/// The newest session of the chat and thread, unless several users have one.
fn find_session(chats: &[ChatSession], sending: &MirroredMessage) -> Option<SessionId> {
    let thread = sending.thread.unwrap_or_default();
    let is_there = |chat: &&ChatSession| {
        let id = chat.chat_id.as_deref().unwrap_or_default();
        chat.source.eq_ignore_ascii_case(sending.platform)
            && sending.chats.contains(&id)
            && (chat.thread_id.as_deref().unwrap_or_default() == thread || id == thread)
    };
    let found: Vec<_> = chats.iter().filter(is_there).collect();
    let mut users: Vec<&str> = found
        .iter()
        .filter_map(|chat| chat.user_id.as_deref())
        .filter(|user| !user.trim().is_empty())
        .collect();
    users.sort_unstable();
    users.dedup();
    if users.len() > 1 {
        return None;
    }
    let newest = found.into_iter().max_by(|a, b| {
        a.started_at
            .unwrap_or(0.0)
            .total_cmp(&b.started_at.unwrap_or(0.0))
    })?;
    Some(newest.session.clone())
}
