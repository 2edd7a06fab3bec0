//! Stores the messages of a turn as they arrive, counts its usage, and passes events on to the display.

use std::time::Duration;

use futures::future::BoxFuture;
use hermes_store::{SessionId, Store, StoreError};

use super::{compaction::Replacement, record};
use crate::{
    compact::{Compacted, SummaryFailure},
    message::Message,
    model::{AnsweredBy, ModelEvent, Selection, ShownText, Usage},
    turn::{KeepError, MessageDetail, Surface, TurnEvent},
};

pub trait Display: Send {
    /// Shows something. Must not block.
    fn show(&mut self, event: TurnEvent);

    /// Whether text that was shown can be retracted.
    fn shown_text(&self) -> ShownText {
        ShownText::Revocable
    }
}

impl<F: FnMut(TurnEvent) + Send> Display for F {
    fn show(&mut self, event: TurnEvent) {
        self(event);
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Tokens, as far as providers reported them.
    pub usage: Usage,
    pub model_calls: u32,
    pub answered_by: Option<AnsweredBy>,
    /// Tool calls, in the order in which they ended.
    pub tool_calls: Vec<CallReport>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallReport {
    pub id: String,
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    pub is_error: bool,
    pub took: Duration,
}

pub(super) struct Keeper<'a> {
    display: &'a mut dyn Display,
    store: &'a Store,
    session: &'a SessionId,
    /// Used where a reply does not name its model.
    main: AnsweredBy,
    /// Model and provider of the fallback that was already announced.
    told: Option<(String, String)>,
    text: String,
    tally: Tally,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(
        display: &'a mut dyn Display,
        store: &'a Store,
        session: &'a SessionId,
        selection: &Selection,
    ) -> Self {
        let stored = selection.stored();
        Self {
            display,
            store,
            session,
            main: AnsweredBy {
                model: stored.model,
                provider: stored.provider.unwrap_or_default(),
                base_url: stored.base_url.unwrap_or_default(),
            },
            told: None,
            text: String::new(),
            tally: Tally::default(),
        }
    }

    /// The last text and the usage of the turn.
    pub(super) fn finish(self) -> (String, Tally) {
        (self.text, self.tally)
    }

    fn replacement(&self) -> Replacement<'a> {
        Replacement {
            store: self.store,
            session: self.session,
        }
    }

    async fn store(&mut self, message: &Message, detail: MessageDetail) -> Result<(), KeepError> {
        let row = record::row(message, &detail);
        self.store
            .append(self.session, &row)
            .await
            .map_err(not_kept)?;
        let Message::Assistant(answer) = message else {
            return Ok(());
        };
        self.text = answer.content.text().into_owned();
        self.tally.model_calls += 1;
        let usage = detail.usage.unwrap_or_default();
        self.tally.usage += usage;
        let by = detail.answered_by.as_ref().unwrap_or(&self.main);
        let usage = hermes_store::Usage {
            billing_provider: Some(by.provider.clone()),
            billing_base_url: Some(by.base_url.clone()).filter(|address| !address.contains('@')),
            ..stored_usage(usage)
        };
        let recorded = self
            .store
            .record_usage(self.session, &by.model, None, &usage)
            .await;
        if let Err(error) = recorded {
            // The message is stored; a missing count must not fail the turn.
            tracing::warn!(%error, "recording the usage of a turn failed");
        }
        if detail.answered_by.is_some() {
            self.tally.answered_by = detail.answered_by;
        }
        Ok(())
    }
}

/// One request as the store counts it.
pub(super) fn stored_usage(usage: Usage) -> hermes_store::Usage {
    let number = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
    hermes_store::Usage {
        api_calls: 1,
        input_tokens: number(usage.input_tokens),
        output_tokens: number(usage.output_tokens),
        cache_read_tokens: number(usage.cache_read_tokens),
        cache_write_tokens: number(usage.cache_write_tokens),
        reasoning_tokens: number(usage.reasoning_tokens),
        ..hermes_store::Usage::default()
    }
}

impl Surface for Keeper<'_> {
    fn show(&mut self, event: TurnEvent) {
        match &event {
            TurnEvent::Model(ModelEvent::FellBack {
                model, provider, ..
            }) => self.told = Some((model.clone(), provider.clone())),
            TurnEvent::Model(ModelEvent::StandsIn { model, provider }) => {
                let stands_in = Some((model.clone(), provider.clone()));
                if self.told == stands_in {
                    // Once a turn is enough.
                    return;
                }
                self.told = stands_in;
            }
            TurnEvent::CallEnded { call, output, took } => {
                self.tally.tool_calls.push(CallReport {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    is_error: output.is_error,
                    took: *took,
                });
            }
            _ => {}
        }
        self.display.show(event);
    }

    fn shown_text(&self) -> ShownText {
        self.display.shown_text()
    }

    fn keep<'a>(
        &'a mut self,
        message: &'a Message,
        detail: MessageDetail,
    ) -> BoxFuture<'a, Result<(), KeepError>> {
        Box::pin(self.store(message, detail))
    }

    fn begin_replacing(&mut self) -> BoxFuture<'_, Result<bool, KeepError>> {
        let replacement = self.replacement();
        Box::pin(async move { replacement.begin().await.map_err(not_kept) })
    }

    fn replace<'a>(
        &'a mut self,
        old: &'a [Message],
        new: &'a Compacted,
    ) -> BoxFuture<'a, Result<(), KeepError>> {
        let replacement = self.replacement();
        Box::pin(async move { replacement.replace(old, new).await.map_err(not_kept) })
    }

    fn keep_failure<'a>(
        &'a mut self,
        failure: &'a SummaryFailure,
    ) -> BoxFuture<'a, Result<(), KeepError>> {
        let replacement = self.replacement();
        Box::pin(async move { replacement.keep_failure(failure).await.map_err(not_kept) })
    }

    fn end_replacing(&mut self) -> BoxFuture<'_, Result<(), KeepError>> {
        let replacement = self.replacement();
        Box::pin(async move { replacement.end().await.map_err(not_kept) })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn not_kept(error: StoreError) -> KeepError {
    KeepError(error.to_string())
}
