//! Ten thousand cron jobs, each at a minute of its own: how late those are that come due.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use hermes_testkit::TemporaryHome;
use jiff::Timestamp;
use serde_json::json;

use super::{load, tenant_name};
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Quantity, Report, ReportRow, Target},
    report_progress,
    samples::Samples,
};

const LIMIT: Target = Target::Below(Quantity::Time(Duration::from_secs(1)));
/// After a minute's beginning, so long until all that came due then is dealt with.
const GRACE: Duration = Duration::from_secs(5);

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (tenants, watched) = match effort {
        Effort::Full => (100, 3),
        Effort::Quick => (3, 1),
    };
    let directory = TemporaryHome::new();
    // What the agents do is not measured, and would take both processors.
    let settings = ["runtime=mock".to_owned()];
    let hub = HubProcess::start_with(programs, directory.path(), &settings)?;
    make_tenants(&hub, tenants)?;
    let jobs = CronLoad {
        tenants,
        jobs_each: 100,
    };
    jobs.create(&hub)?;
    let seen = wait_minutes(watched)?;
    jobs.report(&hub, &seen, report)?;
    hub.stop()
}

/// Tenants with cron jobs, each at a minute of an hour.
pub(crate) struct CronLoad {
    pub(crate) tenants: usize,
    pub(crate) jobs_each: usize,
}

impl CronLoad {
    pub(crate) fn create(&self, hub: &HubProcess) -> Result<()> {
        let policy = json!({"cron": {"maxJobs": self.jobs_each}});
        hub.call_rest("PUT", "/v1/agent-policy", Some(&policy))?;
        let requests = (0..self.count())
            .map(|number| {
                let job = json!({
                    "id": job_name(number),
                    "schedule": format!("{} * * * *", due_minute(number)),
                    "prompt": "Look whether anything is to be done.",
                });
                hub.request("POST", &self.path(number), Some(&job))
            })
            .collect();
        load::send_each_once(hub.port, requests, 8)?;
        Ok(())
    }

    /// How many of those that were due in these minutes ran, and how late.
    pub(crate) fn report(
        &self,
        hub: &HubProcess,
        seen: &BTreeSet<usize>,
        report: &mut Report,
    ) -> Result<()> {
        let (mut due, mut late) = (0, Samples::default());
        for number in (0..self.count()).filter(|number| seen.contains(&due_minute(*number))) {
            due += 1;
            let path = format!("{}/{}", self.path(number), job_name(number));
            let job = hub.call_rest("GET", &path, None)?;
            let Some(execution) = job["executions"].get(0) else {
                continue;
            };
            let time = |member: &str| -> Result<Timestamp> {
                let time = execution[member].as_str().context("a time is missing")?;
                Ok(time.parse()?)
            };
            let lateness = time("createdAt")?.duration_since(time("dueAt")?);
            late.push(Duration::try_from(lateness).unwrap_or_default());
        }
        let (jobs, watched) = (self.count(), seen.len());
        let count = |number: usize| Quantity::Count(u32::try_from(number).unwrap_or(u32::MAX));
        report.add(ReportRow::new(
            format!("{jobs} cron jobs: those due in {watched} minutes that ran"),
            count(late.count()),
            Some(count(due)),
            Target::Equal,
        ));
        report.add(ReportRow::p99(
            format!("{jobs} cron jobs: lateness, p99"),
            &late,
            None,
            LIMIT,
        ));
        Ok(())
    }

    fn count(&self) -> usize {
        self.tenants * self.jobs_each
    }

    fn path(&self, number: usize) -> String {
        let tenant = tenant_name(number / self.jobs_each);
        format!("/v1/tenants/{tenant}/agent-cron")
    }
}

/// Tenants that are ready and asleep.
pub(crate) fn make_tenants(hub: &HubProcess, tenants: usize) -> Result<()> {
    for number in 0..tenants {
        let body = json!({"id": tenant_name(number), "start": false});
        hub.call_rest("POST", "/v1/tenants", Some(&body))?;
    }
    for number in 0..tenants {
        let path = format!("/v1/tenants/{}", tenant_name(number));
        hub.wait_for_member(&path, "status", &["ready"])?;
    }
    Ok(())
}

fn job_name(number: usize) -> String {
    format!("job-{number:05}")
}

/// The minute of an hour at which a job is due.
fn due_minute(number: usize) -> usize {
    number * 7 % 60
}

/// Lets the beginnings of so many minutes go by, and returns which minutes of their hour they were.
pub(crate) fn wait_minutes(minutes: u64) -> Result<BTreeSet<usize>> {
    let now = Timestamp::now().as_second();
    let next = now + 60 - now % 60;
    let until = Duration::from_secs(u64::try_from(next - now)? + 60 * (minutes - 1)) + GRACE;
    report_progress(&format!("waiting for jobs, {} s", until.as_secs()))?;
    let end = Instant::now() + until;
    thread::sleep(end - Instant::now());
    (0..i64::try_from(minutes)?)
        .map(|minute| Ok(usize::try_from((next / 60 + minute) % 60)?))
        .collect()
}
