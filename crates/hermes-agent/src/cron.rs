//! Running cron jobs: what is due is claimed, run in a session of its own, recorded and delivered.
//!
//! Whoever lets time pass, the gateway's ticker or `hermes cron tick`, calls [`Runner::claim_due`] and runs what it
//! gets. A claim is written before anything is done, so a run happens at most once, whatever ends the process.

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

/// A claim counts for so long. It is renewed while the run lasts, so only one of a dead process grows old.
const LEASE: Duration = Duration::from_mins(10);
const RENEWAL: Duration = Duration::from_mins(2);

/// Is told what happens in a run.
pub type Observer<'a> = dyn Fn(TurnEvent) + Send + Sync + 'a;

/// Runs that go on side by side.
const AT_ONCE: usize = 4;

/// How long the servers of a job may take to be ready.
pub const SERVER_PATIENCE: Duration = Duration::from_secs(15);

/// Why due jobs could not be looked for.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    /// The jobs can not be read or changed.
    #[error(transparent)]
    Jobs(#[from] CronError),
    /// The record of runs can not be used.
    #[error(transparent)]
    Record(#[from] StoreError),
}

/// Runs the jobs of a home.
pub struct Runner {
    home: Home,
    executions: Executions,
    /// Names this process in claims.
    owner: String,
    /// What makes it run, for the record: `ticker`, `manual`.
    source: &'static str,
    /// Where jobs work that name no directory; the user's own if absent.
    directory: Option<PathBuf>,
}

/// A run that is this process's to do.
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

    /// Whether a model is asked.
    pub fn needs_agent(&self) -> bool {
        self.job.get("no_agent").and_then(Value::as_bool) != Some(true)
    }

    /// Whether an MCP server takes part.
    pub fn needs_server(&self, settings: &Settings, name: &str) -> bool {
        errand::needs_server(&self.job, settings, name)
    }
}

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The job's id.
    pub job: String,
    /// Its name.
    pub name: String,
    /// The session, if a model was asked.
    pub session: Option<String>,
    /// What was written down.
    pub output: Option<PathBuf>,
    /// The message, silent ones included.
    pub text: String,
    /// Why it failed.
    pub error: Option<String>,
    /// Why the message did not arrive.
    pub delivery_error: Option<String>,
}

impl Runner {
    /// Opens the record of runs of a home.
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

    /// Lets jobs that name no directory work in this one.
    #[must_use]
    pub fn working_in(mut self, directory: PathBuf) -> Self {
        self.directory = Some(directory);
        self
    }

    /// Closes the record.
    pub async fn close(&self) {
        self.executions.close().await;
    }

    /// Takes every run whose time has come. Nothing if another process is at it.
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

    /// Takes a run of one job now, whatever its schedule says. Nothing if it is running.
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
                // Without a record it does not run; the claim must not stay.
                let result = RunResult {
                    error: Some(error.to_string()),
                    delivery_error: None,
                };
                self.finish_job(job.id(), result, now).await;
                Err(error.into())
            }
        }
    }

    /// Lets a job go on after a time that was missed by too much, and writes that down.
    async fn skip(&self, job: &Job, next: &Zoned, now: &Zoned) -> Result<(), TickError> {
        let (id, to) = (job.id().to_owned(), next.clone());
        self.change(now, move |file| file.skip_to(&id, &to)).await?;
        let missed = job.next_run_at(now);
        let missed = missed.map_or_else(|| "a run".into(), |time| shown(&time));
        let reason = format!(
            "{missed} was missed by too much; it goes on at {}",
            shown(next)
        );
        let execution = self
            .executions
            .claim(job.id(), self.source, None, now)
            .await?;
        let recorded = self.executions.finish(&execution, Some(&reason), now);
        Ok(recorded.await?)
    }

    /// Writes down what other processes began and will not finish, and gives their claims back.
    async fn recover(&self, now: &Zoned) -> Result<(), TickError> {
        let recovered = self.executions.recover(is_gone, now).await?;
        if recovered > 0 {
            tracing::warn!(recovered, "runs of cron jobs were cut off");
        }
        self.change(now, |file| {
            file.release_claims(is_owner_gone);
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Runs what was claimed, several at once, and tells what became of each.
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

    /// Does one run: the work, the record, the delivery. `agent` may be missing for a reason.
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

    /// Does the work and keeps the claim fresh meanwhile.
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
                        tracing::warn!(%error, "the claim of a cron job could not be renewed");
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
                tracing::warn!(%error, "the output of a cron job could not be kept");
                None
            }
            Err(_) => None,
        }
    }

    async fn finish_job(&self, id: &str, result: RunResult, now: &Zoned) {
        let (id, moment) = (id.to_owned(), now.clone());
        let finished = self
            .change(now, move |file| match file.finish(&id, &result, &moment) {
                // Removed while it ran.
                Err(CronError::NoSuchJob { .. }) => Ok(()),
                finished => finished,
            })
            .await;
        if let Err(error) = finished {
            tracing::warn!(%error, "the end of a cron job could not be written down");
        }
    }

    fn note(&self, recorded: Result<(), StoreError>) {
        if let Err(error) = recorded {
            tracing::warn!(%error, "a run of a cron job could not be recorded");
        }
    }

    /// Changes the job file where waiting for a disk keeps nobody else waiting.
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

/// The same of an owner as [`Runner`] names them. Of others nothing is known.
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
