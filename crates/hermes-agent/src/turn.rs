//! One turn: the model is asked, its calls are run, and so on until it answers without a call.
//!
//! The turn does not persist anything. Every message is handed to the [`Surface`] that called it, which stores it
//! before the turn goes on, and every event is shown there.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;

use crate::{
    message::{Message, ToolCall},
    model::{Model, ModelError, ModelEvent, ModelRequest, ShownText, ToolChoice, Usage},
    tool::{ToolContext, ToolOutput},
    toolbox::Toolbox,
};

mod calls;
mod oversize;
mod repetition;

pub use oversize::{Persisted, SizeLimits};
use repetition::Repetition;

/// What limits a turn.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Calls of the model in one turn.
    pub max_model_calls: u32,
    /// How large results may be.
    pub sizes: SizeLimits,
    /// What repeated failures lead to.
    pub on_repetition: OnRepetition,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_model_calls: 90,
            sizes: SizeLimits::default(),
            on_repetition: OnRepetition::Note,
        }
    }
}

/// What repeated failures lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRepetition {
    /// The model is told.
    Note,
    /// The turn ends.
    Stop,
}

/// Something to show.
#[derive(Debug, Clone)]
pub enum TurnEvent {
    /// What arrives from the model.
    Model(ModelEvent),
    /// A call begins.
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
}

/// What belongs to a message besides its content.
#[derive(Debug, Clone, Default)]
pub struct MessageDetail {
    /// Why the model stopped.
    pub finish: Option<String>,
    /// What the request cost.
    pub usage: Option<Usage>,
    /// The model that wrote it.
    pub model: Option<String>,
}

/// Where a turn is shown and kept.
pub trait Surface: Send {
    /// Shows something. Must not block.
    fn show(&mut self, event: TurnEvent);

    /// Stores a message before the turn goes on.
    fn keep<'a>(
        &'a mut self,
        message: &'a Message,
        detail: MessageDetail,
    ) -> BoxFuture<'a, Result<(), KeepError>>;
}

/// A message could not be stored: going on would lose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the conversation could not be stored: {0}")]
pub struct KeepError(pub String);

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model answered.
    Answered,
    /// At the limit of model calls; the last answer was made without tools.
    OutOfCalls,
    /// The user stopped it. The history is valid.
    Interrupted,
    /// The same failure again and again.
    Repeating,
}

/// Why a turn failed. What was stored before stays valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The store failed.
    #[error(transparent)]
    Keep(#[from] KeepError),
}

/// A turn about to run.
pub struct Turn<'a> {
    /// Who answers.
    pub model: &'a dyn Model,
    /// What it may call.
    pub toolbox: &'a Toolbox,
    /// How far it may go.
    pub limits: &'a Limits,
    /// What every call is surrounded by; its `cancel` ends the turn.
    pub context: &'a ToolContext,
    /// Passed on to the model.
    pub reasoning_effort: Option<&'a str>,
}

impl Turn<'_> {
    /// Runs the turn. `messages` begins with the system prompt and ends with the user's message; what comes of the
    /// turn is appended.
    pub async fn run(
        &self,
        messages: &mut Vec<Message>,
        surface: &mut dyn Surface,
    ) -> Result<TurnEnd, TurnError> {
        let definitions = self.toolbox.definitions();
        let mut repetition = Repetition::default();
        for round in 0..=self.limits.max_model_calls {
            let is_last = round == self.limits.max_model_calls;
            if is_last {
                surface.show(TurnEvent::LimitReached);
            }
            let request = ModelRequest {
                messages,
                tools: &definitions,
                tool_choice: if is_last {
                    ToolChoice::None
                } else {
                    ToolChoice::Auto
                },
                reasoning_effort: self.reasoning_effort,
                shown_text: ShownText::Revocable,
                ..ModelRequest::default()
            };
            let mut sink = |event| surface.show(TurnEvent::Model(event));
            let reply = tokio::select! {
                biased;
                () = self.context.cancel.cancelled() => return Ok(TurnEnd::Interrupted),
                reply = self.model.complete(&request, &mut sink) => reply?,
            };
            let detail = MessageDetail {
                finish: Some(reply.finish.as_str().to_owned()),
                usage: reply.usage,
                model: Some(reply.model.clone()),
            };
            let message = reply.into_message();
            surface.keep(&message, detail).await?;
            let calls = message.tool_calls().to_vec();
            messages.push(message);
            if calls.is_empty() {
                return Ok(if is_last {
                    TurnEnd::OutOfCalls
                } else {
                    TurnEnd::Answered
                });
            }
            let outputs = calls::run(self, &calls, surface).await;
            let notes = repetition.look_at(&calls, &outputs);
            let outputs = oversize::shrink(outputs, &self.limits.sizes, self.context).await;
            for (index, (call, output)) in calls.iter().zip(outputs).enumerate() {
                let text = match notes.get(index).and_then(Option::as_ref) {
                    Some(note) => format!("{}\n\n{note}", output.text),
                    None => output.text,
                };
                let result = Message::tool(call, text);
                surface.keep(&result, MessageDetail::default()).await?;
                messages.push(result);
            }
            if self.context.cancel.is_cancelled() {
                return Ok(TurnEnd::Interrupted);
            }
            if repetition.is_stuck() && self.limits.on_repetition == OnRepetition::Stop {
                return Ok(TurnEnd::Repeating);
            }
        }
        Ok(TurnEnd::OutOfCalls)
    }
}
