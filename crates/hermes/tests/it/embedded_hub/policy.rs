//! The policy, in the processes of tenants: each member, set at the Hub, limits what the tenant's agent does, and without
//! it the agent does the same thing.

mod cron;
mod egress;
mod env;
mod features;
mod models;
mod runs;
mod tools;

use std::fs;

use hermes_testkit::model::{ModelScript, ModelServer, ScriptedAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::{RealHub, tool_results};

async fn put(hub: &RealHub, policy: Value) {
    hub.request(Method::PUT, "/v1/agent-policy", &policy)
        .await
        .expect(200);
}

/// The tenant `acme`, whose model makes this call whenever it is told to begin.
async fn tenant_calling(hub: &RealHub, tool: &str, arguments: &Value) -> ModelServer {
    let script = ModelScript::echo().rule("begin", ScriptedAnswer::call(tool, arguments));
    hub.tenant("acme", json!({}), script).await
}

/// Lets the tenant begin, and gives what its model was told of its call.
async fn result_of_call(hub: &RealHub, model: &ModelServer) -> String {
    let run = hub.run("acme", "begin").await;
    assert_eq!(run["status"], "completed", "{run}");
    let request = model.requests().pop().unwrap();
    let last = request.body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "tool", "{last}");
    last["content"].as_str().unwrap().to_owned()
}

/// The tools that the model was offered last.
fn offered_tools(model: &ModelServer) -> Vec<String> {
    let request = model.requests().pop().unwrap();
    let tools = request.body["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_holds_in_a_tenants_process_from_the_next_call_on() {
    let hub = RealHub::start();
    let script = ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": "env"})),
        ScriptedAnswer::call("web_extract", &json!({"urls": ["http://localhost:9/"]})),
        ScriptedAnswer::call(
            "cronjob",
            &json!({"action": "create", "prompt": "x", "schedule": "every 5m"}),
        ),
        ScriptedAnswer::text("done"),
    ]);
    let model = hub.tenant("acme", json!({}), script).await;
    for (name, value) in [("SHOWN_ONE", "seen"), ("HIDDEN_ONE", "unseen")] {
        let path = format!("/v1/tenants/acme/env/{name}");
        hub.request(Method::PUT, &path, &json!({"value": value}))
            .await
            .expect(204);
    }
    // Variables of its own making are as forbidden as those that the Hub keeps.
    fs::write(hub.tenant_home("acme").join(".env"), "HIDDEN_TWO=unseen\n").unwrap();
    put(
        &hub,
        json!({
            "env": {"deny": ["HIDDEN_*"]}, "egress": {"allowHosts": ["127.0.0.1"]},
            "cron": {"minIntervalMinutes": 60},
        }),
    )
    .await;
    let run = hub.run("acme", "try everything").await;
    assert_eq!(run["status"], "completed", "{run}");
    let told = tool_results(&model);
    assert!(told.contains("SHOWN_ONE=seen"), "{told}");
    assert!(!told.contains("unseen"), "{told}");
    assert!(told.contains("egress.allowHosts"), "{told}");
    assert!(told.contains("a run every 60 minutes"), "{told}");
    let jobs = hub.get("/v1/tenants/acme/agent-cron").await;
    assert_eq!(jobs["jobs"], json!([]));

    // The process runs on, and takes up what is new.
    let agent = hub.get("/v1/tenants/acme/agent").await;
    put(&hub, json!({"egress": {"denyPrivateNetworks": true}})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["status"], "failed", "{run}");
    let error = run["error"].to_string();
    assert!(error.contains("denyPrivateNetworks"), "{error}");
    put(&hub, json!({})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(hub.get("/v1/tenants/acme/agent").await["pid"], agent["pid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_denied_in_the_middle_of_a_run_is_refused_whatever_the_tenants_files_say() {
    let hub = RealHub::start();
    let call = |command: &str| ScriptedAnswer::call("terminal", &json!({"command": command}));
    let script = ModelScript::new([
        call("until test -e go; do sleep 0.05; done; echo first=$((6*7))"),
        call("echo second=$((6*7))"),
        ScriptedAnswer::text("done"),
    ]);
    let model = hub.tenant("acme", json!({}), script).await;
    let run = hub.start_run("acme", "go on").await;
    let home = hub.tenant_home("acme");
    hub.wait_for(&run, |run| run["lastEventId"].as_u64() > Some(1))
        .await;
    put(&hub, json!({"tools": {"deny": ["terminal"]}})).await;
    // All that the tenant can write is its own.
    let config = fs::read_to_string(home.join("config.yaml")).unwrap();
    let wish = "policy: {tools: {allow: ['*'], deny: []}}\ntools: {allow: ['*']}\n\
                command_allowlist: ['*']\ntoolsets: [terminal]\n";
    fs::write(home.join("config.yaml"), config + wish).unwrap();
    fs::write(home.join("workspace/go"), "").unwrap();
    let run = hub.wait_for_end(&run).await;
    assert_eq!(run["status"], "completed", "{run}");
    let told = tool_results(&model);
    assert!(told.contains("first=42"), "{told}");
    assert!(!told.contains("second=42"), "{told}");
    assert!(told.contains("policy"), "{told}");
}
