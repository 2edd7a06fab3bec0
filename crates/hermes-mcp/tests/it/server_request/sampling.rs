//! Servers that ask the model.

use std::sync::Arc;

use hermes_testkit::{Behaviour, Era};
use serde_json::{Value, json};

use crate::{
    server_request::scripted_handler::{ModelScript, ScriptedHandler, TOKENS, answer, start},
    setup::{ALL_TRANSPORTS, Setup, TransportKind, stdio},
};

#[tokio::test]
async fn the_models_answer_reaches_the_server_on_every_wire_in_both_eras() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let told = setup.call("mcp_s_sample", json!({ "prompt": "Hi" })).await;
        let expected = json!({
            "role": "assistant",
            "content": { "type": "text", "text": "You said: Hi" },
            "model": "parrot-1",
            "stopReason": "endTurn",
        });
        assert_eq!(answer(&told), expected, "{wire:?}, {era:?}");

        let asked = desk.questions();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].origin.server.as_str(), "s");
        assert_eq!(asked[0].content["maxTokens"], 100);
        let counts = setup.status("s").sampling.unwrap();
        assert_eq!((counts.requests, counts.errors), (1, 0));
        assert_eq!((counts.tokens_used, counts.tool_use_count), (TOKENS, 0));
    }
}

#[tokio::test]
async fn every_part_of_a_request_reaches_the_model() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let params = json!({
            "messages": [
                { "role": "user", "content": { "type": "text", "text": "Look." } },
                { "role": "assistant", "content": [
                    { "type": "text", "text": "I look." },
                    { "type": "tool_use", "id": "t1", "name": "look", "input": { "at": "sky" } },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "toolUseId": "t1", "content": [{ "type": "text", "text": "blue" }] },
                ] },
            ],
            "systemPrompt": "Be brief.",
            "maxTokens": 50,
            "temperature": 0.5,
            "stopSequences": ["END"],
            "modelPreferences": { "hints": [{ "name": "small" }] },
            "tools": [{ "name": "look", "inputSchema": { "type": "object" } }],
            "toolChoice": { "mode": "required" },
        });
        setup
            .call("mcp_s_sample", json!({ "params": params }))
            .await;
        let asked = &desk.questions()[0].content;
        for key in [
            "systemPrompt",
            "maxTokens",
            "temperature",
            "stopSequences",
            "modelPreferences",
            "toolChoice",
        ] {
            assert_eq!(asked[key], params[key], "{wire:?}, {era:?}: {asked}");
        }
        assert_eq!(asked["messages"][2]["content"][0]["toolUseId"], "t1");
        assert_eq!(asked["tools"][0]["name"], "look");
    }
}

#[tokio::test]
async fn a_refusal_is_code_minus_one_to_a_legacy_server_and_fails_the_call_of_a_stateless_one() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::with_model(ModelScript::Refuses(
            "over the limit",
        )));
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let told = setup.call("mcp_s_sample", json!({})).await;
        if era == Era::Stateless {
            assert_eq!(told, json!({ "error": "over the limit" }), "{wire:?}");
        } else {
            let error = &answer(&told)["error"];
            assert_eq!(error["code"], -1, "{wire:?}");
            assert_eq!(error["message"], "over the limit", "{wire:?}");
            assert_eq!(error["data"], json!({ "reason": "refused" }), "{wire:?}");
        }
        let counts = setup.status("s").sampling.unwrap();
        assert_eq!((counts.requests, counts.errors), (0, 1));
        assert_eq!(counts.tokens_used, 0);
    }
}

#[tokio::test]
async fn a_wish_to_use_a_tool_is_passed_on_and_counted() {
    let desk = Arc::new(ScriptedHandler::with_model(ModelScript::WantsTool));
    let (setup, _peer) = start(TransportKind::Stdio, Behaviour::new(), &desk, json!({})).await;
    let told = setup.call("mcp_s_sample", json!({})).await;
    assert_eq!(answer(&told)["stopReason"], "toolUse");
    assert_eq!(setup.status("s").sampling.unwrap().tool_use_count, 1);
}

#[tokio::test]
async fn a_flood_of_requests_in_one_call_is_answered_one_for_one() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let told = setup.call("mcp_s_sample", json!({ "requests": 20 })).await;
        let answers = answer(&told);
        assert_eq!(answers.as_array().unwrap().len(), 20, "{wire:?}, {era:?}");
        let is_answer = |answer: &Value| answer["model"] == "parrot-1";
        assert!(answers.as_array().unwrap().iter().all(is_answer));
        let counts = setup.status("s").sampling.unwrap();
        assert_eq!((counts.requests, counts.tokens_used), (20, 20 * TOKENS));
    }
}

#[tokio::test]
async fn counts_are_kept_over_a_reconnect() {
    let desk = Arc::new(ScriptedHandler::new());
    let (setup, _peer) = start(TransportKind::Stdio, Behaviour::new(), &desk, json!({})).await;
    setup.call("mcp_s_sample", json!({})).await;
    setup.call("mcp_s_crash", json!({})).await;
    let told = setup.call("mcp_s_sample", json!({})).await;
    assert_eq!(answer(&told)["model"], "parrot-1");
    assert_eq!(setup.status("s").sampling.unwrap().requests, 2);
}

#[tokio::test]
async fn without_a_model_nothing_is_declared_and_an_uninvited_question_is_refused() {
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new()
            .era(era)
            .calls(|calls| calls.ask_undeclared = true);
        let home = hermes_testkit::TemporaryHome::new();
        let peer = crate::setup::RecordedServer::new(wire, behaviour, home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let told = setup.call("mcp_s_protocol", json!({})).await;
        assert_eq!(
            answer(&told)["capabilities"],
            json!({}),
            "{wire:?}, {era:?}"
        );

        let told = setup.call("mcp_s_sample", json!({})).await;
        let refusal = if era == Era::Stateless {
            told["error"].clone()
        } else {
            let error = answer(&told)["error"].clone();
            assert_eq!(error["code"], -1, "{wire:?}");
            error["message"].clone()
        };
        assert_eq!(refusal, "sampling is not available here", "{wire:?}");
        setup.assert_ready("s");
    }
}

#[tokio::test]
async fn a_server_that_respects_capabilities_is_told_that_there_is_no_model() {
    for era in [Era::Legacy, Era::Stateless] {
        let setup = Setup::start(json!({ "s": stdio(&Behaviour::new().era(era)) })).await;
        let error = setup.error("mcp_s_sample", json!({})).await;
        assert!(
            error.contains("sampling") || error.contains("client capability"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn what_is_offered_is_declared_and_nothing_else() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let told = setup.call("mcp_s_protocol", json!({})).await;
        let said = answer(&told);
        let declared = &said["capabilities"];
        let names: Vec<&String> = declared.as_object().unwrap().keys().collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(declared["sampling"], json!({ "tools": {} }));
        assert_eq!(declared["elicitation"], json!({ "form": {}, "url": {} }));
        assert!(declared["roots"].is_object());
        assert_eq!(said["clientInfo"]["name"], "hermes");
    }
}
