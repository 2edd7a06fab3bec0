//! One request to one endpoint: sending, timeouts, and reading the reply.

mod clients;

use std::{error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream};
use reqwest::{
    Response,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::Serialize;
use serde_json::Value;
use sse_stream::SseStream;
use tokio::time::timeout;

pub(crate) use self::clients::ClientError;
pub use self::clients::HttpClients;
use super::{
    AnsweredBy, Endpoint, Model, ModelError, ModelEventSink, ModelProblem, ModelReply,
    ModelRequest, Protocol,
};
use crate::model::{
    api::{anthropic, chat, refusal::ProviderRefusal},
    endpoint,
};

const MAX_REPLY_BYTES: usize = 64 * 1024 * 1024;

/// How long to wait after a complete answer for token counts and the end of the stream.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTimeouts {
    /// From the request to the first byte of the reply.
    pub first_byte: Duration,
    /// From one byte to the next.
    pub next_byte: Duration,
}

impl ModelTimeouts {
    /// For services on the internet.
    pub const REMOTE: Self = Self {
        first_byte: Duration::from_mins(1),
        next_byte: Duration::from_mins(2),
    };

    /// For local servers, which may have to load the model first.
    pub const LOCAL: Self = Self {
        first_byte: Duration::from_mins(10),
        next_byte: Duration::from_mins(10),
    };
}

/// A model reached over HTTP. It does not retry.
#[derive(Debug, Clone)]
pub struct HttpModel {
    endpoint: Endpoint,
    clients: Arc<HttpClients>,
    timeouts: ModelTimeouts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyProgress {
    More,
    /// The answer is complete; metadata may follow.
    Finishing,
    Complete,
}

/// Why an event could not be processed.
#[derive(Debug)]
pub(super) enum StreamError {
    Refused(ProviderRefusal),
    /// It violates the protocol.
    Malformed(serde_json::Error),
}

impl From<serde_json::Error> for StreamError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error)
    }
}

enum ReplyReader {
    Chat(chat::reply::ChatReplyReader),
    Anthropic(anthropic::reply::AnthropicReplyReader),
}

impl ReplyReader {
    fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::ChatCompletions => Self::Chat(chat::reply::ChatReplyReader::default()),
            Protocol::AnthropicMessages => {
                Self::Anthropic(anthropic::reply::AnthropicReplyReader::default())
            }
        }
    }

    fn read_event(
        &mut self,
        data: &str,
        sink: ModelEventSink<'_>,
    ) -> Result<ReplyProgress, StreamError> {
        match self {
            Self::Chat(reader) => reader.read_event(data, sink),
            Self::Anthropic(reader) => reader.read_event(data, sink),
        }
    }

    fn read_whole(&mut self, body: &[u8], sink: ModelEventSink<'_>) -> Result<(), StreamError> {
        match self {
            Self::Chat(reader) => reader.read_whole(body, sink),
            Self::Anthropic(reader) => reader.read_whole(body, sink),
        }
    }

    fn finish(self) -> Option<ModelReply> {
        match self {
            Self::Chat(reader) => reader.finish(),
            Self::Anthropic(reader) => reader.finish(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("timed out after {} s without data", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("{0}")]
    Broken(String),
    #[error("it is larger than 64 MiB")]
    TooLarge,
}

impl HttpModel {
    /// Uses shared clients.
    pub fn new(endpoint: Endpoint, clients: Arc<HttpClients>) -> Self {
        let timeout = if endpoint.is_local() {
            ModelTimeouts::LOCAL
        } else {
            ModelTimeouts::REMOTE
        };
        Self {
            endpoint,
            clients,
            timeouts: timeout,
        }
    }

    #[must_use]
    pub fn with_timeouts(mut self, timeout: ModelTimeouts) -> Self {
        self.timeouts = timeout;
        self
    }

    async fn attempt(
        &self,
        request: &ModelRequest<'_>,
        sink: ModelEventSink<'_>,
    ) -> Result<ModelReply, ModelProblem> {
        let response = self.send(request).await?;
        let mut reply = if is_event_stream(&response) {
            self.read_events(response, sink).await?
        } else {
            self.read_whole(response, sink).await?
        };
        if reply.model.is_empty() {
            reply.model.clone_from(&self.endpoint.model);
        }
        reply.answered_by = Some(AnsweredBy {
            model: self.endpoint.model.clone(),
            provider: self.endpoint.provider.clone(),
            base_url: self.endpoint.base_url.to_string(),
        });
        Ok(reply)
    }

    /// Sends the request and waits until the reply starts.
    async fn send(&self, request: &ModelRequest<'_>) -> Result<Response, ModelProblem> {
        let unsendable = |reason: &dyn ToString| ModelProblem::InvalidRequest {
            reason: self.endpoint.sanitize(&reason.to_string()),
        };
        let body = match self.endpoint.protocol {
            Protocol::ChatCompletions => chat::request_body(&self.endpoint, request),
            Protocol::AnthropicMessages => anthropic::request_body(&self.endpoint, request),
        }
        .map_err(|error| unsendable(&error))?;
        let client = self
            .clients
            .client_for(&self.endpoint.base_url)
            .map_err(|error| unsendable(&root_cause(&error)))?;
        let post = client
            .post(self.endpoint.url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .body(body);
        let post = self
            .endpoint
            .authorize(post)
            .map_err(|reason| unsendable(&reason))?;
        let response = match timeout(self.timeouts.first_byte, post.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_builder() => return Err(unsendable(&root_cause(&error))),
            Ok(Err(error)) => {
                return Err(ModelProblem::Unreachable {
                    host: endpoint::host_and_port(&self.endpoint.base_url),
                    reason: self.endpoint.sanitize(&root_cause(&error)),
                });
            }
            Err(_) => return Err(self.timeout_problem(self.timeouts.first_byte)),
        };
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(ProviderRefusal::from_response(response)
                .await
                .into_problem(&self.endpoint))
        }
    }

    async fn read_events(
        &self,
        response: Response,
        sink: ModelEventSink<'_>,
    ) -> Result<ModelReply, ModelProblem> {
        let bytes = Box::pin(body_stream(response, self.timeouts.next_byte));
        let mut events = SseStream::from_bytes_stream(bytes);
        let mut reader = ReplyReader::new(self.endpoint.protocol);
        let mut progress = ReplyProgress::More;
        let ended = loop {
            let event = match progress {
                ReplyProgress::Complete => break None,
                ReplyProgress::More => events.next().await,
                ReplyProgress::Finishing => match timeout(TRAILER_TIMEOUT, events.next()).await {
                    Ok(event) => event,
                    Err(_) => break None,
                },
            };
            match event {
                None => break None,
                Some(Err(error)) => break Some(error),
                Some(Ok(event)) => {
                    if let Some(data) = event.data.filter(|data| !data.trim().is_empty()) {
                        progress = reader
                            .read_event(&data, sink)
                            .map_err(|problem| self.stream_problem(problem))?;
                    }
                }
            }
        };
        match (reader.finish(), ended) {
            (Some(reply), _) => Ok(reply),
            (None, None) => Err(ModelProblem::Truncated {
                reason: "the connection was closed before its end".into(),
            }),
            (None, Some(error)) => Err(self.sse_problem(&error)),
        }
    }

    /// Reads a reply of a server that does not stream.
    async fn read_whole(
        &self,
        response: Response,
        sink: ModelEventSink<'_>,
    ) -> Result<ModelReply, ModelProblem> {
        let mut body = Vec::new();
        let mut bytes = Box::pin(body_stream(response, self.timeouts.next_byte));
        while let Some(chunk) = bytes.next().await {
            match chunk {
                Ok(chunk) => body.extend_from_slice(&chunk),
                Err(error) => return Err(self.read_problem(&error)),
            }
        }
        let mut reader = ReplyReader::new(self.endpoint.protocol);
        let malformed = || ModelProblem::Malformed {
            reason: self.endpoint.sanitize(&String::from_utf8_lossy(&body)),
        };
        match reader.read_whole(&body, sink) {
            Ok(()) => reader.finish().ok_or_else(malformed),
            Err(StreamError::Malformed(_)) => Err(malformed()),
            Err(refused) => Err(self.stream_problem(refused)),
        }
    }

    fn stream_problem(&self, problem: StreamError) -> ModelProblem {
        match problem {
            StreamError::Refused(refusal) => refusal.into_problem(&self.endpoint),
            StreamError::Malformed(error) => ModelProblem::Malformed {
                reason: self.endpoint.sanitize(&error.to_string()),
            },
        }
    }

    fn sse_problem(&self, error: &sse_stream::Error) -> ModelProblem {
        match error {
            sse_stream::Error::Body(body) => match body.downcast_ref::<ReadError>() {
                Some(error) => self.read_problem(error),
                None => self.truncated_problem(body.as_ref()),
            },
            other => ModelProblem::Malformed {
                reason: self.endpoint.sanitize(&other.to_string()),
            },
        }
    }

    fn read_problem(&self, error: &ReadError) -> ModelProblem {
        match error {
            ReadError::TimedOut(after) => self.timeout_problem(*after),
            ReadError::TooLarge => ModelProblem::Malformed {
                reason: error.to_string(),
            },
            ReadError::Broken(_) => self.truncated_problem(error),
        }
    }

    fn truncated_problem(&self, error: &(dyn Error + 'static)) -> ModelProblem {
        ModelProblem::Truncated {
            reason: self.endpoint.sanitize(&root_cause(error)),
        }
    }

    fn timeout_problem(&self, after: Duration) -> ModelProblem {
        ModelProblem::TimedOut {
            after,
            again: !self.endpoint.is_local(),
        }
    }
}

impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.endpoint.model
    }

    fn provider(&self) -> &str {
        &self.endpoint.provider
    }

    fn context_length(&self) -> Option<u32> {
        self.endpoint.context_length
    }

    fn supports_images(&self) -> bool {
        self.endpoint.supports_images
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            self.attempt(request, sink)
                .await
                .map_err(|problem| self.endpoint.error(problem))
        }
        .boxed()
    }
}

/// A body as JSON, merged with the endpoint's and the request's own members.
pub(super) fn merge_extra_body(
    body: &impl Serialize,
    endpoint: &Endpoint,
    request: &ModelRequest<'_>,
) -> Result<Vec<u8>, serde_json::Error> {
    let extra = endpoint
        .extra_body
        .iter()
        .chain(request.extra_body.into_iter().flatten());
    let mut extra = extra.peekable();
    if extra.peek().is_none() {
        return serde_json::to_vec(body);
    }
    let mut body = serde_json::to_value(body)?;
    if let Value::Object(members) = &mut body {
        for (key, value) in extra {
            if value.is_null() {
                members.shift_remove(key);
            } else {
                members.insert(key.clone(), value.clone());
            }
        }
    }
    serde_json::to_vec(&body)
}

/// The body's bytes as they arrive, within the size limit and the timeout.
fn body_stream(
    response: Response,
    limit: Duration,
) -> impl Stream<Item = Result<Bytes, ReadError>> {
    stream::unfold((response, 0), move |(mut response, size)| async move {
        let chunk = match timeout(limit, response.chunk()).await {
            Err(_) => Err(ReadError::TimedOut(limit)),
            Ok(Err(error)) => Err(ReadError::Broken(root_cause(&error))),
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(chunk))) if size + chunk.len() > MAX_REPLY_BYTES => Err(ReadError::TooLarge),
            Ok(Ok(Some(chunk))) => Ok(chunk),
        };
        let size = size + chunk.as_ref().map_or(0, Bytes::len);
        Some((chunk, (response, size)))
    })
}

fn is_event_stream(response: &Response) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().starts_with("text/event-stream"))
}

/// The innermost cause of an error; the outer layers only name the URL.
pub(super) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
