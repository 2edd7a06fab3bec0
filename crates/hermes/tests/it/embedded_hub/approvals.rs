//! Questions that outlive the Hub they were asked under.

use std::fs;

use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use reqwest::Method;
use serde_json::json;

use super::real_hub::RealHub;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_decision_goes_on_under_the_next_hub() {
    let hub = RealHub::start();
    let script = ModelScript::echo().rule(
        "clear up",
        ScriptedAnswer::call("terminal", &json!({"command": "rm -r old"})),
    );
    let _model = hub.tenant("acme", json!({}), script).await;
    let home = hub.tenant_home("acme");
    let config = fs::read_to_string(home.join("config.yaml")).unwrap();
    let asking = config.replace("mode: 'off'", "mode: manual");
    assert_ne!(config, asking);
    fs::write(home.join("config.yaml"), asking).unwrap();
    let old = home.join("workspace/old");
    fs::create_dir(&old).unwrap();
    let run = hub.start_run("acme", "clear up").await;
    hub.wait_for(&run, |run| run["status"] == "waiting_for_approval")
        .await;
    hub.kill();

    let next = RealHub::in_home(hub.into_home());
    let shown = next.get(&run).await;
    assert_eq!(shown["status"], "waiting_for_approval", "{shown}");
    let inbox = next.get("/v1/approvals").await;
    let asked = inbox["approvals"].as_array().unwrap();
    assert_eq!(asked.len(), 1, "{inbox}");
    assert!(old.exists(), "it was done before anybody agreed");
    let path = format!("/v1/approvals/{}", asked[0]["approvalId"].as_str().unwrap());
    let decision = json!({"choice": "once"});
    next.request(Method::POST, &path, &decision)
        .await
        .expect(200);
    let ended = next.wait_for_end(&run).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert!(!old.exists());
    next.request(Method::POST, &path, &decision)
        .await
        .expect(409);
}
