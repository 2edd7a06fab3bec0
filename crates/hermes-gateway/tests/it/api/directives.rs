//! A Hub's directives: applied at the next tool call.

use hermes_protocol::{Directives, Policy};
use hermes_testkit::{eventually, model::ScriptedAnswer};

use super::*;

/// A gateway of a Hub that has not sent anything yet.
async fn undirected(script: ModelScript, more: &str) -> ApiFixture {
    let tenant = "tenant_123".to_owned();
    let home = HubHome::Hosted;
    ApiFixture::start_with(script, more, ControlMode::Hub { tenant, home }).await
}

async fn service(script: ModelScript) -> ApiFixture {
    let service = undirected(script, "").await;
    service.permit(json!({})).await;
    service
}

/// Directives with this policy: what the document leaves out is not limited.
fn directives(policy: &Value) -> Directives {
    Directives::new(Policy::resolve(policy, &Policy::unrestricted()).unwrap())
}

impl ApiFixture {
    async fn put_directives(&self, body: String) -> (StatusCode, Value) {
        let request = self.request(Method::PUT, "/internal/directives");
        send(request.body(body)).await
    }

    async fn direct(&self, directives: &Directives) {
        let body = serde_json::to_string(directives).unwrap();
        let (status, body) = self.put_directives(body).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    async fn permit(&self, policy: Value) {
        self.direct(&directives(&policy)).await;
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

fn reading() -> ScriptedAnswer {
    ScriptedAnswer::call("read_file", &json!({"path": "note.txt"}))
}

#[tokio::test]
async fn only_a_hub_may_direct() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let request = service.request(Method::PUT, "/internal/directives");
    let (status, _) = send(request.body("{}")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn nothing_is_permitted_until_the_hub_has_sent_its_directives() {
    let service = undirected(ModelScript::echo(), "").await;
    service.home.write(".env", "SHOWN_ONE=1\n");
    let run = service.run(&json!({"input": "Hi"})).await;
    let shown = service.wait_for_end(&run).await;
    assert_eq!(shown["error"]["code"], "no_model", "{shown}");
    assert!(service.model.requests().is_empty());
    let job = json!({"schedule": "every 3h", "prompt": "x"});
    let (status, refused) = service.post("/api/jobs", &job).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    let settings = service.gateway.load_settings().unwrap();
    assert_eq!(settings.variables.get("SHOWN_ONE"), None);

    service.permit(json!({})).await;
    let run = service.run(&json!({"input": "Hi"})).await;
    assert_eq!(service.wait_for_end(&run).await["output"], "Hi");
    assert_eq!(service.post("/api/jobs", &job).await.0, StatusCode::CREATED);
    let settings = service.gateway.agent().settings();
    assert_eq!(settings.variables.get("SHOWN_ONE"), Some("1"));
    // Whoever answers MCP servers has to know them, too.
    let settings = service.applied.lock().clone().unwrap();
    assert_eq!(settings.variables.get("SHOWN_ONE"), Some("1"));
}

fn remove(object: &mut Value, member: &str) {
    object.as_object_mut().unwrap().remove(member).unwrap();
}

#[tokio::test]
async fn directives_that_are_not_understood_are_refused_and_those_in_force_stay() {
    let service = service(ModelScript::echo()).await;
    service.permit(json!({"tools": {"deny": ["read_*"]}})).await;
    let whole = serde_json::to_value(directives(&json!({}))).unwrap();
    let change = |change: fn(&mut Value)| {
        let mut changed = whole.clone();
        change(&mut changed);
        changed.to_string()
    };
    for wrong in [
        String::new(),
        "{}".to_owned(),
        json!({"policy": {}}).to_string(),
        change(|whole| whole["unknown"] = json!(1)),
        change(|whole| whole["policy"]["unknown"] = json!(1)),
        change(|whole| whole["policy"]["tools"]["unknown"] = json!([])),
        change(|whole| whole["policy"]["tools"]["deny"] = json!("terminal")),
        change(|whole| whole["policy"]["version"] = json!(2)),
        change(|whole| remove(&mut whole["policy"], "env")),
        change(|whole| remove(&mut whole["policy"]["tools"], "deny")),
        change(|whole| remove(whole, "model")),
    ] {
        let (status, refused) = service.put_directives(wrong.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong} {refused}");
        assert_eq!(refused["error"]["code"], "invalid_directives", "{wrong}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("the directives is not as the protocol says"),
            "{message}"
        );
    }
    let run = service.run(&json!({"input": "Hi"})).await;
    service.wait_for_end(&run).await;
    assert!(!service.offered().contains(&"read_file".to_owned()));
    let (status, _) = service.put_directives(change(|_| ())).await;
    assert_eq!(status, StatusCode::OK);
    let run = service.run(&json!({"input": "Hi"})).await;
    service.wait_for_end(&run).await;
    assert!(service.offered().contains(&"read_file".to_owned()));
}

#[tokio::test]
async fn a_hub_is_held_to_the_protocol_and_other_clients_are_not() {
    let hubs = service(ModelScript::echo()).await;
    let own = ApiFixture::start(ModelScript::echo()).await;
    let unknown = json!({"input": "Hi", "sessionId": "s"});
    let (status, refused) = hubs.post("/v1/runs", &unknown).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    assert!(refused.to_string().contains("sessionId"), "{refused}");
    own.wait_for_end(&own.run(&unknown).await).await;
    // A name in another spelling must not decide about another approval.
    let decision = json!({"choice": "once", "approvalId": "a"});
    for (service, expected) in [(hubs, StatusCode::BAD_REQUEST), (own, StatusCode::CONFLICT)] {
        let run = service.run(&json!({"input": "Hi"})).await;
        service.wait_for_end(&run).await;
        let path = format!("/v1/runs/{run}/approval");
        let (status, answer) = service.post(&path, &decision).await;
        assert_eq!(status, expected, "{answer}");
    }
}

#[tokio::test]
async fn a_denied_tool_is_neither_offered_nor_run() {
    let service = service(ModelScript::new([reading(), ScriptedAnswer::text("pity")])).await;
    service.home.write("note.txt", "secret");
    service.permit(json!({"tools": {"deny": ["read_*"]}})).await;
    let run = service.run(&json!({"input": "Read."})).await;
    assert_eq!(service.wait_for_end(&run).await["output"], "pity");
    let offered = service.offered();
    assert!(!offered.contains(&"read_file".to_owned()));
    assert!(offered.contains(&"write_file".to_owned()));
    assert!(!service.last_result().contains("secret"));
}

#[tokio::test]
async fn a_denial_reaches_a_turn_that_is_under_way() {
    // Long enough for the directives to come before the call, on a busy machine too.
    let late = reading().with(|reply| reply.delay_ms = 4000);
    let service = service(ModelScript::new([late, ScriptedAnswer::text("pity")])).await;
    service.home.write("note.txt", "secret");
    let run = service.run(&json!({"input": "Read."})).await;
    // The turn has its tools when the model is asked.
    let asked = eventually(TIMEOUT, || !service.model.requests().is_empty());
    assert!(asked.await);
    service
        .permit(json!({"tools": {"allow": ["write_file"]}}))
        .await;
    service.wait_for_end(&run).await;
    let result = service.last_result();
    assert!(
        result.contains("policy does not allow `read_file`"),
        "{result}"
    );
}

#[tokio::test]
async fn what_needs_approval_asks_even_where_the_home_would_not() {
    let script = ModelScript::new([reading(), ScriptedAnswer::text("done")]);
    let config = "approvals: {mode: off}\ncommand_allowlist: ['policy: read_file']";
    let service = undirected(script, config).await;
    service.home.write("note.txt", "secret");
    let policy = json!({"tools": {"requireApproval": ["read_file"]}});
    service.permit(policy).await;
    let run = service.run(&json!({"input": "Read."})).await;
    let turn = service.wait_for_approvals(&run, 1).await;
    assert_eq!(turn[0]["choices"], json!(["once", "session", "deny"]));
    let path = format!("/v1/runs/{run}/approval");
    let (status, _) = service.post(&path, &json!({"choice": "always"})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    service.post(&path, &json!({"choice": "once"})).await;
    service.wait_for_end(&run).await;
    assert!(service.last_result().contains("secret"));
}

#[tokio::test]
async fn several_questions_wait_and_are_decided_by_name_or_all_at_once() {
    let read = |name: &str| ("read_file", json!({"path": name}));
    let script = ModelScript::new([
        ScriptedAnswer::calls([read("a.txt"), read("b.txt"), read("c.txt")]),
        ScriptedAnswer::text("done"),
    ]);
    let service = service(script).await;
    for name in ["a", "b", "c"] {
        service
            .home
            .write(&format!("{name}.txt"), &format!("content of {name}"));
    }
    let policy = json!({"tools": {"requireApproval": ["read_file"]}});
    service.permit(policy).await;
    let run = service.run(&json!({"input": "Read."})).await;
    let turn = service.wait_for_approvals(&run, 3).await;
    let about_b = turn
        .iter()
        .find(|question| question["command"].as_str().unwrap().contains("b.txt"))
        .unwrap();
    let path = format!("/v1/runs/{run}/approval");
    let deny = json!({"choice": "deny", "approval_id": about_b["approval_id"]});
    let (_, one) = service.post(&path, &deny).await;
    assert_eq!(one["resolved"], 1, "{one}");
    let (_, others) = service
        .post(&path, &json!({"choice": "once", "all": true}))
        .await;
    assert_eq!(others["resolved"], 2, "{others}");
    assert_eq!(service.wait_for_end(&run).await["status"], "completed");
    let messages = service.last_messages();
    let results: Vec<&str> = messages[messages.len() - 3..]
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert!(results[0].contains("content of a"), "{results:?}");
    assert!(results[1].contains("not approved"), "{results:?}");
    assert!(results[2].contains("content of c"), "{results:?}");
}

#[tokio::test]
async fn an_approval_waits_as_long_as_the_hub_says() {
    let script = ModelScript::new([reading(), ScriptedAnswer::text("done")]);
    let service = service(script).await;
    let policy = json!({
        "tools": {"requireApproval": ["*"]}, "approvals": {"timeoutSeconds": 1, "onTimeout": "deny"},
    });
    service.permit(policy).await;
    let run = service.run(&json!({"input": "Read."})).await;
    service.wait_for_end(&run).await;
    let result = service.last_result();
    assert!(result.contains("nobody answered within 1 s"), "{result}");
}

#[tokio::test]
async fn a_model_that_is_not_allowed_is_not_asked() {
    let service = service(ModelScript::echo()).await;
    let others = json!({"models": {"allow": ["other-*"]}});
    service.permit(others.clone()).await;
    let run = service.run(&json!({"input": "Hi"})).await;
    let shown = service.wait_for_end(&run).await;
    assert_eq!(shown["error"]["code"], "no_model");
    assert!(service.model.requests().is_empty());
    let other = Directives {
        model: Some("other-1".into()),
        ..directives(&others)
    };
    service.direct(&other).await;
    let run = service.run(&json!({"input": "Hi"})).await;
    assert_eq!(service.wait_for_end(&run).await["output"], "Hi");
    assert_eq!(service.model.requests()[0].body["model"], "other-1");
}

#[tokio::test]
async fn a_specialization_stands_first_from_the_next_run_on() {
    let service = service(ModelScript::echo()).await;
    service.home.write("SOUL.md", "You are a heron.");
    let system = || {
        service.last_messages()[0]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = service.run(&json!({"input": "a", "session_id": "s"})).await;
    service.wait_for_end(&first).await;
    assert!(system().starts_with("You are a heron."));
    let mut special = directives(&json!({}));
    special.specialization = "You work for Acme.".into();
    service.direct(&special).await;
    let second = service.run(&json!({"input": "b", "session_id": "s"})).await;
    service.wait_for_end(&second).await;
    assert!(system().starts_with("You work for Acme.\n\nYou are a heron."));
    special.specialization = String::new();
    service.direct(&special).await;
    let third = service.run(&json!({"input": "c", "session_id": "s"})).await;
    service.wait_for_end(&third).await;
    assert!(system().starts_with("You are a heron."));
}

#[tokio::test]
async fn runs_that_the_hub_has_accepted_are_not_refused() {
    let config = "api_server: {max_concurrent_runs: 1}";
    let slow = ScriptedAnswer::pieces(["a", "b"]).with(|reply| reply.pause_ms = 500);
    let script = ModelScript::echo().rule("slow", slow);
    let service = undirected(script, config).await;
    service.permit(json!({})).await;
    let mut runs = Vec::new();
    for number in 0..4 {
        let input = format!("slow {number}");
        runs.push(service.run(&json!({"input": input})).await);
    }
    for run in runs {
        assert_eq!(service.wait_for_end(&run).await["status"], "completed");
    }
}

#[tokio::test]
async fn hosts_that_are_not_allowed_are_not_reached_from_the_next_call_on() {
    let page = ScriptedAnswer::call("web_extract", &json!({"urls": ["http://localhost:9/page"]}));
    let script = ModelScript::new([page, ScriptedAnswer::text("done")]);
    let service = undirected(script, "security: {allow_private_urls: true}").await;
    service
        .permit(json!({"egress": {"allowHosts": ["127.0.0.1"]}}))
        .await;
    let run = service.run(&json!({"input": "Look."})).await;
    assert_eq!(service.wait_for_end(&run).await["status"], "completed");
    let result = service.last_result();
    assert!(result.contains("egress.allowHosts"), "{result}");
    // The model itself is at such a host.
    for (egress, key) in [
        (
            json!({"allowHosts": ["*.example.com"]}),
            "egress.allowHosts",
        ),
        (
            json!({"denyPrivateNetworks": true}),
            "egress.denyPrivateNetworks",
        ),
    ] {
        let turn = service.model.requests().len();
        service.permit(json!({"egress": egress})).await;
        let run = service.run(&json!({"input": "Hi"})).await;
        let shown = service.wait_for_end(&run).await;
        assert_eq!(shown["status"], "failed", "{shown}");
        assert!(shown["error"].to_string().contains(key), "{shown}");
        assert_eq!(service.model.requests().len(), turn);
    }
}

#[tokio::test]
async fn jobs_stay_within_what_is_allowed_however_they_are_made() {
    let make = |schedule: &str| {
        ScriptedAnswer::call(
            "cronjob",
            &json!({"action": "create", "prompt": "x", "schedule": schedule}),
        )
    };
    let service = service(ModelScript::new([
        make("every 5m"),
        make("every 2h"),
        ScriptedAnswer::text("x"),
    ]))
    .await;
    service
        .permit(json!({"cron": {"maxJobs": 1, "minIntervalMinutes": 60}}))
        .await;
    let run = service.run(&json!({"input": "Make."})).await;
    service.wait_for_end(&run).await;
    let told = json!(service.last_messages()).to_string();
    assert!(told.contains("a run every 60 minutes"), "{told}");
    let jobs = service.get("/api/jobs").await;
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "{jobs}");
    let id = jobs["jobs"][0]["id"].as_str().unwrap();
    let often = json!({"schedule": "every 5m"});
    let request = service.request(Method::PATCH, &format!("/api/jobs/{id}"));
    let (status, refused) = send(request.body(often.to_string())).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    let second = json!({"schedule": "every 3h", "prompt": "x"});
    let (status, refused) = service.post("/api/jobs", &second).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    assert!(
        refused.to_string().contains("allows 1 cron jobs"),
        "{refused}"
    );
}

#[tokio::test]
async fn runs_are_as_many_as_is_allowed() {
    let slow = |ms: u64| ScriptedAnswer::text("late").with(|reply| reply.delay_ms = ms);
    let script = ModelScript::default()
        .rule("one", slow(1500))
        .rule("two", slow(0));
    let service = service(script).await;
    service.permit(json!({"runs": {"maxConcurrent": 1}})).await;
    let first = service.run(&json!({"input": "one"})).await;
    let asked = eventually(TIMEOUT, || !service.model.requests().is_empty());
    assert!(asked.await);
    let second = service.run(&json!({"input": "two"})).await;
    let (first, second) = (
        service.wait_for_end(&first).await,
        service.wait_for_end(&second).await,
    );
    assert_eq!(first["status"], "completed", "{first}");
    assert_eq!(second["status"], "completed", "{second}");
    let over = |run: &Value| run["updated_at"].as_f64().unwrap();
    assert!(over(&first) <= over(&second), "{first} {second}");
}

#[tokio::test]
async fn variables_that_are_denied_are_not_there() {
    let service = service(ModelScript::echo()).await;
    service
        .home
        .write(".env", "HIDDEN_ONE=1\nTELEGRAM_BOT_TOKEN=1:a\n");
    service
        .permit(json!({"env": {"deny": ["HIDDEN_*", "TELEGRAM_*"]}}))
        .await;
    let settings = service.gateway.agent().settings();
    assert_eq!(settings.variables.get("HIDDEN_ONE"), None);
    let telegram = settings.gateway.platform(hermes_config::Platform::Telegram);
    assert!(telegram.token.is_none());
    service.permit(json!({})).await;
    let settings = service.gateway.agent().settings();
    assert_eq!(settings.variables.get("HIDDEN_ONE"), Some("1"));
}
