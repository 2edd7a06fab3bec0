//! Which call a question belongs to.

use std::sync::Arc;

use hermes_mcp::{CallOptions, server_request::ConversationId};
use hermes_testkit::{Behaviour, Era};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::{
    server_request::scripted_handler::{ScriptedHandler, UserScript, answer, start},
    setup::{Setup, TransportKind},
};

/// Asks in one conversation for something that names it.
async fn ask(setup: &Setup, conversation: &str) -> Value {
    let options = CallOptions {
        conversation: Some(ConversationId(conversation.into())),
        ..CallOptions::default()
    };
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "mode": "form", "message": conversation, "requestedSchema": schema });
    let told = setup
        .call_with("mcp_s_elicit", json!({ "params": params }), &options)
        .await;
    answer(&told)
}

async fn ask_three_at_once(wire: TransportKind, era: Era) -> (Vec<Value>, Arc<ScriptedHandler>) {
    // All three questions have to be on the desk before the first is answered.
    let desk = Arc::new(ScriptedHandler::with_person(UserScript::SignsTogether(
        Barrier::new(3),
    )));
    let keys = json!({ "supports_parallel_tool_calls": true });
    let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, keys).await;
    let (one, two, three) =
        tokio::join!(ask(&setup, "one"), ask(&setup, "two"), ask(&setup, "three"));
    (vec![one, two, three], desk)
}

#[tokio::test]
async fn parallel_calls_get_their_own_questions() {
    for (wire, era) in [
        (TransportKind::Stdio, Era::Stateless),
        (TransportKind::Http, Era::Legacy),
        (TransportKind::Http, Era::Stateless),
    ] {
        let (answers, desk) = ask_three_at_once(wire, era).await;
        for (answer, name) in answers.iter().zip(["one", "two", "three"]) {
            let expected = json!({ "action": "accept", "content": { "name": name } });
            assert_eq!(*answer, expected, "{wire:?}, {era:?}");
        }
        let asked = desk.questions();
        for question in &asked {
            assert_eq!(
                question.conversation(),
                question.content["message"].as_str(),
                "{wire:?}, {era:?}"
            );
        }
        let mut calls: Vec<_> = asked.iter().map(|question| question.origin.call).collect();
        calls.sort_unstable();
        calls.dedup();
        assert!(calls.len() == 3 && calls[0].is_some(), "{calls:?}");
    }
}

#[tokio::test]
async fn over_wires_that_do_not_say_whose_question_it_is_each_still_gets_an_answer() {
    for wire in [TransportKind::Stdio, TransportKind::Sse] {
        let (answers, desk) = ask_three_at_once(wire, Era::Legacy).await;
        for answer in answers {
            assert_eq!(answer["action"], "accept", "{wire:?}");
        }
        for question in desk.questions() {
            let known = ["one", "two", "three"];
            assert!(known.contains(&question.conversation().unwrap()));
        }
    }
}

#[tokio::test]
async fn a_call_outside_any_conversation_has_none() {
    let desk = Arc::new(ScriptedHandler::new());
    let (setup, _peer) = start(TransportKind::Stdio, Behaviour::new(), &desk, json!({})).await;
    let told = setup.call("mcp_s_elicit", json!({})).await;
    assert_eq!(answer(&told)["content"], json!({ "name": "nobody" }));
    assert_eq!(desk.questions()[0].conversation(), None);
}

#[tokio::test]
async fn every_call_has_an_id_of_its_own_and_keeps_it_over_several_questions() {
    let desk = Arc::new(ScriptedHandler::new());
    let (setup, _peer) = start(TransportKind::Stdio, Behaviour::new(), &desk, json!({})).await;
    setup.call("mcp_s_sample", json!({ "requests": 3 })).await;
    setup.call("mcp_s_sample", json!({})).await;
    let calls: Vec<_> = desk
        .questions()
        .iter()
        .map(|q| q.origin.call.unwrap())
        .collect();
    assert_eq!(calls.len(), 4);
    assert!(calls[..3].iter().all(|call| *call == calls[0]));
    assert_ne!(calls[3], calls[0]);
}
