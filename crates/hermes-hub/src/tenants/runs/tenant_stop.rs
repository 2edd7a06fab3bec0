//! Why a run ends that nobody told to stop by its name: its tenant may not go on, or the Hub ended.

use crate::api_types::RunError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantStop {
    Quota,
    Blocked,
    Deleted,
}

impl TenantStop {
    pub fn error(self) -> RunError {
        let (code, message) = match self {
            Self::Quota => (
                "quota",
                "the tenant is over its storage quota, so its runs were stopped; remove files or raise the quota",
            ),
            Self::Blocked => (
                "tenant_blocked",
                "the tenant was blocked, so its runs were stopped; unblock it and start the run again",
            ),
            Self::Deleted => (
                "tenant_deleted",
                "the tenant was deleted, so its runs were stopped; restore it and start the run again",
            ),
        };
        RunError {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// How the Hub before this one ended, whose runs this one takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviousEnd {
    /// Somebody stopped it.
    Stopped,
    /// It was killed, it crashed, or the machine went down.
    Crashed,
    /// It was another node, which has lost its lease or handed it over.
    NodeLost,
}

impl PreviousEnd {
    /// What cut off its runs: one word, and words for people.
    pub(super) fn cause(self) -> (&'static str, &'static str) {
        match self {
            Self::Stopped => (
                "hub_stopped",
                "the Hub was stopped while the run was under way",
            ),
            Self::Crashed => (
                "hub_crashed",
                "the Hub ended without being stopped while the run was under way: it was killed, or crashed",
            ),
            Self::NodeLost => (
                "node_lost",
                "the node that worked on the run ended or lost its lease while the run was under way",
            ),
        }
    }
}
