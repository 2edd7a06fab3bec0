//! Who is asked: the person of the conversation that a question belongs to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hermes_mcp::inquiry::Conversation;
use tokio::sync::Semaphore;

use super::Person;

/// What people can be asked at all on a surface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ways {
    /// Forms can be filled in.
    pub forms: bool,
    /// Addresses can be visited.
    pub links: bool,
}

impl Ways {
    /// Forms and addresses.
    pub const ALL: Self = Self {
        forms: true,
        links: true,
    };
}

/// The people who can be asked, by conversation.
#[derive(Default)]
pub struct People {
    ways: Ways,
    seats: Mutex<HashMap<Conversation, Seat>>,
}

/// A person's place in a conversation.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) person: Arc<dyn Person>,
    /// One question at a time: two forms on one screen are none.
    pub(crate) turn: Arc<Semaphore>,
}

impl People {
    /// Nobody is there, and nobody will come.
    pub fn nobody() -> Arc<Self> {
        Arc::default()
    }

    /// People will come, and can be asked in these ways.
    pub fn new(ways: Ways) -> Arc<Self> {
        Arc::new(Self {
            ways,
            seats: Mutex::default(),
        })
    }

    /// What can be asked.
    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// A person takes their place in a conversation, until the returned guard is dropped.
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

    /// Who is asked in a conversation. A question that belongs to none goes to the only person there is.
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

/// A person's presence in a conversation; dropped, they are gone.
pub struct Presence {
    people: Arc<People>,
    conversation: Conversation,
    turn: Arc<Semaphore>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut seats = self.people.lock();
        // Somebody else may have taken the place meanwhile.
        if seats
            .get(&self.conversation)
            .is_some_and(|seat| Arc::ptr_eq(&seat.turn, &self.turn))
        {
            seats.remove(&self.conversation);
        }
    }
}
