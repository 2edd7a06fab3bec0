//! What an operator directs an agent to.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Policy, ProtocolError};

/// The settings of an operator for one agent, complete. They hold from its next tool call on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directives {
    pub policy: Policy,
    /// Text placed before the home's own instructions.
    pub specialization: String,
    /// Free settings by name, without a meaning here.
    pub feature: Map<String, Value>,
    /// The model, if the operator sets one.
    // Without this an `Option` may be missing.
    #[serde(deserialize_with = "Option::deserialize")]
    pub model: Option<String>,
    /// How long approvals wait.
    pub approval_timeout_seconds: NonZeroU64,
}

impl Directives {
    /// This policy and nothing else.
    pub fn new(policy: Policy) -> Self {
        Self {
            specialization: String::new(),
            feature: Map::new(),
            model: None,
            approval_timeout_seconds: policy.approvals.timeout_seconds,
            policy,
        }
    }

    /// Reads directives as JSON. Those that are not complete or not understood are an error.
    pub fn from_json(text: &[u8]) -> Result<Self, ProtocolError> {
        serde_json::from_slice(text)
            .map_err(|source| ProtocolError::new("the document with the directives", source))
    }
}
