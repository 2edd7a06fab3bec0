//! Decisions from other processes: which requests of this process are pending, and who may answer them.
//!
//! A row in `runtime.db` is only a record. A decision counts when it is submitted to the process that asks: in that
//! process, through its API, or over its own socket, whose peer must not be a process that it has started.

use std::{collections::HashMap, sync::Arc};

use hermes_config::{
    Home,
    sync::{Mutex, MutexGuard},
};
use hermes_store::runtime::ApprovalAnswer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::socket::DecisionSocket;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedDecision {
    pub answer: ApprovalAnswer,
    /// Who answered, for the record.
    pub by: String,
    /// For the model.
    pub reason: Option<String>,
    /// What became of the form, if the request is one.
    pub reply: Option<FormReply>,
}

impl SubmittedDecision {
    /// A bare decision.
    pub fn new(answer: ApprovalAnswer, by: impl Into<String>) -> Self {
        Self {
            answer,
            by: by.into(),
            reason: None,
            reply: None,
        }
    }
}

/// What somebody made of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormReply {
    /// The answers by the names of their fields, which go with a yes.
    Answers(Map<String, Value>),
    /// It was left without a decision, which goes with a no.
    Dismissed,
}

/// Which answers a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerRule {
    Any,
    /// No "always".
    NotPermanent,
    /// A yes has to bring the answers of a form.
    WithAnswers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitOutcome {
    Accepted,
    /// The request is not pending here: it was decided before, or never made.
    NotWaiting,
    /// This request does not allow an "always" answer.
    NotPermanent,
    /// This request is a form: a yes without its answers is not enough.
    NeedsAnswers,
    /// The peer may not decide: it was started by the agent that asks.
    Refused,
}

/// The pending requests of one process. Clones share them.
#[derive(Clone)]
pub struct DecisionRegistry {
    inner: Arc<DecisionRegistryState>,
}

struct DecisionRegistryState {
    home: Home,
    pending: PendingDecisions,
    /// Opened by the first request.
    socket: tokio::sync::Mutex<Option<DecisionSocket>>,
}

/// Pending requests by id.
pub(super) type PendingDecisions = Arc<Mutex<HashMap<String, PendingDecision>>>;

pub(super) struct PendingDecision {
    answer: watch::Sender<Option<SubmittedDecision>>,
    rule: AnswerRule,
}

impl PendingDecision {
    /// Why an answer is not taken.
    fn find_refusal(&self, given: &SubmittedDecision) -> Option<SubmitOutcome> {
        let has_answers = matches!(given.reply, Some(FormReply::Answers(_)));
        match (self.rule, given.answer) {
            (_, ApprovalAnswer::Deny) | (AnswerRule::Any, _) => None,
            (AnswerRule::WithAnswers, _) if !has_answers => Some(SubmitOutcome::NeedsAnswers),
            (_, ApprovalAnswer::Always) => Some(SubmitOutcome::NotPermanent),
            _ => None,
        }
    }
}

/// A pending request. Dropping it removes it.
pub struct DecisionWaiter {
    id: String,
    pending: PendingDecisions,
    answer: watch::Receiver<Option<SubmittedDecision>>,
}

impl DecisionRegistry {
    /// For the requests of this home. The socket is opened by the first request.
    pub fn new(home: Home) -> Self {
        Self {
            inner: Arc::new(DecisionRegistryState {
                home,
                pending: PendingDecisions::default(),
                socket: tokio::sync::Mutex::new(None),
            }),
        }
    }

    /// Registers a request that others can decide.
    pub async fn register_request(&self, id: &str, rule: AnswerRule) -> DecisionWaiter {
        let (sender, answer) = watch::channel(None);
        let entry = PendingDecision {
            answer: sender,
            rule,
        };
        lock_pending(&self.inner.pending).insert(id.to_owned(), entry);
        let waiting = DecisionWaiter {
            id: id.to_owned(),
            pending: self.inner.pending.clone(),
            answer,
        };
        self.open_socket().await;
        waiting
    }

    async fn open_socket(&self) {
        let mut socket = self.inner.socket.lock().await;
        if socket.is_some() {
            return;
        }
        match DecisionSocket::open(&self.inner.home, self.inner.pending.clone()) {
            Ok(opened) => *socket = Some(opened),
            Err(error) => {
                tracing::warn!(%error, "approval socket cannot be opened; other processes cannot answer approvals of this one");
            }
        }
    }

    /// Submits a decision in this process. The first decision counts.
    pub fn submit(&self, id: &str, given: SubmittedDecision) -> SubmitOutcome {
        submit_decision(&self.inner.pending, id, given)
    }

    /// Closes the socket for decisions of other processes.
    pub async fn close(&self) {
        let socket = self.inner.socket.lock().await.take();
        if let Some(socket) = socket {
            socket.close().await;
        }
    }
}

pub(super) fn submit_decision(
    waiting: &PendingDecisions,
    id: &str,
    given: SubmittedDecision,
) -> SubmitOutcome {
    let mut waiting = lock_pending(waiting);
    let Some(entry) = waiting.get(id) else {
        return SubmitOutcome::NotWaiting;
    };
    if let Some(refusal) = entry.find_refusal(&given) {
        return refusal;
    }
    let sent = entry.answer.send(Some(given));
    waiting.remove(id);
    match sent {
        Ok(()) => SubmitOutcome::Accepted,
        Err(_) => SubmitOutcome::NotWaiting,
    }
}

fn lock_pending(waiting: &PendingDecisions) -> MutexGuard<'_, HashMap<String, PendingDecision>> {
    waiting.lock()
}

impl DecisionWaiter {
    /// The decision, once there is one.
    pub async fn wait(&self) -> SubmittedDecision {
        let mut answer = self.answer.clone();
        let given = match answer.wait_for(Option::is_some).await {
            Ok(given) => given.clone(),
            Err(_) => None,
        };
        match given {
            Some(given) => given,
            None => std::future::pending().await,
        }
    }

    /// Removes the request. Returns the decision if there was one already.
    pub fn finish(&self) -> Option<SubmittedDecision> {
        lock_pending(&self.pending).remove(&self.id);
        self.answer.borrow().clone()
    }
}

impl Drop for DecisionWaiter {
    fn drop(&mut self) {
        lock_pending(&self.pending).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(answer: ApprovalAnswer) -> SubmittedDecision {
        SubmittedDecision::new(answer, "b")
    }

    #[tokio::test]
    async fn the_first_decision_counts_and_only_about_what_waits() {
        let directory = tempfile::tempdir().unwrap();
        let decisions = DecisionRegistry::new(Home::at(directory.path()));
        assert_eq!(
            decisions.submit("ap_1", given(ApprovalAnswer::Once)),
            SubmitOutcome::NotWaiting
        );
        let waiting = decisions
            .register_request("ap_1", AnswerRule::NotPermanent)
            .await;
        assert_eq!(
            decisions.submit("ap_1", given(ApprovalAnswer::Always)),
            SubmitOutcome::NotPermanent
        );
        assert_eq!(
            decisions.submit("ap_1", given(ApprovalAnswer::Deny)),
            SubmitOutcome::Accepted
        );
        assert_eq!(
            decisions.submit("ap_1", given(ApprovalAnswer::Once)),
            SubmitOutcome::NotWaiting
        );
        assert_eq!(waiting.wait().await.answer, ApprovalAnswer::Deny);
        assert_eq!(waiting.finish().unwrap().answer, ApprovalAnswer::Deny);
        drop(decisions.register_request("ap_2", AnswerRule::Any).await);
        assert_eq!(
            decisions.submit("ap_2", given(ApprovalAnswer::Once)),
            SubmitOutcome::NotWaiting
        );
        decisions.close().await;
    }

    #[tokio::test]
    async fn a_form_takes_a_yes_with_its_answers_or_a_no() {
        let directory = tempfile::tempdir().unwrap();
        let decisions = DecisionRegistry::new(Home::at(directory.path()));
        let waiting = decisions
            .register_request("ap_1", AnswerRule::WithAnswers)
            .await;
        for bare in [
            ApprovalAnswer::Once,
            ApprovalAnswer::Session,
            ApprovalAnswer::Always,
        ] {
            assert_eq!(
                decisions.submit("ap_1", given(bare)),
                SubmitOutcome::NeedsAnswers
            );
        }
        let filled = SubmittedDecision {
            reply: Some(FormReply::Answers(Map::new())),
            ..given(ApprovalAnswer::Once)
        };
        assert_eq!(
            decisions.submit("ap_1", filled.clone()),
            SubmitOutcome::Accepted
        );
        assert_eq!(waiting.wait().await, filled);
        let _waiting = decisions
            .register_request("ap_2", AnswerRule::WithAnswers)
            .await;
        assert_eq!(
            decisions.submit("ap_2", given(ApprovalAnswer::Deny)),
            SubmitOutcome::Accepted
        );
        decisions.close().await;
    }
}
