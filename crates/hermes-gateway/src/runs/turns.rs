//! Free turns: so many go on side by side as the settings want and an operator leaves. Who waits longest is next.

use std::time::Duration;

use hermes_agent::conversation::Agent;
use tokio::sync::{Semaphore, watch};

/// How often to look whether an operator leaves more than before.
const ROUND: Duration = Duration::from_secs(1);

pub(super) struct Turns {
    agent: Agent,
    wanted: usize,
    /// One waits for a free turn, the others for that one.
    first: Semaphore,
    busy: watch::Sender<usize>,
}

/// A turn that is taken, until it is dropped.
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

    /// How many are taken.
    pub(super) fn busy(&self) -> usize {
        *self.busy.borrow()
    }

    /// Waits for a free one.
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
