//! Why a sampling request is refused.

use std::time::Duration;

use hermes_config::Redactor;
use hermes_mcp::server_request::SamplingError;

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
    pub(super) fn redacted(self, redactor: &Redactor) -> Self {
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
