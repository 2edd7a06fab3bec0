//! Sessions in use, one turn at a time in each, with their open conversations between turns; and the limit of parallel turns.

use std::{
    cmp::Reverse,
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::Context,
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, MaybeDone, maybe_done};
use hermes_agent::conversation::{Agent, BackgroundCommands, Conversation};
use hermes_config::sync::Mutex;
use hermes_store::SessionId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore, watch};

/// How long a conversation stays open after its last turn. Its background processes end with it.
const IDLE_TIMEOUT: Duration = Duration::from_mins(30);

/// Idle conversations that stay open.
const MAX_IDLE: usize = 32;

/// The memory that messages of idle conversations take, all together. Those used longest ago read theirs from the store
/// again: a long conversation, or one with pictures, must not count for ever.
const MAX_IDLE_BYTES: usize = 4 << 20;

/// The open conversation of a session, if there is one, for its one user.
pub(super) type HeldConversation = OwnedMutexGuard<Option<Conversation>>;

/// A session's slot. Its holder may run a turn; others wait in order.
pub(super) struct SessionSlot {
    conversation: Arc<AsyncMutex<Option<Conversation>>>,
    last_used: Mutex<SlotUse>,
    /// Those of the open conversation, for others while a turn goes on.
    commands: Mutex<BackgroundCommands>,
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
            conversation: Arc::default(),
            last_used: Mutex::new(SlotUse {
                at: Instant::now(),
                bytes: 0,
            }),
            commands: Mutex::default(),
        }
    }
}

impl SessionSlot {
    async fn acquire(&self) -> HeldConversation {
        self.conversation.clone().lock_owned().await
    }

    /// The same without waiting; `None` if it is in use.
    pub(super) fn try_acquire(&self) -> Option<HeldConversation> {
        self.conversation.clone().try_lock_owned().ok()
    }

    /// A turn has ended; its conversation is idle with messages of so many bytes.
    pub(super) fn touch(&self, bytes: usize) {
        *self.last_used.lock() = SlotUse {
            at: Instant::now(),
            bytes,
        };
    }

    /// The conversation of the slot is open.
    pub(super) fn set_commands(&self, commands: BackgroundCommands) {
        *self.commands.lock() = commands;
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

/// A run's place in the queue of its session.
pub(super) struct SessionQueueEntry {
    slot: Arc<SessionSlot>,
    held: Pin<Box<MaybeDone<BoxFuture<'static, HeldConversation>>>>,
}

impl SessionQueueEntry {
    fn join(slot: Arc<SessionSlot>) -> Self {
        let lock: BoxFuture<'static, HeldConversation> =
            Box::pin(slot.conversation.clone().lock_owned());
        let mut held = Box::pin(maybe_done(lock));
        // Asked once, it waits in order, whenever its task begins.
        let _ = held
            .as_mut()
            .poll(&mut Context::from_waker(std::task::Waker::noop()));
        Self { slot, held }
    }

    /// Waits until those before it are done.
    pub(super) async fn acquire(mut self) -> (Arc<SessionSlot>, HeldConversation) {
        self.held.as_mut().await;
        let held = match self.held.as_mut().take_output() {
            Some(held) => held,
            None => self.slot.acquire().await,
        };
        (self.slot, held)
    }
}

#[derive(Default)]
pub(super) struct SessionSlots {
    slots: Mutex<HashMap<SessionId, Arc<SessionSlot>>>,
}

impl SessionSlots {
    /// Takes the next place in the queue of a session.
    pub(super) fn join_queue(&self, session: &SessionId) -> SessionQueueEntry {
        let mut slots = self.slots.lock();
        SessionQueueEntry::join(slots.entry(session.clone()).or_default().clone())
    }

    /// The slot of a session that nobody uses or awaits. It stays in the table, so that others wait for its holder.
    pub(super) fn free_slot(&self, session: &SessionId) -> Option<Arc<SessionSlot>> {
        let mut slots = self.slots.lock();
        let slot = slots.entry(session.clone()).or_default();
        is_free(slot).then(|| slot.clone())
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

    pub(super) fn background_commands(&self, session: &SessionId) -> BackgroundCommands {
        let slots = self.slots.lock();
        let slot = slots.get(session);
        slot.map_or_else(BackgroundCommands::default, |slot| {
            slot.commands.lock().clone()
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
