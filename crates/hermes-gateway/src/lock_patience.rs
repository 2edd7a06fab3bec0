//! How long a database is waited for that another process keeps locked.

use std::time::Duration;

use hermes_store::StoreError;
use tokio::time::Instant;

const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// How long to pause before it is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How long a lock is waited for.
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

    /// Whether to try again after this error; pauses if so.
    pub(crate) async fn goes_on(&self, error: &StoreError) -> bool {
        let is_worth_it = matches!(error, StoreError::Locked { .. }) && Instant::now() < self.until;
        if is_worth_it {
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        is_worth_it
    }
}
