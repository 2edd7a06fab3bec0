//! Bodies of requests.

use serde_json::json;

use super::*;
use crate::{
    message::{AssistantMessage, Reasoning},
    model::{Protocol, endpoint},
};

fn body_at(base_url: &str, request: &ModelRequest<'_>) -> Value {
    let endpoint = endpoint::for_tests(Protocol::ChatCompletions, base_url, "m");
    serde_json::from_slice(&request_body(&endpoint, request).unwrap()).unwrap()
}

fn body_of(request: &ModelRequest<'_>) -> Value {
    body_at("https://x/v1", request)
}

fn weather() -> ToolDefinition {
    ToolDefinition {
        name: "weather".into(),
        description: "tells it".into(),
        parameters: json!({"type": "object"}).into(),
    }
}

#[test]
fn a_plain_request_says_no_more_than_needed() {
    let messages = [Message::system("s"), Message::user("u")];
    let request = ModelRequest {
        messages: &messages,
        ..ModelRequest::default()
    };
    assert_eq!(
        body_of(&request),
        json!({
            "model": "m",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[test]
fn everything_that_is_asked_for_is_sent() {
    let (tools, stop) = ([weather()], ["END".to_owned()]);
    let extra = json!({"top_p": 0.5, "stream_options": null, "temperature": 1});
    let request = ModelRequest {
        tools: &tools,
        tool_choice: ToolChoice::Required,
        max_tokens: Some(9),
        temperature: Some(0.5),
        stop: &stop,
        reasoning_effort: Some("low"),
        extra_body: extra.as_object(),
        ..ModelRequest::default()
    };
    assert_eq!(
        body_of(&request),
        json!({
            "model": "m",
            "messages": [],
            "stream": true,
            "tools": [{"type": "function", "function":
                {"name": "weather", "description": "tells it", "parameters": {"type": "object"}}}],
            "tool_choice": "required",
            "max_tokens": 9,
            "temperature": 1,
            "stop": ["END"],
            "reasoning_effort": "low",
            "top_p": 0.5,
        })
    );
}

#[test]
fn every_tool_choice_has_its_word() {
    let tools = [weather()];
    let choice = |tool_choice, tools| {
        let request = ModelRequest {
            tools,
            tool_choice,
            ..ModelRequest::default()
        };
        body_of(&request)["tool_choice"].clone()
    };
    assert_eq!(choice(ToolChoice::Auto, &tools), Value::Null);
    assert_eq!(choice(ToolChoice::None, &tools), "none");
    assert_eq!(
        choice(ToolChoice::Tool("weather"), &tools),
        json!({"type": "function", "function": {"name": "weather"}})
    );
    assert_eq!(choice(ToolChoice::None, &[]), Value::Null);
}

#[test]
fn openai_and_openrouter_have_words_of_their_own() {
    let request = ModelRequest {
        max_tokens: Some(9),
        reasoning_effort: Some("high"),
        ..ModelRequest::default()
    };
    let openai = body_at("https://api.openai.com/v1", &request);
    assert_eq!(openai["max_completion_tokens"], 9);
    assert_eq!(openai.get("max_tokens"), None);
    assert_eq!(openai["reasoning_effort"], "high");
    let openrouter = body_at("https://openrouter.ai/api/v1", &request);
    assert_eq!(openrouter["max_tokens"], 9);
    assert_eq!(openrouter["reasoning"], json!({"effort": "high"}));
    assert_eq!(openrouter.get("reasoning_effort"), None);
}

#[test]
fn calls_and_results_go_back_with_valid_arguments() {
    let calls = vec![
        ToolCall::new("a", "weather", "{\"at\": \"x\"}"),
        ToolCall::new("b", "weather", "oh"),
    ];
    let messages = [
        Message::user("u"),
        Message::Assistant(AssistantMessage {
            tool_calls: calls.clone(),
            ..AssistantMessage::default()
        }),
        Message::tool(&calls[0], "rain"),
        Message::tool(
            &calls[1],
            vec![
                Part::from_text("sun"),
                Part::from_image_url("data:image/png;base64,AA"),
            ],
        ),
    ];
    let request = ModelRequest {
        messages: &messages,
        ..ModelRequest::default()
    };
    let body = body_of(&request);
    let sent = &body["messages"];
    assert_eq!(
        sent[1],
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"at\": \"x\"}"}},
            {"id": "b", "type": "function", "function": {"name": "weather", "arguments": "{\"_raw\":\"oh\"}"}},
        ]})
    );
    assert_eq!(
        sent[2],
        json!({"role": "tool", "tool_call_id": "a", "content": "rain"})
    );
    assert_eq!(sent[3]["content"], "sun");
    assert_eq!(
        sent[4],
        Value::Null,
        "a model that does not see gets no image"
    );
}

#[test]
fn images_of_results_follow_the_last_of_them_for_a_model_that_sees() {
    let calls = [
        ToolCall::new("a", "camera", "{}"),
        ToolCall::new("b", "camera", "{}"),
    ];
    let picture = "data:image/png;base64,AA";
    let messages = [
        Message::user("u"),
        Message::Assistant(AssistantMessage {
            tool_calls: calls.to_vec(),
            ..AssistantMessage::default()
        }),
        Message::tool(
            &calls[0],
            vec![Part::from_text("one"), Part::from_image_url(picture)],
        ),
        Message::tool(&calls[1], "two"),
        Message::user("and now?"),
    ];
    let request = ModelRequest {
        messages: &messages,
        ..ModelRequest::default()
    };
    let mut endpoint = endpoint::for_tests(Protocol::ChatCompletions, "https://x/v1", "m");
    endpoint.supports_images = true;
    let body: Value = serde_json::from_slice(&request_body(&endpoint, &request).unwrap()).unwrap();
    let sent = body["messages"].as_array().unwrap();
    let roles: Vec<_> = sent.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user", "user"]);
    assert_eq!(sent[2]["content"], "one");
    assert_eq!(sent[4]["content"][1]["image_url"]["url"], picture);
    assert_eq!(sent[5]["content"], "and now?");
}

#[test]
fn thoughts_go_back_only_within_their_turn() {
    let thoughtful = |kind: &str| {
        Message::Assistant(AssistantMessage {
            content: "hm".into(),
            reasoning: Reasoning {
                text: Some("t".into()),
                content: Some("t".into()),
                details: vec![json!({"type": kind})],
            },
            ..AssistantMessage::default()
        })
    };
    let messages = [
        Message::user("1"),
        thoughtful("reasoning.text"),
        Message::user("2"),
        thoughtful("reasoning.text"),
        thoughtful("thinking"),
    ];
    let request = ModelRequest {
        messages: &messages,
        ..ModelRequest::default()
    };
    let sent = body_of(&request)["messages"].clone();
    assert_eq!(sent[1], json!({"role": "assistant", "content": "hm"}));
    assert_eq!(
        sent[3],
        json!({"role": "assistant", "content": "hm", "reasoning_content": "t",
               "reasoning_details": [{"type": "reasoning.text"}]})
    );
    assert_eq!(sent[4].get("reasoning_details"), None);
}

#[test]
fn a_message_after_a_result_does_not_begin_a_turn() {
    let call = ToolCall::new("a", "look", "{}");
    let asks = || {
        Message::Assistant(AssistantMessage {
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        })
    };
    let mut messages = vec![
        Message::user("1"),
        Message::assistant("done"),
        Message::user("2"),
        asks(),
        Message::tool(&call, "seen"),
        Message::user("in blue"),
        Message::user("please"),
    ];
    assert_eq!(turn_start(&messages), 2);
    messages.push(Message::assistant("done"));
    messages.push(Message::user("3"));
    assert_eq!(turn_start(&messages), 8);
    assert_eq!(turn_start(&[]), 0);
}
