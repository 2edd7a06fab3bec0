//! Stores the messages of a turn as they arrive, counts its usage, and passes events on to the display.

use std::time::Duration;

use futures::future::{BoxFuture, ready};
use hermes_store::{ActiveRows, MessageId, NewMessage, SessionId, Store, StoreError};

use super::compaction::HistoryReplacement;
use crate::{
    compact::{Compacted, SummaryFailure},
    conversation::storage::message_rows,
    message::{Content, Message},
    model::{AnsweredBy, ModelEvent, Selection, TextDelivery, TokenUsage},
    turn::{MessageDetail, PersistError, Surface, TurnEvent},
};

pub trait TurnDisplay: Send {
    /// Shows something. Must not block.
    fn show(&mut self, event: TurnEvent);

    /// Whether text that was shown can be retracted.
    fn shown_text(&self) -> TextDelivery {
        TextDelivery::Revocable
    }

    /// Takes what the user has said since the last request of the turn. It is stored before the next one.
    fn take_user_messages(&mut self) -> BoxFuture<'_, Vec<SteeringMessage>> {
        Box::pin(ready(Vec::new()))
    }
}

/// A message of the user that reaches the model within the turn that goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct SteeringMessage {
    pub content: Content,
    /// Told to the model before it, and not shown to people.
    pub note: Option<String>,
    pub platform_message_id: Option<String>,
}

impl<F: FnMut(TurnEvent) + Send> TurnDisplay for F {
    fn show(&mut self, event: TurnEvent) {
        self(event);
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnUsage {
    /// Tokens, as far as providers reported them.
    pub tokens: TokenUsage,
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

pub(crate) struct TurnRecorder<'a> {
    display: &'a mut dyn TurnDisplay,
    store: &'a Store,
    session: &'a SessionId,
    /// Used where a reply does not name its model.
    main_model: AnsweredBy,
    /// Model and provider of the fallback that was already announced.
    announced_fallback: Option<(String, String)>,
    text: String,
    usage: TurnUsage,
    /// The rows of the conversation; `None` after they were replaced.
    rows: Option<ActiveRows>,
}

impl<'a> TurnRecorder<'a> {
    pub(crate) fn new(
        display: &'a mut dyn TurnDisplay,
        store: &'a Store,
        session: &'a SessionId,
        selection: &Selection,
    ) -> Self {
        let stored = selection.stored();
        Self {
            display,
            store,
            session,
            main_model: AnsweredBy {
                model: stored.model,
                provider: stored.provider.unwrap_or_default(),
                base_url: stored.base_url.unwrap_or_default(),
            },
            announced_fallback: None,
            text: String::new(),
            usage: TurnUsage::default(),
            rows: None,
        }
    }

    /// Counts the rows of the turn after these.
    pub(crate) fn after_rows(mut self, rows: Option<ActiveRows>) -> Self {
        self.rows = rows;
        self
    }

    /// The rows of the conversation now; `None` if they were replaced.
    pub(crate) fn rows(&self) -> Option<ActiveRows> {
        self.rows
    }

    fn add_rows(&mut self, ids: impl IntoIterator<Item = MessageId>) {
        if let Some(rows) = &mut self.rows {
            rows.add(ids);
        }
    }

    /// The last text and the usage of the turn.
    pub(crate) fn finish(self) -> (String, TurnUsage) {
        (self.text, self.usage)
    }

    fn replacement(&self) -> HistoryReplacement<'a> {
        HistoryReplacement {
            store: self.store,
            session: self.session,
        }
    }

    async fn store_user_messages(&mut self) -> Result<Vec<Message>, PersistError> {
        let taken = self.display.take_user_messages().await;
        let (rows, messages): (Vec<NewMessage>, Vec<Message>) = taken
            .into_iter()
            .map(|taken| {
                let note = taken.note.unwrap_or_default();
                let (row, content) = message_rows::user_row(&taken.content, &note);
                let row = NewMessage {
                    platform_message_id: taken.platform_message_id,
                    ..row
                };
                (row, Message::User { content })
            })
            .unzip();
        let stored = self.store.append_all(self.session, &rows).await;
        self.add_rows(stored.map_err(persist_error)?);
        Ok(messages)
    }

    async fn store_row(
        &mut self,
        message: &Message,
        detail: MessageDetail,
    ) -> Result<(), PersistError> {
        let row = message_rows::message_to_row(message, &detail);
        let stored = self.store.append(self.session, &row).await;
        self.add_rows([stored.map_err(persist_error)?]);
        let Message::Assistant(answer) = message else {
            return Ok(());
        };
        self.text = answer.content.text().into_owned();
        self.usage.model_calls += 1;
        let usage = detail.usage.unwrap_or_default();
        self.usage.tokens += usage;
        let by = detail.answered_by.as_ref().unwrap_or(&self.main_model);
        let usage = hermes_store::SessionUsage {
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
            tracing::warn!(%error, "failed to record the usage of a turn");
        }
        if detail.answered_by.is_some() {
            self.usage.answered_by = detail.answered_by;
        }
        Ok(())
    }
}

/// One request as the store counts it.
pub(crate) fn stored_usage(usage: TokenUsage) -> hermes_store::SessionUsage {
    let number = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
    hermes_store::SessionUsage {
        api_calls: 1,
        input_tokens: number(usage.input_tokens),
        output_tokens: number(usage.output_tokens),
        cache_read_tokens: number(usage.cache_read_tokens),
        cache_write_tokens: number(usage.cache_write_tokens),
        reasoning_tokens: number(usage.reasoning_tokens),
        ..hermes_store::SessionUsage::default()
    }
}

impl Surface for TurnRecorder<'_> {
    fn show(&mut self, event: TurnEvent) {
        match &event {
            TurnEvent::Model(ModelEvent::FallbackStarted {
                model, provider, ..
            }) => self.announced_fallback = Some((model.clone(), provider.clone())),
            TurnEvent::Model(ModelEvent::FallbackActive { model, provider }) => {
                let stands_in = Some((model.clone(), provider.clone()));
                if self.announced_fallback == stands_in {
                    // Once a turn is enough.
                    return;
                }
                self.announced_fallback = stands_in;
            }
            TurnEvent::CallEnded { call, output, took } => {
                self.usage.tool_calls.push(CallReport {
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

    fn shown_text(&self) -> TextDelivery {
        self.display.shown_text()
    }

    fn store_message<'a>(
        &'a mut self,
        message: &'a Message,
        detail: MessageDetail,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        Box::pin(self.store_row(message, detail))
    }

    fn take_user_messages(&mut self) -> BoxFuture<'_, Result<Vec<Message>, PersistError>> {
        Box::pin(self.store_user_messages())
    }

    fn begin_replacement(&mut self) -> BoxFuture<'_, Result<bool, PersistError>> {
        let replacement = self.replacement();
        Box::pin(async move { replacement.acquire_lease().await.map_err(persist_error) })
    }

    fn replace_messages<'a>(
        &'a mut self,
        old: &'a [Message],
        new: &'a Compacted,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        self.rows = None;
        let replacement = self.replacement();
        Box::pin(async move { replacement.replace(old, new).await.map_err(persist_error) })
    }

    fn record_summary_failure<'a>(
        &'a mut self,
        failure: &'a SummaryFailure,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        let replacement = self.replacement();
        Box::pin(async move {
            replacement
                .record_failure(failure)
                .await
                .map_err(persist_error)
        })
    }

    fn end_replacement(&mut self) -> BoxFuture<'_, Result<(), PersistError>> {
        let replacement = self.replacement();
        Box::pin(async move { replacement.release_lease().await.map_err(persist_error) })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn persist_error(error: StoreError) -> PersistError {
    PersistError(error.to_string())
}
