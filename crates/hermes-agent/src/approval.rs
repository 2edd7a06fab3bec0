//! Decisions that a person has to take before something risky runs.
//!
//! [`classify`] looks at a command line; [`Approvals`] knows what was allowed before and asks an [`Approver`] about the
//! rest.

mod approvals;
mod classify;
mod code;
mod decisions;
pub(crate) mod glob;
mod judge;
mod programs;
pub(crate) mod protected;
mod published;
mod rules;
mod settings;
mod shell;
mod socket;
mod sql;
mod targets;
mod written;

use std::time::Duration;

use futures::future::BoxFuture;
use hermes_store::SessionId;

pub use self::{
    approvals::{Approvals, Holding, Refusal},
    classify::{Finding, Scene, Verdict, classify},
    decisions::{Decisions, Given, Taken, Waiting},
    judge::{Judge, Judgement, ModelJudge},
    protected::Landmarks,
    published::{Change, Published, is_owner_gone},
    settings::{ApprovalMode, ApprovalSettings},
    socket::decide_elsewhere,
    written::Written,
};

/// What is to be decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// Whose tool it is.
    pub kind: ApprovalKind,
    /// The tool that wants to run.
    pub tool: String,
    /// What it wants to do: the command, or the call in short. Redacted.
    pub subject: String,
    /// Why it is asked.
    pub reason: String,
    /// The rules that asked; answers are remembered for these where there is no pattern.
    pub rules: Vec<String>,
    /// What an "always" answer is remembered for: what was shown, and no more. A "session" answer holds for no more
    /// than that either.
    pub pattern: Option<String>,
    /// What the person could do not to be asked such things.
    pub advice: Option<String>,
    /// Whether "always" is offered.
    pub may_be_permanent: bool,
    /// The session that waits. [`Approvals`] fills it in.
    pub session: Option<SessionId>,
    /// How long an answer is waited for. [`Approvals`] fills it in.
    pub patience: Option<Duration>,
}

/// Whose tool wants to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalKind {
    /// One of the agent's own.
    #[default]
    BuiltIn,
    /// One of an MCP server.
    Mcp,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// This time.
    Once,
    /// For the rest of the session.
    Session,
    /// From now on.
    Always,
    /// No.
    Denied {
        /// Told to the model.
        reason: Option<String>,
    },
}

impl Decision {
    /// Whether it may run.
    pub fn allows(&self) -> bool {
        !matches!(self, Self::Denied { .. })
    }
}

/// Somebody who decides: the terminal, a chat, the bridge.
pub trait Approver: Send + Sync {
    /// Asks. Nobody there, no answer in time: denied.
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision>;
}

/// Refuses everything: where nobody can be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyDecides;

impl Approver for NobodyDecides {
    fn ask(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        let reason = Some("nobody is there to approve it".to_owned());
        Box::pin(std::future::ready(Decision::Denied { reason }))
    }
}

/// Leaves the answer to others: where questions are published, and nobody sits at a terminal.
#[derive(Debug, Clone, Copy, Default)]
pub struct OthersDecide;

impl Approver for OthersDecide {
    fn ask(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        Box::pin(std::future::pending())
    }
}

/// Allows everything: `--yolo`.
#[derive(Debug, Clone, Copy, Default)]
pub struct EverythingAllowed;

impl Approver for EverythingAllowed {
    fn ask(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        Box::pin(std::future::ready(Decision::Once))
    }
}
