//! Agents: started on demand, stopped when idle, restarted after failures.

use std::{num::NonZeroU64, time::Duration};

use hermes_hub::{
    api_types::{AgentPhase, ConditionStatus, RunStatus},
    storage::state::{AuditQuery, Page},
    tenants::agents::WakePolicy,
};
use hermes_testkit::eventually;

use crate::agent_harness::{AgentHarness, TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
async fn however_many_need_an_agent_it_is_started_once() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agent.slow_starts(Duration::from_millis(200));
    let wakes = (0..20).map(|_| world.agents.wake(&tenant));
    for woken in futures::future::join_all(wakes).await {
        woken.unwrap();
    }
    assert_eq!(world.agent.starts(&tenant), 1);
    let record = world.state.tenant(&tenant).await.unwrap().unwrap();
    let sandboxed = record
        .conditions
        .iter()
        .find(|known| known.kind == "Sandboxed");
    assert_eq!(sandboxed.unwrap().status, ConditionStatus::True);
    assert_eq!(record.observed_generation, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_work_falls_asleep_and_wakes_for_the_next() {
    let world = AgentHarness::new().await;
    world
        .tenancy
        .change(|rules| rules.idle_stop = Duration::ZERO);
    let tenant = world.tenant("a").await;
    assert_eq!(
        world.agents.state(&tenant).await.state,
        AgentPhase::Sleeping
    );
    let run = world.run(&tenant, "wait").await.run_id;
    world.wait_for_event(&tenant, &run, "run.started").await;
    world.agents.check_all().await;
    let state = world.agents.state(&tenant).await;
    assert_eq!(
        (state.state, state.active_runs, state.pid),
        (AgentPhase::Running, 1, Some(1))
    );
    world.agent.release("wait");
    world.finished_run(&tenant, &run).await;
    world
        .wait_until("it sleeps", || async {
            world.agents.state(&tenant).await.state == AgentPhase::Sleeping
        })
        .await;
    let run = world.run(&tenant, "say=1").await.run_id;
    assert_eq!(
        world.finished_run(&tenant, &run).await.status,
        RunStatus::Completed
    );
    assert_eq!(world.agent.starts(&tenant), 2);
    assert_eq!(world.agents.state(&tenant).await.restarts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_listens_to_a_platform_does_not_sleep_and_comes_back() {
    let world = AgentHarness::new().await;
    world.tenancy.change(|rules| {
        rules.waking = WakePolicy::Always;
        rules.idle_stop = Duration::ZERO;
    });
    let tenant = world.tenant("a").await;
    world.agents.wake(&tenant).await.unwrap();
    world.agents.check_all().await;
    assert_eq!(world.agents.state(&tenant).await.state, AgentPhase::Idle);
    world.agent.kill(&tenant);
    world
        .wait_until("it is back", || async { world.agent.starts(&tenant) == 2 })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_waits_for_an_order_leaves_runs_in_the_queue() {
    let world = AgentHarness::new().await;
    world
        .tenancy
        .change(|rules| rules.waking = WakePolicy::Manual);
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "say=1").await.run_id;
    let is_started = || world.agent.starts(&tenant) > 0;
    assert!(!eventually(Duration::from_millis(300), is_started).await);
    let waiting = world.state.run(&tenant, &run).await.unwrap().unwrap().run;
    assert_eq!((waiting.status, waiting.attempt), (RunStatus::Queued, 1));
    world.agents.start(&tenant);
    assert_eq!(
        world.finished_run(&tenant, &run).await.status,
        RunStatus::Completed
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_can_be_stopped_and_started_and_that_shows() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let reaches = |phase| {
        let world = &world;
        let tenant = &tenant;
        async move {
            world
                .wait_until(&format!("{phase}"), || async {
                    world.agents.state(tenant).await.state == phase
                })
                .await;
        }
    };
    world.agents.start(&tenant);
    reaches(AgentPhase::Idle).await;
    world.agents.stop(&tenant);
    reaches(AgentPhase::Stopped).await;
    world.agents.restart(&tenant);
    reaches(AgentPhase::Idle).await;
    assert_eq!(world.agent.starts(&tenant), 2);
    world.agents.stop_and_wait(&tenant).await;
    assert_eq!(world.agents.state(&tenant).await.state, AgentPhase::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_failed_too_often_starts_when_it_is_told_to() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agent.fail_starts(1);
    let begun = std::time::Instant::now();
    world.agents.wake(&tenant).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did not rest");
    assert_eq!(world.agent.starts(&tenant), 2);
    let state = world.agents.state(&tenant).await;
    assert_eq!(
        state.last_error.as_deref(),
        Some("the tenant's agent does not start: it was told to fail")
    );
    assert_eq!(state.restarts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_variables_have_changed_is_started_anew_when_it_has_no_work() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "wait").await.run_id;
    world.wait_for_event(&tenant, &run, "run.started").await;
    world.tenancy.change(|rules| rules.secret = Some("changed"));
    world.agents.apply_settings(&tenant).await.unwrap();
    world.agents.check_all().await;
    assert_eq!(world.agents.state(&tenant).await.state, AgentPhase::Running);
    world.agent.release("wait");
    world.finished_run(&tenant, &run).await;
    world
        .wait_until("it is down", || async {
            world.agents.state(&tenant).await.state == AgentPhase::Sleeping
        })
        .await;
    let run = world.run(&tenant, "say=1").await.run_id;
    world.finished_run(&tenant, &run).await;
    assert_eq!(world.agent.starts(&tenant), 2);
    let figures = world.agents.metrics().render(&[]);
    assert!(
        figures.contains("hermes_hub_wake_seconds_count 2"),
        "{figures}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_an_agent_starts_reaches_it() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agent.slow_starts(Duration::from_secs(2));
    let timeout = NonZeroU64::new(42).unwrap();
    let change = async {
        let is_starting = async || world.agents.state(&tenant).await.state == AgentPhase::Starting;
        world.wait_until("it starts", is_starting).await;
        world.tenancy.change(|rules| {
            rules.generation = 2;
            rules.approval_timeout_seconds = timeout;
        });
        // It is not running, so nothing is applied.
        world.agents.apply_settings(&tenant).await.unwrap();
    };
    let (woken, ()) = tokio::join!(world.agents.wake(&tenant), change);
    woken.unwrap();
    world
        .wait_until("it works with the new settings", || async {
            let directives = world.agent.directives(&tenant).unwrap();
            directives.approval_timeout_seconds == timeout
        })
        .await;
    assert_eq!(world.agent.starts(&tenant), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_gets_a_platform_while_it_stops_is_started_again() {
    let world = AgentHarness::new().await;
    world
        .tenancy
        .change(|rules| rules.idle_stop = Duration::ZERO);
    let tenant = world.tenant("a").await;
    world.agent.slow_stops(Duration::from_secs(2));
    world.agents.wake(&tenant).await.unwrap();
    let is_stopping = async || world.agents.state(&tenant).await.state == AgentPhase::Stopping;
    world.wait_until("it stops", is_stopping).await;
    let starts = world.agent.starts(&tenant);
    world.tenancy.change(|rules| {
        rules.generation = 2;
        rules.waking = WakePolicy::Always;
    });
    // It is not running, so nothing is applied.
    world.agents.apply_settings(&tenant).await.unwrap();
    world
        .wait_until("it is back", || async {
            world.agent.starts(&tenant) > starts
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_gets_a_platform_while_its_start_fails_is_started_again() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agents.wake(&tenant).await.unwrap();
    // It is checked, and has died meanwhile. Nobody else wants it.
    world.agent.slow_starts(Duration::from_secs(1));
    world.agents.report_unresponsive(&tenant).await;
    world.agent.kill(&tenant);
    world.agent.fail_starts(1);
    world.tenancy.change(|rules| {
        rules.generation = 2;
        rules.waking = WakePolicy::Always;
    });
    world.agents.apply_settings(&tenant).await.unwrap();
    world
        .wait_until("it is back", || async { world.agent.starts(&tenant) == 3 })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_which_nothing_could_be_read_is_looked_at_again() {
    let world = AgentHarness::new().await;
    let (listens, sleeps) = (world.tenant("listens").await, world.tenant("sleeps").await);
    world.agents.look_again(&sleeps);
    world.agents.check_all().await;
    world.tenancy.make_unreadable(&listens);
    world.agents.look_again(&listens);
    let is_refused = eventually(TIMEOUT, || world.tenancy.refusals() > 0);
    assert!(is_refused.await, "nobody looks");
    world
        .tenancy
        .change(|rules| rules.waking = WakePolicy::Always);
    world.tenancy.make_readable(&listens);
    let is_started = eventually(TIMEOUT, || world.agent.starts(&listens) == 1);
    assert!(is_started.await, "it is not looked at again");
    assert_eq!(world.agent.starts(&sleeps), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_only_doubted_is_still_started_anew_for_other_variables() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "wait").await.run_id;
    world.wait_for_event(&tenant, &run, "run.started").await;
    world.tenancy.change(|rules| rules.secret = Some("changed"));
    world.agents.report_unresponsive(&tenant).await;
    world.agents.wake(&tenant).await.unwrap();
    assert_eq!(world.agent.starts(&tenant), 1, "it was well");
    world.agent.release("wait");
    world.finished_run(&tenant, &run).await;
    world
        .wait_until("it is down", || async {
            world.agents.state(&tenant).await.state == AgentPhase::Sleeping
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_an_agent_is_left_wherever_somebody_may_look() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agents.wake(&tenant).await.unwrap();
    world.agent.kill(&tenant);
    world
        .wait_until("its end is noticed", || async {
            world.agents.state(&tenant).await.last_error.is_some()
        })
        .await;
    let state = world.agents.state(&tenant).await;
    let words = "the tenant's agent was killed (signal 9)";
    assert_eq!(state.last_error.as_deref(), Some(words));
    let healthy = || async {
        let record = world.state.tenant(&tenant).await.unwrap().unwrap();
        let found = record.conditions.into_iter();
        found.into_iter().find(|known| known.kind == "AgentHealthy")
    };
    world
        .wait_until("the condition", || async { healthy().await.is_some() })
        .await;
    let condition = healthy().await.unwrap();
    assert_eq!(condition.status, ConditionStatus::False);
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("signal", words)
    );
    world
        .wait_until("the entry", || async {
            let page = Page::first(10);
            let log = world.state.audit(&AuditQuery::default(), &page).await;
            log.unwrap().items.iter().any(|entry| {
                entry.action == "agent_ended" && entry.target.as_deref() == Some("signal:9")
            })
        })
        .await;
    let figures = world.agents.metrics().render(&[]);
    assert!(
        figures.contains("hermes_hub_agent_deaths_total{cause=\"signal\"} 1"),
        "{figures}"
    );
    // It backs off and restarts, and the earlier failure stays readable.
    world.agents.wake(&tenant).await.unwrap();
    let condition = healthy().await.unwrap();
    assert_eq!(condition.status, ConditionStatus::True);
    assert!(condition.message.contains(words), "{condition:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_finds_its_predecessor_dead_counts_as_a_failure() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agent.die_unnoticed(1);
    let begun = std::time::Instant::now();
    world.agents.wake(&tenant).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did not rest");
    let state = world.agents.state(&tenant).await;
    assert_eq!(state.restarts, 1, "{state:?}");
    let error = state.last_error.unwrap();
    assert!(error.contains("was killed (signal 9)"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_within_a_run_makes_the_next_start_wait() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "tool wait").await.run_id;
    world.wait_for_event(&tenant, &run, "tool.completed").await;
    let begun = std::time::Instant::now();
    world.agent.kill(&tenant);
    let run = world.finished_run(&tenant, &run).await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did not rest");
    assert_eq!(run.error.unwrap().code, "interrupted");
    assert_eq!(world.agents.state(&tenant).await.restarts, 1);
}
