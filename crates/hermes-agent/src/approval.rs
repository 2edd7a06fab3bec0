//! Approval of risky commands and tool calls before they run.
//!
//! [`classify`] rates a command line; [`Approvals`] knows what was allowed before and asks an [`Approver`] about the
//! rest.

mod approvals;
mod command;
mod decisions;
mod judge;
pub(crate) mod protected;
mod published;
pub(crate) mod session_files;
mod settings;
mod socket;

use std::time::Duration;

use futures::future::BoxFuture;
use hermes_store::SessionId;

pub use self::{
    approvals::{ApprovalError, Approvals, SandboxState},
    decisions::{
        AnswerRule, DecisionRegistry, DecisionWaiter, FormReply, SubmitOutcome, SubmittedDecision,
    },
    judge::{Judge, Judgement, ModelJudge},
    protected::ProtectedPaths,
    published::{ApprovalChange, PublishedApprover, is_owner_gone},
    settings::{ApprovalMode, ApprovalSettings},
    socket::send_decision,
};
pub use crate::approval::command::{
    classify::{CommandContext, Finding, Verdict, classify},
    directories::OtherDirectories,
    written_files::WrittenFiles,
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalRequest {
    pub kind: ApprovalKind,
    pub tool: String,
    /// What it wants to do: the command, or the call in short. Redacted.
    pub subject: String,
    pub reason: String,
    /// The rules that asked; answers are remembered for these where there is no pattern.
    pub rules: Vec<String>,
    /// What an "always" answer is remembered for: what was shown, and no more. A "session" answer holds for no more
    /// than that either.
    pub pattern: Option<String>,
    /// What the person can change so that this is not asked again.
    pub hint: Option<String>,
    pub can_allow_always: bool,
    /// The id of its row, where whoever asks has to know it beforehand.
    pub id: Option<String>,
    /// Whether a yes has to bring answers: it is a form that cannot be sent as it is.
    pub needs_answers: bool,
    /// The session that waits. [`Approvals`] fills it in.
    pub session: Option<SessionId>,
    /// How long to wait for an answer. [`Approvals`] fills it in.
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalKind {
    #[default]
    BuiltIn,
    Mcp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Once,
    Session,
    Always,
    Denied {
        /// Told to the model.
        reason: Option<String>,
    },
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::Denied { .. })
    }
}

/// Decides about requests: the terminal, a chat, the bridge.
pub trait Approver: Send + Sync {
    /// Requests a decision. Without anybody to ask, or without an answer in time, it is denied.
    fn request_approval(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision>;
}

/// Denies everything: for runs without anybody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyAllApprover;

impl Approver for DenyAllApprover {
    fn request_approval(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        let reason = Some("there is nobody here to approve it".to_owned());
        Box::pin(std::future::ready(Decision::Denied { reason }))
    }
}

/// Never answers: for runs whose requests are published and answered by other processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLocalApprover;

impl Approver for NoLocalApprover {
    fn request_approval(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        Box::pin(std::future::pending())
    }
}

/// Allows everything: `--yolo`.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAllApprover;

impl Approver for AllowAllApprover {
    fn request_approval(&self, _request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        Box::pin(std::future::ready(Decision::Once))
    }
}
