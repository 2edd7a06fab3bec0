//! Successful replies, streamed and whole.

use hermes_agent::{
    message::{AssistantMessage, Message, ToolCall},
    model::{FinishReason, Model, ModelEvent, ModelRequest, Protocol, TokenUsage, ToolDefinition},
};
use hermes_testkit::{
    eventually,
    model::{
        ModelScript, ModelServer, ReplyEnding, ScriptedAnswer, ScriptedCall, ScriptedReply,
        ScriptedUsage,
    },
};
use serde_json::json;

use super::{BOTH, KEY, TIMEOUT, complete, echo, endpoint, send_prompt, shown, single_attempt};

#[tokio::test]
async fn text_is_shown_as_it_arrives() {
    for protocol in BOTH {
        let answer =
            ScriptedAnswer::pieces(["Hel", "lo ", "you"]).with(|reply| reply.pause_ms = 100);
        let unfinished = answer
            .clone()
            .with(|reply| reply.ending = ReplyEnding::Stalled);
        let server = ModelServer::start(ModelScript::new([answer, unfinished]));
        let model = single_attempt(&server, protocol);
        let (reply, events) = send_prompt(&model, "hi").await;
        let reply = reply.unwrap();
        assert_eq!(reply.text, "Hello you");
        assert_eq!(reply.finish, FinishReason::Stop);
        assert_eq!(shown(&events), ["Hel", "lo ", "you"]);
        // Nor is the end waited for, which here never comes.
        let messages = [Message::user("hi")];
        let request = ModelRequest {
            messages: &messages,
            ..ModelRequest::default()
        };
        let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel();
        let mut sink = |event| sender.send(event).unwrap();
        let all = async {
            for expected in ["Hel", "lo ", "you"] {
                let piece = pieces.recv().await.unwrap();
                assert_eq!(shown(&[piece]), [expected]);
            }
        };
        tokio::select! {
            ended = model.complete(&request, &mut sink) => panic!("{ended:?}"),
            () = all => {}
        }
    }
}

#[tokio::test]
async fn each_protocol_has_its_own_address_and_headers() {
    let server = echo();
    for protocol in BOTH {
        let (reply, events) = send_prompt(&single_attempt(&server, protocol), "hello").await;
        assert_eq!(reply.unwrap().text, "hello");
        assert_eq!(shown(&events), ["hello"]);
    }
    let requests = server.requests();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(
        requests[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert_eq!(requests[0].header("x-api-key"), None);
    assert_eq!(requests[1].path, "/v1/messages");
    assert_eq!(requests[1].header("x-api-key"), Some(KEY));
    assert_eq!(requests[1].header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(requests[1].header("authorization"), None);
    for request in &requests {
        assert_eq!(request.body["model"], "some-model");
        assert_eq!(request.body["stream"], true);
    }
}

#[tokio::test]
async fn without_a_key_no_key_is_sent() {
    let server = echo();
    for protocol in BOTH {
        let mut endpoint = endpoint(&server, protocol);
        endpoint.key.value = None;
        let model = hermes_agent::model::HttpModel::new(endpoint, std::sync::Arc::default());
        send_prompt(&model, "hello").await.0.unwrap();
    }
    for request in server.requests() {
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("x-api-key"), None);
    }
}

#[tokio::test]
async fn parallel_calls_are_put_together_from_interleaved_pieces() {
    for protocol in BOTH {
        let answer = ScriptedAnswer::calls([
            ("read", json!({"path": "a.txt"})),
            ("list", json!({"path": "b"})),
        ])
        .with(|reply| reply.text = vec!["Let me look.".into()]);
        let server = ModelServer::start(ModelScript::new([answer]));
        let (reply, events) = send_prompt(&single_attempt(&server, protocol), "go").await;
        let reply = reply.unwrap();
        assert_eq!(reply.finish, FinishReason::ToolCalls);
        assert_eq!(
            reply.tool_calls,
            [
                ToolCall::new("call_0", "read", "{\"path\":\"a.txt\"}"),
                ToolCall::new("call_1", "list", "{\"path\":\"b\"}"),
            ]
        );
        let started: Vec<_> = events
            .into_iter()
            .filter(|event| matches!(event, ModelEvent::ToolCallStarted { .. }))
            .collect();
        assert_eq!(
            started,
            [
                ModelEvent::ToolCallStarted {
                    name: "read".into()
                },
                ModelEvent::ToolCallStarted {
                    name: "list".into()
                },
            ]
        );
    }
}

#[tokio::test]
async fn odd_calls_arrive_all_the_same() {
    let answer = ScriptedAnswer::Reply(ScriptedReply {
        calls: vec![
            ScriptedCall {
                name: "late".into(),
                arguments: vec!["{\"a\"".into(), ":1}".into()],
                name_last: true,
                ..ScriptedCall::default()
            },
            ScriptedCall {
                id: Some("x".into()),
                name: "broken".into(),
                arguments: vec!["{\"a\": ".into()],
                ..ScriptedCall::default()
            },
        ],
        finish: Some("stop".into()),
        ..ScriptedReply::default()
    });
    let server = ModelServer::start(ModelScript::new([answer]));
    let (reply, _) = send_prompt(&single_attempt(&server, Protocol::ChatCompletions), "go").await;
    let reply = reply.unwrap();
    assert_eq!(reply.finish, FinishReason::ToolCalls);
    let [late, broken] = reply.tool_calls.as_slice() else {
        panic!("{:?}", reply.tool_calls);
    };
    assert!(late.id.starts_with("call_"));
    assert_eq!(
        (late.name.as_str(), late.arguments.as_str()),
        ("late", "{\"a\":1}")
    );
    assert_eq!(broken, &ToolCall::new("x", "broken", "{\"a\": "));
    assert!(broken.parse_arguments().is_err());
}

#[tokio::test]
async fn thoughts_usage_and_reasons_are_reported() {
    for protocol in BOTH {
        let (reason, expected) = match protocol {
            Protocol::ChatCompletions => ("length", FinishReason::Length),
            Protocol::AnthropicMessages => ("max_tokens", FinishReason::Length),
        };
        let answer = ScriptedAnswer::text("4").with(|reply| {
            reply.reasoning = vec!["two ".into(), "and two".into()];
            reply.finish = Some(reason.into());
            reply.usage = Some(ScriptedUsage {
                prompt: 100,
                cached: 80,
                completion: 5,
            });
        });
        let server = ModelServer::start(ModelScript::new([answer]));
        let (reply, events) = send_prompt(&single_attempt(&server, protocol), "2+2").await;
        let reply = reply.unwrap();
        assert_eq!(reply.text, "4");
        assert_eq!(reply.reasoning.text.as_deref(), Some("two and two"));
        assert_eq!(events[0], ModelEvent::ReasoningDelta("two ".into()));
        assert_eq!(reply.finish, expected);
        assert_eq!(
            reply.usage.unwrap(),
            TokenUsage {
                input_tokens: 20,
                cache_read_tokens: 80,
                output_tokens: 5,
                ..TokenUsage::default()
            }
        );
        assert_eq!(reply.model, "some-model");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    for protocol in BOTH {
        let answer = ScriptedAnswer::calls([("read", json!({"n": 1})), ("read", json!({"n": 2}))])
            .with(|reply| reply.text = vec!["so".into()]);
        let server = ModelServer::start(ModelScript {
            never_streams: true,
            ..ModelScript::new([answer])
        });
        let (reply, events) = send_prompt(&single_attempt(&server, protocol), "go").await;
        let reply = reply.unwrap();
        assert_eq!(reply.text, "so");
        assert_eq!(reply.tool_calls.len(), 2);
        assert_eq!(reply.tool_calls[1].arguments, "{\"n\":2}");
        assert_eq!(shown(&events), ["so"]);
    }
}

#[tokio::test]
async fn a_conversation_with_calls_goes_round() {
    for protocol in BOTH {
        let script = ModelScript::new([ScriptedAnswer::call("weather", &json!({"city": "Bern"}))])
            .rule("rain", ScriptedAnswer::text("Take an umbrella."));
        let server = ModelServer::start(script);
        let model = single_attempt(&server, protocol);
        let tools = [ToolDefinition {
            name: "weather".into(),
            description: "tells the weather".into(),
            parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}})
                .into(),
        }];
        let mut messages = vec![Message::system("be brief"), Message::user("umbrella?")];
        let request = ModelRequest {
            messages: &messages,
            tools: &tools,
            ..ModelRequest::default()
        };
        let reply = complete(&model, &request).await.0.unwrap();
        let call = reply.tool_calls[0].clone();
        messages.push(reply.into_message());
        messages.push(Message::tool(&call, "rain"));
        let request = ModelRequest {
            messages: &messages,
            tools: &tools,
            ..ModelRequest::default()
        };
        let reply = complete(&model, &request).await.0.unwrap();
        assert_eq!(reply.text, "Take an umbrella.");
        assert!(matches!(
            &messages[2],
            Message::Assistant(AssistantMessage { tool_calls, .. }) if tool_calls.len() == 1
        ));
    }
}

#[tokio::test]
async fn dropping_the_request_closes_the_connection() {
    for protocol in BOTH {
        let server = ModelServer::start(ModelScript::new([
            ScriptedAnswer::Silence,
            ScriptedAnswer::text("slow").with(|reply| reply.ending = ReplyEnding::Stalled),
        ]));
        let model = single_attempt(&server, protocol);
        for number in 1..=2 {
            let has_arrived = eventually(TIMEOUT, || server.requests().len() == number);
            tokio::select! {
                answer = send_prompt(&model, "hi") => panic!("{answer:?}"),
                has_arrived = has_arrived => assert!(has_arrived),
            }
            let is_closed = || {
                let requests = server.requests();
                requests.len() == number && requests[number - 1].abandoned
            };
            assert!(eventually(TIMEOUT, is_closed).await);
        }
    }
}
