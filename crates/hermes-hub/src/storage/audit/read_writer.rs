//! Audit entries of reads, written in batches: a read does not wait for the disk.

use std::{sync::Arc, time::Duration};

use hermes_config::sync::{Mutex, MutexGuard};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::NewAuditEntry;
use crate::storage::state::State;

const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// Entries that may be queued while the log cannot be written: about one busy second.
const QUEUE_CAPACITY: usize = 16_384;
/// Most entries of one transaction, so that a change does not wait long behind it.
const MAX_BATCH: usize = 1_000;

/// Queues the entries of reads and writes them every few milliseconds.
#[derive(Debug)]
pub struct ReadAuditWriter(Mutex<Option<WriterTask>>);

#[derive(Debug)]
struct WriterTask {
    sender: mpsc::Sender<NewAuditEntry>,
    task: JoinSet<()>,
}

impl ReadAuditWriter {
    pub fn new(state: Arc<dyn State>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let mut task = JoinSet::new();
        task.spawn(write_batches(state, receiver));
        Self(Mutex::new(Some(WriterTask { sender, task })))
    }

    /// Queues an entry. If the queue is full, the read still succeeds; the entry is lost, which is logged.
    pub fn push(&self, entry: NewAuditEntry) {
        if let Some(writer) = &*self.lock() {
            if let Err(error) = writer.sender.try_send(entry) {
                tracing::error!(%error, "audit entry of a read lost: the queue is full");
            }
        } else {
            tracing::warn!("audit entry dropped: the writer is closed");
        }
    }

    /// Writes queued entries and stops.
    pub async fn close(&self) {
        let Some(WriterTask { sender, mut task }) = self.lock().take() else {
            return;
        };
        drop(sender);
        while task.join_next().await.is_some() {}
    }

    fn lock(&self) -> MutexGuard<'_, Option<WriterTask>> {
        self.0.lock()
    }
}

async fn write_batches(state: Arc<dyn State>, mut receiver: mpsc::Receiver<NewAuditEntry>) {
    let mut entries = Vec::new();
    while receiver.recv_many(&mut entries, MAX_BATCH).await > 0 {
        if entries.len() < MAX_BATCH {
            sleep(FLUSH_INTERVAL).await;
            while entries.len() < MAX_BATCH
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
