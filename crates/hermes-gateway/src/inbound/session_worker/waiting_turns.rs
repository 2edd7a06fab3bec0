//! What goes on in a conversation, and what waits in it. Its worker, its commands and its turn share this.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hermes_agent::message::Content;
use hermes_config::sync::Mutex;
use hermes_store::SessionId;
use tokio::{sync::Notify, time::Instant};

use super::turn_handle::TurnHandle;
use crate::inbound::{InboundCore, session_worker::WorkerInput};

/// Pictures of an album come as messages of their own; after so long without another one it is complete.
pub(in crate::inbound) const ALBUM_QUIET: Duration = Duration::from_millis(1500);
/// Turns that wait in memory. Further messages stay in the inbox until there is room.
pub(in crate::inbound) const MAX_WAITING_TURNS: usize = 1000;

/// What one turn will answer.
pub(in crate::inbound) struct WaitingTurn {
    /// Several for an album.
    pub(in crate::inbound) inputs: Vec<WorkerInput>,
    /// What is said instead of what the inputs say.
    pub(in crate::inbound) content: Option<Content>,
    /// The session, if it is not the one of the chat.
    pub(in crate::inbound) session: Option<SessionId>,
    /// An album that may grow until then.
    pub(in crate::inbound) album: Option<(String, Instant)>,
    pub(in crate::inbound) joining: MergePolicy,
}

/// Whether what waits may become part of the turn that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) enum MergePolicy {
    Allowed,
    /// It has a turn of its own.
    Never,
}

impl WaitingTurn {
    pub(in crate::inbound) fn new(input: WorkerInput) -> Self {
        Self {
            // What was begun before is looked up in the store first.
            joining: match input.attempts {
                0 => MergePolicy::Allowed,
                _ => MergePolicy::Never,
            },
            inputs: vec![input],
            content: None,
            session: None,
            album: None,
        }
    }

    fn is_ready(&self) -> bool {
        let album = self.album.as_ref();
        album.is_none_or(|(_, until)| *until <= Instant::now())
    }

    fn may_join(&self) -> bool {
        self.joining == MergePolicy::Allowed
            && self.content.is_none()
            && self.session.is_none()
            && self.is_ready()
    }
}

#[derive(Default)]
pub(in crate::inbound) struct WorkerState {
    current: Mutex<Option<Arc<TurnHandle>>>,
    waiting: Mutex<VecDeque<WaitingTurn>>,
    /// Events that are in the inbox because there was no room.
    deferred: AtomicUsize,
    /// Those of them that were read and are not dealt with yet.
    taken_up: Mutex<VecDeque<WorkerInput>>,
    /// There may be something to take up, or room for it.
    deferred_changed: Notify,
}

impl WorkerState {
    pub(in crate::inbound) fn set_current(&self, turn: Option<Arc<TurnHandle>>) {
        *self.current.lock() = turn;
    }

    /// Stops the turn that goes on. Returns whether there was one.
    pub(in crate::inbound) fn stop_turn(&self, core: &InboundCore) -> bool {
        let current = self.current.lock().clone();
        if let Some(current) = &current {
            current.stop(core.gateway.runs());
        }
        current.is_some()
    }

    pub(in crate::inbound) fn is_busy(&self) -> bool {
        self.current.lock().is_some()
    }

    /// The turns that wait in memory.
    pub(in crate::inbound) fn waiting_count(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Everything that waits, in memory and in the inbox.
    pub(in crate::inbound) fn queue_length(&self) -> usize {
        self.waiting_count() + self.deferred_count()
    }

    /// Adds a turn. Returns its place; 1 is the next.
    pub(in crate::inbound) fn push(&self, turn: WaitingTurn) -> usize {
        let mut waiting = self.waiting.lock();
        waiting.push_back(turn);
        waiting.len()
    }

    /// Takes everything that waits in memory.
    pub(in crate::inbound) fn take_waiting(&self) -> Vec<WaitingTurn> {
        self.waiting.lock().drain(..).collect()
    }

    /// Takes what may join the turn that goes on.
    pub(in crate::inbound) fn take_joinable(&self) -> Vec<WaitingTurn> {
        let mut waiting = self.waiting.lock();
        let (joining, others): (VecDeque<_>, VecDeque<_>) =
            waiting.drain(..).partition(WaitingTurn::may_join);
        *waiting = others;
        drop(waiting);
        self.deferred_changed.notify_one();
        joining.into()
    }

    pub(in crate::inbound) fn take_ready(&self) -> Option<WaitingTurn> {
        let mut waiting = self.waiting.lock();
        if !waiting.front()?.is_ready() {
            return None;
        }
        waiting.pop_front()
    }

    /// Adds a picture to the album that waits last, if it belongs there.
    pub(in crate::inbound) fn add_to_album(
        &self,
        input: WorkerInput,
    ) -> Result<(), Box<WorkerInput>> {
        let album = input
            .message()
            .and_then(|message| message.album_id.as_ref());
        let mut waiting = self.waiting.lock();
        match (album, waiting.back_mut()) {
            (
                Some(album),
                Some(WaitingTurn {
                    album: Some((last, until)),
                    inputs,
                    ..
                }),
            ) if last == album => {
                *until = Instant::now() + ALBUM_QUIET;
                inputs.push(input);
                Ok(())
            }
            _ => Err(Box::new(input)),
        }
    }

    /// When the album that waits first is complete.
    pub(in crate::inbound) fn album_end(&self) -> Option<Instant> {
        let waiting = self.waiting.lock();
        Some(waiting.front()?.album.as_ref()?.1)
    }

    /// Whether a message has to stay in the inbox: there is no room, or others that came before it are there.
    pub(in crate::inbound) fn is_full(&self) -> bool {
        self.deferred_count() > 0 || self.waiting_count() >= MAX_WAITING_TURNS
    }

    pub(in crate::inbound) fn deferred_count(&self) -> usize {
        self.deferred.load(Ordering::Acquire)
    }

    /// One more event is left in the inbox.
    pub(in crate::inbound) fn count_deferred(&self) {
        self.deferred.fetch_add(1, Ordering::AcqRel);
    }

    /// So many of them have been dealt with.
    pub(in crate::inbound) fn discount_deferred(&self, count: usize) {
        let less = |deferred: usize| Some(deferred.saturating_sub(count));
        // It always returns a number.
        let _ = self
            .deferred
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    pub(in crate::inbound) fn announce_deferred(&self) {
        self.deferred_changed.notify_one();
    }

    /// Resolves when there may be something to take up, or room for it.
    pub(in crate::inbound) async fn wait_for_deferred(&self) {
        self.deferred_changed.notified().await;
    }

    pub(in crate::inbound) fn add_taken_up(&self, inputs: Vec<WorkerInput>) {
        self.taken_up.lock().extend(inputs);
    }

    pub(in crate::inbound) fn next_taken_up(&self) -> Option<WorkerInput> {
        self.taken_up.lock().pop_front()
    }

    pub(in crate::inbound) fn drop_taken_up(&self) -> Vec<WorkerInput> {
        self.taken_up.lock().drain(..).collect()
    }
}
