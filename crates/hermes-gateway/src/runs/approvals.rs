//! Decisions about approvals of runs.

use hermes_agent::approval::{SubmitOutcome, SubmittedDecision};
use hermes_store::{StoreError, runtime::ApprovalAnswer};

use super::Runs;

/// Recorded as answerer.
const ANSWERED_BY: &str = "api";
/// Longest reason for the agent, in characters.
const MAX_REASON_CHARS: usize = 280;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalSelector {
    Oldest,
    All,
    Id(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDecision {
    pub choice: ApprovalAnswer,
    pub which: ApprovalSelector,
    /// For the agent.
    pub reason: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error("unknown run")]
    NotFound,
    #[error("the run has ended; nothing can be decided any more")]
    NotActive,
    #[error("no such approval is pending: it was decided before, or has expired")]
    NotPending,
    #[error("this cannot be allowed permanently; answer `once`, `session` or `deny`")]
    NotPermanent,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Runs {
    /// Decides pending approvals of a run. The first answer counts. Returns how many were decided.
    pub async fn decide(&self, run: &str, decision: &RunDecision) -> Result<usize, DecideError> {
        let store = &self.inner.parts.store;
        let found = store.run(run).await?.ok_or(DecideError::NotFound)?;
        if found.status.is_final() {
            return Err(DecideError::NotActive);
        }
        let mut open = store.open_approvals_of_run(run).await?;
        match &decision.which {
            ApprovalSelector::All => {}
            ApprovalSelector::Oldest => open.truncate(1),
            ApprovalSelector::Id(id) => open.retain(|question| question.id == *id),
        }
        let reason = decision
            .reason
            .as_deref()
            .map(|reason| reason.chars().take(MAX_REASON_CHARS).collect::<String>());
        let mut decided = 0;
        for question in open {
            let given = SubmittedDecision {
                answer: decision.choice,
                by: ANSWERED_BY.to_owned(),
                reason: reason.clone(),
            };
            match self.inner.decisions.submit(&question.id, given) {
                SubmitOutcome::Accepted => decided += 1,
                SubmitOutcome::NotPermanent => return Err(DecideError::NotPermanent),
                SubmitOutcome::NotWaiting | SubmitOutcome::Refused => {}
            }
        }
        if decided == 0 {
            return Err(DecideError::NotPending);
        }
        Ok(decided)
    }
}
