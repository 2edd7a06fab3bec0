//! The jobs of a tenant: when they run in words, when next, how the last run and its delivery went.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::{Tenant, Time},
    console::{
        frame::Frame,
        request::PageRequest,
        schedule_form::{self, ScheduleFields},
        schedule_words::ScheduleWords,
    },
};

pub(super) mod job;
pub(super) mod upcoming;

#[derive(Template)]
#[template(path = "pages/cron.html")]
struct CronPage {
    page: Frame,
    tenant: String,
    zone: String,
    jobs: Vec<JobView>,
    /// For a new job.
    editor: ScheduleFields,
    editor_name: &'static str,
    kinds: &'static [&'static str],
    may_write: bool,
    may_run: bool,
}

/// More of a name is cut in lists and headings.
const MAX_NAME_CHARS: usize = 120;

/// A job as its file has it; what is missing there is empty here.
#[derive(Deserialize)]
#[serde(default)]
struct StoredJob {
    id: String,
    name: Option<String>,
    prompt: Option<String>,
    schedule: Value,
    schedule_display: Option<String>,
    enabled: bool,
    state: Option<String>,
    paused_reason: Option<String>,
    deliver: Option<String>,
    skills: Option<Vec<String>>,
    model: Option<String>,
    repeat: Option<Value>,
    next_run_at: Option<String>,
    last_run_at: Option<String>,
    last_status: Option<String>,
    last_error: Option<String>,
    last_delivery_status: Option<String>,
    last_delivery_error: Option<String>,
    last_deliveries: Option<Vec<StoredDelivery>>,
}

impl Default for StoredJob {
    fn default() -> Self {
        Self {
            enabled: true,
            id: String::new(),
            name: None,
            prompt: None,
            schedule: Value::Null,
            schedule_display: None,
            state: None,
            paused_reason: None,
            deliver: None,
            skills: None,
            model: None,
            repeat: None,
            next_run_at: None,
            last_run_at: None,
            last_status: None,
            last_error: None,
            last_delivery_status: None,
            last_delivery_error: None,
            last_deliveries: None,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StoredDelivery {
    target: String,
    message_id: Option<String>,
    error: Option<String>,
}

/// A job with its schedule in words.
struct JobView {
    words: String,
    next: Option<Time>,
    last: Option<Time>,
    job: StoredJob,
}

impl StoredJob {
    fn name(&self) -> &str {
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        name.unwrap_or(&self.id)
    }

    /// Its name where it is not edited: agents may store a long one.
    fn short_name(&self) -> String {
        let name = self.name();
        match name.char_indices().nth(MAX_NAME_CHARS) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.to_owned(),
        }
    }

    /// How its schedule is written.
    fn display(&self) -> &str {
        let stored = self.schedule_display.as_deref();
        stored
            .or_else(|| self.schedule["display"].as_str())
            .unwrap_or("?")
    }

    fn is_paused(&self) -> bool {
        !self.enabled || self.state.as_deref() == Some("paused")
    }

    /// `scheduled`, `paused`, `completed` or `error`.
    fn state(&self) -> &str {
        match self.state.as_deref() {
            _ if self.is_paused() => "paused",
            Some(state) => state,
            None => "scheduled",
        }
    }

    /// The class of a sign beside the state.
    fn sign(&self) -> &'static str {
        match self.state() {
            "error" => "failed",
            "scheduled" => "ready",
            _ => "stopped",
        }
    }
}

impl JobView {
    fn new(job: StoredJob, words: &ScheduleWords, now: Time) -> Self {
        Self {
            words: words.tell(&job.schedule, job.display(), now),
            next: job
                .next_run_at
                .as_deref()
                .and_then(parse_time)
                .filter(|_| !job.is_paused()),
            last: job.last_run_at.as_deref().and_then(parse_time),
            job,
        }
    }

    fn last_failed(&self) -> bool {
        self.job.last_status.as_deref() == Some("error")
    }

    fn delivery_failed(&self) -> bool {
        matches!(
            self.job.last_delivery_status.as_deref(),
            Some("failed" | "partial")
        )
    }
}

fn parse_time(text: &str) -> Option<Time> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.into())
}

/// The zone that a tenant's jobs are in.
async fn read_zone(request: &PageRequest, tenant: &str) -> String {
    let named = json!({"tenant_id": tenant});
    let read: Result<Tenant, Problem> = request.read("get_tenant", named).await;
    read.map_or_else(|_| "UTC".to_owned(), |tenant| tenant.agent.timezone)
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    #[derive(Deserialize)]
    struct JobsView {
        jobs: Vec<StoredJob>,
    }
    let tenant = request.path_value("tenant_id").to_owned();
    let list: JobsView = request
        .read("list_tenant_crons", json!({"tenant_id": tenant}))
        .await?;
    let zone = read_zone(&request, &tenant).await;
    let words = ScheduleWords::new(request.texts, &zone);
    let now = Time::now();
    let jobs = list.jobs.into_iter();
    let mut jobs: Vec<JobView> = jobs.map(|job| JobView::new(job, &words, now)).collect();
    // What runs next comes first; what does not run any more, last.
    jobs.sort_by_key(|job| (job.next.is_none(), job.next));
    render(&CronPage {
        page: Frame::new(&request, request.texts.get("tabs.cron")),
        tenant,
        zone,
        jobs,
        editor: ScheduleFields::default(),
        editor_name: "job.schedule",
        kinds: &schedule_form::KINDS,
        may_write: request.may("create_tenant_cron"),
        may_run: request.may("run_tenant_cron"),
    })
}
