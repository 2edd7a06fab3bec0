//! Results of the stateless era that ask for input: the same request again, with answers and the server's own state.

use std::{collections::HashSet, sync::Arc};

use hermes_testkit::{Behaviour, Era};
use serde_json::{Value, json};

use crate::{
    server_request::scripted_handler::{ScriptedHandler, UserScript, answer, start},
    setup::TransportKind,
};

fn stateless() -> Behaviour {
    Behaviour::new().era(Era::Stateless)
}

#[tokio::test]
async fn the_same_request_goes_out_again_with_answers_state_and_a_new_id() {
    for wire in [TransportKind::Stdio, TransportKind::Http] {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, peer) = start(wire, stateless(), &desk, json!({})).await;
        let told = setup.call("mcp_s_elicit", json!({ "extra": [1] })).await;
        assert_eq!(answer(&told)["action"], "accept");
        let calls = peer.calls("elicit");
        assert_eq!(calls.len(), 2, "{calls:?}");
        let (first, second) = (&calls[0], &calls[1]);
        assert_ne!(first["id"], second["id"]);
        assert_eq!(first["params"]["arguments"], second["params"]["arguments"]);
        assert!(first["params"].get("inputResponses").is_none());
        assert_eq!(second["params"]["requestState"], "elicit/1");
        let responses = second["params"]["inputResponses"].as_object().unwrap();
        assert_eq!(responses.keys().collect::<Vec<_>>(), ["elicit-0"]);
        assert_eq!(responses["elicit-0"]["action"], "accept");
    }
}

#[tokio::test]
async fn the_servers_state_goes_back_untouched() {
    let state = "{\"a\":1} äöü \u{1F600}\t\\ +/= \u{0} ".repeat(50);
    let desk = Arc::new(ScriptedHandler::new());
    let (setup, peer) = start(TransportKind::Stdio, stateless(), &desk, json!({})).await;
    let question = json!({ "method": "roots/list", "params": {} });
    let result = json!({
        "resultType": "input_required",
        "requestState": state,
        "inputRequests": { "where": question },
    });
    // It asks the same for ever; the second request is of interest.
    setup
        .error("mcp_s_content", json!({ "result": result }))
        .await;
    let calls = peer.calls("content");
    assert_eq!(calls[1]["params"]["requestState"], json!(state));
    assert!(calls[1]["params"]["inputResponses"]["where"]["roots"].is_array());
}

#[tokio::test]
async fn questions_without_end_stop_after_ten_rounds() {
    for wire in [TransportKind::Stdio, TransportKind::Http] {
        for tool in ["sample", "elicit", "roots"] {
            let behaviour = stateless().calls(|calls| calls.endless_input = true);
            let desk = Arc::new(ScriptedHandler::new());
            let (setup, peer) = start(wire, behaviour, &desk, json!({})).await;
            let error = setup.error(&format!("mcp_s_{tool}"), json!({})).await;
            assert!(error.contains("more than 10 times"), "{error}");
            let calls = peer.calls(tool);
            assert_eq!(calls.len(), 10, "{wire:?}: {tool}");
            let ids: HashSet<String> = calls.iter().map(|call| call["id"].to_string()).collect();
            assert_eq!(ids.len(), 10, "each has an id of its own");
            let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
            assert_eq!(told, json!({ "result": "next" }));
            setup.assert_ready("s");
        }
    }
}

#[tokio::test]
async fn a_result_that_asks_for_nothing_is_an_error() {
    let desk = Arc::new(ScriptedHandler::new());
    let (setup, peer) = start(TransportKind::Stdio, stateless(), &desk, json!({})).await;
    let result = json!({ "resultType": "input_required", "inputRequests": {} });
    let error = setup
        .error("mcp_s_content", json!({ "result": result }))
        .await;
    assert!(error.contains("nothing asked"), "{error}");
    assert_eq!(peer.calls("content").len(), 1);
}

#[tokio::test]
async fn a_question_of_an_unknown_kind_fails_the_call_and_nothing_else() {
    let desk = Arc::new(ScriptedHandler::new());
    let (setup, _peer) = start(TransportKind::Stdio, stateless(), &desk, json!({})).await;
    let question = json!({ "method": "telepathy/read", "params": {} });
    let result = json!({
        "resultType": "input_required", "requestState": "x", "inputRequests": { "q": question },
    });
    let error = setup
        .error("mcp_s_content", json!({ "result": result }))
        .await;
    assert!(!error.is_empty());
    let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
    assert_eq!(told, json!({ "result": "next" }));
}

#[tokio::test]
async fn several_questions_of_different_kinds_are_answered_in_one_round() {
    let desk = Arc::new(ScriptedHandler::with_person(UserScript::Signs));
    let (setup, peer) = start(TransportKind::Http, stateless(), &desk, json!({})).await;
    let message = json!({ "role": "user", "content": { "type": "text", "text": "Hi" } });
    let form = json!({
        "mode": "form", "message": "Who?",
        "requestedSchema": { "type": "object", "properties": {} },
    });
    let result = json!({
        "resultType": "input_required",
        "requestState": "s",
        "inputRequests": {
            "model": { "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 5 } },
            "person": { "method": "elicitation/create", "params": form },
            "roots": { "method": "roots/list" },
        },
    });
    setup
        .error("mcp_s_content", json!({ "result": result }))
        .await;
    let responses = &peer.calls("content")[1]["params"]["inputResponses"];
    assert_eq!(responses["model"]["model"], "parrot-1");
    assert_eq!(responses["person"]["action"], "accept");
    assert_eq!(responses["roots"]["roots"][0]["uri"], "file:///srv/project");
}

#[tokio::test]
async fn resources_and_prompts_may_ask_as_well() {
    use crate::{setup::Setup, transport::http::server};
    // Answers a read with a question first, and with what it was told then.
    let asking = server::Server::answering(|request| {
        let message = request.json();
        let params = &message["params"];
        let answers = &params["inputResponses"]["where"];
        let question = json!({
            "resultType": "input_required",
            "requestState": "s1",
            "inputRequests": { "where": { "method": "roots/list", "params": {} } },
        });
        let told = |text: &Value| match text {
            Value::Null => question.clone(),
            roots => {
                let text = roots["roots"][0]["uri"].as_str().unwrap_or_default();
                let content = json!({ "type": "text", "text": text });
                match message["method"].as_str() {
                    Some("prompts/get") => json!({
                        "resultType": "complete",
                        "messages": [{ "role": "user", "content": content }],
                    }),
                    _ => json!({
                        "resultType": "complete",
                        "contents": [{ "uri": "x://y", "text": text }],
                    }),
                }
            }
        };
        match request.what().as_str() {
            "server/discover" => server::result(
                request,
                &json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "resources": {}, "prompts": {} },
                    "ttlMs": 0,
                    "cacheScope": "private",
                }),
            ),
            "resources/list" => server::result(request, &json!({ "resources": [] })),
            "resources/templates/list" => {
                server::result(request, &json!({ "resourceTemplates": [] }))
            }
            "prompts/list" => server::result(request, &json!({ "prompts": [] })),
            "resources/read" | "prompts/get" => server::result(request, &told(answers)),
            _ => server::status(405),
        }
    })
    .await;
    let desk = Arc::new(ScriptedHandler::new());
    let entry = json!({ "url": asking.url("/mcp"), "skip_preflight": true });
    let home = hermes_testkit::TemporaryHome::new();
    let setup = Setup::with_handler(home, json!({ "s": entry }), desk.clone()).await;
    setup.assert_ready("s");
    let told = setup
        .call("mcp_s_read_resource", json!({ "uri": "x://y" }))
        .await;
    assert_eq!(told, json!({ "result": "file:///srv/project" }));
    let told = setup.call("mcp_s_get_prompt", json!({ "name": "p" })).await;
    assert_eq!(told["messages"][0]["content"], "file:///srv/project");
    assert_eq!(desk.questions().len(), 2);
}
