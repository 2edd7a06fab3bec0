//! Decisions about approvals of runs.

use hermes_agent::approval::{Given, Taken};
use hermes_store::{StoreError, runtime::Answer};

use super::Runs;

/// Recorded as answerer.
const BY: &str = "api";
/// Longest reason for the agent, in characters.
const LONGEST_REASON: usize = 280;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    Oldest,
    All,
    Id(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub choice: Answer,
    pub which: Which,
    /// For the agent.
    pub reason: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum NotDecided {
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
    pub async fn decide(&self, run: &str, decision: &Decision) -> Result<usize, NotDecided> {
        let store = &self.inner.parts.store;
        let found = store.run(run).await?.ok_or(NotDecided::NotFound)?;
        if found.status.is_final() {
            return Err(NotDecided::NotActive);
        }
        let mut open = store.open_approvals_of_run(run).await?;
        match &decision.which {
            Which::All => {}
            Which::Oldest => open.truncate(1),
            Which::Id(id) => open.retain(|question| question.id == *id),
        }
        let reason = decision
            .reason
            .as_deref()
            .map(|reason| reason.chars().take(LONGEST_REASON).collect::<String>());
        let mut decided = 0;
        for question in open {
            let given = Given {
                answer: decision.choice,
                by: BY.to_owned(),
                reason: reason.clone(),
            };
            match self.inner.decisions.decide(&question.id, given) {
                Taken::Accepted => decided += 1,
                Taken::NotPermanent => return Err(NotDecided::NotPermanent),
                Taken::NotWaiting | Taken::Refused => {}
            }
        }
        if decided == 0 {
            return Err(NotDecided::NotPending);
        }
        Ok(decided)
    }
}
