//! The policy, in the processes of tenants: each member, set at the Hub, limits what the tenant's agent does, and without
//! it the agent does the same thing.

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

/// Waits until the only agent has all documents: it gets them together, and of the last one it is shown who has it.
async fn wait_until_applied(hub: &RealHub) {
    let path = "/v1/agent-specialization";
    hub.request(Method::PUT, path, &json!({"content": "Be brief."}))
        .await
        .expect(200);
    hub.wait_for(path, |shown| shown["appliedTenants"] == 1)
        .await;
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

    // The process runs on, and takes up what is new. Its variables stay the same: other ones would need a restart.
    let agent = hub.get("/v1/tenants/acme/agent").await;
    let env = json!({"deny": ["HIDDEN_*"]});
    put(
        &hub,
        json!({"env": env, "egress": {"denyPrivateNetworks": true}}),
    )
    .await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["status"], "failed", "{run}");
    let error = run["error"].to_string();
    assert!(error.contains("denyPrivateNetworks"), "{error}");
    put(&hub, json!({"env": env})).await;
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
    wait_until_applied(&hub).await;
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

// `models`: the tenant's own one is `m`.

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_allowed_is_not_asked() {
    let hub = RealHub::start();
    let model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
    let before = model.requests().len();
    for allowed in [json!([]), json!(["other-*"])] {
        put(&hub, json!({"models": {"allow": allowed}})).await;
        let run = hub.run("acme", "hello").await;
        assert_eq!(run["status"], "failed", "{run}");
        assert_eq!(run["error"]["code"], "no_model", "{run}");
        assert_eq!(model.requests().len(), before);
    }
    put(&hub, json!({"models": {"allow": ["m"]}})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
}

// `egress`: a page at `localhost`, and the tenant's model at `127.0.0.1`.

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_allowed_is_not_reached() {
    let hub = RealHub::start();
    let page = ModelServer::start(ModelScript::echo().with_models(["planted-words"]));
    let address = format!("http://localhost:{}/v1/models", page.port());
    let model = tenant_calling(&hub, "web_extract", &json!({"urls": [address]})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("planted-words"), "{result}");
    let visits = page.paths().len();

    put(&hub, json!({"egress": {"allowHosts": ["127.0.0.1"]}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("egress.allowHosts"), "{result}");
    assert!(!result.contains("planted-words"), "{result}");
    assert_eq!(page.paths().len(), visits);

    let both = json!(["127.0.0.1", "local*"]);
    put(&hub, json!({"egress": {"allowHosts": both}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("planted-words"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_not_reached_where_they_are_denied() {
    let hub = RealHub::start();
    let model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
    let before = model.requests().len();
    put(&hub, json!({"egress": {"denyPrivateNetworks": true}})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["status"], "failed", "{run}");
    assert!(
        run["error"].to_string().contains("denyPrivateNetworks"),
        "{run}"
    );
    assert_eq!(model.requests().len(), before);
    put(&hub, json!({"egress": {"denyPrivateNetworks": false}})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
}

// `env`: variables that the Hub keeps for a tenant, and those of its own `.env`.

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_variable_is_not_there_wherever_it_comes_from() {
    let hub = RealHub::start();
    let command = json!({"command": "echo kept=$KEPT_ONE other=$OTHER_ONE"});
    let model = tenant_calling(&hub, "terminal", &command).await;
    for name in ["KEPT_ONE", "OTHER_ONE"] {
        let path = format!("/v1/tenants/acme/env/{name}");
        hub.request(Method::PUT, &path, &json!({"value": "seen"}))
            .await
            .expect(204);
    }
    // With a token of a platform there is a tool for messages.
    let own = hub.tenant_home("acme").join(".env");
    fs::write(own, "TELEGRAM_BOT_TOKEN=1:a\n").unwrap();
    for (policy, shown, has_token) in [
        (json!({}), "kept=seen other=seen", true),
        (
            json!({"env": {"deny": ["KEPT_*"]}}),
            "kept= other=seen",
            true,
        ),
        (
            json!({"env": {"deny": ["TELEGRAM_BOT_TOKEN"]}}),
            "kept=seen other=seen",
            false,
        ),
        (json!({}), "kept=seen other=seen", true),
    ] {
        put(&hub, policy.clone()).await;
        let result = result_of_call(&hub, &model).await;
        assert!(result.contains(shown), "{policy}: {result}");
        let offered = offered_tools(&model);
        let has_messages = offered.contains(&"send_message".to_owned());
        assert_eq!(has_messages, has_token, "{policy}: {offered:?}");
    }
}

// `features`: MCP servers and messages.

/// The tool of the tenant's own MCP server.
const SUM: &str = "mcp_own_add";

fn is_offered(offered: &[String], name: &str) -> bool {
    offered.iter().any(|tool| tool == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_feature_its_tools_are_neither_offered_nor_run() {
    let hub = RealHub::start();
    let model = tenant_calling(&hub, SUM, &json!({"a": 40, "b": 2})).await;
    let home = hub.tenant_home("acme");
    let program = env!("CARGO_BIN_EXE_hermes");
    let config = fs::read_to_string(home.join("config.yaml")).unwrap();
    let server = format!("mcp_servers:\n  own: {{command: '{program}', args: [mcp, demo]}}\n");
    fs::write(home.join("config.yaml"), config + &server).unwrap();
    fs::write(home.join(".env"), "TELEGRAM_BOT_TOKEN=1:a\n").unwrap();

    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("42"), "{result}");
    let offered = offered_tools(&model);
    assert!(is_offered(&offered, SUM), "{offered:?}");
    assert!(is_offered(&offered, "send_message"), "{offered:?}");

    put(&hub, json!({"features": {"enabled": ["mcp"]}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("42"), "{result}");
    assert!(!is_offered(&offered_tools(&model), "send_message"));

    put(&hub, json!({"features": {"enabled": ["messaging"]}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(!result.contains("42"), "{result}");
    let offered = offered_tools(&model);
    assert!(!is_offered(&offered, SUM), "{offered:?}");
    assert!(is_offered(&offered, "send_message"), "{offered:?}");

    put(&hub, json!({"features": {"enabled": []}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(!result.contains("42"), "{result}");
    let offered = offered_tools(&model);
    assert!(!is_offered(&offered, SUM), "{offered:?}");
    assert!(!is_offered(&offered, "send_message"), "{offered:?}");
    // What is not optional stays.
    assert!(is_offered(&offered, "read_file"), "{offered:?}");
}

// `cron`: how many jobs a tenant may have, and how often they may run.

async fn count_jobs(hub: &RealHub) -> usize {
    let jobs = hub.get("/v1/tenants/acme/agent-cron").await;
    jobs["jobs"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_makes_no_job_too_many_and_none_that_runs_too_often() {
    let hub = RealHub::start();
    let job = json!({"action": "create", "prompt": "x", "schedule": "every 5m"});
    let model = tenant_calling(&hub, "cronjob", &job).await;
    result_of_call(&hub, &model).await;
    assert_eq!(count_jobs(&hub).await, 1);

    put(&hub, json!({"cron": {"minIntervalMinutes": 6}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("a run every 6 minutes"), "{result}");
    assert_eq!(count_jobs(&hub).await, 1);
    put(&hub, json!({"cron": {"minIntervalMinutes": 5}})).await;
    result_of_call(&hub, &model).await;
    assert_eq!(count_jobs(&hub).await, 2);

    put(&hub, json!({"cron": {"maxJobs": 2}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("allows 2 cron jobs"), "{result}");
    assert_eq!(count_jobs(&hub).await, 2);
    put(&hub, json!({"cron": {"maxJobs": 3}})).await;
    result_of_call(&hub, &model).await;
    assert_eq!(count_jobs(&hub).await, 3);
}
