//! The jobs of a home.

use std::sync::Arc;

use hermes_config::{Home, Settings};
use hermes_store::cron::{
    CronError, CronFile, Job, JobChanges, NewJob, Repeat, Schedule, time_zone,
};
use jiff::{Zoned, tz::TimeZone};
use serde_json::{Map, Value, json};

use super::{CronJobs, JobRequest};
use crate::{policy::PolicyHandle, tools::send_message::Messenger};

const SHOWN_FIELDS: [&str; 18] = [
    "id",
    "name",
    "prompt",
    "schedule_display",
    "repeat",
    "enabled",
    "state",
    "next_run_at",
    "last_run_at",
    "last_status",
    "last_error",
    "last_delivery_error",
    "last_delivery_status",
    "deliver",
    "skills",
    "script",
    "model",
    "workdir",
];

/// The jobs of a home, as one conversation sees them.
#[derive(Clone)]
pub struct HomeJobs {
    home: Home,
    zone: TimeZone,
    /// The chat that new jobs deliver to.
    origin: Option<Value>,
    policy: PolicyHandle,
    /// Who knows whether a message can be delivered to a target.
    messenger: Option<(Arc<dyn Messenger>, Arc<Settings>)>,
}

impl HomeJobs {
    /// New jobs deliver to the chat in `origin`, in the job file's format.
    pub fn new(home: Home, settings: &Settings, origin: Option<Value>) -> Self {
        Self {
            home,
            zone: time_zone(settings),
            origin,
            policy: PolicyHandle::default(),
            messenger: None,
        }
    }

    /// Applies the operator's limits on jobs.
    #[must_use]
    pub fn with_policy(mut self, policy: PolicyHandle) -> Self {
        self.policy = policy;
        self
    }

    /// Refuses targets that this messenger cannot resolve.
    #[must_use]
    pub fn with_messenger(
        mut self,
        messenger: Arc<dyn Messenger>,
        settings: Arc<Settings>,
    ) -> Self {
        self.messenger = Some((messenger, settings));
        self
    }

    fn check_delivery(&self, deliver: Option<&str>, origin: Option<&Value>) -> Result<(), String> {
        match (&self.messenger, deliver) {
            (Some((messenger, settings)), Some(deliver)) => {
                messenger.check_delivery(settings, deliver, origin)
            }
            _ => Ok(()),
        }
    }

    fn now(&self) -> Zoned {
        Zoned::now().with_time_zone(self.zone.clone())
    }

    fn update_job(
        &self,
        change: impl FnOnce(&mut CronFile, &Zoned) -> Result<Job, CronError>,
    ) -> Result<Value, String> {
        let now = self.now();
        let job = CronFile::change(&self.home, &now, |file| change(file, &now));
        job.map(|job| job_summary(&job))
            .map_err(|error| error.to_string())
    }

    /// Updates a schedule and returns how it was understood.
    fn update_schedule(
        &self,
        change: impl FnOnce(&mut CronFile, &Zoned) -> Result<Job, CronError>,
    ) -> Result<Value, String> {
        let now = self.now();
        let job = CronFile::change(&self.home, &now, |file| change(file, &now));
        let job = job.map_err(|error| error.to_string())?;
        let mut shown = job_summary(&job);
        if let (Some(understood), Some(members)) = (job.explain(&now), shown.as_object_mut()) {
            members.insert("understood".into(), understood.to_json());
        }
        Ok(shown)
    }

    fn parse_schedule(&self, text: &str) -> Result<Schedule, String> {
        Schedule::parse(text, &self.now()).map_err(|error| error.to_string())
    }
}

impl CronJobs for HomeJobs {
    fn create(&self, job: JobRequest) -> Result<Value, String> {
        let schedule = self.parse_schedule(job.schedule.as_deref().unwrap_or_default())?;
        self.check_delivery(job.deliver.as_deref(), self.origin.as_ref())?;
        let new = NewJob {
            name: job.name,
            repeat: job.repeat.map(to_repeat),
            deliver: job.deliver,
            origin: self.origin.clone(),
            skills: job.skills.unwrap_or_default(),
            model: job.model,
            provider: job.provider,
            script: job.script,
            no_agent: job.no_agent.unwrap_or_default(),
            context_from: job.context_from.unwrap_or_default(),
            enabled_toolsets: job.enabled_toolsets,
            workdir: job.workdir,
            attach_to_session: job.attach_to_session,
            ..NewJob::new(job.prompt.unwrap_or_default(), schedule)
        };
        let limits = self.policy.policy().job_limits();
        self.update_schedule(|file, now| {
            if let Some(limits) = limits {
                limits.check_new(file, &new.schedule, now)?;
            }
            file.create(new, now)
        })
    }

    fn list(&self) -> Result<Vec<Value>, String> {
        let file = CronFile::load(&self.home).map_err(|error| error.to_string())?;
        Ok(file.jobs.iter().map(job_summary).collect())
    }

    fn update(&self, id: &str, changes: JobRequest) -> Result<Value, String> {
        if changes.deliver.is_some() {
            let file = CronFile::load(&self.home).map_err(|error| error.to_string())?;
            let job = file.find(id).map_err(|error| error.to_string())?;
            self.check_delivery(changes.deliver.as_deref(), job.get("origin"))?;
        }
        let schedule = changes
            .schedule
            .as_deref()
            .map(|text| self.parse_schedule(text))
            .transpose()?;
        let changes = JobChanges {
            name: changes.name.clone(),
            prompt: changes.prompt.clone(),
            schedule,
            repeat: changes.repeat.map(to_repeat),
            others: other_changes(&changes),
        };
        let limits = self.policy.policy().job_limits();
        self.update_schedule(|file, now| {
            if let (Some(limits), Some(schedule)) = (limits, &changes.schedule) {
                limits.check_schedule(schedule, now)?;
            }
            file.update(id, changes, now)
        })
    }

    fn pause(&self, id: &str) -> Result<Value, String> {
        self.update_job(|file, now| file.pause(id, None, now))
    }

    fn resume(&self, id: &str) -> Result<Value, String> {
        self.update_job(|file, now| file.resume(id, now))
    }

    fn remove(&self, id: &str) -> Result<Value, String> {
        let mut removed = None;
        let shown = self.update_job(|file, _| {
            let job = file.remove(id)?;
            removed = Some(job.clone());
            Ok(job)
        })?;
        if let Some(job) = removed {
            CronFile::remove_output(&self.home, &job).map_err(|error| error.to_string())?;
        }
        Ok(shown)
    }

    fn run(&self, id: &str) -> Result<Value, String> {
        self.update_job(|file, now| file.run_now(id, now))
    }
}

fn to_repeat(times: u64) -> Repeat {
    match u32::try_from(times) {
        Ok(0) | Err(_) => Repeat::Forever,
        Ok(times) => Repeat::Times(times),
    }
}

/// The keys of a job that are stored as given.
fn other_changes(changes: &JobRequest) -> Map<String, Value> {
    let keys = [
        ("deliver", json!(changes.deliver)),
        ("skills", json!(changes.skills)),
        ("model", json!(changes.model)),
        ("provider", json!(changes.provider)),
        ("script", json!(changes.script)),
        ("no_agent", json!(changes.no_agent)),
        ("context_from", json!(changes.context_from)),
        ("enabled_toolsets", json!(changes.enabled_toolsets)),
        ("workdir", json!(changes.workdir)),
        ("attach_to_session", json!(changes.attach_to_session)),
    ];
    let given = keys.into_iter().filter(|(_, value)| !value.is_null());
    given.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn job_summary(job: &Job) -> Value {
    let keys = SHOWN_FIELDS
        .iter()
        .filter_map(|&key| Some((key.to_owned(), job.get(key)?.clone())));
    Value::Object(keys.filter(|(_, value)| !value.is_null()).collect())
}
