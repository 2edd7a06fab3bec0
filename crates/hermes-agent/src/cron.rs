//! Running cron jobs: due jobs are claimed, run in a session of their own, recorded and delivered.
//!
//! The scheduler, the gateway's ticker or `hermes cron tick`, calls [`Runner::claim_due`] and runs what it
//! gets. A claim is written before the run starts, so a run happens at most once, even after a crash.

mod delivery;
mod errand;
mod message;
mod script;

use std::{path::PathBuf, time::Duration};

use futures::{StreamExt as _, stream};
use hermes_config::{Home, Settings};
use hermes_mcp::process;
use hermes_store::{
    StoreError,
    cron::{
        Claim, CronError, CronFile, Due, Execution, Executions, Job, RunResult, TickLock,
        time_zone, write_output,
    },
};
use jiff::Zoned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::{
    delivery::{Delivery, KeptLocally},
    script::{ScriptError, locate as locate_script},
};
use self::{errand::Errand, message::Report};
use crate::{conversation::Agent, turn::TurnEvent};

/// How long a claim is valid. It is renewed while the run lasts, so only claims of dead processes expire.
const LEASE: Duration = Duration::from_mins(10);
const RENEWAL: Duration = Duration::from_mins(2);

/// Receives the events of a run.
pub type Observer<'a> = dyn Fn(TurnEvent) + Send + Sync + 'a;

const AT_ONCE: usize = 4;

/// How long to wait for the servers of a job.
pub const SERVER_PATIENCE: Duration = Duration::from_secs(15);

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

pub struct Runner {
    home: Home,
    executions: Executions,
    /// Names this process in claims.
    owner: String,
    /// The trigger, for the record: `ticker`, `manual`.
    source: &'static str,
    /// The working directory of jobs that name none; the user's home if absent.
    directory: Option<PathBuf>,
}

/// A run that this process has claimed.
#[derive(Debug)]
pub struct Claimed {
    job: Box<Job>,
    /// Its row in the record of runs.
    execution: String,
}

impl Claimed {
    /// The job, as it was due.
    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn needs_agent(&self) -> bool {
        self.job.get("no_agent").and_then(Value::as_bool) != Some(true)
    }

    pub fn needs_server(&self, settings: &Settings, name: &str) -> bool {
        errand::needs_server(&self.job, settings, name)
    }
}

#[derive(Debug, Clone)]
pub struct Ran {
    pub job: String,
    pub name: String,
    /// The session, if a model was used.
    pub session: Option<String>,
    pub output: Option<PathBuf>,
    /// The message, also if it is not delivered.
    pub text: String,
    pub error: Option<String>,
    pub delivery_error: Option<String>,
}

impl Runner {
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
        })
    }

    /// Sets the working directory of jobs that name none.
    #[must_use]
    pub fn working_in(mut self, directory: PathBuf) -> Self {
        self.directory = Some(directory);
        self
    }

    pub async fn close(&self) {
        self.executions.close().await;
    }

    /// Claims every due run. `None` if another process is claiming.
    pub async fn claim_due(&self, now: &Zoned) -> Result<Option<Vec<Claimed>>, TickError> {
        let Some(_lock) = TickLock::take(&self.home)? else {
            return Ok(None);
        };
        self.recover(now).await?;
        let mut claimed = Vec::new();
        for job in CronFile::load(&self.home)?.jobs {
            match job.due(now) {
                Due::NotYet => {}
                Due::Missed { next } => self.skip(&job, &next, now).await?,
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
    ) -> Result<Option<Claimed>, TickError> {
        self.recover(now).await?;
        let (reference, moment) = (reference.to_owned(), now.clone());
        let job = self
            .change(now, move |file| file.run_now(&reference, &moment))
            .await?;
        self.claim(&job, now).await
    }

    async fn claim(&self, job: &Job, now: &Zoned) -> Result<Option<Claimed>, TickError> {
        let (id, owner) = (job.id().to_owned(), self.owner.clone());
        let moment = now.clone();
        let claim = self
            .change(now, move |file| file.claim(&id, &owner, LEASE, &moment))
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
            Ok(execution) => Ok(Some(Claimed { job, execution })),
            Err(error) => {
                // Without a record it does not run; the claim must be released.
                let result = RunResult {
                    error: Some(error.to_string()),
                    delivery_error: None,
                };
                self.finish_job(job.id(), result, now).await;
                Err(error.into())
            }
        }
    }

    /// Skips a run that was missed by too much, and records that.
    async fn skip(&self, job: &Job, next: &Zoned, now: &Zoned) -> Result<(), TickError> {
        let (id, to) = (job.id().to_owned(), next.clone());
        self.change(now, move |file| file.skip_to(&id, &to)).await?;
        let missed = job.next_run_at(now);
        let missed = missed.map_or_else(|| "a run".into(), |time| shown(&time));
        let reason = format!(
            "{missed} was missed by too much; the next run is at {}",
            shown(next)
        );
        let execution = self
            .executions
            .claim(job.id(), self.source, None, now)
            .await?;
        let recorded = self.executions.finish(&execution, Some(&reason), now);
        Ok(recorded.await?)
    }

    /// Marks runs of dead processes as failed, and releases their claims.
    async fn recover(&self, now: &Zoned) -> Result<(), TickError> {
        let recovered = self.executions.recover(is_gone, now).await?;
        if recovered > 0 {
            tracing::warn!(recovered, "recovered abandoned cron runs");
        }
        self.change(now, |file| {
            file.release_claims(is_owner_gone);
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Runs the claimed jobs, several at once, and returns the result of each.
    pub async fn run_all(
        &self,
        claimed: Vec<Claimed>,
        agent: Result<&Agent, &str>,
        settings: &Settings,
        delivery: &dyn Delivery,
        cancel: &CancellationToken,
    ) -> Vec<Ran> {
        let runs = claimed
            .into_iter()
            .map(|run| self.run(run, agent, settings, delivery, cancel, &|_| {}));
        let runs: Vec<_> = runs.collect();
        stream::iter(runs).buffer_unordered(AT_ONCE).collect().await
    }

    /// Executes, records and delivers one run. `agent` is the reason if there is none.
    pub async fn run(
        &self,
        claimed: Claimed,
        agent: Result<&Agent, &str>,
        settings: &Settings,
        delivery: &dyn Delivery,
        cancel: &CancellationToken,
        observe: &Observer<'_>,
    ) -> Ran {
        let job = &*claimed.job;
        let zone = time_zone(settings);
        let now = || Zoned::now().with_time_zone(zone.clone());
        let began = now();
        self.note(self.executions.start(&claimed.execution, &began).await);

        let errand = Errand {
            job,
            home: &self.home,
            usual_directory: self.directory.as_deref(),
            settings,
            agent,
            began: &began,
            observe,
        };
        let report = self
            .renewing(job.id(), &zone, Box::pin(errand.run(cancel)))
            .await;
        let output = self.keep(job, &report, &began).await;
        let delivery_error = match report.to_deliver(job, settings) {
            Some(text) => delivery.deliver(job, &text).await.err(),
            None => None,
        };
        let ended = now();
        let result = RunResult {
            error: report.error.clone(),
            delivery_error: delivery_error.clone(),
        };
        self.finish_job(job.id(), result, &ended).await;
        let error = report.error.as_deref();
        let finished = self.executions.finish(&claimed.execution, error, &ended);
        self.note(finished.await);
        Ran {
            job: job.id().to_owned(),
            name: job.name().to_owned(),
            session: report.session,
            output,
            text: report.text,
            error: report.error,
            delivery_error,
        }
    }

    /// Runs `work` and renews the claim meanwhile.
    async fn renewing<T>(
        &self,
        job: &str,
        zone: &jiff::tz::TimeZone,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(RENEWAL) => {
                    let (id, owner) = (job.to_owned(), self.owner.clone());
                    let now = Zoned::now().with_time_zone(zone.clone());
                    let moment = now.clone();
                    let renewed = self
                        .change(&now, move |file| {
                            file.refresh_claim(&id, &owner, &moment);
                            Ok(())
                        })
                        .await;
                    if let Err(error) = renewed {
                        tracing::warn!(%error, "renewing the claim of a cron job failed");
                    }
                }
            }
        }
    }

    async fn keep(&self, job: &Job, report: &Report, began: &Zoned) -> Option<PathBuf> {
        let (home, id, began) = (self.home.clone(), job.id().to_owned(), began.clone());
        let document = report.document(job, &began);
        let written =
            tokio::task::spawn_blocking(move || write_output(&home, &id, &began, &document));
        match written.await {
            Ok(Ok(path)) => Some(path),
            Ok(Err(error)) => {
                tracing::warn!(%error, "storing the output of a cron job failed");
                None
            }
            Err(_) => None,
        }
    }

    async fn finish_job(&self, id: &str, result: RunResult, now: &Zoned) {
        let (id, moment) = (id.to_owned(), now.clone());
        let finished = self
            .change(now, move |file| match file.finish(&id, &result, &moment) {
                // The job was removed while it ran.
                Err(CronError::NoSuchJob { .. }) => Ok(()),
                finished => finished,
            })
            .await;
        if let Err(error) = finished {
            tracing::warn!(%error, "storing the end of a cron job failed");
        }
    }

    fn note(&self, recorded: Result<(), StoreError>) {
        if let Err(error) = recorded {
            tracing::warn!(%error, "recording a cron run failed");
        }
    }

    /// Changes the job file on a blocking thread.
    async fn change<T: Send + 'static>(
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
fn is_gone(execution: &Execution) -> bool {
    process::is_gone(execution.pid, execution.process_started_at)
}

/// Whether the process of an owner named by [`Runner`] has ended. Other owners are unknown.
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

fn shown(time: &Zoned) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// A list of texts in a job.
fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
