//! A job: its next five times, its last runs and what became of their messages, and changing it.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::{JobView, StoredJob, read_zone};
use crate::{
    Problem,
    api_types::Time,
    console::{
        frame::Frame,
        pages::{is_there, render},
        request::PageRequest,
        schedule_form::{self, ScheduleFields},
        schedule_words::{NextTime, ScheduleWords},
    },
};

#[derive(Template)]
#[template(path = "pages/cron/job.html")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a thing that is shown or not"
)]
struct JobPage {
    page: Frame,
    tenant: String,
    zone: String,
    /// For `If-Match`.
    version: String,
    times: Vec<NextTime>,
    executions: Vec<JobExecution>,
    skills: String,
    repeat: String,
    editor: ScheduleFields,
    editor_name: &'static str,
    kinds: &'static [&'static str],
    links_runs: bool,
    may_write: bool,
    may_run: bool,
    may_delete: bool,
    shown: JobView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobExecution {
    run_id: Option<String>,
    status: String,
    due_at: Option<Time>,
    created_at: Time,
    error: Option<String>,
}

#[derive(Deserialize)]
struct JobDetailsView {
    job: StoredJob,
    executions: Vec<JobExecution>,
}

pub(in crate::console::pages) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let arguments = json!({"tenant_id": tenant, "job_id": request.path_value("job_id")});
    let (details, version): (JobDetailsView, _) =
        request.read_versioned("get_tenant_cron", arguments).await?;
    let zone = read_zone(&request, &tenant).await;
    let words = ScheduleWords::new(request.texts, &zone);
    let shown = JobView::new(details.job, &words, Time::now());
    let job = &shown.job;
    let times = shown.next.map(|next| words.next_times(&job.schedule, next));
    let repeat = job.repeat.as_ref().and_then(|repeat| {
        let times = repeat.get("times").unwrap_or(repeat).as_u64()?;
        Some(times.to_string())
    });
    render(&JobPage {
        page: Frame::new(&request, job.short_name()),
        version: version.unwrap_or_default(),
        times: times.unwrap_or_default(),
        executions: details.executions,
        skills: job.skills.as_deref().unwrap_or_default().join("\n"),
        repeat: repeat.unwrap_or_default(),
        editor: ScheduleFields::of(job.display()),
        editor_name: "patch.schedule",
        kinds: &schedule_form::KINDS,
        links_runs: is_there(&request, "/tenants/{tenant_id}/runs/{run_id}"),
        may_write: request.may("update_tenant_cron"),
        may_run: request.may("run_tenant_cron"),
        may_delete: request.may("delete_tenant_cron"),
        tenant,
        zone,
        shown,
    })
}
