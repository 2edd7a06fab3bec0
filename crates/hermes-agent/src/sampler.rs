//! Answers MCP servers that ask for a model's help: within the limits that each server's `sampling` section sets.

#![expect(
    deprecated,
    reason = "sampling is spoken by servers of every older revision"
)]

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hermes_config::{
    Redactor, Server, ServerName,
    server::{AuditLevel, SamplingPolicy},
};
use hermes_mcp::{
    inquiry::{Asker, Sampled, SamplingOffer, SamplingRefused},
    protocol::CreateMessageRequestParams,
};

use crate::model::{Model, ModelRequest, Reply, ShownText};

mod convert;

/// Requests are counted over this long.
const WINDOW: Duration = Duration::from_mins(1);

/// Where the models for sampling come from: `auxiliary.mcp`.
pub trait SamplingModels: Send + Sync {
    /// The name of the model that is used where nothing else is said; `None` without any model.
    fn default_name(&self) -> Option<String>;

    /// The model of this name.
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, String>;
}

/// What is remembered of a server, over reconnects.
#[derive(Debug, Default)]
struct Asking {
    policy: SamplingPolicy,
    /// When it asked within the window.
    recent: VecDeque<Instant>,
    /// Tool-use replies in a row.
    rounds: u32,
}

/// Asks models on behalf of servers.
pub struct Sampler {
    models: Arc<dyn SamplingModels>,
    servers: Mutex<HashMap<ServerName, Asking>>,
    redactor: Redactor,
}

impl Sampler {
    /// Uses these models.
    pub fn new(models: Arc<dyn SamplingModels>) -> Self {
        Self {
            models,
            servers: Mutex::default(),
            redactor: Redactor::default(),
        }
    }

    /// What to declare to a server; its policy counts from now on.
    pub fn offer(&self, server: &Server) -> Option<SamplingOffer> {
        let policy = &server.sampling;
        let mut servers = self.lock();
        let asking = servers.entry(server.name.clone());
        asking.or_default().policy = policy.clone();
        drop(servers);
        let can_be_asked =
            policy.enabled && (policy.model.is_some() || self.models.default_name().is_some());
        can_be_asked.then_some(match policy.max_tool_rounds {
            0 => SamplingOffer::Plain,
            _ => SamplingOffer::WithTools,
        })
    }

    /// Answers one request, or says why not.
    pub async fn sample(
        &self,
        asker: &Asker,
        request: CreateMessageRequestParams,
    ) -> Result<Sampled, SamplingRefused> {
        let began = Instant::now();
        let (policy, name) = self.admit(&asker.server, &request)?;
        let outcome = self.ask(&asker.server, &policy, &name, &request).await;
        audit(asker, &policy, &name, &request, &outcome, began.elapsed());
        outcome
    }

    /// Checks everything that can be checked before the model is asked.
    fn admit(
        &self,
        server: &ServerName,
        request: &CreateMessageRequestParams,
    ) -> Result<(SamplingPolicy, String), SamplingRefused> {
        let mut servers = self.lock();
        let asking = servers
            .get_mut(server)
            .ok_or_else(|| refused("sampling is not available"))?;
        let policy = asking.policy.clone();
        if !policy.enabled {
            return Err(refused("sampling is disabled for this server"));
        }
        let now = Instant::now();
        while asking
            .recent
            .front()
            .is_some_and(|at| now.duration_since(*at) >= WINDOW)
        {
            asking.recent.pop_front();
        }
        if asking.recent.len() >= usize::try_from(policy.max_rpm).unwrap_or(usize::MAX) {
            return Err(refused(&format!(
                "rate limit: at most {} requests a minute",
                policy.max_rpm
            )));
        }
        asking.recent.push_back(now);
        drop(servers);
        let hinted = request
            .model_preferences
            .as_ref()
            .and_then(|preferences| preferences.hints.as_ref())
            .and_then(|hints| {
                hints
                    .iter()
                    .find_map(|hint| hint.name.clone())
                    .filter(|name| !name.is_empty())
            });
        let name = policy
            .model
            .clone()
            .or(hinted)
            .or_else(|| self.models.default_name())
            .ok_or_else(|| refused("no model is configured"))?;
        if !policy.allowed_models.is_empty() && !policy.allowed_models.contains(&name) {
            return Err(refused(&format!(
                "the model `{name}` is not allowed for this server"
            )));
        }
        Ok((policy, name))
    }

    async fn ask(
        &self,
        server: &ServerName,
        policy: &SamplingPolicy,
        name: &str,
        request: &CreateMessageRequestParams,
    ) -> Result<Sampled, SamplingRefused> {
        let failed = |text: &str| {
            refused(&format!(
                "the model call failed: {}",
                self.redactor.redact(text)
            ))
        };
        let model = self.models.model(name).map_err(|reason| failed(&reason))?;
        let messages = convert::messages(request);
        let tools = convert::tools(request);
        let stop = request.stop_sequences.clone().unwrap_or_default();
        let asked = ModelRequest {
            messages: &messages,
            tools: &tools,
            tool_choice: convert::tool_choice(request),
            max_tokens: Some(request.max_tokens.min(policy.max_tokens_cap)),
            temperature: request.temperature.map(f64::from),
            stop: &stop,
            shown_text: ShownText::Revocable,
            ..ModelRequest::default()
        };
        let reply = tokio::time::timeout(policy.timeout, model.complete(&asked, &mut |_| {})).await;
        let reply = match reply {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => return Err(failed(&error.to_string())),
            Err(_) => {
                let seconds = policy.timeout.as_secs_f32();
                return Err(refused(&format!(
                    "timeout: the model did not answer within {seconds} s"
                )));
            }
        };
        self.count_round(server, policy, &reply)?;
        let tokens = reply.usage.map_or(0, |usage| usage.total_tokens());
        let message = convert::answer(reply, |text| self.redactor.redact(text).into_owned())
            .ok_or_else(|| refused("the model's reply was empty"))?;
        Ok(Sampled { message, tokens })
    }

    /// Counts tool-use replies in a row; a text reply starts over.
    fn count_round(
        &self,
        server: &ServerName,
        policy: &SamplingPolicy,
        reply: &Reply,
    ) -> Result<(), SamplingRefused> {
        let mut servers = self.lock();
        let Some(asking) = servers.get_mut(server) else {
            return Ok(());
        };
        if reply.tool_calls.is_empty() {
            asking.rounds = 0;
            return Ok(());
        }
        if policy.max_tool_rounds == 0 {
            return Err(refused("tool loops are disabled for this server"));
        }
        asking.rounds += 1;
        if asking.rounds > policy.max_tool_rounds {
            asking.rounds = 0;
            return Err(refused(&format!(
                "tool loops: more than {} in a row",
                policy.max_tool_rounds
            )));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName, Asking>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(reason: &str) -> SamplingRefused {
    SamplingRefused(reason.to_owned())
}

/// One line about every request; texts only where the user asked for them.
fn audit(
    asker: &Asker,
    policy: &SamplingPolicy,
    model: &str,
    request: &CreateMessageRequestParams,
    outcome: &Result<Sampled, SamplingRefused>,
    took: Duration,
) {
    let server = &asker.server;
    let tokens = outcome.as_ref().map_or(0, |sampled| sampled.tokens);
    let ending = match outcome {
        Ok(_) => "answered".to_owned(),
        Err(refused) => refused.to_string(),
    };
    let took = took.as_secs_f32();
    match policy.log_level {
        AuditLevel::Debug => {
            let messages = serde_json::to_string(&request.messages).unwrap_or_default();
            tracing::debug!(%server, model, tokens, took, ending, messages, "sampling");
        }
        AuditLevel::Info => tracing::info!(%server, model, tokens, took, ending, "sampling"),
        AuditLevel::Warning => tracing::warn!(%server, model, tokens, took, ending, "sampling"),
    }
}
