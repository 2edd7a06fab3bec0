//! The jobs of all tenants: those that run next, or all of them, paused ones too.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;

use super::{JobView, StoredJob, read_zone};
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, pages::render, request::PageRequest, schedule_words::ScheduleWords},
    storage::state::JobSelection,
};

/// Each may be in another home, whose file is read.
const PAGE_SIZE: u32 = 20;

#[derive(Template)]
#[template(path = "pages/cron/upcoming.html")]
struct UpcomingPage {
    page: Frame,
    jobs: Vec<UpcomingRow>,
    selection: JobSelection,
    /// Where the first ones are, on a later page.
    first: Option<String>,
    /// Where the next ones are.
    more: Option<String>,
    may_run: bool,
    may_pause: bool,
    may_resume: bool,
}

struct UpcomingRow {
    tenant: String,
    shown: JobView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpcomingJobView {
    tenant_id: String,
    job_id: String,
    next_run_at: Option<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpcomingJobsView {
    jobs: Vec<UpcomingJobView>,
    next_cursor: Option<String>,
}

pub(in crate::console::pages) async fn show(request: PageRequest) -> Result<String, Problem> {
    let selection = match request.query("all") {
        Some(_) => JobSelection::All,
        None => JobSelection::Upcoming,
    };
    let mut arguments = json!({"limit": PAGE_SIZE, "all": selection.is_all()});
    let cursor = request.query("cursor");
    if let Some(cursor) = cursor {
        arguments["cursor"] = cursor.into();
    }
    let upcoming: UpcomingJobsView = request.read("list_upcoming_crons", arguments).await?;
    let tenants: BTreeSet<&str> = upcoming
        .jobs
        .iter()
        .map(|job| job.tenant_id.as_str())
        .collect();
    // Homes are read at the same time: one that is slow, or on another node, holds up no other.
    let reader = &request;
    let reads = tenants.into_iter().map(|tenant| async move {
        let jobs = read_jobs(reader, tenant).await;
        (tenant.to_owned(), jobs)
    });
    let mut known: BTreeMap<String, BTreeMap<String, JobView>> =
        join_all(reads).await.into_iter().collect();
    let more = upcoming.next_cursor.as_deref();
    let more = more.map(|cursor| request.address_with("cursor", cursor));
    let first = cursor.map(|_| request.address_with("cursor", ""));
    let mut jobs = Vec::new();
    for job in upcoming.jobs {
        // One that was deleted in the meantime is not there any more.
        let shown = known
            .get_mut(&job.tenant_id)
            .and_then(|jobs| jobs.remove(&job.job_id));
        if let Some(mut shown) = shown {
            // What the scheduler goes by is nearer the truth than the file.
            shown.next = job.next_run_at;
            jobs.push(UpcomingRow {
                tenant: job.tenant_id,
                shown,
            });
        }
    }
    render(&UpcomingPage {
        page: Frame::new(&request, request.texts.get("nav.cron")),
        jobs,
        selection,
        first,
        more,
        may_run: request.may("run_tenant_cron"),
        may_pause: request.may("pause_tenant_cron"),
        may_resume: request.may("resume_tenant_cron"),
    })
}

/// The jobs of a tenant by their ids; none if they cannot be read now.
async fn read_jobs(request: &PageRequest, tenant: &str) -> BTreeMap<String, JobView> {
    #[derive(Deserialize)]
    struct NamedJobs {
        jobs: Vec<StoredJob>,
    }
    let list: Result<NamedJobs, Problem> = request
        .read("list_tenant_crons", json!({"tenant_id": tenant}))
        .await;
    let zone = read_zone(request, tenant).await;
    let words = ScheduleWords::new(request.texts, &zone);
    let jobs = list.map(|list| list.jobs).unwrap_or_default().into_iter();
    jobs.map(|job| (job.id.clone(), JobView::new(job, &words, Time::now())))
        .collect()
}
