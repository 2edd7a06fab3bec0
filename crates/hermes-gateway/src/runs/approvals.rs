//! Decisions about what runs want to do.

use hermes_agent::approval::{Given, Taken};
use hermes_store::{StoreError, runtime::Answer};

use super::Runs;

/// Who answered, for the record.
const BY: &str = "api";
/// Longest reason that reaches the agent, in characters.
const LONGEST_REASON: usize = 280;

/// Which question is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one that waits longest.
    Oldest,
    /// All that wait.
    All,
    /// This one.
    Id(String),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What is answered.
    pub choice: Answer,
    /// To which question.
    pub which: Which,
    /// For the agent.
    pub reason: Option<String>,
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum NotDecided {
    /// There is no such run.
    #[error("there is no such run")]
    NotFound,
    /// The run is over.
    #[error("the run is over; nothing can be decided any more")]
    NotActive,
    /// No such question waits.
    #[error("no such approval waits: it was decided before, or its time is over")]
    NotPending,
    /// It can not be allowed for ever.
    #[error("this can not be allowed for ever; answer `once`, `session` or `deny`")]
    NotPermanent,
    /// That could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Runs {
    /// Answers questions of a run. The first answer counts. Tells how many were decided.
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
