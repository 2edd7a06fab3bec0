//! The long-lived handle of one server: its settings, its connection task's mailbox and link, its counters.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use hermes_config::{Fingerprint, Redactor, Server, ServerName};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot, watch};

use crate::{
    breaker::Breaker,
    call::CallError,
    connection::{CHECK_LIMIT, Command, LiveServer},
    counters::Counters,
    link::{Advice, Link},
    outcome::Failure,
};

pub(crate) struct Owner {
    pub(crate) name: ServerName,
    /// Whose agent this is, if a Hub hosts it.
    pub(crate) tenant: Option<String>,
    pub(crate) server: Arc<LiveServer>,
    /// `None` while its references cannot be resolved.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) link: watch::Receiver<Link>,
    pub(crate) mailbox: mpsc::Sender<Command>,
    /// One permit where calls go one by one; `None` where they may run together.
    pub(crate) turn: Option<Semaphore>,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) redactor: Arc<ArcSwap<Redactor>>,
    pub(crate) resource_updates: broadcast::Sender<String>,
    pub(crate) wanted_resources: Arc<watch::Sender<WantedResources>>,
}

/// Resources whose changes somebody wants to hear of, and how many want to.
pub(crate) type WantedResources = BTreeMap<String, usize>;

impl Owner {
    /// Asks for an attempt now; a full mailbox means that one is coming anyway.
    pub(crate) fn wake(&self) {
        let _ = self.mailbox.try_send(Command::Wake);
    }

    /// Has a ready server pinged; otherwise requests a connection attempt now. Waits for the result.
    pub(crate) async fn check(&self) {
        let (done, checked) = oneshot::channel();
        if self.mailbox.try_send(Command::Check(done)).is_ok() {
            // A connection that is stopped meanwhile drops the sender, too.
            let _ = tokio::time::timeout(CHECK_LIMIT + CHECK_LIMIT / 10, checked).await;
        }
    }

    /// Whether some of its tools wait for approval.
    pub(crate) fn withholds_tools(&self) -> bool {
        let link = self.link.borrow();
        let catalog = link.catalog.as_ref();
        catalog.is_some_and(|catalog| !catalog.withheld.is_empty())
    }

    /// Has the tools compared with their pins again, which needs a running server.
    pub(crate) fn list_tools_again(&self) {
        let session = self.link.borrow().session.clone();
        match session {
            Some(session) => {
                let changes = &session.traffic.changes;
                changes.mark(&changes.tools);
            }
            None => self.wake(),
        }
    }

    /// Stops the connection and waits until its process is gone.
    pub(crate) async fn stop(&self) {
        let (reply, done) = oneshot::channel();
        if self.mailbox.send(Command::Stop(reply)).await.is_ok() {
            let _ = done.await;
        }
    }

    pub(crate) fn redacted(&self, text: &str) -> String {
        self.redactor.load().redact(text).into_owned()
    }

    /// What the model is told about a call without an answer.
    pub(crate) fn failure(&self, error: CallError) -> Failure {
        match error {
            CallError::NeedsAuth { server, .. } => Failure::LoginNeeded {
                server: server.to_string(),
                advice: Advice::log_in(server, self.tenant.as_deref()),
            },
            CallError::TimedOut { elapsed, allowed } => Failure::TimedOut { elapsed, allowed },
            CallError::Interrupted => Failure::Interrupted,
            other => {
                let mut text = self.redacted(&other.to_string());
                self.add_sandbox_note(&mut text);
                Failure::Transport(text)
            }
        }
    }

    /// Adds to the text of an error that the sandbox may be why, where that is so.
    pub(crate) fn add_sandbox_note(&self, error: &mut String) {
        let link = self.link.borrow();
        let confined = link
            .session
            .as_ref()
            .and_then(|session| session.confined.as_ref());
        if let Some(note) = confined.and_then(|confined| confined.note(error)) {
            error.push_str("\n\n");
            error.push_str(note);
        }
    }

    /// Whether a connection with this fingerprint is there already: two entries may differ in what applies live.
    pub(crate) fn is_same_connection(&self, fingerprint: Option<&Fingerprint>) -> bool {
        fingerprint.is_some()
            && self.fingerprint.as_ref() == fingerprint
            && !self.mailbox.is_closed()
    }

    pub(crate) fn settings(&self) -> Arc<Server> {
        self.server.load_full()
    }
}
