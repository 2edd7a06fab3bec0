//! Routes elicitations to the process that made the call, where that is known, and to the host's own handler otherwise.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use hermes_config::Server;
use rmcp::model::{CreateMessageRequestParams, ElicitRequestParams, ElicitResult, Root};

use super::{Asker, Conversation, ElicitationFailed, Inquiries, Offers, Sampled, SamplingRefused};

/// Answers one question of a server to a person.
pub(crate) type ElicitAnswer = Arc<
    dyn Fn(ElicitRequestParams) -> BoxFuture<'static, Result<ElicitResult, ElicitationFailed>>
        + Send
        + Sync,
>;

/// The host's own handler, and those of callers in other processes.
pub(crate) struct RoutedInquiries {
    own: Arc<dyn Inquiries>,
    routes: Mutex<HashMap<Conversation, ElicitAnswer>>,
}

impl RoutedInquiries {
    pub(crate) fn new(own: Arc<dyn Inquiries>) -> Arc<Self> {
        Arc::new(Self {
            own,
            routes: Mutex::default(),
        })
    }

    /// Sends the questions of a conversation to `answer` until the returned guard is dropped.
    pub(crate) fn route(
        self: &Arc<Self>,
        conversation: Conversation,
        answer: ElicitAnswer,
    ) -> InquiryRoute {
        self.routes().insert(conversation.clone(), answer);
        InquiryRoute {
            inquiries: self.clone(),
            conversation,
        }
    }

    fn routes(&self) -> std::sync::MutexGuard<'_, HashMap<Conversation, ElicitAnswer>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Elicitations of one conversation go to another handler while this lives.
#[must_use = "the route ends when it is dropped"]
pub(crate) struct InquiryRoute {
    inquiries: Arc<RoutedInquiries>,
    conversation: Conversation,
}

impl Drop for InquiryRoute {
    fn drop(&mut self) {
        self.inquiries.routes().remove(&self.conversation);
    }
}

impl Inquiries for RoutedInquiries {
    fn offers(&self, server: &Server) -> Offers {
        self.own.offers(server)
    }

    fn sample(
        &self,
        asker: Asker,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<Sampled, SamplingRefused>> {
        self.own.sample(asker, request)
    }

    fn elicit(
        &self,
        asker: Asker,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationFailed>> {
        let conversation = asker.conversation.as_ref();
        let route = conversation.and_then(|conversation| self.routes().get(conversation).cloned());
        match route {
            Some(answer) => answer(request),
            None => self.own.elicit(asker, request),
        }
    }

    fn roots(&self, asker: Asker) -> BoxFuture<'_, Vec<Root>> {
        self.own.roots(asker)
    }
}
