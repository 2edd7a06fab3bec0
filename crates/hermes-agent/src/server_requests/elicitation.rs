//! Elicitation: MCP servers ask people to fill in a form or to open a link.
//!
//! A server's schema becomes a [`Form`], which every user interface can show and validate. [`ElicitationRegistry`] finds the user
//! interface of the conversation whose call caused the request. All texts are cleaned of characters that could
//! control a terminal.

use futures::future::BoxFuture;
use hermes_config::ServerName;
use serde_json::{Map, Value};

mod approval_ui;
mod check;
mod form;
mod registry;

pub use crate::server_requests::elicitation::{
    approval_ui::ApprovalElicitationUi,
    registry::{ElicitationModes, ElicitationRegistration, ElicitationRegistry},
};
pub use check::FieldError;
pub use form::{FieldKind, Form, FormChoice, FormField, FormSchemaError, TextFormat};

/// A server's request to fill in a form.
#[derive(Debug, Clone)]
pub struct FormRequest {
    pub server: ServerName,
    pub message: String,
    pub form: Form,
}

/// A server's request to open a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRequest {
    pub server: ServerName,
    pub message: String,
    /// Not opened or fetched yet.
    pub url: String,
    pub host: String,
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
