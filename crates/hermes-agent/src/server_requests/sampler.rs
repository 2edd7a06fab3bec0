//! Sampling for MCP servers, within the limits of each server's `sampling` section.

#![expect(
    deprecated,
    reason = "sampling is spoken by servers of every older revision"
)]

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_config::{
    Redactor, Server, ServerName,
    server::{AuditLevel, SamplingPolicy},
    sync::{Mutex, MutexGuard},
};
use hermes_mcp::{
    protocol::CreateMessageRequestParams,
    server_request::{RequestOrigin, SamplingError, SamplingReply, SamplingSupport},
};
use tokio::time::Instant;

use crate::model::{ModelReply, ModelRequest};

mod auxiliary;
mod convert;

pub use auxiliary::AuxiliaryModels;

/// The window of the rate limit.
const RATE_WINDOW: Duration = Duration::from_mins(1);

/// Where the models for sampling come from.
pub trait SamplingModels: Send + Sync {
    /// Whether there is a model, as far as known without resolving one.
    fn has_model(&self) -> bool;

    /// The name of the default model.
    fn default_name(&self) -> BoxFuture<'_, Result<String, SamplingRefusal>>;

    /// Requests a reply from this model, with `limit` or its default timeout.
    fn complete<'a>(
        &'a self,
        name: &'a str,
        limit: Option<Duration>,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, SamplingRefusal>>;
}

/// The usage of a server, kept over reconnects.
#[derive(Debug, Default)]
struct SamplingUsage {
    policy: SamplingPolicy,
    /// The requests within the window.
    recent: VecDeque<Instant>,
    /// Consecutive tool-use replies.
    rounds: u32,
}

pub struct Sampler {
    models: Arc<dyn SamplingModels>,
    servers: Mutex<HashMap<ServerName, SamplingUsage>>,
    redactor: Mutex<Arc<Redactor>>,
}

impl Sampler {
    /// Replies pass the redactor before they reach a server.
    pub fn new(models: Arc<dyn SamplingModels>, redactor: Redactor) -> Self {
        Self {
            models,
            servers: Mutex::default(),
            redactor: Mutex::new(Arc::new(redactor)),
        }
    }

    pub fn use_redactor(&self, redactor: Redactor) {
        *self.redactor.lock() = Arc::new(redactor);
    }

    fn redactor(&self) -> Arc<Redactor> {
        let redactor = self.redactor.lock();
        redactor.clone()
    }

    /// What to declare to a server; its policy applies from now on.
    pub fn sampling_offer(&self, server: &Server) -> Option<SamplingSupport> {
        let policy = &server.sampling;
        self.lock().entry(server.name.clone()).or_default().policy = policy.clone();
        let can_be_asked = policy.enabled && (policy.model.is_some() || self.models.has_model());
        can_be_asked.then_some(match policy.max_tool_rounds {
            0 => SamplingSupport::Plain,
            _ => SamplingSupport::WithTools,
        })
    }

    /// Handles one request.
    pub async fn sample(
        &self,
        origin: &RequestOrigin,
        request: CreateMessageRequestParams,
    ) -> Result<SamplingReply, SamplingError> {
        let began = Instant::now();
        let policy = self
            .lock()
            .get(&origin.server)
            .map(|known| known.policy.clone());
        let policy = policy.unwrap_or_else(|| SamplingPolicy {
            enabled: false,
            ..SamplingPolicy::default()
        });
        let mut model = None;
        let outcome = self
            .handle_request(&origin.server, &policy, &request, &mut model)
            .await;
        let redactor = self.redactor();
        let outcome = outcome.map_err(|refusal| refusal.redacted(&redactor));
        SamplingAuditEntry {
            server: &origin.server,
            model: model.as_deref(),
            request: &request,
            outcome: &outcome,
            took: began.elapsed(),
        }
        .write(policy.log_level, &redactor);
        Ok(outcome?)
    }

    /// Runs all checks in order; the cheapest come first.
    async fn handle_request(
        &self,
        server: &ServerName,
        policy: &SamplingPolicy,
        request: &CreateMessageRequestParams,
        chosen: &mut Option<String>,
    ) -> Result<SamplingReply, SamplingRefusal> {
        if !policy.enabled {
            return Err(SamplingRefusal::Disabled);
        }
        self.check_rate_limit(server, policy.max_rpm)?;
        let name = match policy.model.as_deref().or_else(|| hinted_model(request)) {
            Some(name) => name.to_owned(),
            None => self.models.default_name().await?,
        };
        let name = chosen.insert(name).as_str();
        let is_allowed = policy.allowed_models.is_empty()
            || policy.allowed_models.iter().any(|allowed| allowed == name);
        if !is_allowed {
            return Err(SamplingRefusal::ModelNotAllowed(name.to_owned()));
        }
        let reply = self.request_completion(policy, name, request).await?;
        self.count_round(server, policy, &reply)?;
        let tokens = reply.usage.map_or(0, |usage| usage.total_tokens());
        let redactor = self.redactor();
        let message = convert::to_sampling_result(reply, |text| redactor.redact(text).into_owned())
            .ok_or(SamplingRefusal::EmptyReply)?;
        Ok(SamplingReply { message, tokens })
    }

    /// Counts this request against the rate limit.
    fn check_rate_limit(&self, server: &ServerName, most: u32) -> Result<(), SamplingRefusal> {
        let now = Instant::now();
        let mut servers = self.lock();
        let recent = &mut servers.entry(server.clone()).or_default().recent;
        let is_over = |at: &Instant| now.duration_since(*at) >= RATE_WINDOW;
        while recent.front().is_some_and(is_over) {
            recent.pop_front();
        }
        if recent.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
            return Err(SamplingRefusal::RateLimit { most });
        }
        recent.push_back(now);
        Ok(())
    }

    async fn request_completion(
        &self,
        policy: &SamplingPolicy,
        name: &str,
        request: &CreateMessageRequestParams,
    ) -> Result<ModelReply, SamplingRefusal> {
        let messages = convert::to_messages(request);
        let tools = convert::to_tool_definitions(request);
        let stop = request.stop_sequences.clone().unwrap_or_default();
        let request = ModelRequest {
            messages: &messages,
            tools: &tools,
            tool_choice: convert::tool_choice(request),
            max_tokens: Some(request.max_tokens.min(policy.max_tokens_cap).max(1)),
            temperature: request.temperature.map(widen_as_written),
            stop: &stop,
            ..ModelRequest::default()
        };
        // A server's own timeout wins; the default one gives way to that of `auxiliary.mcp`.
        let is_usual = policy.timeout == SamplingPolicy::default().timeout;
        let limit = (!is_usual).then_some(policy.timeout);
        self.models.complete(name, limit, &request).await
    }

    /// Counts consecutive tool-use replies; a text reply resets the count.
    fn count_round(
        &self,
        server: &ServerName,
        policy: &SamplingPolicy,
        reply: &ModelReply,
    ) -> Result<(), SamplingRefusal> {
        let most = policy.max_tool_rounds;
        let mut servers = self.lock();
        let rounds = &mut servers.entry(server.clone()).or_default().rounds;
        if reply.tool_calls.is_empty() {
            *rounds = 0;
            return Ok(());
        }
        if most == 0 {
            return Err(SamplingRefusal::ToolLoopsDisabled);
        }
        *rounds += 1;
        if *rounds > most {
            *rounds = 0;
            return Err(SamplingRefusal::ToolLoopsExceeded { most });
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName, SamplingUsage>> {
        self.servers.lock()
    }
}

/// The first model that the server hints at.
fn hinted_model(request: &CreateMessageRequestParams) -> Option<&str> {
    let hints = request.model_preferences.as_ref()?.hints.as_ref()?;
    let mut names = hints.iter().filter_map(|hint| hint.name.as_deref());
    names.find(|name| !name.trim().is_empty())
}

/// The number as the server wrote it: it was parsed as `f32`, and a direct conversion to `f64` would show further
/// digits.
fn widen_as_written(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

#[cfg(test)]
mod tests;

struct SamplingAuditEntry<'a> {
    server: &'a ServerName,
    model: Option<&'a str>,
    request: &'a CreateMessageRequestParams,
    outcome: &'a Result<SamplingReply, SamplingRefusal>,
    took: Duration,
}

impl SamplingAuditEntry<'_> {
    fn write(&self, level: AuditLevel, redactor: &Redactor) {
        let server = self.server;
        let model = self.model.unwrap_or("-");
        let seconds = self.took.as_secs_f32();
        let (tokens, outcome) = match self.outcome {
            Ok(sampled) => (sampled.tokens, "answered".to_owned()),
            Err(refusal) => (0, refusal.to_string()),
        };
        match level {
            AuditLevel::Debug => {
                let json = |value: serde_json::Result<String>| {
                    redactor.redact(&value.unwrap_or_default()).into_owned()
                };
                let asked = json(serde_json::to_string(&self.request.messages));
                let answer = self.outcome.as_ref().ok().map(|sampled| &sampled.message);
                let answer = json(serde_json::to_string(&answer));
                tracing::debug!(%server, model, tokens, seconds, outcome, asked, answer, "sampling request");
            }
            AuditLevel::Info => {
                tracing::info!(%server, model, tokens, seconds, outcome, "sampling request");
            }
            AuditLevel::Warning => {
                tracing::warn!(%server, model, tokens, seconds, outcome, "sampling request");
            }
        }
    }
}

/// Why a sampling request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SamplingRefusal {
    /// `sampling.enabled: false`.
    #[error("sampling is disabled for this server")]
    Disabled,
    #[error("rate limit: at most {most} requests a minute")]
    RateLimit {
        /// `sampling.max_rpm`.
        most: u32,
    },
    #[error("no model for sampling: {0}")]
    NoModel(String),
    /// Not one of `sampling.allowed_models`.
    #[error("the model `{0}` is not allowed for this server")]
    ModelNotAllowed(String),
    #[error("timeout: the model did not answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    #[error("the model call failed: {0}")]
    CallFailed(String),
    #[error("the model's reply was empty")]
    EmptyReply,
    /// The model requested a tool, and `sampling.max_tool_rounds` is 0.
    #[error("tool loops are disabled for this server")]
    ToolLoopsDisabled,
    /// Too many consecutive tool-use replies.
    #[error("tool loops: more than {most} in a row")]
    ToolLoopsExceeded {
        /// `sampling.max_tool_rounds`.
        most: u32,
    },
}

impl SamplingRefusal {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::RateLimit { .. } => "rate_limit",
            Self::NoModel(_) => "no_model",
            Self::ModelNotAllowed(_) => "model_not_allowed",
            Self::Timeout(_) => "timeout",
            Self::CallFailed(_) => "call_failed",
            Self::EmptyReply => "empty_reply",
            Self::ToolLoopsDisabled => "tool_loops_disabled",
            Self::ToolLoopsExceeded { .. } => "tool_loops_exceeded",
        }
    }

    #[must_use]
    fn redacted(self, redactor: &Redactor) -> Self {
        let clean = |text: String| redactor.redact(&text).into_owned();
        match self {
            Self::NoModel(reason) => Self::NoModel(clean(reason)),
            Self::ModelNotAllowed(model) => Self::ModelNotAllowed(clean(model)),
            Self::CallFailed(reason) => Self::CallFailed(clean(reason)),
            other => other,
        }
    }
}

impl From<SamplingRefusal> for SamplingError {
    fn from(refusal: SamplingRefusal) -> Self {
        Self {
            reason: refusal.code(),
            message: refusal.to_string(),
        }
    }
}
