//! The scheduler's state: which due times have fired, and when each job is due next.

use async_trait::async_trait;

use super::{NewRun, Page, Paged, StateError, columns::ColumnReader};
use crate::{JobId, RunId, TenantId, api_types::Time, storage::audit::NewAuditEntry};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDueTime {
    pub job: JobId,
    /// `None` for a job that is paused or finished.
    pub next: Option<Time>,
    /// To notice a changed schedule.
    pub schedule_hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueJob {
    pub tenant: TenantId,
    pub job: JobId,
    pub due: Time,
    /// Its latest due time that has fired.
    pub last_fired: Option<Time>,
    /// Whether a run of it waits or is carried out.
    pub is_active: bool,
}

/// When a job runs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextJobTime {
    pub tenant: TenantId,
    pub job: JobId,
    /// `None` for a job that is paused or finished.
    pub next: Option<Time>,
}

/// Which jobs are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobSelection {
    /// Those that have a next time, the next first.
    Upcoming,
    /// Paused and finished ones too, in the order of tenants and ids.
    All,
}

impl JobSelection {
    pub(crate) fn is_all(self) -> bool {
        self == Self::All
    }
}

/// Modification time and size, to notice changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    /// Unix nanoseconds.
    pub modified: i64,
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFile {
    /// `None` if it did not exist.
    pub version: Option<FileVersion>,
    pub is_readable: bool,
}

/// A due time to be fired.
#[derive(Debug, Clone)]
pub struct NewFire {
    pub tenant: TenantId,
    pub job: JobId,
    pub due: Time,
    pub next: Option<Time>,
    /// The run, or why it is skipped.
    pub outcome: Result<NewRun, String>,
    pub entry: NewAuditEntry,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FireOutcome {
    Fired,
    /// It had fired before.
    AlreadyFired,
    /// Another node may work for the tenant.
    LeaseLost,
}

/// A due time that has fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    pub due: Time,
    pub fired_at: Time,
    pub run: Option<RunId>,
    /// Why there was no run.
    pub skipped: Option<String>,
}

#[async_trait]
pub trait CronStore {
    /// Fires due times, each at most once, in one transaction. Those of a tenant whose lease is lost are left alone.
    async fn record_fires(&self, fires: Vec<NewFire>) -> Result<Vec<FireOutcome>, StateError>;

    /// Due jobs, the longest overdue first.
    async fn due_jobs(&self, now: Time, most: u32) -> Result<Vec<DueJob>, StateError>;

    async fn next_due(&self) -> Result<Option<Time>, StateError>;

    /// Jobs of tenants on all nodes. `only` names the tenants that the token covers.
    async fn next_jobs(
        &self,
        selection: JobSelection,
        only: Option<&[TenantId]>,
        page: &Page,
    ) -> Result<Paged<NextJobTime>, StateError>;

    async fn job_times(&self, tenant: &TenantId) -> Result<Vec<JobDueTime>, StateError>;

    /// Replaces the due times of a tenant's jobs.
    async fn set_job_times(
        &self,
        tenant: &TenantId,
        times: &[JobDueTime],
    ) -> Result<(), StateError>;

    /// Replaces a job's due time, unless it has another one by now.
    async fn replace_job_time(
        &self,
        tenant: &TenantId,
        due: Time,
        time: &JobDueTime,
    ) -> Result<(), StateError>;

    async fn job_files(&self) -> Result<Vec<(TenantId, JobFile)>, StateError>;

    /// Stores which version of a tenant's file was read, or that it has to be read again. Due times are stored first:
    /// after a crash in between, the file is only read again.
    async fn set_job_file(
        &self,
        tenant: &TenantId,
        file: Option<JobFile>,
    ) -> Result<(), StateError>;

    /// A job's fires, newest first.
    async fn fires(
        &self,
        tenant: &TenantId,
        job: &JobId,
        page: &Page,
    ) -> Result<Paged<Fire>, StateError>;

    /// Deletes fires due before this time, which must be too old to be run late.
    async fn forget_fires(&self, before: Time) -> Result<u64, StateError>;
}

/// The last job of the page before: its time, tenant and id.
pub(super) fn last_shown_job(page: &Page) -> Result<Option<(i64, String, String)>, StateError> {
    let Some([next, tenant, job]) = page.cursor_key::<3>()? else {
        return Ok(None);
    };
    let next = next.parse().map_err(|_| StateError::BadCursor)?;
    Ok(Some((next, tenant, job)))
}

/// A page of jobs from the rows of a query for it.
pub(super) fn page_next_jobs(
    rows: &[impl ColumnReader],
    page: &Page,
) -> Result<Paged<NextJobTime>, StateError> {
    let jobs = rows.iter().map(|row| {
        Ok(NextJobTime {
            tenant: row.id("tenant", TenantId::parse)?,
            job: row.id("job", JobId::parse)?,
            next: row.optional_time("next")?,
        })
    });
    let jobs: Vec<_> = jobs.collect::<Result<_, StateError>>()?;
    Ok(Paged::from_fetched(jobs, page, |job| {
        [
            job.next.map_or(0, Time::millis).to_string(),
            job.tenant.to_string(),
            job.job.to_string(),
        ]
    }))
}
