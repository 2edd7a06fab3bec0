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

pub use self::clients::HttpClients;
use super::{
    AnsweredBy, Endpoint, Model, ModelError, ModelRequest, Problem, Protocol, Reply, Sink, address,
    anthropic, chat, refusal::Refusal,
};

const REPLY_LIMIT: usize = 64 * 1024 * 1024;

/// How long to wait after a complete answer for token counts and the end of the stream.
const AFTER_THE_END: Duration = Duration::from_secs(5);

/// How long to wait for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the request to the first byte of the reply.
    pub first_byte: Duration,
    /// From one byte to the next.
    pub next_byte: Duration,
}

impl Patience {
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
    patience: Patience,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// The answer is complete; metadata may follow.
    Finishing,
    Complete,
}

/// Why an event could not be processed.
#[derive(Debug)]
pub(super) enum Trouble {
    Refused(Refusal),
    /// It violates the protocol.
    Malformed(serde_json::Error),
}

impl From<serde_json::Error> for Trouble {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error)
    }
}

enum Reader {
    Chat(chat::reply::Reader),
    Anthropic(anthropic::reply::Reader),
}

impl Reader {
    fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::ChatCompletions => Self::Chat(chat::reply::Reader::default()),
            Protocol::AnthropicMessages => Self::Anthropic(anthropic::reply::Reader::default()),
        }
    }

    fn event(&mut self, data: &str, sink: Sink<'_>) -> Result<Progress, Trouble> {
        match self {
            Self::Chat(reader) => reader.event(data, sink),
            Self::Anthropic(reader) => reader.event(data, sink),
        }
    }

    fn whole(&mut self, body: &[u8], sink: Sink<'_>) -> Result<(), Trouble> {
        match self {
            Self::Chat(reader) => reader.whole(body, sink),
            Self::Anthropic(reader) => reader.whole(body, sink),
        }
    }

    fn finish(self) -> Option<Reply> {
        match self {
            Self::Chat(reader) => reader.finish(),
            Self::Anthropic(reader) => reader.finish(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("timed out after {} s without data", .0.as_secs_f32())]
    Silent(Duration),
    #[error("{0}")]
    Broken(String),
    #[error("it is larger than 64 MiB")]
    TooLarge,
}

impl HttpModel {
    /// Uses shared clients.
    pub fn new(endpoint: Endpoint, clients: Arc<HttpClients>) -> Self {
        let patience = if endpoint.is_local() {
            Patience::LOCAL
        } else {
            Patience::REMOTE
        };
        Self {
            endpoint,
            clients,
            patience,
        }
    }

    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    async fn attempt(&self, request: &ModelRequest<'_>, sink: Sink<'_>) -> Result<Reply, Problem> {
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
    async fn send(&self, request: &ModelRequest<'_>) -> Result<Response, Problem> {
        let unsendable = |reason: &dyn ToString| Problem::Unsendable {
            reason: self.endpoint.clean(&reason.to_string()),
        };
        let body = match self.endpoint.protocol {
            Protocol::ChatCompletions => chat::body(&self.endpoint, request),
            Protocol::AnthropicMessages => anthropic::body(&self.endpoint, request),
        }
        .map_err(|error| unsendable(&error))?;
        let client = self
            .clients
            .for_address(&self.endpoint.base_url)
            .map_err(|error| unsendable(&innermost(&error)))?;
        let post = client
            .post(self.endpoint.url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .body(body);
        let post = self
            .endpoint
            .authorised(post)
            .map_err(|reason| unsendable(&reason))?;
        let response = match timeout(self.patience.first_byte, post.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_builder() => return Err(unsendable(&innermost(&error))),
            Ok(Err(error)) => {
                return Err(Problem::Unreachable {
                    host: address::shown(&self.endpoint.base_url),
                    reason: self.endpoint.clean(&innermost(&error)),
                });
            }
            Err(_) => return Err(self.silent(self.patience.first_byte)),
        };
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(Refusal::read(response).await.into_problem(&self.endpoint))
        }
    }

    async fn read_events(&self, response: Response, sink: Sink<'_>) -> Result<Reply, Problem> {
        let bytes = Box::pin(bytes_of(response, self.patience.next_byte));
        let mut events = SseStream::from_bytes_stream(bytes);
        let mut reader = Reader::new(self.endpoint.protocol);
        let mut progress = Progress::More;
        let ended = loop {
            let event = match progress {
                Progress::Complete => break None,
                Progress::More => events.next().await,
                Progress::Finishing => match timeout(AFTER_THE_END, events.next()).await {
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
                            .event(&data, sink)
                            .map_err(|trouble| self.problem(trouble))?;
                    }
                }
            }
        };
        match (reader.finish(), ended) {
            (Some(reply), _) => Ok(reply),
            (None, None) => Err(Problem::Cut {
                reason: "the connection was closed before its end".into(),
            }),
            (None, Some(error)) => Err(self.broken(&error)),
        }
    }

    /// Reads a reply of a server that does not stream.
    async fn read_whole(&self, response: Response, sink: Sink<'_>) -> Result<Reply, Problem> {
        let mut body = Vec::new();
        let mut bytes = Box::pin(bytes_of(response, self.patience.next_byte));
        while let Some(chunk) = bytes.next().await {
            match chunk {
                Ok(chunk) => body.extend_from_slice(&chunk),
                Err(error) => return Err(self.unread(&error)),
            }
        }
        let mut reader = Reader::new(self.endpoint.protocol);
        let malformed = || Problem::Malformed {
            reason: self.endpoint.clean(&String::from_utf8_lossy(&body)),
        };
        match reader.whole(&body, sink) {
            Ok(()) => reader.finish().ok_or_else(malformed),
            Err(Trouble::Malformed(_)) => Err(malformed()),
            Err(refused) => Err(self.problem(refused)),
        }
    }

    fn problem(&self, trouble: Trouble) -> Problem {
        match trouble {
            Trouble::Refused(refusal) => refusal.into_problem(&self.endpoint),
            Trouble::Malformed(error) => Problem::Malformed {
                reason: self.endpoint.clean(&error.to_string()),
            },
        }
    }

    fn broken(&self, error: &sse_stream::Error) -> Problem {
        match error {
            sse_stream::Error::Body(body) => match body.downcast_ref::<ReadError>() {
                Some(error) => self.unread(error),
                None => self.cut(body.as_ref()),
            },
            other => Problem::Malformed {
                reason: self.endpoint.clean(&other.to_string()),
            },
        }
    }

    fn unread(&self, error: &ReadError) -> Problem {
        match error {
            ReadError::Silent(after) => self.silent(*after),
            ReadError::TooLarge => Problem::Malformed {
                reason: error.to_string(),
            },
            ReadError::Broken(_) => self.cut(error),
        }
    }

    fn cut(&self, error: &(dyn Error + 'static)) -> Problem {
        Problem::Cut {
            reason: self.endpoint.clean(&innermost(error)),
        }
    }

    fn silent(&self, after: Duration) -> Problem {
        Problem::Silent {
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

    fn sees_images(&self) -> bool {
        self.endpoint.sees_images
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        async move {
            self.attempt(request, sink)
                .await
                .map_err(|problem| self.endpoint.error(problem))
        }
        .boxed()
    }
}

/// A body as JSON, merged with the endpoint's and the request's own members.
pub(super) fn with_extra(
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
fn bytes_of(
    response: Response,
    patience: Duration,
) -> impl Stream<Item = Result<Bytes, ReadError>> {
    stream::unfold((response, 0), move |(mut response, size)| async move {
        let chunk = match timeout(patience, response.chunk()).await {
            Err(_) => Err(ReadError::Silent(patience)),
            Ok(Err(error)) => Err(ReadError::Broken(innermost(&error))),
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(chunk))) if size + chunk.len() > REPLY_LIMIT => Err(ReadError::TooLarge),
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
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
