//! One turn: the model replies, its calls are run, and so on until it answers without a call.
//!
//! The turn does not persist anything. Every message is passed to the caller's [`Surface`], which stores it
//! before the turn continues, and shows every event.

use std::{sync::Arc, time::Duration};

use hermes_config::sync::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::{
    compact,
    compact::{CompactionOutcome, CompactionReason, Compactor},
    message::{Image, KnownPart, Message, Part, ToolCall},
    model::{Model, ModelError, ModelEvent, ModelProblem, ModelReply, ModelRequest, ToolChoice},
    tools::{tool::ToolContext, toolbox, toolbox::Toolbox},
};

mod calls;
mod client_tools;
mod compaction;
mod repetition;
mod result_budget;
mod surface;
mod trace;

use calls::CallBatch;
use client_tools::ToolOffer;
pub use client_tools::{ClientToolChoice, ClientTools};
pub use compaction::compact_and_store;
use repetition::RepetitionDetector;
pub use surface::{MessageDetail, PersistError, Surface, TurnEvent};

use crate::turn::result_budget::ResultBudget;
pub use crate::turn::result_budget::{PersistedResult, ResultSizeLimits};

#[derive(Debug, Clone)]
pub struct TurnLimits {
    /// Model calls in one turn.
    pub max_model_calls: u32,
    pub sizes: ResultSizeLimits,
    pub on_repetition: OnRepetition,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            max_model_calls: 90,
            sizes: ResultSizeLimits::default(),
            on_repetition: OnRepetition::Note,
        }
    }
}

/// What happens when the model repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRepetition {
    Note,
    Stop,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    Answered,
    /// The limit of model calls was reached; the last answer was made without tools.
    OutOfCalls,
    /// Interrupted by the user. The history is valid.
    Interrupted,
    RepetitionStopped,
    /// The model called tools of the client. They have no results yet.
    ClientCalls,
}

/// Why a turn failed. Messages stored before stay valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Persist(#[from] PersistError),
}

pub struct Turn<'a> {
    pub model: &'a dyn Model,
    pub toolbox: &'a Toolbox,
    pub limits: &'a TurnLimits,
    /// The context of every call; its `cancel` ends the turn.
    pub context: &'a ToolContext,
    pub reasoning_effort: Option<&'a str>,
    /// Tools that the client runs itself.
    pub client_tools: Option<&'a ClientTools>,
    /// Compacts the conversation when needed.
    pub compactor: Option<&'a Compactor>,
}

enum ModelCallOutcome {
    Reply(Box<ModelReply>),
    /// The user interrupted it after this text.
    Interrupted(String),
}

/// The tokens of the context when the provider last counted.
#[derive(Debug, Clone, Copy)]
struct TokenCount {
    tokens: u64,
    messages: usize,
}

impl Turn<'_> {
    /// Runs the turn. `messages` begins with the system prompt and ends with the user's message; the messages of the
    /// turn are appended.
    pub async fn run(
        &self,
        messages: &mut Vec<Message>,
        surface: &mut dyn Surface,
    ) -> Result<TurnEnd, TurnError> {
        let span = trace::turn_span(self.model, &self.context.session);
        let end = self
            .run_rounds(messages, surface)
            .instrument(span.clone())
            .await;
        trace::record_turn_end(&span, &end);
        end
    }

    async fn run_rounds(
        &self,
        messages: &mut Vec<Message>,
        surface: &mut dyn Surface,
    ) -> Result<TurnEnd, TurnError> {
        let mut repetition = RepetitionDetector::default();
        let mut counted = None;
        for round in 0..=self.limits.max_model_calls {
            let is_last = round == self.limits.max_model_calls;
            if is_last {
                surface.show(TurnEvent::LimitReached);
            }
            let own = self.toolbox.definitions();
            let mut offer = client_tools::build_offer(own, self.client_tools, round == 0);
            if is_last {
                offer.choice = ToolChoice::None;
            }
            let said = surface.take_user_messages();
            match self.context.cancel.run_until_cancelled(said).await {
                Some(said) => messages.extend(said?),
                None => return Ok(TurnEnd::Interrupted),
            }
            if self
                .compact_if_needed(messages, &mut counted, surface)
                .await?
                == CompactionOutcome::Interrupted
            {
                return Ok(TurnEnd::Interrupted);
            }
            let reply = match self
                .request_with_compaction(messages, &offer, surface)
                .await?
            {
                ModelCallOutcome::Reply(reply) => *reply,
                ModelCallOutcome::Interrupted(text) => {
                    store_partial(text, messages, surface).await?;
                    return Ok(TurnEnd::Interrupted);
                }
            };
            let reply = if is_last {
                without_calls(reply, self.limits.max_model_calls)
            } else {
                reply
            };
            let usage = reply.usage;
            let detail = MessageDetail {
                finish: Some(reply.finish.as_str().to_owned()),
                usage,
                model: Some(reply.model.clone()),
                answered_by: reply.answered_by.clone(),
            };
            let message = reply.into_message();
            surface.store_message(&message, detail).await?;
            let is_clients =
                |call: &ToolCall| self.client_tools.is_some_and(|tools| tools.owns_call(call));
            let (client_calls, calls): (Vec<_>, Vec<_>) =
                message.tool_calls().iter().cloned().partition(is_clients);
            messages.push(message);
            counted = usage.map(|usage| TokenCount {
                tokens: usage.total_tokens(),
                messages: messages.len(),
            });
            if calls.is_empty() && client_calls.is_empty() {
                return Ok(if is_last {
                    TurnEnd::OutOfCalls
                } else {
                    TurnEnd::Answered
                });
            }
            let is_stuck = self
                .run_calls(&calls, &mut repetition, messages, surface)
                .await?;
            if self.context.cancel.is_cancelled() {
                return Ok(TurnEnd::Interrupted);
            }
            if !client_calls.is_empty() {
                return Ok(TurnEnd::ClientCalls);
            }
            if is_stuck && self.limits.on_repetition == OnRepetition::Stop {
                return Ok(TurnEnd::RepetitionStopped);
            }
        }
        Ok(TurnEnd::OutOfCalls)
    }

    /// Compacts the conversation if it has grown too long.
    async fn compact_if_needed(
        &self,
        messages: &mut Vec<Message>,
        counted: &mut Option<TokenCount>,
        surface: &mut dyn Surface,
    ) -> Result<CompactionOutcome, PersistError> {
        let tools = self.toolbox.definitions();
        let Some(compactor) = self.compactor else {
            return Ok(CompactionOutcome::Nothing);
        };
        let known = counted.and_then(|counted| {
            let since = messages.get(counted.messages..)?;
            Some(counted.tokens + compact::estimate_tokens(since, &[]))
        });
        let size = known.unwrap_or_else(|| compact::estimate_tokens(messages, tools));
        if !compactor.is_due(size) {
            return Ok(CompactionOutcome::Nothing);
        }
        let cancel = &self.context.cancel;
        let why = (CompactionReason::Full, known);
        let ran = compact_and_store(compactor, messages, tools, why, surface, cancel).await?;
        if ran == CompactionOutcome::Compacted {
            *counted = None;
        }
        Ok(ran)
    }

    /// Requests a reply, and once more after compaction if the conversation is too long for the model.
    async fn request_with_compaction(
        &self,
        messages: &mut Vec<Message>,
        offer: &ToolOffer<'_>,
        surface: &mut dyn Surface,
    ) -> Result<ModelCallOutcome, TurnError> {
        let error = match self.request_reply(messages, offer, surface).await {
            Err(error) if error.is_context_overflow() => error,
            other => return Ok(other?),
        };
        let compactor = self.compactor.filter(|compactor| compactor.is_automatic());
        let (Some(compactor), ModelProblem::ContextOverflow { limit, .. }) =
            (compactor, &error.problem)
        else {
            return Err(error.into());
        };
        let tools = self.toolbox.definitions();
        let size = compact::estimate_tokens(messages, tools);
        let why = (CompactionReason::Overflow { limit: *limit }, Some(size));
        let cancel = &self.context.cancel;
        match compact_and_store(compactor, messages, tools, why, surface, cancel).await? {
            CompactionOutcome::Compacted => {
                Ok(self.request_reply(messages, offer, surface).await?)
            }
            CompactionOutcome::Nothing => Err(error.into()),
            CompactionOutcome::Interrupted => Ok(ModelCallOutcome::Interrupted(String::new())),
        }
    }

    async fn request_reply(
        &self,
        messages: &[Message],
        offer: &ToolOffer<'_>,
        surface: &mut dyn Surface,
    ) -> Result<ModelCallOutcome, ModelError> {
        let request = ModelRequest {
            messages,
            tools: &offer.tools,
            tool_choice: offer.choice,
            reasoning_effort: self.reasoning_effort,
            shown_text: surface.shown_text(),
            ..ModelRequest::default()
        };
        let mut shown = String::new();
        let mut sink = |event| {
            match &event {
                ModelEvent::TextDelta(text) => shown.push_str(text),
                ModelEvent::TextRetracted => shown.clear(),
                _ => {}
            }
            surface.show(TurnEvent::Model(event));
        };
        let span = trace::request_span(self.model);
        let completing = self
            .model
            .complete(&request, &mut sink)
            .instrument(span.clone());
        let reply = tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => None,
            reply = completing => {
                trace::record_reply(&span, &reply);
                Some(Box::new(reply?))
            }
        };
        Ok(reply.map_or(
            ModelCallOutcome::Interrupted(shown),
            ModelCallOutcome::Reply,
        ))
    }

    /// Runs the calls of one message; results are stored before the next calls start. Returns whether the model
    /// repeats itself.
    async fn run_calls(
        &self,
        calls: &[ToolCall],
        repetition: &mut RepetitionDetector,
        messages: &mut Vec<Message>,
        surface: &mut dyn Surface,
    ) -> Result<bool, PersistError> {
        let mut batch = CallBatch::new(self, calls);
        let mut budget = ResultBudget::new(&self.limits.sizes);
        let mut is_stuck = false;
        for segment in batch.segments() {
            let mut outputs = batch.run(segment.clone(), surface).await;
            let notes = repetition.check_results(batch.resolved_calls(segment.clone()), &outputs);
            is_stuck |= notes.iter().any(Option::is_some);
            let calls = &calls[segment];
            budget.fit_results(calls, &mut outputs, self.context).await;
            for ((call, output), note) in calls.iter().zip(outputs).zip(notes) {
                let mut text = match output.untrusted_source {
                    Some(source) => toolbox::wrap_untrusted(&source, output.text),
                    None => output.text,
                };
                if let Some(note) = note {
                    text.push_str("\n\n");
                    text.push_str(&note);
                }
                // The stored message names the image files; the images themselves stay in memory.
                let result = Message::tool(call, text.as_str());
                surface
                    .store_message(&result, MessageDetail::default())
                    .await?;
                messages.push(
                    if output.images.is_empty() || !self.model.supports_images() {
                        result
                    } else {
                        Message::tool(call, with_images(text, output.images))
                    },
                );
            }
        }
        Ok(is_stuck)
    }
}

fn with_images(text: String, images: Vec<Image>) -> Vec<Part> {
    let images = images.into_iter();
    let images = images.map(|image_url| Part::Known(KnownPart::ImageUrl { image_url }));
    std::iter::once(Part::from_text(text))
        .chain(images)
        .collect()
}

/// Stores the shown part of an interrupted answer: the next message may refer to it.
async fn store_partial(
    text: String,
    messages: &mut Vec<Message>,
    surface: &mut dyn Surface,
) -> Result<(), PersistError> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let message = Message::assistant(text);
    let detail = MessageDetail {
        finish: Some("interrupted".into()),
        ..MessageDetail::default()
    };
    surface.store_message(&message, detail).await?;
    messages.push(message);
    Ok(())
}

/// Some models call tools although they must not. At the end of a turn such calls are removed.
fn without_calls(mut reply: ModelReply, limit: u32) -> ModelReply {
    reply.tool_calls.clear();
    if reply.text.trim().is_empty() {
        reply.text =
            format!("The limit of {limit} model calls was reached before there was an answer.");
    }
    reply
}

/// The time of the last activity. Clones share it.
#[derive(Debug, Clone)]
pub struct Activity(Arc<Mutex<Instant>>);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Activity {
    pub fn touch(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Resolves after this long without activity; never without a limit.
    pub async fn wait_for_idle(&self, timeout: Option<Duration>) {
        let Some(timeout) = timeout else {
            return std::future::pending().await;
        };
        loop {
            let last = *self.0.lock();
            let end = last + timeout;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}
