//! Servers that ask a person, and those that ask for the roots.

use std::{pin::pin, sync::Arc, time::Duration};

use hermes_mcp::{CallOptions, server_request::ConversationId};
use hermes_testkit::{Behaviour, Era, TemporaryHome};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    server_request::scripted_handler::{ScriptedHandler, UserScript, answer, start},
    setup::{
        ALL_TRANSPORTS, RecordedServer, Setup, TransportKind, eventually, over_every_transport,
    },
};

fn in_conversation(name: &str) -> CallOptions {
    CallOptions {
        conversation: Some(ConversationId(name.into())),
        ..CallOptions::default()
    }
}

#[tokio::test]
async fn a_form_is_filled_in_where_the_call_came_from() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let options = in_conversation("telegram/42");
        let told = setup.call_with("mcp_s_elicit", json!({}), &options).await;
        let expected = json!({ "action": "accept", "content": { "name": "telegram/42" } });
        assert_eq!(answer(&told), expected, "{wire:?}, {era:?}");

        let asked = &desk.questions()[0];
        assert_eq!(asked.origin.server.as_str(), "s");
        assert!(asked.origin.call.is_some());
        assert_eq!(asked.content["message"], "What is your name?");
        let schema = &asked.content["requestedSchema"];
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["properties"]["name"]["type"], "string");
        let counts = setup.status("s").elicitation;
        assert_eq!((counts.requests, counts.accepted), (1, 1));
    }
}

#[tokio::test]
async fn a_link_is_agreed_to_without_content() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let told = setup.call("mcp_s_elicit_url", json!({})).await;
        assert_eq!(
            answer(&told),
            json!({ "action": "accept" }),
            "{wire:?}, {era:?}"
        );
        let asked = &desk.questions()[0].content;
        assert_eq!(asked["url"], "https://login.example.com/start");
        assert_eq!(asked["elicitationId"], "login-1");
    }
}

#[tokio::test]
async fn a_refusal_is_passed_on_and_counted() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::with_person(UserScript::Declines));
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        for tool in ["mcp_s_elicit", "mcp_s_elicit_url"] {
            let told = setup.call(tool, json!({})).await;
            assert_eq!(
                answer(&told),
                json!({ "action": "decline" }),
                "{wire:?}, {era:?}"
            );
        }
        let counts = setup.status("s").elicitation;
        assert_eq!((counts.requests, counts.declined), (2, 2));
    }
}

#[tokio::test]
async fn a_question_that_nobody_could_be_asked_is_declined_and_counted_as_an_error() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::with_person(UserScript::IsAway));
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let told = setup.call("mcp_s_elicit", json!({})).await;
        let expected = json!({ "action": "decline" });
        assert_eq!(answer(&told), expected, "{wire:?}, {era:?}");
        let counts = setup.status("s").elicitation;
        assert_eq!((counts.requests, counts.declined, counts.errors), (1, 0, 1));
    }
}

#[tokio::test]
async fn a_legacy_form_that_cannot_be_read_is_declined() {
    for wire in [TransportKind::Stdio, TransportKind::Http] {
        let desk = Arc::new(ScriptedHandler::new());
        let behaviour = Behaviour::new().era(Era::Legacy);
        let (setup, _peer) = start(wire, behaviour, &desk, json!({})).await;
        let schema = json!({ "type": "object", "properties": { "x": { "type": "matrix" } } });
        let params = json!({ "message": "Odd.", "requestedSchema": schema });
        let told = setup
            .call("mcp_s_elicit", json!({ "params": params }))
            .await;
        assert_eq!(answer(&told), json!({ "action": "decline" }), "{wire:?}");
        assert!(desk.questions().is_empty());
        assert_eq!(setup.status("s").elicitation.errors, 1);
    }
}

#[tokio::test]
async fn an_uninvited_question_is_declined_when_nobody_is_there() {
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new()
            .era(era)
            .calls(|calls| calls.ask_undeclared = true);
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, behaviour, home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        for tool in ["mcp_s_elicit", "mcp_s_elicit_url"] {
            let told = setup.call(tool, json!({})).await;
            assert_eq!(
                answer(&told),
                json!({ "action": "decline" }),
                "{wire:?}, {era:?}"
            );
        }
        let told = setup.call("mcp_s_roots", json!({})).await;
        assert_eq!(answer(&told), json!({ "roots": [] }), "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn a_person_who_never_answers_has_cancelled_after_the_time_allowed() {
    over_every_transport(async |wire, era| {
        let desk = Arc::new(ScriptedHandler::with_person(UserScript::NeverAnswers));
        let keys = json!({ "elicitation": { "timeout": 1 } });
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, keys).await;
        let told = setup.call("mcp_s_elicit", json!({})).await;
        assert_eq!(
            answer(&told),
            json!({ "action": "cancel" }),
            "{wire:?}, {era:?}"
        );
        let counts = setup.status("s").elicitation;
        assert_eq!((counts.requests, counts.cancelled), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn the_clock_of_the_call_stands_still_while_a_person_is_asked() {
    over_every_transport(async |wire, era| {
        let sign = Arc::new(Notify::new());
        let script = UserScript::SignsWhenTold(Arc::clone(&sign));
        let desk = Arc::new(ScriptedHandler::with_person(script));
        let keys = json!({ "timeout": 3 });
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, keys).await;
        let mut call = pin!(setup.call("mcp_s_elicit", json!({})));
        let early = tokio::time::timeout(Duration::from_millis(3500), &mut call).await;
        assert!(early.is_err(), "{wire:?}, {era:?}: {early:?}");
        sign.notify_one();
        assert_eq!(answer(&call.await)["action"], "accept", "{wire:?}, {era:?}");
        // It runs again afterwards.
        let error = setup.error("mcp_s_sleep", json!({ "ms": 60_000 })).await;
        assert!(error.contains("allowed: 3 s"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_call_can_be_interrupted_while_a_person_is_asked() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::with_person(UserScript::NeverAnswers));
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let options = CallOptions::default();
        let call = setup.call_with("mcp_s_elicit", json!({}), &options);
        let interrupt = async {
            eventually("the question comes", || desk.questions().len() == 1).await;
            options.cancel.cancel();
        };
        let (told, ()) = tokio::join!(call, interrupt);
        assert_eq!(told, json!({ "error": "interrupted by the user" }));
        let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
        assert_eq!(told, json!({ "result": "next" }), "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn other_calls_go_on_while_a_person_is_asked() {
    for (wire, era) in ALL_TRANSPORTS {
        let sign = Arc::new(Notify::new());
        let script = UserScript::SignsWhenTold(Arc::clone(&sign));
        let desk = Arc::new(ScriptedHandler::with_person(script));
        let keys = json!({ "supports_parallel_tool_calls": true });
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, keys).await;
        let asking = setup.call("mcp_s_elicit", json!({}));
        let others = async {
            eventually("the question comes", || desk.questions().len() == 1).await;
            for _ in 0..5 {
                let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
                assert_eq!(told, json!({ "result": "hi" }));
            }
            assert_eq!(
                setup.status("s").elicitation.requests,
                0,
                "not answered yet"
            );
            sign.notify_one();
        };
        let (told, ()) = tokio::join!(asking, others);
        assert_eq!(answer(&told)["action"], "accept", "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn roots_are_told_to_whoever_asks() {
    for (wire, era) in ALL_TRANSPORTS {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(wire, Behaviour::new().era(era), &desk, json!({})).await;
        let told = setup.call("mcp_s_roots", json!({})).await;
        let expected = json!({ "roots": [
            { "uri": "file:///srv/project", "name": "project" },
            { "uri": "file:///tmp" },
        ] });
        assert_eq!(answer(&told), expected, "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn a_form_of_every_kind_of_field_arrives_whole() {
    for era in [Era::Legacy, Era::Stateless] {
        let desk = Arc::new(ScriptedHandler::new());
        let (setup, _peer) = start(
            TransportKind::Stdio,
            Behaviour::new().era(era),
            &desk,
            json!({}),
        )
        .await;
        let schema = json!({
            "type": "object",
            "properties": {
                "mail": { "type": "string", "format": "email", "title": "Mail", "default": "a@b.c" },
                "short": { "type": "string", "minLength": 1, "maxLength": 3 },
                "age": { "type": "integer", "minimum": 0, "maximum": 150 },
                "ratio": { "type": "number", "default": 0.5 },
                "sure": { "type": "boolean", "default": true },
                "colour": { "type": "string", "enum": ["red", "blue"] },
                "size": { "type": "string", "oneOf": [
                    { "const": "s", "title": "Small" }, { "const": "l", "title": "Large" },
                ] },
                "days": { "type": "array", "minItems": 1, "items": { "type": "string", "enum": ["mon", "tue"] } },
            },
            "required": ["mail", "age"],
        });
        let params = json!({ "mode": "form", "message": "All of it.", "requestedSchema": schema });
        let told = setup
            .call("mcp_s_elicit", json!({ "params": params }))
            .await;
        assert_eq!(answer(&told)["action"], "accept", "{era:?}");
        let asked = &desk.questions()[0].content["requestedSchema"];
        assert_eq!(asked["required"], schema["required"]);
        for (name, field) in schema["properties"].as_object().unwrap() {
            let arrived = asked["properties"][name].as_object();
            let arrived = arrived.unwrap_or_else(|| panic!("{era:?}: `{name}` is lost: {asked}"));
            for (key, value) in field.as_object().unwrap() {
                assert_eq!(&arrived[key], value, "{era:?}: `{name}.{key}`");
            }
        }
    }
}
