//! A Hub process that is killed and restarted repeatedly: every due time fires once.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use hermes_config::Home;
use hermes_hub::{
    JobId, TenantId,
    api_types::Time,
    storage::state::{Page, RunQuery, State},
    tenants::{
        agents::Agents,
        runs::{PreviousEnd, Runs},
        runtime::mock::MockRuntime,
        scheduler::Scheduler,
    },
};
use hermes_store::cron::{CronFile, NewJob, Schedule};
use hermes_testkit::eventually_some;
use jiff::tz::TimeZone;

use crate::agent_harness::{FixedTenants, TIMEOUT, make_tenant, open_state};

/// The child's directory and start time.
const DIRECTORY_VARIABLE: &str = "HERMES_TEST_CLOCK";

/// A minute of the test's clock takes a second.
const SPEED: i64 = 60;

/// Minutes between two due times of a job.
const PERIOD: i64 = 10;
const PERIOD_MILLIS: i64 = PERIOD * 60_000;

const JOBS: i64 = 1000;
const TENANTS: i64 = 20;
const KILLS: u64 = 50;

/// 2026-11-15T00:00:00Z, when the test begins.
const BEGIN: i64 = 1_794_700_800_000;

/// A job and its first due time.
struct ScheduledJob {
    tenant: TenantId,
    job: JobId,
    first: Time,
}

fn accelerated_time(begun: i64) -> Time {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let now = i64::try_from(now).unwrap();
    Time::from_millis(BEGIN + (now - begun) * SPEED)
}

/// Not a test: the Hub process that the test below kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the part of a process in another test"]
async fn hub_process() {
    let place = std::env::var(DIRECTORY_VARIABLE).expect("another test starts this");
    let (directory, begun) = place.rsplit_once('@').unwrap();
    let begun: i64 = begun.parse().unwrap();
    let directory = Path::new(directory);
    let state = open_state(directory).await;
    let tenancy = Arc::new(FixedTenants::new(directory));
    let runtime = Arc::new(MockRuntime::default());
    let agents = Agents::new(state.clone(), runtime, tenancy, "n1".into());
    let runs = Runs::start(state.clone(), agents.clone(), PreviousEnd::Crashed)
        .await
        .unwrap();
    let _clock = Scheduler::start_with_clock(
        state,
        agents,
        runs,
        Arc::new(move || accelerated_time(begun)),
    );
    std::future::pending::<()>().await;
}

fn start_hub_process(directory: &Path, begun: i64) -> Child {
    let this = std::env::current_exe().unwrap();
    Command::new(this)
        .args([
            "tenants::scheduler::crash_recovery::hub_process",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(
            DIRECTORY_VARIABLE,
            format!("{}@{begun}", directory.display()),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_many_kills_no_due_time_is_dealt_with_twice_or_never() {
    let directory = tempfile::tempdir().unwrap();
    let begun = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    // The setup takes a while, and the first due times of all jobs must be in the future.
    let begun = i64::try_from(begun).unwrap() + 3000;
    let jobs = make_jobs(directory.path()).await;
    for kill in 0..KILLS {
        let mut hub = start_hub_process(directory.path(), begun);
        // At another moment each time.
        let life = 200
            + u64::from(SystemTime::now().elapsed().unwrap().subsec_nanos()) % 300
            + kill * 37 % 300;
        tokio::time::sleep(Duration::from_millis(life)).await;
        hub.kill().unwrap();
        hub.wait().unwrap();
    }
    // Long enough for every job to be due once more, without a kill.
    let end = Time::from_millis(accelerated_time(begun).millis() + PERIOD_MILLIS);
    let mut last = start_hub_process(directory.path(), begun);
    let state = open_state(directory.path()).await;
    let reached = eventually_some(TIMEOUT, async || {
        let next = state.next_due().await.unwrap();
        (accelerated_time(begun) >= end && next.is_some_and(|next| next > end)).then_some(())
    });
    assert!(reached.await.is_some(), "not everything is dealt with");
    last.kill().unwrap();
    last.wait().unwrap();
    state.close().await;
    let state = open_state(directory.path()).await;
    let fired = check_fires(&*state, &jobs, end).await;
    println!("{KILLS} kills, {fired} due times");
    assert!(
        fired > u64::try_from(JOBS).unwrap(),
        "only {fired} due times"
    );
}

/// Jobs whose times are spread over all minutes.
async fn make_jobs(directory: &Path) -> Vec<ScheduledJob> {
    let state = open_state(directory).await;
    let tenancy = FixedTenants::new(directory);
    let now = Time::from_millis(BEGIN).timestamp().to_zoned(TimeZone::UTC);
    let mut made = Vec::new();
    for number in 0..TENANTS {
        let tenant = TenantId::parse(&format!("t{number}")).unwrap();
        make_tenant(&*state, &tenant).await;
        let home = Home::at(tenancy.home(&tenant));
        CronFile::change(&home, &now, |file| {
            for job in 0..JOBS / TENANTS {
                let id = format!("job{job}");
                let minute = (number + job) % PERIOD;
                let schedule = Schedule::parse(&format!("{minute}-59/{PERIOD} * * * *"), &now)?;
                let mut new = NewJob::new("Say hello", schedule);
                new.id = Some(id.clone());
                file.create(new, &now)?;
                // The minute in which it is created does not count.
                let first = if minute == 0 { PERIOD } else { minute };
                made.push(ScheduledJob {
                    tenant: tenant.clone(),
                    job: JobId::parse(&id).unwrap(),
                    first: Time::from_millis(BEGIN + first * 60_000),
                });
            }
            Ok(())
        })
        .unwrap();
    }
    state.close().await;
    made
}

/// Checks all fires until `end`; returns their number.
async fn check_fires(state: &dyn State, jobs: &[ScheduledJob], end: Time) -> u64 {
    let mut runs: BTreeMap<String, u32> = BTreeMap::new();
    let mut page = Page::first(500);
    loop {
        let found = state.runs(&RunQuery::default(), &page).await.unwrap();
        for run in found.items {
            *runs.entry(run.run_id.to_string()).or_default() += 1;
        }
        match found.next {
            Some(next) => page = Page::after(500, next),
            None => break,
        }
    }
    let mut count = 0;
    let mut used = HashSet::new();
    for ScheduledJob { tenant, job, first } in jobs {
        let mut fires = state
            .fires(tenant, job, &Page::first(500))
            .await
            .unwrap()
            .items;
        fires.reverse();
        assert!(!fires.is_empty(), "{tenant} {job} never fired");
        assert_eq!(fires[0].due, *first, "{tenant} {job} began late");
        let times = state.job_times(tenant).await.unwrap();
        let next = times.iter().find(|time| time.job == *job);
        let next = next.and_then(|time| time.next);
        let next = next.unwrap_or_else(|| panic!("{tenant} {job} is due no more"));
        assert!(next > end, "{tenant} {job} waits since {next:?}");
        let following = fires.iter().skip(1).map(|fire| fire.due).chain([next]);
        for (fire, following) in fires.iter().zip(following) {
            let step = following.millis() - fire.due.millis();
            // If the machine was so slow that a due time was missed, that is recorded.
            let was_missed = fire.skipped.as_deref() == Some("it was missed");
            assert!(
                step == PERIOD_MILLIS || (was_missed && step > 0 && step % PERIOD_MILLIS == 0),
                "{tenant} {job}: {following:?} after {fire:?}"
            );
        }
        for fire in &fires {
            count += 1;
            assert_ne!(fire.run.is_some(), fire.skipped.is_some(), "{fire:?}");
            if let Some(run) = &fire.run {
                assert_eq!(runs.get(run.as_str()), Some(&1), "{fire:?}");
                assert!(used.insert(run.clone()), "{run} came of two due times");
            }
        }
    }
    assert_eq!(
        used.len(),
        runs.len(),
        "there are runs that no due time gave"
    );
    count
}
