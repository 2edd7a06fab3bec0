//! Keeps a conversation within its model's context: old tool results are shortened, the middle is summed up.
//!
//! Nothing is stored here: [`run`] hands the shorter list to the [`Surface`], which puts it in the place of the old
//! one. A turn does so when it has to, `/compress` when the user wants it.

mod estimate;
mod policy;
mod sections;
mod summary;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use hermes_config::CompressionSettings;
use tokio_util::sync::CancellationToken;

use self::{policy::Policy, sections::Sections};
use crate::{
    message::Message,
    model::{Model, ToolDefinition},
    turn::{KeepError, Surface, TurnEvent},
};

pub use estimate::tokens;

/// After a failure that may pass, summaries rest so long.
const SHORT_REST: Duration = Duration::from_mins(1);
/// After any other failure.
const LONG_REST: Duration = Duration::from_mins(10);

/// Why a conversation is made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has grown past its share of the context.
    Full,
    /// The provider refused it.
    Overflow {
        /// The size of the context in tokens, where the provider said so.
        limit: Option<u32>,
    },
    /// The user asked for it.
    Asked,
}

/// A conversation made shorter.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// The new list, system prompt included.
    pub messages: Vec<Message>,
    /// For each of them the place it had in the old list; none for what is new. A tool result may have become
    /// shorter on the way.
    pub origins: Vec<Option<usize>>,
    /// What became of the middle.
    pub means: Means,
    /// The size before, in tokens, as far as that can be told.
    pub tokens_before: u64,
    /// The size after.
    pub tokens_after: u64,
}

/// How a conversation was made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Cutting old tool results was enough.
    Shortened,
    /// The middle was summed up.
    Summary,
    /// There was no summary: the oldest tool results were taken out.
    DroppedResults,
}

/// A summary that could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryFailure {
    /// Why.
    pub error: String,
    /// Until then no other is asked for, unless the user wants it.
    pub rests_until: SystemTime,
    /// How many failed in a row.
    pub in_a_row: u32,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// The shorter conversation; `None` if nothing could be done.
    pub compacted: Option<Compacted>,
    /// Set if a summary failed in this attempt.
    pub failure: Option<SummaryFailure>,
}

/// Makes the conversations of one session shorter.
pub struct Compactor {
    policy: Policy,
    summariser: Option<Arc<dyn Model>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What the provider said about the size of its context.
    told_context: Option<u32>,
    /// How large the conversation was after the last time. It has to grow before it is worth another.
    last_size: Option<u64>,
    rests_until: Option<SystemTime>,
    failures: u32,
}

impl Compactor {
    /// Works for a model with this context. Summaries are asked of `summariser`, the model for `auxiliary.compression`;
    /// without it tool results are dropped at once.
    pub fn new(
        settings: CompressionSettings,
        context_length: Option<u32>,
        summariser: Option<Arc<dyn Model>>,
    ) -> Self {
        Self {
            policy: Policy::new(settings, context_length),
            summariser,
            state: Mutex::default(),
        }
    }

    /// Goes on where an earlier process failed.
    #[must_use]
    pub fn resting(self, until: SystemTime, failures: u32) -> Self {
        let mut state = self.state();
        state.rests_until = Some(until);
        state.failures = failures;
        drop(state);
        self
    }

    /// Whether conversations are made shorter without being asked to.
    pub fn is_automatic(&self) -> bool {
        self.policy.settings.enabled
    }

    /// Whether a conversation of this size has to become shorter.
    pub fn is_due(&self, tokens: u64) -> bool {
        let state = self.state();
        let trigger = self.policy.trigger(state.told_context);
        let floor = state.last_size.map_or(0, |size| size + trigger / 5);
        self.is_automatic() && tokens > trigger.max(floor)
    }

    /// Makes a conversation shorter. `known` is its size in tokens, where a provider counted.
    pub async fn compact(
        &self,
        messages: &[Message],
        tools: &[ToolDefinition],
        reason: Reason,
        known: Option<u64>,
    ) -> Attempt {
        let goal = {
            let mut state = self.state();
            if let Reason::Overflow { limit: Some(limit) } = reason {
                state.told_context = Some(limit);
            }
            self.policy.goal(reason, state.told_context, known)
        };
        let scale = estimate::Scale::new(messages, tools, known);
        let mut sections =
            Sections::cut(messages, &self.policy.settings, reason, goal.tail, &scale);
        let mut attempt = Attempt::default();
        let means = if sections.middle().is_empty() {
            None
        } else if sections.shorten_results() && scale.of(sections.all(), tools) <= goal.size {
            Some(Means::Shortened)
        } else {
            match self.summarise(&sections, reason).await {
                Ok(summary) => {
                    sections.replace_middle(summary);
                    Some(Means::Summary)
                }
                Err(failure) => {
                    attempt.failure = failure;
                    None
                }
            }
        };
        let means = means.or_else(|| {
            let is_small = |all: &[Message]| scale.of(all, tools) <= goal.size;
            let has_dropped = sections.drop_results(reason, is_small);
            has_dropped.then_some(Means::DroppedResults)
        });
        attempt.compacted = means.map(|means| {
            let (messages, origins) = sections.into_parts();
            let tokens_after = scale.of(&messages, tools);
            Compacted {
                messages,
                origins,
                means,
                tokens_before: scale.before,
                tokens_after,
            }
        });
        let size = attempt.compacted.as_ref();
        self.state().last_size = Some(size.map_or(scale.before, |now| now.tokens_after));
        attempt
    }

    /// A summary of the middle. `Err(None)`: nobody was asked.
    async fn summarise(
        &self,
        sections: &Sections,
        reason: Reason,
    ) -> Result<Message, Option<SummaryFailure>> {
        let is_resting = self.state().rests_until > Some(SystemTime::now());
        let summariser = match &self.summariser {
            Some(summariser) if reason == Reason::Asked || !is_resting => summariser,
            _ => return Err(None),
        };
        let ratio = self.policy.settings.target_ratio;
        let request = summary::Request::new(sections, ratio, summariser.context_length());
        let mut nobody_listens = |_| {};
        let question = request.model_request();
        let answer = summariser.complete(&question, &mut nobody_listens).await;
        match answer {
            Ok(reply) if !reply.text.trim().is_empty() => {
                let mut state = self.state();
                state.failures = 0;
                state.rests_until = None;
                Ok(request.message(reply.text.trim()))
            }
            Ok(_) => Err(Some(self.failed("the summary was empty".into(), LONG_REST))),
            Err(error) => {
                let rest = if error.is_transient() {
                    SHORT_REST
                } else {
                    LONG_REST
                };
                Err(Some(self.failed(error.to_string(), rest)))
            }
        }
    }

    fn failed(&self, error: String, rest: Duration) -> SummaryFailure {
        let rests_until = SystemTime::now() + rest;
        let mut state = self.state();
        state.failures += 1;
        state.rests_until = Some(rests_until);
        SummaryFailure {
            error,
            rests_until,
            in_a_row: state.failures,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`run`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// The conversation is shorter and stored.
    Compacted,
    /// Nothing: there is nothing to take out, or another process is at it.
    Nothing,
    /// Nothing: the user stopped it.
    Interrupted,
}

/// Makes a conversation shorter, has it stored and shown.
pub async fn run(
    compactor: &Compactor,
    messages: &mut Vec<Message>,
    tools: &[ToolDefinition],
    (reason, known): (Reason, Option<u64>),
    surface: &mut dyn Surface,
    cancel: &CancellationToken,
) -> Result<Ran, KeepError> {
    if !surface.begin_replacing().await? {
        return Ok(Ran::Nothing);
    }
    surface.show(TurnEvent::Compacting(reason));
    let attempt = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            surface.end_replacing().await?;
            return Ok(Ran::Interrupted);
        }
        attempt = compactor.compact(messages, tools, reason, known) => attempt,
    };
    if let Some(failure) = &attempt.failure {
        surface.keep_failure(failure).await?;
        surface.show(TurnEvent::SummaryFailed(failure.clone()));
    }
    let ran = match attempt.compacted {
        Some(compacted) => {
            surface.replace(messages, &compacted).await?;
            surface.show(TurnEvent::Compacted {
                means: compacted.means,
                tokens_before: compacted.tokens_before,
                tokens_after: compacted.tokens_after,
            });
            *messages = compacted.messages;
            Ran::Compacted
        }
        None => Ran::Nothing,
    };
    surface.end_replacing().await?;
    Ok(ran)
}
