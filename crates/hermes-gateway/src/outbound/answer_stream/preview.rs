//! The task that shows a growing answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hermes_config::Platform;
use tokio_util::sync::CancellationToken;

use super::{
    AnswerPreview, AnswerRequest, SentPart,
    feed::{AnswerFeed, AnswerStep},
};
use crate::{
    outbound::{
        OutboxInner,
        budget::ChatBudget,
        outbound_chat,
        reply_plan::{message_limit, visible_text},
        stored_chunk::{address_to_json, message_nonce},
    },
    platform::{
        Button, ClientLimits, LivePreview, OutboundMessage, PostError, SharedClient, TaskState,
        TextFormat,
    },
    send::split_text,
};

/// An answer that is complete sooner than this is not shown before.
const FIRST_DELAY: Duration = Duration::from_millis(400);
/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Failures in a row after which the answer is shown no more until it is complete.
const MAX_FAILURES: u32 = 3;

pub(super) struct PreviewTask {
    outbox: Arc<OutboxInner>,
    request: AnswerRequest,
    feed: AnswerFeed,
    stop: CancellationToken,
    is_finishing: Arc<AtomicBool>,
    preview: AnswerPreview,
    way: PreviewMethod,
    format: TextFormat,
    failures: u32,
    /// The message of the platform's own preview that is remembered beyond a crash.
    recorded_native: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreviewMethod {
    /// Nothing was shown yet.
    Undecided,
    /// The platform's own.
    Native,
    Edits,
    /// It does not work: only the final message is sent.
    GivenUp,
}

impl PreviewTask {
    pub(super) fn new(
        outbox: Arc<OutboxInner>,
        request: AnswerRequest,
        feed: AnswerFeed,
        stop: CancellationToken,
        is_finishing: Arc<AtomicBool>,
    ) -> Self {
        Self {
            outbox,
            request,
            feed,
            stop,
            is_finishing,
            preview: AnswerPreview::default(),
            way: PreviewMethod::Undecided,
            format: TextFormat::Markdown,
            failures: 0,
            recorded_native: None,
        }
    }

    /// Shows the answer until it is complete or nobody wants it any more. Returns what shows it.
    pub(super) async fn run(mut self) -> AnswerPreview {
        self.find_earlier_messages().await;
        let mut is_first = true;
        while self.way != PreviewMethod::GivenUp {
            let feed = self.feed.clone();
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = feed.changed() => {}
            }
            if is_first && self.pause(FIRST_DELAY).await.is_err() {
                break;
            }
            is_first = false;
            if self.show_when_due().await.is_err() {
                break;
            }
        }
        self.stop.cancelled().await;
        if !self.is_finishing.load(Ordering::Acquire) {
            self.discard_native().await;
        }
        self.preview
    }

    /// Messages that showed this answer before a crash are used again.
    async fn find_earlier_messages(&mut self) {
        let key = &self.request.dedupe_key;
        match self.outbox.runtime.preview_messages(key).await {
            Ok(messages) if !messages.is_empty() => {
                let shown = |message_id| SentPart {
                    message_id,
                    text: String::new(),
                    has_stop: false,
                };
                self.preview.shown = messages.into_iter().map(shown).collect();
                self.way = PreviewMethod::Edits;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "earlier previews could not be read"),
        }
    }

    /// Waits for the chat's budget, then shows the newest. Errors with the platform are handled here.
    async fn show_when_due(&mut self) -> Result<(), EndOfPreview> {
        loop {
            let Some(client) = self.outbox.clients.get(&self.request.account) else {
                return Ok(());
            };
            let limits = client.limits();
            let budget = self.budget();
            let delay = budget.edit_delay(self.outbox.clock.monotonic(), self.interval(&limits));
            if !delay.is_zero() {
                self.pause(delay).await?;
                continue;
            }
            let permits = self.outbox.permits(&self.request.account).previews;
            let Ok(_permit) = permits.try_acquire_owned() else {
                self.pause(self.interval(&limits)).await?;
                continue;
            };
            let content = self.feed.take_snapshot();
            let text = visible_text(&content.text);
            if text.is_empty() && content.steps.is_empty() {
                return Ok(());
            }
            let shown = self.show(&client, &limits, text, &content.steps).await;
            budget.record_sent(self.outbox.clock.monotonic());
            return match shown {
                Ok(()) => {
                    self.failures = 0;
                    Ok(())
                }
                Err(error) => self.handle_error(&budget, error).await,
            };
        }
    }

    fn budget(&self) -> Arc<ChatBudget> {
        let now = self.outbox.clock.monotonic();
        let request = &self.request;
        self.outbox
            .budgets
            .get(&request.account, &request.chat.id, now)
    }

    fn interval(&self, limits: &ClientLimits) -> Duration {
        if self.request.chat.is_direct() {
            limits.edit_interval.0
        } else {
            limits.edit_interval.1
        }
    }

    async fn pause(&self, time: Duration) -> Result<(), EndOfPreview> {
        tokio::select! {
            () = self.outbox.clock.sleep(time) => Ok(()),
            () = self.stop.cancelled() => Err(EndOfPreview),
        }
    }

    async fn handle_error(
        &mut self,
        budget: &ChatBudget,
        error: PostError,
    ) -> Result<(), EndOfPreview> {
        tracing::debug!(account = %self.request.account, %error, "answer preview could not be shown");
        match error {
            PostError::RateLimited { wait } => {
                budget.block(self.outbox.clock.monotonic(), wait);
                // What could not be shown is shown with the next change, or is final by then.
            }
            PostError::Markup { .. } if self.format == TextFormat::Markdown => {
                self.format = TextFormat::Plain;
            }
            PostError::Unsupported if self.way == PreviewMethod::Native => {
                self.discard_native().await;
                self.way = PreviewMethod::Edits;
            }
            PostError::Temporary { .. } if self.failures + 1 < MAX_FAILURES => {
                self.failures += 1;
            }
            _ => {
                self.discard_native().await;
                self.way = PreviewMethod::GivenUp;
            }
        }
        Ok(())
    }

    async fn discard_native(&mut self) {
        if let Some(mut native) = self.preview.native.take() {
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, native.discard()).await;
            if self.recorded_native.take().is_some()
                && self.preview.shown.is_empty()
                && let Err(error) = self
                    .outbox
                    .runtime
                    .forget_preview(&self.request.dedupe_key)
                    .await
            {
                tracing::warn!(%error, "preview record could not be deleted");
            }
        }
    }

    async fn show(
        &mut self,
        client: &SharedClient,
        limits: &ClientLimits,
        text: String,
        steps: &[AnswerStep],
    ) -> Result<(), PostError> {
        let needs_native = self.way == PreviewMethod::Native && self.preview.native.is_none();
        if self.way == PreviewMethod::Undecided || needs_native {
            self.preview.native = self.open_native(client).await?;
            self.way = match self.preview.native {
                Some(_) => PreviewMethod::Native,
                None => PreviewMethod::Edits,
            };
        }
        match self.way {
            PreviewMethod::Native => self.show_natively(client, limits, &text, steps).await,
            PreviewMethod::Edits => {
                let text = with_step_line(text, steps);
                self.show_by_edits(client, limits, &text).await
            }
            PreviewMethod::Undecided | PreviewMethod::GivenUp => Ok(()),
        }
    }

    async fn open_native(
        &self,
        client: &SharedClient,
    ) -> Result<Option<Box<dyn LivePreview>>, PostError> {
        let event = self.request.event.as_ref();
        let opening = client.open_preview(&self.request.chat, event);
        match with_timeout(opening).await {
            Err(PostError::Unsupported) => Ok(None),
            opened => opened,
        }
    }

    async fn show_natively(
        &mut self,
        client: &SharedClient,
        limits: &ClientLimits,
        text: &str,
        steps: &[AnswerStep],
    ) -> Result<(), PostError> {
        self.record_native().await;
        for step in steps {
            if let Some(native) = &mut self.preview.native {
                with_timeout(native.update_task(&step.id, &step.title, step.state)).await?;
            }
        }
        let parts = split_parts(text, limits);
        // What has outgrown a message becomes one, and the preview goes on with the rest.
        while parts.len() > self.preview.shown.len() + 1 {
            let part = parts[self.preview.shown.len()].clone();
            let message = self.message(&part);
            let Some(native) = &mut self.preview.native else {
                return Ok(());
            };
            let posted = match with_timeout(native.finish(&message)).await? {
                Some(posted) => posted,
                None => with_timeout(client.post(&self.request.chat, &message)).await?,
            };
            self.preview.native = None;
            self.record_shown(posted.message_id, part).await;
            self.preview.native = self.open_native(client).await?;
            if self.preview.native.is_none() {
                self.way = PreviewMethod::Edits;
                return Ok(());
            }
            self.record_native().await;
        }
        match (
            parts.get(self.preview.shown.len()),
            &mut self.preview.native,
        ) {
            (Some(part), Some(native)) => with_timeout(native.update(part)).await,
            _ => Ok(()),
        }
    }

    async fn show_by_edits(
        &mut self,
        client: &SharedClient,
        limits: &ClientLimits,
        text: &str,
    ) -> Result<(), PostError> {
        let parts = split_parts(text, limits);
        let last = parts.len().saturating_sub(1);
        for (index, part) in parts.into_iter().enumerate() {
            let mut message = self.message(&part);
            let has_stop = index == last && has_stop_button(self.request.account.platform);
            if has_stop {
                message.buttons = vec![vec![Button::stop()]];
            }
            match self.preview.shown.get_mut(index) {
                Some(shown) if shown.text == part && shown.has_stop == has_stop => {}
                Some(shown) => {
                    message.reply_to = None;
                    let edit = client.edit(&self.request.chat, &shown.message_id, &message);
                    with_timeout(edit).await?;
                    shown.text = part;
                    shown.has_stop = has_stop;
                }
                None => {
                    let posted = with_timeout(client.post(&self.request.chat, &message)).await?;
                    self.record_shown(posted.message_id, part).await;
                    if let Some(shown) = self.preview.shown.last_mut() {
                        shown.has_stop = has_stop;
                    }
                }
            }
        }
        Ok(())
    }

    fn message(&self, text: &str) -> OutboundMessage {
        let is_first = self.preview.shown.is_empty();
        OutboundMessage {
            text: text.to_owned(),
            format: self.format,
            reply_to: self.request.reply_to.clone().filter(|_| is_first),
            // The answer has the same: a preview that no process remembers becomes the answer all the same.
            nonce: Some(message_nonce(
                &self.request.dedupe_key,
                self.preview.shown.len() + 1,
            )),
            ..OutboundMessage::default()
        }
    }

    /// Remembers a message beyond a crash, so that the answer takes its place then, too.
    async fn record_shown(&mut self, message_id: String, text: String) {
        if self.recorded_native.as_ref() != Some(&message_id) {
            self.record_message(&message_id).await;
        }
        self.preview.shown.push(SentPart {
            message_id,
            text,
            has_stop: false,
        });
    }

    /// The same for the platform's own preview, if that is a message.
    async fn record_native(&mut self) {
        let native = self.preview.native.as_ref();
        let message_id = native.and_then(|native| native.message_id());
        if let Some(message_id) = message_id.map(str::to_owned)
            && self.recorded_native.as_ref() != Some(&message_id)
        {
            self.record_message(&message_id).await;
            self.recorded_native = Some(message_id);
        }
    }

    async fn record_message(&self, message_id: &str) {
        let request = &self.request;
        let recorded = self
            .outbox
            .runtime
            .record_preview(
                &outbound_chat(&request.account, &request.chat.id),
                &address_to_json(&request.chat),
                &request.dedupe_key,
                self.preview.shown.len() + 1,
                message_id,
            )
            .await;
        if let Err(error) = recorded {
            tracing::warn!(%error, "preview could not be recorded");
        }
    }
}

/// The answer is complete, or nobody wants it any more.
struct EndOfPreview;

/// Where a growing answer gets a button that stops it. The others have a sign of their own for that, or `/stop`.
fn has_stop_button(platform: Platform) -> bool {
    platform == Platform::Discord
}

fn split_parts(text: &str, limits: &ClientLimits) -> Vec<String> {
    match text {
        "" => Vec::new(),
        text => split_text(text, &message_limit(limits)),
    }
}

/// The text with a line for the step that goes on.
fn with_step_line(mut text: String, steps: &[AnswerStep]) -> String {
    let running = steps
        .iter()
        .rev()
        .find(|step| step.state == TaskState::InProgress);
    if let Some(step) = running {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str("⚙ ");
        text.push_str(&step.title);
        text.push('…');
    }
    text
}

async fn with_timeout<T>(
    request: impl Future<Output = Result<T, PostError>>,
) -> Result<T, PostError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(reply) => reply,
        Err(_) => Err(PostError::Temporary {
            reason: format!("no reply within {} s", REQUEST_TIMEOUT.as_secs()),
        }),
    }
}
