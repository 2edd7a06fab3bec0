//! Runs: queue, events and interruptions.

mod approvals;
mod interruptions;
mod watchers;

use std::time::Duration;

use hermes_hub::{
    api_types::{AccessStatus, RunStatus, RunTrigger},
    storage::{
        audit::NewAuditEntry,
        state::{Page, RunQuery},
    },
    tenants::runs::{RunRequest, TenantStop},
};
use hermes_testkit::eventually;

use crate::agent_harness::{AgentHarness, names, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_tells_what_happened_and_ends_with_its_answer() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "say=2 tool say=1").await;
    assert_eq!(run.status, RunStatus::Queued);
    let events = world.events(&tenant, &run.run_id).await;
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>());
    let names = names(&events);
    assert_eq!(names.first(), Some(&"run.started"));
    assert_eq!(names.last(), Some(&"run.completed"));
    assert!(names.contains(&"tool.started"), "{names:?}");
    let run = world.finished_run(&tenant, &run.run_id).await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(run.output.as_deref(), Some("0 1 0"));
    assert_eq!(run.usage.unwrap().total_tokens, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_piece_of_text_is_lost() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "say=3000").await;
    let events = world.events(&tenant, &run.run_id).await;
    let said: String = events
        .iter()
        .filter_map(|event| event.body.get("delta")?.as_str())
        .collect();
    let numbers: Vec<u32> = said
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..3000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_tenant_is_in_no_event() {
    let world = AgentHarness::new().await;
    let secret = "correct-horse-battery";
    world
        .tenancy
        .change(|rules| rules.secret = Some("correct-horse-battery"));
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, &format!("leak={secret}")).await;
    let events = world.events(&tenant, &run.run_id).await;
    let text = serde_json::to_string(&events).unwrap();
    assert!(
        text.contains("tool.started") && !text.contains(secret),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_comes_letter_by_letter_is_in_no_event() {
    let world = AgentHarness::new().await;
    world
        .tenancy
        .change(|rules| rules.secret = Some("correct-horse"));
    let tenant = world.tenant("a").await;
    let script = "spell=< wait spell=correct-horse,corr>";
    let run = world.run(&tenant, script).await;
    // It streams: what comes first is stored before the rest is there.
    world
        .wait_for_event(&tenant, &run.run_id, "message.delta")
        .await;
    world.agent.release(script);
    let events = world.events(&tenant, &run.run_id).await;
    let pieces = events.iter().filter_map(|event| {
        let delta = event.body.get("delta")?;
        delta.as_str()
    });
    let pieces: Vec<&str> = pieces.collect();
    assert_eq!(pieces.concat(), "<[REDACTED],corr>", "{pieces:?}");
    assert_eq!(pieces[0], "<", "{pieces:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_only_so_many_runs_at_once_and_the_oldest_comes_first() {
    let world = AgentHarness::new().await;
    world.tenancy.change(|rules| rules.max_concurrent_runs = 1);
    let tenant = world.tenant("a").await;
    let first = world.run(&tenant, "wait say=1").await;
    let second = world.run(&tenant, "say=2").await;
    let third = world.run(&tenant, "say=3").await;
    world
        .wait_for_event(&tenant, &first.run_id, "run.started")
        .await;
    let is_second_begun = || world.agent.all_begun() > 1;
    assert!(!eventually(Duration::from_millis(200), is_second_begun).await);
    world.agent.release("wait say=1");
    world.finished_run(&tenant, &third.run_id).await;
    let runs = world
        .state
        .runs(&RunQuery::default(), &Page::default())
        .await
        .unwrap();
    assert!(
        runs.items
            .iter()
            .all(|run| run.status == RunStatus::Completed)
    );
    let second = world.events(&tenant, &second.run_id).await;
    let third = world.events(&tenant, &third.run_id).await;
    assert!(second[0].time <= third[0].time);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_takes_no_more() {
    let world = AgentHarness::new().await;
    world.tenancy.change(|rules| {
        rules.max_concurrent_runs = 1;
        rules.queue_depth = 2;
    });
    let tenant = world.tenant("a").await;
    let first = world.run(&tenant, "wait").await;
    world
        .wait_for_event(&tenant, &first.run_id, "run.started")
        .await;
    for _ in 0..2 {
        world.run(&tenant, "say=1").await;
    }
    let entry = NewAuditEntry::by_hub("create_run");
    let refused = world
        .runs
        .create(&tenant, request("say=1"), RunTrigger::Api, entry)
        .await
        .unwrap_err();
    assert_eq!(refused.code.status(), 429);
    assert!(refused.retry_after_ms.is_some(), "when to come again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_told_to_stop_is_cancelled() {
    let world = AgentHarness::new().await;
    world.tenancy.change(|rules| rules.max_concurrent_runs = 1);
    let tenant = world.tenant("a").await;
    let running = world.run(&tenant, "wait").await;
    let waiting = world.run(&tenant, "say=1").await;
    world
        .wait_for_event(&tenant, &running.run_id, "run.started")
        .await;
    let entry = || NewAuditEntry::by_hub("stop_run");
    let stopped = world.runs.stop(&tenant, &waiting.run_id, entry()).await;
    assert_eq!(stopped.unwrap(), RunStatus::Cancelled);
    let stopped = world.runs.stop(&tenant, &running.run_id, entry()).await;
    assert_eq!(stopped.unwrap(), RunStatus::Stopping);
    for run in [&running, &waiting] {
        let run = world.finished_run(&tenant, &run.run_id).await;
        assert_eq!(run.status, RunStatus::Cancelled);
        let again = world.runs.stop(&tenant, &run.run_id, entry()).await;
        assert_eq!(again.unwrap_err().code.status(), 409);
    }
    assert_eq!(world.agent.begun(&waiting.run_id), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_fails() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = RunRequest {
        timeout_seconds: Some(1),
        ..request("wait")
    };
    let run = world.run_with(&tenant, run).await;
    let run = world.finished_run(&tenant, &run.run_id).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.unwrap().code, "timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_tenant_runs_nothing_until_it_is_unblocked() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let running = world.run(&tenant, "wait").await;
    world
        .wait_for_event(&tenant, &running.run_id, "run.started")
        .await;
    world
        .tenancy
        .change(|rules| rules.access = AccessStatus::Blocked);
    world
        .runs
        .stop_all(&tenant, TenantStop::Blocked)
        .await
        .unwrap();
    let run = world.finished_run(&tenant, &running.run_id).await;
    assert_eq!(run.status, RunStatus::Cancelled);
    let later = world.run(&tenant, "say=1").await;
    let is_begun = || world.agent.begun(&later.run_id) > 0;
    assert!(!eventually(Duration::from_millis(300), is_begun).await);
    world
        .tenancy
        .change(|rules| rules.access = AccessStatus::Active);
    let later = world.finished_run(&tenant, &later.run_id).await;
    assert_eq!(later.status, RunStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_tenant_that_may_not_go_on_say_why() {
    for (stop, code) in [
        (TenantStop::Quota, "quota"),
        (TenantStop::Blocked, "tenant_blocked"),
        (TenantStop::Deleted, "tenant_deleted"),
    ] {
        let world = AgentHarness::new().await;
        let tenant = world.tenant("a").await;
        world.tenancy.change(|rules| rules.max_concurrent_runs = 1);
        let running = world.run(&tenant, "wait").await.run_id;
        world.wait_for_event(&tenant, &running, "run.started").await;
        let waiting = world.run(&tenant, "say=1").await.run_id;
        world.runs.stop_all(&tenant, stop).await.unwrap();
        for run in [running, waiting] {
            let events = world.events(&tenant, &run).await;
            let last = events.last().unwrap();
            assert_eq!(last.event, "run.cancelled", "{events:?}");
            assert_eq!(last.body["reason"], code, "{last:?}");
            assert_eq!(last.body["error"]["code"], code, "{last:?}");
            let run = world.finished_run(&tenant, &run).await;
            assert_eq!(run.status, RunStatus::Cancelled);
            let error = run.error.unwrap();
            assert_eq!(error.code, code);
            assert!(
                error.message.contains("so its runs were stopped"),
                "{error:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_somebody_stops_needs_no_reason() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "wait").await.run_id;
    world.wait_for_event(&tenant, &run, "run.started").await;
    let entry = NewAuditEntry::by_hub("stop_run");
    world.runs.stop(&tenant, &run, entry).await.unwrap();
    let run = world.finished_run(&tenant, &run).await;
    assert_eq!((run.status, run.error), (RunStatus::Cancelled, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_limit_holds_for_the_next_run_before_the_agent_hears_of_it() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agents.wake(&tenant).await.unwrap();
    world
        .tenancy
        .change(|rules| rules.longest_run = Duration::from_millis(300));
    let run = world.run(&tenant, "wait").await.run_id;
    let ended = world.finished_run(&tenant, &run).await;
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(ended.error.unwrap().code, "timeout");
}
