//! What runs wait for a decision on.

use async_trait::async_trait;

use super::{Page, Paged, StateError};
use crate::{
    ApprovalId, RunId, TenantId,
    audit::NewEntry,
    shapes::{Approval, Time},
};

/// An approval to be asked for.
#[derive(Debug, Clone)]
pub struct NewApproval {
    /// Its id.
    pub id: ApprovalId,
    /// What the agent calls it.
    pub agent_id: Option<String>,
    /// What is to be run, without secrets.
    pub command: String,
    /// Why it is asked about.
    pub description: String,
    /// When it is denied unless somebody decides.
    pub expires_at: Option<Time>,
    /// What was decided about it before it was asked.
    pub carried: Option<Carried>,
}

/// A decision of an attempt that was cut off, for an approval of the next one.
#[derive(Debug, Clone)]
pub struct Carried {
    /// The approval that was decided.
    pub from: ApprovalId,
    /// What the log says of it.
    pub entry: NewEntry,
}

/// A decision.
#[derive(Debug, Clone)]
pub struct Choice {
    /// `once`, `session`, `always` or `deny`.
    pub choice: String,
    /// Which token; none when time ran out.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Which approvals.
#[derive(Debug, Clone, Default)]
pub struct ApprovalQuery {
    /// Of these tenants: what a token covers.
    pub only: Option<Vec<TenantId>>,
    /// Of one run.
    pub run: Option<RunId>,
    /// Pending ones only.
    pub pending: bool,
    /// Pending ones that ran out before.
    pub expired_before: Option<Time>,
    /// Decided ones that hold if the run begins anew.
    pub undelivered: bool,
}

/// Approvals.
#[async_trait]
pub trait Approvals {
    /// An approval.
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StateError>;

    /// What the agent calls an approval.
    async fn agent_approval(&self, id: &ApprovalId) -> Result<Option<String>, StateError>;

    /// Some approvals, oldest first.
    async fn approvals(
        &self,
        query: &ApprovalQuery,
        page: &Page,
    ) -> Result<Paged<Approval>, StateError>;

    /// How many wait for a decision.
    async fn count_pending_approvals(&self) -> Result<u64, StateError>;

    /// Decides one. Only the first decision counts; later ones are conflicts.
    async fn decide(
        &self,
        id: &ApprovalId,
        choice: Choice,
        entry: NewEntry,
    ) -> Result<Approval, StateError>;

    /// Writes down that a decision is used up: the agent knows of it, and it held once.
    async fn mark_delivered(&self, id: &ApprovalId) -> Result<(), StateError>;
}
