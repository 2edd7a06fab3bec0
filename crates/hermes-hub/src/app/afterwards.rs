//! What is left to do after a change was made, such as the end of its entry in the log. If the database does not answer
//! now, it is tried until it does: the caller is told of the change, not of what comes after it.

use std::time::Duration;

use super::Hub;
use crate::state::StateError;

/// How long to wait between attempts. Each attempt waits for the database itself, too.
const PAUSE: Duration = Duration::from_secs(1);

impl Hub {
    /// Does something now, or as soon as the database answers. If the Hub is killed before, its next start settles it.
    pub(crate) async fn see_to<W, F>(&self, what: &'static str, work: W)
    where
        W: Fn(Self) -> F + Send + 'static,
        F: Future<Output = Result<(), StateError>> + Send,
    {
        if is_settled(what, work(self.clone()).await) {
            return;
        }
        let hub = self.clone();
        self.work().spawn(async move {
            loop {
                let is_last = tokio::select! {
                    () = hub.stop().cancelled() => true,
                    () = tokio::time::sleep(PAUSE) => false,
                };
                if is_settled(what, work(hub.clone()).await) || is_last {
                    return;
                }
            }
        });
    }
}

/// Whether nothing is left to do: it is done, or never can be.
fn is_settled(what: &str, done: Result<(), StateError>) -> bool {
    match done {
        Ok(()) => true,
        Err(error @ (StateError::Unavailable(_) | StateError::DiskFull(_))) => {
            tracing::warn!(%error, "{what} has to wait");
            false
        }
        Err(error) => {
            tracing::error!(%error, "{what} is given up");
            true
        }
    }
}
