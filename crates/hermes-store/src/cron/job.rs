//! One job as it stands in the file: a JSON object of which we know some keys.

use jiff::Zoned;
use serde_json::{Map, Value, json};

use super::schedule::{self, Schedule, ScheduleExplanation};
use crate::clock::zoned_iso;

/// A job. What we do not know of it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Job(pub(super) Map<String, Value>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It runs when its time comes.
    Scheduled,
    /// The user stopped it for now.
    Paused,
    /// It has run as often as it should.
    Completed,
    /// It has no next time.
    Error,
}

impl JobState {
    /// The word stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Error => "error",
        }
    }
}

/// How often a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Until it is removed.
    Forever,
    /// So many times.
    Times(u32),
}

impl Job {
    /// Its name for programs.
    pub fn id(&self) -> &str {
        self.text("id").unwrap_or_default()
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_else(|| self.id())
    }

    /// What the agent is asked to do.
    pub fn prompt(&self) -> &str {
        self.text("prompt").unwrap_or_default()
    }

    /// Whether it takes part at all.
    pub fn is_enabled(&self) -> bool {
        self.0
            .get("enabled")
            .and_then(Value::as_bool)
            .unwrap_or(true)
    }

    pub fn state(&self) -> JobState {
        match self.text("state") {
            Some("paused") => JobState::Paused,
            Some("completed") => JobState::Completed,
            Some("error") => JobState::Error,
            _ => JobState::Scheduled,
        }
    }

    /// When it runs. Nothing if the file says no such thing.
    pub fn schedule(&self, now: &Zoned) -> Option<Schedule> {
        Schedule::from_json(self.0.get("schedule")?, now)
    }

    /// What its schedule means, and when it runs next.
    pub fn explain(&self, now: &Zoned) -> Option<ScheduleExplanation> {
        let schedule = self.schedule(now)?;
        Some(schedule.explain(self.next_run_at(now).as_ref(), now))
    }

    pub fn schedule_display(&self) -> String {
        let stored = self.text("schedule_display").or_else(|| {
            let schedule = self.0.get("schedule")?;
            schedule
                .as_str()
                .or_else(|| schedule.get("display")?.as_str())
        });
        stored.unwrap_or("?").to_owned()
    }

    pub fn next_run_at(&self, now: &Zoned) -> Option<Zoned> {
        self.time("next_run_at", now)
    }

    pub fn last_run_at(&self, now: &Zoned) -> Option<Zoned> {
        self.time("last_run_at", now)
    }

    /// How often it is to run, and how often it did.
    pub fn repeat(&self) -> (Repeat, u32) {
        let number = |key: &str| {
            let repeat = self.0.get("repeat")?;
            u32::try_from(repeat.get(key)?.as_i64()?).ok()
        };
        let times = match number("times") {
            None | Some(0) => Repeat::Forever,
            Some(times) => Repeat::Times(times),
        };
        (times, number("completed").unwrap_or_default())
    }

    /// Any key of the file.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The whole job as the file has it.
    pub fn as_json(&self) -> &Map<String, Value> {
        &self.0
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    pub(super) fn time(&self, key: &str, now: &Zoned) -> Option<Zoned> {
        schedule::parse_time(self.text(key)?, now).ok()
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.into(), value.into());
    }

    pub(super) fn set_time(&mut self, key: &str, time: Option<&Zoned>) {
        self.set(key, time.map(zoned_iso));
    }

    pub(super) fn set_completed(&mut self, completed: u32) {
        let (times, _) = self.repeat();
        let times = match times {
            Repeat::Forever => None,
            Repeat::Times(times) => Some(times),
        };
        self.set("repeat", json!({"times": times, "completed": completed}));
    }

    pub(super) fn set_schedule(&mut self, schedule: &Schedule) {
        self.set("schedule", schedule.to_json());
        self.set("schedule_display", schedule.display());
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// The caller's own id; otherwise one is made.
    pub id: Option<String>,
    /// Its name; otherwise the beginning of the prompt.
    pub name: Option<String>,
    /// What the agent is asked to do.
    pub prompt: String,
    pub schedule: Schedule,
    /// How often; by default a single time once, the others forever.
    pub repeat: Option<Repeat>,
    /// Where the result goes: `origin`, `local`, `all`, a platform or a target.
    pub deliver: Option<String>,
    /// The chat it was made in.
    pub origin: Option<Value>,
    /// Skills to load first.
    pub skills: Vec<String>,
    pub model: Option<String>,
    pub provider: Option<String>,
    /// The provider's address.
    pub base_url: Option<String>,
    /// A script whose output goes into the prompt.
    pub script: Option<String>,
    /// The script's output is the message; no agent runs.
    pub no_agent: bool,
    /// Jobs whose last output goes into the prompt.
    pub context_from: Vec<String>,
    /// The toolsets the agent has.
    pub enabled_toolsets: Option<Vec<String>>,
    /// Where it works.
    pub workdir: Option<String>,
    /// Whether its messages appear in the chat's session.
    pub attach_to_session: Option<bool>,
}

impl NewJob {
    /// A job that asks this at that time.
    pub fn new(prompt: impl Into<String>, schedule: Schedule) -> Self {
        Self {
            id: None,
            name: None,
            prompt: prompt.into(),
            schedule,
            repeat: None,
            deliver: None,
            origin: None,
            skills: Vec::new(),
            model: None,
            provider: None,
            base_url: None,
            script: None,
            no_agent: false,
            context_from: Vec::new(),
            enabled_toolsets: None,
            workdir: None,
            attach_to_session: None,
        }
    }

    fn name(&self) -> String {
        let label = self
            .name
            .as_deref()
            .filter(|name| !name.trim().is_empty())
            .or(Some(self.prompt.as_str()).filter(|prompt| !prompt.trim().is_empty()))
            .or(self.skills.first().map(String::as_str))
            .or(self.script.as_deref())
            .unwrap_or("cron job");
        let name: String = label.trim().chars().take(50).collect();
        name.trim().to_owned()
    }

    pub(super) fn into_job(self, id: String, now: &Zoned) -> Job {
        let times = match self.repeat {
            Some(Repeat::Times(times)) if times > 0 => Some(times),
            _ if self.schedule.is_recurring() => None,
            _ => Some(1),
        };
        let deliver = self.deliver.clone().unwrap_or_else(|| {
            let default = if self.origin.is_some() {
                "origin"
            } else {
                "local"
            };
            default.into()
        });
        let name = self.name();
        let list = |items: Vec<String>| (!items.is_empty()).then_some(items);
        let mut job = Job(Map::new());
        job.set("id", id);
        job.set("name", name);
        job.set("prompt", self.prompt);
        job.set("skill", self.skills.first().cloned());
        job.set("skills", self.skills);
        job.set("model", self.model);
        job.set("provider", self.provider);
        job.set("provider_snapshot", Value::Null);
        job.set("model_snapshot", Value::Null);
        job.set("base_url", self.base_url);
        job.set("script", self.script);
        job.set("no_agent", self.no_agent);
        job.set("context_from", list(self.context_from));
        job.set_schedule(&self.schedule);
        job.set("repeat", json!({"times": times, "completed": 0}));
        job.set("enabled", true);
        job.set("state", JobState::Scheduled.as_str());
        job.set("paused_at", Value::Null);
        job.set("paused_reason", Value::Null);
        job.set("created_at", zoned_iso(now));
        job.set_time("next_run_at", self.schedule.next_run(None, now).as_ref());
        for key in [
            "last_run_at",
            "last_status",
            "last_error",
            "last_delivery_error",
        ] {
            job.set(key, Value::Null);
        }
        job.set("deliver", deliver);
        job.set("origin", self.origin);
        job.set("enabled_toolsets", self.enabled_toolsets);
        job.set("workdir", self.workdir);
        if let Some(attach) = self.attach_to_session {
            job.set("attach_to_session", attach);
        }
        job
    }
}

/// What to change in a job. What is not given stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobChanges {
    pub name: Option<String>,
    pub prompt: Option<String>,
    /// Another schedule; the next run follows from it.
    pub schedule: Option<Schedule>,
    /// Another number of runs.
    pub repeat: Option<Repeat>,
    /// Any other keys of the file, such as `deliver`, `skills` or `model`. The id and what the runs decide are
    /// not among them.
    pub others: Map<String, Value>,
}

/// The longest name a client may give a job, in characters.
pub const MAX_NAME_LENGTH: usize = 200;
/// The longest prompt of a job that a client may write, in characters.
pub const MAX_PROMPT_LENGTH: usize = 5000;

/// What clients may change of a job. Everything else is the agent's own record.
pub const CHANGEABLE_KEYS: [&str; 17] = [
    "name",
    "schedule",
    "prompt",
    "deliver",
    "skills",
    "skill",
    "repeat",
    "enabled",
    "model",
    "provider",
    "base_url",
    "script",
    "no_agent",
    "context_from",
    "enabled_toolsets",
    "workdir",
    "attach_to_session",
];

/// Keys that follow from others or are written by runs alone.
const FIXED_KEYS: &[&str] = &[
    "id",
    "name",
    "prompt",
    "schedule",
    "schedule_display",
    "repeat",
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
    "enabled",
    "state",
    "skill",
];

impl Job {
    pub(super) fn apply_changes(&mut self, changes: JobChanges, now: &Zoned) {
        if let Some(name) = changes.name {
            self.set("name", name);
        }
        if let Some(prompt) = changes.prompt {
            self.set("prompt", prompt);
        }
        if let Some(repeat) = changes.repeat {
            let (_, completed) = self.repeat();
            let times = match repeat {
                Repeat::Times(times) if times > 0 => Some(times),
                _ => None,
            };
            self.set("repeat", json!({"times": times, "completed": completed}));
        }
        if let Some(schedule) = changes.schedule {
            self.set_schedule(&schedule);
            if self.state() != JobState::Paused {
                self.set("state", JobState::Scheduled.as_str());
                self.set("enabled", true);
            }
            self.set_time("next_run_at", schedule.next_run(None, now).as_ref());
        }
        for (key, value) in changes.others {
            if FIXED_KEYS.contains(&key.as_str()) {
                continue;
            }
            if key == "skills" {
                let first = value.get(0).cloned().unwrap_or_default();
                self.set("skill", first);
            }
            self.set(&key, value);
        }
    }
}
