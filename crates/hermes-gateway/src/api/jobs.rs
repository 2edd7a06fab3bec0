//! `/api/jobs`: the cron jobs of the home.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use hermes_agent::cron::TickError;
use hermes_store::cron::{
    CHANGEABLE_KEYS, CronError, CronFile, Job, JobChanges, MAX_NAME_LENGTH, MAX_PROMPT_LENGTH,
    NewJob, Repeat, Schedule, time_zone,
};
use jiff::Zoned;
use serde_json::{Map, Value, json};

use super::{ApiState, error::ApiError, idempotency, payload::Payload};
use crate::{
    api::payload,
    delivery_targets::check_delivery,
    runs::{RunInput, RunSource, StartError, StartedRun},
};

/// The member of a job that identifies the request that created it.
const MADE_BY_MEMBER: &str = "made_by_request";

/// The job that a request has created.
fn find_made_by<'f>(file: &'f CronFile, mark: &str) -> Option<&'f Job> {
    let is_it = |job: &&Job| job.get(MADE_BY_MEMBER).and_then(Value::as_str) == Some(mark);
    file.jobs.iter().find(is_it)
}

pub(super) async fn list(State(api): State<ApiState>, uri: Uri) -> Result<Json<Value>, ApiError> {
    let all = payload::is_set(&uri, "include_disabled");
    let file = load_jobs(&api).await?;
    let jobs = file.jobs.iter().filter(|job| all || job.is_enabled());
    let jobs: Vec<_> = jobs.map(Job::as_json).collect();
    Ok(Json(json!({"jobs": jobs})))
}

pub(super) async fn show(
    State(api): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let file = load_jobs(&api).await?;
    Ok(job_response(file.find(&id)?))
}

pub(super) async fn create(
    State(api): State<ApiState>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::parse_key("/api/jobs", &headers, &body)?;
    let mark = key.as_ref().map(idempotency::request_marker);
    let wanted = parse_members(&body)?;
    let now = zoned_now(&api);
    let mut wanted = JobFields::parse(wanted, &now)?;
    check_deliver(&api, &wanted, None)?;
    let schedule = wanted.changes.schedule.take();
    let schedule =
        schedule.ok_or_else(|| ApiError::invalid_member("schedule", "`schedule` is missing"))?;
    let make = async {
        let new = NewJob {
            id: wanted.id,
            name: wanted.changes.name.take(),
            repeat: wanted.changes.repeat.take(),
            deliver: text(&wanted.changes.others, "deliver"),
            skills: texts(&wanted.changes.others, "skills"),
            script: text(&wanted.changes.others, "script"),
            no_agent: wanted.changes.others.get("no_agent") == Some(&Value::Bool(true)),
            ..NewJob::new(wanted.changes.prompt.take().unwrap_or_default(), schedule)
        };
        let (mut changes, is_paused) = (wanted.changes, wanted.enabled == Some(false));
        if let Some(mark) = &mark {
            changes
                .others
                .insert(MADE_BY_MEMBER.into(), mark.clone().into());
        }
        let limits = api.gateway.agent().policy().job_limits();
        let job = update_jobs(&api, move |file, now| {
            // The reply may be lost when the gateway is killed; the job shows that it was created.
            let made = mark.as_ref().and_then(|mark| find_made_by(file, mark));
            if let Some(made) = made {
                return Ok(made.clone());
            }
            if let Some(limits) = limits {
                limits.check_new(file, &new.schedule, now)?;
            }
            let job = file.create(new, now)?;
            let id = job.id().to_owned();
            let job = file.update(&id, changes, now)?;
            if is_paused {
                return file.pause(&id, None, now);
            }
            Ok(job)
        });
        Ok(job_with_schedule(&job.await?, &now))
    };
    idempotency::run_once(&api, key, StatusCode::CREATED, make).await
}

/// Refuses targets that cannot be resolved.
fn check_deliver(
    api: &ApiState,
    wanted: &JobFields,
    origin: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(deliver) = text(&wanted.changes.others, "deliver") else {
        return Ok(());
    };
    let settings = api.gateway.agent().settings();
    check_delivery(api.gateway.home(), &settings.gateway, &deliver, origin)
        .map_err(|refusal| ApiError::invalid_member("deliver", refusal.to_string()))
}

pub(super) async fn change_job(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    let wanted = parse_members(&body)?;
    if wanted.is_empty() {
        return Err(ApiError::invalid(
            "empty_patch",
            "there is nothing to change",
        ));
    }
    let unknown = wanted
        .keys()
        .find(|key| !CHANGEABLE_KEYS.contains(&key.as_str()));
    if let Some(key) = unknown {
        let message = format!(
            "`{key}` cannot be changed; these can: {}",
            CHANGEABLE_KEYS.join(", ")
        );
        return Err(ApiError::invalid("invalid_value", message));
    }
    let wanted = JobFields::parse(wanted, &zoned_now(&api))?;
    if wanted.changes.others.contains_key("deliver") {
        let file = load_jobs(&api).await?;
        check_deliver(&api, &wanted, file.find(&id)?.get("origin"))?;
    }
    let limits = api.gateway.agent().policy().job_limits();
    let job = update_jobs(&api, move |file, now| {
        if let (Some(limits), Some(schedule)) = (limits, &wanted.changes.schedule) {
            limits.check_schedule(schedule, now)?;
        }
        let job = file.update(&id, wanted.changes, now)?;
        match wanted.enabled {
            Some(false) => file.pause(&id, None, now),
            Some(true) if !job.is_enabled() => file.resume(&id, now),
            _ => Ok(job),
        }
    });
    Ok(Json(job_with_schedule(&job.await?, &zoned_now(&api))))
}

pub(super) async fn remove(
    State(api): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let home = api.gateway.home().clone();
    update_jobs(&api, move |file, _| {
        let job = file.remove(&id)?;
        CronFile::remove_output(&home, &job)?;
        Ok(job)
    })
    .await?;
    Ok(Json(json!({"ok": true})))
}

pub(super) async fn pause(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    let request: Map<String, Value> = body.parse_or_default()?;
    let reason = text(&request, "reason");
    let job = update_jobs(&api, move |file, now| {
        file.pause(&id, reason.as_deref(), now)
    });
    Ok(job_response(&job.await?))
}

pub(super) async fn resume(
    State(api): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let job = update_jobs(&api, move |file, now| file.resume(&id, now));
    Ok(job_response(&job.await?))
}

/// Runs a job now. With `again=true` it is a run that was cut off: the only run of a job is not used up by that.
pub(super) async fn run(
    State(api): State<ApiState>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::parse_key(&format!("/api/jobs/{id}/run"), &headers, &body)?;
    let runs = api.gateway.runs();
    if let Some(key) = &key
        && let Some(earlier) = runs.find_earlier(key).await?
    {
        // A job that ran once may be gone already.
        let job = load_jobs(&api)
            .await?
            .find(&id)
            .ok()
            .map(|job| job.as_json().clone());
        return Ok(accepted_response(&json!(job), &earlier));
    }
    if !runs.accepts_new() {
        return Err(StartError::Stopping.into());
    }
    let (runner, now) = (api.gateway.runner(), zoned_now(&api));
    let claimed = if payload::is_set(&uri, "again") {
        runner.claim_again(&id, &now).await
    } else {
        runner.claim_now(&id, &now).await
    };
    let claimed = claimed.map_err(|error| match error {
        TickError::Jobs(error) => ApiError::from(error),
        TickError::Record(error) => error.into(),
    })?;
    let claimed = claimed
        .ok_or_else(|| ApiError::conflict("job_running", format!("the job `{id}` is running")))?;
    let job = Value::Object(claimed.job().as_json().clone());
    let input = json!({"job_id": claimed.job().id()});
    let run_input = RunInput::Job(Box::new(claimed));
    let started = runs.start(run_input, RunSource::Cron, input, key).await?;
    Ok(accepted_response(&job, &started))
}

fn accepted_response(job: &Value, started: &StartedRun) -> Response {
    let body = json!({"job": job, "run_id": started.id});
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    idempotency::mark_replay(&mut response, started.is_replay);
    response
}

/// A job, and how its schedule was understood.
fn job_with_schedule(job: &Job, now: &Zoned) -> Value {
    let understood = job.explain(now).map(|understood| understood.to_json());
    json!({"job": job.as_json(), "understood": understood})
}

fn job_response(job: &Job) -> Json<Value> {
    Json(json!({"job": job.as_json()}))
}

fn zoned_now(api: &ApiState) -> Zoned {
    Zoned::now().with_time_zone(time_zone(&api.gateway.agent().settings()))
}

async fn load_jobs(api: &ApiState) -> Result<CronFile, ApiError> {
    let home = api.gateway.home().clone();
    let loaded = tokio::task::spawn_blocking(move || CronFile::load(&home)).await;
    let loaded = loaded.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(loaded?)
}

/// Changes the job file on a blocking thread.
async fn update_jobs(
    api: &ApiState,
    change: impl FnOnce(&mut CronFile, &Zoned) -> Result<Job, CronError> + Send + 'static,
) -> Result<Job, ApiError> {
    let (home, now) = (api.gateway.home().clone(), zoned_now(api));
    let changed = tokio::task::spawn_blocking(move || {
        CronFile::change(&home, &now, |file| change(file, &now))
    });
    let changed = changed.await;
    let changed = changed.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(changed?)
}

/// The members of a job, bare or wrapped in `job`.
fn parse_members(body: &Payload) -> Result<Map<String, Value>, ApiError> {
    let mut members: Map<String, Value> = body.parse()?;
    if members.len() == 1
        && let Some(Value::Object(job)) = members.get_mut("job")
    {
        return Ok(std::mem::take(job));
    }
    Ok(members)
}

struct JobFields {
    id: Option<String>,
    enabled: Option<bool>,
    changes: JobChanges,
}

impl JobFields {
    fn parse(mut members: Map<String, Value>, now: &Zoned) -> Result<Self, ApiError> {
        let mut taken = |key: &'static str, limit: usize| match members.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= limit => Ok(Some(text)),
            Some(_) => Err(ApiError::invalid_member(
                key,
                format!("`{key}` is a text of at most {limit} characters"),
            )),
        };
        let id = taken("id", 64)?;
        let name = taken("name", MAX_NAME_LENGTH)?;
        let prompt = taken("prompt", MAX_PROMPT_LENGTH)?;
        let schedule = match members.remove("schedule") {
            None | Some(Value::Null) => None,
            Some(written) => Some(parse_schedule(&written, now)?),
        };
        let repeat = members.remove("repeat").map(|repeat| {
            let times = repeat.get("times").unwrap_or(&repeat).as_u64();
            match times.and_then(|times| u32::try_from(times).ok()) {
                None | Some(0) => Repeat::Forever,
                Some(times) => Repeat::Times(times),
            }
        });
        let enabled = match members.remove("enabled") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(enabled)) => Some(enabled),
            Some(_) => {
                return Err(ApiError::invalid_member(
                    "enabled",
                    "`enabled` is true or false",
                ));
            }
        };
        if let Some(skill) = members.remove("skill")
            && !members.contains_key("skills")
        {
            let skills = skill.as_str().map(|skill| vec![skill.to_owned()]);
            members.insert("skills".into(), json!(skills.unwrap_or_default()));
        }
        Ok(Self {
            id,
            enabled,
            changes: JobChanges {
                name,
                prompt,
                schedule,
                repeat,
                others: members,
            },
        })
    }
}

/// A text, or the stored schedule object.
fn parse_schedule(written: &Value, now: &Zoned) -> Result<Schedule, ApiError> {
    let parsed = match written {
        Value::String(text) => Schedule::parse(text, now),
        other => {
            let text = other["display"].as_str().unwrap_or_default();
            Schedule::from_json(other, now).map_or_else(|| Schedule::parse(text, now), Ok)
        }
    };
    parsed.map_err(|error| ApiError::invalid_member("schedule", error.to_string()))
}

fn text(members: &Map<String, Value>, key: &str) -> Option<String> {
    let text = members.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn texts(members: &Map<String, Value>, key: &str) -> Vec<String> {
    let items = members.get(key).and_then(Value::as_array);
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}
