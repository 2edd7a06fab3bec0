//! The event stream of a page: it says that something has changed, and the page reads itself again.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{StatusCode, header};
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
/// How often a stream looks whether its session has ended.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Follows the Hub's events, of one tenant if `tenant` names it. Several within half a second are one message.
pub(super) async fn follow(request: PageRequest) -> Response {
    let mut arguments = json!({});
    if let Some(tenant) = request.query("tenant") {
        arguments["tenant"] = tenant.into();
    }
    let after = request.headers.get("last-event-id");
    let options = CallOptions {
        last_event_id: after.and_then(|after| after.to_str().ok()?.parse().ok()),
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
        let mut change = PageChange::default();
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
}

impl PageChange {
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
            match data["type"].as_str().and_then(HubEventType::from_word) {
                Some(HubEventType::ApprovalWaiting) => self.waiting += 1,
                Some(HubEventType::RunEnded) => self.ended += 1,
                _ => {}
            }
        }
    }

    /// Without news, the position alone, or a sign of life.
    fn into_message(self) -> Bytes {
        let id = self.last_id.map(|id| format!("id: {id}\n"));
        let id = id.unwrap_or_default();
        let (waiting, ended) = (self.waiting, self.ended);
        let message = if self.is_news {
            format!("{id}event: hub-change\ndata: {{\"waiting\":{waiting},\"ended\":{ended}}}\n\n")
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
        let mut change = PageChange::default();
        for event in events {
            change.add(event.as_bytes());
        }
        String::from_utf8(change.into_message().to_vec()).unwrap()
    }

    #[test]
    fn several_events_are_one_message_with_what_is_announced() {
        let waiting = "id: 7\ndata: {\"type\":\"approval.waiting\"}\n\n";
        let ended = "id: 8\ndata: {\"type\":\"run.ended\"}\n\n";
        let other = "id: 9\ndata: {\"type\":\"tenant.changed\"}\n\n";
        assert_eq!(
            message(&[waiting, ended, ended, other]),
            "id: 9\nevent: hub-change\ndata: {\"waiting\":1,\"ended\":2}\n\n"
        );
    }

    #[test]
    fn a_position_and_a_sign_of_life_are_no_news() {
        assert_eq!(message(&["id: 4\n\n"]), "id: 4\n\n");
        assert_eq!(message(&[": keepalive\n\n"]), ": alive\n\n");
    }
}
