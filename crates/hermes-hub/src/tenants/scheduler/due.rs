//! Firing a due time: it becomes a run, or is skipped with a reason. Either way it is recorded and the job gets its
//! next due time.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use futures::{StreamExt, stream};
use hermes_config::traced_span;
use hermes_store::cron::{CronError, CronFile, Job, Schedule};
use tracing::{Span, field::Empty};

use super::{MAX_CONCURRENT_PLANS, MAX_DUE_BATCH, Scheduler};
use crate::{
    ProblemCode, TenantId,
    api_types::{AccessStatus, Time, Via},
    storage::{
        audit::NewAuditEntry,
        state::{DueJob, FireOutcome, JobDueTime, NewFire, NewRun, Notice, Page, StateError},
    },
    tenants::{
        agents::{CronContext, CronRunner, MissedRunPolicy, QuotaState},
        leases::HomeUse,
        runs::{add_trace, job_run},
        scheduler::job_files::{find_active_job, load_jobs, local_time, schedule_hash},
    },
};

/// A due time older than this was missed; until then it is only late.
const MISSED_AFTER_MILLIS: i64 = 60_000;

/// Due times searched for the last run: a job can be due every minute, and the policy may require long intervals.
const MAX_LOOKBACK: u32 = 500;

/// The due jobs of a look at the database.
#[derive(Debug, Clone, Copy, Default)]
pub struct DueRound {
    /// Those that were dealt with.
    pub handled: usize,
    /// Those of tenants that this node does not work for yet, or not any more.
    pub waiting: usize,
}

impl DueRound {
    /// Whether more may be due than fit into one batch.
    pub(super) fn is_full(self) -> bool {
        self.handled > 0 && self.handled + self.waiting >= MAX_DUE_BATCH as usize
    }
}

impl Scheduler {
    /// Fires due jobs. What fails for one tenant does not keep those of others from being fired.
    pub async fn fire_due(&self) -> Result<DueRound, StateError> {
        let now = (self.now)();
        let due = self.state.due_jobs(now, MAX_DUE_BATCH).await?;
        let leases = self.agents.leases();
        // None of these tenants is handed over before its fires are stored.
        let mut homes: HashMap<TenantId, Option<HomeUse>> = HashMap::new();
        let mut by_tenant: BTreeMap<TenantId, Vec<DueJob>> = BTreeMap::new();
        let mut round = DueRound::default();
        for job in due {
            let home = homes.entry(job.tenant.clone());
            if home
                .or_insert_with_key(|tenant| leases.use_home(tenant))
                .is_none()
            {
                round.waiting += 1;
                continue;
            }
            round.handled += 1;
            by_tenant.entry(job.tenant.clone()).or_default().push(job);
        }
        let planned: Vec<Result<Vec<NewFire>, StateError>> = stream::iter(by_tenant)
            .map(|(tenant, due)| self.plan_tenant(tenant, due, now))
            .buffer_unordered(MAX_CONCURRENT_PLANS)
            .collect()
            .await;
        let (mut fires, mut failed) = (Vec::new(), None);
        for plan in planned {
            match plan {
                Ok(plan) => fires.extend(plan),
                Err(error) => failed = Some(error),
            }
        }
        self.store_fires(fires).await?;
        failed.map_or(Ok(round), Err)
    }

    /// Decides on the due times of one tenant.
    async fn plan_tenant(
        &self,
        tenant: TenantId,
        due: Vec<DueJob>,
        now: Time,
    ) -> Result<Vec<NewFire>, StateError> {
        // Whoever reads the file meanwhile knows more, and comes after this.
        let lock = self.reading.lock(&tenant).await;
        let _lock = lock.map_err(|problem| StateError::Unavailable(problem.message))?;
        let context = match self.agents.tenant_lookup().cron_context(&tenant).await {
            Ok(context) => Some(context),
            Err(problem) if problem.code == ProblemCode::NotFound => None,
            Err(problem) => return Err(StateError::Unavailable(problem.message)),
        };
        let file = match &context {
            Some(context) => {
                match load_jobs(&context.home).await.map_err(StateError::broken)? {
                    // It may be readable the next time.
                    Err(error @ CronError::Io { .. }) => return Err(StateError::broken(error)),
                    loaded => loaded.ok(),
                }
            }
            None => None,
        };
        let (Some(context), Some(file)) = (context, file) else {
            self.forget_due_times(&tenant).await?;
            return Ok(Vec::new());
        };
        self.record_ticker(&tenant, context.runner).await;
        let used = self.state.limits(&tenant).await?;
        let mut fires: Vec<NewFire> = Vec::new();
        let mut planned = 0;
        for due in due {
            let Some(mut planned_fire) = self.plan_job(due, &context, &file, now).await? else {
                continue;
            };
            match used
                .reached(planned)
                .filter(|_| planned_fire.outcome.is_ok())
            {
                Some(limit) => {
                    planned_fire.outcome = Err(limit.reason().into());
                    planned_fire.entry = planned_fire.entry.with_status(429);
                }
                None => planned += u64::from(planned_fire.outcome.is_ok()),
            }
            fires.push(planned_fire);
        }
        Ok(fires)
    }

    async fn plan_job(
        &self,
        due: DueJob,
        context: &CronContext,
        file: &CronFile,
        now: Time,
    ) -> Result<Option<NewFire>, StateError> {
        let moment = local_time(now, context);
        let active_job = find_active_job(file, &due.job);
        let Some((job, schedule)) = active_job.and_then(|job| Some((job, job.schedule(&moment)?)))
        else {
            // Removed or paused since.
            let over = JobDueTime {
                job: due.job.clone(),
                next: None,
                schedule_hash: String::new(),
            };
            self.state
                .replace_job_time(&due.tenant, due.due, &over)
                .await?;
            return Ok(None);
        };
        if let Some(last) = due.last_fired.filter(|last| *last >= due.due) {
            // Already fired. Later due times may be due as well, so nothing is skipped.
            let following = schedule.next_run(Some(&local_time(last, context)), &moment);
            let time = JobDueTime {
                job: due.job.clone(),
                next: following.map(|next| next.timestamp().into()),
                schedule_hash: schedule_hash(job),
            };
            self.state
                .replace_job_time(&due.tenant, due.due, &time)
                .await?;
            return Ok(None);
        }
        let mut outcome = decide_outcome(&due, context, job, &schedule, now)?;
        if outcome.is_ok()
            && let Some(reason) = self
                .policy_violation(&due, context, file, &schedule, now)
                .await?
        {
            outcome = Err(reason);
        }
        let entry = NewAuditEntry::new("hub", Via::Cron, "cron_fire")
            .for_tenant(&due.tenant)
            .with_target(due.job.as_str())
            .with_status(if outcome.is_ok() { 202 } else { 409 });
        Ok(Some(NewFire {
            next: next_due_after(&schedule, due.due, now, context),
            tenant: due.tenant,
            job: due.job,
            due: due.due,
            outcome,
            entry,
        }))
    }

    /// Why the policy forbids a run now. The tenant writes the file itself, so it may exceed the policy.
    async fn policy_violation(
        &self,
        due: &DueJob,
        context: &CronContext,
        file: &CronFile,
        schedule: &Schedule,
        now: Time,
    ) -> Result<Option<String>, StateError> {
        let limits = context.limits;
        let position = file
            .jobs
            .iter()
            .position(|job| job.id() == due.job.as_str());
        if position.is_some_and(|position| position >= limits.max_jobs) {
            let most = limits.max_jobs;
            return Ok(Some(format!("the policy allows {most} jobs")));
        }
        if !limits.is_too_often(schedule, &local_time(now, context)) {
            return Ok(None);
        }
        let latest = self
            .state
            .fires(&due.tenant, &due.job, &Page::first(MAX_LOOKBACK))
            .await?;
        let last_run = latest.items.into_iter().find(|fire| fire.run.is_some());
        let least = i64::from(limits.min_interval_minutes) * 60_000;
        let is_early = last_run.is_some_and(|fire| due.due.millis() - fire.due.millis() < least);
        let minutes = limits.min_interval_minutes;
        Ok(is_early.then(|| format!("the policy allows a run every {minutes} minutes at most")))
    }

    /// Records all fires in one transaction and dispatches their runs.
    async fn store_fires(&self, mut fires: Vec<NewFire>) -> Result<(), StateError> {
        if fires.is_empty() {
            return Ok(());
        }
        // They end when the fires are stored.
        let spans: Vec<Span> = fires.iter_mut().map(begin_fire_span).collect();
        let planned: Vec<_> = fires
            .iter()
            .map(|fire| (fire.due, fire.outcome.as_ref().err().cloned()))
            .collect();
        let outcomes = self.state.record_fires(fires).await?;
        let now = (self.now)();
        for (((due, skipped), outcome), span) in planned.into_iter().zip(&outcomes).zip(spans) {
            span.record("hermes.fire.outcome", fire_word(outcome, skipped.is_some()));
            span.record("hermes.fire.late_ms", now.millis() - due.millis());
            if *outcome == FireOutcome::Fired {
                self.count_fire(due, now, skipped.as_deref());
            }
        }
        if outcomes.contains(&FireOutcome::Fired) {
            self.runs.notify_queues();
            self.state.notify(Notice::Work);
        }
        Ok(())
    }
}

impl Scheduler {
    fn count_fire(&self, due: Time, now: Time, skipped: Option<&str>) {
        let metrics = self.agents.metrics();
        if let Some(reason) = skipped {
            let label = format!("reason=\"{reason}\"");
            metrics.increment("cron_skips_total", label, 1);
            return;
        }
        let late = u64::try_from(now.millis() - due.millis()).unwrap_or(0);
        metrics.record_duration("cron_lateness_seconds", Duration::from_millis(late));
        metrics.increment("cron_fires_total", "", 1);
    }
}

/// The exported span of a due time. Its run belongs to the same trace.
fn begin_fire_span(fire: &mut NewFire) -> Span {
    let span = traced_span!(
        parent: None,
        "cron_fire",
        hermes.tenant.id = fire.tenant.as_str(),
        hermes.job.id = fire.job.as_str(),
        hermes.fire.outcome = Empty,
        hermes.fire.late_ms = Empty
    );
    if let Ok(run) = &mut fire.outcome {
        span.in_scope(|| add_trace(&mut run.request));
    }
    span
}

fn fire_word(outcome: &FireOutcome, is_skipped: bool) -> &'static str {
    match outcome {
        FireOutcome::Fired if is_skipped => "skipped",
        FireOutcome::Fired => "run",
        FireOutcome::AlreadyFired => "already_fired",
        FireOutcome::LeaseLost => "lease_lost",
    }
}

/// A run, or the reason why it is skipped.
fn decide_outcome(
    due: &DueJob,
    context: &CronContext,
    job: &Job,
    schedule: &Schedule,
    now: Time,
) -> Result<Result<NewRun, String>, StateError> {
    if context.access == AccessStatus::Blocked {
        return Ok(Err("the tenant is blocked".into()));
    }
    if context.runner == CronRunner::OwnGateway {
        return Ok(Err("a gateway of the home runs its jobs".into()));
    }
    if context.quota == QuotaState::Exceeded {
        return Ok(Err("the tenant is over its storage quota".into()));
    }
    let late = now.millis() - due.due.millis();
    let is_too_late = match context.missed_runs {
        MissedRunPolicy::RunOnce => {
            schedule.is_missed(&local_time(due.due, context), &local_time(now, context))
        }
        MissedRunPolicy::Skip => late > MISSED_AFTER_MILLIS,
    };
    if is_too_late {
        return Ok(Err("it was missed".into()));
    }
    if due.is_active {
        return Ok(Err("the previous run is still active".into()));
    }
    tracing::debug!(tenant = %due.tenant, job = job.id(), "cron job due");
    job_run(&due.tenant, &due.job)
        .map(Ok)
        .map_err(StateError::broken)
}

fn next_due_after(
    schedule: &Schedule,
    due: Time,
    now: Time,
    context: &CronContext,
) -> Option<Time> {
    let next = schedule.next_after(&local_time(due, context), &local_time(now, context))?;
    Some(next.timestamp().into())
}

#[cfg(test)]
mod tests {
    use hermes_store::cron::JobLimits;
    use jiff::tz::TimeZone;

    use super::*;

    fn calendar() -> CronContext {
        CronContext {
            home: "/nowhere".into(),
            zone: TimeZone::UTC,
            access: AccessStatus::Active,
            missed_runs: MissedRunPolicy::RunOnce,
            quota: QuotaState::Within,
            runner: CronRunner::Hub,
            limits: JobLimits {
                max_jobs: 50,
                min_interval_minutes: 1,
            },
        }
    }

    fn time(text: &str) -> Time {
        text.parse::<jiff::Timestamp>().unwrap().into()
    }

    fn hourly() -> Schedule {
        Schedule::Cron {
            expression: "0 * * * *".into(),
        }
    }

    #[test]
    fn a_clock_that_goes_back_does_not_repeat_a_due_time() {
        let due = time("2026-11-15T10:00:00Z");
        let next = next_due_after(&hourly(), due, time("2026-11-15T08:30:00Z"), &calendar());
        assert_eq!(next, Some(time("2026-11-15T11:00:00Z")));
    }

    #[test]
    fn a_clock_that_goes_forward_skips_what_lies_between() {
        let due = time("2026-11-15T10:00:00Z");
        let next = next_due_after(&hourly(), due, time("2026-11-15T20:30:00Z"), &calendar());
        assert_eq!(next, Some(time("2026-11-15T21:00:00Z")));
    }

    #[test]
    fn an_interval_keeps_its_rhythm_while_it_is_on_time() {
        let schedule = Schedule::Interval { minutes: 30 };
        let due = time("2026-11-15T10:00:00Z");
        let on_time = next_due_after(&schedule, due, time("2026-11-15T10:00:07Z"), &calendar());
        assert_eq!(on_time, Some(time("2026-11-15T10:30:00Z")));
        let late = next_due_after(&schedule, due, time("2026-11-15T12:00:00Z"), &calendar());
        assert_eq!(late, Some(time("2026-11-15T12:30:00Z")));
    }

    #[test]
    fn a_single_time_has_no_next() {
        let now = time("2026-11-15T10:00:00Z");
        let schedule = Schedule::Once {
            at: local_time(now, &calendar()),
            display: String::new(),
        };
        assert_eq!(next_due_after(&schedule, now, now, &calendar()), None);
    }
}
