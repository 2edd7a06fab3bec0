//! Who hears of changes: legacy clients on their stream, stateless ones on the subscriptions they opened.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::request::{Answer, Request, Session};
use super::{Outlet, Script, lock};
use crate::wire;

/// A client that is notified of changes.
pub(super) struct Listener {
    outlet: Arc<dyn Outlet>,
    kind: Kind,
}

enum Kind {
    /// Hears of everything once the handshake is done.
    Legacy(Arc<Session>),
    /// Hears of what the accepted filter names.
    Subscription {
        session: String,
        id: Value,
        filter: Value,
    },
}

/// Something worth a notification.
enum Change<'a> {
    List(&'a str),
    Resource(&'a str),
}

impl Script {
    /// Lets a legacy client hear of changes on this outlet.
    pub fn add_listener(&self, session: &Arc<Session>, outlet: Arc<dyn Outlet>) {
        lock(&self.listeners).push(Listener {
            outlet,
            kind: Kind::Legacy(Arc::clone(session)),
        });
    }

    /// Tells everybody that the list of `tools`, `resources` or `prompts` is another one.
    pub(super) fn announce(&self, list: &str) {
        self.tell(&Change::List(list));
    }

    /// Tells subscribers that a resource has new contents.
    pub(super) fn announce_resource(&self, uri: &str) {
        self.tell(&Change::Resource(uri));
    }

    fn tell(&self, change: &Change) {
        lock(&self.listeners).retain(|listener| match listener.notification(change) {
            Some(notification) => listener.outlet.send(&notification),
            None => true,
        });
    }

    pub(super) fn listen(&self, request: &Request) -> Answer {
        let filter = accepted(&request.params["notifications"]);
        let meta = json!({ wire::META_SUBSCRIPTION: request.id });
        request.notify(
            "notifications/subscriptions/acknowledged",
            &json!({ "notifications": filter, "_meta": meta }),
        );
        lock(&self.listeners).push(Listener {
            outlet: Arc::clone(&request.outlet),
            kind: Kind::Subscription {
                session: request.session.key().to_owned(),
                id: request.id.clone(),
                filter,
            },
        });
        match self.behaviour.lists.end_listen_after_ms {
            None => Answer::Open,
            Some(limit) => {
                if request.wait(Duration::from_millis(limit)) {
                    return Answer::Done;
                }
                self.end_subscription(request.session.key(), &request.id);
                Answer::Result(json!({ "_meta": meta }))
            }
        }
    }

    /// Tells nothing more on the subscription that this request opened.
    pub(super) fn end_subscription(&self, key: &str, request: &Value) {
        lock(&self.listeners).retain(|listener| {
            !matches!(&listener.kind, Kind::Subscription { session, id, .. } if session == key && id == request)
        });
    }

    /// Tells nothing more to a legacy client.
    pub fn remove_listener(&self, key: &str) {
        lock(&self.listeners).retain(
            |listener| !matches!(&listener.kind, Kind::Legacy(session) if session.key() == key),
        );
    }
}

/// The part of a filter that this server honours: all of it that has a meaning.
fn accepted(filter: &Value) -> Value {
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

impl Listener {
    /// What this listener is told of a change, if anything.
    fn notification(&self, change: &Change) -> Option<Value> {
        let wanted = match (&self.kind, change) {
            (Kind::Legacy(session), Change::List(_)) => session.is_initialized(),
            (Kind::Legacy(session), Change::Resource(uri)) => {
                lock(&session.subscribed).contains(*uri)
            }
            (Kind::Subscription { filter, .. }, Change::List(list)) => {
                filter[format!("{list}ListChanged")] == true
            }
            (Kind::Subscription { filter, .. }, Change::Resource(uri)) => {
                filter["resourceSubscriptions"]
                    .as_array()
                    .is_some_and(|uris| uris.iter().any(|subscribed| subscribed == uri))
            }
        };
        if !wanted {
            return None;
        }
        let mut params = json!({});
        if let Change::Resource(uri) = change {
            params["uri"] = json!(uri);
        }
        if let Kind::Subscription { id, .. } = &self.kind {
            params["_meta"] = json!({ wire::META_SUBSCRIPTION: id });
        }
        let method = match change {
            Change::List(list) => format!("notifications/{list}/list_changed"),
            Change::Resource(_) => "notifications/resources/updated".to_owned(),
        };
        Some(wire::notification(&method, &params))
    }
}
