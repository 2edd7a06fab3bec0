//! Audit entries of reads, written in batches: a read does not wait for the disk.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::NewEntry;
use crate::state::State;

const PATIENCE: Duration = Duration::from_millis(50);
/// Entries that may be queued while the log cannot be written: about one busy second.
const ROOM: usize = 16_384;
/// Most entries of one transaction, so that a change does not wait long behind it.
const MOST_AT_ONCE: usize = 1_000;

/// Queues the entries of reads and writes them every few milliseconds.
#[derive(Debug)]
pub struct ReadEntries {
    sender: mpsc::Sender<NewEntry>,
    task: JoinSet<()>,
}

impl ReadEntries {
    pub fn new(state: Arc<dyn State>) -> Self {
        let (sender, receiver) = mpsc::channel(ROOM);
        let mut task = JoinSet::new();
        task.spawn(write(state, receiver));
        Self { sender, task }
    }

    /// Queues an entry. If the queue is full, the read still succeeds; the entry is lost, which is logged.
    pub fn push(&self, entry: NewEntry) {
        if let Err(error) = self.sender.try_send(entry) {
            tracing::error!(%error, "audit entry of a read lost: the queue is full");
        }
    }

    /// Writes queued entries and stops.
    pub async fn close(self) {
        let Self { sender, mut task } = self;
        drop(sender);
        while task.join_next().await.is_some() {}
    }
}

async fn write(state: Arc<dyn State>, mut receiver: mpsc::Receiver<NewEntry>) {
    let mut entries = Vec::new();
    while receiver.recv_many(&mut entries, MOST_AT_ONCE).await > 0 {
        if entries.len() < MOST_AT_ONCE {
            sleep(PATIENCE).await;
            while entries.len() < MOST_AT_ONCE
                && let Ok(entry) = receiver.try_recv()
            {
                entries.push(entry);
            }
        }
        let count = entries.len();
        if let Err(error) = state.append_audit(std::mem::take(&mut entries)).await {
            tracing::error!(count, %error, "audit entries of reads lost");
        }
    }
}
