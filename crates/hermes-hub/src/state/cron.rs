//! What the clock has done: which due times have fired, and when each job is due next.

use async_trait::async_trait;

use super::{NewRun, Page, Paged, StateError};
use crate::{JobId, RunId, TenantId, audit::NewEntry, shapes::Time};

/// When a job is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTime {
    /// Which job.
    pub job: JobId,
    /// When next; none for one that is paused or over.
    pub next: Option<Time>,
    /// Of its schedule, to notice when that is another one.
    pub schedule_hash: String,
}

/// A job whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueJob {
    /// Whose.
    pub tenant: TenantId,
    /// Which job.
    pub job: JobId,
    /// When it was due.
    pub due: Time,
    /// The latest of its due times that was dealt with.
    pub last_fired: Option<Time>,
    /// Whether a run of it waits or is carried out.
    pub is_under_way: bool,
}

/// What tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    /// When it was changed, in nanoseconds since 1970.
    pub modified: i64,
    /// Its bytes.
    pub size: u64,
}

/// A file of jobs as it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFile {
    /// None if there was none.
    pub version: Option<FileVersion>,
    /// Whether it could be read.
    pub is_readable: bool,
}

/// A due time to be dealt with, once and for all.
#[derive(Debug, Clone)]
pub struct NewFire {
    /// Whose.
    pub tenant: TenantId,
    /// Which job.
    pub job: JobId,
    /// When it was due.
    pub due: Time,
    /// When it is due next.
    pub next: Option<Time>,
    /// The run that comes of it, or why none does.
    pub outcome: Result<NewRun, String>,
    /// What the log says.
    pub entry: NewEntry,
}

/// What became of a due time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FireOutcome {
    /// This call dealt with it.
    Done,
    /// It had been dealt with.
    Before,
}

/// A due time that was dealt with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// When it was due.
    pub due: Time,
    /// When it was dealt with.
    pub fired_at: Time,
    /// The run that came of it.
    pub run: Option<RunId>,
    /// Why none did.
    pub skipped: Option<String>,
}

/// The clock's memory.
#[async_trait]
pub trait Cron {
    /// Deals with due times, each at most once, all in one transaction.
    async fn fire(&self, fires: Vec<NewFire>) -> Result<Vec<FireOutcome>, StateError>;

    /// Jobs that are due, the longest overdue first.
    async fn due_jobs(&self, now: Time, most: u32) -> Result<Vec<DueJob>, StateError>;

    /// When the next job of all is due.
    async fn next_due(&self) -> Result<Option<Time>, StateError>;

    /// The times of a tenant's jobs.
    async fn job_times(&self, tenant: &TenantId) -> Result<Vec<JobTime>, StateError>;

    /// Sets the times of these jobs of a tenant, and forgets those of its others.
    async fn set_job_times(&self, tenant: &TenantId, times: &[JobTime]) -> Result<(), StateError>;

    /// Sets the time of one job.
    async fn set_job_time(&self, tenant: &TenantId, time: &JobTime) -> Result<(), StateError>;

    /// All files as they were last read.
    async fn job_files(&self) -> Result<Vec<(TenantId, JobFile)>, StateError>;

    /// Says how a tenant's file was when it was read, or that it is to be read again. The times come first: whoever is
    /// killed in between only reads the file again.
    async fn set_job_file(
        &self,
        tenant: &TenantId,
        file: Option<JobFile>,
    ) -> Result<(), StateError>;

    /// What became of a job's due times, newest first.
    async fn fires(
        &self,
        tenant: &TenantId,
        job: &JobId,
        page: &Page,
    ) -> Result<Paged<Fire>, StateError>;

    /// Forgets what became of times that were due before. They must be too long past to be made up for.
    async fn forget_fires(&self, before: Time) -> Result<u64, StateError>;
}
