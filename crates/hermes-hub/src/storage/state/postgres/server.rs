//! What is known of the server at the other end of all connections.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::sync::Mutex;

#[derive(Debug, Clone)]
pub(super) struct ServerLink {
    /// Whether a pooler lends a connection of the server for one transaction only.
    pub(super) is_pooled: bool,
    /// When a connection was last found to be of no more use.
    replaced_at: Arc<Mutex<Option<Instant>>>,
}

impl ServerLink {
    pub(super) fn new(is_pooled: bool) -> Self {
        Self {
            is_pooled,
            replaced_at: Arc::default(),
        }
    }

    /// The server is gone, or another one has taken its place: connections made so far are not used any more.
    pub(super) fn mark_replaced(&self) {
        *self.replaced_at.lock() = Some(Instant::now());
    }

    /// Whether a connection that was made so long ago may be used.
    pub(super) fn may_use(&self, age: Duration) -> bool {
        let replaced_at = *self.replaced_at.lock();
        replaced_at.is_none_or(|time| age < time.elapsed())
    }
}
