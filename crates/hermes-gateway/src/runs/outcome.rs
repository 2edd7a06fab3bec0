//! How a run ends.

use std::sync::atomic::Ordering;

use hermes_agent::{
    conversation::{ConversationError, TurnUsage},
    message::ToolCall,
    turn::TurnError,
};
use hermes_store::{
    SessionId,
    runtime::{RunEnd, RunStatus},
};
use serde_json::{Value, json};

use super::{LiveRun, log};

pub(super) enum RunOutcome {
    Completed {
        output: String,
        usage: Value,
        /// Calls that the client has to make.
        client_calls: Vec<ToolCall>,
    },
    Failed {
        code: &'static str,
        message: String,
    },
    /// It was stopped before it was complete.
    Interrupted,
    Cancelled,
}

impl RunOutcome {
    pub(super) fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self::Failed {
            code,
            message: message.into(),
        }
    }

    /// The outcome of a conversation error, with advice for the operator if there is a tenant.
    pub(super) fn from_error(error: &ConversationError, tenant: Option<&str>) -> Self {
        let code = match error {
            ConversationError::NoModel(_) => "no_model",
            ConversationError::Turn(TurnError::Model(_)) => "model_error",
            ConversationError::Turn(TurnError::Persist(_)) | ConversationError::Store(_) => {
                "store_error"
            }
            ConversationError::NoSuchSession { .. } | ConversationError::NothingToContinue => {
                "session_not_found"
            }
            ConversationError::Skill(_) => "skill_not_found",
            ConversationError::Internal(_) => "internal",
        };
        Self::failed(code, error.advise(tenant))
    }

    /// Applies the cause of a stop: a user cancels, a gateway shutdown interrupts.
    pub(super) fn with_stop_cause(self, live: &LiveRun, is_closing: bool) -> Self {
        let was_told = live.is_stopped.load(Ordering::Acquire);
        match self {
            Self::Interrupted | Self::Failed { .. } if was_told => Self::Cancelled,
            Self::Interrupted | Self::Failed { .. } if is_closing => Self::failed(
                "interrupted",
                "the gateway was stopped before the run ended",
            ),
            Self::Interrupted => Self::failed("interrupted", "it was interrupted"),
            other => other,
        }
    }

    pub(super) fn into_run_end(self, run: &str, session: Option<SessionId>) -> RunEnd {
        let mut end = RunEnd {
            status: RunStatus::Cancelled,
            session,
            output: None,
            usage: None,
            error: None,
            event: log::event_body(run, "run.cancelled", Value::Null),
        };
        match self {
            Self::Completed {
                output,
                usage,
                client_calls,
            } => {
                let mut members = json!({"output": output, "usage": usage});
                if !client_calls.is_empty() {
                    members["tool_calls"] = json!(client_calls);
                }
                end.status = RunStatus::Completed;
                end.event = log::event_body(run, "run.completed", members);
                end.output = Some(output);
                end.usage = Some(usage);
            }
            Self::Failed { code, message } => {
                let error = json!({"code": code, "message": message});
                end.status = RunStatus::Failed;
                end.event = log::event_body(run, "run.failed", json!({"error": error}));
                end.error = Some(error);
            }
            Self::Interrupted | Self::Cancelled => {}
        }
        end
    }
}

/// The usage of a turn, as JSON for clients.
pub(super) fn usage_json(turn_usage: &TurnUsage) -> Value {
    let usage = turn_usage.tokens;
    json!({
        "input_tokens": usage.prompt_tokens(),
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens(),
    })
}
