//! Elicitation: MCP servers ask people to fill in a form or to open a link.
//!
//! A server's schema becomes a [`Form`], which every user interface can show and validate. [`ElicitationRegistry`] finds the user
//! interface of the conversation whose call caused the request. All texts are cleaned of characters that could
//! control a terminal.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{
    ServerName,
    sync::{Mutex, MutexGuard},
};
use hermes_mcp::server_request::ConversationId;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

mod approval_ui;
mod check;
mod form;

pub use crate::server_requests::elicitation::approval_ui::ApprovalElicitationUi;
pub use check::FieldError;
pub use form::{FieldKind, Form, FormChoice, FormField, FormSchemaError, TextFormat};

/// A server's request to fill in a form.
#[derive(Debug, Clone)]
pub struct FormRequest {
    pub server: ServerName,
    pub message: String,
    pub form: Form,
    /// How long a person is waited for.
    pub timeout: Duration,
}

/// A server's request to open a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRequest {
    pub server: ServerName,
    pub message: String,
    /// Not opened or fetched yet.
    pub url: String,
    pub host: String,
    /// How long a person is waited for.
    pub timeout: Duration,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElicitationAnswer<T> {
    Accepted(T),
    Declined,
    /// They leave without a decision.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ElicitationUnavailable(pub String);

/// Shows requests to the person of a conversation: at a terminal, in a chat.
pub trait ElicitationUi: Send + Sync {
    /// Shows a form and waits for the answers. Dropped on timeout.
    fn fill_form(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>>;

    /// Shows a URL and asks for consent; then the page is opened where that is possible.
    fn confirm_link(
        &self,
        request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>>;
}

#[cfg(test)]
mod tests;

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
    /// Cancelled when it is unregistered: then nobody is left to answer.
    pub(crate) closed: CancellationToken,
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
            closed: CancellationToken::new(),
        };
        let registration = ElicitationRegistration {
            registry: Arc::clone(self),
            conversation: conversation.clone(),
            question_permit: Arc::clone(&slot.question_permit),
            closed: slot.closed.clone(),
        };
        self.lock().insert(conversation, slot);
        registration
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

/// Unregisters when dropped. Questions that are open then are cancelled.
pub struct ElicitationRegistration {
    registry: Arc<ElicitationRegistry>,
    conversation: ConversationId,
    question_permit: Arc<Semaphore>,
    closed: CancellationToken,
}

impl Drop for ElicitationRegistration {
    fn drop(&mut self) {
        self.closed.cancel();
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
