//! Parses the members of a job from a client's JSON.

use hermes_config::nearest;
use hermes_store::cron::{
    CHANGEABLE_KEYS, JobChanges, MAX_NAME_LENGTH, MAX_PROMPT_LENGTH, NewJob, Repeat, Schedule,
};
use jiff::Zoned;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{JobId, Problem, api_types::problem::unknown_member};

/// Members that only runs and the Hub write.
const READ_ONLY: [&str; 17] = [
    "id",
    "schedule_display",
    "state",
    "paused_at",
    "paused_reason",
    "created_at",
    "next_run_at",
    "last_run_at",
    "last_status",
    "last_error",
    "last_delivery_error",
    "last_delivery_status",
    "last_deliveries",
    "fire_claim",
    "run_claim",
    "provider_snapshot",
    "model_snapshot",
];

/// A job as a client describes it. Members that are not listed are kept.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "its form is what is wanted of it")]
pub(super) struct JobInput {
    /// An id of letters, digits, `_` and `-`; generated if absent.
    id: Option<String>,
    /// Up to 200 characters; the beginning of the prompt if absent.
    name: Option<String>,
    /// `every 30m`, `30m` (once), `weekdays at 9am`, five cron fields, or an ISO time.
    schedule: String,
    /// The task of the agent, up to 5000 characters.
    prompt: Option<String>,
    /// Where the result goes: `local`, `origin`, a platform or a target.
    deliver: Option<String>,
    /// Skills to load first.
    skills: Option<Vec<String>>,
    /// How many times; unlimited if absent.
    repeat: Option<Value>,
    /// Whether it is enabled.
    enabled: Option<bool>,
    /// The model to use.
    model: Option<String>,
    /// A script whose output is added to the prompt.
    script: Option<String>,
}

/// Members to change.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "its form is what is wanted of it")]
pub(super) struct JobPatch {
    name: Option<String>,
    schedule: Option<String>,
    prompt: Option<String>,
    deliver: Option<String>,
    skills: Option<Vec<String>>,
    skill: Option<String>,
    repeat: Option<Value>,
    /// `false` pauses, `true` resumes from now.
    enabled: Option<bool>,
    model: Option<String>,
    provider: Option<String>,
    base_url: Option<String>,
    script: Option<String>,
    no_agent: Option<bool>,
    context_from: Option<Value>,
    enabled_toolsets: Option<Vec<String>>,
    workdir: Option<String>,
    attach_to_session: Option<bool>,
}

/// A new job, and members that the agent's type does not have.
pub(super) fn parse_new_job(
    mut job: Map<String, Value>,
    now: &Zoned,
) -> Result<(NewJob, Map<String, Value>), Problem> {
    let schedule = job.shift_remove("schedule").ok_or_else(|| {
        Problem::invalid("`schedule` is required").with_detail("schedule", "required")
    })?;
    let mut new = NewJob::new(
        take_text(&mut job, "prompt")?.unwrap_or_default(),
        parse_schedule(&schedule, now)?,
    );
    check_prompt(&new.prompt)?;
    if let Some(id) = take_text(&mut job, "id")? {
        JobId::parse(&id)
            .map_err(|error| Problem::invalid(error.to_string()).with_detail("id", "no id"))?;
        new.id = Some(id);
    }
    new.name = take_text(&mut job, "name")?.map(check_name).transpose()?;
    new.deliver = take_text(&mut job, "deliver")?;
    new.skills = take_texts(&mut job, "skills")?.unwrap_or_default();
    if let (Some(skill), true) = (take_text(&mut job, "skill")?, new.skills.is_empty()) {
        new.skills.push(skill);
    }
    new.model = take_text(&mut job, "model")?;
    new.provider = take_text(&mut job, "provider")?;
    new.base_url = take_text(&mut job, "base_url")?;
    new.script = take_text(&mut job, "script")?;
    new.no_agent = take_flag(&mut job, "no_agent")?.unwrap_or(false);
    new.context_from = take_texts(&mut job, "context_from")?.unwrap_or_default();
    new.enabled_toolsets = take_texts(&mut job, "enabled_toolsets")?;
    new.workdir = take_text(&mut job, "workdir")?;
    new.attach_to_session = take_flag(&mut job, "attach_to_session")?;
    new.repeat = job
        .shift_remove("repeat")
        .map(|value| parse_repeat(&value))
        .transpose()?
        .flatten();
    if new.prompt.trim().is_empty() && new.skills.is_empty() && new.script.is_none() {
        return Err(
            Problem::invalid("a job needs a `prompt`, `skills` or a `script`")
                .with_detail("prompt", "required"),
        );
    }
    if let Some(enabled) = job.get("enabled")
        && !enabled.is_boolean()
    {
        return Err(wrong_type("enabled", "a boolean"));
    }
    job.retain(|name, _| !READ_ONLY.contains(&name.as_str()));
    Ok((new, job))
}

/// A patch, and whether the job is enabled or disabled by it.
pub(super) fn parse_changes(
    mut patch: Map<String, Value>,
    now: &Zoned,
) -> Result<(JobChanges, Option<bool>), Problem> {
    for name in patch.keys() {
        if READ_ONLY.contains(&name.as_str()) {
            return Err(Problem::invalid(format!("`{name}` cannot be changed"))
                .with_detail(name.clone(), "read-only"));
        }
        let short: String = name.chars().take(80).collect();
        let known = CHANGEABLE_KEYS.map(str::to_owned);
        // Unknown members are kept; one that is similar to a known name is a mistake.
        if !known.contains(name) && nearest(&short, known.iter().cloned()).is_some() {
            return Err(unknown_member(name, &known));
        }
    }
    let enabled = take_flag(&mut patch, "enabled")?;
    let schedule = patch
        .shift_remove("schedule")
        .filter(|value| !value.is_null());
    let mut changes = JobChanges {
        name: take_text(&mut patch, "name")?.map(check_name).transpose()?,
        prompt: take_text(&mut patch, "prompt")?,
        schedule: schedule
            .map(|value| parse_schedule(&value, now))
            .transpose()?,
        repeat: patch
            .shift_remove("repeat")
            .map(|value| parse_repeat(&value).map(|times| times.unwrap_or(Repeat::Forever)))
            .transpose()?,
        others: Map::new(),
    };
    if let Some(prompt) = &changes.prompt {
        check_prompt(prompt)?;
    }
    if let Some(skill) = take_text(&mut patch, "skill")? {
        patch.entry("skills").or_insert_with(|| vec![skill].into());
    }
    for name in ["skills", "context_from", "enabled_toolsets"] {
        if patch.contains_key(name) {
            let list = take_texts(&mut patch, name)?;
            changes.others.insert(name.to_owned(), list.into());
        }
    }
    for name in ["no_agent", "attach_to_session"] {
        if patch.contains_key(name) {
            let value = take_flag(&mut patch, name)?;
            changes.others.insert(name.to_owned(), value.into());
        }
    }
    for name in [
        "deliver", "model", "provider", "base_url", "script", "workdir",
    ] {
        if patch.contains_key(name) {
            let value = take_text(&mut patch, name)?;
            changes.others.insert(name.to_owned(), value.into());
        }
    }
    changes.others.extend(patch);
    Ok((changes, enabled))
}

fn parse_schedule(value: &Value, now: &Zoned) -> Result<Schedule, Problem> {
    let parsed = match value {
        Value::String(written) => Schedule::parse(written, now).map_err(|error| error.to_string()),
        Value::Object(_) => {
            Schedule::from_json(value, now).ok_or_else(|| "it is not a schedule".to_owned())
        }
        _ => Err("it must be a string such as `0 9 * * *` or `every 30m`".to_owned()),
    };
    parsed.map_err(|reason| {
        Problem::invalid(format!("`schedule`: {reason}")).with_detail("schedule", reason)
    })
}

/// The number of runs; `None` is unlimited.
fn parse_repeat(value: &Value) -> Result<Option<Repeat>, Problem> {
    let times = match value {
        Value::Object(members) => members.get("times").unwrap_or(&Value::Null),
        other => other,
    };
    match times {
        Value::Null => Ok(None),
        Value::Number(number) => {
            match number.as_u64().and_then(|times| u32::try_from(times).ok()) {
                Some(times) if times > 0 => Ok(Some(Repeat::Times(times))),
                _ => Err(wrong_type("repeat", "a number above 0, or null for ever")),
            }
        }
        _ => Err(wrong_type("repeat", "a number above 0, or null for ever")),
    }
}

fn take_text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match members.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong_type(name, "a string")),
    }
}

fn take_flag(members: &mut Map<String, Value>, name: &str) -> Result<Option<bool>, Problem> {
    match members.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(flag)),
        Some(_) => Err(wrong_type(name, "a boolean")),
    }
}

/// A list of strings; a single one counts as a list.
fn take_texts(
    members: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<Vec<String>>, Problem> {
    let item = |value: Value| match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong_type(name, "an array of strings")),
    };
    match members.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => items
            .into_iter()
            .map(item)
            .collect::<Result<_, _>>()
            .map(Some),
        Some(single) => Ok(Some(vec![item(single)?])),
    }
}

fn wrong_type(name: &str, wanted: &str) -> Problem {
    Problem::invalid(format!("`{name}` must be {wanted}"))
        .with_detail(name, format!("must be {wanted}"))
}

fn check_name(name: String) -> Result<String, Problem> {
    if (1..=MAX_NAME_LENGTH).contains(&name.chars().count()) {
        return Ok(name);
    }
    Err(Problem::invalid("`name` must have 1 to 200 characters").with_detail("name", "length"))
}

fn check_prompt(prompt: &str) -> Result<(), Problem> {
    if prompt.chars().count() <= MAX_PROMPT_LENGTH {
        return Ok(());
    }
    Err(
        Problem::invalid("`prompt` may have 5000 characters at most")
            .with_detail("prompt", "too long"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Zoned {
        "2026-11-15T12:00:00[UTC]".parse().unwrap()
    }

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_documented_job_is_understood_and_unknown_members_are_kept() {
        let job = map(&json!({"name": "Daily summary", "schedule": "0 9 * * *",
            "prompt": "Summarize yesterday's updates", "x_color": "red"}));
        let (new, others) = parse_new_job(job, &now()).unwrap();
        assert_eq!(new.name.as_deref(), Some("Daily summary"));
        assert!(new.schedule.is_recurring());
        assert_eq!(Value::Object(others), json!({"x_color": "red"}));
    }

    #[test]
    fn a_patch_keeps_unknown_members_and_refuses_mistaken_ones() {
        let message = |patch: Value| parse_changes(map(&patch), &now()).unwrap_err().message;
        assert!(message(json!({"promt": "x"})).contains("did you mean `prompt`?"));
        assert!(message(json!({"next_run_at": "x"})).contains("cannot be changed"));
        assert!(message(json!({"schedule": "whenever"})).contains("schedule"));
        let (change, enabled) = parse_changes(map(&json!({"enabled": false})), &now()).unwrap();
        assert_eq!((change, enabled), (JobChanges::default(), Some(false)));
        let (change, _) = parse_changes(map(&json!({"x_color": "red"})), &now()).unwrap();
        assert_eq!(Value::Object(change.others), json!({"x_color": "red"}));
    }

    #[test]
    fn what_is_too_long_or_of_the_wrong_kind_is_refused() {
        let base = json!({"schedule": "every 1h", "prompt": "x"});
        for (name, value) in [
            ("name", json!("n".repeat(201))),
            ("prompt", json!("p".repeat(5001))),
            ("skills", json!([1])),
            ("repeat", json!(0)),
            ("id", json!("../x")),
            ("enabled", json!("no")),
        ] {
            let mut job = map(&base);
            job.insert(name.into(), value);
            assert!(parse_new_job(job, &now()).is_err(), "{name}");
        }
    }
}
