//! Runs, and what happened in each.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{NewApproval, Page, Paged, StateError};
use crate::{
    JobId, RunId, TenantId,
    audit::NewEntry,
    runtime::AgentRun,
    shapes::{Run, RunError, RunEvent, RunStatus, RunTrigger, RunUsage, Time},
};

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// As it is shown.
    pub run: Run,
    /// What to run: the request as it came.
    pub request: Value,
    /// The job it is a run of.
    pub job: Option<JobId>,
    /// How long it may take.
    pub timeout_seconds: Option<u64>,
    /// Whether it may begin anew after it was cut off within a tool call.
    pub retry_interrupted: bool,
    /// Whether a tool was called in this attempt.
    pub called_tool: bool,
    /// What the agent calls it.
    pub agent_run: Option<AgentRun>,
    /// The agent's last event that is stored here.
    pub agent_sequence: u64,
    /// The node that works on it.
    pub node: Option<String>,
    /// When this attempt began.
    pub started_at: Option<Time>,
}

/// A run to be.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// Whose agent.
    pub tenant: TenantId,
    /// What caused it.
    pub trigger: RunTrigger,
    /// What to run.
    pub request: Value,
    /// The job it is a run of.
    pub job: Option<JobId>,
    /// What the caller wants kept.
    pub metadata: Map<String, Value>,
    /// How long it may take.
    pub timeout_seconds: Option<u64>,
    /// Whether it may begin anew after it was cut off within a tool call.
    pub retry_interrupted: bool,
}

/// Which runs.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// Of one tenant.
    pub tenant: Option<TenantId>,
    /// Of these tenants: what a token covers.
    pub only: Option<Vec<TenantId>>,
    /// In one state.
    pub status: Option<RunStatus>,
    /// With one cause.
    pub trigger: Option<RunTrigger>,
    /// Of one job.
    pub job: Option<JobId>,
}

/// An event to be stored.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// `run.started` and so on.
    pub event: String,
    /// What belongs to it.
    pub body: Map<String, Value>,
    /// The agent's number for it; one that is stored already is left out.
    pub agent_sequence: Option<u64>,
}

/// New values for what is not `None`.
#[derive(Debug, Clone, Default)]
pub struct RunChange {
    /// Where it stands.
    pub status: Option<RunStatus>,
    /// The answer.
    pub output: Option<String>,
    /// What it took.
    pub usage: Option<RunUsage>,
    /// Why there is none.
    pub error: Option<RunError>,
    /// A tool was called.
    pub called_tool: Option<bool>,
    /// What the agent calls it.
    pub agent_run: Option<AgentRun>,
}

/// What happened in a run, stored at once.
#[derive(Debug, Clone, Default)]
pub struct RunUpdate {
    /// Only if the run stands here; anywhere but at its end, if empty.
    pub only_from: Vec<RunStatus>,
    /// What happened.
    pub events: Vec<NewEvent>,
    /// What changed.
    pub change: RunChange,
    /// What it waits for from now on.
    pub asked: Vec<NewApproval>,
    /// On whose behalf, if anybody's.
    pub entry: Option<NewEntry>,
}

/// A run after an update.
#[derive(Debug, Clone, PartialEq)]
pub struct RunUpdated {
    /// As it is now.
    pub record: RunRecord,
    /// The events with their ids, without those that were stored before.
    pub events: Vec<RunEvent>,
}

/// Events of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    /// In order.
    pub events: Vec<RunEvent>,
    /// The oldest that is kept; none if there is none.
    pub oldest: Option<u64>,
    /// Where the run stands.
    pub status: RunStatus,
    /// The run's last event.
    pub last: u64,
}

/// Runs.
#[async_trait]
pub trait Runs {
    /// Puts a run into its tenant's queue, if fewer than `queue_depth` wait there.
    async fn create_run(
        &self,
        run: NewRun,
        queue_depth: u32,
        entry: NewEntry,
    ) -> Result<Run, StateError>;

    /// A run of a tenant.
    async fn run(&self, tenant: &TenantId, id: &RunId) -> Result<Option<RunRecord>, StateError>;

    /// Some runs, newest first.
    async fn runs(&self, query: &RunQuery, page: &Page) -> Result<Paged<Run>, StateError>;

    /// How many there are in each state that is not final.
    async fn count_runs(
        &self,
        tenant: Option<&TenantId>,
    ) -> Result<BTreeMap<RunStatus, u64>, StateError>;

    /// Stores what happened.
    async fn update_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
        update: RunUpdate,
    ) -> Result<RunUpdated, StateError>;

    /// Events of a run after one.
    async fn run_events(
        &self,
        tenant: &TenantId,
        id: &RunId,
        after: u64,
        most: u32,
    ) -> Result<EventPage, StateError>;

    /// Forgets runs that ended before.
    async fn forget_runs(&self, before: Time) -> Result<u64, StateError>;
}
