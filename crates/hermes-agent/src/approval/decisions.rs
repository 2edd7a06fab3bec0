//! Decisions from other processes: which requests of this process are pending, and who may answer them.
//!
//! A row in `runtime.db` is only a record. A decision counts when it is submitted to the process that asks: in that
//! process, through its API, or over its own socket, whose peer must not be a process that it has started.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hermes_config::Home;
use hermes_store::runtime::Answer;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::socket::DecisionSocket;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub answer: Answer,
    /// Who answered, for the record.
    pub by: String,
    /// For the model.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    Accepted,
    /// The request is not pending here: it was decided before, or never made.
    NotWaiting,
    /// This request does not allow an "always" answer.
    NotPermanent,
    /// The peer may not decide: it was started by the agent that asks.
    Refused,
}

/// The pending requests of one process. Clones share them.
#[derive(Clone)]
pub struct Decisions {
    inner: Arc<DecisionsState>,
}

struct DecisionsState {
    home: Home,
    waiting: Waitings,
    /// Opened by the first request.
    socket: tokio::sync::Mutex<Option<DecisionSocket>>,
}

/// Pending requests by id.
pub(super) type Waitings = Arc<Mutex<HashMap<String, PendingDecision>>>;

pub(super) struct PendingDecision {
    answer: watch::Sender<Option<Given>>,
    may_be_permanent: bool,
}

/// A pending request. Dropping it removes it.
pub struct Waiting {
    id: String,
    all: Waitings,
    answer: watch::Receiver<Option<Given>>,
}

impl Decisions {
    /// For the requests of this home. The socket is opened by the first request.
    pub fn new(home: Home) -> Self {
        Self {
            inner: Arc::new(DecisionsState {
                home,
                waiting: Waitings::default(),
                socket: tokio::sync::Mutex::new(None),
            }),
        }
    }

    /// Registers a request that others can decide.
    pub async fn wait_for(&self, id: &str, may_be_permanent: bool) -> Waiting {
        let (sender, answer) = watch::channel(None);
        let entry = PendingDecision {
            answer: sender,
            may_be_permanent,
        };
        lock(&self.inner.waiting).insert(id.to_owned(), entry);
        let waiting = Waiting {
            id: id.to_owned(),
            all: self.inner.waiting.clone(),
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
        match DecisionSocket::open(&self.inner.home, self.inner.waiting.clone()) {
            Ok(opened) => *socket = Some(opened),
            Err(error) => {
                tracing::warn!(%error, "approval socket cannot be opened; other processes cannot answer approvals of this one");
            }
        }
    }

    /// Submits a decision in this process. The first decision counts.
    pub fn decide(&self, id: &str, given: Given) -> Taken {
        decide(&self.inner.waiting, id, given)
    }

    /// Closes the socket for decisions of other processes.
    pub async fn close(&self) {
        let socket = self.inner.socket.lock().await.take();
        if let Some(socket) = socket {
            socket.close().await;
        }
    }
}

pub(super) fn decide(waiting: &Waitings, id: &str, given: Given) -> Taken {
    let mut waiting = lock(waiting);
    match waiting.get(id) {
        None => Taken::NotWaiting,
        Some(entry) if given.answer == Answer::Always && !entry.may_be_permanent => {
            Taken::NotPermanent
        }
        Some(entry) => {
            let sent = entry.answer.send(Some(given));
            waiting.remove(id);
            match sent {
                Ok(()) => Taken::Accepted,
                Err(_) => Taken::NotWaiting,
            }
        }
    }
}

fn lock(waiting: &Waitings) -> MutexGuard<'_, HashMap<String, PendingDecision>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// The decision, once there is one.
    pub async fn given(&self) -> Given {
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
    pub fn end(&self) -> Option<Given> {
        lock(&self.all).remove(&self.id);
        self.answer.borrow().clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(answer: Answer) -> Given {
        Given {
            answer,
            by: "b".into(),
            reason: None,
        }
    }

    #[tokio::test]
    async fn the_first_decision_counts_and_only_about_what_waits() {
        let directory = tempfile::tempdir().unwrap();
        let decisions = Decisions::new(Home::at(directory.path()));
        assert_eq!(
            decisions.decide("ap_1", given(Answer::Once)),
            Taken::NotWaiting
        );
        let waiting = decisions.wait_for("ap_1", false).await;
        assert_eq!(
            decisions.decide("ap_1", given(Answer::Always)),
            Taken::NotPermanent
        );
        assert_eq!(
            decisions.decide("ap_1", given(Answer::Deny)),
            Taken::Accepted
        );
        assert_eq!(
            decisions.decide("ap_1", given(Answer::Once)),
            Taken::NotWaiting
        );
        assert_eq!(waiting.given().await.answer, Answer::Deny);
        assert_eq!(waiting.end().unwrap().answer, Answer::Deny);
        drop(decisions.wait_for("ap_2", true).await);
        assert_eq!(
            decisions.decide("ap_2", given(Answer::Once)),
            Taken::NotWaiting
        );
        decisions.close().await;
    }
}
