//! The jobs of all tenants that run next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    JobId, Problem, TenantId,
    api_types::Time,
    service::call::{Call, Reply},
    storage::state::Page,
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
    next_run_at: Time,
}

pub(crate) async fn list(call: Call, input: ListUpcomingJobs) -> Result<Reply, Problem> {
    let page = Page {
        limit: input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        cursor: input.cursor,
    };
    let only = call.principal().visible_tenants();
    let jobs = call.hub.state().next_jobs(only.as_deref(), &page).await?;
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
