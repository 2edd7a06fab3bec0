//! Bodies of requests.

use super::*;
use crate::{
    message::Reasoning,
    model::{Protocol, endpoint},
};

fn body_of(request: &ModelRequest<'_>) -> Value {
    let endpoint = endpoint::for_tests(
        Protocol::AnthropicMessages,
        "https://x",
        "claude-sonnet-4-5",
    );
    serde_json::from_slice(&request_body(&endpoint, request).unwrap()).unwrap()
}

fn sent(messages: &[Message]) -> Value {
    let request = ModelRequest {
        messages,
        ..ModelRequest::default()
    };
    body_of(&request)
}

/// The turns without their marks.
fn plain_turns(messages: &[Message]) -> Value {
    let mut turns = sent(messages)["messages"].take();
    for turn in turns.as_array_mut().unwrap() {
        for block in turn["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    turns
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn remembered(text: &str) -> Value {
    json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})
}

fn weather() -> ToolDefinition {
    ToolDefinition {
        name: "weather".into(),
        description: "tells it".into(),
        parameters: json!({"type": "object", "properties": {}}).into(),
    }
}

#[test]
fn system_text_has_its_own_place() {
    let body = sent(&[
        Message::system("one"),
        Message::user("hi"),
        Message::system("two"),
    ]);
    assert_eq!(body["system"], json!([text("one"), remembered("two")]));
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": [remembered("hi")]}])
    );
    assert_eq!(body["max_tokens"], 32_000);
    assert_eq!(body["stream"], true);
}

#[test]
fn results_belong_to_the_users_turn_and_turns_alternate() {
    let calls = vec![
        ToolCall::new("a", "weather", "{\"at\": 1}"),
        ToolCall::new("b", "weather", "broken"),
    ];
    let messages = [
        Message::user("1"),
        Message::user("2"),
        Message::Assistant(AssistantMessage {
            content: "let me see".into(),
            tool_calls: calls.clone(),
            ..AssistantMessage::default()
        }),
        Message::tool(&calls[0], "rain"),
        Message::tool(&calls[1], ""),
        Message::user("3"),
    ];
    assert_eq!(
        plain_turns(&messages),
        json!([
            {"role": "user", "content": [text("1"), text("2")]},
            {"role": "assistant", "content": [
                text("let me see"),
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"at": 1}},
                {"type": "tool_use", "id": "b", "name": "weather", "input": {"_raw": "broken"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("rain")]},
                {"type": "tool_result", "tool_use_id": "b", "content": []},
                text("3"),
            ]},
        ])
    );
}

#[test]
fn the_first_turn_is_always_the_users() {
    let turns = plain_turns(&[Message::assistant("well"), Message::user("and?")]);
    assert_eq!(turns[0]["role"], "user");
    assert_eq!(
        turns[1],
        json!({"role": "assistant", "content": [text("well")]})
    );
}

#[test]
fn empty_messages_are_left_out() {
    let turns = plain_turns(&[
        Message::user("hi"),
        Message::assistant(" "),
        Message::user("there"),
    ]);
    assert_eq!(
        turns,
        json!([{"role": "user", "content": [text("hi"), text("there")]}])
    );
}

#[test]
fn the_stable_beginning_is_remembered() {
    let messages = [
        Message::user("1"),
        Message::assistant("2"),
        Message::user("3"),
        Message::assistant("4"),
        Message::user("5"),
    ];
    let tools = [weather(), weather()];
    let request = ModelRequest {
        messages: &messages,
        tools: &tools,
        ..ModelRequest::default()
    };
    let body = body_of(&request);
    let marked: Vec<bool> = (0..5)
        .map(|turn| {
            body["messages"][turn]["content"][0]
                .get("cache_control")
                .is_some()
        })
        .collect();
    assert_eq!(marked, [false, false, true, false, true]);
    assert_eq!(body["tools"][0].get("cache_control"), None);
    assert!(body["tools"][1].get("cache_control").is_some());
}

#[test]
fn images_become_sources() {
    let parts = vec![
        Part::from_image_bytes("image/png", b"\x89PNG"),
        Part::from_image_url("https://example.com/a.png"),
        Part::from_text("which?"),
    ];
    assert_eq!(
        plain_turns(&[Message::user(parts)])[0]["content"],
        json!([
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            text("which?"),
        ])
    );
}

#[test]
fn tools_and_choices_are_translated() {
    let tools = [weather()];
    let stop = ["END".to_owned()];
    let choice = |tool_choice| {
        let request = ModelRequest {
            tools: &tools,
            tool_choice,
            max_tokens: Some(5),
            temperature: Some(0.2),
            stop: &stop,
            ..ModelRequest::default()
        };
        body_of(&request)
    };
    let body = choice(ToolChoice::Auto);
    assert_eq!(body["tool_choice"], json!({"type": "auto"}));
    assert_eq!(body["max_tokens"], 5);
    assert_eq!(body["temperature"], 0.2);
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(
        body["tools"][0]["input_schema"],
        json!({"type": "object", "properties": {}})
    );
    assert_eq!(
        choice(ToolChoice::Required)["tool_choice"],
        json!({"type": "any"})
    );
    assert_eq!(
        choice(ToolChoice::None)["tool_choice"],
        json!({"type": "none"})
    );
    assert_eq!(
        choice(ToolChoice::Tool("weather"))["tool_choice"],
        json!({"type": "tool", "name": "weather"})
    );
}

#[test]
fn tools_of_past_calls_are_described_even_when_none_are_offered() {
    let call = ToolCall::new("a", "weather", "{}");
    let body = sent(&[
        Message::user("1"),
        Message::Assistant(AssistantMessage {
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        }),
        Message::tool(&call, "rain"),
    ]);
    assert_eq!(body["tools"][0]["name"], "weather");
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn signed_thoughts_go_back_within_their_turn() {
    let thought = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let thoughtful = Message::Assistant(AssistantMessage {
        content: "a".into(),
        reasoning: Reasoning {
            details: vec![thought.clone(), json!({"type": "reasoning.text"})],
            ..Reasoning::default()
        },
        ..AssistantMessage::default()
    });
    let turns = plain_turns(&[
        Message::user("1"),
        thoughtful.clone(),
        Message::user("2"),
        thoughtful,
    ]);
    assert_eq!(turns[1]["content"], json!([text("a")]));
    assert_eq!(turns[3]["content"], json!([thought, text("a")]));
}

#[test]
fn a_thinking_model_gets_no_temperature() {
    let request = ModelRequest {
        temperature: Some(0.2),
        reasoning_effort: Some("low"),
        ..ModelRequest::default()
    };
    let body = body_of(&request);
    assert_eq!(body.get("temperature"), None);
    assert_eq!(body["thinking"]["budget_tokens"], 4_000);
}

#[test]
fn images_of_results_stand_in_the_result_for_a_model_that_sees() {
    let call = ToolCall::new("a", "camera", "{}");
    let messages = [
        Message::user("u"),
        Message::Assistant(AssistantMessage {
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        }),
        Message::tool(
            &call,
            vec![
                Part::from_text("one"),
                Part::from_image_bytes("image/png", b"\x89PNG"),
            ],
        ),
    ];
    let request = ModelRequest {
        messages: &messages,
        ..ModelRequest::default()
    };
    let mut endpoint = endpoint::for_tests(Protocol::AnthropicMessages, "https://x", "m");
    for sees_images in [true, false] {
        endpoint.supports_images = sees_images;
        let body: Value =
            serde_json::from_slice(&request_body(&endpoint, &request).unwrap()).unwrap();
        let result = &body["messages"][2]["content"][0];
        assert_eq!(result["type"], "tool_result");
        assert_eq!(result["content"][0], text("one"));
        assert_eq!(result["content"][1]["type"] == "image", sees_images);
    }
}
