//! Entries of reads, written together: they need not wait for the disk one by one.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::NewEntry;
use crate::state::State;

/// How long an entry waits for others.
const PATIENCE: Duration = Duration::from_millis(50);
/// What may wait while the log can not be written. About what a busy second brings.
const ROOM: usize = 16_384;
/// Written in one transaction, so that a change does not wait long behind them.
const MOST_AT_ONCE: usize = 1_000;

/// Takes the entries of reads and writes them every few milliseconds.
#[derive(Debug)]
pub struct ReadEntries {
    sender: mpsc::Sender<NewEntry>,
    task: JoinSet<()>,
}

impl ReadEntries {
    /// Begins to take entries.
    pub fn new(state: Arc<dyn State>) -> Self {
        let (sender, receiver) = mpsc::channel(ROOM);
        let mut task = JoinSet::new();
        task.spawn(write(state, receiver));
        Self { sender, task }
    }

    /// Takes an entry. A read goes on even if the log is full: the entry is lost, and its loss logged.
    pub fn push(&self, entry: NewEntry) {
        if let Err(error) = self.sender.try_send(entry) {
            tracing::error!("an audit entry of a read was lost: {error}");
        }
    }

    /// Writes what waits and ends.
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
            tracing::error!("{count} audit entries of reads were lost: {error}");
        }
    }
}
