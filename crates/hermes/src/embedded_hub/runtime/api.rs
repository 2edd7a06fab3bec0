//! The Hub's side of an agent's local HTTP API, over its Unix socket.

use std::{collections::BTreeMap, path::Path, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use hermes_config::{
    Secret,
    trace_context::{TRACEPARENT, TRACESTATE, TraceContext},
};
use hermes_gateway::instance::PlatformState;
use hermes_hub::{
    RunId,
    api_types::ids::AgentRunId,
    tenants::runtime::{AgentEvent, BotHealth, RunInput, RuntimeError},
};
use hermes_protocol::{AgentReply, AgentRequest, ApprovalDecision, Directives};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

use super::event_stream;

/// Timeout of a request. Event streams have their own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout between events: an agent sends a keepalive at least every fifteen seconds.
const EVENT_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum size of a reply; the largest sensible one is a job.
const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// Maximum size of a reply about MCP servers; the largest sensible one is a list of tools with their schemas.
const MAX_DOCUMENT_BYTES: usize = 8 * 1024 * 1024;

/// One agent, as its local API shows it.
#[derive(Debug, Clone)]
pub(super) struct AgentApi {
    client: Client,
    /// For requests that may take longer than the time between events.
    patient_client: Client,
    /// Without a slash at the end.
    base: String,
    key: Secret<String>,
}

impl AgentApi {
    /// The agent that listens there and takes this key.
    pub(super) fn new(socket: &Path, key: Secret<String>) -> Result<Self, RuntimeError> {
        // The host is not looked up; HTTP wants one.
        let builder = || Client::builder().unix_socket(socket);
        Self::build(builder, "http://agent", key)
    }

    /// The agent that listens on a port of this machine and takes this key.
    pub(super) fn with_base_url(base: &str, key: Secret<String>) -> Result<Self, RuntimeError> {
        Self::build(Client::builder, base, key)
    }

    fn build(
        builder: impl Fn() -> ClientBuilder,
        base: &str,
        key: Secret<String>,
    ) -> Result<Self, RuntimeError> {
        // There is no TLS on a socket, and roots take milliseconds to read.
        let plain = || builder().no_proxy().tls_certs_only([]);
        let failed = |error: reqwest::Error| RuntimeError::StartFailed(error.to_string());
        let client = plain()
            .read_timeout(EVENT_TIMEOUT)
            .build()
            .map_err(failed)?;
        Ok(Self {
            client,
            patient_client: plain().build().map_err(failed)?,
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

    /// How its bots are.
    pub(super) async fn bots(&self) -> Result<Vec<BotHealth>, RuntimeError> {
        let request = self.request(Method::GET, "/health/detailed");
        let health: DetailedHealth =
            read_reply(send(request.timeout(HEALTH_TIMEOUT)).await?).await?;
        let bots = health.platforms.into_iter();
        Ok(bots
            .map(|(label, platform)| BotHealth {
                label,
                state: platform.state,
                last_ok_at: platform.last_ok_at,
            })
            .collect())
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
        let request = match run_input {
            RunInput::Prompt(prompt) => self.request(Method::POST, "/v1/runs").json(prompt),
            RunInput::Job(job) => {
                // The attempt that was cut off may have used up the only run of the job.
                let again = if attempt > 1 { "?again=true" } else { "" };
                self.request(Method::POST, &format!("/api/jobs/{job}/run{again}"))
                    .json(&json!({}))
            }
        };
        let mut request = request
            .header("Idempotency-Key", key)
            .timeout(REQUEST_TIMEOUT);
        if let Some(trace) = TraceContext::current() {
            request = request.header(TRACEPARENT, trace.traceparent());
            if let Some(state) = trace.tracestate() {
                request = request.header(TRACESTATE, state);
            }
        }
        let started: StartedRun = read_reply(send(request).await?).await?;
        if is_run_id(&started.run_id) {
            Ok(AgentRunId(started.run_id))
        } else {
            let message = "it started a run with an id that cannot be used";
            Err(RuntimeError::Unsupported(message.into()))
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

    /// Asks about its model or its MCP servers.
    pub(super) async fn send_request(
        &self,
        request: &AgentRequest,
        timeout: Duration,
    ) -> Result<AgentReply, RuntimeError> {
        let url = format!("{}/internal/requests", self.base);
        let asked = self.patient_client.post(url).bearer_auth(self.key.expose());
        let reply = send(asked.json(request).timeout(timeout)).await?;
        read_reply_within(reply, MAX_DOCUMENT_BYTES).await
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

/// What is read of an agent's health.
#[derive(Deserialize)]
struct DetailedHealth {
    #[serde(default)]
    platforms: BTreeMap<String, PlatformState>,
}

/// The reply to the start of a run.
#[derive(Deserialize)]
struct StartedRun {
    run_id: String,
}

/// The reply to a request that was not carried out.
#[derive(Deserialize)]
struct ErrorReply {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    message: String,
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
    let reply: Result<ErrorReply, _> = read_reply(response).await;
    let message = reply.map_or_else(
        |_| "it gave no reason".to_owned(),
        |reply| reply.error.message,
    );
    Err(match status {
        StatusCode::NOT_FOUND => RuntimeError::Unknown(message),
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            RuntimeError::Unsupported(message)
        }
        _ if status.is_client_error() => RuntimeError::Refused(message),
        _ => RuntimeError::Unreachable(format!("{status}: {message}")),
    })
}

async fn read_reply<T: DeserializeOwned>(response: Response) -> Result<T, RuntimeError> {
    read_reply_within(response, MAX_REPLY_BYTES).await
}

async fn read_reply_within<T: DeserializeOwned>(
    mut response: Response,
    most: usize,
) -> Result<T, RuntimeError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| unreachable_error(&error))?
    {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > most {
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
