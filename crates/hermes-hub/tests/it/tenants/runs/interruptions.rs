//! Interrupted runs: agent, connection or Hub fail.

use std::time::Duration;

use hermes_hub::{
    api_types::{AgentPhase, RunStatus},
    tenants::runs::{PreviousEnd, RunRequest},
};

use serde_json::json;

use crate::agent_harness::{AgentHarness, names, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cut_off_before_its_first_tool_call_begins_anew() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "say=3 die say=1").await.run_id;
    let events = world.events(&tenant, &run).await;
    let names = names(&events);
    assert!(names.contains(&"run.requeued"), "{names:?}");
    let requeued = events.iter().find(|event| event.event == "run.requeued");
    assert_eq!(requeued.unwrap().body["reason"], "agent_died");
    assert_eq!(
        names.iter().filter(|name| **name == "run.started").count(),
        2
    );
    let run = world.finished_run(&tenant, &run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Completed, 2));
    let agent = world.agents.state(&tenant).await;
    assert_eq!(agent.restarts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cut_off_after_a_tool_call_fails_unless_it_may_be_repeated() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "tool die say=1").await.run_id;
    let run = world.finished_run(&tenant, &run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Failed, 1));
    let error = run.error.unwrap();
    assert_eq!(error.code, "interrupted");
    assert!(error.message.contains("was killed (signal 9)"), "{error:?}");
    let events = world.events(&tenant, &run.run_id).await;
    let last = events.last().unwrap();
    assert_eq!(last.body["reason"], "agent_died", "{last:?}");

    let again = RunRequest {
        retry_interrupted: true,
        ..request("tool die say=2")
    };
    let run = world.run_with(&tenant, again).await.run_id;
    let run = world.finished_run(&tenant, &run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Completed, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_cannot_be_read_ends_its_run_and_nothing_before_it_is_lost() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "say=2 garble tool wait").await.run_id;
    let events = world.events(&tenant, &run).await;
    // The two pieces of text are one event or two, as they come.
    let mut names = names(&events);
    names.dedup();
    assert_eq!(names, ["run.started", "message.delta", "run.failed"]);
    let said = events.iter().filter_map(|event| event.body.get("delta"));
    let said: String = said.filter_map(|delta| delta.as_str()).collect();
    assert_eq!(said, "0 1 ");
    let ended = world.finished_run(&tenant, &run).await;
    assert_eq!((ended.status, ended.attempt), (RunStatus::Failed, 1));
    let error = ended.error.unwrap();
    assert_eq!(error.code, "unreadable_event");
    assert!(error.message.contains("`tool.stared`"), "{error:?}");
    assert_eq!(world.agent.begun(&run), 1);
    world
        .wait_until("the agent has stopped it", async || {
            world.agent.has_ended(&run)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_neither_loses_nor_doubles_anything() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agent.break_connections(Some(3));
    let run = world
        .run(&tenant, "say=2 tool say=2 tool say=2")
        .await
        .run_id;
    let events = world.events(&tenant, &run).await;
    let tools = names(&events)
        .iter()
        .filter(|name| **name == "tool.started")
        .count();
    assert_eq!(tools, 2);
    assert_eq!(world.agent.begun(&run), 1);
    let run = world.finished_run(&tenant, &run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Completed, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_a_killed_hub_left_are_taken_up_by_the_next() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let untouched = world.run(&tenant, "say=1 wait").await.run_id;
    let with_tool = world.run(&tenant, "tool wait").await.run_id;
    world
        .wait_for_event(&tenant, &untouched, "message.delta")
        .await;
    world
        .wait_for_event(&tenant, &with_tool, "tool.completed")
        .await;
    let world = world.kill_and_restart().await;
    world.agent.release("say=1 wait");
    let run = world.finished_run(&tenant, &untouched).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Completed, 2));
    let run = world.finished_run(&tenant, &with_tool).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Failed, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_end_of_the_hub_cut_off_says_how_it_ended() {
    for (end, reason, words) in [
        (PreviousEnd::Stopped, "hub_stopped", "was stopped"),
        (PreviousEnd::Crashed, "hub_crashed", "without being stopped"),
    ] {
        let world = AgentHarness::new().await;
        let tenant = world.tenant("a").await;
        let repeated = world.run(&tenant, "say=1 wait").await.run_id;
        let failed = world.run(&tenant, "tool wait").await.run_id;
        world
            .wait_for_event(&tenant, &repeated, "message.delta")
            .await;
        world
            .wait_for_event(&tenant, &failed, "tool.completed")
            .await;
        let world = world.end_and_restart(end).await;
        world.agent.release("say=1 wait");
        let events = world.events(&tenant, &repeated).await;
        let requeued = events.iter().find(|event| event.event == "run.requeued");
        assert_eq!(requeued.unwrap().body["reason"], reason);
        let events = world.events(&tenant, &failed).await;
        let last = events.last().unwrap();
        assert_eq!(
            (last.event.as_str(), &last.body["reason"]),
            ("run.failed", &json!(reason))
        );
        let error = world.finished_run(&tenant, &failed).await.error.unwrap();
        assert_eq!(error.code, "interrupted");
        assert!(error.message.contains(words), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ended_while_the_hub_was_gone_is_not_done_twice() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "tool wait say=1").await.run_id;
    world.wait_for_event(&tenant, &run, "tool.completed").await;
    // The Hub is killed, and the agent finishes before its process ends.
    world.runs.close(Duration::ZERO).await;
    world.agent.release("tool wait say=1");
    world
        .wait_until("the agent finishes", || async {
            world.agent.has_ended(&run)
        })
        .await;
    let world = world.kill_and_restart().await;
    let run_after = world.finished_run(&tenant, &run).await;
    assert_eq!(
        (run_after.status, run_after.attempt),
        (RunStatus::Completed, 1)
    );
    assert_eq!(world.agent.begun(&run), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_an_agent_that_never_starts_fails_with_the_reason() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agent.fail_starts(100);
    let run = world.run(&tenant, "say=1").await.run_id;
    let run = world.finished_run(&tenant, &run).await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.unwrap();
    assert_eq!(error.code, "agent_unavailable");
    assert!(
        error.message.contains("it was told to fail"),
        "{}",
        error.message
    );
    assert_eq!(world.agents.state(&tenant).await.state, AgentPhase::Failed);
    assert_eq!(world.agent.starts(&tenant), 5);
}
