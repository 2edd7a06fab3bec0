//! What is counted per server, kept over reconnects.

use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::ElicitationAction;
use serde::{Deserialize, Serialize};

use crate::server_request::SamplingReply;

/// The live counters of one server.
#[derive(Debug, Default)]
pub struct Counters {
    sampling: [AtomicU64; 4],
    elicitation: [AtomicU64; 5],
    calls: [AtomicU64; 4],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingCounts {
    /// Answered.
    pub requests: u64,
    /// Refused or failed.
    pub errors: u64,
    pub tokens_used: u64,
    /// Answers that asked for a tool.
    pub tool_use_count: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElicitationCounts {
    pub requests: u64,
    /// Answered with content or consent.
    pub accepted: u64,
    pub declined: u64,
    /// Timed out or dismissed.
    pub cancelled: u64,
    /// Nobody could be asked; declined to the server.
    #[serde(default)]
    pub errors: u64,
}

/// Tool calls so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    pub total: u64,
    /// Ended with an error of any kind.
    pub errors: u64,
    /// Took too long.
    pub timeouts: u64,
    /// Interrupted by the user.
    pub cancelled: u64,
}

/// How a call ended, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallResultKind {
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
}

impl Counters {
    #[expect(
        deprecated,
        reason = "sampling is still spoken by servers of every older revision"
    )]
    pub(crate) fn record_sampling(&self, answer: Option<&SamplingReply>) {
        let [requests, errors, tokens, tool_uses] = &self.sampling;
        let Some(answer) = answer else {
            add(errors, 1);
            return;
        };
        add(requests, 1);
        add(tokens, answer.tokens);
        if answer.message.stop_reason.as_deref() == Some("toolUse") {
            add(tool_uses, 1);
        }
    }

    pub(crate) fn record_elicitation(&self, action: &ElicitationAction) {
        let [requests, accepted, declined, cancelled, _] = &self.elicitation;
        add(requests, 1);
        add(
            match action {
                ElicitationAction::Accept => accepted,
                ElicitationAction::Decline => declined,
                _ => cancelled,
            },
            1,
        );
    }

    pub(crate) fn record_elicitation_failure(&self) {
        let [requests, .., errors] = &self.elicitation;
        add(requests, 1);
        add(errors, 1);
    }

    pub(crate) fn record_call(&self, end: CallResultKind) {
        let [total, errors, timeouts, cancelled] = &self.calls;
        add(total, 1);
        match end {
            CallResultKind::Succeeded => {}
            CallResultKind::Failed => add(errors, 1),
            CallResultKind::TimedOut => {
                add(errors, 1);
                add(timeouts, 1);
            }
            CallResultKind::Cancelled => add(cancelled, 1),
        }
    }

    pub fn sampling(&self) -> SamplingCounts {
        let [requests, errors, tokens_used, tool_use_count] = read(&self.sampling);
        SamplingCounts {
            requests,
            errors,
            tokens_used,
            tool_use_count,
        }
    }

    pub fn elicitation(&self) -> ElicitationCounts {
        let [requests, accepted, declined, cancelled, errors] = read(&self.elicitation);
        ElicitationCounts {
            requests,
            accepted,
            declined,
            cancelled,
            errors,
        }
    }

    pub fn calls(&self) -> CallCounts {
        let [total, errors, timeouts, cancelled] = read(&self.calls);
        CallCounts {
            total,
            errors,
            timeouts,
            cancelled,
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

fn read<const N: usize>(counters: &[AtomicU64; N]) -> [u64; N] {
    counters
        .each_ref()
        .map(|counter| counter.load(Ordering::Relaxed))
}
