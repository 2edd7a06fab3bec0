//! The caller of a turn: shows its events and stores its messages.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, ready};

use crate::{
    compact::{Compacted, CompactionMethod, CompactionReason, SummaryFailure},
    message::{Message, ToolCall},
    model::{AnsweredBy, ModelEvent, TextDelivery, TokenUsage},
    tools::tool::ToolOutput,
};

#[derive(Debug, Clone)]
pub enum TurnEvent {
    Model(ModelEvent),
    /// A call starts. For `tool_call`, this is the call inside it.
    CallStarted(ToolCall),
    /// A progress line of a call.
    CallProgress {
        id: Arc<str>,
        line: String,
    },
    CallEnded {
        call: ToolCall,
        output: ToolOutput,
        took: Duration,
    },
    /// The limit of model calls is reached: one last answer without tools follows.
    LimitReached,
    /// Compaction starts, which may take a while.
    Compacting(CompactionReason),
    Compacted {
        means: CompactionMethod,
        /// Its size before, in tokens.
        tokens_before: u64,
        tokens_after: u64,
    },
    /// The summary failed; old tool results are dropped instead.
    SummaryFailed(SummaryFailure),
}

/// Metadata of a message.
#[derive(Debug, Clone, Default)]
pub struct MessageDetail {
    /// The finish reason; `interrupted` if the user stopped it.
    pub finish: Option<String>,
    pub usage: Option<TokenUsage>,
    pub model: Option<String>,
    pub answered_by: Option<AnsweredBy>,
}

/// Shows and stores a turn.
pub trait Surface: Send {
    /// Shows something. Must not block.
    fn show(&mut self, event: TurnEvent);

    /// Whether text that was shown can be retracted. If not, a truncated reply is not requested
    /// again.
    fn shown_text(&self) -> TextDelivery {
        TextDelivery::Revocable
    }

    /// Stores a message before the turn continues.
    fn store_message<'a>(
        &'a mut self,
        message: &'a Message,
        detail: MessageDetail,
    ) -> BoxFuture<'a, Result<(), PersistError>>;

    /// Takes and stores what the user has said since the last request. The next request has it.
    fn take_user_messages(&mut self) -> BoxFuture<'_, Result<Vec<Message>, PersistError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Whether the conversation may be replaced now; not while another process does so. The lease lasts until
    /// [`Surface::end_replacement`].
    fn begin_replacement(&mut self) -> BoxFuture<'_, Result<bool, PersistError>> {
        Box::pin(ready(Ok(true)))
    }

    /// Replaces the stored conversation by the compacted one, atomically.
    fn replace_messages<'a>(
        &'a mut self,
        _old: &'a [Message],
        _new: &'a Compacted,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        Box::pin(ready(Ok(())))
    }

    /// Records a failed summary, so that other processes wait as well.
    fn record_summary_failure<'a>(
        &'a mut self,
        _failure: &'a SummaryFailure,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        Box::pin(ready(Ok(())))
    }

    fn end_replacement(&mut self) -> BoxFuture<'_, Result<(), PersistError>> {
        Box::pin(ready(Ok(())))
    }
}

/// A message could not be stored: continuing would lose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the conversation could not be stored: {0}")]
pub struct PersistError(pub String);
