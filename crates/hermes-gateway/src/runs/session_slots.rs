//! Sessions in use, one turn at a time in each, with their open conversations between turns; and the limit of parallel turns.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_agent::conversation::{Agent, Conversation};
use hermes_config::sync::Mutex;
use hermes_store::SessionId;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, Semaphore, watch};

/// How long a conversation stays open after its last turn. Its background processes end with it.
const IDLE_TIMEOUT: Duration = Duration::from_mins(30);

/// Idle conversations that stay open.
const MAX_IDLE: usize = 32;

/// The memory that messages of idle conversations take, all together. Those used longest ago read theirs from the store
/// again: a long conversation, or one with pictures, must not count for ever.
const MAX_IDLE_BYTES: usize = 4 << 20;

/// A session's slot. Its holder may run a turn; others wait in order.
pub(super) struct SessionSlot {
    conversation: AsyncMutex<Option<Conversation>>,
    last_used: Mutex<SlotUse>,
}

#[derive(Debug, Clone, Copy)]
struct SlotUse {
    at: Instant,
    /// What the messages of its conversation took then.
    bytes: usize,
}

impl Default for SessionSlot {
    fn default() -> Self {
        Self {
            conversation: AsyncMutex::default(),
            last_used: Mutex::new(SlotUse {
                at: Instant::now(),
                bytes: 0,
            }),
        }
    }
}

impl SessionSlot {
    pub(super) async fn acquire(&self) -> MutexGuard<'_, Option<Conversation>> {
        self.conversation.lock().await
    }

    /// A turn has ended; its conversation is idle with messages of so many bytes.
    pub(super) fn touch(&self, bytes: usize) {
        *self.last_used.lock() = SlotUse {
            at: Instant::now(),
            bytes,
        };
    }

    fn last_used(&self) -> Instant {
        self.last_used.lock().at
    }

    /// Forgets the messages in memory, unless it is in use.
    fn forget_messages(&self) {
        if let Ok(mut conversation) = self.conversation.try_lock()
            && let Some(conversation) = &mut *conversation
        {
            conversation.forget_messages();
            self.last_used.lock().bytes = conversation.message_bytes();
        }
    }
}

#[derive(Default)]
pub(super) struct SessionSlots {
    slots: Mutex<HashMap<SessionId, Arc<SessionSlot>>>,
}

impl SessionSlots {
    pub(super) fn slot(&self, session: &SessionId) -> Arc<SessionSlot> {
        let mut slots = self.slots.lock();
        slots.entry(session.clone()).or_default().clone()
    }

    /// Closes conversations that are idle for too long, and the oldest ones above the limit.
    pub(super) async fn clear_idle(&self) {
        let mut last = self.idle_since();
        last.sort_unstable_by(|one, two| two.cmp(one));
        let oldest = last.get(MAX_IDLE).copied();
        let is_old = |used: Instant| {
            used.elapsed() >= IDLE_TIMEOUT || oldest.is_some_and(|oldest| used <= oldest)
        };
        self.clear(|slot| is_free(slot) && is_old(slot.last_used()))
            .await;
        self.limit_memory();
    }

    /// Keeps the messages of the idle conversations that were used last, as many as there is room for.
    fn limit_memory(&self) {
        let slots = self.slots.lock();
        let mut idle: Vec<(SlotUse, &Arc<SessionSlot>)> = slots
            .values()
            .filter(|slot| is_free(slot))
            .map(|slot| (*slot.last_used.lock(), slot))
            .collect();
        idle.sort_unstable_by_key(|(used, _)| Reverse(used.at));
        let mut kept = 0;
        for (used, slot) in idle {
            kept += used.bytes;
            if kept > MAX_IDLE_BYTES && used.bytes > 0 {
                slot.forget_messages();
                kept -= used.bytes;
            }
        }
    }

    /// The last use of each idle conversation.
    fn idle_since(&self) -> Vec<Instant> {
        let slots = self.slots.lock();
        let free = slots.values().filter(|slot| is_free(slot));
        free.map(|slot| slot.last_used()).collect()
    }

    /// Whether a session is in use, or a background process of it runs.
    pub(super) fn has_processes(&self, session: &SessionId) -> bool {
        let slot = self.slots.lock().get(session).cloned();
        slot.is_some_and(|slot| match slot.conversation.try_lock() {
            Ok(conversation) => conversation
                .as_ref()
                .is_some_and(Conversation::has_background_process),
            Err(_) => true,
        })
    }

    /// Closes the conversation of one session, unless it is in use.
    pub(super) async fn release(&self, session: &SessionId) {
        let slot = {
            let mut slots = self.slots.lock();
            match slots.get(session) {
                Some(slot) if is_free(slot) => slots.remove(session),
                _ => None,
            }
        };
        if let Some(slot) = slot
            && let Some(conversation) = slot.acquire().await.take()
        {
            conversation.detach().await;
        }
    }

    /// Closes all conversations, waiting for active turns.
    pub(super) async fn clear_all(&self) {
        self.clear(|_| true).await;
    }

    async fn clear(&self, is_due: impl Fn(&Arc<SessionSlot>) -> bool) {
        let due: Vec<Arc<SessionSlot>> = {
            let mut slots = self.slots.lock();
            slots
                .extract_if(|_, slot| is_due(slot))
                .map(|(_, slot)| slot)
                .collect()
        };
        for slot in due {
            let conversation = slot.acquire().await.take();
            if let Some(conversation) = conversation {
                conversation.detach().await;
            }
        }
    }
}

/// Whether it is neither used nor awaited.
fn is_free(slot: &Arc<SessionSlot>) -> bool {
    Arc::strong_count(slot) == 1
}

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
