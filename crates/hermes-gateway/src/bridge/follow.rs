//! Telling a client of events as they happen: resources it watches, and messages pushed to Claude Code.

use std::{collections::BTreeSet, ops::ControlFlow};

use hermes_store::{Content, SessionId};
use rmcp::{
    Peer, RoleServer,
    model::{CustomNotification, ResourceUpdatedNotificationParam, ServerNotification},
    service::SubscriptionContext,
};
use serde_json::{Value, json};

use super::{
    Bridge,
    events::{Cursor, Event, EventKind},
    resources::{self, Address},
    tools,
};

/// So many events are taken at once.
const AT_ONCE: usize = 200;

/// Hands on each batch of events after a cursor, until nobody takes them any more or the log fails.
async fn follow(
    bridge: &Bridge,
    from: Cursor,
    mut take: impl AsyncFnMut(&[Event]) -> ControlFlow<()>,
) {
    let feed = bridge.feed().await;
    let mut after = from;
    loop {
        let page = match feed.wait(after, None).await {
            Ok(_) => feed.poll(after, None, AT_ONCE).await,
            Err(error) => Err(error),
        };
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "events are no longer told to the client");
                return;
            }
        };
        if let Some(last) = page.events.last() {
            after = last.cursor;
        }
        if take(&page.events).await.is_break() {
            return;
        }
    }
}

/// The resources that events change, in a batch each once.
fn changed(events: &[Event]) -> BTreeSet<String> {
    let mut uris = BTreeSet::new();
    for event in events {
        uris.insert(resources::CONVERSATIONS.to_owned());
        if !event.session_key.is_empty() {
            uris.insert(resources::conversation_uri(&event.session_key));
        }
    }
    uris
}

/// Whether a resource can be watched.
pub(super) fn can_be_watched(uri: &str) -> bool {
    matches!(
        Address::parse(uri),
        Some(Address::Conversations | Address::Conversation(_))
    )
}

/// An address as it is compared: written in one way.
pub(super) fn canonical(uri: &str) -> String {
    match Address::parse(uri) {
        Some(Address::Conversation(key)) => resources::conversation_uri(&key),
        _ => uri.to_owned(),
    }
}

/// Tells a client of changed resources while it is interested in them.
pub(super) async fn tell_of_resources(
    bridge: Bridge,
    from: Cursor,
    peer: Peer<RoleServer>,
    watched: impl Fn(&BTreeSet<String>) -> Vec<String> + Send,
) {
    follow(&bridge, from, async |events| {
        for uri in watched(&changed(events)) {
            let update = ResourceUpdatedNotificationParam::new(uri);
            if peer.notify_resource_updated(update).await.is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })
    .await;
}

/// Serves one `subscriptions/listen` until it is cancelled.
pub(super) async fn listen(bridge: &Bridge, from: Cursor, context: &SubscriptionContext) {
    let accepted = context.accepted().resource_subscriptions.clone();
    let accepted = accepted.unwrap_or_default();
    let told = follow(bridge, from, async |events| {
        let changed = changed(events);
        for uri in accepted.iter().filter(|uri| changed.contains(&canonical(uri))) {
            if context.sink().notify_resource_updated(uri).await.is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    tokio::select! {
        () = told => context.cancelled().await,
        () = context.cancelled() => {}
    }
}

/// Pushes each new message of a person to Claude Code.
pub(super) async fn push_messages(bridge: Bridge, from: Cursor, peer: Peer<RoleServer>) {
    follow(&bridge, from, async |events| {
        for event in events {
            let Some(params) = pushed(&bridge, event).await else {
                continue;
            };
            let notification = CustomNotification::new("notifications/claude/channel", Some(params));
            let notification = ServerNotification::CustomNotification(notification);
            if peer.send_notification(notification).await.is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })
    .await;
}

/// What is pushed for an event: a person's message with where it came from, all of it texts.
async fn pushed(bridge: &Bridge, event: &Event) -> Option<Value> {
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
    // The conversation may have ended since.
    let conversation = tools::find_conversation(bridge, key).await.ok();
    let whole = match &conversation {
        Some(conversation) => whole_text(bridge, &conversation.session_id, message_id).await,
        None => None,
    };
    let (platform, chat, user) = conversation.map_or_else(Default::default, |conversation| {
        (conversation.platform, conversation.chat_id, conversation.user_name)
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

/// The text of a message, which an event may have cut.
async fn whole_text(bridge: &Bridge, session: &str, id: &str) -> Option<String> {
    let store = bridge.databases().conversations().await.ok()?;
    let session = SessionId::parse(session).ok()?;
    let message = tools::find_message(&store, &session, id).await.ok()?;
    let content = message.body.content.as_ref().map(Content::text)?;
    Some(content.into_owned())
}
