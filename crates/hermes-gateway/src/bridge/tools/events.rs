//! `events_poll` and `events_wait`.

use std::time::Duration;

use rmcp::{RoleServer, model::ProgressNotificationParam, service::RequestContext};
use serde_json::json;
use tokio::time::Instant;

use crate::bridge::{
    Bridge,
    arguments::Arguments,
    connection::EventStart,
    envelope::{JsonDocument, ToolRefusal},
    events::{Cursor, EventError, EventPage},
};

/// How often progress is reported while waiting.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

pub(super) async fn events_poll(
    bridge: &Bridge,
    beginning: &EventStart,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let after = resolve_cursor(bridge, beginning, arguments).await?;
    let feed = bridge.feed().await;
    let key = arguments.optional("session_key");
    let page = feed.poll(after, key, arguments.count("limit")).await;
    let page = page.map_err(|error| events_unavailable(&error))?;
    let next = page.events.last().map_or(after, |event| event.cursor);
    Ok(json!({
        "events": page.events,
        "next_cursor": next,
        "oldest_cursor": page.oldest,
        "last_cursor": page.last,
        "dropped": page.dropped,
    })
    .into())
}

pub(super) async fn events_wait(
    bridge: &Bridge,
    beginning: &EventStart,
    arguments: &Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<JsonDocument, ToolRefusal> {
    let Some(_place) = bridge.acquire_wait_permit() else {
        return Err(ToolRefusal::new("Too many calls of events_wait are open"));
    };
    let timeout = u64::try_from(arguments.integer("timeout_ms")).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_millis(timeout);
    let after = resolve_cursor(bridge, beginning, arguments).await?;
    let feed = bridge.feed().await;
    let key = arguments.optional("session_key");
    let in_time = async {
        if timeout == 0 {
            return None;
        }
        tokio::select! {
            page = feed.wait(after, key) => Some(page),
            () = tokio::time::sleep_until(deadline) => None,
            // The client has cancelled, or disconnected.
            () = context.ct.cancelled() => None,
            () = report_progress(context, timeout) => None,
        }
    };
    let page = match in_time.await {
        Some(page) => page,
        // Includes the bounds of the log.
        None => feed.poll(after, key, 1).await,
    };
    page.map(page_document)
        .map_err(|error| events_unavailable(&error))
}

fn page_document(page: EventPage) -> JsonDocument {
    let mut answer = match page.events.into_iter().next() {
        Some(event) => json!({"event": event}),
        None => json!({"event": null, "reason": "timeout"}),
    };
    answer["oldest_cursor"] = json!(page.oldest);
    answer["last_cursor"] = json!(page.last);
    answer["dropped"] = json!(page.dropped);
    answer.into()
}

/// Reports progress to a client that requested it. Never ends.
async fn report_progress(context: &RequestContext<RoleServer>, timeout_ms: u64) {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let began = Instant::now();
    #[expect(clippy::cast_precision_loss, reason = "five minutes at most")]
    let total = timeout_ms as f64 / 1000.0;
    loop {
        tokio::time::sleep(PROGRESS_INTERVAL).await;
        let progress = ProgressNotificationParam::new(token.clone(), began.elapsed().as_secs_f64())
            .with_total(total)
            .with_message("waiting for an event");
        if context.peer.notify_progress(progress).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The requested cursor; 0 means the start of the connection.
async fn resolve_cursor(
    bridge: &Bridge,
    beginning: &EventStart,
    arguments: &Arguments,
) -> Result<Cursor, ToolRefusal> {
    match u64::try_from(arguments.integer("after_cursor")) {
        Ok(0) | Err(_) => {
            let cursor = beginning.cursor(bridge).await;
            cursor.map_err(|error| events_unavailable(&error))
        }
        Ok(cursor) => Ok(Cursor(cursor)),
    }
}

fn events_unavailable(error: &EventError) -> ToolRefusal {
    ToolRefusal::new(format!("Events unavailable: {error}"))
}
