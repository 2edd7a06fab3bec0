//! Retries while another process has a database locked.

use std::time::Duration;

use hermes_store::StoreError;
use tokio::time::Instant;

const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Retries until a deadline.
#[derive(Debug)]
pub(crate) struct LockPatience {
    until: Instant,
}

impl LockPatience {
    pub(crate) fn begin() -> Self {
        Self {
            until: Instant::now() + LOCK_PATIENCE,
        }
    }

    /// Whether to retry after this error; pauses if so.
    pub(crate) async fn goes_on(&self, error: &StoreError) -> bool {
        let is_worth_it = matches!(error, StoreError::Locked { .. }) && Instant::now() < self.until;
        if is_worth_it {
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        is_worth_it
    }
}
