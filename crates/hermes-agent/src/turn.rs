//! One turn: the model replies, its calls are run, and so on until it answers without a call.
//!
//! The turn does not persist anything. Every message is passed to the caller's [`Surface`], which stores it
//! before the turn continues, and shows every event.

use crate::{
    compact::{self, Compactor, Ran, Reason},
    message::{Image, KnownPart, Message, Part, ToolCall},
    model::{Model, ModelError, ModelEvent, ModelRequest, Problem, Reply, ToolChoice},
    tool::ToolContext,
    toolbox::{self, Toolbox},
};

mod activity;
mod calls;
mod client_tools;
mod oversize;
mod repetition;
mod surface;

pub use activity::Activity;
use calls::Batch;
use client_tools::Offer;
pub use client_tools::{ClientToolChoice, ClientTools};
use oversize::Room;
pub use oversize::{Persisted, SizeLimits};
use repetition::Repetition;
pub use surface::{KeepError, MessageDetail, Surface, TurnEvent};

#[derive(Debug, Clone)]
pub struct Limits {
    /// Model calls in one turn.
    pub max_model_calls: u32,
    pub sizes: SizeLimits,
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
    Repeating,
    /// The model called tools of the client. They have no results yet.
    ClientCalls,
}

/// Why a turn failed. Messages stored before stay valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Keep(#[from] KeepError),
}

pub struct Turn<'a> {
    pub model: &'a dyn Model,
    pub toolbox: &'a Toolbox,
    pub limits: &'a Limits,
    /// The context of every call; its `cancel` ends the turn.
    pub context: &'a ToolContext,
    pub reasoning_effort: Option<&'a str>,
    /// Tools that the client runs itself.
    pub client_tools: Option<&'a ClientTools>,
    /// Compacts the conversation when needed.
    pub compactor: Option<&'a Compactor>,
}

enum Asked {
    Reply(Box<Reply>),
    /// The user interrupted it after this text.
    Interrupted(String),
}

/// The tokens of the context when the provider last counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
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
        let mut repetition = Repetition::default();
        let mut counted = None;
        for round in 0..=self.limits.max_model_calls {
            let is_last = round == self.limits.max_model_calls;
            if is_last {
                surface.show(TurnEvent::LimitReached);
            }
            let own = self.toolbox.definitions();
            let mut offer = client_tools::offer(own, self.client_tools, round == 0);
            if is_last {
                offer.choice = ToolChoice::None;
            }
            if self.make_room(messages, &mut counted, surface).await? == Ran::Interrupted {
                return Ok(TurnEnd::Interrupted);
            }
            let reply = match self.ask_in_room(messages, &offer, surface).await? {
                Asked::Reply(reply) => *reply,
                Asked::Interrupted(text) => {
                    keep_partial(text, messages, surface).await?;
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
            surface.keep(&message, detail).await?;
            let is_clients =
                |call: &ToolCall| self.client_tools.is_some_and(|tools| tools.has(call));
            let (client_calls, calls): (Vec<_>, Vec<_>) =
                message.tool_calls().iter().cloned().partition(is_clients);
            messages.push(message);
            counted = usage.map(|usage| Counted {
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
                return Ok(TurnEnd::Repeating);
            }
        }
        Ok(TurnEnd::OutOfCalls)
    }

    /// Compacts the conversation if it has grown too long.
    async fn make_room(
        &self,
        messages: &mut Vec<Message>,
        counted: &mut Option<Counted>,
        surface: &mut dyn Surface,
    ) -> Result<Ran, KeepError> {
        let tools = self.toolbox.definitions();
        let Some(compactor) = self.compactor else {
            return Ok(Ran::Nothing);
        };
        let known = counted.and_then(|counted| {
            let since = messages.get(counted.messages..)?;
            Some(counted.tokens + compact::tokens(since, &[]))
        });
        let size = known.unwrap_or_else(|| compact::tokens(messages, tools));
        if !compactor.is_due(size) {
            return Ok(Ran::Nothing);
        }
        let cancel = &self.context.cancel;
        let why = (Reason::Full, known);
        let ran = compact::run(compactor, messages, tools, why, surface, cancel).await?;
        if ran == Ran::Compacted {
            *counted = None;
        }
        Ok(ran)
    }

    /// Requests a reply, and once more after compaction if the conversation is too long for the model.
    async fn ask_in_room(
        &self,
        messages: &mut Vec<Message>,
        offer: &Offer<'_>,
        surface: &mut dyn Surface,
    ) -> Result<Asked, TurnError> {
        let error = match self.ask(messages, offer, surface).await {
            Err(error) if error.is_context_overflow() => error,
            other => return Ok(other?),
        };
        let compactor = self.compactor.filter(|compactor| compactor.is_automatic());
        let (Some(compactor), Problem::ContextOverflow { limit, .. }) = (compactor, &error.problem)
        else {
            return Err(error.into());
        };
        let tools = self.toolbox.definitions();
        let size = compact::tokens(messages, tools);
        let why = (Reason::Overflow { limit: *limit }, Some(size));
        let cancel = &self.context.cancel;
        match compact::run(compactor, messages, tools, why, surface, cancel).await? {
            Ran::Compacted => Ok(self.ask(messages, offer, surface).await?),
            Ran::Nothing => Err(error.into()),
            Ran::Interrupted => Ok(Asked::Interrupted(String::new())),
        }
    }

    async fn ask(
        &self,
        messages: &[Message],
        offer: &Offer<'_>,
        surface: &mut dyn Surface,
    ) -> Result<Asked, ModelError> {
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
                ModelEvent::TextTakenBack => shown.clear(),
                _ => {}
            }
            surface.show(TurnEvent::Model(event));
        };
        let reply = tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => None,
            reply = self.model.complete(&request, &mut sink) => Some(Box::new(reply?)),
        };
        Ok(reply.map_or(Asked::Interrupted(shown), Asked::Reply))
    }

    /// Runs the calls of one message; results are stored before the next calls start. Returns whether the model
    /// repeats itself.
    async fn run_calls(
        &self,
        calls: &[ToolCall],
        repetition: &mut Repetition,
        messages: &mut Vec<Message>,
        surface: &mut dyn Surface,
    ) -> Result<bool, KeepError> {
        let mut batch = Batch::new(self, calls);
        let mut room = Room::new(&self.limits.sizes);
        let mut is_stuck = false;
        for segment in batch.segments() {
            let mut outputs = batch.run(segment.clone(), surface).await;
            let notes = repetition.look_at(batch.meant(segment.clone()), &outputs);
            is_stuck |= notes.iter().any(Option::is_some);
            let calls = &calls[segment];
            room.fit(calls, &mut outputs, self.context).await;
            for ((call, output), note) in calls.iter().zip(outputs).zip(notes) {
                let mut text = match output.outside {
                    Some(source) => toolbox::wrap(&source, output.text),
                    None => output.text,
                };
                if let Some(note) = note {
                    text.push_str("\n\n");
                    text.push_str(&note);
                }
                // The stored message names the image files; the images themselves stay in memory.
                let result = Message::tool(call, text.as_str());
                surface.keep(&result, MessageDetail::default()).await?;
                messages.push(if output.images.is_empty() || !self.model.sees_images() {
                    result
                } else {
                    Message::tool(call, with_images(text, output.images))
                });
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
async fn keep_partial(
    text: String,
    messages: &mut Vec<Message>,
    surface: &mut dyn Surface,
) -> Result<(), KeepError> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let message = Message::assistant(text);
    let detail = MessageDetail {
        finish: Some("interrupted".into()),
        ..MessageDetail::default()
    };
    surface.keep(&message, detail).await?;
    messages.push(message);
    Ok(())
}

/// Some models call tools although they must not. At the end of a turn such calls are removed.
fn without_calls(mut reply: Reply, limit: u32) -> Reply {
    reply.tool_calls.clear();
    if reply.text.trim().is_empty() {
        reply.text =
            format!("The limit of {limit} model calls was reached before there was an answer.");
    }
    reply
}
