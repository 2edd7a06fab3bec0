//! Job files of homes, and the due times of their jobs.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hermes_config::Home;
use hermes_store::cron::{CRON_DIRECTORY, CronDirectory, CronError, CronFile, JOBS_FILE, Job};
use jiff::Zoned;
use rustix::io::Errno;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Scheduler;
use crate::{
    JobId, Problem, ProblemCode, TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::{
        files::HomeDirectory,
        state::{FileVersion, JobDueTime, JobFile, Page, StateError, TenantObservation},
    },
    tenants::agents::{CronContext, CronRunner},
};

const CRON_DAMAGED: &str = "cron_damaged";
const CRON_CONDITION: &str = "CronReadable";
/// The condition type that tells whether the Hub runs the jobs of a linked home.
const TICKER_CONDITION: &str = "CronByHub";

impl Scheduler {
    /// Loads which file versions an earlier process has read.
    pub(super) async fn load_seen_files(&self) -> Result<(), StateError> {
        let known = self.state.job_files().await?;
        let mut seen = self.lock_seen_files();
        for (tenant, file) in known {
            seen.entry(tenant).or_insert(file);
        }
        Ok(())
    }

    /// A tenant that is deleted, or whose file is damaged, has no due times until the file is read again, although it
    /// may not have changed.
    pub(super) async fn forget_due_times(&self, tenant: &TenantId) -> Result<(), StateError> {
        self.state.set_job_times(tenant, &[]).await?;
        self.lock_seen_files().remove(tenant);
        self.stored_files.lock().remove(tenant);
        self.state.set_job_file(tenant, None).await
    }

    /// Reads the jobs of those tenants whose files have changed.
    pub(super) async fn read_changed_files(&self, homes: Vec<(TenantId, PathBuf)>) {
        let versions = tokio::task::spawn_blocking(move || {
            let versions = homes.into_iter().map(|(tenant, home)| {
                let version = file_version(&home);
                (tenant, version)
            });
            versions.collect::<Vec<_>>()
        });
        let Ok(versions) = versions.await else {
            return;
        };
        let changed: Vec<TenantId> = {
            let seen = self.lock_seen_files();
            // A tenant without jobs costs no more than this `stat`.
            let is_known = |tenant: &TenantId, version: Option<FileVersion>| {
                seen.get(tenant).and_then(|file| file.version) == version
            };
            let changed = versions
                .into_iter()
                .filter(|(tenant, version)| !is_known(tenant, *version));
            changed.map(|(tenant, _)| tenant).collect()
        };
        for tenant in changed {
            if self.closing.is_cancelled() {
                return;
            }
            if let Err(problem) = self.reload_jobs(&tenant).await {
                tracing::warn!(%tenant, %problem, "failed to read cron jobs");
            }
        }
    }

    /// Stores the due times of a file that has changed. Once this returns, they are known to whichever node is asked to
    /// work for the tenant next.
    pub async fn store_changed_jobs(&self, tenant: &TenantId) -> Result<(), Problem> {
        let context = match self.agents.tenant_lookup().cron_context(tenant).await {
            Err(problem) if problem.code == ProblemCode::NotFound => return Ok(()),
            context => context?,
        };
        let version = tokio::task::spawn_blocking(move || file_version(&context.home));
        let version = version.await.map_err(|error| Problem::internal(&error))?;
        let stored = self.stored_files.lock().get(tenant).copied();
        if stored.unwrap_or_default() == version {
            return Ok(());
        }
        let read = self.read_tenant_jobs(tenant).await;
        self.next_due_changed.notify_one();
        match read {
            Err(problem) if problem.reason == Some(CRON_DAMAGED) => Ok(()),
            read => read,
        }
    }

    /// Reads a tenant's jobs and stores their due times.
    pub(super) async fn read_tenant_jobs(&self, tenant: &TenantId) -> Result<(), Problem> {
        let _lock = self.reading.lock(tenant).await?;
        let context = self.agents.tenant_lookup().cron_context(tenant).await?;
        // Taken before reading, so that a change in between is noticed next time.
        let version = file_version(&context.home);
        let loaded = load_jobs(&context.home).await?;
        let file = JobFile {
            version,
            is_readable: loaded.is_ok(),
        };
        let before = self.record_readable(tenant, file).await;
        let taken = self
            .store_job_times(tenant, loaded.as_ref().ok(), context)
            .await;
        let stored = match taken {
            Ok(()) if before != Some(file) => self.state.set_job_file(tenant, Some(file)).await,
            taken => taken,
        };
        if let Err(error) = stored {
            // Its due times were not stored then.
            self.lock_seen_files().remove(tenant);
            self.stored_files.lock().remove(tenant);
            return Err(error.into());
        }
        self.stored_files.lock().insert(tenant.clone(), version);
        loaded.map(drop).map_err(|error| {
            tracing::warn!(%tenant, %error, "cron job file is damaged");
            Problem::new(
                ProblemCode::Unavailable,
                "the tenant's `cron/jobs.json` is damaged; correct it or move it away",
            )
            .with_reason(CRON_DAMAGED)
        })
    }

    /// Stores the due times of a file's jobs. An unreadable file changes nothing.
    async fn store_job_times(
        &self,
        tenant: &TenantId,
        file: Option<&CronFile>,
        context: CronContext,
    ) -> Result<(), StateError> {
        let Some(file) = file else {
            return Ok(());
        };
        let now = (self.now)().timestamp().to_zoned(context.zone);
        let known = self.state.job_times(tenant).await?;
        let mut times = Vec::with_capacity(file.jobs.len());
        for job in &file.jobs {
            // A job without a valid id was not created by an agent.
            if let Ok(id) = JobId::parse(job.id()) {
                let known = known.iter().find(|known| known.job == id);
                let last = self.last_fired(tenant, &id).await?;
                times.push(job_time(id, job, known, last, &now));
            }
        }
        times.sort_by(|one, other| one.job.cmp(&other.job));
        if times != known {
            self.state.set_job_times(tenant, &times).await?;
        }
        Ok(())
    }

    /// The latest due time of a job that has fired.
    pub(super) async fn last_fired(
        &self,
        tenant: &TenantId,
        job: &JobId,
    ) -> Result<Option<Time>, StateError> {
        let newest = self.state.fires(tenant, job, &Page::first(1)).await?;
        Ok(newest.items.first().map(|fire| fire.due))
    }

    /// Sets a condition while a tenant's file is damaged. Returns the version seen before.
    async fn record_readable(&self, tenant: &TenantId, seen: JobFile) -> Option<JobFile> {
        let before = self.lock_seen_files().insert(tenant.clone(), seen);
        let was_readable = before.is_none_or(|before| before.is_readable);
        if was_readable == seen.is_readable {
            return before;
        }
        let condition = Condition {
            kind: CRON_CONDITION.into(),
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
        self.record_condition(tenant, condition).await;
        before
    }

    /// Checks which process runs the jobs of a linked home.
    pub(super) async fn check_ticker(&self, tenant: &TenantId) {
        let Ok(Some(record)) = self.state.tenant(tenant).await else {
            return;
        };
        let is_others = |condition: &Condition| {
            condition.kind == TICKER_CONDITION && condition.status == ConditionStatus::False
        };
        if record.conditions.iter().any(is_others) {
            self.lock_self_ticking().insert(tenant.clone());
        }
        if let Ok(context) = self.agents.tenant_lookup().cron_context(tenant).await {
            self.record_ticker(tenant, context.runner).await;
        }
    }

    /// Sets a condition while another process runs the jobs of a linked home.
    pub(super) async fn record_ticker(&self, tenant: &TenantId, ticker: CronRunner) {
        let is_new = match ticker {
            CronRunner::Hub => self.lock_self_ticking().remove(tenant),
            CronRunner::OwnGateway => self.lock_self_ticking().insert(tenant.clone()),
        };
        if !is_new {
            return;
        }
        let by_hub = ticker == CronRunner::Hub;
        let condition = Condition {
            kind: TICKER_CONDITION.into(),
            status: if by_hub {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            },
            reason: if by_hub { "hub" } else { "own_gateway" }.into(),
            message: if by_hub {
                String::new()
            } else {
                "a gateway of the home runs its jobs".into()
            },
            last_transition_time: Time::now(),
        };
        self.record_condition(tenant, condition).await;
    }

    async fn record_condition(&self, tenant: &TenantId, condition: Condition) {
        let observation = TenantObservation {
            conditions: vec![condition],
            ..TenantObservation::default()
        };
        if let Err(error) = self.state.observe_tenant(tenant, observation).await {
            tracing::warn!(%tenant, %error, "failed to store the tenant's conditions");
        }
    }

    fn lock_self_ticking(
        &self,
    ) -> hermes_config::sync::MutexGuard<'_, std::collections::HashSet<TenantId>> {
        self.self_ticking.lock()
    }

    fn lock_seen_files(
        &self,
    ) -> hermes_config::sync::MutexGuard<'_, std::collections::HashMap<TenantId, JobFile>> {
        self.seen_files.lock()
    }
}

/// Reads the jobs of a home on a blocking thread.
pub(super) async fn load_jobs(home: &Path) -> Result<Result<CronFile, CronError>, Problem> {
    let home = Home::at(home);
    tokio::task::spawn_blocking(move || read_home_jobs(&home))
        .await
        .map_err(|error| Problem::internal(&error))
}

/// The directory of a tenant's jobs. Links in it are not followed: they could lead to files that the tenant may not
/// read or change.
struct TenantDirectory<'a> {
    home: &'a Home,
    directory: HomeDirectory,
}

impl CronDirectory for TenantDirectory<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(CRON_DIRECTORY).join(name)
    }

    fn read(&self, name: &str) -> io::Result<Option<String>> {
        self.directory.read(name)
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.directory.replace(name, content)
    }

    fn lock(&self, name: &str, timeout: Duration) -> io::Result<File> {
        let lock = self.directory.lock(name, timeout)?;
        self.directory.remove_temp_files()?;
        Ok(lock)
    }

    fn error(&self, _name: &str, source: io::Error) -> CronError {
        cron_error(self.home, &source)
    }
}

/// Reads the jobs of a tenant's home.
pub(crate) fn read_home_jobs(home: &Home) -> Result<CronFile, CronError> {
    match HomeDirectory::open(home.path(), CRON_DIRECTORY) {
        Err(Errno::NOENT) => Ok(CronFile::default()),
        Err(error) => Err(cron_error(home, &error.into())),
        Ok(directory) => CronFile::load_from(&TenantDirectory { home, directory }),
    }
}

/// Edits the jobs of a tenant's home under the lock that its agent uses too.
pub(crate) fn edit_home_jobs<T>(
    home: &Home,
    now: &Zoned,
    change: impl FnOnce(&mut CronFile) -> Result<T, Problem>,
    refused: impl Fn(CronError) -> Problem,
) -> Result<T, Problem> {
    let directory = HomeDirectory::open_or_create(home.path(), CRON_DIRECTORY)
        .map_err(|error| refused(cron_error(home, &error.into())))?;
    CronFile::change_in(&TenantDirectory { home, directory }, now, change, refused)
}

/// Removes a job's output without following links.
pub(crate) fn remove_job_output(home: &Home, job: &JobId) {
    let removed = HomeDirectory::open(home.path(), CRON_DIRECTORY)
        .and_then(|directory| directory.remove_all(&["output", job.as_str()]));
    match removed {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => {
            tracing::warn!(%job, %error, "failed to remove the output of a deleted cron job");
        }
    }
}

/// A file that the tenant replaced by something else is damaged; other errors are the system's.
fn cron_error(home: &Home, error: &io::Error) -> CronError {
    let path = home.path().join(CRON_DIRECTORY).join(JOBS_FILE);
    // A link, one that appeared during the lookup, or a pipe without a reader.
    let is_other = matches!(
        Errno::from_io_error(error),
        Some(Errno::LOOP | Errno::XDEV | Errno::NXIO)
    );
    let is_tenants = is_other
        || matches!(
            error.kind(),
            io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::InvalidData
                | io::ErrorKind::FileTooLarge
                | io::ErrorKind::Other
        );
    if is_tenants {
        return CronError::Damaged {
            path,
            reason: error.to_string(),
        };
    }
    let source = match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    };
    CronError::Io { path, source }
}

fn file_version(home: &Path) -> Option<FileVersion> {
    let directory = HomeDirectory::open(home, CRON_DIRECTORY).ok()?;
    let (modified, size) = directory.version(JOBS_FILE)?;
    let modified = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(FileVersion {
        modified: i64::try_from(modified.as_nanos()).ok()?,
        size,
    })
}

/// When a job is due next. The stored time counts as long as the schedule is unchanged, unless the file has an earlier
/// time that has not fired: then somebody wants the job to run now.
fn job_time(
    id: JobId,
    job: &Job,
    known: Option<&JobDueTime>,
    last_fired: Option<Time>,
    now: &Zoned,
) -> JobDueTime {
    let schedule_hash = schedule_hash(job);
    let in_file = job
        .next_run_at(now)
        .or_else(|| job.schedule(now)?.next_run(None, now))
        .map(|next| Time::from(next.timestamp()));
    let next = match known.filter(|known| known.schedule_hash == schedule_hash) {
        // A job that has finished stays so, even if its agent has not removed it yet.
        Some(JobDueTime { next: None, .. }) => None,
        Some(JobDueTime {
            next: Some(known), ..
        }) => {
            let is_open = |time: &Time| last_fired.is_none_or(|last| *time > last);
            let earlier = in_file.filter(|time| time < known && is_open(time));
            Some(earlier.unwrap_or(*known))
        }
        None => in_file,
    };
    JobDueTime {
        job: id,
        next: next.filter(|_| job.is_active()),
        schedule_hash,
    }
}

/// Changes when the job has to be rescheduled: another schedule, paused, resumed.
pub(super) fn schedule_hash(job: &Job) -> String {
    let mut hash = Sha256::new();
    let schedule = job.get("schedule").map(Value::to_string);
    hash.update(schedule.unwrap_or_default());
    hash.update([u8::from(job.is_enabled())]);
    hash.update(job.state().as_str());
    let paused = job.get("paused_at").map(Value::to_string);
    hash.update(paused.unwrap_or_default());
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..12])
}

/// A job that is enabled.
pub(super) fn find_active_job<'a>(file: &'a CronFile, id: &JobId) -> Option<&'a Job> {
    let mut jobs = file.jobs.iter();
    jobs.find(|job| job.id() == id.as_str() && job.is_active())
}

pub(super) fn local_time(time: Time, context: &CronContext) -> Zoned {
    time.timestamp().to_zoned(context.zone.clone())
}
