//! The sessions that are in use: one turn at a time in each, and what they keep between turns.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hermes_agent::conversation::Conversation;
use hermes_store::SessionId;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

/// How long a conversation stays at hand after its last turn. Its background processes end with it.
const IDLE: Duration = Duration::from_mins(30);

/// So many conversations stay at hand at most.
const MOST_IDLE: usize = 32;

/// A session's place. Whoever holds it may run a turn; others wait in the order they came.
pub(super) struct Seat {
    conversation: AsyncMutex<Option<Conversation>>,
    used: Mutex<Instant>,
}

impl Default for Seat {
    fn default() -> Self {
        Self {
            conversation: AsyncMutex::default(),
            used: Mutex::new(Instant::now()),
        }
    }
}

impl Seat {
    /// Waits for the turns before.
    pub(super) async fn take(&self) -> MutexGuard<'_, Option<Conversation>> {
        self.conversation.lock().await
    }

    /// Notes that a turn has ended.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All sessions in use.
#[derive(Default)]
pub(super) struct Seats {
    seats: Mutex<HashMap<SessionId, Arc<Seat>>>,
}

impl Seats {
    /// The place of a session.
    pub(super) fn seat(&self, session: &SessionId) -> Arc<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.entry(session.clone()).or_default().clone()
    }

    /// Lets go of conversations that nobody has used for a while, and of the oldest where there are many.
    pub(super) async fn clear_idle(&self) {
        let mut last = self.idle_since();
        last.sort_unstable_by(|one, two| two.cmp(one));
        let oldest = last.get(MOST_IDLE).copied();
        let is_old =
            |used: Instant| used.elapsed() >= IDLE || oldest.is_some_and(|oldest| used <= oldest);
        self.clear(|seat| is_free(seat) && is_old(seat.used()))
            .await;
    }

    /// When those were used last that nobody uses now.
    fn idle_since(&self) -> Vec<Instant> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let free = seats.values().filter(|seat| is_free(seat));
        free.map(|seat| seat.used()).collect()
    }

    /// Lets go of all conversations, waiting for turns that still run.
    pub(super) async fn clear_all(&self) {
        self.clear(|_| true).await;
    }

    async fn clear(&self, is_due: impl Fn(&Arc<Seat>) -> bool) {
        let due: Vec<Arc<Seat>> = {
            let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
            seats
                .extract_if(|_, seat| is_due(seat))
                .map(|(_, seat)| seat)
                .collect()
        };
        for seat in due {
            let conversation = seat.take().await.take();
            if let Some(conversation) = conversation {
                conversation.leave().await;
            }
        }
    }
}

/// Whether nobody uses it or waits for it.
fn is_free(seat: &Arc<Seat>) -> bool {
    Arc::strong_count(seat) == 1
}
