//! Notifies a client of events: updates of subscribed resources, and messages pushed to Claude Code.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use hermes_config::sync::Mutex;
use hermes_store::{Content, SessionId};
use rmcp::{
    Peer, RoleServer,
    model::{CustomNotification, ResourceUpdatedNotificationParam, ServerNotification},
    service::SubscriptionContext,
};
use serde_json::{Value, json};

use super::{
    Bridge,
    events::{ConversationEvent, Cursor, EventError, EventFeed, EventKind},
    resources::{self, ResourceAddress},
    tools,
};

/// Events read at once.
const BATCH_SIZE: usize = 200;
/// The pause after a failed read.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Reads the log from a cursor on.
struct LogFollower {
    feed: EventFeed,
    after: Cursor,
}

impl LogFollower {
    /// Waits for the next events. `None` when the log is closed.
    async fn next(&mut self) -> Option<Vec<ConversationEvent>> {
        loop {
            match self.read().await {
                Ok(events) => {
                    self.after = events.last().map_or(self.after, |event| event.cursor);
                    return Some(events);
                }
                Err(EventError::Closed) => return None,
                // The client does not ask again, so a failed read must be retried.
                Err(error) => {
                    tracing::warn!(%error, "failed to read the event log; retrying");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn read(&self) -> Result<Vec<ConversationEvent>, EventError> {
        self.feed.wait(self.after, None).await?;
        let page = self.feed.poll(self.after, None, BATCH_SIZE).await?;
        Ok(page.events)
    }
}

/// The resources that a batch of events changes, without duplicates.
fn changed_resources(events: &[ConversationEvent]) -> BTreeSet<String> {
    let mut uris = BTreeSet::new();
    for event in events {
        uris.insert(resources::CONVERSATIONS.to_owned());
        if !event.session_key.is_empty() {
            uris.insert(resources::conversation_uri(&event.session_key));
        }
    }
    uris
}

pub(super) fn can_be_watched(uri: &str) -> bool {
    matches!(
        ResourceAddress::parse(uri),
        Some(ResourceAddress::Conversations | ResourceAddress::Conversation(_))
    )
}

/// The canonical form of a URI, for comparison.
pub(super) fn canonical_uri(uri: &str) -> String {
    match ResourceAddress::parse(uri) {
        Some(ResourceAddress::Conversation(key)) => resources::conversation_uri(&key),
        _ => uri.to_owned(),
    }
}

/// Notifies a client of changes of its subscribed resources.
pub(super) async fn notify_resources(
    feed: EventFeed,
    from: Cursor,
    peer: Peer<RoleServer>,
    watched: Arc<Mutex<BTreeSet<String>>>,
) {
    let mut follower = LogFollower { feed, after: from };
    while let Some(events) = follower.next().await {
        let changed = changed_resources(&events);
        let interesting: Vec<String> = {
            let watched = watched.lock();
            watched.intersection(&changed).cloned().collect()
        };
        for uri in interesting {
            let update = ResourceUpdatedNotificationParam::new(uri);
            if peer.notify_resource_updated(update).await.is_err() {
                return;
            }
        }
    }
}

/// Serves one `subscriptions/listen` until it is cancelled.
pub(super) async fn serve_subscription(
    feed: EventFeed,
    from: Cursor,
    context: &SubscriptionContext,
) {
    let accepted = context.accepted().resource_subscriptions.clone();
    let accepted = accepted.unwrap_or_default();
    let mut follower = LogFollower { feed, after: from };
    let told = async {
        while let Some(events) = follower.next().await {
            let changed = changed_resources(&events);
            for uri in &accepted {
                if changed.contains(&canonical_uri(uri))
                    && context.sink().notify_resource_updated(uri).await.is_err()
                {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = told => {}
        () = context.cancelled() => {}
    }
}

/// Pushes each new user message to Claude Code, from a cursor on, or else from when the log can be read.
pub(super) async fn push_messages(
    bridge: Bridge,
    feed: EventFeed,
    from: Option<Cursor>,
    peer: Peer<RoleServer>,
) {
    let after = match from {
        Some(from) => from,
        None => feed.position().await,
    };
    let mut follower = LogFollower { feed, after };
    while let Some(events) = follower.next().await {
        for event in &events {
            let Some(params) = push_payload(&bridge, event).await else {
                continue;
            };
            let notification =
                CustomNotification::new("notifications/claude/channel", Some(params));
            let notification = ServerNotification::CustomNotification(notification);
            if peer.send_notification(notification).await.is_err() {
                return;
            }
        }
    }
}

/// The payload for an event: a user message and its origin, as strings.
async fn push_payload(bridge: &Bridge, event: &ConversationEvent) -> Option<Value> {
    let EventKind::Message {
        role,
        content,
        message_id,
        ..
    } = &event.kind
    else {
        return None;
    };
    if role != "user" {
        return None;
    }
    let key = &event.session_key;
    // The conversation may have ended meanwhile.
    let conversation = tools::find_conversation(bridge, key).await.ok();
    let whole = match &conversation {
        Some(conversation) => read_full_text(bridge, &conversation.session_id, message_id).await,
        None => None,
    };
    let (platform, chat, user) = conversation.map_or_else(Default::default, |conversation| {
        (
            conversation.platform,
            conversation.chat_id,
            conversation.user_name,
        )
    });
    Some(json!({
        "content": whole.as_ref().unwrap_or(content),
        "meta": {
            "session_key": key,
            "platform": platform,
            "chat_id": chat,
            "user": user,
            "message_id": message_id,
        },
    }))
}

/// The full text of a message, which an event may have truncated.
async fn read_full_text(bridge: &Bridge, session: &str, id: &str) -> Option<String> {
    let store = bridge.databases().conversations().await.ok()??;
    let session = SessionId::parse(session).ok()?;
    let message = tools::find_message(&store, &session, id).await.ok()?;
    let content = message.body.content.as_ref().map(Content::text)?;
    Some(content.into_owned())
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use hermes_store::{Access, NewMessage, NewSession, Role, SessionKey, Store};
    use hermes_testkit::DatabaseLock;

    use super::*;
    use crate::bridge::events::EventLimits;

    #[tokio::test]
    async fn a_log_that_cannot_be_read_for_a_while_is_followed_later() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let session = SessionId::parse("20260101_010101_0badcafe").unwrap();
        let mut new = NewSession::new(session.clone(), "telegram");
        new.session_key = Some(SessionKey::new("agent:main:telegram:dm:1"));
        store.create_session(&new).await.unwrap();
        let locker = DatabaseLock::acquire(&directory.path().join("runtime.db"));
        let feed = EventFeed::open(&home, EventLimits::default()).await;
        let mut follower = LogFollower {
            feed: feed.clone(),
            after: Cursor::default(),
        };
        assert!(matches!(follower.read().await, Err(EventError::NotReady)));
        let mend = async {
            // The follower fails once more.
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(3)).await;
            tokio::time::resume();
            drop(locker);
            let is_open = || feed.known_position().is_some();
            assert!(hermes_testkit::eventually(Duration::from_mins(1), is_open).await);
            let message = NewMessage::new(Role::User, "late");
            store.append(&session, &message).await.unwrap();
        };
        let both = async { tokio::join!(follower.next(), mend).0 };
        let events = tokio::time::timeout(Duration::from_mins(1), both).await;
        let events = events.unwrap().unwrap();
        assert_eq!(events.len(), 1, "{events:?}");
        feed.close().await;
        assert_eq!(follower.next().await, None);
    }
}
