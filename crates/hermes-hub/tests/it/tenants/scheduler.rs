//! The scheduler: one fire per due time, whether agents are running or not, and whatever process is killed.

mod crash_recovery;
mod tenants_at_once;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use hermes_config::Home;
use hermes_hub::{
    JobId, TenantId,
    api_types::{AccessStatus, ConditionStatus, RunStatus, RunTrigger, Time},
    storage::{
        audit::NewAuditEntry,
        state::{Fire, LimitChange, Page, RunQuery},
    },
    tenants::{
        agents::{CronRunner, MissedRunPolicy, QuotaState},
        scheduler::{Scheduler, WallClock},
    },
};
use hermes_store::cron::{CronFile, JobLimits, NewJob, Schedule};
use jiff::tz::TimeZone;

use crate::agent_harness::AgentHarness;

/// A clock that a test sets.
#[derive(Clone)]
struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    fn at(text: &str) -> Self {
        let time: jiff::Timestamp = text.parse().unwrap();
        Self(Arc::new(AtomicI64::new(time.as_millisecond())))
    }

    fn set(&self, text: &str) {
        let time: jiff::Timestamp = text.parse().unwrap();
        self.0.store(time.as_millisecond(), Ordering::SeqCst);
    }

    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn wall_clock(&self) -> WallClock {
        let this = self.clone();
        Arc::new(move || this.now())
    }
}

impl AgentHarness {
    fn start_scheduler(&self, time: &ManualClock) -> Arc<Scheduler> {
        let (state, agents) = (self.state.clone(), self.agents.clone());
        Scheduler::start_with_clock(state, agents, self.runs.clone(), time.wall_clock())
    }

    /// Writes a job into a tenant's file.
    fn write_job(&self, tenant: &TenantId, id: &str, schedule: &str, time: &ManualClock) -> JobId {
        let home = Home::at(self.tenancy.home(tenant));
        let now = time.now().timestamp().to_zoned(TimeZone::UTC);
        let schedule = Schedule::parse(schedule, &now).unwrap();
        CronFile::change(&home, &now, |file| {
            let mut job = NewJob::new("Say hello", schedule);
            job.id = Some(id.to_owned());
            file.create(job, &now)
        })
        .unwrap();
        JobId::parse(id).unwrap()
    }

    async fn fires(&self, tenant: &TenantId, job: &JobId) -> Vec<Fire> {
        let mut fires = self
            .state
            .fires(tenant, job, &Page::first(500))
            .await
            .unwrap();
        fires.items.reverse();
        fires.items
    }

    async fn wait_for_fires(&self, tenant: &TenantId, job: &JobId, count: usize) -> Vec<Fire> {
        self.wait_until(&format!("{count} fires"), || async {
            self.fires(tenant, job).await.len() >= count
        })
        .await;
        let fires = self.fires(tenant, job).await;
        assert_eq!(fires.len(), count, "{fires:?}");
        fires
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_tenants_job_gives_one_run() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "daily", "0 9 * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    assert!(world.fires(&tenant, &job).await.is_empty());
    assert_eq!(world.agent.starts(&tenant), 0);

    time.set("2026-11-15T09:00:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 1).await;
    let run = world
        .finished_run(&tenant, fires[0].run.as_ref().unwrap())
        .await;
    assert_eq!(
        (run.status, run.trigger),
        (RunStatus::Completed, RunTrigger::Cron)
    );
    assert_eq!(world.agent.starts(&tenant), 1);

    // However often it is checked, by another scheduler too.
    clock.reload_jobs(&tenant).await.unwrap();
    clock.close().await;
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    clock.fire_due().await.unwrap();
    world.wait_for_fires(&tenant, &job, 1).await;
    assert_eq!(world.agent.all_begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_goes_back_fires_nothing_twice() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "hourly", "0 * * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    time.set("2026-11-15T09:00:01Z");
    world.wait_for_fires(&tenant, &job, 1).await;
    time.set("2026-11-15T08:00:00Z");
    clock.reload_jobs(&tenant).await.unwrap();
    clock.fire_due().await.unwrap();
    time.set("2026-11-15T09:00:02Z");
    clock.fire_due().await.unwrap();
    let fires = world.wait_for_fires(&tenant, &job, 1).await;
    // Otherwise the next one is skipped.
    let first = fires[0].run.clone().unwrap();
    world.wait_for_event(&tenant, &first, "run.completed").await;
    time.set("2026-11-15T10:00:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 2).await;
    assert!(fires.iter().all(|fire| fire.run.is_some()), "{fires:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_by_little_is_made_up_for_once_and_the_rest_is_skipped() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "hourly", "0 * * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    // Twenty minutes late: half the period is not over.
    time.set("2026-11-15T09:20:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 1).await;
    assert!(fires[0].run.is_some());
    world
        .finished_run(&tenant, fires[0].run.as_ref().unwrap())
        .await;
    // The next is five hours late: it is skipped, and the due times in between are not run.
    time.set("2026-11-15T15:10:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 2).await;
    assert_eq!(fires[1].skipped.as_deref(), Some("it was missed"));
    let times = world.state.job_times(&tenant).await.unwrap();
    let next: jiff::Timestamp = "2026-11-15T16:00:00Z".parse().unwrap();
    assert_eq!(times[0].next, Some(next.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_skip_nothing_missed_is_made_up_for() {
    let world = AgentHarness::new().await;
    world
        .tenancy
        .change(|rules| rules.missed = MissedRunPolicy::Skip);
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "hourly", "0 * * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    time.set("2026-11-15T09:05:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 1).await;
    assert!(fires[0].run.is_none(), "{fires:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_wrote_into_its_file_itself_stays_within_the_policy() {
    let world = AgentHarness::new().await;
    world.tenancy.change(|rules| {
        rules.limits = JobLimits {
            max_jobs: 1,
            min_interval_minutes: 10,
        };
    });
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let often = world.write_job(&tenant, "often", "*/5 * * * *", &time);
    let second = world.write_job(&tenant, "second", "0 9 * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    let mut ran = Vec::new();
    for (minute, count) in [("00", 1), ("05", 2), ("10", 3)] {
        time.set(&format!("2026-11-15T09:{minute}:01Z"));
        let fires = world.wait_for_fires(&tenant, &often, count).await;
        let run = fires[count - 1].run.clone();
        if let Some(run) = &run {
            world.finished_run(&tenant, run).await;
        }
        ran.push(run.is_some());
    }
    assert_eq!(ran, [true, false, true]);
    let fires = world.wait_for_fires(&tenant, &second, 1).await;
    assert_eq!(
        fires[0].skipped.as_deref(),
        Some("the policy allows 1 jobs")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_tenants_times_are_skipped_and_unblocking_brings_no_burst() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "hourly", "0 * * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    world
        .tenancy
        .change(|rules| rules.access = AccessStatus::Blocked);
    for (hour, count) in [("09", 1), ("10", 2), ("11", 3)] {
        time.set(&format!("2026-11-15T{hour}:00:00Z"));
        let fires = world.wait_for_fires(&tenant, &job, count).await;
        assert_eq!(
            fires[count - 1].skipped.as_deref(),
            Some("the tenant is blocked")
        );
    }
    world
        .tenancy
        .change(|rules| rules.access = AccessStatus::Active);
    clock.reload_jobs(&tenant).await.unwrap();
    time.set("2026-11-15T12:00:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 4).await;
    assert!(fires[3].run.is_some());
    let runs = world
        .state
        .runs(&RunQuery::default(), &Page::default())
        .await;
    assert_eq!(runs.unwrap().items.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_still_running_is_not_started_again() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "hourly", "0 * * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    // Its run cannot end while its agent takes so long to start.
    world.agent.slow_starts(Duration::from_mins(10));
    time.set("2026-11-15T09:00:00Z");
    world.wait_for_fires(&tenant, &job, 1).await;
    time.set("2026-11-15T10:00:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 2).await;
    assert_eq!(
        fires[1].skipped.as_deref(),
        Some("the previous run is still active")
    );
    let entry = hermes_hub::storage::audit::NewAuditEntry::by_hub("run_tenant_cron");
    let now = world.runs.run_job(&tenant, &job, entry).await.unwrap_err();
    assert_eq!(now.code.status(), 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_removed_and_changed_jobs_follow_the_file() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "hourly", "0 * * * *", &time);
    let gone = world.write_job(&tenant, "gone", "0 * * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    let home = Home::at(world.tenancy.home(&tenant));
    let now = time.now().timestamp().to_zoned(TimeZone::UTC);
    // The scheduler is not notified: it notices at the due time, or by a scan.
    CronFile::change(&home, &now, |file| {
        file.pause("hourly", None, &now)?;
        file.remove("gone")
    })
    .unwrap();
    time.set("2026-11-15T09:00:00Z");
    clock.fire_due().await.unwrap();
    assert!(world.fires(&tenant, &job).await.is_empty());
    assert!(world.fires(&tenant, &gone).await.is_empty());

    let now = time.now().timestamp().to_zoned(TimeZone::UTC);
    CronFile::change(&home, &now, |file| file.resume("hourly", &now)).unwrap();
    clock.reload_jobs(&tenant).await.unwrap();
    time.set("2026-11-15T10:00:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 1).await;
    let ten: jiff::Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
    assert_eq!(fires[0].due, ten.into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_a_condition_of_its_tenant_and_of_no_other() {
    let world = AgentHarness::new().await;
    let (broken, well) = (world.tenant("broken").await, world.tenant("well").await);
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&well, "hourly", "0 * * * *", &time);
    let file = world.tenancy.home(&broken).join("cron/jobs.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{\"jobs\": [").unwrap();
    let clock = world.start_scheduler(&time);
    let problem = clock.reload_jobs(&broken).await.unwrap_err();
    assert_eq!(problem.code.status(), 503);
    clock.reload_jobs(&well).await.unwrap();
    time.set("2026-11-15T09:00:00Z");
    world.wait_for_fires(&well, &job, 1).await;
    let condition = || async {
        let record = world.state.tenant(&broken).await.unwrap().unwrap();
        let found = record
            .conditions
            .into_iter()
            .find(|known| known.kind == "CronReadable");
        found.unwrap().status
    };
    assert_eq!(condition().await, ConditionStatus::False);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"jobs\": [");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(world.tenancy.home(&well).join("cron/jobs.json"), &file).unwrap();
    assert!(
        clock.reload_jobs(&broken).await.is_err(),
        "a link to another home was followed"
    );
    std::fs::remove_file(&file).unwrap();
    clock.reload_jobs(&broken).await.unwrap();
    assert_eq!(condition().await, ConditionStatus::True);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_damaged_when_its_job_was_due_is_read_again_though_it_is_the_old_one() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "daily", "0 9 * * *", &time);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    let due_times = async || world.state.job_times(&tenant).await.unwrap().len();
    assert_eq!(due_times().await, 1);

    let file = world.tenancy.home(&tenant).join("cron/jobs.json");
    let content = std::fs::read(&file).unwrap();
    let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
    std::fs::write(&file, "{\"jobs\": [").unwrap();
    time.set("2026-11-15T09:00:00Z");
    world
        .wait_until("no due times", || async { due_times().await == 0 })
        .await;
    assert!(world.fires(&tenant, &job).await.is_empty());

    std::fs::write(&file, content).unwrap();
    let restored = std::fs::File::options().write(true).open(&file).unwrap();
    restored.set_modified(modified).unwrap();
    clock.store_changed_jobs(&tenant).await.unwrap();
    assert_eq!(due_times().await, 1);
    world.wait_for_fires(&tenant, &job, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_changed_is_not_read_again() {
    let world = AgentHarness::new().await;
    let time = ManualClock::at("2026-11-15T08:00:00Z");
    let mut tenants = Vec::new();
    for number in 0..20 {
        let tenant = world.tenant(&format!("t{number}")).await;
        world.write_job(&tenant, "daily", "0 9 * * *", &time);
        tenants.push(tenant);
    }
    let known = async || world.state.job_files().await.unwrap().len();
    let clock = world.start_scheduler(&time);
    world
        .wait_until("all are read", || async { known().await == 20 })
        .await;
    clock.close().await;

    let looks = world.tenancy.lookups();
    world.write_job(&tenants[7], "weekly", "0 9 * * 1", &time);
    let clock = world.start_scheduler(&time);
    world
        .wait_until("the change is taken up", || async {
            world.state.job_times(&tenants[7]).await.unwrap().len() == 2
        })
        .await;
    clock.close().await;
    assert_eq!(world.tenancy.lookups(), looks + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_room_skips_its_jobs() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "daily", "0 9 * * *", &time);
    world
        .tenancy
        .change(|rules| rules.room = QuotaState::Exceeded);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    time.set("2026-11-15T09:00:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 1).await;
    let reason = fires[0].skipped.as_deref().unwrap();
    assert!(reason.contains("quota"), "{reason}");
    let figures = world.agents.metrics().render(&[]);
    assert!(figures.contains("hermes_hub_cron_skips_total"), "{figures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_whose_own_gateway_ticks_is_left_to_it() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let job = world.write_job(&tenant, "daily", "0 9 * * *", &time);
    world
        .tenancy
        .change(|rules| rules.ticker = CronRunner::OwnGateway);
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    time.set("2026-11-15T09:00:00Z");
    let fires = world.wait_for_fires(&tenant, &job, 1).await;
    assert_eq!((&fires[0].run, fires[0].skipped.is_some()), (&None, true));
    let record = world.state.tenant(&tenant).await.unwrap().unwrap();
    let by_hub = record
        .conditions
        .iter()
        .find(|condition| condition.kind == "CronByHub");
    assert_eq!(by_hub.unwrap().status, ConditionStatus::False);
}

#[tokio::test(flavor = "multi_thread")]
async fn above_its_daily_limit_a_tenants_due_times_are_skipped_with_the_reason() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let limit = LimitChange {
        runs_per_day: Some(Some(1)),
        ..LimitChange::default()
    };
    let entry = NewAuditEntry::by_hub("patch_limits");
    world.state.set_limits(&tenant, limit, entry).await.unwrap();
    let time = ManualClock::at("2026-11-15T08:59:30Z");
    let jobs = ["one", "two"].map(|job| world.write_job(&tenant, job, "0 9 * * *", &time));
    let clock = world.start_scheduler(&time);
    clock.reload_jobs(&tenant).await.unwrap();
    time.set("2026-11-15T09:00:00Z");
    let mut fires = Vec::new();
    for job in &jobs {
        fires.extend(world.wait_for_fires(&tenant, job, 1).await);
    }
    let skipped: Vec<_> = fires
        .iter()
        .filter_map(|fire| fire.skipped.as_deref())
        .collect();
    assert_eq!(skipped, ["the tenant has reached its limit of runs a day"]);
    assert_eq!(fires.iter().filter(|fire| fire.run.is_some()).count(), 1);
    clock.close().await;
}
