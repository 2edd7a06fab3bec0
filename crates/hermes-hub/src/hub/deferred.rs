//! Work that follows a change, such as finishing its audit entry. If the database is unavailable, it is retried in the
//! background: the caller is told of the change and does not wait for the rest.

use std::time::Duration;

use super::Hub;
use crate::storage::state::StateError;

/// Time between attempts. Each attempt also waits for the database itself.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Hub {
    /// Does something now, or as soon as the database is available. If the Hub is killed before that, the next start
    /// completes it.
    pub(crate) async fn retry_until_stored<W, F>(&self, what: &'static str, work: W)
    where
        W: Fn(Self) -> F + Send + 'static,
        F: Future<Output = Result<(), StateError>> + Send,
    {
        if is_finished(what, work(self.clone()).await) {
            return;
        }
        let hub = self.clone();
        self.tasks().spawn(async move {
            loop {
                let is_last = tokio::select! {
                    () = hub.shutdown().cancelled() => true,
                    () = tokio::time::sleep(RETRY_INTERVAL) => false,
                };
                if is_finished(what, work(hub.clone()).await) || is_last {
                    return;
                }
            }
        });
    }
}

/// Whether the work is done or can never succeed.
fn is_finished(what: &str, done: Result<(), StateError>) -> bool {
    match done {
        Ok(()) => true,
        Err(error @ (StateError::Unavailable(_) | StateError::DiskFull(_))) => {
            tracing::warn!(%error, "{what}: retrying");
            false
        }
        Err(error) => {
            tracing::error!(%error, "{what}: giving up");
            true
        }
    }
}
