//! Messages of cron jobs while a gateway runs: through the outbox, once, however long it takes.

use hermes_config::Home;
use hermes_store::cron::{DeliveryTarget, Executions, RunMessage};
use jiff::{SignedDuration, Zoned};

use super::*;

/// A job that says the news to Ada.
fn add_job(gateway: &GatewayProcess, more: &[(&str, Value)]) {
    let mut job = json!({
        "id": "news", "name": "News", "schedule": "every 24h", "prompt": "the news please",
        "deliver": format!("telegram:{ADA}"),
    });
    for (key, value) in more {
        job[*key] = value.clone();
    }
    let (status, answer) = gateway.post("/api/jobs", &job);
    assert!((200..300).contains(&status), "{answer}");
}

/// Starts a gateway after Ada has written: a bot cannot write to somebody who never did.
fn start(home: &ChatHome) -> GatewayProcess {
    home.telegram.say(ADA, "/whoami");
    let gateway = home.start();
    home.wait_for_answers(ADA, 1);
    gateway
}

fn run_job(gateway: &GatewayProcess) {
    let (status, answer) = gateway.post("/api/jobs/news/run", &json!({}));
    assert_eq!(status, 202, "{answer}");
}

fn job(gateway: &GatewayProcess) -> Value {
    gateway.get("/api/jobs/news")["job"].clone()
}

/// Waits until the run and its delivery are in these states.
#[track_caller]
fn wait_for_states(gateway: &GatewayProcess, run: &str, delivery: &str) -> Value {
    let mut shown = Value::Null;
    wait_until(&format!("{run} and {delivery}"), || {
        shown = job(gateway);
        shown["last_status"] == run && shown["last_delivery_status"] == delivery
    });
    shown
}

fn news(home: &ChatHome) -> Vec<String> {
    let answers = home.telegram.answers(ADA).into_iter();
    answers
        .filter(|text| text.contains("It is sunny."))
        .collect()
}

fn script() -> ModelScript {
    ModelScript::default().rule("the news please", ScriptedAnswer::text("It is sunny."))
}

#[test]
fn a_message_is_delivered_when_the_platform_gave_it_an_id() {
    let home = ChatHome::new(script());
    let gateway = start(&home);
    add_job(&gateway, &[]);
    run_job(&gateway);
    let shown = wait_for_states(&gateway, "ok", "delivered");
    let delivery = &shown["last_deliveries"][0];
    assert_eq!(delivery["target"], format!("telegram:{ADA}"));
    assert!(delivery["message_id"].is_string(), "{delivery}");
    assert_eq!(shown["last_delivery_error"], Value::Null);
    assert_eq!(news(&home).len(), 1);
    let listed = home.gateway.home.run(&["cron", "list"]).ok();
    assert!(listed.stdout.contains("delivered"), "{}", listed.stdout);
    let runs = home
        .gateway
        .home
        .run(&["cron", "runs", "--json"])
        .ok()
        .json();
    assert_eq!(runs["runs"][0]["status"], "completed");
    assert_eq!(runs["runs"][0]["delivery_status"], "delivered");
}

#[test]
fn a_message_waits_for_a_platform_that_is_down_and_arrives_once() {
    let mut home = ChatHome::new(script());
    let gateway = start(&home);
    add_job(&gateway, &[]);
    home.telegram.go_offline();
    run_job(&gateway);
    // The run is over, whatever becomes of its message.
    wait_for_states(&gateway, "ok", "pending");
    let listed = home.gateway.home.run(&["cron", "list"]).ok();
    assert!(listed.stdout.contains("pending"), "{}", listed.stdout);
    home.telegram.come_back();
    wait_for_states(&gateway, "ok", "delivered");
    run_job(&gateway);
    wait_until("the second message", || news(&home).len() > 1);
    assert_eq!(news(&home).len(), 2, "{:?}", home.telegram.answers(ADA));
}

#[test]
fn a_gateway_that_is_killed_before_the_delivery_leaves_it_to_the_next() {
    let mut home = ChatHome::new(script());
    let mut gateway = start(&home);
    add_job(&gateway, &[]);
    home.telegram.go_offline();
    run_job(&gateway);
    wait_for_states(&gateway, "ok", "pending");
    gateway.process.kill();
    home.telegram.come_back();
    let gateway = home.start();
    wait_for_states(&gateway, "ok", "delivered");
    assert_eq!(news(&home).len(), 1);
    // The run itself was complete, and is not repeated.
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn what_a_killed_gateway_did_not_even_queue_is_sent_once_and_marked_late() {
    let home = ChatHome::new(script());
    home.telegram.say(ADA, "/whoami");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let an_hour_ago = Zoned::now() - SignedDuration::from_hours(1);
    runtime.block_on(async {
        let executions = Executions::open(&Home::at(home.gateway.home.path()))
            .await
            .unwrap();
        let id = executions
            .claim("news", "gateway", Some(1), &an_hour_ago)
            .await
            .unwrap();
        let message = RunMessage {
            text: "It is sunny.".into(),
            targets: vec![DeliveryTarget {
                target: format!("telegram:{ADA}"),
                is_kept: true,
            }],
            is_mirrored: false,
        };
        executions
            .finish_with_message(&id, None, Some(&message), &an_hour_ago)
            .await
            .unwrap();
        executions.close().await;
    });
    let is_delivered = || {
        let runs = home
            .gateway
            .home
            .run(&["cron", "runs", "--json"])
            .ok()
            .json();
        runs["runs"][0]["delivery_status"] == "delivered"
    };
    let gateway = home.start();
    wait_until("the delivery", is_delivered);
    drop(gateway);
    let gateway = home.start();
    home.telegram.say(ADA, "/whoami");
    home.wait_for_answers(ADA, 3);
    let sent = news(&home);
    assert_eq!(sent.len(), 1, "{:?}", home.telegram.answers(ADA));
    assert!(sent[0].contains("(sent late)"), "{sent:?}");
    drop(gateway);
}

#[test]
fn a_chat_that_refuses_the_message_fails_the_delivery_and_not_the_run() {
    let home = ChatHome::new(script());
    let gateway = start(&home);
    add_job(&gateway, &[("deliver", json!("telegram:99999"))]);
    run_job(&gateway);
    let shown = wait_for_states(&gateway, "ok", "failed");
    let error = shown["last_delivery_error"].as_str().unwrap();
    assert!(error.contains("chat not found"), "{error}");
    assert_eq!(shown["last_error"], Value::Null);
}

#[test]
fn a_message_is_part_of_the_conversation_where_the_job_says_so() {
    let home = ChatHome::new(script());
    let gateway = home.start();
    home.telegram.say(ADA, "hello");
    home.wait_for_answers(ADA, 1);
    add_job(&gateway, &[]);
    run_job(&gateway);
    wait_for_states(&gateway, "ok", "delivered");
    home.telegram.say(ADA, "what about it");
    home.wait_for_answers(ADA, 3);
    let told = home.last_turn().to_string();
    assert!(!told.contains("It is sunny."), "{told}");
    let patch = json!({"attach_to_session": true});
    let (status, answer) = gateway.request("PATCH", "/api/jobs/news", "", &patch);
    assert_eq!(status, 200, "{answer}");
    run_job(&gateway);
    wait_until("the message in the conversation", || {
        let sessions = gateway.get("/api/sessions")["sessions"].clone();
        let sessions = sessions.as_array().unwrap().iter();
        let mut chats = sessions.filter(|session| session["source"] == "telegram");
        chats.any(|session| {
            let id = session["id"].as_str().unwrap();
            let messages = gateway.get(&format!("/api/sessions/{id}/messages"));
            messages.to_string().contains("It is sunny.")
        })
    });
    home.telegram.say(ADA, "and now");
    home.wait_for_answers(ADA, 5);
    let told = home.last_turn().to_string();
    assert!(told.contains("It is sunny."), "{told}");
}

#[test]
fn a_target_that_cannot_be_resolved_is_refused_when_the_job_is_made() {
    let home = ChatHome::new(script());
    let gateway = home.start();
    for deliver in ["discord:42", "slack", "telegram:nobody", "nonsense"] {
        let job = json!({"schedule": "every 1h", "prompt": "x", "deliver": deliver});
        let (status, answer) = gateway.post("/api/jobs", &job);
        assert_eq!(status, 400, "{deliver}: {answer}");
        assert_eq!(answer["error"]["param"], "deliver", "{answer}");
        let arguments = ["cron", "create", "every 1h", "x", "--deliver", deliver];
        home.gateway.home.run(&arguments).exits_with(2);
    }
}
