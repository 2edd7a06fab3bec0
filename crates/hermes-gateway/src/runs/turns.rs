//! Limits parallel turns to the configured number and the operator's policy. First come, first served.

use std::time::Duration;

use hermes_agent::conversation::Agent;
use tokio::sync::{Semaphore, watch};

/// How often to check whether the policy allows more turns.
const ROUND: Duration = Duration::from_secs(1);

pub(super) struct Turns {
    agent: Agent,
    wanted: usize,
    /// The first waits for a free slot, the others for the first.
    first: Semaphore,
    busy: watch::Sender<usize>,
}

/// A used slot, released when dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) fn new(agent: Agent, wanted: usize) -> Self {
        Self {
            agent,
            wanted,
            first: Semaphore::new(1),
            busy: watch::Sender::new(0),
        }
    }

    pub(super) fn busy(&self) -> usize {
        *self.busy.borrow()
    }

    pub(super) async fn take(&self) -> Turn<'_> {
        let _first = self.first.acquire().await;
        let mut changes = self.busy.subscribe();
        loop {
            let most = self.agent.ceiling().concurrent_runs(self.wanted);
            let is_taken = self.busy.send_if_modified(|busy| {
                let has_room = *busy < most;
                *busy += usize::from(has_room);
                has_room
            });
            if is_taken {
                return Turn(self);
            }
            let _ = tokio::time::timeout(ROUND, changes.changed()).await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.send_modify(|busy| *busy -= 1);
    }
}
