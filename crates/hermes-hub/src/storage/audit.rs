//! Entries of the audit log and their hash chain; those of reads are written in batches, so that a read does not wait
//! for the disk.
//!
//! Each node writes a chain of its own. The hash of an entry is SHA-256 over the 32 bytes of the previous hash and the
//! canonical JSON (RFC 8785) of the entry without its own hash, so that no entry can be changed, removed or inserted
//! without breaking all later ones.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::sync::{Mutex, MutexGuard};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use crate::{
    TenantId,
    api_types::{Decision, Via},
    storage::state::{IdempotencyKey, State},
};

#[cfg(test)]
mod canonical;

pub(crate) mod chain;

pub use chain::{ChainPosition, ORIGIN_HASH};

const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// Entries that may be queued while the log cannot be written: about one busy second.
const QUEUE_CAPACITY: usize = 16_384;
/// Most entries of one transaction, so that a change does not wait long behind it.
const MAX_BATCH: usize = 1_000;

/// A new entry, without its position in the chain.
#[derive(Debug, Clone)]
pub struct NewAuditEntry {
    /// Which token or tenant, or `hub`.
    pub actor: String,
    pub via: Via,
    /// The name of the operation.
    pub action: String,
    pub tenant: Option<String>,
    /// A name, or `group:path`; never a value.
    pub target: Option<String>,
    pub arg_names: Vec<String>,
    /// Of the written content.
    pub content_sha256: Option<String>,
    /// Of the written content, in bytes.
    pub size: Option<u64>,
    pub decision: Decision,
    pub status: u16,
    /// When the request arrived, to compute its duration.
    pub started: Instant,
    pub request_id: String,
    /// The idempotency key that takes effect with this entry.
    pub idempotency: Option<IdempotencyKey>,
}

impl NewAuditEntry {
    /// An allowed request with status 200.
    pub fn new(actor: impl Into<String>, via: Via, action: impl Into<String>) -> Self {
        Self {
            actor: actor.into(),
            via,
            action: action.into(),
            tenant: None,
            target: None,
            arg_names: Vec::new(),
            content_sha256: None,
            size: None,
            decision: Decision::Allow,
            status: 200,
            started: Instant::now(),
            request_id: String::new(),
            idempotency: None,
        }
    }

    /// An action of the Hub itself.
    pub fn by_hub(action: impl Into<String>) -> Self {
        Self::new("hub", Via::Hub, action)
    }

    #[must_use]
    pub fn for_tenant(mut self, tenant: &TenantId) -> Self {
        self.tenant = Some(tenant.to_string());
        self
    }

    #[must_use]
    pub fn with_target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    #[must_use]
    pub fn denied(mut self, status: u16) -> Self {
        self.decision = Decision::Deny;
        self.status = status;
        self
    }
}

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
