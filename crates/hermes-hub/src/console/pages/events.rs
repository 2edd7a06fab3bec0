//! What happened in the Hub last: its stored events, newest first.

use std::collections::VecDeque;

use askama::Template;
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};

use super::{is_there, render};
use crate::{
    Problem,
    api_types::{HubEvent, HubEventType},
    console::{
        frame::Frame,
        request::{CallOptions, PageRequest},
    },
    service::call::ReplyBody,
};

/// Events that are looked at for those that fit.
const REACH: u64 = 500;
/// Events that are shown.
const MOST: u64 = 100;

#[derive(Template)]
#[template(path = "pages/events.html")]
struct EventsPage {
    page: Frame,
    events: Vec<EventView>,
    kinds: &'static [HubEventType],
    kind: String,
    tenant: String,
}

struct EventView {
    event: HubEvent,
    /// Its run, if it is about one.
    run: Option<String>,
    details: Vec<(String, String)>,
}

impl EventsPage {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references"
    )]
    fn is_kind(&self, kind: &HubEventType) -> bool {
        self.kind == kind.as_str()
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let mut arguments = json!({"follow": false, "after": first_event(&request).await?});
    for name in ["tenant", "type"] {
        if let Some(value) = request.query(name) {
            arguments[name] = Value::from(value);
        }
    }
    let reply = request
        .call("watch_events", arguments, CallOptions::default())
        .await?;
    // The last ones; none of the others is parsed.
    let most = usize::try_from(MOST).unwrap_or(usize::MAX);
    let mut last = VecDeque::with_capacity(most);
    if let ReplyBody::Events(mut lines) = reply.body {
        while let Some(line) = lines.next().await {
            if event_data(&line).is_none() {
                continue;
            }
            if last.len() == most {
                last.pop_front();
            }
            last.push_back(line);
        }
    }
    let shows_runs = is_there(&request, "/tenants/{tenant_id}/runs/{run_id}");
    let shown = last.iter().rev().filter_map(read_event).map(|event| {
        let mut shown = EventView::from(event);
        shown.run = shown.run.filter(|_| shows_runs);
        shown
    });
    render(&EventsPage {
        page: Frame::new(&request, request.texts.get("nav.events")),
        events: shown.collect(),
        kinds: HubEventType::ALL,
        kind: request.query("type").unwrap_or_default().to_owned(),
        tenant: request.query("tenant").unwrap_or_default().to_owned(),
    })
}

/// The stream begins by saying which event was the last one.
async fn first_event(request: &PageRequest) -> Result<u64, Problem> {
    let reply = request
        .call("watch_events", json!({}), CallOptions::default())
        .await?;
    let ReplyBody::Events(mut lines) = reply.body else {
        return Ok(0);
    };
    let first = lines.next().await.unwrap_or_default();
    let text = String::from_utf8_lossy(&first);
    let id = text.lines().find_map(|line| line.strip_prefix("id:"));
    let last: u64 = id.and_then(|id| id.trim().parse().ok()).unwrap_or(0);
    // Where every event is shown, no other is read.
    let is_filtered = ["tenant", "type"]
        .iter()
        .any(|name| request.query(name).is_some())
        || request.principal().tenants.is_some();
    Ok(last.saturating_sub(if is_filtered { REACH } else { MOST }))
}

fn read_event(lines: &Bytes) -> Option<HubEvent> {
    serde_json::from_str(event_data(lines)?).ok()
}

fn event_data(lines: &Bytes) -> Option<&str> {
    let text = std::str::from_utf8(lines).ok()?;
    text.lines().find_map(|line| line.strip_prefix("data:"))
}

impl From<HubEvent> for EventView {
    fn from(event: HubEvent) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let details = event.data.iter();
        let details = details.filter(|(name, value)| *name != "runId" && !value.is_null());
        Self {
            run: event.data.get("runId").map(text),
            details: details
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            event,
        }
    }
}
