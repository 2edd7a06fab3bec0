//! Compaction keeps a conversation within its model's context: old results are shortened, the middle is summarised.
//!
//! Nothing is stored here: [`run`] passes the shorter list to the [`Surface`], which replaces the old one with it.
//! A turn compacts when it has to, `/compress` on request.

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

/// No summary is tried for this long after a transient failure.
const SHORT_REST: Duration = Duration::from_mins(1);
const LONG_REST: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It exceeds its share of the context.
    Full,
    Overflow {
        /// The size of the context in tokens, where the provider said so.
        limit: Option<u32>,
    },
    Asked,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// The new list, system prompt included.
    pub messages: Vec<Message>,
    /// For each message its index in the old list; none for new ones. A tool result may have been
    /// shortened.
    pub origins: Vec<Option<usize>>,
    pub means: Means,
    /// The estimated size before, in tokens.
    pub tokens_before: u64,
    pub tokens_after: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    Shortened,
    Summary,
    /// There was no summary: the oldest tool results were removed.
    DroppedResults,
}

/// A failed summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryFailure {
    pub error: String,
    /// No other summary is tried before this time, unless the user requests it.
    pub rests_until: SystemTime,
    pub in_a_row: u32,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// The shorter conversation; `None` if nothing could be removed.
    pub compacted: Option<Compacted>,
    /// Set if a summary failed in this attempt.
    pub failure: Option<SummaryFailure>,
}

/// Compacts the conversation of one session.
pub struct Compactor {
    policy: Policy,
    summariser: Option<Arc<dyn Model>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The context size that the provider reported.
    told_context: Option<u32>,
    /// The size after the last compaction. It has to grow before another one is worthwhile.
    last_size: Option<u64>,
    rests_until: Option<SystemTime>,
    failures: u32,
}

impl Compactor {
    /// For a model with this context size. `summariser`, the model for `auxiliary.compression`, writes the summaries;
    /// without it tool results are dropped immediately.
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

    /// Restores the cooldown of an earlier process.
    #[must_use]
    pub fn resting(self, until: SystemTime, failures: u32) -> Self {
        let mut state = self.state();
        state.rests_until = Some(until);
        state.failures = failures;
        drop(state);
        self
    }

    /// Whether conversations are compacted automatically.
    pub fn is_automatic(&self) -> bool {
        self.policy.settings.enabled
    }

    /// Whether a conversation of this size has to be compacted.
    pub fn is_due(&self, tokens: u64) -> bool {
        let state = self.state();
        let trigger = self.policy.trigger(state.told_context);
        let floor = state.last_size.map_or(0, |size| size + trigger / 5);
        self.is_automatic() && tokens > trigger.max(floor)
    }

    /// Compacts a conversation. `known` is its size in tokens, where a provider counted.
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

    /// A summary of the middle. `Err(None)`: none was requested.
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
    Compacted,
    /// Nothing: there is nothing to remove, or another process is compacting.
    Nothing,
    /// Nothing: the user stopped it.
    Interrupted,
}

/// Compacts a conversation, stores and shows the result.
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
