//! Compaction keeps a conversation within its model's context: old results are shortened, the middle is summarised.
//!
//! Nothing is stored here: [`crate::turn::compact_and_store`] passes the shorter list to whoever stores it. A turn compacts
//! when it has to, `/compress` on request.

mod estimate;
mod sections;
mod summary;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

pub use estimate::estimate_tokens;
use hermes_config::{
    CompressionSettings,
    sync::{Mutex, MutexGuard},
};

use self::sections::Sections;
use crate::{
    message::Message,
    model::{Model, ToolDefinition},
};

/// No summary is tried for this long after a transient failure.
const TRANSIENT_COOLDOWN: Duration = Duration::from_mins(1);
const FAILURE_COOLDOWN: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// It exceeds its share of the context.
    Full,
    Overflow {
        /// The size of the context in tokens, where the provider said so.
        limit: Option<u32>,
    },
    Requested,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// The new list, system prompt included.
    pub messages: Vec<Message>,
    /// For each message its index in the old list; none for new ones. A tool result may have been
    /// shortened.
    pub origins: Vec<Option<usize>>,
    pub means: CompactionMethod,
    /// The estimated size before, in tokens.
    pub tokens_before: u64,
    pub tokens_after: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionMethod {
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
    pub cooldown_until: SystemTime,
    pub consecutive_failures: u32,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompactionAttempt {
    /// The shorter conversation; `None` if nothing could be removed.
    pub compacted: Option<Compacted>,
    /// Set if a summary failed in this attempt.
    pub failure: Option<SummaryFailure>,
}

/// Compacts the conversation of one session.
pub struct Compactor {
    policy: CompactionPolicy,
    summariser: Option<Arc<dyn Model>>,
    state: Mutex<CompactorState>,
}

#[derive(Debug, Default)]
struct CompactorState {
    /// The context size that the provider reported.
    reported_context: Option<u32>,
    /// The size after the last compaction. It has to grow before another one is worthwhile.
    last_size: Option<u64>,
    cooldown_until: Option<SystemTime>,
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
            policy: CompactionPolicy::new(settings, context_length),
            summariser,
            state: Mutex::default(),
        }
    }

    /// Restores the cooldown of an earlier process.
    #[must_use]
    pub fn with_cooldown(self, until: SystemTime, failures: u32) -> Self {
        let mut state = self.lock_state();
        state.cooldown_until = Some(until);
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
        let state = self.lock_state();
        let trigger = self.policy.trigger_tokens(state.reported_context);
        let floor = state.last_size.map_or(0, |size| size + trigger / 5);
        self.is_automatic() && tokens > trigger.max(floor)
    }

    /// Compacts a conversation. `known` is its size in tokens, where a provider counted.
    pub async fn compact(
        &self,
        messages: &[Message],
        tools: &[ToolDefinition],
        reason: CompactionReason,
        known: Option<u64>,
    ) -> CompactionAttempt {
        let goal = {
            let mut state = self.lock_state();
            if let CompactionReason::Overflow { limit: Some(limit) } = reason {
                state.reported_context = Some(limit);
            }
            self.policy
                .target_size(reason, state.reported_context, known)
        };
        let scale = estimate::TokenScale::new(messages, tools, known);
        let mut sections =
            Sections::split(messages, &self.policy.settings, reason, goal.tail, &scale);
        let mut attempt = CompactionAttempt::default();
        let method = if sections.middle().is_empty() {
            None
        } else if sections.shorten_results() && scale.measure(sections.all(), tools) <= goal.size {
            Some(CompactionMethod::Shortened)
        } else {
            match self.summarise(&sections, reason).await {
                Ok(summary) => {
                    sections.replace_middle(summary);
                    Some(CompactionMethod::Summary)
                }
                Err(failure) => {
                    attempt.failure = failure;
                    None
                }
            }
        };
        let method = method.or_else(|| {
            let is_small = |all: &[Message]| scale.measure(all, tools) <= goal.size;
            let has_dropped = sections.drop_results(reason, is_small);
            has_dropped.then_some(CompactionMethod::DroppedResults)
        });
        attempt.compacted = method.map(|method| {
            let (messages, origins) = sections.into_parts();
            let tokens_after = scale.measure(&messages, tools);
            Compacted {
                messages,
                origins,
                means: method,
                tokens_before: scale.before,
                tokens_after,
            }
        });
        let size = attempt.compacted.as_ref();
        self.lock_state().last_size = Some(size.map_or(scale.before, |now| now.tokens_after));
        attempt
    }

    /// A summary of the middle. `Err(None)`: none was requested.
    async fn summarise(
        &self,
        sections: &Sections,
        reason: CompactionReason,
    ) -> Result<Message, Option<SummaryFailure>> {
        let is_resting = self.lock_state().cooldown_until > Some(SystemTime::now());
        let summariser = match &self.summariser {
            Some(summariser) if reason == CompactionReason::Requested || !is_resting => summariser,
            _ => return Err(None),
        };
        let ratio = self.policy.settings.target_ratio;
        let request = summary::SummaryRequest::new(sections, ratio, summariser.context_length());
        let mut nobody_listens = |_| {};
        let question = request.model_request();
        let answer = summariser.complete(&question, &mut nobody_listens).await;
        match answer {
            Ok(reply) if !reply.text.trim().is_empty() => {
                let mut state = self.lock_state();
                state.failures = 0;
                state.cooldown_until = None;
                Ok(request.message(reply.text.trim()))
            }
            Ok(_) => Err(Some(
                self.record_failure("the summary was empty".into(), FAILURE_COOLDOWN),
            )),
            Err(error) => {
                let rest = if error.is_transient() {
                    TRANSIENT_COOLDOWN
                } else {
                    FAILURE_COOLDOWN
                };
                Err(Some(self.record_failure(error.to_string(), rest)))
            }
        }
    }

    fn record_failure(&self, error: String, rest: Duration) -> SummaryFailure {
        let rests_until = SystemTime::now() + rest;
        let mut state = self.lock_state();
        state.failures += 1;
        state.cooldown_until = Some(rests_until);
        SummaryFailure {
            error,
            cooldown_until: rests_until,
            consecutive_failures: state.failures,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, CompactorState> {
        self.state.lock()
    }
}

/// What an attempt to compact a conversation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionOutcome {
    Compacted,
    /// Nothing: there is nothing to remove, or another process is compacting.
    Nothing,
    /// Nothing: the user stopped it.
    Interrupted,
}

/// Assumed when the context size is unknown.
const ASSUMED_CONTEXT: u32 = 128_000;
/// Below this nothing is compacted, whatever the threshold, unless the context is smaller.
const MIN_TRIGGER_TOKENS: f64 = 64_000.0;
/// The threshold for small contexts.
const SMALL_CONTEXT_SHARE: f64 = 0.75;

struct CompactionPolicy {
    settings: CompressionSettings,
    context: Option<u32>,
}

/// The target of compaction, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TargetSize {
    size: u64,
    tail: u64,
}

impl CompactionPolicy {
    fn new(settings: CompressionSettings, context: Option<u32>) -> Self {
        Self { settings, context }
    }

    /// A conversation with more tokens than this is compacted.
    fn trigger_tokens(&self, reported: Option<u32>) -> u64 {
        let context = f64::from(reported.or(self.context).unwrap_or(ASSUMED_CONTEXT));
        let least = MIN_TRIGGER_TOKENS.min(SMALL_CONTEXT_SHARE * context);
        to_tokens((self.settings.threshold * context).max(least))
    }

    fn target_size(
        &self,
        reason: CompactionReason,
        reported: Option<u32>,
        known: Option<u64>,
    ) -> TargetSize {
        let trigger = self.trigger_tokens(reported);
        let trigger = match (reason, known) {
            // The provider decides what is too long.
            (CompactionReason::Overflow { limit: None }, Some(known)) => trigger.min(known / 2),
            _ => trigger,
        };
        TargetSize {
            // Well below the trigger, so that it is worthwhile.
            size: trigger / 5 * 3,
            tail: trigger / 2,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a context is neither negative nor large"
)]
fn to_tokens(tokens: f64) -> u64 {
    tokens as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(threshold: f64, context: Option<u32>) -> u64 {
        let settings = CompressionSettings {
            threshold,
            ..CompressionSettings::default()
        };
        CompactionPolicy::new(settings, context).trigger_tokens(None)
    }

    #[test]
    fn large_contexts_are_used_up_to_the_threshold_and_small_ones_to_three_quarters() {
        assert_eq!(trigger(0.5, Some(200_000)), 100_000);
        assert_eq!(trigger(0.5, Some(100_000)), 64_000);
        assert_eq!(trigger(0.5, Some(32_000)), 24_000);
        assert_eq!(trigger(0.9, Some(32_000)), 28_800);
        assert_eq!(trigger(0.5, None), 64_000);
    }

    #[test]
    fn what_the_provider_says_about_its_context_counts() {
        let policy = CompactionPolicy::new(CompressionSettings::default(), Some(200_000));
        assert_eq!(policy.trigger_tokens(Some(8_000)), 6_000);
        let unknown = CompactionReason::Overflow { limit: None };
        assert_eq!(policy.target_size(unknown, None, Some(20_000)).size, 6_000);
    }
}
