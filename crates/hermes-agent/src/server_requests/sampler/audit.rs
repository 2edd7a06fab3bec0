//! One log line per sampling request; texts only if the user enabled them.

use std::time::Duration;

use hermes_config::{Redactor, ServerName, server::AuditLevel};
use hermes_mcp::{protocol::CreateMessageRequestParams, server_request::SamplingReply};

use super::SamplingRefusal;

pub(super) struct SamplingAuditEntry<'a> {
    pub(super) server: &'a ServerName,
    pub(super) model: Option<&'a str>,
    pub(super) request: &'a CreateMessageRequestParams,
    pub(super) outcome: &'a Result<SamplingReply, SamplingRefusal>,
    pub(super) took: Duration,
}

impl SamplingAuditEntry<'_> {
    pub(super) fn write(&self, level: AuditLevel, redactor: &Redactor) {
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
