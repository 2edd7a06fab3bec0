//! How a run ends.

use std::sync::atomic::Ordering;

use hermes_agent::{
    conversation::{ConversationError, TurnUsage},
    message::ToolCall,
    turn::TurnError,
};
use hermes_protocol::{RunEvent, RunFailure, TokenUsage};
use hermes_store::{
    SessionId,
    runtime::{RunEnd, RunStatus},
};
use serde_json::json;

use super::{LiveRun, TurnResult, log};

/// What a run used of its model.
#[derive(Clone)]
pub(super) struct RunUse {
    tokens: TokenUsage,
    model: Option<String>,
}

impl LiveRun {
    /// Keeps what its turn used, which counts also if it has no answer.
    pub(super) fn note_use(&self, usage: Option<&TurnUsage>) {
        if let Some(usage) = usage.filter(|usage| usage.model_calls > 0) {
            // A run has one turn.
            let _ = self.used.set(RunUse {
                tokens: token_usage(usage),
                model: answering_model(usage.clone()),
            });
        }
    }
}

pub(super) enum RunOutcome {
    Completed {
        output: String,
        /// None for a job without a model.
        usage: Option<TokenUsage>,
        /// The model that answered.
        model: Option<String>,
        /// Calls that the client has to make.
        client_calls: Vec<ToolCall>,
    },
    Failed(RunFailure),
    /// It was stopped before it was complete.
    Interrupted,
    Cancelled,
}

impl RunOutcome {
    pub(super) fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::Failed(RunFailure {
            code: code.to_owned(),
            message: message.into(),
        })
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
            Self::Interrupted | Self::Failed(_) if was_told => Self::Cancelled,
            Self::Interrupted | Self::Failed(_) if is_closing => Self::failed(
                "interrupted",
                "the gateway was stopped before the run ended",
            ),
            Self::Interrupted => Self::failed("interrupted", "it was interrupted"),
            other => other,
        }
    }

    /// The same for whoever follows the turn.
    pub(super) fn turn_result(&self, is_closing: bool) -> TurnResult {
        match self {
            Self::Completed { output, .. } => TurnResult::Answered {
                text: output.clone(),
            },
            Self::Failed(failure) if is_closing && failure.code == "interrupted" => {
                TurnResult::ShutDown
            }
            Self::Failed(failure) => TurnResult::Failed(failure.clone()),
            Self::Interrupted | Self::Cancelled => TurnResult::Stopped,
        }
    }

    /// The last event of the run, and what is stored with it.
    pub(super) fn into_run_end(
        self,
        run: &str,
        session: Option<SessionId>,
        used: Option<&RunUse>,
    ) -> RunEnd {
        let tokens = used.map(|used| used.tokens);
        let model_before = used.and_then(|used| used.model.clone());
        let event = match self {
            Self::Completed {
                output,
                usage,
                model,
                client_calls,
            } => RunEvent::Completed {
                output,
                usage,
                model,
                tool_calls: client_calls.iter().map(|call| json!(call)).collect(),
            },
            Self::Failed(failure) => RunEvent::failed(failure).after_using(tokens, model_before),
            Self::Interrupted | Self::Cancelled => {
                RunEvent::cancelled().after_using(tokens, model_before)
            }
        };
        let mut end = RunEnd {
            status: RunStatus::Cancelled,
            session,
            output: None,
            usage: tokens.map(|tokens| json!(tokens)),
            error: None,
            event: log::new_event(run, event.clone()).to_body(),
        };
        match event {
            RunEvent::Completed { output, usage, .. } => {
                end.status = RunStatus::Completed;
                end.output = Some(output);
                end.usage = usage.map(|usage| json!(usage));
            }
            RunEvent::Failed { error, .. } => {
                end.status = RunStatus::Failed;
                end.error = Some(json!(error));
            }
            _ => {}
        }
        end
    }
}

/// The tokens of a turn.
pub(super) fn token_usage(turn_usage: &TurnUsage) -> TokenUsage {
    let usage = turn_usage.tokens;
    TokenUsage {
        input_tokens: usage.prompt_tokens(),
        output_tokens: usage.output_tokens,
        total_tokens: usage.total_tokens(),
        cached_tokens: usage.cache_read_tokens,
    }
}

/// The model of a turn, if one answered.
pub(super) fn answering_model(turn_usage: TurnUsage) -> Option<String> {
    Some(turn_usage.answered_by?.model)
}
