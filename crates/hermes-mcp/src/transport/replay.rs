//! A session whose first request was sent, and answered, before rmcp was given the connection.
//!
//! rmcp begins every session with a request of its own. Here that request does not go out again: it is given the
//! answer that has come already. Whatever else the opening left without an answer is skipped when it comes.

use std::collections::VecDeque;

use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult},
    transport::Transport,
};

/// A connection that begins with an answer which is there already.
pub(crate) struct ReplayTransport<T> {
    inner: T,
    /// For the first request; the one that is sent is not passed on.
    answer: Option<ServerResult>,
    /// What came before, and then the answer.
    waiting: VecDeque<ServerJsonRpcMessage>,
    /// Requests of the opening, to which answers may still come.
    opening: Vec<RequestId>,
}

impl<T> ReplayTransport<T> {
    /// Answers the first request with `answer`, after the messages that came earlier.
    pub(crate) fn new(
        inner: T,
        answer: ServerResult,
        earlier: VecDeque<ServerJsonRpcMessage>,
        opening: Vec<RequestId>,
    ) -> Self {
        Self {
            inner,
            answer: Some(answer),
            waiting: earlier,
            opening,
        }
    }

    /// Whether a message answers a request of the opening. Some servers send numbers back as text.
    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        id.is_some_and(|id| {
            let id = id.to_string();
            self.opening.iter().any(|opening| opening.to_string() == id)
        })
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ReplayTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        let answer = self.answer.take_if(|_| is_request);
        let sent = match (message, answer) {
            (JsonRpcMessage::Request(request), Some(answer)) => {
                self.waiting
                    .push_back(JsonRpcMessage::response(answer, request.id));
                None
            }
            (message, _) => Some(self.inner.send(message)),
        };
        async move {
            match sent {
                Some(sent) => sent.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        if let Some(message) = self.waiting.pop_front() {
            return Some(message);
        }
        loop {
            let message = self.inner.receive().await?;
            if !self.is_late(&message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
