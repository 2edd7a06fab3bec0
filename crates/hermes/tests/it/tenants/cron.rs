//! Cron jobs of tenants that sleep: their processes are started for them.

use std::time::Duration;

use hermes_testkit::model::{Answer, ModelServer, Script};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::RealHub;

const AGENT: &str = "/v1/tenants/acme/agent";
const RUNS: &str = "/v1/tenants/acme/runs";

/// A tenant that sleeps, and falls asleep again soon after work.
async fn sleeper(hub: &RealHub) -> ModelServer {
    let script = Script::default().rule("water the plants", Answer::text("watered"));
    let soon = json!({"agent": {"idleStopSeconds": 1}});
    let model = hub.tenant("acme", soon, script).await;
    asleep(hub).await;
    model
}

async fn asleep(hub: &RealHub) {
    let agent = hub
        .wait_for(AGENT, |agent| agent["state"] == "sleeping")
        .await;
    assert_eq!(agent["pid"], Value::Null, "{agent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_run_by_hand_wakes_a_sleeping_tenant() {
    let hub = RealHub::start();
    let _model = sleeper(&hub).await;
    let job = hub.job("acme", "0 9 1 1 *", "water the plants").await;
    let started = hub
        .ask(Method::POST, &format!("{job}/run"), &json!({}))
        .await
        .expect(202);
    let id = started["runId"].as_str().unwrap();
    let run = hub.ended(&format!("{RUNS}/{id}")).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(run["output"], "watered", "{run}");
    assert_eq!(run["trigger"], "cron", "{run}");
    let shown = hub.get(&job).await;
    assert_eq!(shown["executions"][0]["runId"], id, "{shown}");
    // It is there for its next time, too.
    assert_eq!(shown["job"]["enabled"], true, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_due_wakes_a_sleeping_tenant_and_runs_once() {
    let hub = RealHub::start();
    let model = sleeper(&hub).await;
    let due = Timestamp::now() + Duration::from_secs(2);
    let job = hub.job("acme", &due.to_string(), "water the plants").await;
    let all = hub
        .wait_for(RUNS, |all| all["runs"][0]["status"] == "completed")
        .await;
    let run = &all["runs"][0];
    assert_eq!(run["output"], "watered", "{run}");
    assert_eq!(run["trigger"], "cron", "{run}");
    let begun: Timestamp = run["createdAt"].as_str().unwrap().parse().unwrap();
    assert!(begun.as_second() >= due.as_second(), "{run}: due {due}");

    // Neither the Hub nor the tenant's process lets it run once more, and the process has removed it.
    asleep(&hub).await;
    let all = hub.get(RUNS).await;
    assert_eq!(all["runs"].as_array().unwrap().len(), 1, "{all}");
    hub.ask(Method::GET, &job, &Value::Null).await.expect(404);
    assert_eq!(model.requests().len(), 1);
}
