//! Jobs as the homes have them, and the times at which they are due next.

use std::{
    path::{Path, PathBuf},
    sync::PoisonError,
    time::SystemTime,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hermes_config::Home;
use hermes_store::cron::{CronError, CronFile, Job, JobState};
use jiff::Zoned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Clock;
use crate::{
    Code, JobId, Problem, TenantId,
    agents::Calendar,
    shapes::{Condition, ConditionStatus, Time},
    state::{JobTime, Observation},
};

/// The condition that tells whether a tenant's jobs can be read.
const CONDITION: &str = "CronReadable";

/// What tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// None if there is no file.
    version: Option<(SystemTime, u64)>,
    is_readable: bool,
}

impl Clock {
    /// Reads the jobs of those tenants whose files have changed.
    pub(super) async fn look_at_files(&self, tenants: Vec<TenantId>) {
        for tenant in tenants {
            let Ok(calendar) = self.agents.tenancy().calendar(&tenant).await else {
                continue;
            };
            let version = version(&calendar.home);
            let known = self.seen().get(&tenant).map(|seen| seen.version);
            // A tenant that never had jobs costs no more than this look.
            if known.unwrap_or(None) == version {
                continue;
            }
            if let Err(problem) = self.changed(&tenant).await {
                tracing::warn!(%tenant, "a tenant's jobs can not be read: {problem}");
            }
        }
    }

    /// Takes over the jobs of a tenant.
    pub(super) async fn read_jobs(&self, tenant: &TenantId) -> Result<(), Problem> {
        let calendar = self.agents.tenancy().calendar(tenant).await?;
        // Before it is read: a change in between is seen next time.
        let version = version(&calendar.home);
        let loaded = load(&calendar.home).await?;
        self.note_readable(tenant, version, loaded.as_ref().err())
            .await;
        let file = loaded.map_err(|error| {
            tracing::warn!(%tenant, "a tenant's jobs are unreadable: {error}");
            Problem::new(
                Code::Unavailable,
                "the tenant's `cron/jobs.json` is damaged; correct it or move it away",
            )
            .because("cron_damaged")
        })?;
        let now = (self.now)().timestamp().to_zoned(calendar.zone);
        let known = self.state.job_times(tenant).await?;
        let times: Vec<JobTime> = file
            .jobs
            .iter()
            .filter_map(|job| {
                let id = JobId::parse(job.id()).ok()?;
                let known = known.iter().find(|known| known.job == id);
                Some(time_of(id, job, known, &now))
            })
            .collect();
        if times != known {
            self.state.set_job_times(tenant, &times).await?;
        }
        Ok(())
    }

    /// A tenant whose file is damaged has a condition that says so, until it is readable again.
    async fn note_readable(
        &self,
        tenant: &TenantId,
        version: Option<(SystemTime, u64)>,
        error: Option<&CronError>,
    ) {
        let seen = Seen {
            version,
            is_readable: error.is_none(),
        };
        let before = self.seen().insert(tenant.clone(), seen);
        let was_readable = before.is_none_or(|before| before.is_readable);
        if was_readable == seen.is_readable {
            return;
        }
        let condition = Condition {
            kind: CONDITION.into(),
            status: if seen.is_readable {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            },
            reason: if seen.is_readable { "read" } else { "damaged" }.into(),
            message: if seen.is_readable {
                String::new()
            } else {
                "`cron/jobs.json` is damaged; no job runs until it is corrected".into()
            },
            last_transition_time: Time::now(),
        };
        let observation = Observation {
            conditions: vec![condition],
            ..Observation::default()
        };
        if let Err(error) = self.state.observe_tenant(tenant, observation).await {
            tracing::warn!(%tenant, "a condition could not be written down: {error}");
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<TenantId, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the jobs of a home, away from those who wait for other things.
pub(super) async fn load(home: &Path) -> Result<Result<CronFile, CronError>, Problem> {
    let home = Home::at(home);
    tokio::task::spawn_blocking(move || CronFile::load(&home))
        .await
        .map_err(|error| Problem::internal(&error))
}

fn version(home: &Path) -> Option<(SystemTime, u64)> {
    let file: PathBuf = home.join("cron").join("jobs.json");
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// When a job is due next. What the database knows counts as long as the schedule is the same, unless the file names an
/// earlier time: somebody wants the job to run now.
fn time_of(id: JobId, job: &Job, known: Option<&JobTime>, now: &Zoned) -> JobTime {
    let takes_part = job.is_enabled() && job.state() == JobState::Scheduled;
    let schedule_hash = schedule_hash(job);
    let in_file = job
        .next_run_at(now)
        .or_else(|| job.schedule(now)?.next_run(None, now))
        .map(|next| Time::from(next.timestamp()));
    let next = match known.filter(|known| known.schedule_hash == schedule_hash) {
        // One that is over stays so, even if its agent has not removed it yet.
        Some(JobTime { next: None, .. }) => None,
        Some(JobTime {
            next: Some(known), ..
        }) => Some(in_file.map_or(*known, |in_file| in_file.min(*known))),
        None => in_file,
    };
    JobTime {
        job: id,
        next: next.filter(|_| takes_part),
        schedule_hash,
    }
}

/// Another one when the job is to be planned anew: another schedule, paused, resumed.
fn schedule_hash(job: &Job) -> String {
    let mut hash = Sha256::new();
    let schedule = job.get("schedule").map(Value::to_string);
    hash.update(schedule.unwrap_or_default());
    hash.update([u8::from(job.is_enabled())]);
    hash.update(job.state().as_str());
    let paused = job.get("paused_at").map(Value::to_string);
    hash.update(paused.unwrap_or_default());
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..12])
}

/// A job that takes part.
pub(super) fn find<'a>(file: &'a CronFile, id: &JobId) -> Option<&'a Job> {
    let job = file.jobs.iter().find(|job| job.id() == id.as_str())?;
    let takes_part = job.is_enabled() && job.state() == JobState::Scheduled;
    takes_part.then_some(job)
}

/// A moment in a tenant's zone.
pub(super) fn local(time: Time, calendar: &Calendar) -> Zoned {
    time.timestamp().to_zoned(calendar.zone.clone())
}
