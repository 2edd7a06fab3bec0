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

use super::{load, served::Served, tenant};
use crate::{
    note,
    report::{Quantity, Report, Row, Target},
    samples::Samples,
    scene::{Effort, Programs},
};

const OF_EACH: usize = 100;
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
    let hub = Served::start_with(programs, directory.path(), &settings)?;
    make_tenants(&hub, tenants)?;
    let policy = json!({"cron": {"maxJobs": OF_EACH}});
    hub.ask("PUT", "/v1/agent-policy", Some(&policy))?;
    let jobs = tenants * OF_EACH;
    let requests = (0..jobs)
        .map(|number| {
            let job = json!({
                "id": name(number),
                "schedule": format!("{} * * * *", minute(number)),
                "prompt": "Look whether anything is to be done.",
            });
            hub.request("POST", &jobs_of(number), Some(&job))
        })
        .collect();
    load::each_once(hub.port, requests, 8)?;

    let seen = wait(watched)?;
    let (mut due, mut late) = (0, Samples::default());
    for number in (0..jobs).filter(|number| seen.contains(&minute(*number))) {
        due += 1;
        let path = format!("{}/{}", jobs_of(number), name(number));
        let job = hub.ask("GET", &path, None)?;
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
    let count = |number: usize| Quantity::Count(u32::try_from(number).unwrap_or(u32::MAX));
    report.add(Row::new(
        format!("{jobs} cron jobs: those due in {watched} minutes that ran"),
        count(late.count()),
        Some(count(due)),
        Target::Equal,
    ));
    report.add(Row::p99(
        format!("{jobs} cron jobs: lateness, p99"),
        &late,
        None,
        LIMIT,
    ));
    hub.end()
}

/// Tenants that are ready and asleep.
fn make_tenants(hub: &Served, tenants: usize) -> Result<()> {
    for number in 0..tenants {
        let body = json!({"id": tenant(number), "start": false});
        hub.ask("POST", "/v1/tenants", Some(&body))?;
    }
    for number in 0..tenants {
        let path = format!("/v1/tenants/{}", tenant(number));
        hub.await_word(&path, "status", &["ready"])?;
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("job-{number:05}")
}

/// The minute of an hour at which a job is due.
fn minute(number: usize) -> usize {
    number * 7 % 60
}

fn jobs_of(number: usize) -> String {
    format!("/v1/tenants/{}/agent-cron", tenant(number / OF_EACH))
}

/// Lets the beginnings of so many minutes go by, and returns which minutes of their hour they were.
fn wait(minutes: u64) -> Result<BTreeSet<usize>> {
    let now = Timestamp::now().as_second();
    let next = now + 60 - now % 60;
    let until = Duration::from_secs(u64::try_from(next - now)? + 60 * (minutes - 1)) + GRACE;
    note(&format!("waiting for jobs, {} s", until.as_secs()))?;
    let end = Instant::now() + until;
    thread::sleep(end - Instant::now());
    (0..i64::try_from(minutes)?)
        .map(|minute| Ok(usize::try_from((next / 60 + minute) % 60)?))
        .collect()
}
