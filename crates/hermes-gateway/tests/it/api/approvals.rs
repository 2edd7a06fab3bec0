//! Approvals: by id, the oldest, all at once, through the bridge, and too late.

use hermes_gateway::bridge::{Bridge, BridgeOptions};
use hermes_serve::stdio;
use hermes_testkit::model::ScriptedAnswer;
use rmcp::{ServiceExt as _, model::CallToolRequestParams};

use super::*;

/// A model that deletes directories, in parallel or in order, and then repeats the results.
fn deletion_script(directories: &[&str]) -> ModelScript {
    let mut answers: Vec<ScriptedAnswer> = directories
        .iter()
        .map(|name| ScriptedAnswer::call("terminal", &json!({"command": format!("rm -r {name}")})))
        .collect();
    answers.push(ScriptedAnswer::text("done"));
    ModelScript::new(answers)
}

async fn service(directories: &[&str]) -> ApiFixture {
    let service = ApiFixture::start(deletion_script(directories)).await;
    for name in directories {
        service.home.write(&format!("{name}/file"), "x");
    }
    service
}

impl ApiFixture {
    async fn decide(&self, run: &str, body: Value) -> (StatusCode, Value) {
        self.post(&format!("/v1/runs/{run}/approval"), &body).await
    }

    fn has(&self, name: &str) -> bool {
        self.home.path().join(name).exists()
    }
}

#[tokio::test]
async fn what_is_allowed_runs_and_what_is_denied_does_not() {
    let service = service(&["one", "two"]).await;
    let run = service.run(&json!({"input": "Delete."})).await;
    let turn = service.wait_for_approvals(&run, 1).await;
    assert_eq!(turn[0]["command"], "rm -r one");
    assert_eq!(
        turn[0]["choices"],
        json!(["once", "session", "always", "deny"])
    );
    let shown = service.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "waiting_for_approval");
    assert!(service.has("one"));
    let (status, body) = service.decide(&run, json!({"choice": "approve"})).await;
    assert_eq!(status, StatusCode::OK);
    let expected = json!({
        "object": "hermes.run.approval_response", "run_id": run, "choice": "once", "resolved": 1,
    });
    assert_eq!(body, expected);
    let turn = service.wait_for_approvals(&run, 2).await;
    let id = &turn[1]["approval_id"];
    let deny = json!({"choice": "deny", "approval_id": id, "reason": "I need it"});
    assert_eq!(service.decide(&run, deny).await.0, StatusCode::OK);
    let events = service.events(&run, 0).await;
    assert!(!service.has("one"));
    assert!(service.has("two"));
    let choices: Vec<&Value> = events
        .iter()
        .filter(|(_, event)| event["event"] == "approval.responded")
        .map(|(_, event)| &event["choice"])
        .collect();
    assert_eq!(choices, ["once", "deny"]);
    let told = service.last_messages().pop().unwrap();
    let told = told["content"].as_str().unwrap().to_owned();
    assert!(told.contains("I need it"), "{told}");
}

#[tokio::test]
async fn an_answer_for_the_session_holds_when_the_command_comes_again() {
    let service = service(&["one", "one"]).await;
    let run = service
        .run(&json!({"input": "Delete.", "session_id": "s"}))
        .await;
    service.wait_for_approvals(&run, 1).await;
    service.decide(&run, json!({"choice": "session"})).await;
    let events = service.events(&run, 0).await;
    let turn = names(&events)
        .into_iter()
        .filter(|name| *name == "approval.request");
    assert_eq!(turn.count(), 1);
    assert!(!service.has("one"));
}

#[tokio::test]
async fn wrong_answers_are_told_apart() {
    let service = service(&["one"]).await;
    let run = service.run(&json!({"input": "Delete."})).await;
    service.wait_for_approvals(&run, 1).await;
    for (path, body, status, code) in [
        ("run_0", json!({"choice": "once"}), 404, "run_not_found"),
        (
            &run,
            json!({"choice": "perhaps"}),
            400,
            "invalid_approval_choice",
        ),
        (
            &run,
            json!({"choice": "once", "approval_id": "ap_0"}),
            409,
            "approval_not_pending",
        ),
    ] {
        let (found, answer) = service.decide(path, body).await;
        assert_eq!(found.as_u16(), status, "{answer}");
        assert_eq!(answer["error"]["code"], code);
    }
    service.decide(&run, json!({"choice": "deny"})).await;
    let (status, answer) = service.decide(&run, json!({"choice": "once"})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    service.wait_for_end(&run).await;
    let (_, answer) = service.decide(&run, json!({"choice": "once"})).await;
    assert_eq!(answer["error"]["code"], "approval_not_active");
    assert!(service.has("one"));
}

#[tokio::test]
async fn silence_is_no() {
    let config = "approvals: {timeout: 1}";
    let service = ApiFixture::start_with(deletion_script(&["one"]), config, ControlMode::Own).await;
    service.home.write("one/file", "x");
    let run = service.run(&json!({"input": "Delete."})).await;
    let events = service.events(&run, 0).await;
    let responded = events
        .iter()
        .find(|(_, event)| event["event"] == "approval.responded");
    let responded = &responded.unwrap().1;
    assert_eq!(responded["choice"], "deny");
    assert_eq!(responded["outcome"], "expired");
    assert!(service.has("one"));
}

#[tokio::test]
async fn a_stopped_run_no_longer_waits_for_an_answer() {
    let service = service(&["one"]).await;
    let run = service.run(&json!({"input": "Delete."})).await;
    service.wait_for_approvals(&run, 1).await;
    service
        .post(&format!("/v1/runs/{run}/stop"), &json!({}))
        .await;
    assert_eq!(service.wait_for_end(&run).await["status"], "cancelled");
    assert!(service.has("one"));
    let open = service.gateway.store().open_approvals().await.unwrap();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn a_client_of_the_bridge_may_answer_too() {
    let service = service(&["one"]).await;
    let run = service.run(&json!({"input": "Delete."})).await;
    let turn = service.wait_for_approvals(&run, 1).await;
    let home = service.gateway.home().clone();
    let settings = Settings::load(&home).unwrap();
    let bridge = Bridge::new(home, settings, BridgeOptions::default());
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(theirs);
    let mut tasks = JoinSet::new();
    let connection = bridge.new_connection();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tasks.spawn(async move {
        let _ = stdio::serve_on(connection, input, output, || false, stopped).await;
    });
    let client = ().serve(ours).await.unwrap();
    let arguments = json!({"id": turn[0]["approval_id"], "decision": "allow-once"});
    let arguments = arguments.as_object().unwrap().clone();
    let call = CallToolRequestParams::new("permissions_respond").with_arguments(arguments);
    client.call_tool(call).await.unwrap();
    assert_eq!(service.wait_for_end(&run).await["status"], "completed");
    assert!(!service.has("one"));
    stop.cancel();
}
