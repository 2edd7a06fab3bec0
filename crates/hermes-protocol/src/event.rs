//! What happens in a run. The agent makes these events; the Hub passes them on, without secrets.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    ApprovalChoice, RequestedForm,
    error::{ProtocolError, read, write_object},
    form::visit_value,
};

/// An event of a run, as an agent writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", deny_unknown_fields)]
pub enum RunEvent {
    #[serde(rename = "run.started")]
    Started {
        #[serde(deserialize_with = "Option::deserialize")]
        session_id: Option<String>,
    },
    /// The Hub has queued it again.
    #[serde(rename = "run.requeued")]
    Requeued {
        attempt: u32,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    #[serde(rename = "message.delta")]
    MessageDelta {
        delta: String,
        /// How many deltas the Hub has joined, if there were too many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        joined: Option<usize>,
    },
    #[serde(rename = "tool.started")]
    ToolStarted {
        tool: String,
        call_id: String,
        preview: String,
    },
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        tool: String,
        call_id: String,
        /// In seconds.
        duration: f64,
        error: bool,
    },
    #[serde(rename = "reasoning.available")]
    ReasoningAvailable { text: String },
    #[serde(rename = "approval.request")]
    ApprovalRequest {
        approval_id: String,
        command: String,
        description: String,
        choices: Vec<ApprovalChoice>,
        /// The form that an MCP server asks to be filled in, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<RequestedForm>,
    },
    #[serde(rename = "approval.responded")]
    ApprovalResponded {
        approval_id: String,
        choice: ApprovalChoice,
        outcome: ApprovalOutcome,
    },
    #[serde(rename = "run.completed")]
    Completed {
        output: String,
        /// None for a job without a model.
        #[serde(deserialize_with = "Option::deserialize")]
        usage: Option<TokenUsage>,
        /// The model that answered, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Calls that the client has to make, in the format of chat completions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Value>,
    },
    #[serde(rename = "run.failed")]
    Failed {
        error: RunFailure,
        /// What the Hub knows of the cause, in one word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What it used before, as far as providers have said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
        /// The model that answered before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    #[serde(rename = "run.cancelled")]
    Cancelled {
        /// Why the Hub stopped it, if nobody asked for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunFailure>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

/// Why a run has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFailure {
    /// One word, such as `interrupted`.
    pub code: String,
    /// For people.
    pub message: String,
}

/// The tokens of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    /// Those of the input that came from a cache.
    #[serde(default)]
    pub cached_tokens: u64,
}

/// How an approval ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalOutcome {
    Once,
    Session,
    Always,
    Deny,
    /// Nobody answered in time.
    Expired,
    /// The run ended before.
    Cancelled,
}

impl From<ApprovalChoice> for ApprovalOutcome {
    fn from(choice: ApprovalChoice) -> Self {
        match choice {
            ApprovalChoice::Once => Self::Once,
            ApprovalChoice::Session => Self::Session,
            ApprovalChoice::Always => Self::Always,
            ApprovalChoice::Deny => Self::Deny,
        }
    }
}

impl RunEvent {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "run.started",
            Self::Requeued { .. } => "run.requeued",
            Self::MessageDelta { .. } => "message.delta",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolCompleted { .. } => "tool.completed",
            Self::ReasoningAvailable { .. } => "reasoning.available",
            Self::ApprovalRequest { .. } => "approval.request",
            Self::ApprovalResponded { .. } => "approval.responded",
            Self::Completed { .. } => "run.completed",
            Self::Failed { .. } => "run.failed",
            Self::Cancelled { .. } => "run.cancelled",
        }
    }

    pub fn delta(text: impl Into<String>) -> Self {
        Self::MessageDelta {
            delta: text.into(),
            joined: None,
        }
    }

    pub fn failed(error: RunFailure) -> Self {
        Self::Failed {
            error,
            reason: None,
            usage: None,
            model: None,
        }
    }

    pub fn cancelled() -> Self {
        Self::Cancelled {
            error: None,
            reason: None,
            usage: None,
            model: None,
        }
    }

    /// An end without an answer, with what was used before it.
    #[must_use]
    pub fn after_using(mut self, tokens: Option<TokenUsage>, by: Option<String>) -> Self {
        if let Self::Failed { usage, model, .. } | Self::Cancelled { usage, model, .. } = &mut self
        {
            *usage = tokens;
            *model = by;
        }
        self
    }

    /// Whether the run is over.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled { .. }
        )
    }

    /// Visits every text, so that secrets can be removed.
    pub fn visit_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Started { session_id } => session_id.iter_mut().for_each(visit),
            Self::Requeued {
                reason, message, ..
            } => {
                visit(reason);
                message.iter_mut().for_each(visit);
            }
            Self::MessageDelta { delta, .. } => visit(delta),
            Self::ToolStarted {
                tool,
                call_id,
                preview,
            } => {
                visit(tool);
                visit(call_id);
                visit(preview);
            }
            Self::ToolCompleted { tool, call_id, .. } => {
                visit(tool);
                visit(call_id);
            }
            Self::ReasoningAvailable { text } => visit(text),
            Self::ApprovalRequest {
                approval_id,
                command,
                description,
                choices: _,
                form,
            } => {
                visit(approval_id);
                visit(command);
                visit(description);
                if let Some(form) = form {
                    form.visit_text(visit);
                }
            }
            Self::ApprovalResponded { approval_id, .. } => visit(approval_id),
            Self::Completed {
                output,
                model,
                tool_calls,
                ..
            } => {
                visit(output);
                model.iter_mut().for_each(&mut *visit);
                for call in tool_calls {
                    visit_value(call, visit);
                }
            }
            Self::Failed {
                error,
                reason,
                model,
                ..
            } => {
                visit(&mut error.code);
                visit(&mut error.message);
                reason.iter_mut().chain(model).for_each(visit);
            }
            Self::Cancelled {
                error,
                reason,
                model,
                ..
            } => {
                if let Some(error) = error {
                    visit(&mut error.code);
                    visit(&mut error.message);
                }
                reason.iter_mut().chain(model).for_each(visit);
            }
        }
    }

    /// The members besides `event`, by the names in the Hub's API.
    pub fn hub_members(&self) -> Map<String, Value> {
        let mut members = write_object(self);
        members.shift_remove("event");
        let mut members = in_camel_case(members);
        if let Some(Value::Object(usage)) = members.get_mut("usage") {
            *usage = in_camel_case(std::mem::take(usage));
        }
        members
    }
}

fn in_camel_case(members: Map<String, Value>) -> Map<String, Value> {
    let renamed = members
        .into_iter()
        .map(|(name, value)| (camel_case(&name), value));
    renamed.collect()
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut result = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            result.extend(first.to_uppercase());
            result.push_str(letters.as_str());
        }
    }
    result
}

/// An event and when it happened in which run: one object on the wire and in an agent's journal.
#[derive(Debug, Clone, PartialEq)]
pub struct EventEnvelope {
    pub run_id: String,
    /// Seconds since 1970.
    pub timestamp: f64,
    pub event: RunEvent,
}

impl EventEnvelope {
    pub fn to_body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("event".into(), self.event.name().into());
        body.insert("run_id".into(), self.run_id.clone().into());
        body.insert("timestamp".into(), json!(self.timestamp));
        body.extend(write_object(&self.event));
        body
    }

    pub fn from_body(mut body: Map<String, Value>) -> Result<Self, ProtocolError> {
        let mut take = |name| body.shift_remove(name).unwrap_or_default();
        let (run_id, timestamp) = (take("run_id"), take("timestamp"));
        Ok(Self {
            run_id: read("`run_id` of an event", run_id)?,
            timestamp: read("`timestamp` of an event", timestamp)?,
            event: read("an event of a run", Value::Object(body))?,
        })
    }
}
