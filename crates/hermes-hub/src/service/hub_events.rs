//! The feed of what happens in the Hub. A watcher reads only the store, so that a replay is the same as what was sent
//! live, and one that is slow holds nobody up.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

use crate::{
    Hub, Problem, TenantId,
    api_types::{HubEvent, HubEventType},
    auth::Caller,
    service::call::{Call, Reply, ReplyBody},
    storage::state::HubEventQuery,
};

const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Another node may have stored something, and its notice may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
const PAGE: u32 = 200;
const MAX_TYPES: usize = 32;

/// A filter of events.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchEvents {
    /// Only events of this tenant.
    tenant: Option<TenantId>,
    /// Only events of these types, such as `run.ended,approval.waiting`.
    r#type: Option<String>,
    /// Begins after this event; 0 is the oldest one that is kept. If absent, `Last-Event-ID`, else with what happens from
    /// now on.
    after: Option<u64>,
    /// Whether the stream goes on after the stored events; true if absent.
    follow: Option<bool>,
}

/// A stream of events.
struct FeedWatcher {
    hub: Hub,
    query: HubEventQuery,
    notice: watch::Receiver<u64>,
    waiting: VecDeque<Bytes>,
    follows: bool,
    /// How long nothing was sent.
    silence: Duration,
    has_ended: bool,
}

pub(crate) async fn watch(call: Call, input: WatchEvents) -> Result<Reply, Problem> {
    let kinds = parse_types(input.r#type.as_deref())?;
    let state = call.hub.state();
    // Before the look: what is stored meanwhile wakes the watcher.
    let notice = state.hub_event_notice();
    let range = state.hub_event_range().await?;
    let follows = input.follow.unwrap_or(true);
    let after = match input.after.or(call.last_event_id) {
        Some(after) => after,
        None if follows => range.last,
        None => 0,
    };
    let mut waiting = VecDeque::new();
    if follows && input.after.or(call.last_event_id).is_none() {
        // Who loses the connection before the first event resumes after this one.
        waiting.push_back(Bytes::from(format!("id: {after}\n\n")));
    }
    // Events that were deleted are between the last one it saw and the oldest that is kept.
    let oldest = range.oldest.unwrap_or(range.last + 1);
    if after + 1 < oldest && after < range.last {
        let data = json!({"event": "gap", "oldest": oldest});
        waiting.push_back(Bytes::from(format!("data: {data}\n\n")));
    }
    let watcher = FeedWatcher {
        query: HubEventQuery {
            // An id of the future comes from another Hub, or from one that was restored.
            after: after.min(range.last),
            kinds,
            tenant: input.tenant,
            only: call.principal().visible_tenants(),
        },
        hub: call.hub.clone(),
        notice,
        waiting,
        follows,
        silence: Duration::ZERO,
        has_ended: false,
    };
    let lines = stream::unfold(watcher, |mut watcher| async move {
        let line = watcher.next_line().await?;
        Some((line, watcher))
    });
    let stream = lines.take_until(Box::pin(stream_end(call.hub.clone(), call.caller.clone())));
    Ok(Reply {
        status: 200,
        etag: None,
        body: ReplyBody::Events(stream.boxed()),
    })
}

/// The stream ends with the token or the Hub.
async fn stream_end(hub: Hub, caller: Caller) {
    tokio::select! {
        () = hub.authenticator().wait_for_token_end(Some(&caller)) => {}
        () = hub.shutdown().cancelled() => {}
    }
}

impl FeedWatcher {
    async fn next_line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.waiting.pop_front() {
                self.silence = Duration::ZERO;
                return Some(line);
            }
            if self.has_ended {
                return None;
            }
            self.notice.mark_unchanged();
            match self.hub.state().hub_events(&self.query, PAGE).await {
                Ok(events) if !events.is_empty() => {
                    self.query.after = events.last().map_or(self.query.after, |last| last.id);
                    self.waiting.extend(events.iter().map(event_line));
                    continue;
                }
                Ok(_) if self.follows => {}
                Ok(_) => self.end(),
                Err(error) => {
                    tracing::warn!(%error, "event stream closed: reading events failed");
                    self.end();
                }
            }
            if self.has_ended {
                continue;
            }
            if self.silence >= KEEPALIVE_INTERVAL {
                self.waiting
                    .push_back(Bytes::from_static(b": keepalive\n\n"));
                continue;
            }
            tokio::select! {
                // A sender that is gone means that the Hub is, which ends the stream.
                _ = self.notice.changed() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => self.silence += POLL_INTERVAL,
            }
        }
    }

    fn end(&mut self) {
        self.waiting
            .push_back(Bytes::from_static(b": stream closed\n\n"));
        self.has_ended = true;
    }
}

fn event_line(event: &HubEvent) -> Bytes {
    let data = serde_json::to_string(event).unwrap_or_default();
    Bytes::from(format!("id: {}\ndata: {data}\n\n", event.id))
}

fn parse_types(text: Option<&str>) -> Result<Vec<HubEventType>, Problem> {
    let words = text.unwrap_or_default().split(',').map(str::trim);
    let kinds: Option<Vec<_>> = words
        .filter(|word| !word.is_empty())
        .map(HubEventType::from_word)
        .collect();
    kinds
        .filter(|kinds| kinds.len() <= MAX_TYPES)
        .ok_or_else(|| {
            let known: Vec<_> = HubEventType::ALL
                .iter()
                .map(|kind| format!("`{kind}`"))
                .collect();
            Problem::invalid(format!("`type` is one or more of {}", known.join(", ")))
                .with_detail("type", "unknown")
        })
}
