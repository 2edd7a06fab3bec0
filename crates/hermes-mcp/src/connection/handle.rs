//! The long-lived handle of one server: its settings, its connection task's mailbox and link, its counters.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use hermes_config::{Fingerprint, Redactor, Server, ServerName};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot, watch};

use super::{
    CHECK_TIMEOUT, ConnectionCommand, SharedServer, breaker::CircuitBreaker, counters::Counters,
    link::Link,
};

pub(crate) struct ServerHandle {
    pub(crate) name: ServerName,
    /// Whose agent this is, if a Hub hosts it.
    pub(crate) tenant: Option<String>,
    pub(crate) server: Arc<SharedServer>,
    /// `None` while its references cannot be resolved.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) link: watch::Receiver<Link>,
    pub(crate) mailbox: mpsc::Sender<ConnectionCommand>,
    /// One permit where calls go one by one; `None` where they may run together.
    pub(crate) call_permits: Option<Semaphore>,
    pub(crate) breaker: Arc<CircuitBreaker>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) redactor: Arc<ArcSwap<Redactor>>,
    pub(crate) resource_updates: broadcast::Sender<String>,
    pub(crate) resource_subscriptions: Arc<watch::Sender<ResourceSubscriptions>>,
}

/// Resources whose changes somebody wants to hear of, and how many want to.
pub(crate) type ResourceSubscriptions = BTreeMap<String, usize>;

impl ServerHandle {
    /// Asks for an attempt now; a full mailbox means that one is coming anyway.
    pub(crate) fn wake(&self) {
        let _ = self.mailbox.try_send(ConnectionCommand::Wake);
    }

    /// Has a ready server pinged; otherwise requests a connection attempt now. Waits for the result.
    pub(crate) async fn check(&self) {
        let (done, checked) = oneshot::channel();
        if self
            .mailbox
            .try_send(ConnectionCommand::Check(done))
            .is_ok()
        {
            // A connection that is stopped meanwhile drops the sender, too.
            let _ = tokio::time::timeout(CHECK_TIMEOUT + CHECK_TIMEOUT / 10, checked).await;
        }
    }

    /// Whether some of its tools wait for approval.
    pub(crate) fn has_withheld_tools(&self) -> bool {
        let link = self.link.borrow();
        let catalog = link.catalog.as_ref();
        catalog.is_some_and(|catalog| !catalog.withheld.is_empty())
    }

    /// Has the tools compared with their pins again, which needs a running server.
    pub(crate) fn relist_tools(&self) {
        let session = self.link.borrow().session.clone();
        match session {
            Some(session) => {
                let changes = &session.activity.changes;
                changes.mark(&changes.tools);
            }
            None => self.wake(),
        }
    }

    /// Stops the connection and waits until its process is gone.
    pub(crate) async fn stop(&self) {
        let (reply, done) = oneshot::channel();
        if self
            .mailbox
            .send(ConnectionCommand::Stop(reply))
            .await
            .is_ok()
        {
            let _ = done.await;
        }
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.redactor.load().redact(text).into_owned()
    }

    /// Adds to the text of an error that the sandbox may be why, where that is so.
    pub(crate) fn add_sandbox_note(&self, error: &mut String) {
        let link = self.link.borrow();
        let confined = link
            .session
            .as_ref()
            .and_then(|session| session.confined.as_ref());
        if let Some(note) = confined.and_then(|confined| confined.hint_for(error)) {
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
