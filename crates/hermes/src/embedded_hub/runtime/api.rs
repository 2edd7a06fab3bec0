//! The Hub's side of an agent's local HTTP API, over its Unix socket.

use std::{path::Path, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use hermes_config::Secret;
use hermes_hub::{
    RunId,
    api_types::ids::AgentRunId,
    tenants::runtime::{AgentEvent, ApprovalDecision, Directives, RunInput, RuntimeError},
};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Map, Value, json};

use super::event_stream;

/// Timeout of a request. Event streams have their own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout between events: an agent sends a keepalive at least every fifteen seconds.
const EVENT_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum size of a reply; the largest sensible one is a job.
const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// One agent, as its local API shows it.
#[derive(Debug, Clone)]
pub(super) struct AgentApi {
    client: Client,
    /// Without a slash at the end.
    base: String,
    key: Secret<String>,
}

impl AgentApi {
    /// The agent that listens there and takes this key.
    pub(super) fn new(socket: &Path, key: Secret<String>) -> Result<Self, RuntimeError> {
        // The host is not looked up; HTTP wants one.
        Self::build(Client::builder().unix_socket(socket), "http://agent", key)
    }

    /// The agent that listens on a port of this machine and takes this key.
    pub(super) fn with_base_url(base: &str, key: Secret<String>) -> Result<Self, RuntimeError> {
        Self::build(Client::builder(), base, key)
    }

    fn build(
        builder: ClientBuilder,
        base: &str,
        key: Secret<String>,
    ) -> Result<Self, RuntimeError> {
        let client = builder
            .no_proxy()
            // There is no TLS on a socket, and roots take milliseconds to read.
            .tls_certs_only([])
            .read_timeout(EVENT_TIMEOUT)
            .build()
            .map_err(|error| RuntimeError::StartFailed(error.to_string()))?;
        Ok(Self {
            client,
            base: base.to_owned(),
            key,
        })
    }

    /// Whether it answers.
    pub(super) async fn check_health(&self, timeout: Duration) -> Result<(), RuntimeError> {
        let request = self.request(Method::GET, "/health").timeout(timeout);
        send(request).await.map(drop)
    }

    /// Whether it answers within the health timeout.
    pub(super) async fn is_healthy(&self) -> bool {
        self.check_health(HEALTH_TIMEOUT).await.is_ok()
    }

    pub(super) async fn apply_directives(
        &self,
        directives: &Directives,
    ) -> Result<(), RuntimeError> {
        let request = self.request(Method::PUT, "/internal/directives");
        send(request.json(directives).timeout(REQUEST_TIMEOUT))
            .await
            .map(drop)
    }

    pub(super) async fn start_run(
        &self,
        run: &RunId,
        attempt: u32,
        run_input: &RunInput,
    ) -> Result<AgentRunId, RuntimeError> {
        // The agent would answer the key of an attempt that was cut off with what became of that one.
        let key = match attempt {
            1 => run.to_string(),
            _ => format!("{run}-{attempt}"),
        };
        let (path, body) = match run_input {
            RunInput::Prompt {
                input,
                instructions,
                session_id,
                conversation_history,
            } => {
                let mut body = Map::from_iter([("input".to_owned(), input.clone())]);
                let mut add = |name: &str, value: Option<Value>| {
                    if let Some(value) = value {
                        body.insert(name.to_owned(), value);
                    }
                };
                add("instructions", instructions.clone().map(Value::from));
                add("session_id", session_id.clone().map(Value::from));
                add("conversation_history", conversation_history.clone());
                ("/v1/runs".to_owned(), Value::Object(body))
            }
            RunInput::Job(job) => (format!("/api/jobs/{job}/run"), json!({})),
        };
        let request = self
            .request(Method::POST, &path)
            .header("Idempotency-Key", key)
            .json(&body)
            .timeout(REQUEST_TIMEOUT);
        let answer = read_reply(send(request).await?).await?;
        match answer.get("run_id").and_then(Value::as_str) {
            Some(id) if is_run_id(id) => Ok(AgentRunId(id.to_owned())),
            _ => Err(RuntimeError::Unsupported(
                "it started a run without telling its id".into(),
            )),
        }
    }

    pub(super) async fn events(
        &self,
        run: &AgentRunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<AgentEvent, RuntimeError>>, RuntimeError> {
        let request = self
            .request(Method::GET, &format!("/v1/runs/{}/events", run.0))
            .header("Last-Event-ID", after.to_string());
        let response = send(request).await?;
        Ok(event_stream::read_events(response.bytes_stream()).boxed())
    }

    pub(super) async fn send_decision(
        &self,
        run: &AgentRunId,
        decision: &ApprovalDecision,
    ) -> Result<(), RuntimeError> {
        let request = self.request(Method::POST, &format!("/v1/runs/{}/approval", run.0));
        send(request.json(decision).timeout(REQUEST_TIMEOUT))
            .await
            .map(drop)
    }

    pub(super) async fn stop_run(&self, run: &AgentRunId) -> Result<(), RuntimeError> {
        let request = self.request(Method::POST, &format!("/v1/runs/{}/stop", run.0));
        send(request.json(&json!({})).timeout(REQUEST_TIMEOUT))
            .await
            .map(drop)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(self.key.expose())
    }
}

/// An id that becomes part of a path must not lead elsewhere, even if the agent made it.
fn is_run_id(id: &str) -> bool {
    (1..=128).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

async fn send(request: RequestBuilder) -> Result<Response, RuntimeError> {
    let response = request
        .send()
        .await
        .map_err(|error| unreachable_error(&error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let answer = read_reply(response).await.unwrap_or_default();
    let message = answer
        .pointer("/error/message")
        .and_then(Value::as_str)
        .unwrap_or("it gave no reason")
        .to_owned();
    Err(match status {
        StatusCode::NOT_FOUND => RuntimeError::Unknown(message),
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            RuntimeError::Unsupported(message)
        }
        _ if status.is_client_error() => RuntimeError::Refused(message),
        _ => RuntimeError::Unreachable(format!("{status}: {message}")),
    })
}

async fn read_reply(mut response: Response) -> Result<Value, RuntimeError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| unreachable_error(&error))?
    {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_REPLY_BYTES {
            return Err(RuntimeError::Unsupported("its answer is too long".into()));
        }
    }
    serde_json::from_slice(&bytes).map_err(|error| RuntimeError::Unsupported(error.to_string()))
}

fn unreachable_error(error: &reqwest::Error) -> RuntimeError {
    let reason = if error.is_timeout() {
        "the request timed out"
    } else {
        "the connection was lost"
    };
    RuntimeError::Unreachable(reason.into())
}
