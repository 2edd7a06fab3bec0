//! Whether the server behind a session may be gone. A request that fails on the way reports it here, and the connection
//! then checks the server.

use std::sync::atomic::{AtomicBool, Ordering};

use hermes_config::sync::Mutex;
use tokio::sync::{Notify, watch};

/// What is known about the way to a server, beyond what single requests tell.
#[derive(Debug, Default)]
pub(crate) struct ConnectionHealth {
    /// Why the server may be gone.
    suspicion: Mutex<Option<String>>,
    suspected: Notify,
    /// Whether the standalone event stream (for messages that answer no request) was open when last seen.
    had_stream: AtomicBool,
    /// How often the MCP session was opened again under the same connection.
    renewals: watch::Sender<u64>,
}

impl ConnectionHealth {
    /// Records why the server may be gone; the first reason stays until the server has answered.
    pub(crate) fn report_suspicion(&self, suspicion: impl FnOnce() -> String) {
        let mut known = self.suspicion.lock();
        known.get_or_insert_with(suspicion);
        self.suspected.notify_one();
    }

    /// Whether the server may be gone and was not checked yet.
    pub(crate) fn is_suspect(&self) -> bool {
        let known = self.suspicion.lock();
        known.is_some()
    }

    /// Waits until the server may be gone.
    pub(crate) async fn wait_until_suspect(&self) {
        loop {
            self.suspected.notified().await;
            if self.is_suspect() {
                return;
            }
        }
    }

    /// The server has answered.
    pub(crate) fn mark_healthy(&self) {
        *self.suspicion.lock() = None;
    }

    /// The standalone event stream is open.
    pub(crate) fn stream_opened(&self) {
        self.had_stream.store(true, Ordering::Release);
    }

    /// The standalone event stream could not be opened. Returns whether it was open before: then it ended, and cannot
    /// be reopened.
    pub(crate) fn stream_refused(&self) -> bool {
        self.had_stream.swap(false, Ordering::AcqRel)
    }

    /// The server had forgotten the MCP session, and gave another one.
    pub(crate) fn record_renewal(&self) {
        self.renewals.send_modify(|count| *count += 1);
    }

    /// Changes with every new MCP session: what was said in the one before has to be said again.
    pub(crate) fn subscribe_renewals(&self) -> watch::Receiver<u64> {
        self.renewals.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_doubt_lasts_until_it_is_settled_and_keeps_its_first_reason() {
        let doubt = ConnectionHealth::default();
        assert!(!doubt.is_suspect());
        doubt.report_suspicion(|| "first".into());
        doubt.report_suspicion(|| "second".into());
        doubt.wait_until_suspect().await;
        assert_eq!(doubt.suspicion.lock().as_deref(), Some("first"));
        doubt.mark_healthy();
        assert!(!doubt.is_suspect());
        let again = tokio::time::timeout(
            std::time::Duration::from_millis(20),
            doubt.wait_until_suspect(),
        );
        assert!(again.await.is_err(), "what is settled wakes nobody");
    }

    #[test]
    fn a_stream_that_never_was_open_has_not_ended() {
        let doubt = ConnectionHealth::default();
        assert!(!doubt.stream_refused());
        doubt.stream_opened();
        assert!(doubt.stream_refused());
        assert!(!doubt.stream_refused(), "told once");
    }
}
