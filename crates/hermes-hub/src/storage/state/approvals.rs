//! Approvals of runs.

use async_trait::async_trait;
use hermes_protocol::{ApprovalChoice, FormAnswer, RequestedForm};

use super::{Page, Paged, StateError};
use crate::{
    ApprovalId, RunId, TenantId,
    api_types::{Approval, Time},
    storage::audit::NewAuditEntry,
};

#[derive(Debug, Clone)]
pub struct NewApproval {
    pub id: ApprovalId,
    /// The agent's id.
    pub agent_id: Option<String>,
    /// Without secrets.
    pub command: String,
    pub description: String,
    /// What may be chosen.
    pub choices: Vec<ApprovalChoice>,
    /// The form to fill in, without secrets.
    pub form: Option<RequestedForm>,
    /// Denied after this time.
    pub expires_at: Option<Time>,
    /// A decision carried over from an interrupted attempt.
    pub carried: Option<CarriedDecision>,
}

/// A decision of an interrupted attempt, for an approval of the next one.
#[derive(Debug, Clone)]
pub struct CarriedDecision {
    pub from: ApprovalId,
    pub entry: NewAuditEntry,
}

#[derive(Debug, Clone)]
pub struct NewDecision {
    pub choice: ApprovalChoice,
    /// The token; `None` after the timeout.
    pub by: Option<String>,
    pub reason: Option<String>,
    /// What was made of a form. Kept until the agent has it, or the run ends.
    pub answer: Option<FormAnswer>,
}

#[derive(Debug, Clone, Default)]
pub struct ApprovalQuery {
    /// Only these tenants, which the token covers.
    pub only: Option<Vec<TenantId>>,
    pub run: Option<RunId>,
    pub pending: bool,
    /// Pending ones that expired before this time.
    pub expired_before: Option<Time>,
    /// Decided ones that have not been delivered to the agent.
    pub undelivered: bool,
}

#[async_trait]
pub trait ApprovalStore {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StateError>;

    /// The agent's id of an approval.
    async fn agent_approval(&self, id: &ApprovalId) -> Result<Option<String>, StateError>;

    /// What somebody made of the form of an approval, as long as the agent may need it.
    async fn form_answer(&self, id: &ApprovalId) -> Result<Option<FormAnswer>, StateError>;

    /// Oldest first.
    async fn approvals(
        &self,
        query: &ApprovalQuery,
        page: &Page,
    ) -> Result<Paged<Approval>, StateError>;

    async fn count_pending_approvals(&self) -> Result<u64, StateError>;

    /// Only the first decision counts; later ones are conflicts.
    async fn decide(
        &self,
        id: &ApprovalId,
        decision: NewDecision,
        entry: NewAuditEntry,
    ) -> Result<Approval, StateError>;

    /// Marks a decision as delivered to the agent.
    async fn mark_delivered(&self, id: &ApprovalId) -> Result<(), StateError>;
}
