//! Cron jobs of a tenant, in the agent's own file, which is edited under its lock.

use hermes_store::cron::{CronError, CronFile, Job, JobChanges};
use jiff::Zoned;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{TenantRef, run_blocking, run_recorded};
use crate::{
    JobId, Problem, ProblemCode, TenantId,
    api_types::{Time, ids::hex},
    service::call::{Call, Reply},
    storage::state::{FileChange, Page, RunQuery},
    tenants::{documents::policy::job_limits, scheduler::job_files, settings::time_zone},
};

mod fields;
pub(crate) mod upcoming;

const SHOWN_EXECUTIONS: u32 = 10;

/// A cron job as the agent stores it; unknown members are kept.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(transparent)]
#[serde(transparent)]
pub(crate) struct JobRecord(Map<String, Value>);

/// Jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobList {
    jobs: Vec<JobRecord>,
}

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobReply {
    job: JobRecord,
    /// How its schedule was interpreted.
    #[serde(skip_serializing_if = "Option::is_none")]
    understood: Option<ScheduleSummary>,
}

/// The meaning of a schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ScheduleSummary {
    /// In words.
    words: String,
    /// When the job runs next, in the tenant's zone; at most three times, and none while it is paused.
    next: Vec<String>,
}

/// A job and its last executions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobDetails {
    job: JobRecord,
    /// The last ten, newest first.
    executions: Vec<Execution>,
}

/// An execution of a job, or a due time without one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    run_id: Option<crate::RunId>,
    status: String,
    /// When it was due; absent if it was run by hand.
    due_at: Option<crate::api_types::Time>,
    created_at: crate::api_types::Time,
    updated_at: crate::api_types::Time,
    /// Why it did not run, or failed.
    error: Option<String>,
}

/// A job of a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The job's id.
    job_id: JobId,
}

/// A job to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateJob {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The job.
    #[schemars(with = "fields::JobInput")]
    job: Map<String, Value>,
}

/// A change of a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateJob {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The job's id.
    job_id: JobId,
    /// Members to set.
    #[schemars(with = "fields::JobPatch")]
    patch: Map<String, Value>,
}

/// A job to pause.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseJob {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The job's id.
    job_id: JobId,
    /// The reason.
    reason: Option<String>,
}

pub(crate) async fn list(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let jobs = load_jobs(&call)
        .await?
        .jobs
        .iter()
        .map(job_record)
        .collect();
    Reply::json(&JobList { jobs })
}

pub(crate) async fn get(call: Call, input: JobRef) -> Result<Reply, Problem> {
    let file = load_jobs(&call).await?;
    let job = find_job(&file, &input.job_id)?;
    let executions = list_executions(&call, &input.job_id).await?;
    Ok(Reply::json(&JobDetails {
        job: job_record(job),
        executions,
    })?
    .etag(job_etag(job)))
}

pub(crate) async fn create(call: Call, input: CreateJob) -> Result<Reply, Problem> {
    let effective_documents = call.hub.effective_documents();
    let job = edit_jobs(&call, move |file, now| {
        let (new, others) = fields::parse_new_job(input.job, now)?;
        let limits = job_limits(effective_documents.policy().cron);
        limits
            .check_new(file, &new.schedule, now)
            .map_err(cron_problem)?;
        let is_enabled = others.get("enabled").and_then(Value::as_bool) != Some(false);
        if let Some(id) = &new.id
            && file.jobs.iter().any(|job| job.id() == id)
        {
            return Err(Problem::new(
                ProblemCode::AlreadyExists,
                format!("the job `{id}` exists already; choose another id"),
            ));
        }
        let job = file.create(new, now).map_err(cron_problem)?;
        let changes = JobChanges {
            others,
            ..JobChanges::default()
        };
        let job = file.update(job.id(), changes, now).map_err(cron_problem)?;
        if is_enabled {
            Ok(job)
        } else {
            file.pause(job.id(), None, now).map_err(cron_problem)
        }
    })
    .await?;
    Ok(job_reply(&call, &job)?.status(201))
}

pub(crate) async fn update(call: Call, input: UpdateJob) -> Result<Reply, Problem> {
    if input.patch.is_empty() {
        return Err(
            Problem::invalid("the patch is empty; name what is to change")
                .with_detail("patch", "empty"),
        );
    }
    let effective_documents = call.hub.effective_documents();
    let wanted = call.if_match.clone();
    let job = edit_jobs(&call, move |file, now| {
        let before = find_job(file, &input.job_id)?;
        if wanted
            .is_some_and(|wanted| !crate::service::call::etag_matches(&wanted, &job_etag(before)))
        {
            return Err(crate::service::call::version_conflict());
        }
        let id = input.job_id.as_str();
        let (changes, enabled) = fields::parse_changes(input.patch, now)?;
        if let Some(schedule) = &changes.schedule {
            let limits = job_limits(effective_documents.policy().cron);
            limits.check_schedule(schedule, now).map_err(cron_problem)?;
        }
        let job = file.update(id, changes, now).map_err(cron_problem)?;
        match enabled {
            Some(false) => file.pause(id, None, now).map_err(cron_problem),
            Some(true) if !job.is_enabled() => file.resume(id, now).map_err(cron_problem),
            _ => Ok(job),
        }
    })
    .await?;
    job_reply(&call, &job)
}

pub(crate) async fn delete(call: Call, input: JobRef) -> Result<Reply, Problem> {
    let home = call.hub.home(call.tenant()?);
    let id = input.job_id.clone();
    edit_jobs(&call, move |file, _| {
        find_job(file, &id)?;
        file.remove(id.as_str()).map_err(cron_problem)
    })
    .await?;
    run_blocking(move || {
        job_files::remove_job_output(&home, &input.job_id);
        Ok(())
    })
    .await?;
    Ok(Reply::empty())
}

pub(crate) async fn pause(call: Call, input: PauseJob) -> Result<Reply, Problem> {
    let job = edit_jobs(&call, move |file, now| {
        find_job(file, &input.job_id)?;
        file.pause(input.job_id.as_str(), input.reason.as_deref(), now)
            .map_err(cron_problem)
    })
    .await?;
    job_reply(&call, &job)
}

pub(crate) async fn resume(call: Call, input: JobRef) -> Result<Reply, Problem> {
    let job = edit_jobs(&call, move |file, now| {
        find_job(file, &input.job_id)?;
        file.resume(input.job_id.as_str(), now)
            .map_err(cron_problem)
    })
    .await?;
    job_reply(&call, &job)
}

/// A job that runs now.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobStarted {
    job: JobRecord,
    run_id: crate::RunId,
}

pub(crate) async fn run(call: Call, input: JobRef) -> Result<Reply, Problem> {
    let file = load_jobs(&call).await?;
    let job = job_record(find_job(&file, &input.job_id)?);
    call.hub.check_quota(call.tenant()?).await?;
    let run = call
        .hub
        .runs()
        .run_job(call.tenant_id()?, &input.job_id, call.entry.clone())
        .await?;
    Ok(Reply::json(&JobStarted {
        job,
        run_id: run.run_id,
    })?
    .status(202))
}

fn job_record(job: &Job) -> JobRecord {
    JobRecord(job.as_json().clone())
}

fn job_reply(call: &Call, job: &Job) -> Result<Reply, Problem> {
    let zone = time_zone(call.tenant()?, &call.hub.effective_documents());
    let understood = job.explain(&Time::now().timestamp().to_zoned(zone));
    let shown = JobReply {
        job: job_record(job),
        understood: understood.map(|understood| ScheduleSummary {
            next: understood.times(),
            words: understood.words,
        }),
    };
    Ok(Reply::json(&shown)?.etag(job_etag(job)))
}

/// Members that runs and the scheduler change, but no client.
const RUNTIME_MEMBERS: [&str; 13] = [
    "fire_claim",
    "last_deliveries",
    "last_delivery_error",
    "last_delivery_status",
    "last_error",
    "last_run_at",
    "last_status",
    "model_snapshot",
    "next_run_at",
    "provider_snapshot",
    "repeat",
    "run_claim",
    "state",
];

/// Changes only when a client changes the job.
fn job_etag(job: &Job) -> String {
    let mut members = job.as_json().clone();
    members.retain(|name, _| !RUNTIME_MEMBERS.contains(&name.as_str()));
    // A part of these members belongs to the client.
    let times = job.get("repeat").and_then(|repeat| repeat.get("times"));
    members.insert("repeat".into(), times.cloned().unwrap_or_default());
    let text = Value::Object(members).to_string();
    crate::service::call::etag(&hex(&Sha256::digest(text))[..16])
}

/// Whether a job could be created where so many are.
pub(crate) fn check_new_job(
    call: &Call,
    job: Map<String, Value>,
    present: usize,
    now: &Zoned,
) -> Result<(), Problem> {
    let (new, _) = fields::parse_new_job(job, now)?;
    let limits = job_limits(call.hub.effective_documents().policy().cron);
    if present >= limits.max_jobs {
        let most = limits.max_jobs;
        return Err(cron_problem(CronError::TooMany { most }));
    }
    limits
        .check_schedule(&new.schedule, now)
        .map_err(cron_problem)
}

/// Whether a job could be changed so.
pub(crate) fn check_job_changes(
    call: &Call,
    patch: Map<String, Value>,
    now: &Zoned,
) -> Result<(), Problem> {
    let (changes, _) = fields::parse_changes(patch, now)?;
    let limits = job_limits(call.hub.effective_documents().policy().cron);
    match &changes.schedule {
        Some(schedule) => limits.check_schedule(schedule, now).map_err(cron_problem),
        None => Ok(()),
    }
}

/// By its id only, since names are not unique.
fn find_job<'f>(file: &'f CronFile, id: &JobId) -> Result<&'f Job, Problem> {
    let job = file.jobs.iter().find(|job| job.id() == id.as_str());
    job.ok_or_else(|| Problem::not_found(format!("there is no cron job `{id}`")))
}

async fn load_jobs(call: &Call) -> Result<CronFile, Problem> {
    let home = call.hub.home(call.tenant()?);
    run_blocking(move || job_files::read_home_jobs(&home).map_err(cron_problem)).await
}

/// Edits the file, with an audit entry before and after.
async fn edit_jobs(
    call: &Call,
    edit: impl FnOnce(&mut CronFile, &Zoned) -> Result<Job, Problem> + Send + 'static,
) -> Result<Job, Problem> {
    let record = call.tenant()?;
    let home = call.hub.home(record);
    let zone = time_zone(record, &call.hub.effective_documents());
    let edited = run_blocking(move || {
        let now = Time::now().timestamp().to_zoned(zone);
        job_files::edit_home_jobs(&home, &now, |file| edit(file, &now), cron_problem)
    });
    let change = FileChange::Home {
        tenant: record.id.clone(),
    };
    let result = run_recorded(call, change, edited).await;
    if result.is_ok() {
        call.hub.jobs_changed(&record.id);
    }
    result
}

async fn list_executions(call: &Call, job: &JobId) -> Result<Vec<Execution>, Problem> {
    let tenant = call.tenant_id()?;
    let state = call.hub.state();
    let query = RunQuery {
        tenant: Some(tenant.clone()),
        job: Some(job.clone()),
        ..RunQuery::default()
    };
    let runs = state
        .runs(&query, &Page::first(SHOWN_EXECUTIONS))
        .await?
        .items;
    let fires = state
        .fires(tenant, job, &Page::first(SHOWN_EXECUTIONS))
        .await?
        .items;
    let mut executions: Vec<Execution> = runs
        .into_iter()
        .map(|run| Execution {
            due_at: fires
                .iter()
                .find(|fire| fire.run.as_ref() == Some(&run.run_id))
                .map(|fire| fire.due),
            status: run.status.to_string(),
            created_at: run.created_at,
            updated_at: run.updated_at,
            error: run.error.map(|error| error.message),
            run_id: Some(run.run_id),
        })
        .collect();
    let skipped = fires.into_iter().filter(|fire| fire.run.is_none());
    executions.extend(skipped.map(|fire| Execution {
        run_id: None,
        status: "skipped".into(),
        due_at: Some(fire.due),
        created_at: fire.fired_at,
        updated_at: fire.fired_at,
        error: fire.skipped,
    }));
    executions.sort_by_key(|execution| std::cmp::Reverse(execution.created_at));
    executions.truncate(SHOWN_EXECUTIONS as usize);
    Ok(executions)
}

fn cron_problem(error: CronError) -> Problem {
    match error {
        CronError::NoSuchJob { .. } => Problem::not_found(error.to_string()),
        CronError::Damaged { .. } => {
            tracing::warn!(%error, "cron job file is damaged");
            Problem::new(
                ProblemCode::Unavailable,
                "the tenant's `cron/jobs.json` is damaged; correct it or move it away",
            )
            .with_reason("damaged")
        }
        CronError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            Problem::new(
                ProblemCode::OutOfSpace,
                "the Hub's disk is full; its operator must make room",
            )
            .with_reason("disk_full")
        }
        CronError::Io { source, .. } if source.kind() == std::io::ErrorKind::WouldBlock => {
            Problem::new(
                ProblemCode::Unavailable,
                "the tenant's agent holds its cron jobs; try again in a moment",
            )
            .with_reason("busy")
        }
        CronError::Io { .. } => Problem::internal(&error),
        CronError::BadId { .. }
        | CronError::Schedule(_)
        | CronError::NoScript
        | CronError::Ambiguous { .. } => Problem::invalid(error.to_string()),
        CronError::NoNextRun { .. } => {
            Problem::invalid(error.to_string()).with_detail("schedule", "over")
        }
        CronError::TooMany { .. } => Problem::new(ProblemCode::Unprocessable, error.to_string())
            .with_reason("max_jobs")
            .with_detail("/cron/maxJobs", "reached"),
        CronError::TooOften { .. } => Problem::new(ProblemCode::Unprocessable, error.to_string())
            .with_reason("min_interval")
            .with_detail("schedule", "too often"),
    }
}
