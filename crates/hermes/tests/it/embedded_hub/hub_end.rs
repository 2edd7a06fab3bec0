//! The end of a Hub: runs that it cut off say how it ended, stopped by somebody or not; and of a tenant nothing is left,
//! its MCP servers included.

use std::{fs, time::Duration};

use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::real_hub::RealHub;
use crate::harness::test_home::{assert_gone, signal_process, wait_until};

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

/// Processes whose command line holds a text, and their children.
fn processes(mark: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let marked = pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    });
    let with_children = |pid: u32| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children: Vec<u32> = children
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .collect();
        std::iter::once(pid).chain(children)
    };
    marked.flat_map(with_children).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_mcp_server_of_a_tenant_survives_a_killed_hub() {
    let hub = RealHub::start();
    let _model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let mark = format!("survivor-{}", std::process::id());
    let config = hub.tenant_home("acme").join("config.yaml");
    let program = env!("CARGO_BIN_EXE_hermes");
    let server = format!(
        "mcp_servers:\n  own: {{command: sh, args: [-c, '{program} mcp demo; : {mark}']}}\n"
    );
    fs::write(&config, fs::read_to_string(&config).unwrap() + &server).unwrap();
    let start = "/v1/tenants/acme/agent/start";
    hub.request(Method::POST, start, &json!({}))
        .await
        .expect(202);
    // The shell and the server in it.
    wait_until("the server runs", || processes(&mark).len() >= 2);
    // Servers are started before the agent says that it is there.
    let agent = hub
        .wait_for("/v1/tenants/acme/agent", |agent| agent["pid"].is_u64())
        .await;
    let mut all = processes(&mark);
    all.push(u32::try_from(agent["pid"].as_u64().unwrap()).unwrap());
    hub.kill();
    assert_gone(&all, Duration::from_secs(20));
    assert_eq!(processes(&mark), Vec::<u32>::new());
    hub.into_home();
}
