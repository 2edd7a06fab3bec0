//! Who counts the runs that begin in chats, and may refuse them: nobody, or the Hub of a tenant.
//!
//! A run is counted before it starts. What it used is told when it has ended, by what the store has of it, so that what a
//! process could not tell any more is told by the next one.

use std::time::Duration;

use futures::future::BoxFuture;
use hermes_protocol::{ChatRunUse, TokenUsage};
use hermes_store::{
    StoreError,
    runtime::{Run, RuntimeStore},
};
use serde_json::Value;

use super::{LiveRun, RunSource, RunsInner};

/// Counts runs of chats. What it is told twice counts once.
pub trait RunMeter: Send + Sync + 'static {
    /// Counts a run that is about to start.
    fn begin<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), MeterError>>;

    /// Runs that have begun, and whose use was not told.
    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<String>, MeterError>>;

    /// Takes what a run used that has ended.
    fn end<'a>(
        &'a self,
        run: &'a str,
        used: &'a ChatRunUse,
    ) -> BoxFuture<'a, Result<(), MeterError>>;
}

#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    /// It may not start. The message is for the people of the chat.
    #[error("{message}")]
    Refused { message: String },
    /// Nobody counts at the moment.
    #[error("{reason}")]
    Unavailable { reason: String },
}

/// The pauses between attempts to tell what runs used. They are short, since a gateway that stops waits for them; after
/// the last one it is left to the next run.
const REPORT_PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];
const EVENTS_AT_ONCE: u32 = 1000;

#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Meter(#[from] MeterError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RunsInner {
    /// Counts a run of a chat, where somebody does that. Those of clients are counted by whoever sends them.
    pub(super) async fn count_run(&self, live: &LiveRun) -> Result<(), MeterError> {
        match &self.parts.meter {
            Some(meter) if live.source == RunSource::Platform => meter.begin(&live.id).await,
            _ => Ok(()),
        }
    }

    /// Tells what ended runs of chats used, if somebody counts.
    pub(super) async fn report_chat_runs(&self) {
        if self.parts.meter.is_none() {
            return;
        }
        for pause in REPORT_PAUSES {
            match self.report_once().await {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "failed to report the usage of a run"),
            }
            if self
                .stop
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return;
            }
        }
    }

    async fn report_once(&self) -> Result<(), ReportError> {
        let Some(meter) = &self.parts.meter else {
            return Ok(());
        };
        for id in meter.open_runs().await? {
            if self.lock_live().contains_key(&id) {
                continue;
            }
            let used = read_use(&self.parts.store, &id).await?;
            meter.end(&id, &used).await?;
        }
        Ok(())
    }
}

/// What a run used; nothing if it was never stored.
async fn read_use(store: &RuntimeStore, id: &str) -> Result<ChatRunUse, StoreError> {
    let Some(run) = store.run(id).await? else {
        return Ok(ChatRunUse::default());
    };
    let mut used = tokens_of(&run);
    let mut last = 0;
    loop {
        let events = store.run_events_after(id, last, EVENTS_AT_ONCE).await?;
        let Some(newest) = events.last() else {
            return Ok(used);
        };
        last = newest.seq;
        for event in &events {
            match event.body.get("event").and_then(Value::as_str) {
                Some("tool.started") => used.tool_calls += 1,
                Some("run.completed" | "run.failed" | "run.cancelled") => {
                    let model = event.body.get("model").and_then(Value::as_str);
                    used.model = model.map(str::to_owned);
                }
                _ => {}
            }
        }
    }
}

fn tokens_of(run: &Run) -> ChatRunUse {
    let usage = run.usage.clone();
    let usage: Option<TokenUsage> = usage.and_then(|usage| serde_json::from_value(usage).ok());
    let Some(usage) = usage else {
        return ChatRunUse::default();
    };
    ChatRunUse {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        total_tokens: usage.total_tokens,
        cached_tokens: usage.cached_tokens,
        ..ChatRunUse::default()
    }
}
