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

/// A session's place. Whoever holds it may run a turn; others wait in the order they came.
#[derive(Default)]
pub(super) struct Seat {
    conversation: AsyncMutex<Option<Conversation>>,
    used: Mutex<Option<Instant>>,
}

impl Seat {
    /// Waits for the turns before.
    pub(super) async fn take(&self) -> MutexGuard<'_, Option<Conversation>> {
        self.conversation.lock().await
    }

    /// Notes that a turn has ended.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_idle(&self) -> bool {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.is_some_and(|used| used.elapsed() >= IDLE)
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

    /// Lets go of conversations that nobody has used for a while.
    pub(super) async fn clear_idle(&self) {
        self.clear(|seat| Arc::strong_count(seat) == 1 && seat.is_idle())
            .await;
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
