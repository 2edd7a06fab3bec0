//! What a Hub and an agent say to each other: the policy and the other directives, the input of a run, its events, and
//! decisions about approvals; what a Hub asks about models and MCP servers; and what runs of chats used.
//!
//! Both sides use these types and must not see each other. What is read here is *closed*: a member that is unknown,
//! missing or of another type is an error, so that a policy that is not understood never allows anything. What operators
//! write may leave members out; the Hub fills them in with [`Policy::resolve`] before an agent sees it.

mod agent_request;
mod chat_run;
mod directives;
mod error;
mod event;
mod form;
mod pattern;
mod policy;
mod request;
#[cfg(test)]
mod tests;

pub use agent_request::{
    AgentReply, AgentRequest, LoginAddress, LoginReport, ModelTestReport, RefusalReason,
    RequestRefusal, ResultMedia, ServerPrompt, ServerResource, ServerState, ServerTestReport,
    ServerTool, ServerToolList, ToolCallReport, ToolChange,
};
pub use chat_run::{ChatRunRefusal, ChatRunUse, OpenChatRuns};
pub use directives::Directives;
pub use error::ProtocolError;
pub use event::{ApprovalOutcome, EventEnvelope, RunEvent, RunFailure, TokenUsage};
pub use form::{RequestedForm, WrongAnswer};
pub use pattern::{escape_pattern, matches_pattern};
pub use policy::{
    ApprovalRules, CronLimits, EgressRules, EnvRules, Feature, FeatureRules, FormatVersion,
    ModelRules, OnTimeout, Policy, RunLimits, ToolPermission, ToolRules,
};
pub use request::{
    ApprovalChoice, ApprovalDecision, DecisionConflict, FormAnswer, PromptInput, UnknownChoice,
};
