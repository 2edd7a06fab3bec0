//! Questions of MCP servers to people: a form to fill in, or a page to visit.
//!
//! A server's schema becomes a [`Form`], which every surface can show and check answers with. Who is asked is decided by
//! [`People`]: the person of the conversation whose call caused the question. All texts are cleaned of whatever could
//! steer a terminal.

use futures::future::BoxFuture;
use hermes_config::ServerName;
use serde_json::{Map, Value};

mod by_approval;
mod check;
mod form;
mod people;
mod sensitive;

pub use by_approval::ByApproval;
pub use check::Invalid;
pub use form::{Choice, Field, FieldKind, Form, Format, UnreadableForm};
pub use people::{People, Presence, Ways};

/// A form that a server wants filled in.
#[derive(Debug, Clone)]
pub struct FormRequest {
    /// Who asks.
    pub server: ServerName,
    /// What for.
    pub message: String,
    /// The fields.
    pub form: Form,
}

/// A page that a server wants visited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRequest {
    /// Who asks.
    pub server: ServerName,
    /// What for.
    pub message: String,
    /// The address. Nobody has opened or fetched it.
    pub url: String,
    /// Where it leads.
    pub host: String,
}

/// What a person makes of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// They agree.
    Accepted(T),
    /// They refuse.
    Declined,
    /// They leave without a decision.
    Cancelled,
}

/// Why a person could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAsked(pub String);

/// Somebody in a conversation who can be asked: at a terminal, in a chat.
pub trait Person: Send + Sync {
    /// Shows a form and waits for the answers. Dropped when the time is up.
    fn fill_in(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<Answer<Map<String, Value>>, NotAsked>>;

    /// Shows an address and asks for consent; with it, the page is opened where that is possible.
    fn visit(&self, request: LinkRequest) -> BoxFuture<'_, Result<Answer<()>, NotAsked>>;
}

#[cfg(test)]
mod tests;
