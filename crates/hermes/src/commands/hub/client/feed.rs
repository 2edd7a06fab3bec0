//! The feed of a Hub's events, through connections that break.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use sse_stream::SseStream;

use super::{HubCall, HubClient, plain_text};
use crate::failure::{Failure, FailureKind};

/// Reconnects in a row that bring nothing.
const MAX_RECONNECTS: u32 = 60;
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Events that are shown as they come.
pub(crate) struct EventFeed<'h, 'c> {
    hub: &'h HubClient<'c>,
    call: HubCall,
    /// The last event that was seen, or that there was when the feed began.
    after: Option<u64>,
}

impl<'h, 'c> EventFeed<'h, 'c> {
    pub(crate) fn new(hub: &'h HubClient<'c>, call: HubCall, after: Option<u64>) -> Self {
        Self { hub, call, after }
    }

    /// Shows what is stored; with `follows`, goes on until it is interrupted.
    pub(crate) fn show(mut self, follows: bool) -> Result<(), Failure> {
        let hub = self.hub;
        hub.context().block_on(async {
            if !follows {
                self.call = self.call.clone().with("follow", false);
                return self.read_connection().await.map(drop);
            }
            self.follow().await
        })
    }

    async fn follow(&mut self) -> Result<(), Failure> {
        let mut attempts = 0;
        loop {
            match self.read_connection().await {
                Ok(true) => attempts = 0,
                Ok(false) => attempts += 1,
                Err(failure) if failure.kind == FailureKind::Unavailable => {
                    attempts += 1;
                    if attempts > MAX_RECONNECTS {
                        return Err(failure);
                    }
                }
                Err(failure) => return Err(failure),
            }
            if attempts > MAX_RECONNECTS {
                let message = "the Hub closes the stream of events at once";
                return Err(Failure::new(FailureKind::Unavailable, message));
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Shows the events of one connection, and says whether there was one.
    async fn read_connection(&mut self) -> Result<bool, Failure> {
        let call = self.call.clone().with_optional("after", self.after);
        let response = self.hub.send(&call.to_request()?).await?;
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        let mut has_event = false;
        while let Some(Ok(event)) = events.next().await {
            if let Some(id) = event.id.and_then(|id| id.parse().ok()) {
                self.after = Some(id);
            }
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            has_event = true;
            self.show_event(&data);
        }
        Ok(has_event)
    }

    fn show_event(&self, data: &str) {
        let output = self.hub.output();
        if output.is_json() {
            output.raw(&format!("{data}\n"));
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            return;
        };
        if event["event"] == "gap" {
            output.note("Earlier events have been deleted.");
            return;
        }
        let details = event["data"].as_object().into_iter().flatten();
        let details: Vec<String> = details
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| format!("{name}={}", plain_text(value)))
            .collect();
        output.line(format!(
            "{}  {}  {}  {}  {}",
            plain_text(&event["id"]),
            plain_text(&event["timestamp"]),
            plain_text(&event["type"]),
            plain_text(&event["tenantId"]),
            details.join(" ")
        ));
    }
}
