//! `/api/jobs`: the cron jobs of the home.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use hermes_agent::cron::TickError;
use hermes_store::cron::{
    CHANGEABLE, CronError, CronFile, Job, JobChanges, LONGEST_NAME, LONGEST_PROMPT, NewJob, Repeat,
    Schedule, time_zone,
};
use jiff::Zoned;
use serde_json::{Map, Value, json};

use super::{Api, error::ApiError, idempotency, payload::Payload, query};
use crate::runs::{Errand, NotStarted, Source, Started};

/// The member of a job that identifies the request that created it.
const MADE_BY: &str = "made_by_request";

/// The job that a request has created.
fn made_by<'f>(file: &'f CronFile, mark: &str) -> Option<&'f Job> {
    let is_it = |job: &&Job| job.get(MADE_BY).and_then(Value::as_str) == Some(mark);
    file.jobs.iter().find(is_it)
}

pub(super) async fn list(State(api): State<Api>, uri: Uri) -> Result<Json<Value>, ApiError> {
    let all = query::flag(&uri, "include_disabled");
    let file = load(&api).await?;
    let jobs = file.jobs.iter().filter(|job| all || job.is_enabled());
    let jobs: Vec<_> = jobs.map(Job::as_json).collect();
    Ok(Json(json!({"jobs": jobs})))
}

pub(super) async fn show(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let file = load(&api).await?;
    Ok(answer(file.find(&id)?))
}

pub(super) async fn create(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::key("/api/jobs", &headers, &body)?;
    let mark = key.as_ref().map(idempotency::mark);
    let wanted = members(&body)?;
    let now = now(&api);
    let mut wanted = Wanted::read(wanted, &now)?;
    let schedule = wanted.changes.schedule.take();
    let schedule = schedule.ok_or_else(|| ApiError::member("schedule", "`schedule` is missing"))?;
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
            changes.others.insert(MADE_BY.into(), mark.clone().into());
        }
        let limits = api.gateway.agent().ceiling().jobs();
        let job = change(&api, move |file, now| {
            // The reply may be lost when the gateway is killed; the job shows that it was created.
            let made = mark.as_ref().and_then(|mark| made_by(file, mark));
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
        Ok(understood(&job.await?, &now))
    };
    idempotency::once(&api, key, StatusCode::CREATED, make).await
}

pub(super) async fn change_job(
    State(api): State<Api>,
    Path(id): Path<String>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    let wanted = members(&body)?;
    if wanted.is_empty() {
        return Err(ApiError::invalid("empty_patch", "there is nothing to change"));
    }
    let unknown = wanted
        .keys()
        .find(|key| !CHANGEABLE.contains(&key.as_str()));
    if let Some(key) = unknown {
        let message = format!(
            "`{key}` cannot be changed; these can: {}",
            CHANGEABLE.join(", ")
        );
        return Err(ApiError::invalid("invalid_value", message));
    }
    let wanted = Wanted::read(wanted, &now(&api))?;
    let limits = api.gateway.agent().ceiling().jobs();
    let job = change(&api, move |file, now| {
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
    Ok(Json(understood(&job.await?, &now(&api))))
}

pub(super) async fn remove(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let home = api.gateway.home().clone();
    change(&api, move |file, _| {
        let job = file.remove(&id)?;
        CronFile::remove_output(&home, &job)?;
        Ok(job)
    })
    .await?;
    Ok(Json(json!({"ok": true})))
}

pub(super) async fn pause(
    State(api): State<Api>,
    Path(id): Path<String>,
    body: Payload,
) -> Result<Json<Value>, ApiError> {
    let said: Map<String, Value> = body.parse_or_default()?;
    let reason = text(&said, "reason");
    let job = change(&api, move |file, now| {
        file.pause(&id, reason.as_deref(), now)
    });
    Ok(answer(&job.await?))
}

pub(super) async fn resume(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let job = change(&api, move |file, now| file.resume(&id, now));
    Ok(answer(&job.await?))
}

pub(super) async fn run(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::key(&format!("/api/jobs/{id}/run"), &headers, &body)?;
    let runs = api.gateway.runs();
    if let Some(key) = &key
        && let Some(earlier) = runs.earlier(key).await?
    {
        // A job that ran once may be gone already.
        let job = load(&api)
            .await?
            .find(&id)
            .ok()
            .map(|job| job.as_json().clone());
        return Ok(accepted(&json!(job), &earlier));
    }
    if !runs.takes_new() {
        return Err(NotStarted::Stopping.into());
    }
    let claimed = api.gateway.runner().claim_now(&id, &now(&api)).await;
    let claimed = claimed.map_err(|error| match error {
        TickError::Jobs(error) => ApiError::from(error),
        TickError::Record(error) => error.into(),
    })?;
    let claimed = claimed
        .ok_or_else(|| ApiError::conflict("job_running", format!("the job `{id}` is running")))?;
    let job = Value::Object(claimed.job().as_json().clone());
    let input = json!({"job_id": claimed.job().id()});
    let errand = Errand::Job(Box::new(claimed));
    let started = runs.start(errand, Source::Cron, input, key).await?;
    Ok(accepted(&job, &started))
}

fn accepted(job: &Value, started: &Started) -> Response {
    let body = json!({"job": job, "run_id": started.id});
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    idempotency::mark_replay(&mut response, started.is_replay);
    response
}

/// A job, and how its schedule was understood.
fn understood(job: &Job, now: &Zoned) -> Value {
    let understood = job.understood(now).map(|understood| understood.to_json());
    json!({"job": job.as_json(), "understood": understood})
}

fn answer(job: &Job) -> Json<Value> {
    Json(json!({"job": job.as_json()}))
}

fn now(api: &Api) -> Zoned {
    Zoned::now().with_time_zone(time_zone(&api.gateway.agent().settings()))
}

async fn load(api: &Api) -> Result<CronFile, ApiError> {
    let home = api.gateway.home().clone();
    let loaded = tokio::task::spawn_blocking(move || CronFile::load(&home)).await;
    let loaded = loaded.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(loaded?)
}

/// Changes the job file on a blocking thread.
async fn change(
    api: &Api,
    change: impl FnOnce(&mut CronFile, &Zoned) -> Result<Job, CronError> + Send + 'static,
) -> Result<Job, ApiError> {
    let (home, now) = (api.gateway.home().clone(), now(api));
    let changed = tokio::task::spawn_blocking(move || {
        CronFile::change(&home, &now, |file| change(file, &now))
    });
    let changed = changed.await;
    let changed = changed.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(changed?)
}

/// The members of a job, bare or wrapped in `job`.
fn members(body: &Payload) -> Result<Map<String, Value>, ApiError> {
    let mut members: Map<String, Value> = body.parse()?;
    if members.len() == 1
        && let Some(Value::Object(job)) = members.get_mut("job")
    {
        return Ok(std::mem::take(job));
    }
    Ok(members)
}

struct Wanted {
    id: Option<String>,
    enabled: Option<bool>,
    changes: JobChanges,
}

impl Wanted {
    fn read(mut members: Map<String, Value>, now: &Zoned) -> Result<Self, ApiError> {
        let mut taken = |key: &'static str, limit: usize| match members.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= limit => Ok(Some(text)),
            Some(_) => Err(ApiError::member(
                key,
                format!("`{key}` is a text of at most {limit} characters"),
            )),
        };
        let id = taken("id", 64)?;
        let name = taken("name", LONGEST_NAME)?;
        let prompt = taken("prompt", LONGEST_PROMPT)?;
        let schedule = match members.remove("schedule") {
            None | Some(Value::Null) => None,
            Some(written) => Some(schedule(&written, now)?),
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
            Some(_) => return Err(ApiError::member("enabled", "`enabled` is true or false")),
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
fn schedule(written: &Value, now: &Zoned) -> Result<Schedule, ApiError> {
    let parsed = match written {
        Value::String(text) => Schedule::parse(text, now),
        other => {
            let text = other["display"].as_str().unwrap_or_default();
            Schedule::from_json(other, now).map_or_else(|| Schedule::parse(text, now), Ok)
        }
    };
    parsed.map_err(|error| ApiError::member("schedule", error.to_string()))
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
