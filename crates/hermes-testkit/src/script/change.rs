//! Who hears of changes: legacy clients on their stream, stateless ones on the subscriptions they opened.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    Outlet, ServerScript, lock,
    request::{RequestOutcome, ScriptRequest, ScriptSession},
};
use crate::wire;

/// A client that is notified of changes.
pub(super) struct ChangeListener {
    outlet: Arc<dyn Outlet>,
    kind: ListenerKind,
}

enum ListenerKind {
    /// Hears of everything once the handshake is done.
    Legacy(Arc<ScriptSession>),
    /// Hears of what the accepted filter names.
    Subscription {
        session: String,
        id: Value,
        filter: Value,
    },
}

/// Something worth a notification.
enum AnnouncedChange<'a> {
    List(&'a str),
    Resource(&'a str),
}

impl ServerScript {
    /// Lets a legacy client hear of changes on this outlet.
    pub fn add_listener(&self, session: &Arc<ScriptSession>, outlet: Arc<dyn Outlet>) {
        lock(&self.listeners).push(ChangeListener {
            outlet,
            kind: ListenerKind::Legacy(Arc::clone(session)),
        });
    }

    /// Tells everybody that the list of `tools`, `resources` or `prompts` is another one.
    pub(super) fn announce(&self, list: &str) {
        self.notify_listeners(&AnnouncedChange::List(list));
    }

    /// Tells subscribers that a resource has new contents.
    pub(super) fn announce_resource(&self, uri: &str) {
        self.notify_listeners(&AnnouncedChange::Resource(uri));
    }

    fn notify_listeners(&self, change: &AnnouncedChange) {
        lock(&self.listeners).retain(|listener| match listener.notification(change) {
            Some(notification) => listener.outlet.send(&notification),
            None => true,
        });
    }

    pub(super) fn listen(&self, request: &ScriptRequest) -> RequestOutcome {
        let filter = accepted_filter(&request.params["notifications"]);
        let meta = json!({ wire::META_SUBSCRIPTION: request.id });
        request.notify(
            "notifications/subscriptions/acknowledged",
            &json!({ "notifications": filter, "_meta": meta }),
        );
        lock(&self.listeners).push(ChangeListener {
            outlet: Arc::clone(&request.outlet),
            kind: ListenerKind::Subscription {
                session: request.session.key().to_owned(),
                id: request.id.clone(),
                filter,
            },
        });
        match self.behaviour.lists.end_listen_after_ms {
            None => RequestOutcome::Open,
            Some(limit) => {
                if request.wait(Duration::from_millis(limit)) {
                    return RequestOutcome::Done;
                }
                self.end_subscription(request.session.key(), &request.id);
                RequestOutcome::Result(json!({ "_meta": meta }))
            }
        }
    }

    /// Tells nothing more on the subscription that this request opened.
    pub(super) fn end_subscription(&self, key: &str, request: &Value) {
        lock(&self.listeners).retain(|listener| {
            !matches!(&listener.kind, ListenerKind::Subscription { session, id, .. } if session == key && id == request)
        });
    }

    /// Tells nothing more to a legacy client.
    pub fn remove_listener(&self, key: &str) {
        lock(&self.listeners).retain(
            |listener| !matches!(&listener.kind, ListenerKind::Legacy(session) if session.key() == key),
        );
    }
}

/// The part of a filter that this server honours: all of it that has a meaning.
fn accepted_filter(filter: &Value) -> Value {
    let known = [
        "toolsListChanged",
        "promptsListChanged",
        "resourcesListChanged",
        "resourceSubscriptions",
    ];
    known
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), filter.get(key)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

impl ChangeListener {
    /// What this listener is told of a change, if anything.
    fn notification(&self, change: &AnnouncedChange) -> Option<Value> {
        let wanted = match (&self.kind, change) {
            (ListenerKind::Legacy(session), AnnouncedChange::List(_)) => session.is_initialized(),
            (ListenerKind::Legacy(session), AnnouncedChange::Resource(uri)) => {
                lock(&session.subscribed).contains(*uri)
            }
            (ListenerKind::Subscription { filter, .. }, AnnouncedChange::List(list)) => {
                filter[format!("{list}ListChanged")] == true
            }
            (ListenerKind::Subscription { filter, .. }, AnnouncedChange::Resource(uri)) => {
                filter["resourceSubscriptions"]
                    .as_array()
                    .is_some_and(|uris| uris.iter().any(|subscribed| subscribed == uri))
            }
        };
        if !wanted {
            return None;
        }
        let mut params = json!({});
        if let AnnouncedChange::Resource(uri) = change {
            params["uri"] = json!(uri);
        }
        if let ListenerKind::Subscription { id, .. } = &self.kind {
            params["_meta"] = json!({ wire::META_SUBSCRIPTION: id });
        }
        let method = match change {
            AnnouncedChange::List(list) => format!("notifications/{list}/list_changed"),
            AnnouncedChange::Resource(_) => "notifications/resources/updated".to_owned(),
        };
        Some(wire::notification(&method, &params))
    }
}
