//! Following the events of a run until it ends, through connections that break.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use sse_stream::SseStream;

use super::{HubCall, HubClient};
use crate::{
    failure::{Failure, FailureKind},
    output::{Tone, printable},
};

/// Maximum number of reconnects in a row.
const MAX_RECONNECTS: u32 = 5;
/// Delay before a reconnect.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// A run that is watched.
pub(crate) struct RunWatcher<'h, 'c> {
    hub: &'h HubClient<'c>,
    tenant: String,
    run: String,
    /// The last event that was seen.
    after: u64,
    /// Whether anything of the answer was printed.
    has_text: bool,
    /// Whether the last thing printed is text without a line end.
    is_within_text: bool,
}

/// How a run ended.
enum RunEnding {
    Completed,
    Failed(String),
    Cancelled,
}

impl<'h, 'c> RunWatcher<'h, 'c> {
    pub(crate) fn new(hub: &'h HubClient<'c>, tenant: &str, run: &str, after: u64) -> Self {
        Self {
            hub,
            tenant: tenant.to_owned(),
            run: run.to_owned(),
            after,
            has_text: false,
            is_within_text: false,
        }
    }

    /// Shows the events to the end: text as it comes, with `--json` one event in each line.
    pub(crate) fn follow(mut self) -> Result<(), Failure> {
        let hub = self.hub;
        let ending = hub
            .context()
            .block_on(async { self.watch_until_end().await })?;
        self.end_line();
        match ending {
            RunEnding::Completed => Ok(()),
            RunEnding::Cancelled => Err(self.run_failure("the run was cancelled".into())),
            RunEnding::Failed(reason) => Err(self.run_failure(format!("the run failed: {reason}"))),
        }
    }

    fn run_failure(&self, message: String) -> Failure {
        let failure = Failure::failed(message);
        // The last event has said it.
        if self.hub.output().is_json() {
            return failure.mark_printed();
        }
        failure
    }

    async fn watch_until_end(&mut self) -> Result<RunEnding, Failure> {
        let mut attempts = 0;
        loop {
            let before = self.after;
            match self.follow_connection().await {
                Ok(Some(ending)) => return Ok(ending),
                Err(failure)
                    if failure.kind != FailureKind::Unavailable || attempts >= MAX_RECONNECTS =>
                {
                    return Err(failure);
                }
                Ok(None) | Err(_) => {}
            }
            attempts = if self.after > before { 0 } else { attempts + 1 };
            if attempts > MAX_RECONNECTS {
                let message = "the Hub closed the stream before the run ended";
                return Err(Failure::new(FailureKind::Unavailable, message)
                    .hint("`hermes tenant watch` continues it"));
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Follows one connection. None if it ended before the run did.
    async fn follow_connection(&mut self) -> Result<Option<RunEnding>, Failure> {
        let call = HubCall::new("watch_run")
            .with("tenant_id", self.tenant.clone())
            .with("run_id", self.run.clone())
            .with("after", self.after);
        let response = self.hub.send(&call.to_request()?).await?;
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(Ok(event)) = events.next().await {
            let Some(data) = event.data else { continue };
            let Ok(event) = serde_json::from_str::<Value>(&data) else {
                continue;
            };
            if let Some(id) = event.get("id").and_then(Value::as_u64) {
                self.after = id;
            }
            if self.hub.output().is_json() {
                self.hub.output().raw(&format!("{data}\n"));
            } else {
                self.show(&event);
            }
            if let Some(ending) = parse_ending(&event) {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    fn show(&mut self, event: &Value) {
        let output = self.hub.output();
        let text =
            |name: &str| printable(event.get(name).and_then(Value::as_str).unwrap_or_default());
        match event
            .get("event")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "message.delta" => {
                let delta = text("delta");
                self.has_text = true;
                self.is_within_text = !delta.ends_with('\n');
                output.stream(&delta);
            }
            "tool.started" => {
                let shown = format!("· {} {}", text("tool"), text("preview"));
                self.note(&shown);
            }
            "approval.request" => {
                let what = [text("description"), text("command"), text("tool")];
                let what = what
                    .into_iter()
                    .find(|text| !text.is_empty())
                    .unwrap_or_default();
                self.note(&format!("? waiting for a decision: {what}"));
                let page = event.pointer("/form/url").and_then(Value::as_str);
                if let Some(page) = page {
                    self.note(&format!("  page to open: {}", printable(page)));
                }
                let how = if page.is_some() {
                    "says that it was opened, `--deny` declines it"
                } else if event["form"].is_null() {
                    "allows it, `--deny` denies it"
                } else {
                    "with `--content JSON` fills it in, `--deny` declines it"
                };
                self.note(&format!(
                    "  `hermes tenant approve {} {}` {how}",
                    self.tenant, self.run
                ));
            }
            "run.requeued" => self.note("· retrying"),
            "gap" => self.note("· earlier events have been deleted"),
            // A run whose text did not come in pieces has it here.
            "run.completed" if !self.has_text => output.line(text("output")),
            _ => {}
        }
    }

    fn note(&mut self, text: &str) {
        self.end_line();
        let output = self.hub.output();
        output.note(output.tint(Tone::Faint, text));
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_within_text) {
            self.hub.output().line("");
        }
    }
}

fn parse_ending(event: &Value) -> Option<RunEnding> {
    match event.get("event")?.as_str()? {
        "run.completed" => Some(RunEnding::Completed),
        "run.cancelled" => Some(RunEnding::Cancelled),
        "run.failed" => {
            let reason = event
                .pointer("/error/message")
                .or_else(|| event.get("error"));
            let reason = reason
                .and_then(Value::as_str)
                .unwrap_or("it gave no reason");
            Some(RunEnding::Failed(printable(reason).into_owned()))
        }
        _ => None,
    }
}
