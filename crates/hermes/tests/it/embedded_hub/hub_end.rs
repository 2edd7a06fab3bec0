//! Runs that the end of the Hub cut off say how it ended: stopped by somebody, or not.

use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::real_hub::RealHub;
use crate::harness::test_home::signal_process;

/// A run that has called a tool, and waits for the model that never answers.
async fn run_under_way(hub: &RealHub) -> (hermes_testkit::model::ModelServer, String) {
    let call = ScriptedAnswer::call("terminal", &json!({"command": "echo done"}));
    let model = hub
        .tenant(
            "acme",
            json!({}),
            ModelScript::new([call, ScriptedAnswer::Silence]),
        )
        .await;
    let run = hub.start_run("acme", "go").await;
    let mut events = hub.events(&run, 0).await;
    let mut told = String::new();
    while !told.contains("tool.completed") {
        let piece = events.chunk().await.unwrap().unwrap();
        told.push_str(&String::from_utf8_lossy(&piece));
    }
    (model, run)
}

/// The last event of a run that failed.
async fn last_event(hub: &RealHub, run: &str) -> Value {
    let ended = hub.wait_for_end(run).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["error"]["code"], "interrupted", "{ended}");
    let events = hub.get(&format!("{run}/events")).await;
    let last = events.as_str().unwrap().lines().rev();
    let mut last = last.filter_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(last.next().unwrap()).unwrap()
}

async fn end_by(signal: Signal) -> Value {
    let quickly = ["--set", "shutdown.drain_seconds=1"];
    let hub = RealHub::with_arguments(RealHub::fresh_home(), &quickly);
    let (_model, run) = run_under_way(&hub).await;
    signal_process(hub.pid, signal);
    let hub = RealHub::in_home(hub.into_home());
    last_event(&hub, &run).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_stopped_hub_cut_off_says_so() {
    let last = end_by(Signal::TERM).await;
    assert_eq!(last["event"], "run.failed", "{last}");
    assert_eq!(last["reason"], "hub_stopped", "{last}");
    let message = last["error"]["message"].as_str().unwrap();
    assert!(message.contains("the Hub was stopped"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_killed_hub_cut_off_says_so() {
    let last = end_by(Signal::KILL).await;
    assert_eq!(last["event"], "run.failed", "{last}");
    assert_eq!(last["reason"], "hub_crashed", "{last}");
    let message = last["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("the Hub ended without being stopped"),
        "{message}"
    );
}
