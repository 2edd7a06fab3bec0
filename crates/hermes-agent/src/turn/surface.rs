//! Where a turn is shown and kept, and what it has to show.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, ready};

use crate::{
    compact::{Compacted, Means, Reason, SummaryFailure},
    message::{Message, ToolCall},
    model::{AnsweredBy, ModelEvent, ShownText, Usage},
    tool::ToolOutput,
};

/// Something to show.
#[derive(Debug, Clone)]
pub enum TurnEvent {
    /// What arrives from the model.
    Model(ModelEvent),
    /// A call begins. Where a tool stands for another one, this is the other.
    CallStarted(ToolCall),
    /// A call says how far it is.
    CallProgress {
        /// Its id.
        id: Arc<str>,
        /// A line.
        line: String,
    },
    /// A call has ended.
    CallEnded {
        /// The call.
        call: ToolCall,
        /// What it returned.
        output: ToolOutput,
        /// How long it took.
        took: Duration,
    },
    /// The limit of model calls is reached: one last answer without tools.
    LimitReached,
    /// The conversation is about to be made shorter, which may take a while.
    Compacting(Reason),
    /// The conversation was made shorter.
    Compacted {
        /// How.
        means: Means,
        /// Its size before, in tokens.
        tokens_before: u64,
        /// Its size now.
        tokens_after: u64,
    },
    /// There is no summary of the conversation; old tool results go instead.
    SummaryFailed(SummaryFailure),
}

/// What belongs to a message besides its content.
#[derive(Debug, Clone, Default)]
pub struct MessageDetail {
    /// Why the model stopped; `interrupted` where the user stopped it.
    pub finish: Option<String>,
    /// What the request cost.
    pub usage: Option<Usage>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Who was asked for it.
    pub answered_by: Option<AnsweredBy>,
}

/// Where a turn is shown and kept.
pub trait Surface: Send {
    /// Shows something. Must not block.
    fn show(&mut self, event: TurnEvent);

    /// Whether text that was shown can be taken back. Where it can not, an answer that breaks off is not asked for
    /// again.
    fn shown_text(&self) -> ShownText {
        ShownText::Revocable
    }

    /// Stores a message before the turn goes on.
    fn keep<'a>(
        &'a mut self,
        message: &'a Message,
        detail: MessageDetail,
    ) -> BoxFuture<'a, Result<(), KeepError>>;

    /// Tells whether the conversation may be replaced now; not while another process does so. The right lasts until
    /// [`Surface::end_replacing`].
    fn begin_replacing(&mut self) -> BoxFuture<'_, Result<bool, KeepError>> {
        Box::pin(ready(Ok(true)))
    }

    /// Stores a shorter conversation in the place of the old one, all at once.
    fn replace<'a>(
        &'a mut self,
        _old: &'a [Message],
        _new: &'a Compacted,
    ) -> BoxFuture<'a, Result<(), KeepError>> {
        Box::pin(ready(Ok(())))
    }

    /// Remembers that there was no summary, so that other processes wait as well.
    fn keep_failure<'a>(
        &'a mut self,
        _failure: &'a SummaryFailure,
    ) -> BoxFuture<'a, Result<(), KeepError>> {
        Box::pin(ready(Ok(())))
    }

    /// Others may replace the conversation again.
    fn end_replacing(&mut self) -> BoxFuture<'_, Result<(), KeepError>> {
        Box::pin(ready(Ok(())))
    }
}

/// A message could not be stored: going on would lose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the conversation could not be stored: {0}")]
pub struct KeepError(pub String);
