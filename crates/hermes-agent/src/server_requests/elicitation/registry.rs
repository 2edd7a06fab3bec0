//! Finds the user interface of the conversation that a request belongs to.

use std::{collections::HashMap, sync::Arc};

use hermes_config::sync::{Mutex, MutexGuard};
use hermes_mcp::server_request::ConversationId;
use tokio::sync::Semaphore;

use super::ElicitationUi;

/// The elicitation modes that a user interface supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ElicitationModes {
    pub forms: bool,
    pub links: bool,
}

impl ElicitationModes {
    pub const ALL: Self = Self {
        forms: true,
        links: true,
    };
}

/// The registered user interfaces, by conversation.
#[derive(Default)]
pub struct ElicitationRegistry {
    modes: ElicitationModes,
    slots: Mutex<HashMap<ConversationId, ElicitationSlot>>,
}

#[derive(Clone)]
pub(crate) struct ElicitationSlot {
    pub(crate) ui: Arc<dyn ElicitationUi>,
    /// One request at a time: a screen shows one form.
    pub(crate) question_permit: Arc<Semaphore>,
}

impl ElicitationRegistry {
    /// Supports nothing and registers nobody.
    pub fn unavailable() -> Arc<Self> {
        Arc::default()
    }

    /// Supports these modes; user interfaces register later.
    pub fn new(ways: ElicitationModes) -> Arc<Self> {
        Arc::new(Self {
            modes: ways,
            slots: Mutex::default(),
        })
    }

    pub fn modes(&self) -> ElicitationModes {
        self.modes
    }

    /// Registers the user interface of a conversation until the returned guard is dropped.
    #[must_use]
    pub fn register(
        self: &Arc<Self>,
        conversation: ConversationId,
        person: Arc<dyn ElicitationUi>,
    ) -> ElicitationRegistration {
        let slot = ElicitationSlot {
            ui: person,
            question_permit: Arc::new(Semaphore::new(1)),
        };
        let turn = Arc::clone(&slot.question_permit);
        self.lock().insert(conversation.clone(), slot);
        ElicitationRegistration {
            registry: Arc::clone(self),
            conversation,
            question_permit: turn,
        }
    }

    /// The user interface of a conversation. A request without a conversation goes to the only one there is.
    pub(crate) fn find_slot(
        &self,
        conversation: Option<&ConversationId>,
    ) -> Option<ElicitationSlot> {
        let slots = self.lock();
        match conversation {
            Some(conversation) => slots.get(conversation).cloned(),
            None if slots.len() == 1 => slots.values().next().cloned(),
            None => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, ElicitationSlot>> {
        self.slots.lock()
    }
}

/// Unregisters when dropped.
pub struct ElicitationRegistration {
    registry: Arc<ElicitationRegistry>,
    conversation: ConversationId,
    question_permit: Arc<Semaphore>,
}

impl Drop for ElicitationRegistration {
    fn drop(&mut self) {
        let mut slots = self.registry.lock();
        // Another registration may have replaced this one.
        if slots
            .get(&self.conversation)
            .is_some_and(|slot| Arc::ptr_eq(&slot.question_permit, &self.question_permit))
        {
            slots.remove(&self.conversation);
        }
    }
}
