//! The jobs of all tenants: those that run next, or all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    JobId, Problem, TenantId,
    api_types::Time,
    service::call::{Call, Reply},
    storage::state::{JobSelection, Page},
};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 500;

/// Which ones.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListUpcomingJobs {
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
    /// Whether paused and finished jobs are listed too. Then all are in the order of tenants and ids.
    all: Option<bool>,
}

/// Jobs of all tenants, the next first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpcomingJobs {
    jobs: Vec<UpcomingJob>,
    next_cursor: Option<String>,
}

/// When a job runs next.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpcomingJob {
    tenant_id: TenantId,
    job_id: JobId,
    /// Absent for a job that is paused or finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_run_at: Option<Time>,
}

pub(crate) async fn list(call: Call, input: ListUpcomingJobs) -> Result<Reply, Problem> {
    let page = Page {
        limit: input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        cursor: input.cursor,
    };
    let only = call.principal().visible_tenants();
    let selection = if input.all == Some(true) {
        JobSelection::All
    } else {
        JobSelection::Upcoming
    };
    let state = call.hub.state();
    let jobs = state.next_jobs(selection, only.as_deref(), &page).await?;
    let next_cursor = jobs.next;
    let jobs = jobs.items.into_iter().map(|job| UpcomingJob {
        tenant_id: job.tenant,
        job_id: job.job,
        next_run_at: job.next,
    });
    Reply::json(&UpcomingJobs {
        jobs: jobs.collect(),
        next_cursor,
    })
}
