//! Retries while another process has a database locked.

use std::time::Duration;

use hermes_store::StoreError;
use tokio::time::Instant;

const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Retries until a deadline.
#[derive(Debug)]
pub(crate) struct LockRetry {
    deadline: Instant,
}

impl LockRetry {
    pub(crate) fn new() -> Self {
        Self {
            deadline: Instant::now() + LOCK_TIMEOUT,
        }
    }

    /// Whether to retry after this error; pauses if so.
    pub(crate) async fn wait_to_retry(&self, error: &StoreError) -> bool {
        let is_worth_it =
            matches!(error, StoreError::Locked { .. }) && Instant::now() < self.deadline;
        if is_worth_it {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        is_worth_it
    }
}
