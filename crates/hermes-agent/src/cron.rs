//! Running cron jobs: due jobs are claimed, run in a session of their own, recorded and delivered.
//!
//! The scheduler, the gateway's ticker or `hermes cron tick`, calls [`JobRunner::claim_due`] and runs what it
//! gets. A claim is written before the run starts, so a run happens at most once, even after a crash.

mod delivery;
mod job_run;
mod report;
mod script;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::BoxFuture, stream};
use hermes_config::{Home, Settings};
use hermes_mcp::process::{self, GuardHandle};
use hermes_store::{
    StoreError,
    cron::{
        Claim, CronError, CronFile, DeliveryRecord, Due, Execution, Executions, Job, RunResult,
        TickLock, describe_failures, time_zone, write_output,
    },
    zoned_iso,
};
use jiff::Zoned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::script::{ScriptError, locate_script};
pub use crate::cron::delivery::Delivery;
use crate::{
    conversation::{Agent, TurnUsage},
    cron::{delivery::plan_message, job_run::JobRun, report::RunReport},
    turn::TurnEvent,
};

/// How long a claim is valid. It is renewed while the run lasts, so only claims of dead processes expire.
const CLAIM_LEASE: Duration = Duration::from_mins(10);
const RENEW_INTERVAL: Duration = Duration::from_mins(2);

/// Receives the events of a run.
pub type RunObserver<'a> = dyn Fn(TurnEvent) + Send + Sync + 'a;

const MAX_PARALLEL_RUNS: usize = 4;

/// How long to wait for the servers of a job.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(15);

/// Why due jobs could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    /// The job file cannot be read or changed.
    #[error(transparent)]
    Jobs(#[from] CronError),
    /// The execution records cannot be used.
    #[error(transparent)]
    Record(#[from] StoreError),
}

pub struct JobRunner {
    home: Home,
    executions: Executions,
    /// Names this process in claims.
    owner: String,
    /// The trigger, for the record: `ticker`, `manual`.
    source: &'static str,
    /// The working directory of jobs that name none; the user's home if absent.
    directory: Option<PathBuf>,
    /// Ends the scripts of jobs without an agent, should this process be killed.
    guard: Option<Arc<GuardHandle>>,
}

/// A run that this process has claimed.
#[derive(Debug)]
pub struct ClaimedRun {
    job: Box<Job>,
    /// Its row in the record of runs.
    execution: String,
}

impl ClaimedRun {
    /// The job, as it was due.
    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn needs_agent(&self) -> bool {
        self.job.get("no_agent").and_then(Value::as_bool) != Some(true)
    }

    pub fn needs_server(&self, settings: &Settings, name: &str) -> bool {
        job_run::needs_server(&self.job, settings, name)
    }
}

#[derive(Debug, Clone)]
pub struct FinishedRun {
    pub job: String,
    pub name: String,
    /// The session, if a model was used.
    pub session: Option<String>,
    pub output: Option<PathBuf>,
    /// The message, also if it is not delivered.
    pub text: String,
    pub error: Option<String>,
    /// What the model used, if it answered.
    pub usage: Option<TurnUsage>,
    /// Where the message went, or was to go.
    pub deliveries: Vec<DeliveryRecord>,
    pub delivery_error: Option<String>,
}

impl JobRunner {
    /// Opens the execution records of a home.
    pub async fn open(home: Home, source: &'static str) -> Result<Self, StoreError> {
        let executions = Executions::open(&home).await?;
        let pid = std::process::id();
        let started = process::start_time(pid).unwrap_or_default();
        Ok(Self {
            home,
            executions,
            owner: format!("hermes:{pid}:{started}"),
            source,
            directory: None,
            guard: None,
        })
    }

    /// Sets the working directory of jobs that name none.
    #[must_use]
    pub fn with_directory(mut self, directory: PathBuf) -> Self {
        self.directory = Some(directory);
        self
    }

    /// Lets a guard end the scripts of jobs without an agent, should this process be killed.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<GuardHandle>) -> Self {
        self.guard = Some(guard);
        self
    }

    pub async fn close(&self) {
        self.executions.close().await;
    }

    /// Claims every due run. `None` if another process is claiming.
    pub async fn claim_due(&self, now: &Zoned) -> Result<Option<Vec<ClaimedRun>>, TickError> {
        let Some(_lock) = TickLock::try_lock(&self.home)? else {
            return Ok(None);
        };
        self.recover_abandoned(now).await?;
        let mut claimed = Vec::new();
        for job in CronFile::load(&self.home)?.jobs {
            match job.due(now) {
                Due::NotYet => {}
                Due::Missed { next } => self.skip_missed(&job, &next, now).await?,
                Due::Now => {
                    if let Some(run) = self.claim(&job, now).await? {
                        claimed.push(run);
                    }
                }
            }
        }
        Ok(Some(claimed))
    }

    /// Claims a run of one job now, whatever its schedule. `None` if it is running.
    pub async fn claim_now(
        &self,
        reference: &str,
        now: &Zoned,
    ) -> Result<Option<ClaimedRun>, TickError> {
        self.recover_abandoned(now).await?;
        let (reference, moment) = (reference.to_owned(), now.clone());
        let job = self
            .update_jobs(now, move |file| file.run_now(&reference, &moment))
            .await?;
        self.claim(&job, now).await
    }

    /// The same, for a run that was claimed before and cut off. Who calls this knows that it may be repeated.
    pub async fn claim_again(
        &self,
        id: &str,
        now: &Zoned,
    ) -> Result<Option<ClaimedRun>, TickError> {
        self.recover_abandoned(now).await?;
        let lost = id.to_owned();
        let is_running = |job: &Job| {
            ["fire_claim", "run_claim"]
                .iter()
                .any(|claim| job.get(claim).is_some_and(|claim| !claim.is_null()))
        };
        self.update_jobs(now, move |file| {
            // One that a process still works on is not lost.
            if file.find(&lost).is_ok_and(is_running) {
                return Ok(());
            }
            file.return_lost_run(&lost)
        })
        .await?;
        self.claim_now(id, now).await
    }

    async fn claim(&self, job: &Job, now: &Zoned) -> Result<Option<ClaimedRun>, TickError> {
        let (id, owner) = (job.id().to_owned(), self.owner.clone());
        let moment = now.clone();
        let claim = self
            .update_jobs(now, move |file| {
                file.claim(&id, &owner, CLAIM_LEASE, &moment)
            })
            .await?;
        let Claim::Won(job) = claim else {
            return Ok(None);
        };
        let started = process::start_time(std::process::id());
        let started = started.and_then(|started| i64::try_from(started).ok());
        let recorded = self
            .executions
            .claim(job.id(), self.source, started, now)
            .await;
        match recorded {
            Ok(execution) => Ok(Some(ClaimedRun { job, execution })),
            Err(error) => {
                // Without a record it does not run; the claim must be released.
                let result = RunResult {
                    error: Some(error.to_string()),
                    ..RunResult::default()
                };
                self.finish_job(job.id(), result, now).await;
                Err(error.into())
            }
        }
    }

    /// Skips a run that was missed by too much, and records that.
    async fn skip_missed(&self, job: &Job, next: &Zoned, now: &Zoned) -> Result<(), TickError> {
        let (id, to) = (job.id().to_owned(), next.clone());
        self.update_jobs(now, move |file| file.skip_to(&id, &to))
            .await?;
        let missed = job.next_run_at(now);
        let missed = missed.map_or_else(|| "a run".into(), |time| format_time(&time));
        let reason = format!(
            "skipped the run of {missed}, which is too late; the next run is at {}",
            format_time(next)
        );
        let execution = self
            .executions
            .claim(job.id(), self.source, None, now)
            .await?;
        let recorded = self.executions.finish(&execution, Some(&reason), now);
        Ok(recorded.await?)
    }

    /// Marks runs of dead processes as failed, and releases their claims.
    async fn recover_abandoned(&self, now: &Zoned) -> Result<(), TickError> {
        let recovered = self.executions.recover(is_execution_abandoned, now).await?;
        if recovered > 0 {
            tracing::warn!(recovered, "recovered abandoned cron runs");
        }
        self.update_jobs(now, |file| {
            file.release_claims(is_owner_gone);
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Runs the claimed jobs, several at once, and returns the result of each.
    pub async fn run_all(
        &self,
        claimed: Vec<ClaimedRun>,
        agent: Result<&Agent, &str>,
        settings: &Settings,
        delivery: &dyn Delivery,
        cancel: &CancellationToken,
    ) -> Vec<FinishedRun> {
        let runs = claimed
            .into_iter()
            .map(|run| self.run(run, agent, settings, delivery, cancel, &|_| {}));
        let runs: Vec<_> = runs.collect();
        stream::iter(runs)
            .buffer_unordered(MAX_PARALLEL_RUNS)
            .collect()
            .await
    }

    /// Executes, records and delivers one run. `agent` is the reason if there is none.
    pub fn run<'a>(
        &'a self,
        claimed: ClaimedRun,
        agent: Result<&'a Agent, &'a str>,
        settings: &'a Settings,
        delivery: &'a dyn Delivery,
        cancel: &'a CancellationToken,
        observe: &'a RunObserver<'a>,
    ) -> BoxFuture<'a, FinishedRun> {
        Box::pin(async move {
            let job = &*claimed.job;
            let zone = time_zone(settings);
            let now = || Zoned::now().with_time_zone(zone.clone());
            let began = now();
            self.log_record_error(self.executions.start(&claimed.execution, &began).await);

            let input = JobRun {
                job,
                home: &self.home,
                default_directory: self.directory.as_deref(),
                settings,
                guard: self.guard.as_ref(),
                agent,
                started_at: &began,
                observe,
            };
            let report = self
                .with_claim_renewal(job.id(), &zone, Box::pin(input.run(cancel)))
                .await;
            let output = self.store_output(job, &report, &began).await;
            let ended = now();
            let error = report.error.as_deref();
            let message = plan_message(job, &report, settings, delivery);
            let id = &claimed.execution;
            // The message is stored with the end of the run, so that a kept one outlives this process.
            let finished = self
                .executions
                .finish_with_message(id, error, message.as_ref(), &ended);
            self.log_record_error(finished.await);
            let deliveries = match &message {
                Some(message) => {
                    let deliveries = delivery.deliver(id, message).await;
                    let recorded = self.executions.record_deliveries(id, &deliveries).await;
                    self.log_record_error(recorded);
                    deliveries
                }
                None => Vec::new(),
            };
            let result = RunResult {
                error: report.error.clone(),
                deliveries: deliveries.clone(),
            };
            self.finish_job(job.id(), result, &ended).await;
            if deliveries.iter().any(DeliveryRecord::is_pending) {
                // What was on its way may have arrived before the job said so.
                self.update_job_deliveries(job.id(), id, &zoned_iso(&ended))
                    .await;
            }
            let delivery_error = describe_failures(&deliveries);
            FinishedRun {
                job: job.id().to_owned(),
                name: job.name().to_owned(),
                session: report.session,
                output,
                text: report.text,
                error: report.error,
                usage: report.usage,
                deliveries,
                delivery_error,
            }
        })
    }

    /// Runs `work` and renews the claim meanwhile.
    async fn with_claim_renewal<T>(
        &self,
        job: &str,
        zone: &jiff::tz::TimeZone,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(RENEW_INTERVAL) => {
                    let (id, owner) = (job.to_owned(), self.owner.clone());
                    let now = Zoned::now().with_time_zone(zone.clone());
                    let moment = now.clone();
                    let renewed = self
                        .update_jobs(&now, move |file| {
                            file.refresh_claim(&id, &owner, &moment);
                            Ok(())
                        })
                        .await;
                    if let Err(error) = renewed {
                        tracing::warn!(%error, "failed to renew the claim of a cron job");
                    }
                }
            }
        }
    }

    async fn store_output(&self, job: &Job, report: &RunReport, began: &Zoned) -> Option<PathBuf> {
        let (home, id, began) = (self.home.clone(), job.id().to_owned(), began.clone());
        let document = report.to_document(job, &began);
        let written =
            tokio::task::spawn_blocking(move || write_output(&home, &id, &began, &document));
        match written.await {
            Ok(Ok(path)) => Some(path),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to store the output of a cron job");
                None
            }
            Err(_) => None,
        }
    }

    async fn finish_job(&self, id: &str, result: RunResult, now: &Zoned) {
        let (id, moment) = (id.to_owned(), now.clone());
        let finished = self
            .update_jobs(now, move |file| match file.finish(&id, &result, &moment) {
                // The job was removed while it ran.
                Err(CronError::NoSuchJob { .. }) => Ok(()),
                finished => finished,
            })
            .await;
        if let Err(error) = finished {
            tracing::warn!(%error, "failed to store the end of a cron job");
        }
    }

    fn log_record_error(&self, recorded: Result<(), StoreError>) {
        if let Err(error) = recorded {
            tracing::warn!(%error, "failed to record a cron run");
        }
    }

    /// Changes the job file on a blocking thread.
    async fn update_jobs<T: Send + 'static>(
        &self,
        now: &Zoned,
        change: impl FnOnce(&mut CronFile) -> Result<T, CronError> + Send + 'static,
    ) -> Result<T, CronError> {
        let (home, now) = (self.home.clone(), now.clone());
        let path = home.path().join("cron");
        let changed = tokio::task::spawn_blocking(move || CronFile::change(&home, &now, change));
        match changed.await {
            Ok(changed) => changed,
            Err(error) => Err(CronError::Io {
                path,
                source: std::io::Error::other(error),
            }),
        }
    }
}

/// Whether the process of a run has ended.
fn is_execution_abandoned(execution: &Execution) -> bool {
    process::is_gone(execution.pid, execution.process_started_at)
}

/// Whether the process of an owner named by [`JobRunner`] has ended. Other owners are unknown.
fn is_owner_gone(owner: &str) -> bool {
    let mut parts = owner.split(':');
    let (Some("hermes"), Some(pid), Some(started)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    match (pid.parse(), started.parse()) {
        (Ok(pid), Ok(started)) => !process::may_be_running(pid, started),
        _ => false,
    }
}

fn format_time(time: &Zoned) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// A list of texts in a job.
fn string_list(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
