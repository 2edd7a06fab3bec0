//! Calls: progress, cancelling, and answers that are wrong or missing.

use super::*;
use crate::{
    behaviour::{OnCancel, WrongId},
    wire::META_LOG_LEVEL,
};

#[test]
fn progress_carries_the_token_of_its_request() {
    let client = Client::legacy(Behaviour::new());
    let answer = client.request(
        "tools/call",
        &json!({ "name": "progress", "arguments": { "steps": 2, "interval_ms": 1 }, "_meta": { "progressToken": "p" } }),
    );
    assert_eq!(text(&answer), "2 steps");
    let progress: Vec<Value> = client
        .messages()
        .into_iter()
        .filter(|message| message["method"] == "notifications/progress")
        .collect();
    assert_eq!(progress.len(), 2);
    assert!(progress.iter().all(|p| p["params"]["progressToken"] == "p"));
}

#[test]
fn a_cancelled_call_stops_without_an_answer() {
    let client = Client::legacy(Behaviour::new());
    let id = client.start(
        "tools/call",
        &json!({ "name": "sleep", "arguments": { "ms": 1000 } }),
    );
    client.cancel(&id);
    // Long enough for an answer to a call that was not cancelled.
    let is_answered = || client.find(|message| message["id"] == id).is_some();
    assert!(!wait_until(Duration::from_millis(1500), is_answered));
}

#[test]
fn a_cancelled_call_may_be_answered_all_the_same() {
    for (on_cancel, ms, expected) in [
        (OnCancel::LateReply, 600_000, "late reply"),
        (OnCancel::Ignore, 50, "slept 50 ms"),
    ] {
        let client = Client::legacy(Behaviour::new().calls(|calls| calls.on_cancel = on_cancel));
        let id = client.start(
            "tools/call",
            &json!({ "name": "sleep", "arguments": { "ms": ms } }),
        );
        client.cancel(&id);
        assert_eq!(
            text(&client.wait_for(|message| message["id"] == id)),
            expected
        );
    }
}

#[test]
fn a_server_dies_after_its_last_call() {
    let client = Client::legacy(Behaviour::new().calls(|calls| calls.die_after = Some(2)));
    client.call("echo", &json!({}));
    assert!(lock(&client.exits).is_empty());
    client.call("echo", &json!({}));
    assert_eq!(*lock(&client.exits), [3]);
}

#[test]
fn answers_can_carry_wrong_ids() {
    for (wrong, expected) in [
        (WrongId::Unknown, json!(987_654_321)),
        (WrongId::Null, Value::Null),
    ] {
        let client = Client::legacy(Behaviour::new().calls(|calls| calls.wrong_id = Some(wrong)));
        client.start("tools/call", &json!({ "name": "echo" }));
        assert_eq!(client.messages().last().unwrap()["id"], expected);
    }
}

#[test]
fn odd_result_types_and_secrets_reach_the_client() {
    let client = Client::legacy(Behaviour::new().calls(|calls| {
        calls.result_type = Some("riddle".to_owned());
        calls.secrets_in_errors = true;
    }));
    let failed = client.call("fail", &json!({}));
    assert_eq!(failed["result"]["resultType"], "riddle");
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(text(&failed), SECRETS);
    assert_eq!(
        error_code(&client.call("fail", &json!({ "code": -32000 }))),
        -32000
    );
}

#[test]
fn a_tool_may_never_answer_and_another_may_answer_too_much() {
    let client = Client::legacy(
        Behaviour::new()
            .calls(|calls| calls.never_answer = vec!["echo".to_owned()])
            .process(|process| {
                process.oversized_line = Some(crate::OversizedLine {
                    bytes: 1000,
                    instead_of: "big".to_owned(),
                });
            }),
    );
    let before = client.messages().len();
    client.start("tools/call", &json!({ "name": "echo" }));
    assert_eq!(client.messages().len(), before);
    client.start("tools/call", &json!({ "name": "big" }));
    assert_eq!(client.messages().last().unwrap()["oversized"], 1000);
}

#[test]
fn messages_are_logged_at_the_level_asked_for() {
    let client = Client::legacy(Behaviour::new());
    let log =
        |level| text(&client.call("log", &json!({ "level": level, "message": "m" }))).to_owned();
    assert_eq!(log("debug"), "logged");
    client.request("logging/setLevel", &json!({ "level": "error" }));
    assert_eq!(log("warning"), "not wanted");
    assert_eq!(log("critical"), "logged");

    let mut params = stateless_call("log", &json!({}));
    assert_eq!(text(&client.request("tools/call", &params)), "not wanted");
    params["_meta"][META_LOG_LEVEL] = json!("info");
    assert_eq!(text(&client.request("tools/call", &params)), "logged");
}
