//! What a Hub and an agent say to each other: the policy and the other directives, the input of a run, its events, and
//! decisions about approvals.
//!
//! Both sides use these types and must not see each other. What is read here is *closed*: a member that is unknown,
//! missing or of another type is an error, so that a policy that is not understood never allows anything. What operators
//! write may leave members out; the Hub fills them in with [`Policy::resolve`] before an agent sees it.

mod directives;
mod error;
mod event;
mod pattern;
mod policy;
mod request;
#[cfg(test)]
mod tests;

pub use directives::Directives;
pub use error::ProtocolError;
pub use event::{ApprovalOutcome, EventEnvelope, RunEvent, RunFailure, TokenUsage};
pub use pattern::{escape_pattern, matches_pattern};
pub use policy::{
    ApprovalRules, CronLimits, EgressRules, EnvRules, Feature, FeatureRules, FormatVersion,
    ModelRules, OnTimeout, Policy, RunLimits, ToolPermission, ToolRules,
};
pub use request::{ApprovalChoice, ApprovalDecision, PromptInput, UnknownChoice};
