//! The event stream of a page: it says that something has changed, and the page reads itself again.

use std::{collections::BTreeMap, time::Duration};

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    actions::status_of,
    request::{CallOptions, PageRequest},
};
use crate::{
    api_types::{HubEventType, Time},
    auth::console_sessions::SESSION_IDLE,
    service::call::ReplyBody,
};

/// A page is not read again more often than this.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// A browser that has lost the stream asks for it again after so long.
const RETRY: &str = "retry: 1000\n\n";
/// More tenants are not listed in one message.
const MAX_TENANTS: usize = 50;
/// How often a stream looks whether its session has ended.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Follows the Hub's events, of one tenant if `tenant` names it. Several within half a second are one message.
pub(super) async fn follow(request: PageRequest) -> Response {
    let mut arguments = json!({});
    if let Some(tenant) = request.query("tenant") {
        arguments["tenant"] = tenant.into();
    }
    // A browser that opens the stream again says it in the header; another page that goes on with it, in the address.
    let after = request.headers.get("last-event-id");
    let after = after.and_then(|after| after.to_str().ok());
    let after = after.or_else(|| request.query("after"));
    let options = CallOptions {
        last_event_id: after.and_then(|after| after.parse().ok()),
        ..CallOptions::default()
    };
    let reply = match request.call("watch_events", arguments, options).await {
        Ok(reply) => reply,
        Err(problem) => return status_of(&problem).into_response(),
    };
    let ReplyBody::Events(events) = reply.body else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let changes = stream::unfold(events, |mut events| async move {
        let mut change = PageChange::new();
        change.add(&events.next().await?);
        if change.is_news {
            let more = async {
                while let Some(event) = events.next().await {
                    change.add(&event);
                }
            };
            let _ = tokio::time::timeout(MIN_INTERVAL, more).await;
        }
        Some((change.into_message(), events))
    });
    let first = stream::iter([Bytes::from_static(RETRY.as_bytes())]);
    let changes = first.chain(changes);
    let changes = changes.take_until(Box::pin(wait_for_session_end(request)));
    let body = changes.map(Ok::<Bytes, std::convert::Infallible>);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, axum::body::Body::from_stream(body)).into_response()
}

/// A stream ends with the session that it was opened in.
pub(super) async fn wait_for_session_end(request: PageRequest) {
    loop {
        tokio::time::sleep(SESSION_CHECK_INTERVAL).await;
        let idle_since = Time::now().before(SESSION_IDLE);
        let state = request.hub.state();
        let found = state.console_session(&request.signed_in.hash, idle_since);
        // If the database is unavailable, the session stays.
        if let Ok(None) = found.await {
            return;
        }
    }
}

/// What has happened since the last message.
#[derive(Default)]
struct PageChange {
    last_id: Option<u64>,
    is_news: bool,
    /// Runs that began to wait for an approval.
    waiting: u32,
    /// Runs that ended.
    ended: u32,
    /// The same for each tenant that something was about. `None`: for more than are listed, or for the whole Hub.
    tenants: Option<BTreeMap<String, TenantChangeCount>>,
}

/// What has happened to one tenant.
#[derive(Default, Serialize)]
struct TenantChangeCount {
    waiting: u32,
    ended: u32,
}

impl PageChange {
    fn new() -> Self {
        Self {
            tenants: Some(BTreeMap::new()),
            ..Self::default()
        }
    }

    fn add(&mut self, event: &[u8]) {
        let Ok(text) = std::str::from_utf8(event) else {
            return;
        };
        for line in text.lines() {
            if let Some(id) = line.strip_prefix("id:") {
                self.last_id = id.trim().parse().ok().or(self.last_id);
            }
            let Some(data) = line.strip_prefix("data:") else {
                continue;
            };
            self.is_news = true;
            let data: Value = serde_json::from_str(data.trim()).unwrap_or_default();
            let kind = data["type"].as_str().and_then(HubEventType::from_word);
            let waiting = u32::from(kind == Some(HubEventType::ApprovalWaiting));
            let ended = u32::from(kind == Some(HubEventType::RunEnded));
            self.waiting += waiting;
            self.ended += ended;
            let tenant = data["tenantId"].as_str();
            self.tenants = tenant
                .zip(self.tenants.take())
                .and_then(|(tenant, mut all)| {
                    let news = all.entry(tenant.to_owned()).or_default();
                    news.waiting += waiting;
                    news.ended += ended;
                    (all.len() <= MAX_TENANTS).then_some(all)
                });
        }
    }

    /// Without news, the position alone, or a sign of life.
    fn into_message(self) -> Bytes {
        let id = self.last_id.map(|id| format!("id: {id}\n"));
        let id = id.unwrap_or_default();
        let message = if self.is_news {
            let news =
                json!({"waiting": self.waiting, "ended": self.ended, "tenants": self.tenants});
            format!("{id}event: hub-change\ndata: {news}\n\n")
        } else if id.is_empty() {
            ": alive\n\n".to_owned()
        } else {
            format!("{id}\n")
        };
        message.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(events: &[&str]) -> String {
        let mut change = PageChange::new();
        for event in events {
            change.add(event.as_bytes());
        }
        String::from_utf8(change.into_message().to_vec()).unwrap()
    }

    #[test]
    fn several_events_are_one_message_with_what_is_announced() {
        let waiting = "id: 7\ndata: {\"type\":\"approval.waiting\",\"tenantId\":\"a\"}\n\n";
        let ended = "id: 8\ndata: {\"type\":\"run.ended\",\"tenantId\":\"b\"}\n\n";
        let other = "id: 9\ndata: {\"type\":\"tenant.changed\",\"tenantId\":\"a\"}\n\n";
        let news = |message: &str| -> Value {
            let (head, data) = message.split_once("data: ").unwrap();
            assert_eq!(head, "id: 9\nevent: hub-change\n");
            serde_json::from_str(data).unwrap()
        };
        let wanted = json!({"waiting": 1, "ended": 2, "tenants": {
            "a": {"waiting": 1, "ended": 0}, "b": {"waiting": 0, "ended": 2}}});
        assert_eq!(news(&message(&[waiting, ended, ended, other])), wanted);
        // What is about no tenant is about every page.
        let hub = "id: 9\ndata: {\"type\":\"other\"}\n\n";
        assert_eq!(news(&message(&[ended, hub]))["tenants"], Value::Null);
    }

    #[test]
    fn a_position_and_a_sign_of_life_are_no_news() {
        assert_eq!(message(&["id: 4\n\n"]), "id: 4\n\n");
        assert_eq!(message(&[": keepalive\n\n"]), ": alive\n\n");
    }
}
