//! The sessions in use: one turn at a time in each, and their open conversations between turns.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hermes_agent::conversation::Conversation;
use hermes_store::SessionId;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

/// How long a conversation stays open after its last turn. Its background processes end with it.
const IDLE: Duration = Duration::from_mins(30);

/// Idle conversations that stay open.
const MOST_IDLE: usize = 32;

/// A session's slot. Its holder may run a turn; others wait in order.
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
    pub(super) async fn take(&self) -> MutexGuard<'_, Option<Conversation>> {
        self.conversation.lock().await
    }

    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
pub(super) struct Seats {
    seats: Mutex<HashMap<SessionId, Arc<Seat>>>,
}

impl Seats {
    pub(super) fn seat(&self, session: &SessionId) -> Arc<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.entry(session.clone()).or_default().clone()
    }

    /// Closes conversations that are idle for too long, and the oldest ones above the limit.
    pub(super) async fn clear_idle(&self) {
        let mut last = self.idle_since();
        last.sort_unstable_by(|one, two| two.cmp(one));
        let oldest = last.get(MOST_IDLE).copied();
        let is_old =
            |used: Instant| used.elapsed() >= IDLE || oldest.is_some_and(|oldest| used <= oldest);
        self.clear(|seat| is_free(seat) && is_old(seat.used()))
            .await;
    }

    /// The last use of each idle conversation.
    fn idle_since(&self) -> Vec<Instant> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let free = seats.values().filter(|seat| is_free(seat));
        free.map(|seat| seat.used()).collect()
    }

    /// Closes all conversations, waiting for active turns.
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

/// Whether it is neither used nor awaited.
fn is_free(seat: &Arc<Seat>) -> bool {
    Arc::strong_count(seat) == 1
}
