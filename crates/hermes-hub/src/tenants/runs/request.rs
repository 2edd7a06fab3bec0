//! A client's request for a run.

use hermes_config::{
    trace_context::{TRACEPARENT, TRACESTATE, TraceContext},
    traced_span,
};
use hermes_protocol::PromptInput;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracing::{Span, field::Empty};

use crate::{Problem, storage::state::RunRecord, tenants::runtime::RunInput};

/// What a client wants run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunRequest {
    /// A text, or messages ending with the user's turn.
    pub input: Value,
    /// Added to the system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The session to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What was said before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_history: Option<Vec<Value>>,
    /// Kept with the run.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Whether it may begin anew after it was cut off within a tool call.
    #[serde(default)]
    pub retry_interrupted: bool,
}

impl RunRequest {
    /// Validates the request and returns it as stored.
    pub(super) fn into_stored(mut self) -> Result<Value, Problem> {
        let is_said = match &self.input {
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(messages) => messages
                .last()
                .is_some_and(|last| last.get("role").and_then(Value::as_str) == Some("user")),
            _ => false,
        };
        if !is_said {
            let message =
                "`input` is a text, or a list of messages of which the last has the role `user`";
            return Err(Problem::invalid(message).with_detail("input", "invalid"));
        }
        if self.timeout_seconds == Some(0) {
            let message = "`timeoutSeconds` is 1 or more";
            return Err(Problem::invalid(message).with_detail("timeoutSeconds", "invalid"));
        }
        // They have columns of their own.
        self.metadata = Map::new();
        self.timeout_seconds = None;
        // Empty values count as absent.
        self.instructions = self.instructions.filter(|text| !text.is_empty());
        self.session_id = self.session_id.filter(|id| !id.is_empty());
        self.conversation_history = self.conversation_history.filter(|said| !said.is_empty());
        serde_json::to_value(self).map_err(|error| Problem::internal(&error))
    }

    /// Reads what [`Self::into_stored`] made.
    pub(crate) fn from_stored(mut stored: Value) -> Result<Self, serde_json::Error> {
        if let Value::Object(members) = &mut stored {
            members.remove(TRACE_MEMBER);
        }
        serde_json::from_value(stored)
    }
}

/// Where a stored request keeps the trace that it belongs to.
const TRACE_MEMBER: &str = "trace";

/// Stores the trace of the present request with a run, for the node that executes it.
pub(in crate::tenants) fn add_trace(stored: &mut Value) {
    if let (Value::Object(members), Some(trace)) = (stored, TraceContext::current()) {
        let trace = json!({TRACEPARENT: trace.traceparent(), TRACESTATE: trace.tracestate()});
        members.insert(TRACE_MEMBER.to_owned(), trace);
    }
}

/// The exported span of a run, in the trace of the request that made it.
pub(super) fn run_span(record: &RunRecord) -> Span {
    let run = &record.run;
    let span = traced_span!(
        "run",
        otel.status_code = Empty,
        "error.type" = Empty,
        hermes.run.id = run.run_id.as_str(),
        hermes.run.status = Empty,
        hermes.tenant.id = run.tenant_id.as_str(),
        hermes.job.id = Empty
    );
    if let Some(job) = &record.job {
        span.record("hermes.job.id", job.as_str());
    }
    let stored = record.request.get(TRACE_MEMBER);
    let text = |name: &str| stored.and_then(|trace| trace.get(name)?.as_str());
    if let Some(parent) = TraceContext::receive(text(TRACEPARENT), text(TRACESTATE)) {
        parent.adopt(&span);
    }
    span
}

/// The input for the agent from a stored run.
pub(super) fn run_input(record: &RunRecord) -> Result<RunInput, serde_json::Error> {
    if let Some(job) = &record.job {
        return Ok(RunInput::Job(job.clone()));
    }
    let request = RunRequest::from_stored(record.request.clone())?;
    let prompt = PromptInput {
        input: request.input,
        instructions: request.instructions,
        session_id: request.session_id,
        conversation_history: request.conversation_history.map(Value::Array),
        ..PromptInput::default()
    };
    Ok(RunInput::Prompt(Box::new(prompt)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_documents_example_is_taken() {
        let request: RunRequest = serde_json::from_value(json!({
            "input": "Hi", "instructions": "", "sessionId": "s1", "conversationHistory": [],
            "metadata": {}, "timeoutSeconds": 600, "retryInterrupted": false
        }))
        .unwrap();
        assert_eq!(request.timeout_seconds, Some(600));
        let stored = request.into_stored().unwrap();
        assert_eq!(
            stored,
            json!({"input": "Hi", "sessionId": "s1", "metadata": {}, "retryInterrupted": false})
        );
    }

    #[test]
    fn messages_must_end_with_the_users_turn() {
        let request = |input| RunRequest {
            input,
            ..RunRequest::default()
        };
        let said = json!([{"role": "user", "content": "Hi"}]);
        assert!(request(said).into_stored().is_ok());
        for input in [
            json!(null),
            json!(""),
            json!([]),
            json!([{"role": "assistant", "content": "Hi"}]),
        ] {
            assert!(
                request(input.clone()).into_stored().is_err(),
                "{input} was taken"
            );
        }
    }
}
