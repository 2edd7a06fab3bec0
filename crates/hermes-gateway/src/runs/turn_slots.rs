//! Limits parallel turns to the configured number and the operator's policy. First come, first served.

use std::time::Duration;

use hermes_agent::conversation::Agent;
use tokio::sync::{Semaphore, watch};

/// How often to check whether the policy allows more turns.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct TurnSlots {
    agent: Agent,
    configured: usize,
    /// The first waits for a free slot, the others for the first.
    queue: Semaphore,
    in_use: watch::Sender<usize>,
}

/// A used slot, released when dropped.
pub(super) struct TurnPermit<'a>(&'a TurnSlots);

impl TurnSlots {
    pub(super) fn new(agent: Agent, wanted: usize) -> Self {
        Self {
            agent,
            configured: wanted,
            queue: Semaphore::new(1),
            in_use: watch::Sender::new(0),
        }
    }

    pub(super) fn in_use(&self) -> usize {
        *self.in_use.borrow()
    }

    pub(super) async fn acquire(&self) -> TurnPermit<'_> {
        let _first = self.queue.acquire().await;
        let mut changes = self.in_use.subscribe();
        loop {
            let most = self.agent.policy().max_concurrent_runs(self.configured);
            let is_taken = self.in_use.send_if_modified(|busy| {
                let has_room = *busy < most;
                *busy += usize::from(has_room);
                has_room
            });
            if is_taken {
                return TurnPermit(self);
            }
            let _ = tokio::time::timeout(POLL_INTERVAL, changes.changed()).await;
        }
    }
}

impl Drop for TurnPermit<'_> {
    fn drop(&mut self) {
        self.0.in_use.send_modify(|busy| *busy -= 1);
    }
}
