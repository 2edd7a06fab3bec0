//! Tracks how long a turn has been idle.

use std::{sync::Arc, time::Duration};

use hermes_config::sync::Mutex;
use tokio::time::Instant;

/// The time of the last activity. Clones share it.
#[derive(Debug, Clone)]
pub struct Activity(Arc<Mutex<Instant>>);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Activity {
    pub fn touch(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Resolves after this long without activity; never without a limit.
    pub async fn wait_for_idle(&self, patience: Option<Duration>) {
        let Some(patience) = patience else {
            return std::future::pending().await;
        };
        loop {
            let last = *self.0.lock();
            let end = last + patience;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}
