//! Cron jobs of tenants that sleep: their processes are started for them.

use std::time::Duration;

use hermes_testkit::model::{ModelScript, ModelServer, ScriptedAnswer};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::{RealHub, tool_results};

const AGENT: &str = "/v1/tenants/acme/agent";
const RUNS: &str = "/v1/tenants/acme/runs";

/// A tenant that sleeps, and falls asleep again soon after work.
async fn sleeper(hub: &RealHub) -> ModelServer {
    let script = ModelScript::default().rule("water the plants", ScriptedAnswer::text("watered"));
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
        .request(Method::POST, &format!("{job}/run"), &json!({}))
        .await
        .expect(202);
    let id = started["runId"].as_str().unwrap();
    let run = hub.wait_for_end(&format!("{RUNS}/{id}")).await;
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
    hub.request(Method::GET, &job, &Value::Null)
        .await
        .expect(404);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_writes_is_among_the_tenants_files() {
    let hub = RealHub::start();
    let script = ModelScript::new([
        ScriptedAnswer::call(
            "write_file",
            &json!({"path": "notes/plants.md", "content": "wet"}),
        ),
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": "printf here > by-terminal.txt"}),
        ),
        ScriptedAnswer::text("done"),
    ]);
    let _model = hub.tenant("acme", json!({}), script).await;
    let job = hub.job("acme", "every 1h", "water the plants").await;
    let started = hub
        .request(Method::POST, &format!("{job}/run"), &json!({}))
        .await
        .expect(202);
    let id = started["runId"].as_str().unwrap();
    let run = hub.wait_for_end(&format!("{RUNS}/{id}")).await;
    assert_eq!(run["status"], "completed", "{run}");
    for (path, text) in [("notes/plants.md", "wet"), ("by-terminal.txt", "here")] {
        let file = hub
            .get(&format!("/v1/tenants/acme/files/content?path={path}"))
            .await;
        assert_eq!(file["content"], text, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_is_switched_holds_for_a_run_begun_right_after() {
    let hub = RealHub::start();
    let model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let skill = hub.tenant_home("acme").join("skills/writer");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: writer\ndescription: Writes letters\n---\nWrite.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    assert_eq!(hub.run("acme", "hi").await["status"], "completed");
    assert!(
        tool_results(&model).contains("Writes letters"),
        "{}",
        tool_results(&model)
    );
    // Every run has a session of its own, and so a prompt of its own.
    for enabled in [false, true, false] {
        let state = json!({"enabled": enabled});
        hub.request(Method::PUT, "/v1/tenants/acme/skills/writer/state", &state)
            .await
            .expect(200);
        assert_eq!(hub.run("acme", "hi").await["status"], "completed");
        let told = tool_results(&model);
        assert_eq!(told.contains("Writes letters"), enabled, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_a_model_is_told_what_its_operator_can_do() {
    let hub = RealHub::start();
    let _model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let config = hub.tenant_home("acme").join("config.yaml");
    std::fs::write(config, "model: {autodetect: false}\n").unwrap();
    let job = hub.job("acme", "every 1h", "water the plants").await;
    let started = hub
        .request(Method::POST, &format!("{job}/run"), &json!({}))
        .await
        .expect(202);
    let of_job = format!("{RUNS}/{}", started["runId"].as_str().unwrap());
    for run in [hub.run("acme", "hi").await, hub.wait_for_end(&of_job).await] {
        let message = run["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{run}"));
        assert!(
            message.contains("hermes tenant update acme --model"),
            "{message}"
        );
        assert!(!message.contains("hermes chat"), "{message}");
    }
}
