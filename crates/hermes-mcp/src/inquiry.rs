//! Requests of a server to its client while a call runs: sampling, elicitation, roots.
//!
//! Both protocol eras lead here: requests that a legacy server sends, and `input_required` results of the stateless
//! revision. The agent implements [`Inquiries`]; without one, nothing is offered and nothing is asked.

#![expect(
    deprecated,
    reason = "sampling and roots are still spoken by servers of every older revision"
)]

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::{Server, ServerName};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorCode, ErrorData, Root,
};

mod routed;

pub(crate) use routed::{ElicitAnswer, RoutedInquiries};

/// Identifies one call of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The conversation a call belongs to; questions appear there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Conversation(pub Arc<str>);

/// Where a question comes from.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The server that asks.
    pub server: ServerName,
    /// The call that caused it, where it is known.
    pub call: Option<CallId>,
    /// The conversation of that call.
    pub conversation: Option<Conversation>,
}

/// What is offered to a server: a capability is declared only where a handler is behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// `sampling`, with or without tools.
    pub sampling: Option<SamplingOffer>,
    /// `elicitation.form`.
    pub forms: bool,
    /// `elicitation.url`.
    pub urls: bool,
    /// `roots`.
    pub roots: bool,
}

/// How far sampling goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingOffer {
    /// Text only.
    Plain,
    /// `tools` and `toolChoice` too.
    WithTools,
}

/// A model's answer to a server.
#[derive(Debug, Clone)]
pub struct Sampled {
    /// What goes back to the server.
    pub message: CreateMessageResult,
    /// What it cost, in tokens.
    pub tokens: u64,
}

/// Why sampling was refused; becomes JSON-RPC error -1, with the reason as its data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SamplingRefused {
    /// One word for programs, such as `rate_limit`.
    pub reason: &'static str,
    /// A sentence for people and models.
    pub message: String,
}

impl From<SamplingRefused> for ErrorData {
    fn from(refused: SamplingRefused) -> Self {
        let data = serde_json::json!({ "reason": refused.reason });
        Self::new(ErrorCode(-1), refused.message, Some(data))
    }
}

/// Why a person could not be asked. The server is told that they declined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ElicitationFailed(pub String);

/// Handles the requests of servers.
pub trait Inquiries: Send + Sync + 'static {
    /// What to declare to this server, whose references are filled in. Asked before every session.
    fn offers(&self, server: &Server) -> Offers;

    /// Asks the model.
    fn sample(
        &self,
        asker: Asker,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<Sampled, SamplingRefused>>;

    /// Asks the user. Dropped when the time for it is up.
    fn elicit(
        &self,
        asker: Asker,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationFailed>>;

    /// The roots to tell this server.
    fn roots(&self, asker: Asker) -> BoxFuture<'_, Vec<Root>>;
}

/// Declares no capability: for commands that have neither a model nor a person at hand.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyToAsk;

impl Inquiries for NobodyToAsk {
    fn offers(&self, _server: &Server) -> Offers {
        Offers::default()
    }

    fn sample(
        &self,
        _asker: Asker,
        _request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<Sampled, SamplingRefused>> {
        Box::pin(std::future::ready(Err(SamplingRefused {
            reason: "unavailable",
            message: "sampling is not available here".into(),
        })))
    }

    fn elicit(
        &self,
        _asker: Asker,
        _request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationFailed>> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        Box::pin(std::future::ready(Ok(declined)))
    }

    fn roots(&self, _asker: Asker) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}
