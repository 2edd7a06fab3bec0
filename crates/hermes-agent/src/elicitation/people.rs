//! Finds the user interface of the conversation that a request belongs to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hermes_mcp::inquiry::Conversation;
use tokio::sync::Semaphore;

use super::Person;

/// The elicitation modes that a user interface supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ways {
    pub forms: bool,
    pub links: bool,
}

impl Ways {
    pub const ALL: Self = Self {
        forms: true,
        links: true,
    };
}

/// The registered user interfaces, by conversation.
#[derive(Default)]
pub struct People {
    ways: Ways,
    seats: Mutex<HashMap<Conversation, Seat>>,
}

#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) person: Arc<dyn Person>,
    /// One request at a time: a screen shows one form.
    pub(crate) turn: Arc<Semaphore>,
}

impl People {
    /// Supports nothing and registers nobody.
    pub fn nobody() -> Arc<Self> {
        Arc::default()
    }

    /// Supports these modes; user interfaces register later.
    pub fn new(ways: Ways) -> Arc<Self> {
        Arc::new(Self {
            ways,
            seats: Mutex::default(),
        })
    }

    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// Registers the user interface of a conversation until the returned guard is dropped.
    #[must_use]
    pub fn join(self: &Arc<Self>, conversation: Conversation, person: Arc<dyn Person>) -> Presence {
        let seat = Seat {
            person,
            turn: Arc::new(Semaphore::new(1)),
        };
        let turn = Arc::clone(&seat.turn);
        self.lock().insert(conversation.clone(), seat);
        Presence {
            people: Arc::clone(self),
            conversation,
            turn,
        }
    }

    /// The user interface of a conversation. A request without a conversation goes to the only one there is.
    pub(crate) fn find(&self, conversation: Option<&Conversation>) -> Option<Seat> {
        let seats = self.lock();
        match conversation {
            Some(conversation) => seats.get(conversation).cloned(),
            None if seats.len() == 1 => seats.values().next().cloned(),
            None => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Conversation, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unregisters when dropped.
pub struct Presence {
    people: Arc<People>,
    conversation: Conversation,
    turn: Arc<Semaphore>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut seats = self.people.lock();
        // Another registration may have replaced this one.
        if seats
            .get(&self.conversation)
            .is_some_and(|seat| Arc::ptr_eq(&seat.turn, &self.turn))
        {
            seats.remove(&self.conversation);
        }
    }
}
