//! What a Hub wants: taken up at the next call of a tool.

use hermes_testkit::model::Answer;

use super::*;

async fn service(script: Script) -> Service {
    let tenant = "tenant_123".to_owned();
    Service::start_with(script, "", Direction::Hub { tenant }).await
}

impl Service {
    async fn direct(&self, directives: Value) {
        let request = self.request(Method::PUT, "/internal/directives");
        let (status, body) = answer(request.body(directives.to_string())).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    /// What the model was told of its last call.
    fn last_result(&self) -> String {
        let message = self.last_messages().pop().unwrap();
        message["content"].as_str().unwrap().to_owned()
    }

    fn offered(&self) -> Vec<String> {
        let request = self.model.requests().pop().unwrap();
        let tools = request.body["tools"].as_array().unwrap().clone();
        tools
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn reading() -> Answer {
    Answer::call("read_file", &json!({"path": "note.txt"}))
}

#[tokio::test]
async fn only_a_hub_may_direct() {
    let service = Service::start(Script::echo()).await;
    let request = service.request(Method::PUT, "/internal/directives");
    let (status, _) = answer(request.body("{}")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_denied_tool_is_neither_offered_nor_run() {
    let service = service(Script::new([reading(), Answer::text("pity")])).await;
    service.home.write("note.txt", "secret");
    service
        .direct(json!({"policy": {"tools": {"deny": ["read_*"]}}}))
        .await;
    let run = service.run(&json!({"input": "Read."})).await;
    assert_eq!(service.ended(&run).await["output"], "pity");
    let offered = service.offered();
    assert!(!offered.contains(&"read_file".to_owned()));
    assert!(offered.contains(&"write_file".to_owned()));
    assert!(!service.last_result().contains("secret"));
}

#[tokio::test]
async fn a_denial_reaches_a_turn_that_is_under_way() {
    let late = reading().with(|reply| reply.delay_ms = 1500);
    let service = service(Script::new([late, Answer::text("pity")])).await;
    service.home.write("note.txt", "secret");
    let run = service.run(&json!({"input": "Read."})).await;
    // The turn has its tools when the model is asked.
    while service.model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    service
        .direct(json!({"policy": {"tools": {"allow": ["write_file"]}}}))
        .await;
    service.ended(&run).await;
    let result = service.last_result();
    assert!(
        result.contains("policy does not allow `read_file`"),
        "{result}"
    );
}

#[tokio::test]
async fn what_needs_approval_asks_even_where_the_home_would_not() {
    let script = Script::new([reading(), Answer::text("done")]);
    let tenant = "tenant_123".to_owned();
    let config = "approvals: {mode: off}\ncommand_allowlist: ['policy: read_file']";
    let service = Service::start_with(script, config, Direction::Hub { tenant }).await;
    service.home.write("note.txt", "secret");
    let policy = json!({"tools": {"requireApproval": ["read_file"]}});
    service.direct(json!({"policy": policy})).await;
    let run = service.run(&json!({"input": "Read."})).await;
    let asked = service.asked(&run, 1).await;
    assert_eq!(asked[0]["choices"], json!(["once", "session", "deny"]));
    let path = format!("/v1/runs/{run}/approval");
    let (status, _) = service.post(&path, &json!({"choice": "always"})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    service.post(&path, &json!({"choice": "once"})).await;
    service.ended(&run).await;
    assert!(service.last_result().contains("secret"));
}

#[tokio::test]
async fn an_approval_waits_as_long_as_the_hub_says() {
    let script = Script::new([reading(), Answer::text("done")]);
    let service = service(script).await;
    let policy = json!({
        "tools": {"requireApproval": ["*"]}, "approvals": {"timeoutSeconds": 1, "onTimeout": "deny"},
    });
    service.direct(json!({"policy": policy})).await;
    let run = service.run(&json!({"input": "Read."})).await;
    service.ended(&run).await;
    let result = service.last_result();
    assert!(result.contains("nobody answered within 1 s"), "{result}");
}

#[tokio::test]
async fn a_model_that_is_not_allowed_is_not_asked() {
    let service = service(Script::echo()).await;
    service
        .direct(json!({"policy": {"models": {"allow": ["other-*"]}}}))
        .await;
    let run = service.run(&json!({"input": "Hi"})).await;
    let shown = service.ended(&run).await;
    assert_eq!(shown["error"]["code"], "no_model");
    assert!(service.model.requests().is_empty());
    service
        .direct(json!({"policy": {"models": {"allow": ["other-*"]}}, "model": "other-1"}))
        .await;
    let run = service.run(&json!({"input": "Hi"})).await;
    assert_eq!(service.ended(&run).await["output"], "Hi");
    assert_eq!(service.model.requests()[0].body["model"], "other-1");
}

#[tokio::test]
async fn a_specialization_stands_first_from_the_next_run_on() {
    let service = service(Script::echo()).await;
    service.home.write("SOUL.md", "You are a heron.");
    let system = || {
        service.last_messages()[0]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = service.run(&json!({"input": "a", "session_id": "s"})).await;
    service.ended(&first).await;
    assert!(system().starts_with("You are a heron."));
    service
        .direct(json!({"specialization": "You work for Acme."}))
        .await;
    let second = service.run(&json!({"input": "b", "session_id": "s"})).await;
    service.ended(&second).await;
    assert!(system().starts_with("You work for Acme.\n\nYou are a heron."));
    service.direct(json!({"specialization": ""})).await;
    let third = service.run(&json!({"input": "c", "session_id": "s"})).await;
    service.ended(&third).await;
    assert!(system().starts_with("You are a heron."));
}
