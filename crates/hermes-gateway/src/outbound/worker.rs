//! The delivery worker: one task for each chat that has something to be sent.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hermes_config::sync::Mutex;
use hermes_store::runtime::OutboundChat;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Outbox, chat_delivery::ChatDelivery};

/// How often the store is asked for chats that nobody was woken for: queued by another process, or given up by a task that
/// failed.
const SCAN_INTERVAL: Duration = Duration::from_secs(30);
/// Chats that one scan starts.
const SCAN_LIMIT: u32 = 1000;
const PRUNE_INTERVAL: Duration = Duration::from_mins(10);
/// How long messages that were sent or failed are remembered.
const RETENTION: Duration = Duration::from_hours(7 * 24);
/// How long running posts may take to end when the worker stops.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The chats that have something new. A set, so that it is never longer than there are chats.
#[derive(Debug, Default)]
pub(super) struct WokenChats {
    chats: Mutex<HashSet<OutboundChat>>,
    notify: Notify,
}

impl WokenChats {
    pub(super) fn wake(&self, chat: OutboundChat) {
        self.chats.lock().insert(chat);
        self.notify.notify_one();
    }

    fn take(&self) -> HashSet<OutboundChat> {
        std::mem::take(&mut *self.chats.lock())
    }
}

impl Outbox {
    /// Delivers messages until `stop` is cancelled. Posts that are under way are waited for.
    pub async fn run(&self, stop: CancellationToken) {
        let inner = &self.inner;
        let mut deliveries = RunningDeliveries {
            outbox: self.clone(),
            stop: stop.clone(),
            tasks: JoinSet::new(),
            chats: HashMap::new(),
            running: HashMap::new(),
        };
        // What waits for another attempt waits in its task.
        self.find_inherited().await;
        deliveries.scan(f64::MAX).await;
        let mut scan = tokio::time::interval(SCAN_INTERVAL);
        let mut prune = tokio::time::interval(PRUNE_INTERVAL);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = inner.woken.notify.notified() => {
                    for chat in inner.woken.take() {
                        deliveries.start(chat);
                    }
                }
                Some(ended) = deliveries.tasks.join_next_with_id() => deliveries.record_end(ended),
                _ = scan.tick() => deliveries.scan(inner.clock.wall()).await,
                _ = prune.tick() => self.prune().await,
            }
        }
        deliveries.finish().await;
        inner.tasks.close();
        if tokio::time::timeout(STOP_GRACE, inner.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("answer previews did not end in time");
        }
        inner.tasks.reopen();
    }

    /// Finds out which messages an earlier process left, and may have sent.
    async fn find_inherited(&self) {
        match self.inner.runtime.last_outbound().await {
            Ok(id) => self.inner.last_inherited.store(id, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "outbox could not be read"),
        }
    }

    async fn prune(&self) {
        match self.inner.runtime.prune_outbound(RETENTION).await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "old messages pruned from the outbox"),
            Err(error) => tracing::warn!(%error, "outbox could not be pruned"),
        }
    }
}

/// The tasks of chats.
struct RunningDeliveries {
    outbox: Outbox,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    chats: HashMap<tokio::task::Id, OutboundChat>,
    running: HashMap<OutboundChat, RerunNeeded>,
}

/// Whether a chat got something while its task ran, which may have ended without noticing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RerunNeeded {
    No,
    Yes,
}

impl RunningDeliveries {
    fn start(&mut self, chat: OutboundChat) {
        if let Some(woken) = self.running.get_mut(&chat) {
            *woken = RerunNeeded::Yes;
            return;
        }
        let delivery = ChatDelivery {
            outbox: Arc::clone(&self.outbox.inner),
            chat: chat.clone(),
            stop: self.stop.clone(),
        };
        let task = self.tasks.spawn(delivery.run());
        self.chats.insert(task.id(), chat.clone());
        self.running.insert(chat, RerunNeeded::No);
    }

    /// Starts the chats that have something to be sent by then, in seconds since 1970, and no task.
    async fn scan(&mut self, due_by: f64) {
        let inner = Arc::clone(&self.outbox.inner);
        let due = async {
            // Claimed by an earlier process, or by a caller that was dropped.
            let held = inner.claims.keys();
            inner.runtime.release_claimed_outbound(&held).await?;
            inner.runtime.due_outbound(due_by, SCAN_LIMIT).await
        };
        match due.await {
            Ok(rows) => {
                for row in rows {
                    if !self.running.contains_key(&row.chat) {
                        self.start(row.chat);
                    }
                }
            }
            Err(error) => tracing::error!(%error, "outbox could not be read"),
        }
    }

    fn record_end(&mut self, ended: Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let (id, is_ok) = match ended {
            Ok((id, ())) => (id, true),
            Err(error) => {
                // The next scan starts it again.
                tracing::error!(%error, "delivery to a chat failed");
                (error.id(), false)
            }
        };
        if let Some(chat) = self.chats.remove(&id)
            && self.running.remove(&chat) == Some(RerunNeeded::Yes)
            && is_ok
        {
            self.start(chat);
        }
    }

    async fn finish(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_GRACE, all).await.is_err() {
            tracing::warn!("posts did not end in time");
            self.tasks.shutdown().await;
        }
    }
}
