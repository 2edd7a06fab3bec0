//! Routes elicitations to the process that made the call, where that is known, and to the host's own handler otherwise.

use std::{collections::HashMap, sync::Arc};

use futures::future::BoxFuture;
use hermes_config::{Server, sync::Mutex};
use rmcp::model::{CreateMessageRequestParams, ElicitRequestParams, ElicitResult, Root};

use super::{
    ConversationId, ElicitationError, OfferedCapabilities, RequestOrigin, SamplingError,
    SamplingReply, ServerRequestHandler,
};

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
        asker: RequestOrigin,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>> {
        self.default_handler.sample(asker, request)
    }

    fn elicit(
        &self,
        asker: RequestOrigin,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>> {
        let conversation = asker.conversation.as_ref();
        let route =
            conversation.and_then(|conversation| self.lock_routes().get(conversation).cloned());
        match route {
            Some(answer) => answer(request),
            None => self.default_handler.elicit(asker, request),
        }
    }

    fn roots(&self, asker: RequestOrigin) -> BoxFuture<'_, Vec<Root>> {
        self.default_handler.roots(asker)
    }
}
