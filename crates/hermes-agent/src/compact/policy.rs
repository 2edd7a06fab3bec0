//! When a conversation is too long, and how long it may be afterwards.

use hermes_config::CompressionSettings;

use super::CompactionReason;

/// Assumed when the context size is unknown.
const ASSUMED_CONTEXT: u32 = 128_000;
/// Below this nothing is compacted, whatever the threshold, unless the context is smaller.
const MIN_TRIGGER_TOKENS: f64 = 64_000.0;
/// The threshold for small contexts.
const SMALL_CONTEXT_SHARE: f64 = 0.75;

pub(super) struct CompactionPolicy {
    pub(super) settings: CompressionSettings,
    context: Option<u32>,
}

/// The target of compaction, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TargetSize {
    pub(super) size: u64,
    pub(super) tail: u64,
}

impl CompactionPolicy {
    pub(super) fn new(settings: CompressionSettings, context: Option<u32>) -> Self {
        Self { settings, context }
    }

    /// A conversation with more tokens than this is compacted.
    pub(super) fn trigger_tokens(&self, told: Option<u32>) -> u64 {
        let context = f64::from(told.or(self.context).unwrap_or(ASSUMED_CONTEXT));
        let least = MIN_TRIGGER_TOKENS.min(SMALL_CONTEXT_SHARE * context);
        to_tokens((self.settings.threshold * context).max(least))
    }

    pub(super) fn target_size(
        &self,
        reason: CompactionReason,
        told: Option<u32>,
        known: Option<u64>,
    ) -> TargetSize {
        let trigger = self.trigger_tokens(told);
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
