//! Requests of a server to its client while a call runs: sampling, elicitation, roots; and who answers them, where
//! callers in other processes have a say.
//!
//! Both protocol eras lead here: requests that a legacy server sends, and `input_required` results of the stateless
//! revision. The agent implements [`ServerRequestHandler`]; without one, nothing is offered and nothing is asked.

#![expect(
    deprecated,
    reason = "sampling and roots are still spoken by servers of every older revision"
)]

use std::{collections::HashMap, sync::Arc};

use futures::future::BoxFuture;
use hermes_config::{Server, ServerName, sync::Mutex};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorCode, ErrorData, Root,
};

/// Identifies one call of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The conversation a call belongs to; questions appear there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConversationId(pub Arc<str>);

/// Where a question comes from.
#[derive(Debug, Clone)]
pub struct RequestOrigin {
    pub server: ServerName,
    /// The call that caused it, where it is known.
    pub call: Option<CallId>,
    /// The conversation of that call.
    pub conversation: Option<ConversationId>,
}

/// What is offered to a server: a capability is declared only where a handler is behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfferedCapabilities {
    /// `sampling`, with or without tools.
    pub sampling: Option<SamplingSupport>,
    /// `elicitation.form`.
    pub forms: bool,
    /// `elicitation.url`.
    pub urls: bool,
    pub roots: bool,
}

/// How far sampling goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingSupport {
    /// Text only.
    Plain,
    /// `tools` and `toolChoice` too.
    WithTools,
}

/// A model's answer to a server.
#[derive(Debug, Clone)]
pub struct SamplingReply {
    /// What goes back to the server.
    pub message: CreateMessageResult,
    pub tokens: u64,
}

/// Why sampling was refused; becomes JSON-RPC error -1, with the reason as its data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SamplingError {
    /// One word for programs, such as `rate_limit`.
    pub reason: &'static str,
    /// A sentence for people and models.
    pub message: String,
}

impl From<SamplingError> for ErrorData {
    fn from(refused: SamplingError) -> Self {
        let data = serde_json::json!({ "reason": refused.reason });
        Self::new(ErrorCode(-1), refused.message, Some(data))
    }
}

/// Why a person could not be asked. The server is told that they declined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ElicitationError(pub String);

pub trait ServerRequestHandler: Send + Sync + 'static {
    /// What to declare to this server, whose references are filled in. Asked before every session.
    fn offered_capabilities(&self, server: &Server) -> OfferedCapabilities;

    /// Asks the model.
    fn sample(
        &self,
        origin: RequestOrigin,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>>;

    /// Asks the user. Dropped when the time for it is up.
    fn elicit(
        &self,
        origin: RequestOrigin,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>>;

    /// The roots to tell this server.
    fn roots(&self, origin: RequestOrigin) -> BoxFuture<'_, Vec<Root>>;
}

/// Declares no capability: for commands that have neither a model nor a person.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHandler;

impl ServerRequestHandler for NoHandler {
    fn offered_capabilities(&self, _server: &Server) -> OfferedCapabilities {
        OfferedCapabilities::default()
    }

    fn sample(
        &self,
        _asker: RequestOrigin,
        _request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>> {
        Box::pin(std::future::ready(Err(SamplingError {
            reason: "unavailable",
            message: "sampling is not available here".into(),
        })))
    }

    fn elicit(
        &self,
        _asker: RequestOrigin,
        _request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        Box::pin(std::future::ready(Ok(declined)))
    }

    fn roots(&self, _asker: RequestOrigin) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Answers one question of a server to a person.
pub(crate) type ElicitHandler = Arc<
    dyn Fn(ElicitRequestParams) -> BoxFuture<'static, Result<ElicitResult, ElicitationError>>
        + Send
        + Sync,
>;

/// The host's own handler, and those of callers in other processes.
pub(crate) struct ServerRequestRouter {
    default_handler: Arc<dyn ServerRequestHandler>,
    routes: Mutex<HashMap<ConversationId, ElicitHandler>>,
}

impl ServerRequestRouter {
    pub(crate) fn new(own: Arc<dyn ServerRequestHandler>) -> Arc<Self> {
        Arc::new(Self {
            default_handler: own,
            routes: Mutex::default(),
        })
    }

    /// Sends the questions of a conversation to `answer` until the returned guard is dropped.
    pub(crate) fn route(
        self: &Arc<Self>,
        conversation: ConversationId,
        answer: ElicitHandler,
    ) -> ElicitRoute {
        self.lock_routes().insert(conversation.clone(), answer);
        ElicitRoute {
            router: self.clone(),
            conversation,
        }
    }

    fn lock_routes(
        &self,
    ) -> hermes_config::sync::MutexGuard<'_, HashMap<ConversationId, ElicitHandler>> {
        self.routes.lock()
    }
}

/// Elicitations of one conversation go to another handler while this lives.
#[must_use = "the route ends when it is dropped"]
pub(crate) struct ElicitRoute {
    router: Arc<ServerRequestRouter>,
    conversation: ConversationId,
}

impl Drop for ElicitRoute {
    fn drop(&mut self) {
        self.router.lock_routes().remove(&self.conversation);
    }
}

impl ServerRequestHandler for ServerRequestRouter {
    fn offered_capabilities(&self, server: &Server) -> OfferedCapabilities {
        self.default_handler.offered_capabilities(server)
    }

    fn sample(
        &self,
        origin: RequestOrigin,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>> {
        self.default_handler.sample(origin, request)
    }

    fn elicit(
        &self,
        origin: RequestOrigin,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>> {
        let conversation = origin.conversation.as_ref();
        let route =
            conversation.and_then(|conversation| self.lock_routes().get(conversation).cloned());
        match route {
            Some(answer) => answer(request),
            None => self.default_handler.elicit(origin, request),
        }
    }

    fn roots(&self, origin: RequestOrigin) -> BoxFuture<'_, Vec<Root>> {
        self.default_handler.roots(origin)
    }
}
