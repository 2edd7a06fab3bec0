//! Runs and their events; the queue, and what this node has claimed of it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use hermes_protocol::RunEvent;
use serde_json::{Map, Value};

use super::{NewApproval, Page, Paged, StateError};
use crate::{
    JobId, RunId, TenantId,
    api_types::{
        Run, RunError, RunStatus, RunTrigger, RunUsage, StoredEvent, Time, ids::AgentRunId,
    },
    storage::audit::NewAuditEntry,
};

#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    pub run: Run,
    /// The original request.
    pub request: Value,
    /// The cron job, if any.
    pub job: Option<JobId>,
    pub timeout_seconds: Option<u64>,
    /// Whether it may be retried after an interruption during a tool call.
    pub retry_interrupted: bool,
    pub called_tool: bool,
    /// The agent's id.
    pub agent_run: Option<AgentRunId>,
    /// The agent's sequence number of the last stored event.
    pub agent_sequence: u64,
    pub node: Option<String>,
    pub started_at: Option<Time>,
}

#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    pub tenant: TenantId,
    pub trigger: RunTrigger,
    pub request: Value,
    /// The cron job, if any.
    pub job: Option<JobId>,
    pub metadata: Map<String, Value>,
    pub timeout_seconds: Option<u64>,
    /// Whether it may be retried after an interruption during a tool call.
    pub retry_interrupted: bool,
}

#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    pub tenant: Option<TenantId>,
    /// Only these tenants, which the token covers.
    pub only: Option<Vec<TenantId>>,
    pub status: Option<RunStatus>,
    pub trigger: Option<RunTrigger>,
    pub job: Option<JobId>,
    /// The model that answered.
    pub model: Option<String>,
    /// Only those requested then or later.
    pub since: Option<Time>,
    /// Only those requested before.
    pub until: Option<Time>,
}

#[derive(Debug, Clone)]
pub struct NewEvent {
    pub event: RunEvent,
    /// The agent's sequence number; an event that is already stored is skipped.
    pub agent_sequence: Option<u64>,
}

/// `None` leaves a value unchanged.
#[derive(Debug, Clone, Default)]
pub struct RunChange {
    pub status: Option<RunStatus>,
    pub output: Option<String>,
    pub usage: Option<RunUsage>,
    /// The model that answered.
    pub model: Option<String>,
    pub error: Option<RunError>,
    pub called_tool: Option<bool>,
    /// The agent's id.
    pub agent_run: Option<AgentRunId>,
}

/// An update of a run, stored in one transaction.
#[derive(Debug, Clone, Default)]
pub struct RunUpdate {
    /// Only from one of these statuses; from any that is not final, if empty.
    pub allowed_from: Vec<RunStatus>,
    pub events: Vec<NewEvent>,
    pub change: RunChange,
    pub new_approvals: Vec<NewApproval>,
    /// The audit entry, if the update is on somebody's behalf.
    pub entry: Option<NewAuditEntry>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunUpdated {
    pub record: RunRecord,
    /// The new events with their ids.
    pub events: Vec<StoredEvent>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunEventPage {
    pub events: Vec<StoredEvent>,
    /// The oldest stored event, if any.
    pub oldest: Option<u64>,
    pub status: RunStatus,
    pub last: u64,
}

/// Runs.
#[async_trait]
pub trait RunStore {
    /// Adds a run to its tenant's queue, if fewer than `queue_depth` are queued.
    async fn create_run(
        &self,
        run: NewRun,
        queue_depth: u32,
        entry: NewAuditEntry,
    ) -> Result<Run, StateError>;

    async fn run(&self, tenant: &TenantId, id: &RunId) -> Result<Option<RunRecord>, StateError>;

    async fn runs(&self, query: &RunQuery, page: &Page) -> Result<Paged<Run>, StateError>;

    /// Number of runs in each status that is not final.
    async fn count_runs(
        &self,
        tenant: Option<&TenantId>,
    ) -> Result<BTreeMap<RunStatus, u64>, StateError>;

    async fn update_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        update: RunUpdate,
    ) -> Result<RunUpdated, StateError>;

    async fn run_events(
        &self,
        tenant: &TenantId,
        id: &RunId,
        after: u64,
        most: u32,
    ) -> Result<RunEventPage, StateError>;

    /// Deletes runs that ended before this time.
    async fn forget_runs(&self, before: Time) -> Result<u64, StateError>;
}

#[async_trait]
pub trait RunQueueStore {
    /// Claims the tenant's oldest queued run for this node, unless `most` are active.
    async fn claim_run(
        &self,
        tenant: &TenantId,
        most: u32,
    ) -> Result<Option<RunRecord>, StateError>;

    /// Tenants with queued runs, those that wait longest first.
    async fn waiting_tenants(&self, most: u32) -> Result<Vec<TenantId>, StateError>;

    /// Unfinished runs that this node has claimed.
    async fn claimed_runs(&self) -> Result<Vec<RunRecord>, StateError>;

    /// Puts an interrupted run back into the queue, at its old position, with one more attempt.
    /// The reason is one word, the message is for people.
    async fn requeue_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        reason: &str,
        message: Option<String>,
    ) -> Result<RunUpdated, StateError>;
}
